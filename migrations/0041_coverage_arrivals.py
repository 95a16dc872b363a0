"""An arrival may tell that a wallet's coverage changed."""

from peewee import AutoField, ForeignKeyField, Model


def up(migrator, db):
    class Wallet(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "wallet"

    migrator.migrate(
        migrator.add_column(
            "arrival", "wallet_id", ForeignKeyField(Wallet, field=Wallet.id, null=True, index=False)
        )
    )
