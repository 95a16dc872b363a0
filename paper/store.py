"""Read and write paper mode's data. Check that an account follows from the fill model and its
stored decisions.

A tick runs only a few statements, for any number of traders. Trades by observed wallets are stored
once, with the first snapshot at which they were visible, so that a replay sees the same.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import orjson

import storage
from chain.amounts import exact, sol
from chain.reading.entries import Entry
from chain.reading.pools import unpack_pool
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
    VENUE_IDS,
    WRITE_OFFS,
    Fill,
    Memory,
    NetworkCosts,
    Order,
    close_at_nothing,
    fill,
    write_off,
)
from paper.market import (
    PRICE_DECIMALS,
    Check,
    Flow,
    Snapshot,
    SnapshotRow,
    Token,
    parse_snapshot,
    price_of,
)
from paper.player import (
    REFUSAL_MS,
    Faults,
    Leg,
    Player,
    ReviewReason,
    Ticket,
    refusal_key,
    topic_of,
)
from paper.rules import DAY_MS, HOUR_MS, LOOK_BACK_MS, Pause, Phase
from paper.strategies import COPY, Strategy, parse_settings
from paper.tables import (
    DiaryEntry,
    EngineState,
    EquityMark,
    PaperFill,
    PaperOrder,
    PaperPosition,
    PaperPost,
    Period,
    Review,
    SeenFlow,
    Trader,
)
from storage.rows import read as read_rows
from storage.rows import select, select_value, write_marks

# ---- statements and rows -------------------------------------------------------------------------
# Whole numbers that may exceed 64 bits. Their columns contain decimal text.
BIG = {"amount", "least", "done", "price", "high", "raw", "bought_raw"}
# The review states in which a record doesn't count.
SUSPECT = ("under_review", "upheld")
JSON = {"marks", "costs", "facts"}
Columns = dict[str, Any]
# A named tuple of a statement's columns.
Row = Any
Kind = TypeVar("Kind")


AWAKE_HOURS = """
SELECT DISTINCT taken_at / 3600000 AS hour FROM snapshot WHERE taken_at >= ? AND taken_at < ?
ORDER BY hour"""


NAMED_SNAPSHOT = """
SELECT s.id, t.mint, s.taken_at, s.price_sol, s.pool_sol, s.liquidity_usd, s.volume24h_usd,
       s.volume5m_usd, s.volume1h_usd, s.venue, s.pair, s.market_cap_usd, s.price_usd,
       s.fall_check, s.reserves
FROM snapshot s JOIN token t ON t.id = s.token_id """
SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.token_id IN (SELECT id FROM token WHERE tracked_at IS NOT NULL OR held)
AND s.taken_at >= ? AND s.id >= ? AND s.id < ?"""
NAMED_SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT f.snapshot FROM paper_fill f JOIN paper_order o ON o.id = f.order_id
               WHERE o.period_id = ?)"""
# The snapshots of fills that pools still remember.
LAST_SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT snapshot FROM paper_fill WHERE turn > 0 AND at >= ?)"""


FILL_FIELDS = [one.name for one in fields(Fill)]


def _find_column(name: str) -> str:
    if name == "order":
        return "o.number"
    return f"{'f' if name in PaperFill._meta.fields else 'o'}.{name}"


class StoredFill(NamedTuple):
    """A fill with its account and model. `position` is a number or None."""

    trader: int
    twin: int
    position: int | None
    model: str
    fill: Fill


FILL = f"""
SELECT p.trader_id, p.twin, f.position, f.model, {", ".join(map(_find_column, FILL_FIELDS))}
FROM paper_fill f JOIN paper_order o ON o.id = f.order_id JOIN period p ON p.id = o.period_id
"""
OF_PERIOD = f"{FILL} WHERE o.period_id = ? ORDER BY f.id"
REMEMBERED_FILLS = f"{FILL} WHERE f.turn > 0 AND f.at >= ? ORDER BY f.at, f.turn"


