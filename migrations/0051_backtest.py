"""Backtests that owners asked for, with what came of them."""

from peewee import AutoField, BigIntegerField, ForeignKeyField, IntegerField, Model, TextField


def up(migrator, db):
    class Owner(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "owner"

    class Backtest(Model):
        id = AutoField()
        uid = TextField(unique=True)
        owner = ForeignKeyField(Owner, index=False)
        asked = TextField()
        state = TextField()
        progress = IntegerField()
        result = TextField(null=True)
        error = TextField(null=True)
        created_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "backtest"
            strict_tables = True
            indexes = ((("owner", "id"), False),)

    db.create_tables([Backtest])
