"""Mark open positions in each round, write them off, or doubt them. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from paper.account import Position
from paper.faults import Faults
from paper.fills import Terms, close_at_nothing, is_gone, liquidate, write_off
from paper.guard import DAY_MS
from paper.market import CheckedSnapshot, Snapshot
from paper.orders import book_fill, end_order
from paper.recent import Market
from paper.trader import Trader

# A held token without a usable price for this long, not counting pauses of the scout, is closed at
# nothing.
MAX_UNPRICED_MS = DAY_MS
REVIEWED_FLAWS = {
    "price_jump": "the price moved beyond the bound between neighbouring snapshots",
    "clock_skew": "a snapshot's time did not fit the clock or its neighbour",
}


def update_positions(
    trader: Trader,
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    at: int,
    faults: Faults,
) -> None:
    """Write off positions whose liquidity or price is gone, mark the others, open reviews."""
    for position in trader.held:
        faults.mint = position.mint
        snapshot, flaw = seen.get(position.mint, (None, "unseen"))
        update_position(trader, position, snapshot, flaw, market, at)
    for order in trader.account.orders.values():
        faults.mint = order.mint
        if (
            order.mint in seen
            and order.mint not in trader.account.positions
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
    at: int,
) -> None:
    """Write one position off, mark it, or note that it has no usable price."""
    if snapshot is not None and flaw != "clock_skew":
        if position.pair and snapshot.pair and snapshot.pair != position.pair:
            moved = move_position(trader, position, snapshot)
            # Two pools that take turns at being the deepest are no price either.
            handle_missing_price(trader, moved, snapshot, market, at)
            return
        if is_gone(snapshot, position.liquidity):
            write_off_position(trader, position, snapshot, market)
            return
    if snapshot is not None and flaw is None:
        mark_position(trader, position, snapshot, market)
        return
    if snapshot is not None:
        # The way back from a jump is a reason of its own: the first one may have been cleared.
        direction = (
            f"{position.marked_on}{'' if (snapshot.price or 0) <= position.price else ' up'}"
        )
        raise_flaw(
            trader, snapshot, flaw, position.symbol, f"position {position.number}", direction
        )
        if flaw == "non_positive_price":
            doubt(trader, position.mint, flaw)
    handle_missing_price(trader, position, snapshot, market, at)


def move_position(trader: Trader, position: Position, snapshot: Snapshot) -> Position:
    """Follow a token to another pair, and return the position there: another market, whose
    liquidity is compared from now on. Its first snapshot is neither a mark nor a loss.
    """
    moved = replace(position, pair=snapshot.pair, liquidity=snapshot.liquidity)
    trader.account.positions[position.mint] = moved
    trader.journal.positions[moved.number] = moved
    return moved


def mark_position(trader: Trader, position: Position, snapshot: Snapshot, market: Market) -> None:
    """Value a position at what its pool would pay."""
    terms = Terms(position.decimals, market.tokens[position.mint].transfer_fee_bps)
    worth = liquidate(position.raw, snapshot, terms, market.recall(snapshot))
    marked = position.marked(snapshot, market.horizon_ms, worth, market.interval_ms)
    trader.account.positions[position.mint] = marked
    trader.journal.positions[marked.number] = marked


def raise_flaw(
    trader: Trader,
    snapshot: Snapshot,
    flaw: str | None,
    symbol: str,
    about: str,
    subject: int | str,
) -> None:
    """Open a review about a snapshot that is not believable, once while its price stays so; of an
    account that no operator reviews, exclude the position.
    """
    if flaw not in REVIEWED_FLAWS:
        return
    if trader.reviewable:
        trader.open_review(flaw, subject, REVIEWED_FLAWS[flaw], snapshot.at, symbol, about)
    elif snapshot.mint in trader.account.positions:
        doubt(trader, snapshot.mint, flaw)


def doubt(trader: Trader, mint: str, mark: str) -> None:
    """Keep the close of an open position from being compared, and nothing else of its account."""
    if mark not in trader.account.positions[mint].marks:
        position = trader.account.doubt(mint, mark)
        trader.journal.positions[position.number] = position


def handle_missing_price(
    trader: Trader,
    position: Position,
    snapshot: Snapshot | None,
    market: Market,
    at: int,
) -> None:
    """Doubt a position without a usable price for three intervals; after a day close it at nothing.

    Time in which no token had a snapshot counts for neither: the scout was silent, not the token.
    """
    if at - max(position.marked_at, market.awake_since) <= market.patience_ms:
        return
    doubt(trader, position.mint, "missing_snapshot" if snapshot is None else "missing_price")
    if market.count_awake_ms(position.marked_at, at) > MAX_UNPRICED_MS:
        last = Snapshot(position.marked_on, position.mint, at, position.price)
        write_off_position(trader, position, last, market, "price_gone")


def write_off_position(
    trader: Trader,
    position: Position,
    snapshot: Snapshot,
    market: Market,
    reason: str = "liquidity_gone",
) -> None:
    """Write a position off at once, before any other rule; an open order is cancelled."""
    order = trader.account.order_for(position.mint)
    if order:
        end_order(trader, order, "cancelled", snapshot.at)
    order = trader.account.place(
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
        transfer_bps=market.tokens[position.mint].transfer_fee_bps,
    )
    if reason == "price_gone":
        done = close_at_nothing(order, snapshot, position.price, market.costs)
    else:
        done = write_off(order, snapshot, position.price, market.recall(snapshot), market.costs)
    order = book_fill(trader, order, done, snapshot, market)
    end_order(trader, order, "filled", snapshot.at)
