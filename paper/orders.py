"""Orders on their way: filled when they are due, refused or expired. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chain.amounts import exact, sol
from paper.adaptive import learn
from paper.book import Position
from paper.faults import Faults
from paper.fills import MAX_ATTEMPTS, Fill, Order, Usage, fill, is_gone
from paper.market import Judged, Snapshot, percent
from paper.trader import Trader

NO_FEES = "no_cash_for_fees"


class DueOrder(NamedTuple):
    trader: Trader
    order: Order


def expire_orders(trader: Trader, at: int) -> None:
    """End the orders whose time is over."""
    for order in list(trader.book.orders.values()):
        if at > order.expires_at:
            end_order(trader, order, "part_filled" if order.done else "expired", at)


def end_order(trader: Trader, order: Order, state: str, at: int) -> None:
    """The order is over; where nothing of it was filled, the diary says so."""
    trader.journal.orders[order.number] = trader.book.settle(order, state)
    if not order.done:
        trader.say(
            "fill",
            at,
            order.mint,
            order.number,
            what="not_filled",
            side=order.side,
            symbol=order.symbol,
            why=state,
        )


def drop_orders(trader: Trader, at: int, state: str = "restart") -> None:
    """End all orders; after a restart, what was on its way counts as not filled."""
    for order in list(trader.book.orders.values()):
        end_order(trader, order, state, at)


def settle_orders(
    traders: Sequence[Trader],
    seen: Mapping[str, Judged],
    usage: Mapping[str, Usage],
    at: int,
    faults: Faults,
) -> None:
    """Fill the orders that are due, oldest decision first: it takes from the pool first."""
    due = [
        DueOrder(trader, order)
        for trader in traders
        for order in trader.book.orders.values()
        if order.mint in seen and order.due_at <= at and order.mint not in trader.put_off
    ]
    for trader, order in sorted(
        due, key=lambda one: (one.order.decided_at, one.trader.id, one.order.number)
    ):
        if faults.has(trader.id):
            continue
        with faults.of(trader.id):
            faults.mint = order.mint
            settle_due(trader, order, *seen[order.mint], usage[order.mint], at)


def settle_due(
    trader: Trader, order: Order, snapshot: Snapshot, flaw: str | None, usage: Usage, at: int
) -> None:
    """One due order on a snapshot of its token: filled, refused, or waiting on where there is no
    price.
    """
    if flaw == "missing_price":
        return
    refusal = find_refusal(trader, order, snapshot, flaw)
    if refusal:
        refuse_fill(trader, order, refusal, at)
    else:
        settle(trader, order, snapshot, usage)


def refuse_fill(trader: Trader, order: Order, reason: str, at: int) -> None:
    """The order ends without this fill, and the diary says why."""
    trader.say(
        "refusal",
        at,
        order.mint,
        order.number,
        reason=reason,
        detail=f"the fill was refused: {reason.replace('_', ' ')}",
        symbol=order.symbol,
    )
    end_order(trader, order, "refused", at)


def find_refusal(trader: Trader, order: Order, snapshot: Snapshot, flaw: str | None) -> str | None:
    """Why a due order may not fill on this snapshot, or None."""
    if order.side == "sell" and order.mint not in trader.book.positions:
        trader.alarm(
            "double_exit",
            order.number,
            "a sale was due for a position that was closed",
            snapshot.at,
            order.symbol,
        )
        return "double_exit"
    return "liquidity_gone" if order.side == "buy" and is_gone(snapshot, None) else flaw


def settle(trader: Trader, order: Order, snapshot: Snapshot, usage: Usage) -> None:
    """Make one attempt to fill an order and book it; where the pool has no room the order waits."""
    position = trader.book.positions.get(order.mint)
    done = fill(
        order, snapshot, usage, first=position is None, last_raw=position.raw if position else None
    )
    if done is None:
        return
    if trader.book.cash + done.cash < 0:
        refuse_fill(trader, order, NO_FEES, snapshot.at)
        return
    usage.take(done)
    order = book_fill(trader, order, done, snapshot)
    if order.rest <= 0:
        end_order(trader, order, "filled", snapshot.at)
    elif order.attempts >= MAX_ATTEMPTS:
        end_order(trader, order, "part_filled" if order.done else "failed", snapshot.at)


def book_fill(trader: Trader, order: Order, done: Fill, snapshot: Snapshot) -> Order:
    """Book a fill and note it in the journal; the order as it stands then."""
    order, position = trader.book.apply(order, done, snapshot)
    trader.journal.fills.append((done, position.number if position else None))
    trader.journal.orders[order.number] = order
    if position is not None:
        trader.journal.positions[position.number] = position
    trader.say("fill", done.at, done.mint, order.number, **tell_fill(order, done, position))
    if position is not None and position.closed_at is not None:
        learn(trader, position)
    return order


def tell_fill(order: Order, done: Fill, position: Position | None) -> dict[str, Any]:
    """The facts of a fill, as display texts."""
    facts: dict[str, Any] = {
        "side": done.side,
        "symbol": order.symbol,
        "feesSol": sol(done.fees),
        "reason": done.reason,
    }
    if done.failed or position is None:
        return {"what": "failed", **facts}
    moved = done.gross if done.side == "buy" else done.mid - done.slippage - done.pool_fee
    facts |= {
        "amount": exact(done.raw, order.decimals),
        "sol": sol(moved),
        "slippageSol": sol(done.slippage),
        "marks": list(done.marks),
    }
    if position.closed_at is None:
        return {"what": "bought" if done.side == "buy" else "reduced", **facts}
    return {
        "what": "closed",
        **facts,
        "resultSol": sol(position.cash),
        "returnPct": percent(position.cash, position.spent),
        "heldMinutes": str((position.closed_at - position.opened_at) // 60_000),
    }
