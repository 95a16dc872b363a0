"""What paper accounts were worth over time."""

from peewee import AutoField, BigIntegerField, ForeignKeyField, Model


def up(migrator, db):
    class Period(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "period"

    class EquityMark(Model):
        id = AutoField()
        period = ForeignKeyField(Period, index=False)
        at = BigIntegerField(index=True)
        equity = BigIntegerField()
        held = BigIntegerField()

        class Meta:
            database = db
            table_name = "equity_mark"
            strict_tables = True
            indexes = ((("period", "at"), True),)

    db.create_tables([EquityMark])
