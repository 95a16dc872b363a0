"""Real swaps beside what the fill model said of them, and what they paid the network."""

from peewee import AutoField, BigIntegerField, IntegerField, Model, TextField


def up(migrator, db):
    class RealFill(Model):
        id = AutoField()
        uid = TextField(unique=True)
        at = BigIntegerField()
        venue = TextField()
        side = TextField()
        mint = TextField()
        lamports = BigIntegerField()
        predicted = TextField()
        real = TextField()
        bps = IntegerField()
        snapshot = BigIntegerField()
        age_ms = BigIntegerField()
        model = TextField()

        class Meta:
            database = db
            table_name = "real_fill"
            strict_tables = True
            indexes = ((("venue", "at"), False),)

    class NetworkCost(Model):
        id = AutoField()
        at = BigIntegerField()
        p50 = BigIntegerField()
        p75 = BigIntegerField()
        p90 = BigIntegerField()
        rent = BigIntegerField(null=True)
        receipts = IntegerField()
        since = BigIntegerField()

        class Meta:
            database = db
            table_name = "network_cost"
            strict_tables = True

    db.create_tables([RealFill, NetworkCost])
