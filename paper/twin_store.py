"""Read the twins of traders, and store them again with what they closed.

The state of a twin is JSON of the standard library: prices do not fit 64 bits.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

from paper.account import Account, Close, Position, public_id, read_close
from paper.adaptive import summarize
from paper.faults import Faults
from paper.fills import MODEL, Fill, Order
from paper.guard import LOOK_BACK_MS, Pause
from paper.load import LoadedTrader
from paper.market import Snapshot
from paper.pools import Memory
from paper.rows import Columns
from paper.trader import Journal, Trader
from paper.twins import Ticket, Twin, name_twin
from storage.rows import select


class TwinCloseRow(NamedTuple):
    """A close of a twin, with its trader. `marks` is JSON, money is in lamports, times are ms."""

    period: int
    number: int
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
    marks: str


_CLOSES = """
SELECT c.period_id AS period, c.number, t.id AS trader_id, t.family, c.mint, c.symbol, c.opened_at,
       c.closed_at, c.reason, c.gross, c.net, c.spent, c.pipeline, c.marks
FROM twin_close c JOIN period p ON p.id = c.period_id JOIN trader t ON t.id = p.trader_id
WHERE """
OF_PERIOD = f"{_CLOSES} c.period_id = ? ORDER BY c.closed_at, c.id"
SINCE = f"{_CLOSES} c.closed_at >= ? ORDER BY c.closed_at, c.id"


def read_twin_close(ident: str, row: TwinCloseRow, marks: Collection[str]) -> Close:
    """Return the close of a twin that a row stores. No review is opened about a twin: the mark
    `under_review` stands for one.
    """
    return read_close(ident, row, marks, reviewed="under_review" in marks)


class StateRow(NamedTuple):
    """A twin as it is stored."""

    period: int
    state: str
    fired: str
    lessons: int
    sol_cents_first: int | None
    sol_cents_last: int | None
    started_at: int


STATES = """
SELECT s.period_id AS period, s.state, s.fired, s.lessons, s.sol_cents_first, s.sol_cents_last,
       s.started_at
FROM twin_state s JOIN period p ON p.id = s.period_id AND p.closed_at IS NULL
JOIN trader t ON t.id = p.trader_id AND t.retired_at IS NULL"""


class MintsRow(NamedTuple):
    """What a twin holds or has ordered, as JSON."""

    mints: str


HELD = """
SELECT s.mints FROM twin_state s JOIN period p ON p.id = s.period_id AND p.closed_at IS NULL
JOIN trader t ON t.id = p.trader_id AND t.retired_at IS NULL WHERE s.mints <> '[]'"""


# ---- reading -------------------------------------------------------------------------------------
def load_twins(loaded: Iterable[LoadedTrader], now: int, faults: Faults) -> None:
    """Give each trader its twin: the stored one, or a new one that begins now (ms)."""
    states = {row.period: row for row in select(StateRow, STATES)}
    by_period = {one.row.period: one for one in loaded}
    for period, one in by_period.items():
        with faults.isolate(one.trader.id):
            one.trader.twin = read_twin(one.trader, states.get(period))
    for row in select(TwinCloseRow, SINCE, (now - 2 * LOOK_BACK_MS,)):
        found = by_period.get(row.period)
        if found and found.trader.twin:
            player = found.trader.twin.player
            ident = public_id(player.handle, "close", row.number)
            player.closes.append(read_twin_close(ident, row, orjson.loads(row.marks)))


def read_twin(trader: Trader, row: StateRow | None) -> Twin:
    """Return a trader's twin as it was stored; a new one without a row."""
    handle = name_twin(trader.handle)
    if row is None:
        player = _make_player(trader, handle, Account(trader.starting_cash))
        return Twin(player, next_order=trader.account.next_order)
    state = json.loads(row.state)
    account = read_account(state)
    player = _make_player(trader, handle, account)
    player.pauses = [Pause(**one) for one in state["pauses"]]
    player.lessons = state["lessons"]
    return Twin(
        player,
        [Ticket(*one) for one in state["tickets"]],
        {key: _read_memory(*one) for key, one in state["memories"].items()},
        state["nextTicketOrder"],
        Counter(orjson.loads(row.fired)),
        row.lessons,
        set(state["doubted"]),
        row.sol_cents_first,
        row.sol_cents_last,
        row.started_at,
        row.state,
        row.sol_cents_last,
    )


def _make_player(trader: Trader, handle: str, account: Account) -> Trader:
    return Trader(trader.id, handle, trader.strategy, account, starting_cash=trader.starting_cash)


def read_account(state: Mapping[str, Any]) -> Account:
    """Return the account in the state of a twin."""
    return Account(
        state["cash"],
        [_read_position(one) for one in state["positions"]],
        [Order(**one) for one in state["orders"]],
        state["nextOrder"],
        state["nextPosition"],
        state["lostFees"],
    )


def _read_position(columns: Mapping[str, Any]) -> Position:
    return Position(**{**columns, "marks": tuple(columns["marks"])})


