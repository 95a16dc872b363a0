"""Fill stored decisions again: the proof that an account is what the model makes of its decisions. It never decides. Pure."""
from dataclasses import dataclass, replace

from paper.book import Book
from paper.fills import Usage, fill, write_off

MONEY = ("raw", "bought_raw", "mid_bought", "mid_sold", "slippage", "fees", "rent", "cash", "spent", "latency_ms", "closed_at", "reason")


@dataclass(frozen=True)
class Attempt:
    """A stored fill, with what it was made of."""

    fill: object
    snapshot: object                   # None: it is missing
    before: tuple                      # Fills of the same snapshot, by anybody, that came first
    mark: int                          # the last believed price of its position


@dataclass(frozen=True)
class Account:
    """An account period as it is stored."""

    starting_cash: int
    cash: int
    lost_fees: int
    orders: dict                       # number -> Order
    attempts: tuple                    # in the order they were made
    positions: dict                    # number -> Position


def find_differences(account):
    """What filling the account's decisions again makes different: sentences, none where it is the same to the lamport."""
    first = min(account.positions, default=1)
    book, positions, found = Book(account.starting_cash, next_position=first), {}, []
    orders = {number: replace(order, done=0, attempts=0, lost=0) for number, order in account.orders.items()}
    for attempt in account.attempts:
        done = fill_again(book, orders[attempt.fill.order], attempt)
        if done != attempt.fill:
            found.append(f"order {attempt.fill.order}, attempt {orders[attempt.fill.order].attempts + 1}: another fill")
        if done is not None:
            orders[attempt.fill.order], position = book.apply(orders[attempt.fill.order], done, attempt.snapshot)
            positions |= {position.number: position} if position else {}
    found += [f"position {number}: another {name}" for number in sorted({*positions, *account.positions}) for name in MONEY
              if getattr(positions.get(number), name, None) != getattr(account.positions.get(number), name, None)]
    return found + ([] if (book.cash, book.lost_fees) == (account.cash, account.lost_fees) else ["another cash"])


def fill_again(book, order, attempt):
    """The Fill the model makes of an order on the attempt's snapshot; None where there is no such snapshot, or no room."""
    snapshot, position = attempt.snapshot, book.positions.get(order.mint)
    if snapshot is None or order.side == "sell" and position is None:
        return None
    if order.reason == "liquidity_gone":
        vanished = snapshot.at != attempt.fill.at             # no snapshot came any more: the last one's price, an empty pool
        return write_off(order, replace(snapshot, at=attempt.fill.at, price=attempt.mark, reserve=0) if vanished else snapshot, attempt.mark)
    usage = Usage()
    for earlier in attempt.before:
        usage.take(earlier)
    return fill(order, snapshot, usage, first=position is None, last_raw=position and position.raw)
