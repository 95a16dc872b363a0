"""Show paper traders' positions, orders, fills and closes, and everything on a close's page:
decisions, fills with their quotes, and the price path. All of it is simulated.
"""

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from chain.amounts import exact
from paper import account, rules
from paper.account import Close, public_id
from paper.fills import ASSUMPTIONS, MODEL, MODEL_HASH
from paper.market import ALL_SOL, SCALE, percent, value_of
from paper.results import Group, Mark, describe_account, group_closes
from paper.store import MARK_MS, SUSPECT
from storage.rows import Part, read, read_one, select, write_marks
from web.api.paper_brain import DECISIONS, DiaryLine, read_lines, show_line
from web.api.serialize import fill, show_time
from web.api.shapes import (
    Address,
    Exact,
    FillModel,
    NotRequired,
    Simulation,
    Time,
    TypedDict,
    Whole,
    described,
)

MARKS = Part(list[str])


class PaperFill(TypedDict):
    """An attempt to fill an order. A trader's detail omits the optional members."""

    side: Literal["buy", "sell"]
    decidedAt: Time
    filledAt: Time
    decidedSnapshotId: str
    filledSnapshotId: str
    amountRaw: NotRequired[Whole]
    solLamports: NotRequired[
        Annotated[Whole, described("SOL that went into or out of the pool, before its fee")]
    ]
    slippageLamports: NotRequired[Whole]
    feesLamports: NotRequired[Whole]
    rentLamports: NotRequired[Whole]
    failed: NotRequired[bool]
    reason: str
    model: NotRequired[Annotated[str, described("the fill model, such as amm-cp/3")]]
    simulated: NotRequired[Simulation]


class PaperClose(TypedDict):
    """A closed position with all its costs. A trader's detail omits the optional members."""

    id: str
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    decimals: NotRequired[int]
    period: NotRequired[int]
    openedAt: Time
    closedAt: Time
    reason: str
    grossLamports: Annotated[Whole, described("gain or loss from price changes, before costs")]
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    netLamports: Whole
    returnPct: Annotated[float | None, described("a percentage; null if nothing was spent")]
    latencyMs: int
    model: str
    pipeline: NotRequired[str]
    assumptions: Annotated[
        list[str], described("the fill model, described in `models`, and marks on the fill")
    ]
    fills: list[PaperFill]
    eligible: Annotated[bool, described("whether it counts in comparisons")]
    excludedReason: Annotated[
        str | None,
        described(
            "reason if the close doesn't count; `under_review` while its account is under review"
        ),
    ]
    reviewOpenedAt: NotRequired[Time | None]
    simulated: Simulation


class PaperPosition(TypedDict):
    """An open position."""

    id: str
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    openedAt: Time
    amountRaw: Whole
    amount: Exact
    decimals: int
    spentLamports: Whole
    cashFlowLamports: Whole
    valueLamports: Whole
    markPriceSol: Exact
    markedAt: Time
    markAgeSeconds: int
    heldSnapshots: int
    assumptions: Annotated[
        list[str], described("the fill model, described in `models`, and marks on the position")
    ]
    model: str
    pipeline: str
    simulated: Simulation


class PaperOrder(TypedDict):
    """An open order, in lamports for a purchase or raw units of the token for a sale."""

    side: Literal["buy", "sell"]
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    decimals: int
    amountRaw: NotRequired[Annotated[Whole, described("sales only")]]
    filledRaw: NotRequired[Annotated[Whole, described("sales only")]]
    solLamports: NotRequired[Annotated[Whole, described("buys only")]]
    filledLamports: NotRequired[Annotated[Whole, described("buys only")]]
    reason: str
    decidedAt: Time
    expiresAt: Time
    simulated: Simulation


