"""Tables derived from trades, and the JSON columns of wallets and trades."""

from typing import Annotated, Any, Literal, NamedTuple

from peewee import (
    SQL,
    BigIntegerField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from chain.ledger.coverage import NEAR_LIMIT_PERCENT
from chain.ledger.totals import Sums
from models import Attachment, Base, Bot, Trade, Wallet, WalletSignature
from storage.rows import Exact, Moment, Part, Whole, make_object, make_shape

# ---- JSON columns --------------------------------------------------------------------------------
RESULTS: Any = make_object(
    **dict.fromkeys(("realizedLamports", "worstCaseLamports", "volumeLamports"), Whole),
    **dict.fromkeys(("failedCostLamports", "overheadLamports", "costLeftLamports"), Whole),
    **dict.fromkeys(("realizedSol", "worstCaseSol", "volumeSol"), Exact),
    **dict.fromkeys(("returnPct", "winRate"), Exact | None),
    **dict.fromkeys(("positions", "positionsWon", "positionsOpen", "openPositions"), int),
    **dict.fromkeys(("matchedSells", "partialSells", "unmatchedSells", "winningSells"), int),
    **dict.fromkeys(("observedTrades", "failedTransactions", "costLeftReceipts"), int),
    carriedLots=int,
)
COVERAGE = make_shape(
    make_object(
        **dict.fromkeys(("observedFrom", "observedTo", "checkedAt"), Moment | None),
        **dict.fromkeys(("firstSlot", "lastSlot"), int | None),
        state=Literal["none", "backfilling", "partial", "complete"],
        receipts=int,
        pending=int,
        gaps=list[make_object(fromSlot=int, toSlot=int, reason=str)],  # type: ignore[misc]
        openingInventoryUnknown=list[str],
        note=str | None,
    )
)
# Each amount of a reconciliation, and its attribute of ledger.totals.Totals.
LINES = {
    "opening": "opening",
    "closing": "closing",
    "realized": "realized",
    "unmatchedProceeds": "unmatched_proceeds",
    "openCost": "open_cost",
    "costLeft": "cost_left",
    "received": "received",
    "sent": "sent",
    "overhead": "overhead",
    "failedCost": "failed_cost",
    "other": "other",
    "difference": "difference",
    "gap": "gaps",
}


def _make_books(unit: str) -> Any:
    return make_object(**{f"{one}{unit}": Whole for one in LINES}, costLeftReceipts=int)


STABLECOIN_RESULTS: Any = make_object(
    reconciliation=_make_books("Raw") | None,
    positions=list[make_object(mint=str)],  # type: ignore[misc]
)
POSITION: Any = make_object(
    mint=str, amountRaw=Whole, decimals=int, costLamports=Whole | None, unknownBasisRaw=Whole
)
WALLET_PARTS = {
    "results": Part(RESULTS),
    "positions": Part(list[POSITION]),
    "reconciliation": Part(_make_books("Lamports")),
    "average_cost": Part(make_object(realizedLamports=Whole, matchedSells=int)),
    "by_stablecoin": Part(dict[str, STABLECOIN_RESULTS]),
    "stablecoin_imbalance": Part(dict[str, int]),
}
# [mint, raw units, decimals] of each token that a trade moved; [trade, raw units, cost] of each lot
# that a sale used.
CHANGES = Part(list[tuple[str, Whole, int]])
LOTS = Part(list[tuple[str | None, int | str, int | str | None]])
NAMES = Part(list[str])
Changes = Annotated[list[list[Any]], CHANGES]
Lots = Annotated[list[list[Any]], LOTS]
Names = Annotated[list[str], NAMES]
# How long positions were held, as [seconds, count] pairs.
HOLDINGS = make_shape(list[tuple[int, int]])
OBJECT = make_shape(dict[str, Any])


# ---- tables --------------------------------------------------------------------------------------
# SQL for a mint's ID. `{}` is its address.
NUMBER_OF_MINT = "(SELECT id FROM mint WHERE address = {})"


class Mint(Base):
    """A token that a trade moved. Rows are never deleted."""

    address = TextField(unique=True)


class TradeMint(Base):
    """A token that a trade moved. `side` is buy or sell, or null if it wasn't a trade."""

    trade = ForeignKeyField(Trade, backref="mints", on_delete="CASCADE")
    wallet = ForeignKeyField(Wallet, index=False)
    mint = ForeignKeyField(Mint, index=False)
    side = TextField(null=True)
    slot = BigIntegerField()
    place = IntegerField(default=0)

    class Meta:
        indexes = (
            (("mint", "slot", "place", "trade", "side"), False),
            (("mint", "side", "wallet"), False),
            (("wallet", "mint", "slot", "place", "trade"), False),
            (("mint", "trade"), False),
            (("wallet", "mint", "trade"), False),
        )


class RunningTotal(Base):
    """A wallet's ledger.totals.Sums at the end of each hour that changed them. Derived.

    `money` is a stablecoin's mint, or empty for SOL. `view` is an attachment's id, or 0 for all
    history. `hour` is counted from 1970. It is the hour of the latest block time so far, so it
    never decreases. `high`: the peak of `realized` by hour so far (at least 0); `drawdown`: the
    largest drop from a peak.
    """

    wallet = ForeignKeyField(Wallet, index=False)
    money = TextField()
    view = BigIntegerField()
    hour = IntegerField()

    class Meta:
        primary_key = CompositeKey("wallet", "money", "view", "hour")


for name in (*Sums._fields, "high", "drawdown"):
    RunningTotal._meta.add_field(name, BigIntegerField(default=0))


class RiskTotal(Base):
    """The best and worst result of a wallet's positions, and their holding times. Derived.

    `money` and `view` are as in RunningTotal. `holdings` is sorted JSON [[seconds, positions]...],
    from which `median_holding` is derived.
    """

    wallet = ForeignKeyField(Wallet, index=False)
    money = TextField()
    view = BigIntegerField()
    best = BigIntegerField(null=True)
    worst = BigIntegerField(null=True)
    median_holding = BigIntegerField(null=True)
    holdings = TextField()

    class Meta:
        primary_key = CompositeKey("wallet", "money", "view")


class TokenTotal(Base):
    """A wallet's profit from sales of a token. Derived. `money` and `view` as in RunningTotal."""

    wallet = ForeignKeyField(Wallet, index=False)
    money = TextField()
    view = BigIntegerField()
    mint = TextField()
    realized = BigIntegerField()
    sales = IntegerField()
    winning = IntegerField()

    class Meta:
        primary_key = CompositeKey("wallet", "money", "view", "mint")
        indexes = ((("wallet", "money", "view", "realized"), False),)


class DelayTotal(Base):
    """How long after its trades a bot posted. Derived (accounts.verification).

    It counts trades, and those posted within a minute. The median is in seconds.
    `delays` is JSON [[seconds, trades]...], rounded to two significant digits.
    """

    bot = ForeignKeyField(Bot, primary_key=True)
    posted = IntegerField()
    within_minute = IntegerField()
    median = BigIntegerField(null=True)
    delays = TextField()


class StandingRow(NamedTuple):
    bot: int
    record: str
    money: str
    seconds: int
    ends: int
    result_tier: int
    return_tier: int
    count_tier: int
    worst_case: int
    return_points: int
    win_points: int
    realized: int
    cost: int
    proceeds: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int
    open_cost: int
    flat_pairs: int
    ended: int
    ended_won: int
    held: int
    held_sold: int
    held_won: int

    @property
    def sums(self) -> Sums:
        return Sums(**{name: getattr(self, name) for name in SHOWN})


SHOWN = tuple(name for name in StandingRow._fields if name in Sums._fields)


class StandingTotal(Base):
    """A bot's activity in a window of `seconds` (0 for all time), which ranking uses. Derived.

    It is valid until `ends` (Unix seconds), when the window's first hour drops out, unless it is
    invalidated earlier (Bot.standing_at). `result_tier`, `return_tier` and `count_tier` are the
    bot's section of a list sorted by results, by return, and by volume or trades
    (stored.standings). `return_points` and `win_points` are as in Sums; an unknown one sorts below
    all others. Other columns are as in RunningTotal.
    """

    bot = ForeignKeyField(Bot, index=False)
    record = TextField()
    money = TextField()
    seconds = IntegerField()

    class Meta:
        primary_key = CompositeKey("bot", "record", "money", "seconds")
        indexes = ((("record", "money", "seconds", "ends"), False), (("ends",), False))


for name in StandingRow._fields[4:]:
    StandingTotal._meta.add_field(name, BigIntegerField())
for tier, column in (
    ("result_tier", "realized"),
    ("result_tier", "worst_case"),
    ("result_tier", "win_points"),
    ("return_tier", "return_points"),
    ("count_tier", "volume"),
    ("count_tier", "trades"),
):
    board = (StandingTotal.record, StandingTotal.money, StandingTotal.seconds)
    fields = StandingTotal._meta.fields
    ranked = (*board, fields[tier], fields[column].desc(), StandingTotal.bot)
    StandingTotal.add_index(StandingTotal.index(*ranked, name=f"standing_by_{column}"))

IS_NEAR_LIMIT = f"filled >= {NEAR_LIMIT_PERCENT}"
# Rare rows, which health counts.
for name, model, columns, rare in (
    ("wallet_in_trouble", Wallet, (Wallet.trouble_at, Wallet.id), "trouble IS NOT NULL"),
    (
        "wallet_with_difference",
        Wallet,
        (Wallet.id,),
        "imbalance <> 0 OR stablecoin_imbalance <> '{}'",
    ),
    ("wallet_near_limit", Wallet, (Wallet.filled, Wallet.id), IS_NEAR_LIMIT),
    ("sighting_idle", WalletSignature, (WalletSignature.wallet,), "idle"),
    ("sighting_refused", WalletSignature, (WalletSignature.id,), "problem IS NOT NULL"),
    ("sighting_pending", WalletSignature, (WalletSignature.wallet,), "state = 'pending'"),
    ("attachment_given_up", Attachment, (Attachment.detached_at,), "detached_at IS NOT NULL"),
):
    model.add_index(model.index(*columns, where=SQL(rare), name=name))

TABLES = (Mint, TradeMint, RunningTotal, RiskTotal, TokenTotal, DelayTotal, StandingTotal)
