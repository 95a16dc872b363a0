"""Open positions on each round: marked, reviewed, or written off. Pure."""

from collections.abc import Mapping

from paper.book import Position
from paper.faults import Faults
from paper.fills import STALE_PRICE, Usage, is_gone, write_off
from paper.guard import DAY
from paper.market import Judged, Market, Snapshot
from paper.orders import book_fill, end_order
from paper.trader import Trader

# a held token so long without a usable price is closed at nothing
GIVEN_UP_MS = DAY
MISSES = {
    "unseen": ("missing_snapshot", "no snapshot came while a position was open"),
    "unpriced": ("missing_price", "no usable price in SOL came while a position was open"),
}
REVIEWED_FLAWS = {
    "price_jump": "the price moved beyond the bound between neighbouring snapshots",
    "non_positive_price": "the price was not finite and positive",
    "clock_skew": "a snapshot's time did not fit the clock or its neighbour",
}


def watch(
    trader: Trader,
    market: Market,
    seen: Mapping[str, Judged],
    usage: Mapping[str, Usage],
    at: int,
    faults: Faults,
) -> None:
    """Write off positions whose liquidity or price is gone, mark the others, open reviews."""
    for position in trader.held:
        faults.mint = position.mint
        snapshot, flaw = seen.get(position.mint, (None, "unseen"))
        update_position(trader, position, snapshot, flaw, market, usage[position.mint], at)
    for order in trader.book.orders.values():
        faults.mint = order.mint
        if (
            order.mint in seen
            and order.mint not in trader.book.positions
            and order.mint not in trader.put_off
        ):
            raise_flaw(
                trader, *seen[order.mint], order.symbol, f"order {order.number}", order.number
            )


def update_position(
    trader: Trader,
    position: Position,
    snapshot: Snapshot | None,
    flaw: str | None,
    market: Market,
    usage: Usage,
    at: int,
) -> None:
    """Write one position off, mark it, or note that it has no usable price."""
    if snapshot is not None and flaw != "clock_skew" and is_gone(snapshot, position.liquidity):
        book_gone(trader, position, snapshot, usage)
        return
    if snapshot is not None and flaw is None:
        mark(trader, position, snapshot, market.horizon_ms)
        return
    if snapshot is not None:
        # The way back from a jump is a reason of its own, should the first one have been cleared.
        way = f"{position.marked_on}{'' if (snapshot.price or 0) <= position.price else ' up'}"
        raise_flaw(trader, snapshot, flaw, position.symbol, f"position {position.number}", way)
    miss(trader, position, snapshot, market, usage, at)


def mark(trader: Trader, position: Position, snapshot: Snapshot, horizon_ms: int) -> None:
    """Value a position at a snapshot; the first price after a long time opens a review."""
    marked = trader.book.positions[position.mint] = position.marked(snapshot, horizon_ms)
    trader.journal.positions[marked.number] = marked
    if STALE_PRICE in marked.marks and STALE_PRICE not in position.marks:
        trader.alarm(
            "stale_snapshot",
            snapshot.id,
            "there was no price for a long time before this one",
            snapshot.at,
            position.symbol,
        )


def raise_flaw(
    trader: Trader,
    snapshot: Snapshot,
    flaw: str | None,
    symbol: str,
    about: str,
    subject: int | str,
) -> None:
    """Open a review over a snapshot that cannot be believed, once while its price stays so."""
    if flaw in REVIEWED_FLAWS:
        trader.alarm(flaw, subject, REVIEWED_FLAWS[flaw], snapshot.at, symbol, about)


def miss(
    trader: Trader,
    position: Position,
    snapshot: Snapshot | None,
    market: Market,
    usage: Usage,
    at: int,
) -> None:
    """Open a review for a held token without a usable price for three intervals; after a day close
    it at nothing.

    Time in which no token had a snapshot does not count: the scout was silent, not the token.
    """
    if at - max(position.marked_at, market.awake_since) <= market.patience_ms:
        return
    code, detail = MISSES["unseen" if snapshot is None else "unpriced"]
    trader.alarm(
        code, position.marked_on, detail, at, position.symbol, f"position {position.number}"
    )
    if at - position.marked_at > GIVEN_UP_MS:
        last = Snapshot(position.marked_on, position.mint, at, position.price, reserve=0)
        book_gone(trader, position, last, usage, "price_gone")


def book_gone(
    trader: Trader,
    position: Position,
    snapshot: Snapshot,
    usage: Usage,
    reason: str = "liquidity_gone",
) -> None:
    """Write a position off at once (rule 5, before any other), whatever order was on its way."""
    order = trader.book.order_for(position.mint)
    if order:
        end_order(trader, order, "cancelled", snapshot.at)
    order = trader.book.place(
        handle=trader.handle,
        mint=position.mint,
        symbol=position.symbol,
        decimals=position.decimals,
        side="sell",
        amount=position.raw,
        reason=reason,
        decided_on=snapshot.id,
        decided_at=snapshot.at,
        due_at=snapshot.at,
        expires_at=snapshot.at,
    )
    done = write_off(order, snapshot, position.price, usage)
    usage.take(done)
    order = book_fill(trader, order, done, snapshot)
    end_order(trader, order, "filled", snapshot.at)
