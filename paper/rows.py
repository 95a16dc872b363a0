"""Statements of paper mode, each with the row it returns; and rows to values and back."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import orjson

from chain.reading.entries import Entry
from chain.stored.trades import LISTED_TRADE
from paper.account import Position
from paper.fills import MODEL, Fill, NetworkCosts, Order
from paper.trader import DiaryLine

# Whole numbers beyond 64 bits are decimal text in their columns.
BIG = {"amount", "least", "done", "price", "high", "raw", "bought_raw"}
POSITION = [field.name for field in fields(Position)]
ORDER = [field.name for field in fields(Order) if field.name != "handle"]
# States of a review in which a record does not count.
SUSPECT = ("under_review", "upheld")
Columns = dict[str, Any]


class AwakeRow(NamedTuple):
    """An hour, counted from 1970, in which a snapshot was taken."""

    hour: int


AWAKE_HOURS = """
SELECT DISTINCT taken_at / 3600000 AS hour FROM snapshot WHERE taken_at >= ? AND taken_at < ?
ORDER BY hour"""


class NamedSnapshotRow(NamedTuple):
    """A stored snapshot. `taken_at` in ms; prices and sums are decimal texts, as stored."""

    id: int
    mint: str
    taken_at: int
    price_sol: str | None
    pool_sol: str | None
    liquidity_usd: str | None
    volume24h_usd: str | None
    volume5m_usd: str | None
    volume1h_usd: str | None
    venue: str | None
    pair: str | None
    market_cap_usd: str | None
    price_usd: str | None
    # JSON of market.rules.FallCheck.
    fall_check: str | None


NAMED_SNAPSHOT = """
SELECT s.id, t.mint, s.taken_at, s.price_sol, s.pool_sol, s.liquidity_usd, s.volume24h_usd,
       s.volume5m_usd, s.volume1h_usd, s.venue, s.pair, s.market_cap_usd, s.price_usd,
       s.fall_check
FROM snapshot s JOIN token t ON t.id = s.token_id """
SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.token_id IN (SELECT id FROM token WHERE tracked_at IS NOT NULL OR held)
AND s.taken_at >= ? AND s.id >= ? AND s.id < ?"""
# Those of the fills of a period.
NAMED_SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT f.snapshot FROM paper_fill f JOIN paper_order o ON o.id = f.order_id
               WHERE o.period_id = ?)"""
# Those of the fills since a time that pools remember.
LAST_SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT snapshot FROM paper_fill WHERE turn > 0 AND at >= ?)"""


class FillRow(NamedTuple):
    """A fill with its order. `number`: of the order; `position`: a number or None."""

    trader: int
    twin: int
    snapshot: int
    number: int
    mint: str
    side: str
    at: int
    decided_on: int
    decided_at: int
    raw: str
    mid: int
    slippage: int
    pool_fee: int
    network_fee: int
    rent: int
    failed: bool
    reason: str
    marks: str
    position: int | None
    model: str
    flow: int
    turn: int
    costs: str | None


FILL = """
SELECT p.trader_id AS trader, p.twin, f.snapshot, o.number, o.mint, o.side, f.at, o.decided_on,
       o.decided_at, f.raw, f.mid, f.slippage, f.pool_fee, f.network_fee, f.rent,
       f.failed, o.reason, f.marks, f.position, f.model, f.flow, f.turn, f.costs
FROM paper_fill f JOIN paper_order o ON o.id = f.order_id JOIN period p ON p.id = o.period_id
"""
OF_PERIOD = f"{FILL} WHERE o.period_id = ? ORDER BY f.id"
REMEMBERED_FILLS = f"{FILL} WHERE f.turn > 0 AND f.at >= ? ORDER BY f.at, f.turn"


class TokenRow(NamedTuple):
    """A tracked or held token. Times in ms; `checks` is JSON."""

    id: int
    mint: str
    symbol: str | None
    decimals: int | None
    pair_created_at: int | None
    discovered_at: int | None
    checks: str | None
    transfer_fee_bps: int | None


