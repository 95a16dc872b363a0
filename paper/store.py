"""Paper mode between tables and values: traders and the market as paper.engine plays them, and what
a round brought about as rows.

Few statements, whatever the number of traders; every write of a tick is one transaction.
"""

from collections import defaultdict
from dataclasses import asdict, dataclass, fields

import orjson
from peewee import fn

import storage
from market import store as market_store
from market import tables as market_tables
from models import BOT_OF_TRADE
from paper import tables as paper_tables
from paper.book import Book, Close, Position, find_exclusion, public_id
from paper.fills import ASSUMPTIONS_OF, MODEL, WRITE_OFFS, Fill, Order
from paper.guard import DAY, LOOK_BACK, Pause, Phase
from paper.market import Flow, Token, parse_snapshot
from paper.refill import Account, Attempt
from paper.strategies import parse_settings
from paper.tables import (
    DiaryEntry,
    EngineState,
    PaperFill,
    PaperOrder,
    PaperPost,
    Period,
    Review,
    Trader,
)
from paper.trader import REFUSAL_MS, refusal_key, topic_of
from paper.trader import Trader as Player

# whole numbers beyond 64 bits: decimal text in their columns
BIG = {
    "amount",
    "done",
    "price",
    "high",
    "raw",
    "bought_raw",
}
# of a column
MAX_INTEGER = 2**63 - 1
POSITION = [field.name for field in fields(Position)]
ORDER = [field.name for field in fields(Order) if field.name != "handle"]

NEW_SNAPSHOTS = "SELECT MIN(taken_at) FROM snapshot WHERE id > ? AND taken_at >= ?"
SNAPSHOTS = """
SELECT id, token_id, taken_at, price_sol, pool_sol, liquidity_usd, volume24h_usd
FROM snapshot WHERE token_id IN (SELECT id FROM token WHERE tracked_at IS NOT NULL OR held) AND taken_at >= ? AND id >= ? AND id < ?"""
NAMED = """
SELECT s.id, t.mint, s.taken_at, s.price_sol, s.pool_sol, s.liquidity_usd, s.volume24h_usd FROM snapshot s JOIN token t ON t.id = s.token_id
WHERE s.id IN (SELECT f.snapshot FROM paper_fill f JOIN paper_order o ON o.id = f.order_id WHERE o.period_id = ?)"""
SHARED_FILLS = """
SELECT o.period_id, p.trader_id, f.snapshot, o.number, o.mint, o.side, f.at, o.decided_on, o.decided_at, f.raw, f.mid, f.slippage, f.pool_fee, f.network_fee, f.rent, f.failed, o.reason,
       f.marks, f.position, f.model
FROM paper_fill f JOIN paper_order o ON o.id = f.order_id JOIN period p ON p.id = o.period_id
WHERE f.snapshot IN (SELECT f.snapshot FROM paper_fill f JOIN paper_order o ON o.id = f.order_id WHERE o.period_id = ?) ORDER BY f.id"""
TOKENS = (
    "SELECT id, mint, symbol, decimals, pair_created_at, discovered_at, checks FROM token WHERE"
    " tracked_at IS NOT NULL OR held"
)
FLOWS = f"""
SELECT m.mint, b.owner_id, w.address, m.side, t.block_time FROM trade t JOIN trade_mint m ON m.trade_id = t.id
JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}
WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND m.side IS NOT NULL ORDER BY t.block_time, t.id"""
TRADERS = """
SELECT t.id, t.handle, t.family, t.settings, t.adaptive, t.version, t.created_at, p.id, p.starting_cash,
       p.cash, p.lost_fees, p.peak, p.day, p.day_equity, t.phase, t.next_order, t.next_position
FROM trader t JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL WHERE t.retired_at IS NULL ORDER BY t.id"""
CLOSES = """
SELECT c.period_id, p.trader_id, c.number, c.mint, c.symbol, c.opened_at, c.closed_at, c.reason, c.mid_sold - c.mid_bought, c.cash, c.spent, c.pipeline, c.marks
FROM position c JOIN period p ON p.id = c.period_id WHERE c.closed_at >= ? ORDER BY c.closed_at, c.id"""
REMEMBERED = """
SELECT p.trader_id, d.kind, d.at, d.mint, d.facts FROM diary_entry d JOIN period p ON p.id = d.period_id
WHERE d.kind IN ('pause', 'lesson') AND d.at >= ? OR d.kind = 'refusal' AND d.at >= ? ORDER BY d.id"""
HELD = (
    "SELECT mint FROM position WHERE closed_at IS NULL UNION SELECT mint FROM paper_order WHERE"
    " state = 'open'"
)
REVIEWS = (
    "SELECT p.trader_id, r.period_id, r.state, r.reasons FROM review r JOIN period p ON p.id ="
    " r.period_id ORDER BY r.id"
)
UNSPOKEN = """
SELECT d.id, t.id, t.handle, t.voice, d.kind, d.at, d.mint, d.facts FROM diary_entry d JOIN period p ON p.id = d.period_id JOIN trader t ON t.id = p.trader_id
WHERE d.id > (SELECT entry FROM engine_state WHERE id = 1) ORDER BY d.id LIMIT ?"""
SUSPECT = ("under_review", "upheld")


