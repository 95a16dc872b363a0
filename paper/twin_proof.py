"""Fill the stored decisions of a trader's twin again, as paper.refill does with the trader's own.

A twin plays in pools that nobody else moves, so its own fills are all that they remember.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import orjson

from paper.account import Account, Close
from paper.adaptive import summarize
from paper.fills import Fill, NetworkCosts, Order, remember
from paper.load import read_snapshot
from paper.market import Snapshot
from paper.pools import HOUR_MS, NEVER_TRADED, Memory, pool_key
from paper.refill import MONEY, Attempt, StoredAccount, compare, replay
from paper.rows import NAMED_SNAPSHOT, NamedSnapshotRow
from paper.twin_store import OF_PERIOD, TwinCloseRow, read_account, read_twin_close
from paper.twins import name_twin
from storage.rows import select

CLOSED = ("mint", "opened_at", "closed_at", "reason", "gross", "net", "spent")


class TwinFillRow(NamedTuple):
    """A fill of a twin."""

    order_number: int
    position: int | None
    mint: str
    side: str
    decided_on: int
    snapshot: int
    at: int
    raw: str
    mid: int
    slippage: int
    pool_fee: int
    network_fee: int
    rent: int
    failed: bool
    reason: str
    model: str
    decided_at: int
    amount: str
    least: str
    decimals: int
    transfer_bps: int
    mark: str | None
    marks: str
    flow: int
    turn: int
    costs: str | None


FILLS = """
SELECT order_number, position, mint, side, decided_on, snapshot, at, raw, mid, slippage, pool_fee,
       network_fee, rent, failed, reason, model, decided_at, amount, least, decimals, transfer_bps,
       mark, marks, flow, turn, costs
FROM twin_fill WHERE period_id = ? ORDER BY id"""
SNAPSHOTS = f"""{NAMED_SNAPSHOT}
WHERE s.id IN (SELECT snapshot FROM twin_fill WHERE period_id = ?
               UNION SELECT decided_on FROM twin_fill WHERE period_id = ?)"""


class PeriodStateRow(NamedTuple):
    """The state of a twin, as JSON."""

    state: str


STATE = "SELECT state FROM twin_state WHERE period_id = ?"


class StoredTwin(NamedTuple):
    """A twin as it is stored: what it did and closed, and its account as it is now."""

    stored: StoredAccount
    closes: dict[int, Close]
    account: Account
    # What its orders say of themselves that cannot be, as sentences.
    doubts: list[str]


def find_twin_differences(twin: StoredTwin) -> list[str]:
    """Fill a twin's stored decisions again and say what differs, in sentences; none where all is
    the same to the lamport.
    """
    again = replay(twin.stored, 1)
    closed = {
        number: summarize(one, "") for number, one in again.positions.items() if one.closed_at
    }
    still = {number: one for number, one in again.positions.items() if not one.closed_at}
    held = {one.number: one for one in twin.account.positions.values()}
    return [
        *twin.doubts,
        *again.differences,
        *compare("close", closed, twin.closes, CLOSED),
        *compare("position", still, held, MONEY),
        *again.compare_cash(twin.stored),
    ]


# ---- reading -------------------------------------------------------------------------------------
def load_twin(period: int, starting_cash: int, handle: str) -> StoredTwin | None:
    """Read the twin of an account period of the trader `handle`; None where it has none yet."""
    states = select(PeriodStateRow, STATE, (period,))
    if not states:
        return None
    account, name = read_account(json.loads(states[0].state)), name_twin(handle)
    rows = select(TwinFillRow, FILLS, (period,))
    orders = {row.order_number: read_order(row, name) for row in rows}
    named = select(NamedSnapshotRow, SNAPSHOTS, (period, period))
    snapshots = {row.id: read_snapshot(row, row.mint) for row in named}
    attempts = tuple(_list_attempts(rows, snapshots))
    stored = StoredAccount(
        starting_cash, account.cash, account.lost_fees, orders, attempts, positions={}
    )
    closes = select(TwinCloseRow, OF_PERIOD, (period,))
    return StoredTwin(
        stored,
        {row.number: read_twin_close("", row, orjson.loads(row.marks)) for row in closes},
        account,
        [doubt for row in rows for doubt in doubt_order(row, orders, snapshots)],
    )


def doubt_order(
    row: TwinFillRow, orders: Mapping[int, Order], snapshots: Mapping[int, Snapshot]
) -> Iterator[str]:
    """Yield what a fill says of its order that cannot be, as sentences."""
    order = orders[row.order_number]
    if read_order(row, order.handle) != order:
        yield f"order {order.number}: its fills tell of several"
    decided_on = snapshots.get(order.decided_on)
    # A token that is closed at nothing has no snapshot of that time.
    if order.reason == "price_gone":
        return
    if decided_on is None or decided_on.at != order.decided_at:
        yield f"order {order.number}: decided at another time than its snapshot"


def read_order(row: TwinFillRow, handle: str) -> Order:
    """Return the order that a fill of a twin tells of."""
    return Order(
        handle,
        row.order_number,
        row.mint,
        "",
        row.decimals,
        row.side,
        int(row.amount),
        row.reason,
        row.decided_on,
        row.decided_at,
        0,
        0,
        int(row.least),
        row.transfer_bps,
    )


def _list_attempts(
    rows: Sequence[TwinFillRow], snapshots: Mapping[int, Snapshot]
) -> Iterator[Attempt]:
    """Yield a twin's fills in the order it made them, each with what its pool remembered."""
    memories: dict[str, Memory] = {}
    # When each position was ordered, by its number.
    ordered: dict[int, int] = {}
    for row in rows:
        done, known = read_fill(row), snapshots.get(row.snapshot)
        key = pool_key(known) if known else row.mint
        memory = memories.get(key, NEVER_TRADED)
        ordered_at = done.decided_at
        if row.position is not None:
            ordered_at = ordered.setdefault(row.position, ordered_at)
        if done.turn == 1 and may_forget(memory, ordered_at):
            memory = NEVER_TRADED
        yield Attempt(done, known, int(row.mark or 0), row.model, memory)
        if known is not None:
            memories[key] = remember(memory, done, known)


def may_forget(memory: Memory, ordered_at: int) -> bool:
    """Tell whether a twin may have forgotten a pool before it ordered the token (ms): it keeps
    those of tokens it holds, and others for an hour (paper.twins.note_round).

    A sale may be in another pool than its purchase: the token's pair changes.
    """
    last: Snapshot | None = memory.last
    return last is not None and last.at + HOUR_MS <= ordered_at


def read_fill(row: TwinFillRow) -> Fill:
    """Return the fill, or the failed attempt at one, that a row stores."""
    return Fill(
        row.order_number,
        row.mint,
        row.side,
        row.snapshot,
        row.at,
        row.decided_on,
        row.decided_at,
        int(row.raw),
        row.mid,
        row.slippage,
        row.pool_fee,
        row.network_fee,
        row.rent,
        bool(row.failed),
        row.reason,
        tuple(orjson.loads(row.marks)),
        row.flow,
        row.turn,
        NetworkCosts(*orjson.loads(row.costs)) if row.costs else None,
    )
