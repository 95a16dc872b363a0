"""Tables of the controls: the twins that enter at random, and their closes."""

from peewee import (
    AutoField,
    BigIntegerField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base
from paper.tables import Period


class TwinState(Base):
    """The twin of an account period, as it is now. All of it is rewritten by the engine."""

    id = AutoField()
    period = ForeignKeyField(Period, unique=True, backref="twins")
    # JSON; see paper.twin_store.
    state = TextField()
    # JSON list: what it holds or has ordered.
    mints = TextField(default="[]")
    # JSON {adaptive rule: how often it found reason for a pause}.
    fired = TextField(default="{}")
    lessons = IntegerField(default=0)
    # Lamports, as the next ones: cash, and what its pools would pay for what it holds.
    cash = BigIntegerField()
    worth = BigIntegerField(default=0)
    # What a SOL cost when it began and last, in USD cents.
    sol_cents_first = BigIntegerField(null=True)
    sol_cents_last = BigIntegerField(null=True)
    started_at = BigIntegerField()


class TwinClose(Base):
    """A closed position of a twin. Rows are never changed."""

    id = AutoField()
    period = ForeignKeyField(Period, backref="twin_closes", index=False)
    number = IntegerField()
    mint = TextField()
    symbol = TextField()
    opened_at = BigIntegerField()
    closed_at = BigIntegerField(index=True)
    reason = TextField()
    # Lamports, as the next ones.
    gross = BigIntegerField()
    net = BigIntegerField()
    spent = BigIntegerField()
    pipeline = TextField()
    # JSON list; `under_review` where a review would have asked about the position.
    marks = TextField()

    class Meta:
        indexes = ((("period", "number"), True),)


class TwinFill(Base):
    """An attempt of a twin to fill an order on a snapshot. Rows are never changed."""

    id = AutoField()
    period = ForeignKeyField(Period, backref="twin_fills")
    order_number = IntegerField()
    # Number of its position; null for a failed attempt before there was one.
    position = IntegerField(null=True)
    mint = TextField()
    # buy | sell
    side = TextField()
    # Ids of snapshots.
    decided_on = BigIntegerField()
    snapshot = BigIntegerField()
    at = BigIntegerField()
    raw = TextField()  # type: ignore[assignment]
    # Lamports, as the next ones.
    mid = BigIntegerField()
    slippage = BigIntegerField()
    pool_fee = BigIntegerField()
    network_fee = BigIntegerField()
    rent = BigIntegerField()
    failed = BooleanField()
    reason = TextField()
    model = TextField()
    # Rebuilds start from these. Of its order, as paper_order; `mark` is the last price of the token
    # that its position was valued at.
    decided_at = BigIntegerField()
    amount = TextField()
    least = TextField()
    decimals = IntegerField()
    transfer_bps = IntegerField()
    mark = TextField(null=True)
    # Of the fill, as paper_fill.
    marks = TextField()
    flow = BigIntegerField()
    turn = IntegerField()
    costs = TextField(null=True)


TABLES = (TwinState, TwinClose, TwinFill)
