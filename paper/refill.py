"""Fill stored decisions again, to prove that an account is what its fill model makes of them. Pure.

Nothing is decided again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from paper.market import Snapshot
from paper.pools import NEVER_TRADED, Memory

MONEY = (
    "raw",
    "bought_raw",
    "mid_bought",
    "mid_sold",
    "slippage",
    "fees",
    "rent",
    "cash",
    "spent",
    "latency_ms",
    "closed_at",
    "reason",
)


@dataclass(frozen=True)
class Attempt:
    """A stored fill, with what it was made of."""

    fill: Fill
    # None where it is missing.
    snapshot: Snapshot | None
    # The last mark of its position.
    mark: int
    # The fill model that made it. Fills of other models are not computed again.
    model: str = MODEL
    # What its pool remembered.
    memory: Memory = NEVER_TRADED


@dataclass(frozen=True)
class StoredAccount:
    """An account period as it is stored."""

    starting_cash: int
    cash: int
    lost_fees: int
    # By number.
    orders: dict[int, Order]
    # In the order they were made.
    attempts: tuple[Attempt, ...]
    # By number.
    positions: dict[int, Position]


def find_differences(stored: StoredAccount) -> list[str]:
    """Fill the stored decisions again and say what differs, in sentences; none where all is the
    same to the lamport.
    """
    again = replay(stored, min(stored.positions, default=1))
    return [
        *again.differences,
        *compare("position", again.positions, stored.positions, MONEY),
        *again.compare_cash(stored),
    ]


@dataclass(frozen=True)
class Replay:
    """What filling the stored decisions again came to."""

    account: Account
    # By number, the closed ones among them.
    positions: dict[int, Position]
    # Fills that came out different, as sentences.
    differences: list[str]

    def compare_cash(self, stored: StoredAccount) -> list[str]:
        """Say whether the account ends with another cash than the stored one."""
        again = self.account.cash, self.account.lost_fees
        return [] if again == (stored.cash, stored.lost_fees) else ["another cash"]


def replay(stored: StoredAccount, first: int) -> Replay:
    """Fill the stored decisions again. `first`: the number of the account's first position."""
    account, found = Account(stored.starting_cash, next_position=first), list[str]()
    positions: dict[int, Position] = {}
    orders = {
        number: replace(order, done=0, attempts=0, lost=0)
        for number, order in stored.orders.items()
    }
    for attempt in stored.attempts:
        number = attempt.fill.order
        done = fill_again(account, orders[number], attempt)
        if done != attempt.fill:
            found.append(f"order {number}, attempt {orders[number].attempts + 1}: another fill")
        if done is not None:
            orders[number], position = account.apply(orders[number], done, attempt.snapshot)
            positions |= {position.number: position} if position else {}
    return Replay(account, positions, found)


def compare(
    noun: str, again: Mapping[int, object], stored: Mapping[int, object], names: Sequence[str]
) -> list[str]:
    """Say in which of these fields two things with the same number differ; a missing one differs in
    all that are not None.
    """
    return [
        f"{noun} {number}: another {name}"
        for number in sorted({*again, *stored})
        for name in names
        if getattr(again.get(number), name, None) != getattr(stored.get(number), name, None)
    ]


def fill_again(account: Account, order: Order, attempt: Attempt) -> Fill | None:
    """Return the fill that its model makes of an order on the attempt's snapshot; None without that
    snapshot, or where the pool has nothing left.
    """
    position = account.positions.get(order.mint)
    if order.side == "sell" and position is None:
        return None
    if attempt.model != MODEL:
        return attempt.fill
    held = position.raw if position else None
    snapshot, memory = attempt.snapshot, attempt.memory
    costs = attempt.fill.costs or RECORDED_COSTS
    if order.reason == "price_gone":
        return close_at_nothing(order, _gone(attempt), attempt.mark, costs)
    if snapshot is None:
        return None
    if order.reason in WRITE_OFFS:
        return write_off(order, snapshot, attempt.mark, memory, costs)
    return fill(order, snapshot, memory, first=held is None, last_raw=held, costs=costs)


def _gone(attempt: Attempt) -> Snapshot:
    """Return the snapshot a position was written off on; where none came any more, its mark beside
    an empty pool.

    The snapshot of the mark may be deleted by now, since no fill named it before. Only its price is
    needed.
    """
    snapshot, done = attempt.snapshot, attempt.fill
    if snapshot is not None and snapshot.at == done.at:
        return snapshot
    return Snapshot(done.snapshot, done.mint, done.at, attempt.mark, reserve=0)
