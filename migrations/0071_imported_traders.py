"""Paper traders that were brought from another instance."""

from peewee import AutoField, BigIntegerField, ForeignKeyField, Model, TextField


def up(migrator, db):
    class Trader(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "trader"

    class ImportedTrader(Model):
        trader = ForeignKeyField(Trader, primary_key=True)
        original_uid = TextField()
        original_at = BigIntegerField()
        instance = TextField()

        class Meta:
            database = db
            table_name = "imported_trader"
            strict_tables = True

    db.create_tables([ImportedTrader])
