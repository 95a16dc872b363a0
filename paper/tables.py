"""Paper mode's tables: traders, their accounts, and the fill model measured on real swaps."""

from peewee import (
    SQL,
    BigIntegerField,
    BooleanField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Bot, Owner, Trade


class Trader(Base):
    """A paper trader, without its money. The engine writes the columns after `retired_at`."""

    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, backref="traders")
    owner_id: int
    # Lowercase and derived from the name. It seeds everything random.
    handle = TextField(unique=True)
    name = TextField()
    # Look-alike names share it (accounts.fields).
    likeness = TextField(default="", index=True)
    bio = TextField(default="")
    # JSON as in Bot.
    voice = TextField()
    # momentum | mean_reversion | breakout | flow | copy
    family = TextField()
    # JSON {public name: whole number or bot ID} of the settings that differ from the default.
    settings = TextField(default="{}")
    # guarded | standard
    start_mode = TextField(default="guarded")
    # off | observe | on
    adaptive = TextField(default="observe")
    created_at = BigIntegerField()
    retired_at = BigIntegerField(null=True)
    # JSON {name, since, closes, days, last_day}
    phase = TextField()
    # Counts writes by others, which a running tick must not overwrite.
    version = IntegerField(default=0)


class Period(Base):
    """A numbered account of a trader or of a twin. A reset closes it and opens the next one."""

    trader = ForeignKeyField(Trader, backref="periods", index=False)
    number = IntegerField()
    # 0 is the trader's own. 1 to 3 are a twin's, which are never shown.
    twin = IntegerField(default=0)
    # All money is in lamports.
    starting_cash = BigIntegerField()
    cash = BigIntegerField()
    # Fees of orders that didn't open a position.
    lost_fees = BigIntegerField(default=0)
    # The highest equity since the phase began.
    peak = BigIntegerField()
    # The UTC day of `day_equity`, counted from 1970.
    day = BigIntegerField(default=-1)
    day_equity = BigIntegerField()
    # Numbers continue across a trader's periods.
    next_order = IntegerField(default=1)
    next_position = IntegerField(default=1)
    # A twin's JSON list of paper.player.Ticket.
    tickets = TextField(default="[]")
    opened_at = BigIntegerField()
    closed_at = BigIntegerField(null=True)
    closing_reason = TextField(null=True)

    class Meta:
        indexes = ((("trader", "number", "twin"), True),)


Period.add_index(
    Period.index(
        Period.trader,
        Period.twin,
        unique=True,
        where=SQL("closed_at IS NULL"),
        name="period_open_trader",
    )
)


class PaperOrder(Base):
    """A paper.fills.Order. Only `done`, `attempts`, `lost` and `state` change, until it ends."""

    period = ForeignKeyField(Period, backref="orders", index=False)
    number = IntegerField()
    mint = TextField()
    symbol = TextField()
    decimals = IntegerField()
    side = TextField()
    amount = TextField()
    reason = TextField()
    decided_on = BigIntegerField()
    decided_at = BigIntegerField()
    due_at = BigIntegerField()
    expires_at = BigIntegerField()
    least = TextField(default="0")
    transfer_bps = IntegerField(default=0)
    detail = TextField(default="")
    done = TextField(default="0")
    attempts = IntegerField(default=0)
    lost = BigIntegerField(default=0)
    state = TextField()

    class Meta:
        indexes = ((("period", "number"), True),)


PaperOrder.add_index(
    PaperOrder.index(PaperOrder.period, where=SQL("state = 'open'"), name="paper_order_open")
)


class PaperFill(Base):
    """A paper.fills.Fill. Rows never change."""

    order = ForeignKeyField(PaperOrder, backref="fills")
    # The position's number, or null for a failed attempt before there was one.
    position = IntegerField(null=True)
    snapshot = BigIntegerField(index=True)
    at = BigIntegerField()
    raw = TextField()  # type: ignore[assignment]
    mid = BigIntegerField()
    slippage = BigIntegerField()
    pool_fee = BigIntegerField()
    network_fee = BigIntegerField()
    rent = BigIntegerField()
    failed = BooleanField()
    marks = TextField()
    model = TextField()
    flow = BigIntegerField(default=0)
    turn = BigIntegerField(default=0)
    # JSON list of the quantiles from which its network fee was drawn.
    costs = TextField(null=True)


class PaperPosition(Base):
    """A paper.account.Position. Once it is closed, it never changes again."""

    period = ForeignKeyField(Period, backref="positions", index=False)
    number = IntegerField()
    mint = TextField()
    symbol = TextField()
    decimals = IntegerField()
    opened_at = BigIntegerField()
    liquidity = BigIntegerField(null=True)
    price = TextField()
    high = TextField()
    marked_at = BigIntegerField()
    marked_on = BigIntegerField()
    held = IntegerField()
    reduced = BooleanField()
    raw = TextField()  # type: ignore[assignment]
    bought_raw = TextField()
    mid_bought = BigIntegerField()
    mid_sold = BigIntegerField()
    slippage = BigIntegerField()
    fees = BigIntegerField()
    rent = BigIntegerField()
    cash = BigIntegerField()
    spent = BigIntegerField()
    latency_ms = BigIntegerField()
    worth = BigIntegerField(null=True)
    pair = TextField(null=True)
    marks = TextField()
    pipeline = TextField()
    closed_at = BigIntegerField(null=True, index=True)
    reason = TextField(null=True)

    class Meta:
        table_name = "position"
        indexes = ((("period", "number"), True),)


PaperPosition.add_index(
    PaperPosition.index(PaperPosition.period, where=SQL("closed_at IS NULL"), name="position_open")
)


