"""Tables of paper mode: traders, their accounts, orders, fills, positions, diaries and posts."""

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Owner


class Trader(Base):
    """An influencer of paper mode. Its money is in its account periods; the columns after
    `retired_at` are the engine's.
    """

    # the order in which traders are asked
    id = AutoField()
    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, backref="traders")
    # lower case, derived from the name; seeds its chances
    handle = TextField(unique=True)
    name = TextField()
    # What it shares with names that look like it; see accounts.names.
    likeness = TextField(default="", index=True)
    bio = TextField(default="")
    # JSON, as Bot's
    voice = TextField()
    # momentum | mean_reversion | breakout | flow
    family = TextField()
    # JSON {public name of a setting: whole number}, what differs from the defaults
    settings = TextField(default="{}")
    # guarded | standard
    start_mode = TextField(default="guarded")
    # off | observe | on
    adaptive = TextField(default="observe")
    created_at = BigIntegerField()
    retired_at = BigIntegerField(null=True)
    # JSON {name, since, closes, days, last_day}
    phase = TextField()
    next_order = IntegerField(default=1)
    next_position = IntegerField(default=1)
    # counts the writes that a tick under way must not overwrite
    version = IntegerField(default=0)


class Period(Base):
    """A numbered account of a trader. A reset closes one and opens the next; a closed one stays
    readable.
    """

    id = AutoField()
    trader = ForeignKeyField(Trader, backref="periods", index=False)
    number = IntegerField()
    # lamports, as all money here
    starting_cash = BigIntegerField()
    cash = BigIntegerField()
    # of orders that never opened a position
    lost_fees = BigIntegerField(default=0)
    # highest equity since the phase began
    peak = BigIntegerField()
    # UTC day, counted from 1970, of day_equity
    day = BigIntegerField(default=-1)
    day_equity = BigIntegerField()
    opened_at = BigIntegerField()
    closed_at = BigIntegerField(null=True)
    closing_reason = TextField(null=True)

    class Meta:
        indexes = ((("trader", "number"), True),)


Period.add_index(
    Period.index(
        Period.trader, unique=True, where=SQL("closed_at IS NULL"), name="period_open_trader"
    )
)


class PaperOrder(Base):
    """A decision and what became of it. Written once; only `done`, `attempts`, `lost` and `state`
    move, until it is over.
    """

    id = AutoField()
    period = ForeignKeyField(Period, backref="orders", index=False)
    # of the trader, over all its periods
    number = IntegerField()
    mint = TextField()
    symbol = TextField()
    decimals = IntegerField()
    # buy | sell
    side = TextField()
    # lamports to spend, or raw units to sell
    amount = TextField()
    reason = TextField()
    # snapshot id
    decided_on = BigIntegerField()
    decided_at = BigIntegerField()
    due_at = BigIntegerField()
    expires_at = BigIntegerField()
    done = TextField(default="0")
    attempts = IntegerField(default=0)
    # lamports
    lost = BigIntegerField(default=0)
    # open | filled | part_filled | expired | refused | restart | failed | cancelled
    state = TextField()

    class Meta:
        indexes = ((("period", "number"), True),)


PaperOrder.add_index(
    PaperOrder.index(PaperOrder.period, where=SQL("state = 'open'"), name="paper_order_open")
)


class PaperFill(Base):
    """One attempt to fill an order on a snapshot, in the order of the engine. Never changed."""

    id = AutoField()
    order = ForeignKeyField(PaperOrder, backref="fills")
    # number; null for a failed attempt before there was one
    position = IntegerField(null=True)
    # id
    snapshot = BigIntegerField(index=True)
    at = BigIntegerField()
    raw = TextField()  # type: ignore[assignment]
    # lamports, as the next ones
    mid = BigIntegerField()
    slippage = BigIntegerField()
    pool_fee = BigIntegerField()
    network_fee = BigIntegerField()
    rent = BigIntegerField()
    failed = BooleanField()
    # JSON list
    marks = TextField()
    model = TextField()


class Position(Base):
    """What a trader holds of a mint; closed, it is a close and never changes again."""

    id = AutoField()
    period = ForeignKeyField(Period, backref="positions", index=False)
    # of the trader, over all its periods
    number = IntegerField()
    mint = TextField()
    symbol = TextField()
    decimals = IntegerField()
    opened_at = BigIntegerField()
    # at entry, USD cents
    liquidity = BigIntegerField(null=True)
    # the mark and the highest mark: SOL times 10**24
    price = TextField()
    high = TextField()
    marked_at = BigIntegerField()
    # snapshot id
    marked_on = BigIntegerField()
    # snapshots
    held = IntegerField()
    reduced = BooleanField()
    raw = TextField()  # type: ignore[assignment]
    bought_raw = TextField()
    # lamports, as the next ones
    mid_bought = BigIntegerField()
    mid_sold = BigIntegerField()
    slippage = BigIntegerField()
    fees = BigIntegerField()
    rent = BigIntegerField()
    # net, once it is closed
    cash = BigIntegerField()
    spent = BigIntegerField()
    latency_ms = BigIntegerField()
    # JSON list
    marks = TextField()
    pipeline = TextField()
    closed_at = BigIntegerField(null=True, index=True)
    reason = TextField(null=True)

    class Meta:
        indexes = ((("period", "number"), True),)


Position.add_index(
    Position.index(Position.period, where=SQL("closed_at IS NULL"), name="position_open")
)


class DiaryEntry(Base):
    """A line of a trader's diary. Append-only."""

    id = AutoField()
    period = ForeignKeyField(Period, backref="diary", index=False)
    at = BigIntegerField()
    # decision | fill | refusal | pause | lesson | review | phase
    kind = TextField()
    mint = TextField(null=True)
    order_number = IntegerField(null=True)
    # JSON, flat, display texts; see paper.engine
    facts = TextField()

    class Meta:
        indexes = ((("period", "id"), False), (("kind", "at"), False))


class PaperPost(Base):
    """What a trader said about a line of its diary, in the words it had then."""

    id = AutoField()
    uid = TextField(unique=True)
    entry = ForeignKeyField(DiaryEntry, unique=True)
    trader = ForeignKeyField(Trader, backref="posts", index=False)
    body = TextField()
    mint = TextField(null=True)
    symbol = TextField(null=True)
    # built-in | model
    writer = TextField()
    event_at = BigIntegerField()
    created_at = BigIntegerField()

    class Meta:
        indexes = ((("trader", "id"), False), (("mint", "id"), False))


class Review(Base):
    """A question about the record of an account period. While it is open or upheld, its headline is
    withheld.
    """

    id = AutoField()
    period = ForeignKeyField(Period, backref="reviews", index=False)
    # under_review | cleared | upheld
    state = TextField()
    # JSON [{key, code, detail, symbol, at}...]
    reasons = TextField()
    opened_at = BigIntegerField()
    decided_at = BigIntegerField(null=True)
    # the operator's reason
    decision = TextField(null=True)

    class Meta:
        indexes = ((("period", "id"), False),)


class EngineState(Base):
    """One row: how far paper mode has read the snapshots, and its own diary."""

    id = IntegerField(primary_key=True)
    # id of the last one that was played
    snapshot = BigIntegerField()
    # id of the last diary entry that was considered for a post
    entry = BigIntegerField(default=0)


TABLES = (
    Trader,
    Period,
    PaperOrder,
    PaperFill,
    Position,
    DiaryEntry,
    PaperPost,
    Review,
    EngineState,
)