# ---- statements: money in lamports, times in ms --------------------------------------------------
# `raw` and `price` are exact text. `held` is a number of snapshots.
POSITIONS = """
SELECT c.period_id, c.number, c.mint, c.symbol, c.decimals, c.opened_at, c.raw, c.price,
       c.marked_at, c.spent, c.cash, c.held, c.worth, c.marks, c.pipeline
FROM position c JOIN period p ON p.id = c.period_id AND p.closed_at IS NULL AND p.twin = 0
WHERE c.closed_at IS NULL AND p.trader_id = COALESCE(?, p.trader_id) ORDER BY c.id"""
# `gross` is the result of price moves only. `net` is the result after all costs.
CLOSE = """
SELECT c.id, c.number, p.number AS period, c.mint, c.symbol, c.decimals, c.opened_at,
       c.closed_at, c.reason, c.mid_sold - c.mid_bought AS gross, c.slippage, c.fees, c.rent,
       c.cash AS net, c.spent, c.latency_ms, c.marks, c.pipeline, r.state,
       r.opened_at AS reviewed_at
FROM position c JOIN period p ON p.id = c.period_id
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND p.twin = 0 AND c.closed_at IS NOT NULL"""
# Rows before a time and an ID.
CLOSES = f"""{CLOSE} AND (c.closed_at < ? OR c.closed_at = ? AND c.id < ?)
ORDER BY c.closed_at DESC, c.id DESC LIMIT ?"""
ONE_CLOSE = f"{CLOSE} AND c.number = ?"
# The attempts to fill an order, with their position's number.
OF_POSITIONS = """
SELECT COALESCE(f.position, (SELECT MAX(g.position) FROM paper_fill g WHERE g.order_id = o.id))
       AS position, o.side, o.decided_at, f.at, o.decided_on, f.snapshot, f.raw, f.mid, f.slippage,
       f.pool_fee, f.network_fee, f.rent, f.failed, o.reason, f.model
FROM paper_fill f JOIN paper_order o ON o.id = f.order_id JOIN period p ON p.id = o.period_id
WHERE p.trader_id = ? AND p.twin = 0"""
FILLS = f"{OF_POSITIONS} AND o.decided_at >= ? ORDER BY f.id"
# Including failed attempts of the position's orders.
FILLS_OF_ONE = f"""{OF_POSITIONS} AND o.id IN (
    SELECT g.order_id FROM paper_fill g JOIN paper_order q ON q.id = g.order_id
    WHERE q.period_id = p.id AND g.position = ?) ORDER BY f.id"""
# `wanted` and `done` are in raw units for a sale or lamports for a buy.
ORDERS = """
SELECT o.side, o.mint, o.symbol, o.decimals, o.amount AS wanted, o.done, o.reason, o.decided_at,
       o.expires_at
FROM paper_order o JOIN period p ON p.id = o.period_id
WHERE p.trader_id = ? AND p.twin = 0 AND o.state = 'open' ORDER BY o.id"""
# A twin counts for as long as its trader does, so the review of the trader's own account is used.
_COMPARED = """
SELECT t.id AS trader_id, t.family, c.mint, c.symbol, c.opened_at, c.closed_at, c.reason,
       c.mid_sold - c.mid_bought AS gross, c.cash AS net, c.spent, c.pipeline, c.marks,
       (SELECT r.state FROM review r JOIN period q ON q.id = r.period_id
        WHERE q.trader_id = p.trader_id AND q.number = p.number AND q.twin = 0
        ORDER BY r.id DESC LIMIT 1) AS state, p.twin
FROM position c JOIN period p ON p.id = c.period_id JOIN trader t ON t.id = p.trader_id
WHERE """
COMPARED = f"{_COMPARED} c.closed_at >= ? ORDER BY c.closed_at, c.id"
TWIN_CLOSES = f"""{_COMPARED} p.trader_id = ? AND p.number = ? AND p.twin > 0
AND c.closed_at IS NOT NULL ORDER BY c.closed_at, c.id"""
PERIOD_CLOSES = (
    f"{_COMPARED} c.period_id = ? AND c.closed_at IS NOT NULL ORDER BY c.closed_at, c.id"
)


