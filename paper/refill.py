"""Fill stored decisions again: the proof that an account is what the model makes of its decisions.
It never decides. Pure.
"""

from dataclasses import dataclass, replace

from paper.book import Book, Position
from paper.fills import FIRST_MODEL, MODEL, WRITE_OFFS, Fill, Order, Usage, fill, write_off
from paper.market import Snapshot

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
    # None: it is missing
    snapshot: Snapshot | None
    # Fills of the same snapshot, by anybody, that came first
    before: tuple[Fill, ...]
    # the last believed price of its position
    mark: int
    # the fill model it was made by
    model: str = MODEL


@dataclass(frozen=True)
class Account:
    """An account period as it is stored."""

    starting_cash: int
    cash: int
    lost_fees: int
    # number -> Order
    orders: dict[int, Order]
    # in the order they were made
    attempts: tuple[Attempt, ...]
    # number -> Position
    positions: dict[int, Position]


def find_differences(account: Account) -> list[str]:
    """What filling the account's decisions again makes different: sentences, none where it is the
    same to the lamport.
    """
    first = min(account.positions, default=1)
    book, found = Book(account.starting_cash, next_position=first), list[str]()
    positions: dict[int, Position] = {}
    orders = {
        number: replace(order, done=0, attempts=0, lost=0)
        for number, order in account.orders.items()
    }
    for attempt in account.attempts:
        done = fill_again(book, orders[attempt.fill.order], attempt)
        if done != attempt.fill:
            found.append(
                f"order {attempt.fill.order}, attempt {orders[attempt.fill.order].attempts + 1}:"
                " another fill"
            )
        if done is not None:
            orders[attempt.fill.order], position = book.apply(
                orders[attempt.fill.order], done, attempt.snapshot
            )
            positions |= {position.number: position} if position else {}
    found += [
        f"position {number}: another {name}"
        for number in sorted({*positions, *account.positions})
        for name in MONEY
        if getattr(positions.get(number), name, None)
        != getattr(account.positions.get(number), name, None)
    ]
    return found + (
        [] if (book.cash, book.lost_fees) == (account.cash, account.lost_fees) else ["another cash"]
    )


def fill_again(book: Book, order: Order, attempt: Attempt) -> Fill | None:
    """The Fill its model makes of an order on the attempt's snapshot; None where there is no such
    snapshot, or no room.
    """
    snapshot, position = attempt.snapshot, book.positions.get(order.mint)
    if order.side == "sell" and position is None:
        return None
    if order.reason in WRITE_OFFS:
        return write_off(
            order,
            _gone(attempt),
            attempt.mark,
            _usage(attempt, shared=attempt.model != FIRST_MODEL),
        )
    if snapshot is None:
        return None
    first, last_raw = position is None, position.raw if position else None
    return fill(
        order, snapshot, _usage(attempt), first=first, last_raw=last_raw, model=attempt.model
    )


def _gone(attempt: Attempt) -> Snapshot:
    """The snapshot a position was written off on. Where none came any more it was the mark, beside
    an empty pool.

    That last snapshot may be deleted by now: it was no fill's until then. Nothing but the mark is
    needed of it.
    """
    snapshot, done = attempt.snapshot, attempt.fill
    if snapshot is not None and snapshot.at == done.at:
        return snapshot
    return Snapshot(done.snapshot, done.mint, done.at, attempt.mark, reserve=0)


def _usage(attempt: Attempt, shared: bool = True) -> Usage:
    """What others took on the same snapshot before. In the first model write-offs neither took nor
    shared.
    """
    usage = Usage()
    for earlier in attempt.before if shared else ():
        if attempt.model != FIRST_MODEL or earlier.reason not in WRITE_OFFS:
            usage.take(earlier)
    return usage
