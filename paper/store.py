"""Paper mode in the database: what a tick reads and writes, and the check that an account follows
from the fill model and its stored decisions.

A tick runs a few statements, regardless of the number of traders. Trades by observed wallets are
stored once, with the first snapshot at which they were visible, so that a replay sees the same.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import orjson

import storage
from chain.amounts import exact, sol
from chain.reading.entries import Entry
from chain.reading.pools import PoolReading, unpack_pool
from chain.stored.attachments import UNREADABLE
from chain.stored.trades import LISTED_TRADE
from chain.symbols import show_symbol
from market import store as market_store
from market.store import SeenReserves
from models import BOT_OF_TRADE
from paper.account import Account, Position, public_id, read_close
from paper.engine import FORGOTTEN_MS, Market, Silence, name_twin
from paper.fills import (
    MODEL,
    ONE,
    RECORDED_COSTS,
    WRITE_OFFS,
    Fill,
    Memory,
    NetworkCosts,
    Order,
    close_at_nothing,
    fill,
    write_off,
)
from paper.market import PRICE_DECIMALS, Check, Flow, Snapshot, Token, parse_snapshot, price_of
from paper.measured import VENUE_IDS
from paper.rules import DAY_MS, HOUR_MS, LOOK_BACK_MS, Pause, Phase
from paper.strategies import COPY, Strategy, parse_settings
from paper.tables import (
    DiaryEntry,
    EngineState,
    EquityMark,
    PaperFill,
    PaperOrder,
    PaperPost,
    Period,
    Review,
    SeenFlow,
)
from paper.tables import Position as StoredPosition
from paper.tables import Trader as StoredTrader
from paper.trader import (
    REFUSAL_MS,
    DiaryLine,
    Faults,
    Journal,
    Leg,
    ReviewReason,
    Ticket,
    Trader,
    refusal_key,
    topic_of,
)
from storage.rows import select, write_marks

# ---- statements and rows -------------------------------------------------------------------------
# Whole numbers beyond 64 bits are decimal text in their columns.
BIG = {"amount", "least", "done", "price", "high", "raw", "bought_raw"}
POSITION = [field.name for field in fields(Position)]
ORDER = [field.name for field in fields(Order) if field.name != "handle"]
# Columns that equal fields of Fill, of its own table and of its order's.
FILL_COLUMNS = (
    *("snapshot", "at", "mid", "slippage", "pool_fee", "network_fee", "rent", "flow", "turn"),
)
OF_ORDER = ("mint", "side", "decided_on", "decided_at", "reason")
# States of a review that keep a record from counting.
SUSPECT = ("under_review", "upheld")
Columns = dict[str, Any]


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
    # JSON of chain.reading.pools.PoolReading.
    reserves: str | None


NAMED_SNAPSHOT = """
SELECT s.id, t.mint, s.taken_at, s.price_sol, s.pool_sol, s.liquidity_usd, s.volume24h_usd,
       s.volume5m_usd, s.volume1h_usd, s.venue, s.pair, s.market_cap_usd, s.price_usd,
       s.fall_check, s.reserves
FROM snapshot s JOIN token t ON t.id = s.token_id """
SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.token_id IN (SELECT id FROM token WHERE tracked_at IS NOT NULL OR held)
AND s.taken_at >= ? AND s.id >= ? AND s.id < ?"""
# Snapshots of the fills in a period.
NAMED_SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT f.snapshot FROM paper_fill f JOIN paper_order o ON o.id = f.order_id
               WHERE o.period_id = ?)"""
# Snapshots of the fills that pools still remember.
LAST_SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT snapshot FROM paper_fill WHERE turn > 0 AND at >= ?)"""


class FillRow(NamedTuple):
    """A fill with its order. `number`: the order's; `position`: a number or None."""

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
# Tokens with stored snapshots.
RECORDED_TOKENS = f"""{_TOKEN}
WHERE EXISTS (SELECT 1 FROM snapshot WHERE snapshot.token_id = token.id)"""


class TraderRow(NamedTuple):
    """A trader with an open account period: its own, or a twin's."""

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


# Each trader precedes its twins.
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
    """A diary line not yet considered for a post, with its trader and persona."""

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
# Newest first: those that can't be measured are read again until they are too old.
SWAPS = f"""
SELECT {STORED}, k.transfer_fee_bps FROM {LISTED_TRADE} LEFT JOIN token k ON k.mint = t.mint
WHERE t.kind IN ('buy', 'sell') AND t.block_time >= ? AND s.state = 'stored'
AND t.venue IN ({write_marks(list(VENUE_IDS))})
AND NOT EXISTS (SELECT 1 FROM real_fill r WHERE r.uid = t.uid) ORDER BY t.id DESC LIMIT ?"""


