"""Open orders: filled when they are due, refused, or expired. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chain.amounts import exact, sol
from paper.account import Position
from paper.adaptive import record_close
from paper.faults import Faults
from paper.fills import (
    MAX_ATTEMPTS,
    SLIPPED,
    Fill,
    Order,
    Terms,
    fill,
    is_gone,
    liquidate,
)
from paper.market import SKEW_MS, CheckedSnapshot, Snapshot, percent
from paper.recent import Market
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


def drop_orders(trader: Trader, at: int, *, all_of_them: bool = True) -> None:
    """End all open orders after a restart: they count as not filled. Not all of them: those that
    were decided on a clock ahead of this one, and would be due when it gets there.
    """
    for order in list(trader.account.orders.values()):
        if all_of_them:
            end_order(trader, order, "restart", at)
        elif order.decided_at > at + SKEW_MS:
            end_order(trader, order, "cancelled", at)


def settle_orders(
    traders: Sequence[Trader],
    seen: Mapping[str, CheckedSnapshot],
    market: Market,
    at: int,
    faults: Faults,
) -> None:
    """Fill the orders that are due. The oldest decision takes from the pool first.

    A token that only observed transactions price has no next quote: its orders fill on the last
    reserves.
    """
    seen = {**seen, **market.list_observed(at)}
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
            settle_due(trader, order, *seen[order.mint], market, at)


# Of snapshots on which an order waits: the next one tells more.
WAITING = ("missing_price", "price_fall")


def settle_due(
    trader: Trader, order: Order, snapshot: Snapshot, flaw: str | None, market: Market, at: int
) -> None:
    """Fill or refuse a due order on a snapshot of its token.

    It waits for a price, for the confirmation of a fall, and for a quote first served after it was
    due.
    """
    is_same = not snapshot.pool and not flaw and market.quoted_at[order.mint] < order.due_at
    if flaw in WAITING or is_same:
        return
    refusal = find_refusal(trader, order, snapshot, flaw)
    if refusal:
        refuse_fill(trader, order, refusal, at)
    else:
        settle(trader, order, snapshot, market)


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


def settle(trader: Trader, order: Order, snapshot: Snapshot, market: Market) -> None:
    """Make one attempt to fill an order; where the pool has nothing left for it, it waits. One that
    slipped beyond its limit ends: the strategy decides again.
    """
    position = trader.account.positions.get(order.mint)
    done = fill(
        order,
        snapshot,
        market.recall(snapshot),
        first=position is None,
        last_raw=position.raw if position else None,
        costs=market.costs,
    )
    if done is None:
        return
    if trader.account.cash + done.cash < 0:
        refuse_fill(trader, order, NO_FEES, snapshot.at)
        return
    order = book_fill(trader, order, done, snapshot, market)
    if SLIPPED in done.marks:
        end_order(trader, order, "failed", snapshot.at)
    elif order.remaining <= 0:
        end_order(trader, order, "filled", snapshot.at)
    elif order.attempts >= MAX_ATTEMPTS:
        end_order(trader, order, "part_filled" if order.done else "failed", snapshot.at)


def book_fill(
    trader: Trader, order: Order, done: Fill, snapshot: Snapshot, market: Market
) -> Order:
    """Book a fill, let its pool remember it, note it in the journal, and return the order after
    it.
    """
    order, position = trader.account.apply(order, done, snapshot)
    market.remember(done, snapshot)
    if position is not None and position.closed_at is None and market.is_unproven(snapshot):
        position = trader.account.doubt(position.mint)
    if position is not None and position.closed_at is None:
        terms = Terms(position.decimals, market.tokens[position.mint].transfer_fee_bps)
        worth = liquidate(position.raw, snapshot, terms, market.recall(snapshot))
        position = trader.account.revalue(position.mint, worth)
    trader.journal.fills.append(JournalFill(done, position.number if position else None))
    trader.journal.orders[order.number] = order
    if position is not None:
        trader.journal.positions[position.number] = position
    facts = describe_fill(order, done, position)
    if facts["what"] == "bought" and order.detail:
        facts |= describe_plan(trader, order, done)
    trader.add_line("fill", done.at, done.mint, order.number, **facts)
    if position is not None and position.closed_at is not None:
        record_close(trader, position)
    return order


def describe_plan(trader: Trader, order: Order, done: Fill) -> dict[str, str]:
    """Return why a purchase was made, how far below it the stop is, and what share of the account
    it took.
    """
    return {
        "detail": order.detail,
        "stopPct": exact(trader.strategy.stop_bps, 2),
        "sharePct": exact(done.gross * 1_000 // max(1, trader.account.equity), 1),
    }


def describe_fill(order: Order, done: Fill, position: Position | None) -> dict[str, Any]:
    """Return the facts of a fill for the diary, as display texts."""
    facts: dict[str, Any] = {
        "side": done.side,
        "symbol": order.symbol,
        "feesSol": sol(done.fees),
        "reason": done.reason,
    }
    if done.failed or position is None:
        return {"what": "slipped" if SLIPPED in done.marks else "failed", **facts}
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