_TOKEN = """
SELECT id, mint, symbol, decimals, pair_created_at, discovered_at, checks, transfer_fee_bps
FROM token"""
TOKENS = f"{_TOKEN} WHERE tracked_at IS NOT NULL OR held"
# Those that stored snapshots are of.
RECORDED_TOKENS = f"""{_TOKEN}
WHERE EXISTS (SELECT 1 FROM snapshot WHERE snapshot.token_id = token.id)"""


class TraderRow(NamedTuple):
    """A trader with an open account period: its own, or one of a twin."""

    id: int
    handle: str
    family: str
    settings: str
    adaptive: str
    version: int
    created_at: int
    period: int
    twin: int
    starting_cash: int
    cash: int
    lost_fees: int
    peak: int
    day: int
    day_equity: int
    phase: str
    next_order: int
    next_position: int
    tickets: str


# Each trader comes before its twins.
TRADERS = """
SELECT t.id, t.handle, t.family, t.settings, t.adaptive, t.version, t.created_at, p.id AS period,
       p.twin, p.starting_cash, p.cash, p.lost_fees, p.peak, p.day, p.day_equity, t.phase,
       p.next_order, p.next_position, p.tickets
FROM trader t JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL
WHERE t.retired_at IS NULL ORDER BY t.id, p.twin"""


class CloseRow(NamedTuple):
    """A closed position. Times in ms, money in lamports; `marks` is JSON."""

    period: int
    trader: int
    twin: int
    number: int
    mint: str
    symbol: str
    opened_at: int
    closed_at: int
    reason: str
    gross: int
    net: int
    spent: int
    pipeline: str
    marks: str


CLOSES = """
SELECT c.period_id AS period, p.trader_id AS trader, p.twin, c.number, c.mint, c.symbol,
       c.opened_at, c.closed_at, c.reason, c.mid_sold - c.mid_bought AS gross, c.cash AS net,
       c.spent, c.pipeline, c.marks
FROM position c JOIN period p ON p.id = c.period_id
WHERE c.closed_at >= ? ORDER BY c.closed_at, c.id"""


class RememberedRow(NamedTuple):
    """A line of a diary that a trader still needs."""

    trader: int
    twin: int
    kind: str
    at: int
    mint: str | None
    facts: str


REMEMBERED = """
SELECT p.trader_id AS trader, p.twin, d.kind, d.at, d.mint, d.facts
FROM diary_entry d JOIN period p ON p.id = d.period_id
WHERE d.kind = 'pause' AND d.at >= ? OR d.kind = 'refusal' AND d.at >= ?
ORDER BY d.id"""


class ReviewRow(NamedTuple):
    """A review with its trader. `reasons` is JSON."""

    trader: int
    period: int
    state: str
    reasons: str


REVIEWS = """
SELECT p.trader_id AS trader, r.period_id AS period, r.state, r.reasons
FROM review r JOIN period p ON p.id = r.period_id ORDER BY r.id"""


class UnpostedRow(NamedTuple):
    """A line of a diary not yet considered for a post, with its trader and persona."""

    id: int
    trader: int
    handle: str
    voice: str
    kind: str
    at: int
    mint: str | None
    facts: str


UNPOSTED = """
SELECT d.id, t.id AS trader, t.handle, t.voice, d.kind, d.at, d.mint, d.facts
FROM diary_entry d JOIN period p ON p.id = d.period_id JOIN trader t ON t.id = p.trader_id
WHERE d.id > (SELECT entry FROM engine_state WHERE id = 1) AND p.twin = 0 ORDER BY d.id LIMIT ?"""


class StoredTrade(NamedTuple):
    """A trade of an observed wallet with its stored entry; JSON as models.Trade has it.
    `block_time` in seconds.
    """

    slot: int
    place: int
    id: int
    uid: str
    kind: str
    venue: str
    mint: str
    block_time: int
    realized: str
    flags: str
    lots: str
    signature: str
    tx_index: int | None
    entry: bytes

    def read_entry(self) -> Entry:
        return Entry.load(self.signature, self.slot, self.tx_index, self.entry)


