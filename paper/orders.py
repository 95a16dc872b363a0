"""Open orders: filled when they are due, refused, or expired. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chain.amounts import exact, sol
from paper.account import Position
from paper.adaptive import record_close
from paper.faults import Faults
from paper.fills import MAX_ATTEMPTS, Fill, Order, PoolUsage, fill, is_gone
from paper.market import CheckedSnapshot, Snapshot, percent
from paper.trader import JournalFill, Trader

NO_FEES = "no_cash_for_fees"


class DueOrder(NamedTuple):
    """An open order that can be filled from this snapshot."""

    trader: Trader
    order: Order


def expire_orders(trader: Trader, at: int) -> None:
    """End the orders that have expired."""
    for order in list(trader.account.orders.values()):
        if at > order.expires_at:
            end_order(trader, order, "part_filled" if order.done else "expired", at)


def end_order(trader: Trader, order: Order, state: str, at: int) -> None:
    """End an order; where nothing of it was filled, the diary says so."""
    trader.journal.orders[order.number] = trader.account.settle(order, state)
    if not order.done:
        trader.add_line(
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
    """End all open orders: after a restart they count as not filled."""
    for order in list(trader.account.orders.values()):
        end_order(trader, order, state, at)


def settle_orders(
    traders: Sequence[Trader],
    seen: Mapping[str, CheckedSnapshot],
    usage: Mapping[str, PoolUsage],
    at: int,
    faults: Faults,
) -> None:
    """Fill the orders that are due. The oldest decision takes from the pool first."""
    due = [
        DueOrder(trader, order)
        for trader in traders
        for order in trader.account.orders.values()
        if order.mint in seen and order.due_at <= at and order.mint not in trader.put_off
    ]
    for trader, order in sorted(
        due, key=lambda one: (one.order.decided_at, one.trader.id, one.order.number)
    ):
        if faults.has(trader.id):
            continue
        with faults.isolate(trader.id):
            faults.mint = order.mint
            settle_due(trader, order, *seen[order.mint], usage[order.mint], at)


def settle_due(
    trader: Trader, order: Order, snapshot: Snapshot, flaw: str | None, usage: PoolUsage, at: int
) -> None:
    """Fill or refuse a due order on a snapshot of its token; without a price it waits."""
    if flaw == "missing_price":
        return
    refusal = find_refusal(trader, order, snapshot, flaw)
    if refusal:
        refuse_fill(trader, order, refusal, at)
    else:
        settle(trader, order, snapshot, usage)


def refuse_fill(trader: Trader, order: Order, reason: str, at: int) -> None:
    """End an order without this fill; the diary says why."""
    trader.add_line(
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
    """Return why a due order may not fill on this snapshot, or None."""
    if order.side == "sell" and order.mint not in trader.account.positions:
        trader.open_review(
            "double_exit",
            order.number,
            "a sale was due for a position that was closed",
            snapshot.at,
            order.symbol,
        )
        return "double_exit"
    return "liquidity_gone" if order.side == "buy" and is_gone(snapshot, None) else flaw


def settle(trader: Trader, order: Order, snapshot: Snapshot, usage: PoolUsage) -> None:
    """Make one attempt to fill an order; where the pool has nothing left for it, it waits."""
    position = trader.account.positions.get(order.mint)
    done = fill(
        order, snapshot, usage, first=position is None, last_raw=position.raw if position else None
    )
    if done is None:
        return
    if trader.account.cash + done.cash < 0:
        refuse_fill(trader, order, NO_FEES, snapshot.at)
        return
    usage.add(done)
    order = book_fill(trader, order, done, snapshot)
    if order.remaining <= 0:
        end_order(trader, order, "filled", snapshot.at)
    elif order.attempts >= MAX_ATTEMPTS:
        end_order(trader, order, "part_filled" if order.done else "failed", snapshot.at)


def book_fill(trader: Trader, order: Order, done: Fill, snapshot: Snapshot) -> Order:
    """Book a fill, note it in the journal, and return the order after it."""
    order, position = trader.account.apply(order, done, snapshot)
    trader.journal.fills.append(JournalFill(done, position.number if position else None))
    trader.journal.orders[order.number] = order
    if position is not None:
        trader.journal.positions[position.number] = position
    trader.add_line(
        "fill", done.at, done.mint, order.number, **describe_fill(order, done, position)
    )
    if position is not None and position.closed_at is not None:
        record_close(trader, position)
    return order


def describe_fill(order: Order, done: Fill, position: Position | None) -> dict[str, Any]:
    """Return the facts of a fill for the diary, as display texts."""
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