@dataclass
class Seat:
    """A trader in play, and what is needed to store it again."""

    player: Player
    # row id
    period: int
    version: int
    created_at: int
    # its account and engine columns as they were read
    stored: tuple


class Outdated(Exception):
    """A trader was changed by somebody else while it was played: nothing was stored, the next tick
    plays it again.
    """


def _all(sql, values=()):
    return storage.database.execute_sql(sql, values).fetchall()


# ---- the market ----------------------------------------------------------------------------------
def find_cursor():
    """Id of the last snapshot that was played; 0 in the beginning."""
    state = EngineState.get_or_none(EngineState.id == 1)
    return state.snapshot if state else 0


def find_newest():
    return market_tables.Snapshot.select(fn.MAX(market_tables.Snapshot.id)).scalar() or 0


def find_first_new(after_id, since):
    """When the first snapshot after an id was taken, none before `since`; None without one."""
    return _all(NEW_SNAPSHOTS, (after_id, since))[0][0]


def list_snapshots(tokens, since, ids, faults):
    """The snapshots of `tokens` taken since, with an id in the range `ids`, in the order they
    arrived; without what cannot be read.
    """
    found = []
    for ident, token, *rest in sorted(
        _all(SNAPSHOTS, (since, ids.start, ids.stop)), key=lambda row: row[0]
    ):
        if token in tokens:
            with faults.of():
                faults.mint = tokens[token].mint
                found.append(parse_snapshot(ident, tokens[token].mint, *rest))
    return found


def find_tokens(faults):
    """{row id: Token} of all that are tracked and can be read."""
    tokens = {}
    for ident, mint, symbol, decimals, pair_created_at, discovered_at, checks in _all(TOKENS):
        with faults.of():
            faults.mint = mint
            tokens[ident] = Token(
                mint,
                symbol or mint[:6],
                decimals,
                pair_created_at,
                discovered_at or 0,
                _statuses(checks),
            )
    return tokens


def _statuses(checks):
    return (
        tuple((check["key"], check["status"]) for check in orjson.loads(checks)) if checks else ()
    )


