"""Logs of other instances that this one watches: the last consistent checkpoint of each."""

from peewee import BigIntegerField, Model, TextField


def up(migrator, db):
    class Witnessed(Model):
        url = TextField(primary_key=True)
        key = TextField()
        note = TextField()
        checked_at = BigIntegerField()
        trouble = TextField(null=True)
        trouble_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "witnessed"
            strict_tables = True

    db.create_tables([Witnessed])
