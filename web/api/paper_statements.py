"""Statements of paper mode, each with a row type whose fields match the columns in name and order.
Times are UTC milliseconds, money is lamports.
"""

from typing import Annotated, Any, NamedTuple

from storage.rows import Column, Part, make_object

Json = dict[str, Any]
Document = Annotated[Json, Part(Json)]
Facts = Annotated[Json, Column(Json)]
MARKS = Part(list[str])
Marks = Annotated[list[str], MARKS]
Reason: Any = make_object(code=str, detail=str, symbol=str | None, at=int)


class TraderRow(NamedTuple):
    """A paper trader with its open account period and that period's last review.

    `voice` is JSON; `state` is the review's, None without one.
    """

    id: int
    uid: str
    handle: str
    name: str
    bio: str
    voice: str
    family: str
    settings: Document
    start_mode: str
    adaptive: str
    phase: Document
    created_at: int
    retired_at: int | None
    period_id: int
    period: int
    starting_cash: int
    cash: int
    lost_fees: int
    opened_at: int
    state: str | None
    reasons: Annotated[list[Json], Part(list[Reason])] | None
    reviewed_at: int | None
    decided_at: int | None
    decision: str | None


# The last review of each open period decides which of its data may be shown.
TRADERS = """
SELECT t.id, t.uid, t.handle, t.name, t.bio, t.voice, t.family, t.settings, t.start_mode,
       t.adaptive, t.phase, t.created_at, t.retired_at, p.id AS period_id, p.number AS period,
       p.starting_cash, p.cash, p.lost_fees, p.opened_at, r.state, r.reasons,
       r.opened_at AS reviewed_at, r.decided_at, r.decision
FROM trader t JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL AND p.twin = 0
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)"""


class PeriodTotalsRow(NamedTuple):
    """Totals of the closes of an open period."""

    period_id: int
    closes: int
    net: int
    wins: int


PERIOD_TOTALS = """
SELECT c.period_id, COUNT(*) AS closes, SUM(c.cash) AS net,
       COUNT(CASE WHEN c.cash > 0 THEN 1 END) AS wins
FROM position c JOIN period p ON p.id = c.period_id AND p.closed_at IS NULL AND p.twin = 0
WHERE c.closed_at IS NOT NULL AND p.trader_id = COALESCE(?, p.trader_id) GROUP BY c.period_id"""


class PositionRow(NamedTuple):
    """An open position. `raw` and `price` are exact text, `held` snapshots."""

    period_id: int
    number: int
    mint: str
    symbol: str
    decimals: int
    opened_at: int
    raw: str
    price: str
    marked_at: int
    spent: int
    cash: int
    held: int
    worth: int | None
    marks: Marks
    pipeline: str


POSITIONS = """
SELECT c.period_id, c.number, c.mint, c.symbol, c.decimals, c.opened_at, c.raw, c.price,
       c.marked_at, c.spent, c.cash, c.held, c.worth, c.marks, c.pipeline
FROM position c JOIN period p ON p.id = c.period_id AND p.closed_at IS NULL AND p.twin = 0
WHERE c.closed_at IS NULL AND p.trader_id = COALESCE(?, p.trader_id) ORDER BY c.id"""


class CloseRow(NamedTuple):
    """A closed position. `gross`: result of price moves only; `net`: after all costs."""

    id: int
    number: int
    period: int
    mint: str
    symbol: str
    decimals: int
    opened_at: int
    closed_at: int
    reason: str
    gross: int
    slippage: int
    fees: int
    rent: int
    net: int
    spent: int
    latency_ms: int
    marks: Marks
    pipeline: str
    state: str | None
    reviewed_at: int | None