# ---- positions and orders ------------------------------------------------------------------------
def read_positions(trader_id: int | None) -> list[Any]:
    return read(POSITIONS, (trader_id,), marks=MARKS)


def find_value(row: Any) -> int:
    """Return the lamports that the pool would pay at the mark, or 0 if that can't be read."""
    if row.worth is not None:
        return int(row.worth)
    try:
        return int(min(ALL_SOL, value_of(int(row.raw), int(row.price), row.decimals)))
    except ValueError:
        return 0


def show_position(handle: str, row: Any, now: int) -> PaperPosition:
    """`now`: ms."""
    model = find_model(row.pipeline)
    return fill(
        PaperPosition,
        row,
        id=public_id(handle, "close", row.number),
        amount=exact(int(row.raw), row.decimals),
        amountRaw=row.raw,
        cashFlowLamports=str(row.cash),
        valueLamports=str(find_value(row)),
        markPriceSol=exact(int(row.price), len(str(SCALE)) - 1),
        markAgeSeconds=max(0, now - row.marked_at) // 1000,
        heldSnapshots=row.held,
        assumptions=[model, *(row.marks or ())],
        model=model,
    )


def show_models() -> list[FillModel]:
    return [{"model": MODEL, "hash": MODEL_HASH, "assumptions": list(ASSUMPTIONS)}]


def find_model(pipeline: str) -> str:
    """Return the fill model that opened a position. The pipeline ends with the model's ID."""
    return pipeline.split(" ")[-1]


def show_order(row: Any) -> PaperOrder:
    """Amounts are in lamports for a purchase, or raw units for a sale."""
    is_sale = row.side == "sell"
    amount, filled = ("amountRaw", "filledRaw") if is_sale else ("solLamports", "filledLamports")
    return fill(PaperOrder, row, **{amount: row.wanted, filled: row.done})


# ---- closes and fills ----------------------------------------------------------------------------
def read_closes(sql: str, *values: Any) -> list[Any]:
    return read(sql, values, marks=MARKS)


def show_closes(trader_id: int, handle: str, rows: list[Any]) -> list[PaperClose]:
    if not rows:
        return []
    fills: dict[int | None, list[PaperFill]] = defaultdict(list)
    # An order's first attempt is shortly before its position, so this is early enough.
    since = min(row.opened_at for row in rows) - rules.DAY_MS
    for one in read(FILLS, (trader_id, since)):
        fills[one.position].append(show_fill(one))
    return [show_close(handle, row, fills[row.number]) for row in rows]


def show_close(handle: str, row: Any, fills: list[PaperFill]) -> PaperClose:
    ident = public_id(handle, "close", row.number)
    excluded = read_close(ident, row).excluded
    model = fills[-1]["model"] if fills else find_model(row.pipeline)
    return fill(
        PaperClose,
        row,
        id=ident,
        returnPct=find_percentage(row.net, row.spent),
        model=model,
        assumptions=[model, *(row.marks or [])],
        fills=fills,
        eligible=excluded is None,
        excludedReason=excluded,
        reviewOpenedAt=show_time(row.reviewed_at) if row.state in SUSPECT else None,
    )


def find_percentage(part: int, whole: int) -> float | None:
    """Return a percentage with two decimals, rounded toward zero, or None if `whole` is zero."""
    return float(percent(part, whole)) if whole else None


def show_fill(row: Any) -> PaperFill:
    """`solLamports`: into or out of the pool, before its fee, without network fee and rent."""
    return fill(
        PaperFill,
        row,
        filledAt=show_time(row.at),
        decidedSnapshotId=show_snapshot_id(row.decided_on),
        filledSnapshotId=show_snapshot_id(row.snapshot),
        amountRaw=row.raw,
        solLamports=str(find_moved(row)),
        feesLamports=str(row.pool_fee + row.network_fee),
    )


