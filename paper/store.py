"""Write what a tick of paper mode brings about: rounds in one transaction, reviews, posts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

import storage
from market import store as market_store
from paper import rows
from paper.guard import DAY_MS, HOUR_MS, Phase
from paper.load import LoadedTrader
from paper.rows import SUSPECT, Columns, show_fill, show_line, show_order, show_position
from paper.tables import (
    DiaryEntry,
    EngineState,
    EquityMark,
    PaperFill,
    PaperOrder,
    PaperPost,
    Period,
    Position,
    Review,
)
from paper.tables import Trader as StoredTrader
from paper.trader import DiaryLine, Journal, ReviewReason, Trader
from storage.rows import select

# What a column holds at most.
MAX_INTEGER = 2**63 - 1


class Outdated(Exception):
    """A trader was changed elsewhere while it was played. Nothing was stored; the next tick plays
    the same again.
    """


class PeriodJournal(NamedTuple):
    """What a trader's rounds brought about, and its account period."""

    period: int
    journal: Journal


class PeriodLine(NamedTuple):
    """A line for the diary of an account period."""

    period: int
    line: DiaryLine


class PostHistory(NamedTuple):
    """How many posts a trader has made, and the bodies of the last ones that still have
    their words, oldest first."""

    total: int
    recent: list[str]


def check_round(one: LoadedTrader) -> None:
    """Raise OverflowError where something that a trader brought about fits no column."""
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
    """Store what was played since load_traders, how far the snapshots are read, and what accounts
    are worth at `now` (ms), in one transaction. Raises Outdated; then nothing was stored.

    notes: lines for the diaries of traders that were not played. sol_cents: what a SOL costs.
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
    """Store orders, fills and positions; an order's row must be there before its fills."""
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
    _insert(Position, positions, ("period", "number"))


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
    """Return a phase as the JSON of its column."""
    return orjson.dumps(asdict(phase)).decode()


def _check_version(ident: int, version: int, phase: str) -> None:
    """Store the phase where the version is still this one; else raise Outdated."""
    if (
        not StoredTrader.update(version=version + 1, phase=phase)
        .where(StoredTrader.id == ident, StoredTrader.version == version)
        .execute()
    ):
        raise Outdated(f"trader {ident}")


def _find_order_ids(one: PeriodJournal) -> dict[int, int]:
    ids: dict[int, int] = {}
    for part in storage.in_parts({fill.order for fill, _ in one.journal.fills}):
        orders = PaperOrder.select(PaperOrder.number, PaperOrder.id).where(
            PaperOrder.period == one.period, PaperOrder.number.in_(part)
        )
        ids |= {order.number: order.id for order in orders}
    return ids


def _insert(
    model: Any, made: Sequence[Columns], key: Sequence[str] = (), update: Sequence[str] = ()
) -> None:
    """Insert rows of equal shape. A row whose key exists updates that one: the columns `update`, or
    all of them.
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


def store_review(period: int, alarms: Sequence[ReviewReason]) -> None:
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


def _pin_snapshots(traders: Sequence[Trader]) -> None:
    """Keep the snapshots that a decision or a fill names, and keep tokens tracked that are held or
    on order.
    """
    named = {order.decided_on for one in traders for order in one.journal.orders.values()}
    named |= {fill.snapshot for one in traders for fill, _ in one.journal.fills}
    if named:
        market_store.pin_snapshots(named)
    # Read from the tables, since traders that are not played hold tokens, too.
    market_store.replace_held({row.mint for row in select(rows.MintRow, rows.HELD)})


def list_unposted(limit: int) -> list[rows.UnpostedRow]:
    """Read the next diary lines not yet considered for a post, oldest first."""
    return select(rows.UnpostedRow, rows.UNPOSTED, (limit,))


def read_post_history(trader: int, limit: int) -> PostHistory:
    """Count a trader's posts and read the last `limit` of them."""
    posts = PaperPost.select(PaperPost.body).where(PaperPost.trader == trader)
    said = posts.where(PaperPost.hidden_at.is_null()).order_by(PaperPost.id.desc())
    latest = [post.body for post in said.limit(limit)]
    return PostHistory(posts.count(), latest[::-1])


def store_posts(posts: Sequence[Columns], last_entry: int) -> None:
    """Store rows of PaperPost, and how far the diaries were gone through."""
    with storage.writing():
        _insert(PaperPost, posts)
        EngineState.update(entry=last_entry).where(EngineState.id == 1).execute()


# ---- what accounts are worth ---------------------------------------------------------------------
MARK_MS = 600_000
# Marks between one day and this many days old are thinned out; a longer stop of the job leaves its
# marks as they are.
THINNED_DAYS = 3
# Those that have an earlier one in their hour; integers are cut by division in every engine. Most
# that are left begin an hour, and are looked at no further.
THIN_OUT = f"""
DELETE FROM equity_mark WHERE at < ? AND at > ? AND at / {HOUR_MS} * {HOUR_MS} <> at
AND EXISTS (SELECT 1 FROM equity_mark e WHERE e.period_id = equity_mark.period_id
            AND e.at >= equity_mark.at / {HOUR_MS} * {HOUR_MS} AND e.at < equity_mark.at)"""


def list_marks(
    loaded: Sequence[LoadedTrader], now: int, sol_cents: int | None
) -> list[dict[str, Any]]:
    """Return the rows of what traders are worth at `now` (ms), twins aside."""
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
    """Delete all marks of an account in an hour but its first, a day later. In the caller's
    transaction.
    """
    storage.database.execute_sql(THIN_OUT, (now - DAY_MS, now - THINNED_DAYS * DAY_MS))