CLOSE = """
SELECT c.id, c.number, p.number AS period, c.mint, c.symbol, c.decimals, c.opened_at,
       c.closed_at, c.reason, c.mid_sold - c.mid_bought AS gross, c.slippage, c.fees, c.rent,
       c.cash AS net, c.spent, c.latency_ms, c.marks, c.pipeline, r.state,
       r.opened_at AS reviewed_at
FROM position c JOIN period p ON p.id = c.period_id
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND p.twin = 0 AND c.closed_at IS NOT NULL"""
# Condition for rows before a time and an ID.
CLOSES = f"""{CLOSE} AND (c.closed_at < ? OR c.closed_at = ? AND c.id < ?)
ORDER BY c.closed_at DESC, c.id DESC LIMIT ?"""
ONE_CLOSE = f"{CLOSE} AND c.number = ?"


class FillRow(NamedTuple):
    """An attempt to fill an order, and the number of the position it belongs to."""

    position: int | None
    side: str
    decided_at: int
    at: int
    decided_on: int
    snapshot: int
    raw: str
    mid: int
    slippage: int
    pool_fee: int
    network_fee: int
    rent: int
    failed: int
    reason: str
    model: str


OF_POSITIONS = """
SELECT COALESCE(f.position, (SELECT MAX(g.position) FROM paper_fill g WHERE g.order_id = o.id))
       AS position, o.side, o.decided_at, f.at, o.decided_on, f.snapshot, f.raw, f.mid, f.slippage,
       f.pool_fee, f.network_fee, f.rent, f.failed, o.reason, f.model
FROM paper_fill f JOIN paper_order o ON o.id = f.order_id JOIN period p ON p.id = o.period_id
WHERE p.trader_id = ? AND p.twin = 0"""
FILLS = f"{OF_POSITIONS} AND o.decided_at >= ? ORDER BY f.id"
# The fills of one position, including failed attempts of its orders.
FILLS_OF_ONE = f"""{OF_POSITIONS} AND o.id IN (
    SELECT g.order_id FROM paper_fill g JOIN paper_order q ON q.id = g.order_id
    WHERE q.period_id = p.id AND g.position = ?) ORDER BY f.id"""


class OrderRow(NamedTuple):
    """An open order. `amount` and `done`: raw units of a sale, lamports of a buy."""

    side: str
    mint: str
    symbol: str
    decimals: int
    amount: str
    done: str
    reason: str
    decided_at: int
    expires_at: int


ORDERS = """
SELECT o.side, o.mint, o.symbol, o.decimals, o.amount, o.done, o.reason, o.decided_at, o.expires_at
FROM paper_order o JOIN period p ON p.id = o.period_id
WHERE p.trader_id = ? AND p.twin = 0 AND o.state = 'open' ORDER BY o.id"""


# The number of the closed position that a diary line is about.
CLOSE_OF_LINE = """
(SELECT c.number FROM position c WHERE c.period_id = d.period_id AND c.closed_at IS NOT NULL
 AND c.number = (SELECT MAX(f.position) FROM paper_fill f JOIN paper_order o ON o.id = f.order_id
                 WHERE o.period_id = d.period_id AND o.number = d.order_number))"""


class DiaryRow(NamedTuple):
    """A diary line. `period`: its number; `closed`: the number of the closed position it is
    about.
    """

    id: int
    at: int
    kind: str
    mint: str | None
    facts: Facts
    period: int
    closed: int | None


LINE = f"""
SELECT d.id, d.at, d.kind, d.mint, d.facts, p.number AS period, {CLOSE_OF_LINE} AS closed
FROM diary_entry d JOIN period p ON p.id = d.period_id WHERE p.trader_id = ? AND p.twin = 0"""
DIARY = f"{LINE} AND d.id < ? ORDER BY d.id DESC LIMIT ?"


class TotalsRow(NamedTuple):
    """Counts of a trader's lines, closes and posts."""

    diary: int
    closes: int
    posts: int


