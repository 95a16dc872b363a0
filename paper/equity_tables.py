"""The table of what paper accounts were worth over time."""

from peewee import AutoField, BigIntegerField, ForeignKeyField

from models import Base
from paper.tables import Period


class EquityMark(Base):
    """What an account was worth at the end of ten minutes, at what its pools would have paid."""

    id = AutoField()
    period = ForeignKeyField(Period, backref="equity_marks", index=False)
    # When the ten minutes began, in ms.
    at = BigIntegerField(index=True)
    # Lamports: of cash and positions together, and of the positions alone.
    equity = BigIntegerField()
    held = BigIntegerField()

    class Meta:
        indexes = ((("period", "at"), True),)


TABLES = (EquityMark,)