class MintRow(NamedTuple):
    """A token that an open account holds or has ordered."""

    mint: str


# Positions of retired traders, and of twins whose trader was reset, stay open forever.
_PLAYED = """JOIN period p ON p.id = period_id AND p.closed_at IS NULL
JOIN trader t ON t.id = p.trader_id AND t.retired_at IS NULL"""
HELD = f"""
SELECT mint FROM position c {_PLAYED} WHERE c.closed_at IS NULL
UNION SELECT mint FROM paper_order o {_PLAYED} WHERE o.state = 'open'"""


# ---- rows to values ------------------------------------------------------------------------------
def read_position(row: Mapping[str, Any]) -> Position:
    values = _values_of(row, POSITION)
    values |= {"reduced": bool(row["reduced"]), "marks": tuple(orjson.loads(row["marks"]))}
    return Position(**values)


def read_order(row: Mapping[str, Any], handle: str) -> Order:
    return Order(handle=handle, **_values_of(row, ORDER))


def _values_of(row: Mapping[str, Any], names: Sequence[str]) -> Columns:
    return {name: int(row[name]) if name in BIG else row[name] for name in names}


def read_fill(row: FillRow) -> Fill:
    return Fill(
        **{name: getattr(row, name) for name in (*FILL_COLUMNS, *OF_ORDER)},
        order=row.number,
        raw=int(row.raw),
        failed=bool(row.failed),
        marks=tuple(orjson.loads(row.marks)),
        costs=NetworkCosts(*orjson.loads(row.costs)) if row.costs else None,
    )


# ---- values to rows ------------------------------------------------------------------------------
def show_order(order: Order, period: int) -> Columns:
    return {"period": period, **_columns_of(order, ORDER)}


def show_position(position: Position, period: int) -> Columns:
    marks = orjson.dumps(position.marks).decode()
    return {**_columns_of(position, POSITION), "period": period, "marks": marks}


def _columns_of(value: object, names: Sequence[str]) -> Columns:
    return {
        name: str(getattr(value, name)) if name in BIG else getattr(value, name) for name in names
    }


def show_fill(fill: Fill, position: int | None, order: int) -> Columns:
    """Return a fill's columns. `order`: its row id; `position`: a number."""
    return {
        "order": order,
        "position": position,
        **{name: getattr(fill, name) for name in FILL_COLUMNS},
        "raw": str(fill.raw),
        "failed": fill.failed,
        "marks": orjson.dumps(fill.marks).decode(),
        "model": MODEL,
        "costs": orjson.dumps(tuple(fill.costs)).decode() if fill.costs else None,
    }


def show_line(line: DiaryLine, period: int) -> Columns:
    return {
        "period": period,
        "at": line.at,
        "kind": line.kind,
        "mint": line.mint,
        "order_number": line.order,
        "facts": orjson.dumps(line.facts).decode(),
    }


# ---- observed wallets ----------------------------------------------------------------------------
# Reserves of an older trade give no price; a newer price counts as cached.
LATE_MS = 300_000


class TradedRow(NamedTuple):
    """A purchase or sale by an observed wallet, with the stored entry if there is one; `trade` and
    `bot` are uids, `block_time` in seconds.
    """

    trade: str
    mint: str
    owner: int
    wallet: str
    bot: str
    side: str
    block_time: int
    entry: bytes | None


# Also avoids reading the entries of flows that are already stored.
UNSEEN = f"""
SELECT t.uid AS trade, n.address AS mint, b.owner_id AS owner, w.address AS wallet, b.uid AS bot,
       m.side, t.block_time, s.entry
FROM trade t JOIN trade_mint m ON m.trade_id = t.id JOIN mint n ON n.id = m.mint_id
JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}
LEFT JOIN sighting s ON s.signature = t.signature AND s.wallet_id = t.wallet_id
WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND m.side IS NOT NULL
AND t.flags NOT LIKE '%"value_unexplained"%'
AND NOT EXISTS (SELECT 1 FROM seen_flow f
                WHERE f.trade = t.uid AND f.mint = n.address AND f.side = m.side)
ORDER BY t.block_time, t.id"""


class SeenRow(NamedTuple):
    """A stored flow; `at` in ms, `first_snapshot` an id."""

    trade: str
    mint: str
    owner: int
    wallet: str
    bot: str
    side: str
    share_bps: int
    at: int
    first_snapshot: int


SEEN = """
SELECT trade, mint, owner, wallet, bot, side, share_bps, at, first_snapshot FROM seen_flow
WHERE at >= ? AND at < ? ORDER BY at, id"""
# Later than any.
END_OF_TIME = 2**62


COPIERS = f"SELECT settings FROM trader WHERE family = '{COPY}' AND retired_at IS NULL"