class DiaryEntry(Base):
    """A paper.player.DiaryLine. Append-only."""

    period = ForeignKeyField(Period, backref="diary", index=False)
    at = BigIntegerField()
    kind = TextField()
    mint = TextField(null=True)
    order_number = IntegerField(null=True)
    # JSON of display texts by name (paper.brain).
    facts = TextField()

    class Meta:
        indexes = ((("period", "id"), False), (("kind", "at"), False))


class PaperPost(Base):
    """A trader's post about a diary line. Once hidden, it has neither body nor symbol."""

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
    hidden_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("trader", "id"), False), (("mint", "id"), False))


class Review(Base):
    """A doubt about a period's record. The headline is withheld while it is open or was upheld."""

    period = ForeignKeyField(Period, backref="reviews", index=False)
    # under_review | cleared | upheld
    state = TextField()
    # JSON [{key, code, detail, symbol, at}...].
    reasons = TextField()
    opened_at = BigIntegerField()
    decided_at = BigIntegerField(null=True)
    decision = TextField(null=True)

    class Meta:
        indexes = ((("period", "id"), False),)


class Backtest(Base):
    """A backtest that an owner started, and its result."""

    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, index=False)
    # JSON {family, set, from, to, start}, as typed.
    asked = TextField()
    # running | done | failed
    state = TextField()
    # In percent.
    progress = IntegerField(default=0)
    # JSON (paper.backtests).
    result = TextField(null=True)
    error = TextField(null=True)
    created_at = BigIntegerField()

    class Meta:
        indexes = ((("owner", "id"), False),)


class SeenFlow(Base):
    """A paper.market.Flow. Rows never change, even if the trade is deleted."""

    # The trade's uid.
    trade = TextField()
    mint = TextField()
    side = TextField()
    owner = BigIntegerField()
    wallet = TextField()
    bot = TextField(default="")
    share_bps = IntegerField(default=10_000)
    at = BigIntegerField(index=True)
    first_snapshot = BigIntegerField()

    class Meta:
        indexes = ((("trade", "mint", "side"), True),)


class EngineState(Base):
    """How far paper mode has read the snapshots and its diaries. One row."""

    id = IntegerField(primary_key=True)
    # The last processed snapshot.
    snapshot = BigIntegerField()
    # The last line that was considered for a post.
    entry = BigIntegerField(default=0)


class EquityMark(Base):
    """An account's value at the end of ten minutes, at what its pools would have paid."""

    period = ForeignKeyField(Period, backref="equity_marks", index=False)
    # When the interval began, in ms.
    at = BigIntegerField(index=True)
    # Lamports: cash and positions together, and positions only.
    equity = BigIntegerField()
    held = BigIntegerField()
    # USD cents per SOL.
    sol_cents = BigIntegerField(null=True)

    class Meta:
        indexes = ((("period", "at"), True),)


class RealFill(Base):
    """A paper.measured.RealSwap, and its difference from the model. Rows never change."""

    uid = TextField(unique=True)
    at = BigIntegerField()
    venue = TextField()
    side = TextField()
    mint = TextField()
    lamports = BigIntegerField()
    raw = TextField()  # type: ignore[assignment]
    # How much less than the model's result it got, by the reserves in its own transaction and by
    # the preceding snapshot. Null if unknown.
    bps = IntegerField(null=True)
    drift_bps = IntegerField(null=True)
    # The preceding snapshot's ID and age, or null if there isn't one.
    snapshot = BigIntegerField(null=True)
    age_ms = BigIntegerField(null=True)
    model = TextField()

    class Meta:
        indexes = ((("venue", "at"), False),)


class NetworkCost(Base):
    """The lamports that observed wallets' swaps paid the network, once a day. Rows never change."""

    at = BigIntegerField()
    p50 = BigIntegerField()
    p75 = BigIntegerField()
    p90 = BigIntegerField()
    # The median rent of new token accounts, or null if there were none.
    rent = BigIntegerField(null=True)
    receipts = IntegerField()
    since = BigIntegerField()


class CopyTotal(Base):
    """The result of a follower with `size` lamports per purchase right behind a bot
    (paper.copying).

    `mark` identifies the data from which it was computed at `at` (ms). `excluded` is JSON [[reason,
    slices]...]. Returns are in basis points, shares are percentages.
    """

    bot = ForeignKeyField(Bot, index=False, on_delete="CASCADE")
    size = BigIntegerField()
    mark = TextField()
    at = BigIntegerField()
    return_bps = BigIntegerField(null=True)
    worst_bps = BigIntegerField(null=True)
    bot_bps = BigIntegerField(null=True)
    kept = BigIntegerField(null=True)
    spent = BigIntegerField()
    received = BigIntegerField()
    sales = IntegerField()
    used = IntegerField()
    covered = IntegerField()
    tokens = IntegerField()
    top_token = IntegerField(null=True)
    reason = TextField(null=True)
    excluded = TextField()

    class Meta:
        primary_key = CompositeKey("bot", "size")


class CopiedTrade(Base):
    """Lamports that a follower with 1 SOL per purchase gets for a bot's sale in the best case.

    If a purchase or sale can't be followed, it has the reason instead.
    """

    trade = ForeignKeyField(Trade, primary_key=True, on_delete="CASCADE")
    lamports = BigIntegerField(null=True)
    reason = TextField(null=True)


TABLES = (
    CopyTotal,
    CopiedTrade,
    Trader,
    Period,
    PaperOrder,
    PaperFill,
    PaperPosition,
    DiaryEntry,
    PaperPost,
    Review,
    SeenFlow,
    Backtest,
    EngineState,
    EquityMark,
    RealFill,
    NetworkCost,
)