_TOKEN = """
SELECT id, mint, symbol, decimals, pair_created_at, discovered_at, checks, transfer_fee_bps
FROM token"""
TOKENS = f"{_TOKEN} WHERE tracked_at IS NOT NULL OR held"
# Tokens with stored snapshots.
RECORDED_TOKENS = f"""{_TOKEN}
WHERE EXISTS (SELECT 1 FROM snapshot WHERE snapshot.token_id = token.id)"""


# Each trader comes before its twins.
TRADERS = """
SELECT t.id, t.handle, t.family, t.settings, t.adaptive, t.version, t.created_at, p.id AS period,
       p.twin, p.starting_cash, p.cash, p.lost_fees, p.peak, p.day, p.day_equity, t.phase,
       p.next_order, p.next_position, p.tickets
FROM trader t JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL
WHERE t.retired_at IS NULL ORDER BY t.id, p.twin"""


CLOSES = """
SELECT c.period_id AS period, p.trader_id AS trader, p.twin, c.number, c.mint, c.symbol,
       c.opened_at, c.closed_at, c.reason, c.mid_sold - c.mid_bought AS gross, c.cash AS net,
       c.spent, c.pipeline, c.marks
FROM position c JOIN period p ON p.id = c.period_id
WHERE c.closed_at >= ? ORDER BY c.closed_at, c.id"""


REMEMBERED = """
SELECT p.trader_id AS trader, p.twin, d.kind, d.at, d.mint, d.facts
FROM diary_entry d JOIN period p ON p.id = d.period_id
WHERE d.kind = 'pause' AND d.at >= ? OR d.kind = 'refusal' AND d.at >= ?
ORDER BY d.id"""


REVIEWS = """
SELECT p.trader_id AS trader, p.twin, r.period_id AS period, r.state, r.reasons
FROM review r JOIN period p ON p.id = r.period_id ORDER BY r.id"""


UNPOSTED = """
SELECT d.id, t.id AS trader, t.handle, t.voice, d.kind, d.at, d.mint, d.facts
FROM diary_entry d JOIN period p ON p.id = d.period_id JOIN trader t ON t.id = p.trader_id
WHERE d.id > (SELECT entry FROM engine_state WHERE id = 1) AND p.twin = 0 ORDER BY d.id LIMIT ?"""


# An observed trade with its entry. Rows sort from the oldest to the newest.
STORED = """
t.slot, t.place, t.id, t.uid, t.kind, t.venue, t.mint, t.block_time, t.realized, t.flags, t.lots,
       t.signature, t.tx_index, s.entry""".lstrip()
STORED_TRADES = f"""
SELECT {STORED} FROM {LISTED_TRADE}
WHERE t.wallet_id = ? AND s.state = 'stored' ORDER BY t.slot, t.place, t.id"""
# Newest first. Swaps that can't be measured are read again until they are too old.
SWAPS = f"""
SELECT {STORED}, COALESCE(k.transfer_fee_bps, 0) AS transfer_bps
FROM {LISTED_TRADE} LEFT JOIN token k ON k.mint = t.mint
WHERE t.kind IN ('buy', 'sell') AND t.block_time >= ? AND s.state = 'stored'
AND t.venue IN ({write_marks(list(VENUE_IDS))})
AND NOT EXISTS (SELECT 1 FROM real_fill r WHERE r.uid = t.uid) ORDER BY t.id DESC LIMIT ?"""


# Positions of retired traders, and of twins whose trader was reset, stay open forever.
_PLAYED = """JOIN period p ON p.id = period_id AND p.closed_at IS NULL
JOIN trader t ON t.id = p.trader_id AND t.retired_at IS NULL"""
HELD = f"""
SELECT mint FROM position c {_PLAYED} WHERE c.closed_at IS NULL
UNION SELECT mint FROM paper_order o {_PLAYED} WHERE o.state = 'open'"""


# ---- values in columns ---------------------------------------------------------------------------
def show(value: Any, table: Any, **more: Any) -> Columns:
    known = (name for name in table._meta.fields if hasattr(value, name) and name not in more)
    return {**{name: _encode(name, getattr(value, name)) for name in known}, **more}


def _encode(name: str, value: Any) -> Any:
    if name in BIG:
        return str(value)
    if name in JSON and value is not None:
        return orjson.dumps(value, default=tuple).decode()
    return value


