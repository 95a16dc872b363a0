"""What a tick of paper mode writes: a round in one transaction, reviews, posts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

import storage
from market import store as market_store
from paper import rows
from paper.guard import Phase
from paper.load import Seat
from paper.rows import SUSPECT, Columns, select, show_fill, show_line, show_order, show_position
from paper.tables import (
    DiaryEntry,
    EngineState,
    PaperFill,
    PaperOrder,
    PaperPost,
    Period,
    Position,
    Review,
    Trader,
)
from paper.trader import Alarm, DiaryLine, Journal
from paper.trader import Trader as Player

# of a column
MAX_INTEGER = 2**63 - 1


class Outdated(Exception):
    """A trader was changed by somebody else while it was played: nothing was stored, the next tick
    plays it again.
    """


def check_round(seat: Seat) -> None:
    """Raise OverflowError where something a trader brought about fits no column; nothing is stored
    here.
    """
    journal, book = seat.player.journal, seat.player.book
    made: list[Columns] = [show_order(order, seat.row.period) for order in journal.orders.values()]
    made += [show_position(position, seat.row.period) for position in journal.positions.values()]
    made += [show_fill(fill, position, 0) for fill, position in journal.fills]
    made += [show_line(entry, seat.row.period) for entry in journal.entries]
    made.append(
        {
            "cash": book.cash,
            "lost_fees": book.lost_fees,
            "peak": seat.player.peak,
            "day_equity": seat.player.day_equity,
        }
    )
    for row in made:
        for name, value in row.items():
            if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
                raise OverflowError(f"{name} fits no column")


def store_round(
    seats: Sequence[Seat], cursor: int, notes: Iterable[tuple[int, DiaryLine]] = ()
) -> None:
    """What was played since list_seats, and how far the snapshots are read, in one transaction.
    Outdated: nothing was stored.

    notes: (period, line) for the diaries of traders that were not played.
    """
    journals = [(seat.row.period, seat.player.journal) for seat in seats]
    orders = [
        show_order(order, period)
        for period, journal in journals
        for order in journal.orders.values()
    ]
    positions = [
        show_position(position, period)
        for period, journal in journals
        for position in journal.positions.values()
    ]
    entries = [
        show_line(entry, period) for period, journal in journals for entry in journal.entries
    ]
    entries += [show_line(entry, period) for period, entry in notes]
    with storage.writing():
        for seat in seats:
            _store_seat(seat)
        _insert(PaperOrder, orders, ("period", "number"), ("done", "attempts", "lost", "state"))
        _insert(
            PaperFill,
            [
                show_fill(fill, position, ids[fill.order])
                for ids, journal in _list_filled(journals)
                for fill, position in journal.fills
            ],
        )
        _insert(Position, positions, ("period", "number"))
        _insert(DiaryEntry, entries)
        _keep_snapshots([seat.player for seat in seats])
        EngineState.insert(id=1, snapshot=cursor).on_conflict(
            conflict_target=[EngineState.id], update={"snapshot": cursor}
        ).execute()


def _store_seat(seat: Seat) -> None:
    player, journal = seat.player, seat.player.journal
    account = {
        "cash": player.book.cash,
        "lost_fees": player.book.lost_fees,
        "peak": player.peak,
        "day": player.day,
        "day_equity": player.day_equity,
    }
    engine = {
        "phase": show_phase(player.phase),
        "next_order": player.book.next_order,
        "next_position": player.book.next_position,
    }
    before = seat.row._asdict()
    changed = any(before[name] != value for name, value in (account | engine).items())
    if changed or journal.entries:
        _check_version(player.id, seat.row.version, engine)
        Period.update(account).where(Period.id == seat.row.period).execute()
    if journal.alarms:
        store_alarms(seat.row.period, journal.alarms)


def show_phase(phase: Phase) -> str:
    return orjson.dumps(asdict(phase)).decode()


def _check_version(ident: int, version: int, engine: Columns) -> None:
    if (
        not Trader.update(version=version + 1, **engine)
        .where(Trader.id == ident, Trader.version == version)
        .execute()
    ):
        raise Outdated(f"trader {ident}")


def _list_filled(
    journals: Iterable[tuple[int, Journal]],
) -> Iterator[tuple[dict[int, int], Journal]]:
    """({order number: row id}, journal) of each account that had fills."""
    for period, journal in journals:
        if journal.fills:
            ids: dict[int, int] = {}
            for part in storage.in_parts({fill.order for fill, _ in journal.fills}):
                orders = PaperOrder.select(PaperOrder.number, PaperOrder.id).where(
                    PaperOrder.period == period, PaperOrder.number.in_(part)
                )
                ids |= {order.number: order.id for order in orders}
            yield ids, journal


def _insert(
    model: Any, made: Sequence[Columns], key: Sequence[str] = (), update: Sequence[str] = ()
) -> None:
    """Insert rows of equal shape; where one with the same key exists it takes over `update`,
    without it all columns.
    """
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


def store_alarms(period: int, alarms: Sequence[Alarm]) -> None:
    """Open a review, or add to the one that is open or was upheld. In the caller's transaction."""
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


def _keep_snapshots(players: Iterable[Player]) -> None:
    """Snapshots that a decision or a fill names are never thinned; tokens that are held, or on
    order, stay tracked.
    """
    named = {order.decided_on for player in players for order in player.journal.orders.values()}
    named |= {fill.snapshot for player in players for fill, _ in player.journal.fills}
    if named:
        market_store.pin_snapshots(named)
    # From the tables: who is put off holds its tokens all the same.
    market_store.replace_held({row.mint for row in select(rows.MintRow, rows.HELD)})


def list_unspoken(limit: int) -> list[rows.UnspokenRow]:
    """The next diary entries that were not considered for a post, oldest first."""
    return select(rows.UnspokenRow, rows.UNSPOKEN, (limit,))


def list_said(trader: int, limit: int) -> tuple[int, list[str]]:
    """(how many posts a trader has made, the last `limit` of them, oldest first)."""
    posts = PaperPost.select(PaperPost.body).where(PaperPost.trader == trader)
    return posts.count(), [post.body for post in posts.order_by(PaperPost.id.desc()).limit(limit)][
        ::-1
    ]


def store_posts(posts: Sequence[Columns], last_entry: int) -> None:
    """Rows of PaperPost, and how far the diaries were gone through."""
    with storage.writing():
        _insert(PaperPost, posts)
        EngineState.update(entry=last_entry).where(EngineState.id == 1).execute()
