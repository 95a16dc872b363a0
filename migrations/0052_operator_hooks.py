"""A hook may be nobody's: what the operator's own settings send."""

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
    if db.engine != "sqlite":
        db.execute_sql("ALTER TABLE hook ALTER COLUMN owner_id DROP NOT NULL")
        return

    class Owner(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "owner"

    class Hook(Model):
        id = AutoField()
        uid = TextField(unique=True)
        owner = ForeignKeyField(Owner, null=True)
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

    # SQLite cannot take NOT NULL away from a column.
    rows = list(Hook.select().tuples())
    db.drop_tables([Hook])
    db.create_tables([Hook])
    for row in rows:
        Hook.insert(dict(zip(Hook._meta.sorted_field_names, row, strict=True))).execute()
