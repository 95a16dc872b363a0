"""What a tick of paper mode reads: the market, and the traders with what they remember.

Few statements, whatever the number of traders.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from peewee import fn

import storage
from market.tables import Snapshot as StoredSnapshot
from paper import rows
from paper.book import Book, Close, Position, find_exclusion, public_id
from paper.faults import Faults
from paper.fills import ASSUMPTIONS_OF, WRITE_OFFS, Fill
from paper.guard import DAY, LOOK_BACK, Pause, Phase
from paper.market import Flow, Snapshot, Token, parse_snapshot
from paper.refill import Account, Attempt
from paper.rows import SUSPECT, Columns, read_fill, read_order, read_position, select
from paper.strategies import parse_settings
from paper.tables import EngineState, PaperOrder
from paper.tables import Position as StoredPosition
from paper.trader import REFUSAL_MS, Trader, refusal_key, topic_of

NEW_SNAPSHOTS = "SELECT MIN(taken_at) FROM snapshot WHERE id > ? AND taken_at >= ?"


@dataclass
class Seat:
    """A trader that is played, and what is needed to store it again."""

    player: Trader
    # as it was read
    row: rows.TraderRow


def find_cursor() -> int:
    """Id of the last snapshot that was played; 0 in the beginning."""
    state = EngineState.get_or_none(EngineState.id == 1)
    return state.snapshot if state else 0


def find_newest() -> int:
    return StoredSnapshot.select(fn.MAX(StoredSnapshot.id)).scalar() or 0


def find_first_new(after_id: int, since: int) -> int | None:
    """When the first snapshot after an id was taken (ms), none before `since`; None without one."""
    found: int | None = storage.database.execute_sql(NEW_SNAPSHOTS, (after_id, since)).fetchone()[0]
    return found


def list_snapshots(
    tokens: Mapping[int, Token], since: int, ids: range, faults: Faults
) -> list[Snapshot]:
    """The snapshots of `tokens` taken since, with an id in the range `ids`, in the order they
    arrived; without what cannot be read.
    """
    found = []
    for row in sorted(select(rows.SnapshotRow, rows.SNAPSHOTS, (since, ids.start, ids.stop))):
        if row.token in tokens:
            mint = tokens[row.token].mint
            with faults.of():
                faults.mint = mint
                found.append(read_snapshot(row, mint))
    return found


def read_snapshot(row: rows.SnapshotRow | rows.NamedSnapshotRow, mint: str) -> Snapshot:
    return parse_snapshot(
        row.id,
        mint,
        row.taken_at,
        row.price_sol,
        row.pool_sol,
        row.liquidity_usd,
        row.volume24h_usd,
    )


def find_tokens(faults: Faults) -> dict[int, Token]:
    """{row id: Token} of all that are tracked and can be read."""
    tokens = {}
    for row in select(rows.TokenRow, rows.TOKENS):
        with faults.of():
            faults.mint = row.mint
            tokens[row.id] = Token(
                row.mint,
                row.symbol or row.mint[:6],
                row.decimals,
                row.pair_created_at,
                row.discovered_at or 0,
                _statuses(row.checks),
            )
    return tokens


def _statuses(checks: str | None) -> tuple[tuple[str, str], ...]:
    return (
        tuple((check["key"], check["status"]) for check in orjson.loads(checks)) if checks else ()
    )


def find_flows(since: int) -> dict[str, tuple[Flow, ...]]:
    """{mint: (Flow, ...)} of what the observed wallets of this instance bought and sold; `since` in
    ms.
    """
    flows = defaultdict(list)
    for row in select(rows.FlowRow, rows.FLOWS, (since // 1000,)):
        flows[row.mint].append(Flow(row.owner, row.wallet, row.side, row.block_time * 1000))
    return {mint: tuple(found) for mint, found in flows.items()}


def list_names() -> dict[int, rows.TraderRow]:
    """{trader id: its row} of those that play."""
    return {row.id: row for row in select(rows.TraderRow, rows.TRADERS)}


def list_seats(now: int, faults: Faults, skipped: Collection[int] = frozenset()) -> list[Seat]:
    """Every trader that plays, with its open account and what it remembers; without the ids in
    `skipped`.

    One whose rows cannot be read has a fault and no seat.
    """
    positions, orders = _read_open()
    reviews = select(rows.ReviewRow, rows.REVIEWS)
    # of the last review of each period
    states = {review.period: review.state for review in reviews}
    seats = {}
    for row in select(rows.TraderRow, rows.TRADERS):
        if row.id not in skipped:
            with faults.of(row.id):
                reviewed = states.get(row.period) in SUSPECT
                seats[row.id] = _read_seat(row, positions[row.period], orders[row.period], reviewed)
    _remember_reviews(seats, reviews, faults)
    _remember_closes(seats, states, now, faults)
    _remember_lines(seats, now, faults)
    return [seat for ident, seat in seats.items() if not faults.has(ident)]


def _read_seat(
    row: rows.TraderRow,
    positions: Iterable[Columns],
    orders: Iterable[Columns],
    reviewed: bool,
) -> Seat:
    book = Book(
        row.cash,
        [read_position(one) for one in positions],
        [read_order(one, row.handle) for one in orders],
        row.next_order,
        row.next_position,
        row.lost_fees,
    )
    player = Trader(
        row.id,
        row.handle,
        parse_settings(row.family, orjson.loads(row.settings)),
        book,
        row.adaptive,
        Phase(**orjson.loads(row.phase)),
        reviewed,
        row.starting_cash,
        row.peak,
        row.day,
        row.day_equity,
    )
    return Seat(player, row)


def _read_open() -> tuple[dict[int, list[Columns]], dict[int, list[Columns]]]:
    """Rows of open positions and orders by period."""
    positions: dict[int, list[Columns]] = defaultdict(list)
    orders: dict[int, list[Columns]] = defaultdict(list)
    for row in _list_columns(StoredPosition, StoredPosition.closed_at.is_null()):
        positions[row["period"]].append(row)
    for row in _list_columns(PaperOrder, PaperOrder.state == "open"):
        orders[row["period"]].append(row)
    return positions, orders


def _remember_reviews(
    seats: Mapping[int, Seat], reviews: Iterable[rows.ReviewRow], faults: Faults
) -> None:
    """Read the keys of all reasons for a review a trader ever had, and what the last review of its
    open period is about.
    """
    for review in reviews:
        if review.trader not in seats:
            continue
        with faults.of(review.trader):
            seat = seats[review.trader]
            keys = {reason["key"] for reason in orjson.loads(review.reasons)}
            seat.player.alarmed |= keys
            if review.period == seat.row.period:
                seat.player.asked = {topic_of(key) for key in keys}


def _remember_closes(
    seats: Mapping[int, Seat], states: Mapping[int, str], now: int, faults: Faults
) -> None:
    """Read the closes of two look-backs, oldest first."""
    for row in select(rows.CloseRow, rows.CLOSES, (now - 2 * LOOK_BACK,)):
        if row.trader in seats:
            with faults.of(row.trader):
                player = seats[row.trader].player
                player.closes.append(
                    read_close(row, player.handle, states.get(row.period) in SUSPECT)
                )


def read_close(row: rows.CloseRow, handle: str, reviewed: bool) -> Close:
    return Close(
        public_id(handle, "close", row.number),
        row.mint,
        row.symbol,
        row.opened_at,
        row.closed_at,
        row.reason,
        row.gross,
        row.cash,
        row.spent,
        find_exclusion(row.pipeline, orjson.loads(row.marks), reviewed),
    )


def _remember_lines(seats: Mapping[int, Seat], now: int, faults: Faults) -> None:
    """Read pauses not looked back on yet, lessons in force and recent refusals from the diaries."""
    since = now - LOOK_BACK - DAY, now - REFUSAL_MS
    for row in select(rows.RememberedRow, rows.REMEMBERED, since):
        if row.trader in seats:
            with faults.of(row.trader):
                _remember_line(seats[row.trader].player, row)


def _remember_line(player: Trader, row: rows.RememberedRow) -> None:
    facts = orjson.loads(row.facts)
    if row.kind == "lesson":
        player.lessons[facts["key"]] = facts["expiresAt"]
    elif row.kind == "pause":
        _remember_pause(player, row.at, row.mint, facts)
    else:
        player.refused[refusal_key(facts["reason"], row.mint)] = row.at


def _remember_pause(player: Trader, at: int, mint: str | None, facts: Mapping[str, Any]) -> None:
    if "ends" in facts:
        player.pauses = [pause for pause in player.pauses if pause.id != facts["ends"]]
    else:
        player.pauses.append(read_pause(at, mint, facts))


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


def _list_columns(model: Any, condition: Any) -> list[Columns]:
    """Rows of a table as {column: value}, oldest first."""
    return list(model.select().where(condition).order_by(model.id).dicts())


def find_account(period: Any, handle: str) -> Account:
    """An account period as paper.refill takes it."""
    orders = {
        row["number"]: read_order(row, handle)
        for row in _list_columns(PaperOrder, PaperOrder.period == period)
    }
    positions = {
        row["number"]: read_position(row)
        for row in _list_columns(StoredPosition, StoredPosition.period == period)
    }
    return Account(
        period.starting_cash,
        period.cash,
        period.lost_fees,
        orders,
        tuple(_list_attempts(period.id, positions)),
        positions,
    )


def _list_attempts(period: int, positions: Mapping[int, Position]) -> Iterator[Attempt]:
    """The period's fills as attempts, each with what its snapshot gave to any trader before."""
    snapshots = {
        row.id: read_snapshot(row, row.mint)
        for row in select(rows.NamedSnapshotRow, rows.NAMED_SNAPSHOTS, (period,))
    }
    before: defaultdict[int, list[Fill]] = defaultdict(list)
    for row in sorted(select(rows.FillRow, rows.SHARED_FILLS, (period,)), key=_played):
        done = read_fill(row)
        if row.period == period:
            mark = positions[row.position].price if row.position else 0
            known = snapshots.get(row.snapshot) if row.model in ASSUMPTIONS_OF else None
            yield Attempt(done, known, tuple(before[row.snapshot]), mark, row.model)
        before[row.snapshot].append(done)


def _played(row: rows.FillRow) -> tuple[int, bool, int, int, int]:
    """The order in which the engine made fills: moment by moment, write-offs first, then the oldest
    decision of all traders.

    Rows lie trader by trader, so their ids do not tell who took from a pool first.
    """
    waited = row.reason not in WRITE_OFFS
    return row.at, waited, row.decided_at if waited else 0, row.trader, row.number
