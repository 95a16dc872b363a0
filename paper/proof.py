"""Fill stored decisions again, to prove that an account is what the fill model makes of them.

Nothing is decided again, and fills of other models are taken as they are.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paper import rows
from paper.account import Account, Position
from paper.fills import (
    MODEL,
    RECORDED_COSTS,
    WRITE_OFFS,
    Fill,
    Order,
    close_at_nothing,
    fill,
    write_off,
)
from paper.load import list_columns, read_snapshot
from paper.market import Snapshot
from paper.pools import Memory
from paper.rows import read_fill, read_order, read_position
from paper.tables import PaperOrder
from paper.tables import Position as StoredPosition
from storage.rows import select

MONEY = (
    *("raw", "bought_raw", "mid_bought", "mid_sold", "slippage", "fees", "rent", "cash", "spent"),
    *("latency_ms", "closed_at", "reason"),
)


def find_differences(period: Any, handle: str) -> list[str]:
    """Fill an account period's stored decisions again and say what differs, in sentences; none if
    all is the same to the lamport.
    """
    known = select(rows.NamedSnapshotRow, rows.NAMED_SNAPSHOTS, (period.id,))
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
    for row in select(rows.FillRow, rows.OF_PERIOD, (period.id,)):
        done, order, snapshot = read_fill(row), orders[row.number], snapshots.get(row.snapshot)
        mark = stored[row.position].price if row.position in stored else 0
        if row.model == MODEL and fill_again(done, order, snapshot, account, mark) != done:
            found.append(f"order {order.number}, attempt {order.attempts + 1}: another fill")
        seen = snapshot or Snapshot(done.snapshot, done.mint, done.at, 1)
        orders[row.number], position = account.apply(order, done, seen)
        again |= {position.number: position} if position else {}
    cash = (account.cash, account.lost_fees) != (period.cash, period.lost_fees)
    return [*found, *compare(again, stored), *(["another cash"] if cash else [])]


def fill_again(
    done: Fill, order: Order, snapshot: Snapshot | None, account: Account, mark: int
) -> Fill | None:
    """Return the fill that the model makes of an order, on the snapshot and the pool's flow that
    are stored with it; None without the snapshot. mark: the last price of its position.
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
    """Say in which sums two accounts' positions with the same number differ; a missing one differs
    in all that are not None.
    """
    return [
        f"position {number}: another {name}"
        for number in sorted({*again, *stored})
        for name in MONEY
        if getattr(again.get(number), name, None) != getattr(stored.get(number), name, None)
    ]