PRICED = """
SELECT t.mint FROM token t WHERE t.mint IN ({}) AND EXISTS (
    SELECT 1 FROM snapshot s WHERE s.token_id = t.id AND s.taken_at >= ?
    AND s.price_sol IS NOT NULL AND s.reserves IS NULL)"""


def see_flows(since: int, first_snapshot: int, now: int) -> None:
    """Store purchases and sales by observed wallets since a time (ms) as first seen with the
    snapshot of this id. If a copied bot traded a token without a cached price, its transaction's
    reserves become a snapshot.
    """
    rows = select(TradedRow, UNSEEN, (since // 1000,))
    fresh = [
        {
            "trade": row.trade,
            "mint": row.mint,
            "owner": row.owner,
            "wallet": row.wallet,
            "bot": row.bot,
            "side": row.side,
            "share_bps": find_sold_bps(row),
            "at": row.block_time * 1000,
            "first_snapshot": first_snapshot,
        }
        for row in rows
    ]
    if not fresh:
        return
    reserves = find_reserves(rows, now)
    if reserves:
        market_store.store_discoveries(dict.fromkeys(reserves, (None, None)), "wallets", now)
    with storage.writing():
        for part in storage.in_parts(fresh):
            SeenFlow.insert_many(part).on_conflict_ignore().execute()
        market_store.store_reserves(reserves.values(), now)


def list_copied() -> set[str]:
    return {orjson.loads(settings)["bot"] for (settings,) in storage.read_rows(COPIERS)}


def find_reserves(rows: Iterable[TradedRow], now: int) -> dict[str, SeenReserves]:
    """Return the last pools of copied bots' trades in tokens without a cached price, by mint."""
    bots = list_copied()
    found = {
        row.mint: reserves
        for row in rows
        if row.bot in bots
        and row.block_time * 1000 >= now - LATE_MS
        and (reserves := _read_reserves(row))
    }
    if not found:
        return {}
    values = *found, now - LATE_MS
    priced = storage.read_rows(PRICED.format(write_marks(list(found))), values)
    return {mint: one for mint, one in found.items() if (mint,) not in priced}


def _read_reserves(row: TradedRow) -> SeenReserves | None:
    entry = _read_entry(row)
    pool = unpack_pool(entry.pool) if entry and entry.mint == row.mint else ""
    if entry is None or isinstance(pool, str) or not pool.after.raw or row.mint in entry.created:
        return None
    decimals = next((scale for mint, _, scale in entry.tokens if mint == row.mint), None)
    price = price_of(pool.after.sol, pool.after.raw, decimals) if decimals is not None else 0
    if decimals is None or not price:
        return None
    text, held = exact(price, PRICE_DECIMALS), sol(pool.after.payable)
    stored = orjson.dumps(pool.pack()).decode()
    return SeenReserves(row.mint, decimals, text, held, VENUE_IDS.get(pool.venue), stored)


def _read_entry(row: TradedRow) -> Entry | None:
    try:
        return Entry.load("", 0, None, row.entry) if row.entry is not None else None
    except UNREADABLE:
        # `doctor` reports the damaged row.
        return None


def find_sold_bps(row: TradedRow) -> int:
    """Return the share of its holdings that a wallet sold, in basis points, rounded up; all of it
    if unknown.
    """
    entry = _read_entry(row) if row.side == "sell" else None
    if entry is None:
        return ONE
    before = sum(one.before for one in entry.balances if one.mint == row.mint)
    after = sum(one.after for one in entry.balances if one.mint == row.mint)
    return -(-(before - after) * ONE // before) if before > after else ONE


def list_flows(since: int, until: int = END_OF_TIME) -> dict[str, tuple[Flow, ...]]:
    """Read the flows seen in this time (ms), by mint, oldest first."""
    flows = defaultdict(list)
    for row in _select_seen(since, until):
        seen = row.owner, row.wallet, row.side, row.at, row.first_snapshot
        flows[row.mint].append(Flow(*seen, row.bot, row.share_bps))
    return {mint: tuple(found) for mint, found in flows.items()}


def _select_seen(since: int, until: int = END_OF_TIME) -> list[SeenRow]:
    return select(SeenRow, SEEN, (since, until))


# ---- reading -------------------------------------------------------------------------------------
# Plain SQL: it runs each tick, and building it would take longer than running it.
CURSOR = "SELECT snapshot FROM engine_state WHERE id = 1"
NEWEST = "SELECT MAX(id) FROM snapshot"
ANY_TRADER = "SELECT 1 FROM trader WHERE retired_at IS NULL LIMIT 1"
NEW_SNAPSHOTS = "SELECT MIN(taken_at) FROM snapshot WHERE id > ? AND taken_at >= ?"


@dataclass
class LoadedTrader:
    """A trader or a twin, and its row as read, to detect changes that must be stored."""

    trader: Trader
    row: TraderRow


class AccountKey(NamedTuple):
    """The key of an account: the trader's id, and 0 or the number of its twin from 1 on."""

    trader: int
    twin: int


class OpenRows(NamedTuple):
    """Rows of open positions and orders, by account period."""

    positions: Mapping[int, Sequence[Columns]]
    orders: Mapping[int, Sequence[Columns]]


def find_cursor() -> int:
    """Return the id of the last processed snapshot, or 0."""
    found = storage.database.execute_sql(CURSOR).fetchone()
    return found[0] if found else 0


def find_newest() -> int:
    return storage.database.execute_sql(NEWEST).fetchone()[0] or 0


def has_traders() -> bool:
    return bool(storage.database.execute_sql(ANY_TRADER).fetchone())


def find_first_new(after_id: int, since: int) -> int | None:
    """Return the time of the first snapshot after an id, `since` at the earliest, or None."""
    found: int | None = storage.database.execute_sql(NEW_SNAPSHOTS, (after_id, since)).fetchone()[0]
    return found


def list_snapshots(
    tokens: Mapping[int, Token], since: int, ids: range, faults: Faults
) -> list[Snapshot]:
    """Read the snapshots of `tokens` taken since a time, with an id in the range `ids`, in order of
    arrival. Unreadable ones are left out.
    """
    found, mints = [], {one.mint for one in tokens.values()}
    for row in sorted(select(NamedSnapshotRow, SNAPSHOTS, (since, ids.start, ids.stop))):
        if row.mint in mints:
            with faults.isolate():
                faults.mint = row.mint
                found.append(read_snapshot(row, row.mint))
    return found


def read_snapshot(row: NamedSnapshotRow, mint: str) -> Snapshot:
    check = orjson.loads(row.fall_check) if row.fall_check else {}
    return parse_snapshot(
        row.id,
        mint,
        row.taken_at,
        row.price_sol,
        row.pool_sol,
        row.liquidity_usd,
        row.volume24h_usd,
        row.volume5m_usd,
        row.volume1h_usd,
        row.venue,
        row.pair,
        row.market_cap_usd,
        row.price_usd,
        check.get("before"),
        check.get("price_sol"),
        _read_pool(row.reserves),
    )


def _read_pool(stored: str | None) -> PoolReading | None:
    pool = unpack_pool(orjson.loads(stored)) if stored else None
    return pool if isinstance(pool, PoolReading) else None


def find_oldest_mark(loaded: Iterable[LoadedTrader], until: int) -> int:
    """Return the oldest mark among open positions, at most `until` (ms)."""
    held = (position for one in loaded for position in one.trader.account.positions.values())
    return min([until, *(position.marked_at for position in held)])


def find_silences(since: int, until: int) -> list[Silence]:
    """Return the hours between two times (ms) in which no token had a snapshot. The first snapshots
    of each hour are kept for a month.
    """
    if since >= until:
        return []
    awake = [hour for (hour,) in storage.read_rows(AWAKE_HOURS, (since, until))]
    ends = [since, *((hour + 1) * HOUR_MS for hour in awake)]
    starts = [*(hour * HOUR_MS for hour in awake), until]
    return [Silence(*one) for one in zip(ends, starts, strict=True) if one[0] < one[1]]


def load_memories(market: Market, now: int) -> None:
    """Load what each pool remembers of simulated trades into a market."""
    since = now - FORGOTTEN_MS - DAY_MS
    snapshots = {
        row.id: read_snapshot(row, row.mint)
        for row in select(NamedSnapshotRow, LAST_SNAPSHOTS, (since,))
    }
    handles = {row.id: row.handle for row in select(TraderRow, TRADERS)}
    for row in select(FillRow, REMEMBERED_FILLS, (since,)):
        snapshot = snapshots.get(row.snapshot)
        if snapshot is None or (row.twin and row.trader not in handles):
            continue
        twin = row.twin and name_twin(handles[row.trader], row.twin)
        (market.apart(twin) if twin else market).remember(read_fill(row), snapshot)


def find_tokens(faults: Faults, statement: str = TOKENS) -> dict[int, Token]:
    """Read tracked and held tokens (or those of another statement) by row id. Unreadable ones are
    left out.
    """
    tokens = {}
    for row in select(TokenRow, statement):
        with faults.isolate():
            faults.mint = row.mint
            tokens[row.id] = Token(
                row.mint,
                show_symbol(row.mint, row.symbol) or row.mint[:6],
                row.decimals,
                row.pair_created_at,
                row.discovered_at or 0,
                _read_checks(row.checks),
                row.transfer_fee_bps or 0,
            )
    return tokens


def _read_checks(checks: str | None) -> tuple[Check, ...]:
    return tuple(Check(one["key"], one["status"]) for one in orjson.loads(checks or "[]"))


def list_trader_rows() -> dict[int, TraderRow]:
    """Read active traders, without twins, by id."""
    return {row.id: row for row in select(TraderRow, TRADERS) if not row.twin}


def load_traders(
    now: int,
    faults: Faults,
    skipped: Collection[int] = frozenset(),
    read_strategy: Callable[[str, Mapping[str, Any]], Strategy] = parse_settings,
) -> list[LoadedTrader]:
    """Read active traders and their twins, with their open accounts and memory.

    Traders in `skipped` are left out. Traders whose rows or strategies can't be read are left out
    and get a fault.
    """
    opened = _read_open()
    reviews = select(ReviewRow, REVIEWS)
    # State of the last review of each period.
    states = {review.period: review.state for review in reviews}
    loaded: dict[AccountKey, LoadedTrader] = {}
    for row in select(TraderRow, TRADERS):
        if row.id not in skipped:
            with faults.isolate(row.id):
                reviewed = states.get(row.period) in SUSPECT
                strategy = read_strategy(row.family, orjson.loads(row.settings))
                loaded[AccountKey(row.id, row.twin)] = _read_trader(row, strategy, opened, reviewed)
    for who, one in loaded.items():
        own = loaded.get(AccountKey(who.trader, 0))
        if who.twin and own:
            own.trader.twins.append(one.trader)
    _remember_reviews(loaded, reviews, faults)
    _remember_closes(loaded, states, now, faults)
    _remember_lines(loaded, now, faults)
    return [one for who, one in loaded.items() if not faults.has(who.trader)]


def _read_trader(
    row: TraderRow, strategy: Strategy, opened: OpenRows, reviewed: bool
) -> LoadedTrader:
    handle = name_twin(row.handle, row.twin) if row.twin else row.handle
    account = Account(
        row.cash,
        [read_position(one) for one in opened.positions[row.period]],
        [read_order(one, handle) for one in opened.orders[row.period]],
        row.next_order,
        row.next_position,
        row.lost_fees,
    )
    trader = Trader(
        row.id,
        handle,
        strategy,
        account,
        "observe" if row.twin else row.adaptive,
        Phase(**orjson.loads(row.phase)),
        reviewed,
        row.starting_cash,
        row.peak,
        row.day,
        row.day_equity,
        tickets=read_tickets(row.tickets),
        reviewable=not row.twin,
    )
    return LoadedTrader(trader, row)


def read_tickets(stored: str) -> list[Ticket]:
    return [
        Ticket(**{**one, "legs": tuple(Leg(**leg) for leg in one["legs"])})
        for one in orjson.loads(stored)
    ]


def _read_open() -> OpenRows:
    positions: dict[int, list[Columns]] = defaultdict(list)
    orders: dict[int, list[Columns]] = defaultdict(list)
    for row in list_columns(StoredPosition, StoredPosition.closed_at.is_null()):
        positions[row["period"]].append(row)
    for row in list_columns(PaperOrder, PaperOrder.state == "open"):
        orders[row["period"]].append(row)
    return OpenRows(positions, orders)


def _remember_reviews(
    loaded: Mapping[AccountKey, LoadedTrader], reviews: Iterable[ReviewRow], faults: Faults
) -> None:
    """Fill in the keys of a trader's reviews, and the topics of its open period's last one."""
    for review in reviews:
        one = loaded.get(AccountKey(review.trader, 0))
        if one is None:
            continue
        with faults.isolate(review.trader):
            keys = {reason["key"] for reason in orjson.loads(review.reasons)}
            one.trader.review_keys |= keys
            if review.period == one.row.period:
                one.trader.review_topics = {topic_of(key) for key in keys}


def _remember_closes(
    loaded: Mapping[AccountKey, LoadedTrader], states: Mapping[int, str], now: int, faults: Faults
) -> None:
    for row in select(CloseRow, CLOSES, (now - 2 * LOOK_BACK_MS,)):
        one = loaded.get(AccountKey(row.trader, row.twin))
        if one is not None:
            with faults.isolate(row.trader):
                trader = one.trader
                ident = public_id(trader.handle, "close", row.number)
                marks, reviewed = orjson.loads(row.marks), states.get(row.period) in SUSPECT
                trader.closes.append(read_close(ident, row, marks, reviewed=reviewed))


def _remember_lines(loaded: Mapping[AccountKey, LoadedTrader], now: int, faults: Faults) -> None:
    since = now - LOOK_BACK_MS - DAY_MS, now - REFUSAL_MS
    for row in select(RememberedRow, REMEMBERED, since):
        one = loaded.get(AccountKey(row.trader, row.twin))
        if one is not None:
            with faults.isolate(row.trader):
                _remember_line(one.trader, row)


def _remember_line(trader: Trader, row: RememberedRow) -> None:
    facts = orjson.loads(row.facts)
    if row.kind == "pause":
        _remember_pause(trader, row.at, row.mint, facts)
    else:
        trader.refused[refusal_key(facts["reason"], row.mint)] = row.at


def _remember_pause(trader: Trader, at: int, mint: str | None, facts: Mapping[str, Any]) -> None:
    if "ends" in facts:
        trader.pauses = [pause for pause in trader.pauses if pause.id != facts["ends"]]
    else:
        trader.pauses.append(read_pause(at, mint, facts))


def read_pause(at: int, mint: str | None, facts: Mapping[str, Any]) -> Pause:
    """Return the pause that a diary line describes. `at`: the line's time (ms)."""
    return Pause(
        facts["id"],
        facts["rule"],
        facts["effect"],
        mint,
        at,
        facts["until"],
        facts["what"] == "begun",
        facts["n"],
        facts["windowMs"],
        facts["numbers"],
    )


def list_columns(model: Any, condition: Any) -> list[Columns]:
    """Read rows of a table as {column: value}, oldest first."""
    return list(model.select().where(condition).order_by(model.id).dicts())


# ---- writing -------------------------------------------------------------------------------------
# What a column holds at most.
MAX_INTEGER = 2**63 - 1


class Outdated(Exception):
    """A trader was changed elsewhere during the tick. Nothing was stored; the next tick runs the
    same snapshots again.
    """


class PeriodJournal(NamedTuple):
    """The results of a trader's rounds, and its account period."""

    period: int
    journal: Journal


class PeriodLine(NamedTuple):
    """A line for the diary of an account period."""

    period: int
    line: DiaryLine


class PostHistory(NamedTuple):
    """The number of a trader's posts, and the bodies of the latest ones that still have their text,
    oldest first."""

    total: int
    recent: list[str]


def check_round(one: LoadedTrader) -> None:
    """Raise OverflowError if a value doesn't fit its column."""
    journal, account = one.trader.journal, one.trader.account
    made: list[Columns] = [show_order(order, one.row.period) for order in journal.orders.values()]
    made += [show_position(position, one.row.period) for position in journal.positions.values()]
    made += [show_fill(fill, position, 0) for fill, position in journal.fills]
    made += [show_line(entry, one.row.period) for entry in journal.entries]
    made.append(
        {
            "cash": account.cash,
            "lost_fees": account.lost_fees,
            "peak": one.trader.peak,
            "day_equity": one.trader.day_equity,
        }
    )
    for row in made:
        for name, value in row.items():
            if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
                raise OverflowError(f"{name} fits no column")


def store_round(
    loaded: Sequence[LoadedTrader],
    cursor: int,
    now: int,
    notes: Iterable[PeriodLine] = (),
    sol_cents: int | None = None,
) -> None:
    """Store the result of a tick in one transaction: accounts, the position in the snapshots, and
    equity at `now` (ms). Raises Outdated, without storing anything. notes: diary lines of traders
    that were left out. sol_cents: the SOL price.
    """
    journals = [PeriodJournal(one.row.period, one.trader.journal) for one in loaded]
    lines = [show_line(line, one.period) for one in journals for line in one.journal.entries]
    lines += [show_line(note.line, note.period) for note in notes]
    with storage.writing():
        for one in loaded:
            _store_trader(one)
        _store_journals(journals)
        _insert(DiaryEntry, lines)
        _insert(EquityMark, list_marks(loaded, now, sol_cents), ("period", "at"))
        thin_out(now)
        _pin_snapshots([one.trader for one in loaded])
        EngineState.insert(id=1, snapshot=cursor).on_conflict(
            conflict_target=[EngineState.id], update={"snapshot": cursor}
        ).execute()


def _store_journals(journals: Sequence[PeriodJournal]) -> None:
    """Store orders, fills and positions; an order's row must exist before its fills."""
    orders = [
        show_order(order, one.period) for one in journals for order in one.journal.orders.values()
    ]
    positions = [
        show_position(position, one.period)
        for one in journals
        for position in one.journal.positions.values()
    ]
    _insert(PaperOrder, orders, ("period", "number"), ("done", "attempts", "lost", "state"))
    fills = []
    for one in journals:
        if one.journal.fills:
            ids = _find_order_ids(one)
            fills += [
                show_fill(fill, position, ids[fill.order]) for fill, position in one.journal.fills
            ]
    _insert(PaperFill, fills)
    _insert(StoredPosition, positions, ("period", "number"))


def _store_trader(one: LoadedTrader) -> None:
    trader, journal = one.trader, one.trader.journal
    account = {
        "cash": trader.account.cash,
        "lost_fees": trader.account.lost_fees,
        "peak": trader.peak,
        "day": trader.day,
        "day_equity": trader.day_equity,
        "next_order": trader.account.next_order,
        "next_position": trader.account.next_position,
        "tickets": orjson.dumps(trader.tickets).decode(),
    }
    phase = show_phase(trader.phase)
    before = one.row._asdict()
    changed = any(before[name] != value for name, value in account.items())
    if changed or journal.entries or (phase != before["phase"] and not one.row.twin):
        if not one.row.twin:
            _check_version(trader.id, one.row.version, phase)
        Period.update(account).where(Period.id == one.row.period).execute()
    if journal.review_reasons:
        store_review(one.row.period, journal.review_reasons)


def show_phase(phase: Phase) -> str:
    return orjson.dumps(asdict(phase)).decode()


def _check_version(ident: int, version: int, phase: str) -> None:
    """Store the phase if the version is unchanged, else raise Outdated."""
    if (
        not StoredTrader.update(version=version + 1, phase=phase)
        .where(StoredTrader.id == ident, StoredTrader.version == version)
        .execute()
    ):
        raise Outdated(f"trader {ident}")


def _find_order_ids(one: PeriodJournal) -> dict[int, int]:
    ids: dict[int, int] = {}
    for part in storage.in_parts({done.order for done, _ in one.journal.fills}):
        orders = PaperOrder.select(PaperOrder.number, PaperOrder.id).where(
            PaperOrder.period == one.period, PaperOrder.number.in_(part)
        )
        ids |= {order.number: order.id for order in orders}
    return ids


def _insert(
    model: Any, made: Sequence[Columns], key: Sequence[str] = (), update: Sequence[str] = ()
) -> None:
    """Insert rows of the same shape. If the key exists, update the columns `update`, or all."""
    if not made:
        return
    columns = {name: model._meta.fields[name].column_name for name in made[0]}
    names = ", ".join(f'"{column}"' for column in columns.values())
    places = ", ".join("?" * len(columns))
    storage.database.cursor().executemany(
        f'INSERT INTO "{model._meta.table_name}" ({names}) VALUES ({places})'
        f" {_on_conflict(columns, key, update)}",
        [tuple(row.values()) for row in made],
    )


def _on_conflict(columns: Mapping[str, str], key: Sequence[str], update: Sequence[str]) -> str:
    if not key:
        return ""
    taken = ", ".join(
        f'"{columns[name]}" = excluded."{columns[name]}"'
        for name in update or columns
        if name not in key
    )
    return f"ON CONFLICT ({', '.join(columns[name] for name in key)}) DO UPDATE SET {taken}"


def store_review(period: int, alarms: Sequence[ReviewReason]) -> None:
    """Open a review, or add to one that is open or was upheld. Runs in the caller's transaction."""
    reasons = [asdict(alarm) for alarm in alarms]
    last = Review.select().where(Review.period == period).order_by(Review.id.desc()).first()
    if last and last.state in SUSPECT:
        Review.update(reasons=orjson.dumps(orjson.loads(last.reasons) + reasons).decode()).where(
            Review.id == last.id
        ).execute()
    else:
        Review.create(
            period=period,
            state="under_review",
            reasons=orjson.dumps(reasons).decode(),
            opened_at=alarms[0].at,
        )


def _pin_snapshots(traders: Sequence[Trader]) -> None:
    """Keep snapshots referenced by a decision or fill, and keep tracking tokens that are held or on
    order.
    """
    named = {order.decided_on for one in traders for order in one.journal.orders.values()}
    named |= {fill.snapshot for one in traders for fill, _ in one.journal.fills}
    if named:
        market_store.pin_snapshots(named)
    # Read from the tables, since traders that are left out hold tokens too.
    market_store.replace_held({row.mint for row in select(MintRow, HELD)})


def list_unposted(limit: int) -> list[UnpostedRow]:
    return select(UnpostedRow, UNPOSTED, (limit,))


def read_post_history(trader: int, limit: int) -> PostHistory:
    """Count a trader's posts and read the last `limit` visible ones."""
    posts = PaperPost.select(PaperPost.body).where(PaperPost.trader == trader)
    said = posts.where(PaperPost.hidden_at.is_null()).order_by(PaperPost.id.desc())
    latest = [post.body for post in said.limit(limit)]
    return PostHistory(posts.count(), latest[::-1])


def store_posts(posts: Sequence[Columns], last_entry: int) -> None:
    """Store posts and the position in the diaries."""
    with storage.writing():
        _insert(PaperPost, posts)
        EngineState.update(entry=last_entry).where(EngineState.id == 1).execute()


# ---- what accounts are worth ---------------------------------------------------------------------
MARK_MS = 600_000
# Marks between one day and this many days old are thinned out. After a longer outage of the job,
# old marks stay.
THINNED_DAYS = 3
# Marks that have an earlier one in their hour; every engine truncates integer division. Most
# remaining marks are the first of an hour, and are not examined further.
THIN_OUT = f"""
DELETE FROM equity_mark WHERE at < ? AND at > ? AND at / {HOUR_MS} * {HOUR_MS} <> at
AND EXISTS (SELECT 1 FROM equity_mark e WHERE e.period_id = equity_mark.period_id
            AND e.at >= equity_mark.at / {HOUR_MS} * {HOUR_MS} AND e.at < equity_mark.at)"""


def list_marks(
    loaded: Sequence[LoadedTrader], now: int, sol_cents: int | None
) -> list[dict[str, Any]]:
    """Return rows with the equity of traders at `now` (ms), without twins."""
    return [
        {
            "period": one.row.period,
            "at": now // MARK_MS * MARK_MS,
            "equity": one.trader.account.equity,
            "held": one.trader.account.equity - one.trader.account.cash,
            "sol_cents": sol_cents,
        }
        for one in loaded
        if not one.row.twin
    ]


def thin_out(now: int) -> None:
    """Delete an account's marks after a day, except the first in each hour. Runs in the caller's
    transaction.
    """
    storage.database.execute_sql(THIN_OUT, (now - DAY_MS, now - THINNED_DAYS * DAY_MS))


# ---- proof ---------------------------------------------------------------------------------------
MONEY = (
    *("raw", "bought_raw", "mid_bought", "mid_sold", "slippage", "fees", "rent", "cash", "spent"),
    *("latency_ms", "closed_at", "reason"),
)


def find_differences(period: Any, handle: str) -> list[str]:
    """Refill an account period's stored decisions and return the differences as sentences."""
    known = select(NamedSnapshotRow, NAMED_SNAPSHOTS, (period.id,))
    snapshots = {row.id: read_snapshot(row, row.mint) for row in known}
    orders = {
        row["number"]: replace(read_order(row, handle), done=0, attempts=0, lost=0)
        for row in list_columns(PaperOrder, PaperOrder.period == period)
    }
    stored = {
        row["number"]: read_position(row)
        for row in list_columns(StoredPosition, StoredPosition.period == period)
    }
    account, found = Account(period.starting_cash, next_position=min(stored, default=1)), []
    again: dict[int, Position] = {}
    for row in select(FillRow, OF_PERIOD, (period.id,)):
        done, order, snapshot = read_fill(row), orders[row.number], snapshots.get(row.snapshot)
        mark = stored[row.position].price if row.position in stored else 0
        if row.model == MODEL and fill_again(done, order, snapshot, account, mark) != done:
            found.append(f"order {order.number}, attempt {order.attempts + 1}: a different fill")
        seen = snapshot or Snapshot(done.snapshot, done.mint, done.at, 1)
        orders[row.number], position = account.apply(order, done, seen)
        again |= {position.number: position} if position else {}
    cash = (account.cash, account.lost_fees) != (period.cash, period.lost_fees)
    return [*found, *compare(again, stored), *(["another cash"] if cash else [])]


def fill_again(
    done: Fill, order: Order, snapshot: Snapshot | None, account: Account, mark: int
) -> Fill | None:
    """Return the model's fill of an order, on the stored snapshot and flow of the pool; None
    without the snapshot. mark: the last price of its position.
    """
    costs, held = done.costs or RECORDED_COSTS, account.positions.get(order.mint)
    if order.reason == "price_gone":
        gone = Snapshot(done.snapshot, done.mint, done.at, mark)
        return close_at_nothing(order, gone, mark, costs)
    if snapshot is None:
        return None
    if snapshot.pool:
        # It fills orders until there is a newer one.
        snapshot = replace(snapshot, at=done.at)
    memory = Memory(done.flow, snapshot, done.turn - 1)
    if order.reason in WRITE_OFFS:
        return write_off(order, snapshot, mark, memory, costs)
    raw = held.raw if held else None
    return fill(order, snapshot, memory, first=held is None, last_raw=raw, costs=costs)


def compare(again: Mapping[int, Position], stored: Mapping[int, Position]) -> list[str]:
    """Name the sums that differ between two accounts' positions with the same number. A missing
    position differs in every sum that isn't None.
    """
    return [
        f"position {number}: another {name}"
        for number in sorted({*again, *stored})
        for name in MONEY
        if getattr(again.get(number), name, None) != getattr(stored.get(number), name, None)
    ]
