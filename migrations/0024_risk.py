"""The risk of realized results, results by token, and what a wallet earned since its attachments.
The next poll of the observer, or a rebuild, works them out from the ledger.
"""

from peewee import BigIntegerField, CompositeKey, ForeignKeyField, IntegerField, Model, TextField


def up(migrator, db):
    for table in ("attachment", "wallet"):
        migrator.migrate(migrator.add_column(table, "forward_realized", BigIntegerField(null=True)))
    # Those that nobody holds any more are derived again for the sake of the new tables.
    db.execute_sql("UPDATE attachment SET open_cost = NULL WHERE detached_at IS NOT NULL")
    db.create_tables(make_tables(db))
    db.execute_sql("CREATE INDEX wallet_forward_realized ON wallet (forward_realized)")


def make_tables(database_):
    class Wallet(Model):
        class Meta:
            database = database_
            table_name = "wallet"

    class RiskTotal(Model):
        wallet = ForeignKeyField(Wallet, index=False)
        span = BigIntegerField()
        hours = IntegerField()
        begins = IntegerField()
        realized = BigIntegerField()
        high = BigIntegerField()
        low = BigIntegerField()
        drawdown = BigIntegerField()
        sales = IntegerField()
        winning = IntegerField()
        best = BigIntegerField(null=True)
        worst = BigIntegerField(null=True)
        closed = IntegerField()
        won = IntegerField()
        uncounted = IntegerField()
        days = IntegerField()
        first_day = IntegerField(null=True)
        last_day = IntegerField(null=True)
        median_holding = BigIntegerField(null=True)
        holdings = TextField()

        class Meta:
            database = database_
            table_name = "risk_total"
            strict_tables = True
            primary_key = CompositeKey("wallet", "span", "hours", "begins")

    class TokenTotal(Model):
        wallet = ForeignKeyField(Wallet, index=False)
        span = BigIntegerField()
        mint = TextField()
        realized = BigIntegerField()
        sales = IntegerField()
        winning = IntegerField()

        class Meta:
            database = database_
            table_name = "token_total"
            strict_tables = True
            primary_key = CompositeKey("wallet", "span", "mint")
            indexes = ((("wallet", "span", "realized"), False),)

    return RiskTotal, TokenTotal
