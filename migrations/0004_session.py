"""Creators' sessions: a frozen copy of the model, deliberately independent of models.py."""

from peewee import BigIntegerField, ForeignKeyField, Model, TextField


def up(migrator, db):
    class Owner(Model):
        class Meta:
            database = db
            table_name = "owner"

    class Session(Model):
        owner = ForeignKeyField(Owner)
        hash = TextField(unique=True)
        created_at = BigIntegerField()
        seen_at = BigIntegerField()
        challenge = TextField(null=True)

        class Meta:
            database = db
            table_name = "session"
            strict_tables = True

    db.create_tables([Session])
