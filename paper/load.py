"""Read what a tick of paper mode needs: the market, and the traders with what they remember.

It runs a few statements, regardless of the number of traders.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

import storage
from chain.reading.pools import PoolReading, unpack_pool
from chain.symbols import show_symbol
from paper import rows
from paper.account import Account, public_id, read_close
from paper.faults import Faults
from paper.guard import DAY_MS, HOUR_MS, LOOK_BACK_MS, Pause, Phase
from paper.market import Check, Snapshot, Token, parse_snapshot
from paper.recent import FORGOTTEN_MS, Market, Silence
from paper.rows import SUSPECT, Columns, read_fill, read_order, read_position
from paper.strategies import Strategy, parse_settings
from paper.tables import PaperOrder
from paper.tables import Position as StoredPosition
from paper.trader import REFUSAL_MS, Trader, refusal_key, topic_of
from paper.twins import Leg, Ticket, name_twin
from storage.rows import select

# Plain SQL: it runs in each tick, and building it would take longer than running it.
CURSOR = "SELECT snapshot FROM engine_state WHERE id = 1"
NEWEST = "SELECT MAX(id) FROM snapshot"
ANY_TRADER = "SELECT 1 FROM trader WHERE retired_at IS NULL LIMIT 1"
NEW_SNAPSHOTS = "SELECT MIN(taken_at) FROM snapshot WHERE id > ? AND taken_at >= ?"


@dataclass
class LoadedTrader:
    """A trader or a twin, and its row as read, to see what changed and has to be stored."""

    trader: Trader
    row: rows.TraderRow


class AccountKey(NamedTuple):
    """The key of an account: the trader's id, and 0 or the number of its twin from 1 on."""

    trader: int
    twin: int


class OpenRows(NamedTuple):
    """Rows of open positions and orders, by account period."""

    positions: Mapping[int, Sequence[Columns]]
    orders: Mapping[int, Sequence[Columns]]


def find_cursor() -> int:
    """Return the id of the last snapshot that was played; 0 in the beginning."""
    found = storage.database.execute_sql(CURSOR).fetchone()
    return found[0] if found else 0


def find_newest() -> int:
    """Return the id of the newest snapshot; 0 without one."""
    return storage.database.execute_sql(NEWEST).fetchone()[0] or 0


def has_traders() -> bool:
    """Whether anybody trades here: a trader that is not retired."""
    return bool(storage.database.execute_sql(ANY_TRADER).fetchone())


def find_first_new(after_id: int, since: int) -> int | None:
    """Return when the first snapshot after an id was taken, `since` at the earliest; None without
    one.
    """
    found: int | None = storage.database.execute_sql(NEW_SNAPSHOTS, (after_id, since)).fetchone()[0]
    return found


def list_snapshots(
    tokens: Mapping[int, Token], since: int, ids: range, faults: Faults
) -> list[Snapshot]:
    """Read the snapshots of `tokens` taken since, with an id in the range `ids`, in the order they
    arrived; without those that cannot be read.
    """
    found, mints = [], {one.mint for one in tokens.values()}
    for row in sorted(select(rows.NamedSnapshotRow, rows.SNAPSHOTS, (since, ids.start, ids.stop))):
        if row.mint in mints:
            with faults.isolate():
                faults.mint = row.mint
                found.append(read_snapshot(row, row.mint))
    return found


def read_snapshot(row: rows.NamedSnapshotRow, mint: str) -> Snapshot:
    """Return the snapshot that a row stores."""
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
        _read_reserves(row.reserves),
    )


def _read_reserves(stored: str | None) -> PoolReading | None:
    pool = unpack_pool(orjson.loads(stored)) if stored else None
    return pool if isinstance(pool, PoolReading) else None


def find_oldest_mark(loaded: Iterable[LoadedTrader], until: int) -> int:
    """Return when the position that waits longest for a price had the last one; `until` (ms) if
    none waits since before that.
    """
    held = (position for one in loaded for position in one.trader.account.positions.values())
    return min([until, *(position.marked_at for position in held)])