TOTALS = """
SELECT (SELECT COUNT(*) FROM diary_entry d JOIN period p ON p.id = d.period_id
        WHERE p.trader_id = t.id AND p.twin = 0) AS diary,
       (SELECT COUNT(*) FROM position c JOIN period p ON p.id = c.period_id
        WHERE p.trader_id = t.id AND p.twin = 0 AND c.closed_at IS NOT NULL) AS closes,
       (SELECT COUNT(*) FROM paper_post o WHERE o.trader_id = t.id) AS posts
FROM trader t WHERE t.id = ?"""
# Decisions at these times; {{}}: their marks.
DECISIONS = f"{LINE} AND d.kind = 'decision' AND d.at IN ({{}}) ORDER BY d.id"
# Without lessons of an account that is under review, or whose review was upheld: they are drawn
# from its closes.
PAUSES_AND_LESSONS = """
SELECT d.id, d.at, d.kind, d.mint, d.facts, p.number AS period, NULL AS closed
FROM diary_entry d JOIN period p ON p.id = d.period_id
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND p.twin = 0 AND d.kind IN ('pause', 'lesson') AND d.at >= ?
AND (d.kind = 'pause' OR r.state IS NULL OR r.state NOT IN ('under_review', 'upheld'))
ORDER BY d.id"""


class PeriodRow(NamedTuple):
    """An account period. `state`: state of its last review, None without one."""

    number: int
    starting_cash: int
    cash: int
    opened_at: int
    closed_at: int | None
    reason: str | None
    state: str | None


PERIODS = """
SELECT p.number, p.starting_cash, p.cash, p.opened_at, p.closed_at, p.closing_reason AS reason,
       r.state
FROM period p LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND p.twin = 0 ORDER BY p.number"""


class PaperPostRow(NamedTuple):
    """A post of a paper trader. `state`: state of the last review of its account period; `closed`:
    the number of the closed position it is about.
    """

    id: int
    uid: str
    trader: str
    name: str
    body: str
    mint: str | None
    symbol: str | None
    writer: str
    event_at: int
    created_at: int
    hidden_at: int | None
    kind: str
    state: str | None
    handle: str
    family: str
    closed: int | None


PAPER_POSTS = f"""
SELECT o.id, o.uid, t.uid AS trader, t.name, o.body, o.mint, o.symbol, o.writer, o.event_at,
       o.created_at, o.hidden_at, d.kind,
       (SELECT state FROM review WHERE period_id = d.period_id ORDER BY id DESC LIMIT 1) AS state,
       t.handle, t.family, {CLOSE_OF_LINE} AS closed
FROM paper_post o JOIN trader t ON t.id = o.trader_id JOIN diary_entry d ON d.id = o.entry_id"""


class ComparedRow(NamedTuple):
    """A close in the comparison of strategy families."""

    trader_id: int
    family: str
    mint: str
    symbol: str
    opened_at: int
    closed_at: int
    reason: str
    gross: int
    net: int
    spent: int
    pipeline: str
    marks: Marks
    state: str | None
    twin: int


# A twin counts as long as its trader does: it uses the review of the trader's own account.
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


class PaperGeneration(NamedTuple):
    """Changes with every tick and every decision about a trader."""

    snapshot: int | None
    trader: int | None
    versions: int | None
    position: int | None


GENERATION = """
SELECT (SELECT snapshot FROM engine_state WHERE id = 1) AS snapshot,
       (SELECT MAX(id) FROM trader) AS trader, (SELECT SUM(version) FROM trader) AS versions,
       (SELECT MAX(id) FROM position) AS position"""


class RecentCloseRow(NamedTuple):
    """A trader's close and its net result."""

    trader: str
    net: int


# Closes of the open accounts. The values: start times, in ms.
RECENT_CLOSES = """
SELECT t.uid AS trader, o.cash AS net FROM position o
JOIN period p ON p.id = o.period_id AND p.closed_at IS NULL AND p.twin = 0
JOIN trader t ON t.id = p.trader_id
WHERE o.closed_at >= ? ORDER BY o.closed_at, o.id"""
