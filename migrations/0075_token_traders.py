"""Who bought a token and who sold it has a table of its own: counting them looks at no trade and at
no other wallet.
"""

from peewee import AutoField, CompositeKey, ForeignKeyField, Model, TextField


def up(migrator, db):
    class Wallet(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "wallet"

    class TokenTrader(Model):
        mint = TextField()
        side = TextField()
        wallet = ForeignKeyField(Wallet)

        class Meta:
            database = db
            table_name = "token_trader"
            strict_tables = True
            primary_key = CompositeKey("mint", "side", "wallet")

    db.create_tables([TokenTrader])
    db.execute_sql(
        "INSERT INTO token_trader (mint, side, wallet_id)"
        " SELECT DISTINCT mint, side, wallet_id FROM trade_mint WHERE side IS NOT NULL"
    )
    db.execute_sql("DROP INDEX trademint_mint_side_wallet_id")
