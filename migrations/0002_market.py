"""Tokens and their price snapshots: a frozen copy of the models, deliberately independent of
models.py.
"""

from peewee import BigIntegerField, BooleanField, ForeignKeyField, IntegerField, Model, TextField


def up(migrator, db):
    class Token(Model):
        source = TextField(null=True)
        price_sol = TextField(null=True)
        price_usd = TextField(null=True)
        liquidity_usd = TextField(null=True)
        pool_sol = TextField(null=True)
        volume24h_usd = TextField(null=True)
        absurd = TextField(null=True)
        mint = TextField(unique=True)
        symbol = TextField(null=True)
        name = TextField(null=True)
        decimals = IntegerField(null=True)
        found_by = TextField(null=True)
        discovered_at = BigIntegerField(null=True)
        tracked_at = BigIntegerField(null=True)
        held = BooleanField(default=False)
        asked_at = BigIntegerField(default=0)
        quoted_at = BigIntegerField(null=True)
        pair_url = TextField(null=True)
        pair_created_at = BigIntegerField(null=True)
        checks = TextField(null=True)
        checked_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "token"
            strict_tables = True
            indexes = ((("tracked_at",), False),)

    db.create_tables([Token])
    db.execute_sql(
        "CREATE INDEX token_listed ON token (discovered_at, id) WHERE tracked_at IS NOT NULL"
    )

    class Snapshot(Model):
        source = TextField(null=True)
        price_sol = TextField(null=True)
        price_usd = TextField(null=True)
        liquidity_usd = TextField(null=True)
        pool_sol = TextField(null=True)
        volume24h_usd = TextField(null=True)
        absurd = TextField(null=True)
        token = ForeignKeyField(Token, index=False)
        taken_at = BigIntegerField()
        expires_at = BigIntegerField(null=True, index=True)

        class Meta:
            database = db
            table_name = "snapshot"
            strict_tables = True
            indexes = ((("token", "taken_at"), False),)

    db.create_tables([Snapshot])