def read(kind: Callable[..., Kind], row: Mapping[str, Any], **more: Any) -> Kind:
    names = (one.name for one in fields(cast(Any, kind)) if one.name not in more)
    found = {name: READERS[name](row[name]) if name in READERS else row[name] for name in names}
    return kind(**found, **more)


def _read_costs(stored: str | None) -> NetworkCosts | None:
    return NetworkCosts(*orjson.loads(stored)) if stored else None


READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(BIG, int),
    **dict.fromkeys(("reduced", "failed"), bool),
    "marks": lambda stored: tuple(orjson.loads(stored)),
    "costs": _read_costs,
}


def list_fills(sql: str, *values: int) -> list[StoredFill]:
    return [
        StoredFill(
            trader, twin, position, model, read(Fill, dict(zip(FILL_FIELDS, columns, strict=True)))
        )
        for trader, twin, position, model, *columns in storage.read_rows(sql, values)
    ]


def read_entry(row: Row) -> Entry:
    return Entry.load(row.signature, row.slot, row.tx_index, row.entry)


# ---- observed wallets ----------------------------------------------------------------------------
# The reserves of an older trade don't give a price. A newer price counts as cached.
LATE_MS = 300_000


# This also avoids reading the entries of stored flows.
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


SEEN = """
SELECT mint, owner, wallet, side, at, first_snapshot, bot, share_bps FROM seen_flow
WHERE at >= ? AND at < ? ORDER BY at, id"""
END_OF_TIME = 2**62


COPIERS = f"SELECT settings FROM trader WHERE family = '{COPY}' AND retired_at IS NULL"


PRICED = """
SELECT t.mint FROM token t WHERE t.mint IN ({}) AND EXISTS (
    SELECT 1 FROM snapshot s WHERE s.token_id = t.id AND s.taken_at >= ?
    AND s.price_sol IS NOT NULL AND s.reserves IS NULL)"""