def find_moved(row: Any) -> int:
    return int(row.mid + row.slippage if row.side == "buy" else row.mid - row.slippage)


def show_snapshot_id(number: int) -> str:
    return f"snap_{hashlib.sha256(b'snapshot %d' % number).hexdigest()[:12]}"


def find_closes(sql: str, *values: Any) -> list[Close]:
    """Return closes for comparison. The ID of each is its trader's number."""
    return [read_close(str(row.trader_id), row) for row in read_closes(sql, *values)]


def read_close(ident: str, row: Any) -> Close:
    reviewed = row.state in SUSPECT
    return account.read_close(ident, row, row.marks or (), reviewed=reviewed)


# ---- a close's page ------------------------------------------------------------------------------
# How much of the price path to show before the first decision and after the last fill.
MARGIN_MS = 600_000
MAX_PATH_ROWS = 5_000


# `next_position` is one above the highest number in use.
HOLDER = """
SELECT t.id, t.uid, t.handle, t.name, t.family, p.next_position FROM trader t
JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL AND p.twin = 0 WHERE t.uid = ?"""


# The snapshots that decisions and fills refer to. Prices and sums are exact text.
QUOTES = """
SELECT id, price_sol, liquidity_usd, market_cap_usd, venue, pair FROM snapshot WHERE id IN ({})"""


PATH = """
SELECT id, taken_at AS at, price_sol FROM snapshot
WHERE token_id = (SELECT id FROM token WHERE mint = ?) AND taken_at BETWEEN ? AND ?
AND price_sol IS NOT NULL ORDER BY taken_at, id LIMIT ?"""


@dataclass(frozen=True)
class QuotedFill:
    """A fill with the quotes of its decision and execution. Amounts in `row` are in lamports.

    `paid` is the SOL per token in the pool, without the pool's and network fees, or None for a
    failed attempt.
    """

    shown: PaperFill
    row: Any
    decided: Any
    filled: Any
    paid: Decimal | None


@dataclass(frozen=True)
class CloseStory:
    """A close's page. `trader` is a row of HOLDER, `path` rows of PATH in order."""

    trader: Any
    close: PaperClose
    models: list[FillModel]
    decisions: list[DiaryLine]
    fills: list[QuotedFill]
    path: list[Any]


def find_story(trader_uid: str, close_id: str) -> CloseStory | None:
    trader = read_one(HOLDER, (trader_uid,))
    number = trader and find_number(trader, close_id)
    if number is None:
        return None
    row = read_one(ONE_CLOSE, (trader.id, number), marks=MARKS)
    if row is None:
        return None
    fills = read(FILLS_OF_ONE, (trader.id, number))
    return CloseStory(
        trader,
        show_close(trader.handle, row, [show_fill(one) for one in fills]),
        show_models(),
        _list_decisions(trader, row.number, fills),
        quote_fills(fills, row.decimals),
        _list_path(row, fills),
    )


def find_number(trader: Any, close_id: str) -> int | None:
    """Return the position number from which this public ID is derived."""
    numbers = range(1, trader.next_position)
    return next((n for n in numbers if public_id(trader.handle, "close", n) == close_id), None)


def _list_decisions(trader: Any, number: int, fills: list[Any]) -> list[DiaryLine]:
    times = sorted({one.decided_at for one in fills})
    lines = read_lines(DECISIONS.format(write_marks(times)), trader.id, *times)
    return [show_line(trader.handle, line) for line in lines if line.closed == number]


def quote_fills(fills: list[Any], decimals: int) -> list[QuotedFill]:
    ids = sorted({number for one in fills for number in (one.decided_on, one.snapshot)})
    quotes = {one.id: one for one in read(QUOTES.format(write_marks(ids)), ids)}
    return [
        QuotedFill(
            show_fill(one),
            one,
            quotes.get(one.decided_on),
            quotes.get(one.snapshot),
            find_price_paid(one, decimals),
        )
        for one in fills
    ]


