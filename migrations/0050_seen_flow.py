"""What paper mode saw of observed wallets, with the first snapshot it was seen with."""

from peewee import AutoField, BigIntegerField, Model, TextField


def up(migrator, db):
    class SeenFlow(Model):
        id = AutoField()
        trade = TextField()
        mint = TextField()
        side = TextField()
        owner = BigIntegerField()
        wallet = TextField()
        at = BigIntegerField(index=True)
        first_snapshot = BigIntegerField()

        class Meta:
            database = db
            table_name = "seen_flow"
            strict_tables = True
            indexes = ((("trade", "mint", "side"), True),)

    db.create_tables([SeenFlow])