STORED = ", ".join(f"{'s' if name == 'entry' else 't'}.{name}" for name in StoredTrade._fields)
STORED_TRADES = f"""
SELECT {STORED} FROM {LISTED_TRADE}
WHERE t.wallet_id = ? AND s.state = 'stored' ORDER BY t.slot, t.place, t.id"""
# The newest first: those that can't be measured are read again until they are too old.
SWAPS = f"""
SELECT {STORED}, k.transfer_fee_bps FROM {LISTED_TRADE} LEFT JOIN token k ON k.mint = t.mint
WHERE t.kind IN ('buy', 'sell') AND t.block_time >= ? AND t.venue IN (?, ?, ?, ?)
AND s.state = 'stored'
AND NOT EXISTS (SELECT 1 FROM real_fill r WHERE r.uid = t.uid) ORDER BY t.id DESC LIMIT ?"""


class MintRow(NamedTuple):
    """A token that an open account holds or has ordered."""

    mint: str


# A position of a retired trader, or of a twin whose trader was reset, stays open for ever.
_PLAYED = """JOIN period p ON p.id = period_id AND p.closed_at IS NULL
JOIN trader t ON t.id = p.trader_id AND t.retired_at IS NULL"""
HELD = f"""
SELECT mint FROM position c {_PLAYED} WHERE c.closed_at IS NULL
UNION SELECT mint FROM paper_order o {_PLAYED} WHERE o.state = 'open'"""


# ---- rows to values ------------------------------------------------------------------------------
def read_position(row: Mapping[str, Any]) -> Position:
    """Return the position that a row stores."""
    values = _values_of(row, POSITION)
    values |= {"reduced": bool(row["reduced"]), "marks": tuple(orjson.loads(row["marks"]))}
    return Position(**values)


def read_order(row: Mapping[str, Any], handle: str) -> Order:
    """Return the open order that a row of `handle`'s trader stores."""
    return Order(handle=handle, **_values_of(row, ORDER))


def _values_of(row: Mapping[str, Any], names: Sequence[str]) -> Columns:
    return {name: int(row[name]) if name in BIG else row[name] for name in names}


def read_fill(row: FillRow) -> Fill:
    """Return the fill, or the failed attempt at one, that a row stores."""
    return Fill(
        order=row.number,
        mint=row.mint,
        side=row.side,
        snapshot=row.snapshot,
        at=row.at,
        decided_on=row.decided_on,
        decided_at=row.decided_at,
        raw=int(row.raw),
        mid=row.mid,
        slippage=row.slippage,
        pool_fee=row.pool_fee,
        network_fee=row.network_fee,
        rent=row.rent,
        failed=bool(row.failed),
        reason=row.reason,
        marks=tuple(orjson.loads(row.marks)),
        flow=row.flow,
        turn=row.turn,
        costs=NetworkCosts(*orjson.loads(row.costs)) if row.costs else None,
    )


# ---- values to rows ------------------------------------------------------------------------------
def show_order(order: Order, period: int) -> Columns:
    """Return the columns of an open order in an account period."""
    return {"period": period, **_columns_of(order, ORDER)}


def show_position(position: Position, period: int) -> Columns:
    """Return the columns of a position in an account period."""
    marks = orjson.dumps(position.marks).decode()
    return {**_columns_of(position, POSITION), "period": period, "marks": marks}


def _columns_of(value: object, names: Sequence[str]) -> Columns:
    return {
        name: str(getattr(value, name)) if name in BIG else getattr(value, name) for name in names
    }


def show_fill(fill: Fill, position: int | None, order: int) -> Columns:
    """Return the columns of a fill. `order`: the id of its row; `position`: a number."""
    return {
        "order": order,
        "position": position,
        "snapshot": fill.snapshot,
        "at": fill.at,
        "raw": str(fill.raw),
        "mid": fill.mid,
        "slippage": fill.slippage,
        "pool_fee": fill.pool_fee,
        "network_fee": fill.network_fee,
        "rent": fill.rent,
        "failed": fill.failed,
        "marks": orjson.dumps(fill.marks).decode(),
        "model": MODEL,
        "flow": fill.flow,
        "turn": fill.turn,
        "costs": orjson.dumps(tuple(fill.costs)).decode() if fill.costs else None,
    }


def show_line(line: DiaryLine, period: int) -> Columns:
    """Return the columns of a line of the diary in an account period."""
    return {
        "period": period,
        "at": line.at,
        "kind": line.kind,
        "mint": line.mint,
        "order_number": line.order,
        "facts": orjson.dumps(line.facts).decode(),
    }