def find_flows(since):
    """{mint: (Flow, ...)} of what the observed wallets of this instance bought and sold; `since` in
    ms.
    """
    flows = defaultdict(list)
    for mint, owner, wallet, side, block_time in _all(FLOWS, (since // 1000,)):
        flows[mint].append(Flow(owner, wallet, side, block_time * 1000))
    return {mint: tuple(found) for mint, found in flows.items()}


# ---- traders -------------------------------------------------------------------------------------
def read_position(row):
    values = {name: int(row[name]) if name in BIG else row[name] for name in POSITION}
    return Position(
        **{**values, "reduced": bool(row["reduced"]), "marks": tuple(orjson.loads(row["marks"]))}
    )


def read_order(row, handle):
    return Order(
        handle=handle, **{name: int(row[name]) if name in BIG else row[name] for name in ORDER}
    )


def list_names():
    """{trader id: (handle, row id of its open period)} of those that play."""
    return {row[0]: (row[1], row[7]) for row in _all(TRADERS)}


def list_seats(now, faults, skipped=frozenset()):
    """Every trader that plays, with its open account and what it remembers; without the ids in
    `skipped`.

    One whose rows cannot be read has a fault and no seat.
    """
    rows = [row for row in _all(TRADERS) if row[0] not in skipped]
    positions, orders = _read_open()
    states, seats = _read_states(), {}
    for row in rows:
        ident, period = row[0], row[7]
        with faults.of(ident):
            seats[ident] = _read_seat(
                row, positions[period], orders[period], states.get(period) in SUSPECT
            )
    _remember_reviews(seats, faults)
    _remember_closes(seats, states, now, faults)
    _remember_lines(seats, now, faults)
    return [seat for ident, seat in seats.items() if not faults.has(ident)]


def _read_seat(row, positions, orders, reviewed):
    (
        ident,
        handle,
        family,
        settings,
        adaptive,
        version,
        created_at,
        period,
        starting_cash,
        *stored,
    ) = row
    cash, lost_fees, peak, day, day_equity, phase, next_order, next_position = stored
    book = Book(
        cash,
        [read_position(one) for one in positions],
        [read_order(one, handle) for one in orders],
        next_order,
        next_position,
        lost_fees,
    )
    player = Player(
        ident,
        handle,
        parse_settings(family, orjson.loads(settings)),
        book,
        adaptive,
        Phase(**orjson.loads(phase)),
        reviewed,
        starting_cash,
        peak,
        day,
        day_equity,
    )
    return Seat(player, period, version, created_at, tuple(stored))


def _read_open():
    """Rows of open positions and orders by period."""
    positions, orders = defaultdict(list), defaultdict(list)
    for row in (
        paper_tables.Position.select()
        .where(paper_tables.Position.closed_at.is_null())
        .order_by(paper_tables.Position.id)
        .dicts()
    ):
        positions[row["period"]].append(row)
    for row in (
        PaperOrder.select().where(PaperOrder.state == "open").order_by(PaperOrder.id).dicts()
    ):
        orders[row["period"]].append(row)
    return positions, orders


def _read_states():
    """{period: state of its last review}."""
    return {period: state for _, period, state, _ in _all(REVIEWS)}


def _remember_reviews(seats, faults):
    """Keys of all reasons for a review a trader ever had, and what the last review of its open
    period is about.
    """
    for trader, period, _, reasons in _all(REVIEWS):
        if trader not in seats:
            continue
        with faults.of(trader):
            keys, player = {reason["key"] for reason in orjson.loads(reasons)}, seats[trader].player
            player.alarmed |= keys
            if period == seats[trader].period:
                player.asked = {topic_of(key) for key in keys}


def _remember_closes(seats, states, now, faults):
    """The closes of two look-backs, oldest first."""
    for period, trader, number, *values, pipeline, marks in _all(CLOSES, (now - 2 * LOOK_BACK,)):
        if trader not in seats:
            continue
        with faults.of(trader):
            player = seats[trader].player
            excluded = find_exclusion(pipeline, orjson.loads(marks), states.get(period) in SUSPECT)
            player.closes.append(
                Close(public_id(player.handle, "close", number), *values, excluded)
            )


def _remember_lines(seats, now, faults):
    """Pauses not looked back on yet, lessons in force, refusals said lately: out of the diary."""
    for trader, kind, at, mint, facts in _all(
        REMEMBERED, (now - LOOK_BACK - DAY, now - REFUSAL_MS)
    ):
        if trader in seats:
            with faults.of(trader):
                _remember_line(seats[trader].player, kind, at, mint, orjson.loads(facts))


def _remember_line(player, kind, at, mint, facts):
    if kind == "lesson":
        player.lessons[facts["key"]] = facts["expiresAt"]
    elif kind == "pause":
        _remember_pause(player, at, mint, facts)
    else:
        player.refused[refusal_key(facts["reason"], mint)] = at


def _remember_pause(player, at, mint, facts):
    if "ends" in facts:
        player.pauses = [pause for pause in player.pauses if pause.id != facts["ends"]]
    else:
        player.pauses.append(read_pause(at, mint, facts))


def read_pause(at, mint, facts):
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


# ---- filling again -------------------------------------------------------------------------------
def find_account(period, handle):
    """An account period as paper.refill takes it."""
    orders = {
        row["number"]: read_order(row, handle)
        for row in PaperOrder.select().where(PaperOrder.period == period).dicts()
    }
    positions = {
        row["number"]: read_position(row)
        for row in paper_tables.Position.select()
        .where(paper_tables.Position.period == period)
        .dicts()
    }
    return Account(
        period.starting_cash,
        period.cash,
        period.lost_fees,
        orders,
        tuple(_list_attempts(period.id, positions)),
        positions,
    )


def _list_attempts(period, positions):
    """The period's fills as attempts, each with what the same snapshot had given to anybody before."""
    snapshots, before = (
        {row[0]: parse_snapshot(*row) for row in _all(NAMED, (period,))},
        defaultdict(list),
    )
    for owner, trader, snapshot, *columns, position, model in sorted(
        _all(SHARED_FILLS, (period,)), key=_played
    ):
        done = read_fill(snapshot, *columns)
        if owner == period:
            mark = positions[position].price if position else 0
            known = snapshots.get(snapshot) if model in ASSUMPTIONS_OF else None
            yield Attempt(done, known, tuple(before[snapshot]), mark, model)
        before[snapshot].append(done)


def _played(row):
    """The order in which the engine made fills: moment by moment, write-offs first, then the oldest
    decision of all traders.

    Rows lie trader by trader, so their ids do not tell who took from a pool first.
    """
    _, trader, _, number, _, _, at, _, decided_at, *_, reason, _, _, _ = row
    return at, reason not in WRITE_OFFS, 0 if reason in WRITE_OFFS else decided_at, trader, number


def read_fill(
    snapshot,
    order,
    mint,
    side,
    at,
    decided_on,
    decided_at,
    raw,
    mid,
    slippage,
    pool_fee,
    network_fee,
    rent,
    failed,
    reason,
    marks,
):
    return Fill(
        order,
        mint,
        side,
        snapshot,
        at,
        decided_on,
        decided_at,
        int(raw),
        mid,
        slippage,
        pool_fee,
        network_fee,
        rent,
        bool(failed),
        reason,
        tuple(orjson.loads(marks)),
    )


# ---- storing -------------------------------------------------------------------------------------
def check_round(seat):
    """Raise OverflowError where something a trader brought about fits no column; nothing is stored
    here.
    """
    journal, book = seat.player.journal, seat.player.book
    rows = [_order_row(order, seat.period) for order in journal.orders.values()]
    rows += [_position_row(position, seat.period) for position in journal.positions.values()]
    rows += [_fill_row(fill, position, 0) for fill, position in journal.fills]
    rows += [_entry_row(entry, seat.period) for entry in journal.entries]
    rows.append(
        {
            "cash": book.cash,
            "lost_fees": book.lost_fees,
            "peak": seat.player.peak,
            "day_equity": seat.player.day_equity,
        }
    )
    for row in rows:
        for name, value in row.items():
            if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
                raise OverflowError(f"{name} fits no column")


def store_round(seats, cursor, notes=()):
    """What was played since list_seats, and how far the snapshots are read, in one transaction.
    Outdated: nothing was stored.

    notes: (period, Entry) for the diaries of traders that were not played.
    """
    journals = [(seat.period, seat.player.journal) for seat in seats]
    orders = [
        _order_row(order, period)
        for period, journal in journals
        for order in journal.orders.values()
    ]
    positions = [
        _position_row(position, period)
        for period, journal in journals
        for position in journal.positions.values()
    ]
    entries = [
        _entry_row(entry, period) for period, journal in journals for entry in journal.entries
    ]
    entries += [_entry_row(entry, period) for period, entry in notes]
    with storage.writing():
        for seat in seats:
            _store_seat(seat)
        _insert(PaperOrder, orders, ("period", "number"), ("done", "attempts", "lost", "state"))
        _insert(
            PaperFill,
            [
                _fill_row(fill, position, ids[fill.order])
                for ids, journal in _list_filled(journals)
                for fill, position in journal.fills
            ],
        )
        _insert(paper_tables.Position, positions, ("period", "number"))
        _insert(DiaryEntry, entries)
        _keep_snapshots([seat.player for seat in seats])
        EngineState.insert(id=1, snapshot=cursor).on_conflict(
            conflict_target=[EngineState.id], update={"snapshot": cursor}
        ).execute()


def _store_seat(seat):
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
    if (*account.values(), *engine.values()) != seat.stored or journal.entries:
        _check_version(player.id, seat.version, engine)
        Period.update(account).where(Period.id == seat.period).execute()
    if journal.alarms:
        store_alarms(seat.period, journal.alarms)


def _entry_row(entry, period):
    return {
        "period": period,
        "at": entry.at,
        "kind": entry.kind,
        "mint": entry.mint,
        "order_number": entry.order,
        "facts": orjson.dumps(entry.facts).decode(),
    }


def show_phase(phase):
    return orjson.dumps(asdict(phase)).decode()


def _check_version(ident, version, engine):
    if (
        not Trader.update(version=version + 1, **engine)
        .where(Trader.id == ident, Trader.version == version)
        .execute()
    ):
        raise Outdated(f"trader {ident}")


def _list_filled(journals):
    """({order number: row id}, journal) of each account that had fills."""
    for period, journal in journals:
        if journal.fills:
            numbers = {fill.order for fill, _ in journal.fills}
            rows = PaperOrder.select(PaperOrder.number, PaperOrder.id).where(
                PaperOrder.period == period, PaperOrder.number.in_(numbers)
            )
            yield dict(rows.tuples()), journal


def _order_row(order, period):
    return {
        "period": period,
        **{
            name: str(getattr(order, name)) if name in BIG else getattr(order, name)
            for name in ORDER
        },
    }


def _fill_row(fill, position, order):
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
    }


def _position_row(position, period):
    values = {
        name: str(getattr(position, name)) if name in BIG else getattr(position, name)
        for name in POSITION
    }
    return {**values, "period": period, "marks": orjson.dumps(position.marks).decode()}


def _insert(model, rows, key=(), update=None):
    """Insert rows of equal shape; where one with the same key exists it takes over `update`,
    without it all columns.
    """
    if not rows:
        return
    columns = {name: model._meta.fields[name].column_name for name in rows[0]}
    taken = ", ".join(
        f'"{columns[name]}" = excluded."{columns[name]}"'
        for name in update or columns
        if name not in key
    )
    conflict = (
        f"ON CONFLICT ({', '.join(columns[name] for name in key)}) DO UPDATE SET {taken}"
        if key
        else ""
    )
    names, places = (
        ", ".join(f'"{column}"' for column in columns.values()),
        ", ".join("?" * len(columns)),
    )
    storage.database.cursor().executemany(
        f'INSERT INTO "{model._meta.table_name}" ({names}) VALUES ({places}) {conflict}',
        [tuple(row.values()) for row in rows],
    )


def store_alarms(period, alarms):
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


def _keep_snapshots(players):
    """Snapshots that a decision or a fill names are never thinned; tokens that are held, or on
    order, stay tracked.
    """
    named = {order.decided_on for player in players for order in player.journal.orders.values()}
    named |= {fill.snapshot for player in players for fill, _ in player.journal.fills}
    if named:
        market_store.pin_snapshots(named)
    # From the tables: who is put off holds its tokens all the same.
    market_store.replace_held({mint for (mint,) in _all(HELD)})


# ---- posts ---------------------------------------------------------------------------------------
def list_unspoken(most):
    """The next diary entries that were not considered for a post, oldest first, each with its
    trader and persona: [(id, trader id, handle, voice, kind, at, mint, facts)].
    """
    return _all(UNSPOKEN, (most,))


def list_said(trader, most):
    """(how many posts a trader has made, the last `most` of them, oldest first)."""
    rows = PaperPost.select(PaperPost.body).where(PaperPost.trader == trader)
    return rows.count(), [row.body for row in rows.order_by(PaperPost.id.desc()).limit(most)][::-1]


def store_posts(posts, last_entry):
    """Rows of PaperPost, and how far the diaries were gone through."""
    with storage.writing():
        _insert(PaperPost, posts)
        EngineState.update(entry=last_entry).where(EngineState.id == 1).execute()
