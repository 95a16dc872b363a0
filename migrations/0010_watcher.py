"""Which process observes a wallet, where several do."""

from peewee import BigIntegerField, Model, TextField


def up(migrator, db):
    class Watcher(Model):
        name = TextField(primary_key=True)
        until = BigIntegerField()

        class Meta:
            database = db
            table_name = "watcher"
            strict_tables = True

    db.create_tables([Watcher])
    migrator.migrate(migrator.add_column("wallet", "watcher", TextField(null=True)))