def _read_memory(
    flow: int, last: Mapping[str, Any] | None, turns: int, blind: int | None
) -> Memory:
    return Memory(flow, Snapshot(**last) if last else None, turns, blind)


def list_held() -> set[str]:
    """Return the mints that twins hold or have ordered."""
    return {mint for row in select(MintsRow, HELD) for mint in orjson.loads(row.mints)}


# ---- writing -------------------------------------------------------------------------------------
class Written(NamedTuple):
    """Rows of twins, and the snapshots that their orders and fills name."""

    states: list[Columns]
    fills: list[Columns]
    closes: list[Columns]
    named: set[int]


def show_twins(loaded: Sequence[LoadedTrader]) -> Written:
    """Return what the twins' rounds brought about, as rows."""
    written = Written([], [], [], set())
    for one in loaded:
        twin = one.trader.twin
        if twin is None or not twin.started_at:
            continue
        journal = twin.player.journal
        written.named.update(order.decided_on for order in journal.orders.values())
        written.named.update(fill.snapshot for fill, _ in journal.fills)
        written.fills.extend(
            {
                **show_fill(fill, position, one.row.period),
                **show_making(fill, journal, position),
            }
            for fill, position in journal.fills
        )
        written.closes.extend(
            show_close(twin, done, one.row.period)
            for done in journal.positions.values()
            if done.closed_at is not None
        )
        if twin.is_news(text := show_state(twin)):
            written.states.append(show_twin(twin, text, one.row.period))
    return written


def show_state(twin: Twin) -> str:
    """Return what the engine needs to go on with a twin, as JSON."""
    own, account = twin.player, twin.player.account
    state = {
        "cash": account.cash,
        "lostFees": account.lost_fees,
        "nextOrder": account.next_order,
        "nextPosition": account.next_position,
        "positions": [asdict(one) for one in account.positions.values()],
        "orders": [asdict(one) for one in account.orders.values()],
        "tickets": twin.tickets,
        "memories": {key: _show_memory(one) for key, one in twin.memories.items()},
        "nextTicketOrder": twin.next_order,
        "pauses": [asdict(one) for one in own.pauses],
        "lessons": own.lessons,
        "doubted": sorted(twin.doubted),
    }
    return json.dumps(state, separators=(",", ":"))


def show_twin(twin: Twin, state: str, period: int) -> Columns:
    """Return the columns of a twin in an account period."""
    account = twin.player.account
    return {
        "period": period,
        "state": state,
        "mints": orjson.dumps(twin.mints).decode(),
        "fired": orjson.dumps(dict(sorted(twin.fired.items()))).decode(),
        "lessons": twin.lessons,
        "cash": account.cash,
        "worth": account.equity - account.cash,
        "sol_cents_first": twin.sol_cents_first,
        "sol_cents_last": twin.sol_cents_last,
        "started_at": twin.started_at,
    }


def _show_memory(memory: Memory) -> list[Any]:
    last = asdict(memory.last) if memory.last else None
    return [memory.flow, last, memory.turns, memory.blind]


def show_fill(fill: Fill, position: int | None, period: int) -> Columns:
    """Return the columns of a fill, or a failed attempt, of a twin."""
    return {
        "period": period,
        "order_number": fill.order,
        "position": position,
        "mint": fill.mint,
        "side": fill.side,
        "decided_on": fill.decided_on,
        "snapshot": fill.snapshot,
        "at": fill.at,
        "raw": str(fill.raw),
        "mid": fill.mid,
        "slippage": fill.slippage,
        "pool_fee": fill.pool_fee,
        "network_fee": fill.network_fee,
        "rent": fill.rent,
        "failed": fill.failed,
        "reason": fill.reason,
        "model": MODEL,
    }


def show_making(fill: Fill, journal: Journal, position: int | None) -> Columns:
    """Return the columns that paper.twin_proof makes a fill again from."""
    order = journal.orders[fill.order]
    return {
        "decided_at": fill.decided_at,
        "amount": str(order.amount),
        "least": str(order.least),
        "decimals": order.decimals,
        "transfer_bps": order.transfer_bps,
        "mark": None if position is None else str(journal.positions[position].price),
        "marks": orjson.dumps(fill.marks).decode(),
        "flow": fill.flow,
        "turn": fill.turn,
        "costs": orjson.dumps(tuple(fill.costs)).decode() if fill.costs else None,
    }


def show_close(twin: Twin, position: Position, period: int) -> Columns:
    """Return the columns of a closed position of a twin."""
    close = summarize(position, "")
    doubt = ("under_review",) if position.number in twin.doubted else ()
    return {
        "period": period,
        "number": position.number,
        "mint": close.mint,
        "symbol": close.symbol,
        "opened_at": close.opened_at,
        "closed_at": close.closed_at,
        "reason": close.reason,
        "gross": close.gross,
        "net": close.net,
        "spent": close.spent,
        "pipeline": position.pipeline,
        "marks": orjson.dumps((*position.marks, *doubt)).decode(),
    }