def find_price_paid(row: Any, decimals: int) -> Decimal | None:
    """Return the SOL per token that moved in the pool, or None for a failed attempt."""
    raw = int(row.raw)
    if row.failed or not raw:
        return None
    return Decimal(find_moved(row)).scaleb(decimals - 9) / raw


def _list_path(row: Any, fills: list[Any]) -> list[Any]:
    begins = min([row.opened_at, *(one.decided_at for one in fills)])
    ends = max([row.closed_at, *(one.at for one in fills)])
    return read(PATH, (row.mint, begins - MARGIN_MS, ends + MARGIN_MS, MAX_PATH_ROWS))


# ---- account value over time ---------------------------------------------------------------------
Json = dict[str, Any]


# A trader's open account. Money is in lamports, times are in ms.
ACCOUNT = """
SELECT p.id AS period_id, p.starting_cash, p.opened_at FROM period p
JOIN trader t ON t.id = p.trader_id WHERE t.uid = ? AND p.closed_at IS NULL AND p.twin = 0"""


EQUITY_MARKS = "SELECT at, equity, held, sol_cents FROM equity_mark WHERE period_id = ? ORDER BY at"


# Fills in an account, newest first. `sol` is in lamports at the price before the fill; `closed_at`
# is that of its position, or null while it is open.
TRADES = """
SELECT o.side, f.at, f.mid AS sol, c.closed_at FROM paper_fill f
JOIN paper_order o ON o.id = f.order_id
JOIN position c ON c.period_id = o.period_id AND c.number = f.position
WHERE o.period_id = ? AND f.raw <> '0' ORDER BY f.id DESC LIMIT ?"""
MAX_TRADES = 400


class Point(NamedTuple):
    """An account's value in lamports, or the share in positions in basis points. `at`: ms."""

    at: int
    value: int


class AccountHistory(NamedTuple):
    """An open account: its values, oldest first, and its closes. `start` is in lamports."""

    period_id: int
    start: int
    opened_at: int
    marks: list[Mark]
    closes: list[Close]

    def show_metrics(self) -> Json:
        """Return the metrics. Closes of every model count, as they do in the equity."""
        found = describe_account(self.marks, self.closes, self.start)
        dates = {name: show_time(found[name]) for name in ("drawdownFrom", "drawdownTo")}
        return {**found, **dates, "simulated": True}

    def list_points(self, until: int) -> list[Point]:
        """List the equity up to `until` (ms). Before the first mark, it is computed from closes.

        A mark has the time at the end of its interval.
        """
        total, first = self.start, self.marks[0].at if self.marks else None
        points = [Point(self.opened_at, total)]
        for close in self.closes:
            if first is None or close.closed_at < first:
                total += close.net
                points.append(Point(close.closed_at, total))
        return [*points, *(Point(min(one.at + MARK_MS, until), one.equity) for one in self.marks)]

    def list_shares(self, until: int) -> list[Point]:
        shares = [
            Point(min(one.at + MARK_MS, until), 10_000 * one.held // one.equity)
            for one in self.marks
            if one.equity > 0
        ]
        return [Point(self.opened_at, 0), *shares]

    def list_trades(self) -> list[Any]:
        return read(TRADES, (self.period_id, MAX_TRADES))

    def group(self, by: str) -> list[Group]:
        return group_closes(self.closes, by)


def read_history(uid: str) -> AccountHistory | None:
    row = read_one(ACCOUNT, (uid,))
    if row is None:
        return None
    return AccountHistory(
        row.period_id,
        row.starting_cash,
        row.opened_at,
        select(Mark, EQUITY_MARKS, (row.period_id,)),
        # The account's metrics don't identify a close, and all are withheld during a review.
        [
            account.read_close("", one, one.marks or (), reviewed=False)
            for one in read_closes(PERIOD_CLOSES, row.period_id)
        ],
    )
