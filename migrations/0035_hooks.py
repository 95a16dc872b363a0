"""Hooks: addresses that are told what an owner's bots do."""

from peewee import (
    AutoField,
    BigIntegerField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)


def up(migrator, db):
    class Owner(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "owner"

    class Hook(Model):
        id = AutoField()
        uid = TextField(unique=True)
        owner = ForeignKeyField(Owner)
        kind = TextField()
        url = TextField()
        secret = TextField(null=True)
        events = TextField()
        bots = TextField()
        state = TextField()
        delivered = BigIntegerField()
        ping = BooleanField()
        failures = IntegerField()
        failing_since = BigIntegerField(null=True)
        due_at = BigIntegerField()
        delivered_at = BigIntegerField(null=True)
        last_error = TextField(null=True)
        created_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "hook"
            strict_tables = True

    db.create_tables([Hook])