def see_flows(since: int, first_snapshot: int, now: int) -> None:
    """Store purchases and sales by observed wallets since a time (ms), as first seen with this
    snapshot.

    If a copied bot traded a token without a cached price, its transaction's reserves become a
    snapshot.
    """
    rows = read_rows(UNSEEN, (since // 1000,))
    fresh = [
        show(
            row,
            SeenFlow,
            share_bps=find_sold_bps(row),
            at=row.block_time * 1000,
            first_snapshot=first_snapshot,
        )
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


def find_reserves(rows: Iterable[Row], now: int) -> dict[str, SeenReserves]:
    """Return, by mint, the last pools in which copied bots traded tokens without a cached price."""
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


def _read_reserves(row: Row) -> SeenReserves | None:
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


def _read_entry(row: Row) -> Entry | None:
    try:
        return Entry.load("", 0, None, row.entry) if row.entry is not None else None
    except UNREADABLE:
        return None


def find_sold_bps(row: Row) -> int:
    """Return the sold share of a wallet's holdings in basis points, rounded up; all if unknown."""
    entry = _read_entry(row) if row.side == "sell" else None
    if entry is None:
        return ONE
    before = sum(one.before for one in entry.balances if one.mint == row.mint)
    after = sum(one.after for one in entry.balances if one.mint == row.mint)
    return -(-(before - after) * ONE // before) if before > after else ONE


def list_flows(since: int, until: int = END_OF_TIME) -> dict[str, tuple[Flow, ...]]:
    flows = defaultdict(list)
    for mint, *seen in storage.read_rows(SEEN, (since, until)):
        flows[mint].append(Flow(*seen))
    return {mint: tuple(found) for mint, found in flows.items()}


# ---- reading -------------------------------------------------------------------------------------
# The trader's ID, and 0 or its twin's number from 1 on.
AccountKey = tuple[int, int]


# Plain SQL for speed: it runs each tick, and building it would take longer than running it.
def find_cursor() -> int:
    return select_value("SELECT snapshot FROM engine_state WHERE id = 1") or 0


def find_newest() -> int:
    return select_value("SELECT MAX(id) FROM snapshot") or 0


def has_traders() -> bool:
    return select_value("SELECT 1 FROM trader WHERE retired_at IS NULL LIMIT 1") is not None


def find_first_new(after_id: int, since: int) -> int | None:
    sql = "SELECT MIN(taken_at) FROM snapshot WHERE id > ? AND taken_at >= ?"
    found: int | None = select_value(sql, (after_id, since))
    return found


def list_snapshots(
    tokens: Mapping[int, Token], since: int, ids: range, faults: Faults
) -> list[Snapshot]:
    """Read new token snapshots in order of arrival. Unreadable ones are left out."""
    found, mints = [], {one.mint for one in tokens.values()}
    for row in sorted(select(SnapshotRow, SNAPSHOTS, (since, ids.start, ids.stop))):
        if row.mint in mints:
            with faults.isolate(mint=row.mint):
                found.append(parse_snapshot(row))
    return found


def find_oldest_mark(traders: Iterable[Player], until: int) -> int:
    held = (position for one in traders for position in one.account.positions.values())
    return min([until, *(position.marked_at for position in held)])


def find_silences(since: int, until: int) -> list[Silence]:
    """Return hours (ms) without a snapshot. Each hour's first snapshots are kept for a month."""
    awake = [hour for (hour,) in storage.read_rows(AWAKE_HOURS, (since, until))]
    ends = [since, *((hour + 1) * HOUR_MS for hour in awake)]
    starts = [*(hour * HOUR_MS for hour in awake), until]
    return [Silence(*one) for one in zip(ends, starts, strict=True) if one[0] < one[1]]


def load_memories(market: Market, now: int) -> None:
    since = now - FORGOTTEN_MS - DAY_MS
    known = select(SnapshotRow, LAST_SNAPSHOTS, (since,))
    snapshots = {row.id: parse_snapshot(row) for row in known}
    handles = {row.id: row.handle for row in read_rows(TRADERS)}
    for trader, twin, _, _, done in list_fills(REMEMBERED_FILLS, since):
        snapshot = snapshots.get(done.snapshot)
        if snapshot is None or (twin and trader not in handles):
            continue
        pools = market.apart(name_twin(handles[trader], twin)) if twin else market
        pools.remember(done, snapshot)


def find_tokens(faults: Faults, statement: str = TOKENS) -> dict[int, Token]:
    """Read tokens by row ID. Unreadable ones are left out."""
    tokens = {}
    for ident, mint, symbol, decimals, paired_at, found_at, checks, fee in storage.read_rows(
        statement
    ):
        with faults.isolate(mint=mint):
            name = show_symbol(mint, symbol) or mint[:6]
            known = tuple(Check(one["key"], one["status"]) for one in orjson.loads(checks or "[]"))
            about = decimals, paired_at, found_at or 0, known, fee or 0
            tokens[ident] = Token(mint, name, *about)
    return tokens


def list_trader_rows() -> dict[int, Row]:
    return {row.id: row for row in read_rows(TRADERS) if not row.twin}


def load_traders(
    now: int,
    faults: Faults,
    skipped: Collection[int] = frozenset(),
    read_strategy: Callable[[str, Mapping[str, Any]], Strategy] = parse_settings,
) -> list[Player]:
    """Load active traders and twins, except `skipped` and unreadable ones, which get a fault."""
    positions = _group(PaperPosition, PaperPosition.closed_at.is_null())
    orders = _group(PaperOrder, PaperOrder.state == "open")
    reviews = read_rows(REVIEWS)
    # The state of the last review in each period.
    states = {review.period: review.state for review in reviews}
    loaded: dict[AccountKey, Player] = {}
    for row in read_rows(TRADERS):
        if row.id not in skipped:
            with faults.isolate(row.id):
                handle = name_twin(row.handle, row.twin)
                held = (read(Position, one) for one in positions[row.period])
                waiting = (read(Order, one, handle=handle) for one in orders[row.period])
                account = read(
                    Account,
                    row._asdict(),
                    positions={one.mint: one for one in held},
                    orders={one.number: one for one in waiting},
                )
                strategy = read_strategy(row.family, orjson.loads(row.settings))
                reviewed = states.get(row.period) in SUSPECT
                trader = _read_trader(row, handle, strategy, account, reviewed)
                loaded[row.id, row.twin] = trader
    for (ident, twin), trader in loaded.items():
        own = loaded.get((ident, 0))
        if twin and own:
            own.twins.append(trader)
    closes = read_rows(CLOSES, (now - 2 * LOOK_BACK_MS,))
    lines = read_rows(REMEMBERED, (now - LOOK_BACK_MS - DAY_MS, now - REFUSAL_MS))
    _remember(loaded, faults, reviews, remember_review)
    _remember(loaded, faults, closes, partial(remember_close, states))
    _remember(loaded, faults, lines, remember_line)
    return [trader for trader in loaded.values() if not faults.has(trader.id)]


def _group(model: Any, condition: Any) -> Mapping[int, Sequence[Columns]]:
    found: dict[int, list[Columns]] = defaultdict(list)
    for row in list_columns(model, condition):
        found[row["period"]].append(row)
    return found


def _read_trader(
    row: Row, handle: str, strategy: Strategy, account: Account, reviewed: bool
) -> Player:
    return Player(
        row.id,
        handle,
        strategy,
        account,
        "observe" if row.twin else row.adaptive,
        Phase(**orjson.loads(row.phase)),
        reviewed,
        tickets=read_tickets(row.tickets),
        reviewable=not row.twin,
        row=row,
    )


def read_tickets(stored: str) -> list[Ticket]:
    return [
        Ticket(**{**one, "legs": tuple(Leg(**leg) for leg in one["legs"])})
        for one in orjson.loads(stored)
    ]


def _remember(
    loaded: Mapping[AccountKey, Player],
    faults: Faults,
    rows: Iterable[Any],
    remember: Callable[[Player, Any], None],
) -> None:
    for row in rows:
        trader = loaded.get((row.trader, row.twin))
        if trader is not None:
            with faults.isolate(row.trader):
                remember(trader, row)


def remember_review(trader: Player, review: Row) -> None:
    """Add the keys of a review. The topics of the open period's last review are open."""
    keys = {reason["key"] for reason in orjson.loads(review.reasons)}
    trader.review_keys |= keys
    if review.period == trader.row.period:
        trader.review_topics = {topic_of(key) for key in keys}


def remember_close(states: Mapping[int, str], trader: Player, row: Row) -> None:
    ident = public_id(trader.handle, "close", row.number)
    marks, reviewed = orjson.loads(row.marks), states.get(row.period) in SUSPECT
    trader.closes.append(read_close(ident, row, marks, reviewed=reviewed))


def remember_line(trader: Player, row: Row) -> None:
    facts = orjson.loads(row.facts)
    if row.kind == "refusal":
        trader.refused[refusal_key(facts["reason"], row.mint)] = row.at
    elif "ends" in facts:
        trader.pauses = [pause for pause in trader.pauses if pause.id != facts["ends"]]
    else:
        trader.pauses.append(read_pause(row.at, row.mint, facts))


def read_pause(at: int, mint: str | None, facts: Mapping[str, Any]) -> Pause:
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
    return list(model.select().where(condition).order_by(model.id).dicts())


# ---- writing -------------------------------------------------------------------------------------
MAX_INTEGER = 2**63 - 1


class Outdated(Exception):
    """A trader was changed elsewhere, so nothing was stored. The next tick runs the same again."""


def list_changes(trader: Player) -> dict[Any, list[Columns]]:
    """Return changed rows by table. Fills have their order's number instead of its ID."""
    journal, period = trader.journal, trader.row.period
    return {
        PaperOrder: [show(one, PaperOrder, period=period) for one in journal.orders.values()],
        PaperFill: [
            show(fill, PaperFill, position=position, model=MODEL)
            for fill, position in journal.fills
        ],
        PaperPosition: [
            show(one, PaperPosition, period=period) for one in journal.positions.values()
        ],
        DiaryEntry: [show(line, DiaryEntry, period=period) for line in journal.entries],
        Period: [show(trader.account, Period, tickets=orjson.dumps(trader.tickets).decode())],
    }


def check_round(trader: Player) -> None:
    """Raise OverflowError if a value doesn't fit its column."""
    for rows in list_changes(trader).values():
        for name, value in (item for row in rows for item in row.items()):
            if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
                raise OverflowError(f"{name} doesn't fit its column")


def store_round(
    traders: Sequence[Player],
    cursor: int,
    now: int,
    notes: Iterable[Columns] = (),
    sol_cents: int | None = None,
) -> None:
    """Store a tick's result in one transaction: accounts, the last snapshot, and equity at `now`
    (ms).

    Raises Outdated if nothing was stored. `notes`: diary rows of traders that were left out.
    `sol_cents`: the SOL price.
    """
    changes = [list_changes(trader) for trader in traders]
    orders, positions, lines = (
        [row for one in changes for row in one[table]]
        for table in (PaperOrder, PaperPosition, DiaryEntry)
    )
    key = ("period", "number")
    with storage.writing():
        for trader, made in zip(traders, changes, strict=True):
            _store_trader(trader, made[Period][0])
        written = storage.write_rows(PaperOrder, orders, key, ("period_id", "number", "id"))
        ids = {(period, number): ident for period, number, ident in written}
        fills = [
            {**fill, "order": ids[trader.row.period, fill["order"]]}
            for trader, made in zip(traders, changes, strict=True)
            for fill in made[PaperFill]
        ]
        storage.write_rows(PaperFill, fills)
        storage.write_rows(PaperPosition, positions, key)
        storage.write_rows(DiaryEntry, [*lines, *notes])
        storage.write_rows(EquityMark, list_marks(traders, now, sol_cents), ("period", "at"))
        thin_out(now)
        _pin_snapshots(traders)
        EngineState.insert(id=1, snapshot=cursor).on_conflict(
            conflict_target=[EngineState.id], update={"snapshot": cursor}
        ).execute()


def _store_trader(trader: Player, account: Columns) -> None:
    before, journal = trader.row, trader.journal
    phase = show_phase(trader.phase)
    changed = any(getattr(before, name) != value for name, value in account.items())
    if changed or journal.entries or (phase != before.phase and not before.twin):
        if not before.twin:
            _check_version(trader.id, before.version, phase)
        Period.update(account).where(Period.id == before.period).execute()
    if journal.review_reasons:
        store_review(before.period, journal.review_reasons)


def show_phase(phase: Phase) -> str:
    return orjson.dumps(asdict(phase)).decode()


def _check_version(ident: int, version: int, phase: str) -> None:
    if (
        not Trader.update(version=version + 1, phase=phase)
        .where(Trader.id == ident, Trader.version == version)
        .execute()
    ):
        raise Outdated(f"trader {ident}")


def store_review(period: int, alarms: Sequence[ReviewReason]) -> None:
    """Open a review, or add to one that is open or upheld. The caller begins the transaction."""
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


def _pin_snapshots(traders: Sequence[Player]) -> None:
    """Keep the snapshots that decisions and fills refer to, and track tokens held or on order."""
    named = {order.decided_on for one in traders for order in one.journal.orders.values()}
    named |= {fill.snapshot for one in traders for fill, _ in one.journal.fills}
    if named:
        market_store.pin_snapshots(named)
    # Read from the tables, because traders that are left out also hold tokens.
    market_store.replace_held({mint for (mint,) in storage.read_rows(HELD)})


def list_unposted(limit: int) -> list[Row]:
    return read_rows(UNPOSTED, (limit,))


def read_post_history(trader: int, limit: int) -> tuple[int, list[str]]:
    """Return the number of a trader's posts, and its last `limit` visible ones, oldest first."""
    posts = PaperPost.select(PaperPost.body).where(PaperPost.trader == trader)
    said = posts.where(PaperPost.hidden_at.is_null()).order_by(PaperPost.id.desc())
    latest = [post.body for post in said.limit(limit)]
    return posts.count(), latest[::-1]


def store_posts(posts: Sequence[Columns], last_entry: int) -> None:
    with storage.writing():
        if posts:
            PaperPost.insert_many(posts).execute()
        EngineState.update(entry=last_entry).where(EngineState.id == 1).execute()


# ---- what accounts are worth ---------------------------------------------------------------------
MARK_MS = 600_000
# Marks between one day and this many days old are thinned out. If the job was down for longer, old
# marks stay.
THINNED_DAYS = 3
# Marks that have an earlier mark in their hour. Both engines truncate integer division. Most
# remaining marks are the first of an hour and aren't examined further.
THIN_OUT = f"""
DELETE FROM equity_mark WHERE at < ? AND at > ? AND at / {HOUR_MS} * {HOUR_MS} <> at
AND EXISTS (SELECT 1 FROM equity_mark e WHERE e.period_id = equity_mark.period_id
            AND e.at >= equity_mark.at / {HOUR_MS} * {HOUR_MS} AND e.at < equity_mark.at)"""


def list_marks(traders: Iterable[Player], now: int, sol_cents: int | None) -> list[Columns]:
    return [
        {
            "period": one.row.period,
            "at": now // MARK_MS * MARK_MS,
            "equity": one.account.equity,
            "held": one.account.equity - one.account.cash,
            "sol_cents": sol_cents,
        }
        for one in traders
        if not one.row.twin
    ]


def thin_out(now: int) -> None:
    """Delete marks older than a day except each hour's first. The caller begins the transaction."""
    storage.database.execute_sql(THIN_OUT, (now - DAY_MS, now - THINNED_DAYS * DAY_MS))


# ---- proof ---------------------------------------------------------------------------------------
MONEY = (
    *("raw", "bought_raw", "mid_bought", "mid_sold", "slippage", "fees", "rent", "cash", "spent"),
    *("latency_ms", "closed_at", "reason"),
)


def find_differences(period: Any, handle: str) -> list[str]:
    """Recompute the fills of a period's stored decisions. Return the differences as sentences."""
    known = select(SnapshotRow, NAMED_SNAPSHOTS, (period.id,))
    snapshots = {row.id: parse_snapshot(row) for row in known}
    orders = {
        row["number"]: replace(read(Order, row, handle=handle), done=0, attempts=0, lost=0)
        for row in list_columns(PaperOrder, PaperOrder.period == period)
    }
    stored = {
        row["number"]: read(Position, row)
        for row in list_columns(PaperPosition, PaperPosition.period == period)
    }
    cash, first = period.starting_cash, min(stored, default=1)
    account, found = Account(cash=cash, next_position=first), []
    again: dict[int, Position] = {}
    for _, _, number, model, done in list_fills(OF_PERIOD, period.id):
        order, snapshot = orders[done.order], snapshots.get(done.snapshot)
        mark = stored[number].price if number in stored else 0
        if model == MODEL and fill_again(done, order, snapshot, account, mark) != done:
            found.append(f"order {order.number}, attempt {order.attempts + 1}: a different fill")
        seen = snapshot or Snapshot(done.snapshot, done.mint, done.at, 1)
        orders[done.order], position = account.apply(order, done, seen)
        again |= {position.number: position} if position else {}
    cash = (account.cash, account.lost_fees) != (period.cash, period.lost_fees)
    return [*found, *compare(again, stored), *(["another cash"] if cash else [])]


def fill_again(
    done: Fill, order: Order, snapshot: Snapshot | None, account: Account, mark: int
) -> Fill | None:
    """Return the model's fill on the stored snapshot and flow of the pool."""
    costs, held = done.costs or RECORDED_COSTS, account.positions.get(order.mint)
    if order.reason == "price_gone":
        gone = Snapshot(done.snapshot, done.mint, done.at, mark)
        return close_at_nothing(order, gone, mark, costs)
    if snapshot is None:
        return None
    if snapshot.pool:
        # A snapshot fills orders until there is a newer one.
        snapshot = replace(snapshot, at=done.at)
    memory = Memory(done.flow, snapshot, done.turn - 1)
    if order.reason in WRITE_OFFS:
        return write_off(order, snapshot, mark, memory, costs)
    raw = held.raw if held else None
    return fill(order, snapshot, memory, first=held is None, last_raw=raw, costs=costs)


def compare(again: Mapping[int, Position], stored: Mapping[int, Position]) -> list[str]:
    """Return the sums that differ between positions with the same number."""
    return [
        f"position {number}: another {name}"
        for number in sorted({*again, *stored})
        for name in MONEY
        if getattr(again.get(number), name, None) != getattr(stored.get(number), name, None)
    ]
