"""Controls of paper traders: twins that enter at random, their closes and fills."""

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
    class Period(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "period"

    class TwinState(Model):
        id = AutoField()
        period = ForeignKeyField(Period, unique=True)
        state = TextField()
        mints = TextField()
        fired = TextField()
        lessons = IntegerField()
        cash = BigIntegerField()
        worth = BigIntegerField()
        sol_cents_first = BigIntegerField(null=True)
        sol_cents_last = BigIntegerField(null=True)
        started_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "twin_state"
            strict_tables = True

    class TwinClose(Model):
        id = AutoField()
        period = ForeignKeyField(Period, index=False)
        number = IntegerField()
        mint = TextField()
        symbol = TextField()
        opened_at = BigIntegerField()
        closed_at = BigIntegerField(index=True)
        reason = TextField()
        gross = BigIntegerField()
        net = BigIntegerField()
        spent = BigIntegerField()
        pipeline = TextField()
        marks = TextField()

        class Meta:
            database = db
            table_name = "twin_close"
            strict_tables = True
            indexes = ((("period", "number"), True),)

    class TwinFill(Model):
        id = AutoField()
        period = ForeignKeyField(Period)
        order_number = IntegerField()
        position = IntegerField(null=True)
        mint = TextField()
        side = TextField()
        decided_on = BigIntegerField()
        snapshot = BigIntegerField()
        at = BigIntegerField()
        raw = TextField()
        mid = BigIntegerField()
        slippage = BigIntegerField()
        pool_fee = BigIntegerField()
        network_fee = BigIntegerField()
        rent = BigIntegerField()
        failed = BooleanField()
        reason = TextField()
        model = TextField()

        class Meta:
            database = db
            table_name = "twin_fill"
            strict_tables = True

    db.create_tables([TwinState, TwinClose, TwinFill])