def find_silences(since: int, until: int) -> list[Silence]:
    """Return when no token had a snapshot between two times (ms), by the hour: of each hour the
    first snapshots are kept for a month.
    """
    if since >= until:
        return []
    awake = select(rows.AwakeRow, rows.AWAKE_HOURS, (since, until))
    ends = [since, *((row.hour + 1) * HOUR_MS for row in awake)]
    starts = [*(row.hour * HOUR_MS for row in awake), until]
    return [Silence(*one) for one in zip(ends, starts, strict=True) if one[0] < one[1]]


def load_memories(market: Market, now: int) -> None:
    """Tell a market what each pool remembers of simulated trades."""
    since = now - FORGOTTEN_MS - DAY_MS
    snapshots = {
        row.id: read_snapshot(row, row.mint)
        for row in select(rows.NamedSnapshotRow, rows.LAST_SNAPSHOTS, (since,))
    }
    handles = {row.id: row.handle for row in select(rows.TraderRow, rows.TRADERS)}
    for row in select(rows.FillRow, rows.REMEMBERED_FILLS, (since,)):
        snapshot = snapshots.get(row.snapshot)
        if snapshot is None or (row.twin and row.trader not in handles):
            continue
        twin = row.twin and name_twin(handles[row.trader], row.twin)
        (market.apart(twin) if twin else market).remember(read_fill(row), snapshot)


def find_tokens(faults: Faults, statement: str = rows.TOKENS) -> dict[int, Token]:
    """Read the tokens that are tracked or held, or those of another statement, by row id; without
    those that cannot be read.
    """
    tokens = {}
    for row in select(rows.TokenRow, statement):
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


def list_trader_rows() -> dict[int, rows.TraderRow]:
    """Read the rows of the traders that are not retired, twins aside, by trader id."""
    return {row.id: row for row in select(rows.TraderRow, rows.TRADERS) if not row.twin}


def load_traders(
    now: int,
    faults: Faults,
    skipped: Collection[int] = frozenset(),
    read_strategy: Callable[[str, Mapping[str, Any]], Strategy] = parse_settings,
) -> list[LoadedTrader]:
    """Read the traders that are not retired and their twins, with their open accounts and what they
    remember.

    Traders in `skipped` are left out. Those whose rows or strategies can't be read are left out and
    get a fault.
    """
    opened = _read_open()
    reviews = select(rows.ReviewRow, rows.REVIEWS)
    # Of the last review of each period.
    states = {review.period: review.state for review in reviews}
    loaded: dict[AccountKey, LoadedTrader] = {}
    for row in select(rows.TraderRow, rows.TRADERS):
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
    row: rows.TraderRow, strategy: Strategy, opened: OpenRows, reviewed: bool
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
    """Return the tickets of a twin, out of their stored JSON."""
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
    loaded: Mapping[AccountKey, LoadedTrader], reviews: Iterable[rows.ReviewRow], faults: Faults
) -> None:
    """Fill in the keys of all reasons for a review that a trader ever had, and the topics of the
    last review of its open period.
    """
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
    for row in select(rows.CloseRow, rows.CLOSES, (now - 2 * LOOK_BACK_MS,)):
        one = loaded.get(AccountKey(row.trader, row.twin))
        if one is not None:
            with faults.isolate(row.trader):
                trader = one.trader
                ident = public_id(trader.handle, "close", row.number)
                marks, reviewed = orjson.loads(row.marks), states.get(row.period) in SUSPECT
                trader.closes.append(read_close(ident, row, marks, reviewed=reviewed))


def _remember_lines(loaded: Mapping[AccountKey, LoadedTrader], now: int, faults: Faults) -> None:
    since = now - LOOK_BACK_MS - DAY_MS, now - REFUSAL_MS
    for row in select(rows.RememberedRow, rows.REMEMBERED, since):
        one = loaded.get(AccountKey(row.trader, row.twin))
        if one is not None:
            with faults.isolate(row.trader):
                _remember_line(one.trader, row)


def _remember_line(trader: Trader, row: rows.RememberedRow) -> None:
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
    """Return the pause that a line of the diary describes, written `at` (ms)."""
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
