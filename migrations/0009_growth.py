"""What keeps lists as quick at a million trades: the wallet beside each moved mint, running totals
by the hour. Totals are made by the next fold.
"""

from peewee import BigIntegerField, CompositeKey, ForeignKeyField, IntegerField, Model, TextField


def up(migrator, db):
    class Wallet(Model):
        class Meta:
            database = db
            table_name = "wallet"

    class Trade(Model):
        class Meta:
            database = db
            table_name = "trade"

    db.execute_sql(
        "CREATE TABLE moved_before AS SELECT m.id, m.trade_id, t.wallet_id, m.mint, m.side, m.slot,"
        " m.place FROM trade_mint m JOIN trade t ON t.id = m.trade_id"
    )
    db.execute_sql("DROP TABLE trade_mint")

    class TradeMint(Model):
        trade = ForeignKeyField(Trade, on_delete="CASCADE")
        wallet = ForeignKeyField(Wallet, index=False)
        mint = TextField()
        side = TextField(null=True)
        slot = BigIntegerField()
        place = IntegerField(default=0)

        class Meta:
            database = db
            table_name = "trade_mint"
            strict_tables = True
            indexes = (
                (("mint", "slot", "place", "trade", "side"), False),
                (("wallet", "mint", "slot", "place", "trade"), False),
                (("mint", "side", "wallet"), False),
            )

    db.create_tables([TradeMint])
    db.execute_sql(
        "INSERT INTO trade_mint (trade_id, wallet_id, mint, side, slot, place) SELECT trade_id,"
        " wallet_id, mint, side, slot, place FROM moved_before ORDER BY id"
    )
    db.execute_sql("DROP TABLE moved_before")

    class HourTotal(Model):
        wallet = ForeignKeyField(Wallet, index=False)
        hour = IntegerField()
        realized = BigIntegerField()
        volume = BigIntegerField()
        trades = IntegerField()
        matched = IntegerField()
        partial = IntegerField()
        unmatched = IntegerField()
        winning = IntegerField()

        class Meta:
            database = db
            table_name = "hour_total"
            strict_tables = True
            primary_key = CompositeKey("wallet", "hour")

    db.create_tables([HourTotal])

    db.execute_sql("CREATE INDEX post_source_id ON post (source, id)")
    db.execute_sql(
        "DROP INDEX sighting_wallet_id"
    )  # two others begin with it, and SQLite took it for better
