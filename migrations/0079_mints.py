"""Mints have numbers: what a trade moved names one in three bytes instead of 44, in its row and in
each of four indexes.
"""

from peewee import AutoField, BigIntegerField, ForeignKeyField, IntegerField, Model, TextField

NUMBER = "(SELECT id FROM mint WHERE address = trade_mint.mint)"


def up(migrator, db):
    trade_mint, mint = _define(db)
    mint._schema.create_all()
    db.execute_sql("INSERT INTO mint (address) SELECT DISTINCT mint FROM trade_mint ORDER BY mint")
    (_rebuild if db.engine == "sqlite" else _alter)(db, trade_mint)
    trade_mint._schema.create_indexes()


def _rebuild(db, trade_mint):
    """A table that is written anew takes no more room than it needs; one whose rows shrink does."""
    db.execute_sql("ALTER TABLE trade_mint RENAME TO trade_mint_before")
    trade_mint._schema.create_table()
    db.execute_sql(
        "INSERT INTO trade_mint (id, trade_id, wallet_id, mint_id, side, slot, place)"
        " SELECT b.id, b.trade_id, b.wallet_id, m.id, b.side, b.slot, b.place"
        " FROM trade_mint_before b JOIN mint m ON m.address = b.mint ORDER BY b.id"
    )
    db.execute_sql("DROP TABLE trade_mint_before")


def _alter(db, trade_mint):
    for statement in (
        "ALTER TABLE trade_mint ADD COLUMN mint_id BIGINT REFERENCES mint (id)",
        f"UPDATE trade_mint SET mint_id = {NUMBER}",
        "ALTER TABLE trade_mint ALTER COLUMN mint_id SET NOT NULL",
        "ALTER TABLE trade_mint DROP COLUMN mint",
        "DROP INDEX trademint_trade_id",
    ):
        db.execute_sql(statement)


def _define(db):
    class Mint(Model):
        id = AutoField()
        address = TextField(unique=True)

        class Meta:
            database = db
            table_name = "mint"
            strict_tables = True

    class Trade(Model):
        class Meta:
            database = db
            table_name = "trade"

    class Wallet(Model):
        class Meta:
            database = db
            table_name = "wallet"

    class TradeMint(Model):
        id = AutoField()
        trade = ForeignKeyField(Trade, on_delete="CASCADE")
        wallet = ForeignKeyField(Wallet, index=False)
        mint = ForeignKeyField(Mint, index=False)
        side = TextField(null=True)
        slot = BigIntegerField()
        place = IntegerField()

        class Meta:
            database = db
            table_name = "trade_mint"
            strict_tables = True
            indexes = (
                (("mint", "slot", "place", "trade", "side"), False),
                (("wallet", "mint", "slot", "place", "trade"), False),
                (("mint", "trade"), False),
                (("wallet", "mint", "trade"), False),
            )

    return TradeMint, Mint
