"""Decide for traders which positions to leave and which tokens to enter. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chain.amounts import exact, sol
from paper import guard
from paper.account import Position
from paper.faults import Faults
from paper.fills import (
    MAX_ATTEMPTS,
    MAX_NETWORK_FEE,
    ONE,
    RENT,
    WAIT_INTERVALS,
    Order,
    Terms,
    quote,
)
from paper.market import CheckedSnapshot, Snapshot, Token, View
from paper.orders import NO_FEES, end_order
from paper.pools import carry, find_pool
from paper.recent import Market
from paper.strategies import STOPS, Copy, Decision, Enter, Exit, Refusal, Strategy, decide
from paper.trader import Trader, refuse

# Lamports that no entry may use, since leaving costs fees, too.
RESERVED_CASH = 20_000_000
# Lamports that a new position costs at worst, beside its price.
ENTRY_COSTS = RENT + MAX_ATTEMPTS * MAX_NETWORK_FEE
# In lamports.
MIN_ENTRY = 10_000_000
# Of the pool's SOL side, the most that an entry takes.
MAX_POOL_SHARE_BPS = 200


def leave(
    trader: Trader, market: Market, seen: Mapping[str, CheckedSnapshot], now: int, faults: Faults
) -> None:
    """Place the sales that the strategy wants for the open positions."""
    for position in trader.held:
        faults.mint = position.mint
        snapshot, flaw = seen.get(position.mint, (None, "unseen"))
        if snapshot is None or flaw is not None:
            continue
        leave_position(trader, market, position, snapshot, now)


def leave_position(
    trader: Trader, market: Market, position: Position, snapshot: Snapshot, now: int
) -> None:
    """Place the sale that the strategy wants for one position; it replaces an open buy, and a stop
    a sale that has a limit.
    """
    found = decide(market.view(position.mint), position, trader.strategy, now)
    order = trader.account.order_for(position.mint)
    if not isinstance(found, Exit) or (order and not gives_way(order, found)):
        return
    if trader.account.cash < market.costs.p50:
        refuse(
            trader,
            market.tokens[position.mint],
            Refusal(NO_FEES, "not enough cash for one network fee: it cannot be sold"),
            snapshot.at,
        )
        return
    if order:
        end_order(trader, order, "cancelled", snapshot.at)
    amount = position.raw * found.share // ONE or position.raw
    place(
        trader,
        market,
        snapshot,
        "sell",
        amount,
        found.reason,
        found.reason.replace("_", " "),
        exact(amount, position.decimals),
    )


def gives_way(order: Order, found: Exit) -> bool:
    """Tell whether an open order is replaced by the sale that a strategy wants."""
    return order.side == "buy" or (found.reason in STOPS and order.reason not in STOPS)


def place(
    trader: Trader,
    market: Market,
    snapshot: Snapshot,
    side: str,
    amount: int,
    reason: str,
    detail: str,
    shown: str,
) -> None:
    """Place an order and note the decision. `shown`: the amount as display text."""
    token, latency = market.tokens[snapshot.mint], trader.strategy.latency_ms
    limit_bps = ONE if reason in STOPS else trader.strategy.slippage_limit_bps
    least = find_least(market, snapshot, side, amount, limit_bps)
    order = trader.account.place(
        handle=trader.handle,
        mint=token.mint,
        symbol=token.symbol,
        decimals=token.decimals,
        side=side,
        amount=amount,
        reason=reason,
        decided_on=snapshot.id,
        decided_at=snapshot.at,
        due_at=snapshot.at + latency,
        expires_at=snapshot.at + latency + WAIT_INTERVALS * market.interval_ms,
        least=least,
        transfer_bps=token.transfer_fee_bps,
        detail=detail if side == "buy" else "",
    )
    trader.journal.orders[order.number] = order
    trader.add_line(
        "decision",
        snapshot.at,
        token.mint,
        order.number,
        what=side,
        symbol=token.symbol,
        reason=reason,
        detail=detail,
        **({"sol": shown} if side == "buy" else {"amount": shown}),
    )


def find_least(market: Market, snapshot: Snapshot, side: str, amount: int, limit_bps: int) -> int:
    """Return the least that an order of `amount` may bring: what its pool would give now, less the
    limit. Where the pool would take only a part now, that part's rate counts.
    """
    token, memory = market.tokens[snapshot.mint], market.recall(snapshot)
    assert token.decimals is not None
    terms = Terms(token.decimals, token.transfer_fee_bps)
    flow = carry(memory, snapshot, token.decimals)
    found = quote(side, amount, snapshot, terms, memory._replace(blind=None), flow)
    if found is None:
        return 0
    taken = found.raw if side == "sell" else found.mid + found.slippage + found.pool_fee
    return found.brings(side) * amount * (ONE - limit_bps) // (max(1, taken) * ONE)


def enter(
    traders: Sequence[Trader],
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    at: int,
    now: int,
    faults: Faults,
) -> None:
    """Evaluate each distinct strategy once, then place the entries that each trader may make.

    Traders go through the tokens each in an order of its own, so that they compete for pools
    fairly.
    """
    views = [market.view(mint) for mint, (_, flaw) in seen.items() if flaw is None]
    by_strategy: dict[Strategy, list[Signal]] = {}
    for trader in traders:
        with faults.isolate(trader.id):
            if trader.strategy not in by_strategy:
                trader.strategy.prepare(views)
                by_strategy[trader.strategy] = find_signals(views, trader.strategy, now)
            for view, found in sorted(
                by_strategy[trader.strategy],
                key=lambda signal: rank(trader, signal.view.token.mint),
            ):
                faults.mint = view.token.mint
                if faults.mint not in trader.put_off:
                    consider(trader, market, view, found, at)
            if isinstance(trader.strategy, Copy) and views:
                refuse_uncached(trader, trader.strategy, market, views[0].last, at)


def refuse_uncached(
    trader: Trader, strategy: Copy, market: Market, last: Snapshot, at: int
) -> None:
    """Note that the bot bought what the market cache doesn't have. `last`: of this round."""
    for mint, flows in market.flows.items():
        seen = [one for one in flows if one.first_snapshot <= last.id]
        if mint not in market.tokens and strategy.is_fresh(seen, at):
            missing = Refusal("not_cached", "the bot bought it, but no prices of it are collected")
            refuse(trader, Token(mint, mint[:6]), missing, at)


class Signal(NamedTuple):
    """What a strategy decides about a token, or the exception it raised."""

    view: View
    found: Decision | Exception


def find_signals(views: Iterable[View], strategy: Strategy, now: int) -> list[Signal]:
    """List what a strategy decides about tokens now (ms), where that is something; an exception it
    raises is raised again for each trader with this strategy.
    """
    signals, found = list[Signal](), None
    for view in views:
        try:
            found = decide(view, None, strategy, now)
        except Exception as error:
            # Not swallowed: each trader that follows it raises it, and its diary names it.
            signals.append(Signal(view, error))
            continue
        if found:
            signals.append(Signal(view, found))
    return signals


def rank(trader: Trader, mint: str) -> bytes:
    """Return a sort key of the token that differs from trader to trader and is the same in a
    replay.
    """
    return hashlib.sha256(f"{trader.handle}|{mint}".encode()).digest()


def consider(
    trader: Trader, market: Market, view: View, found: Decision | Exception, at: int
) -> None:
    """Place an order for a signal, or note in the diary why not."""
    mint = view.token.mint
    if isinstance(found, Exception):
        raise found
    if mint in trader.account.positions or trader.account.order_for(mint):
        return
    if isinstance(found, Enter):
        found = find_limit(trader, view.token, at) or found
    if isinstance(found, Refusal):
        refuse(trader, view.token, found, at)
    if not isinstance(found, Enter):
        return
    lamports = size_entry(trader, view, at)
    if lamports < MIN_ENTRY:
        refuse(trader, view.token, Refusal("no_cash", "not enough cash for an entry"), at)
        return
    place(trader, market, view.last, "buy", lamports, found.reason, found.detail, sol(lamports))


def find_limit(trader: Trader, token: Token, at: int) -> Refusal | None:
    """Return what keeps this trader from entering the token, whatever its strategy says."""
    account = trader.account
    base_ms = trader.strategy.cooldown_seconds * 1000
    cooldown = guard.cooldown_for(base_ms, trader.pauses, token.mint, at)
    if token.decimals is None:
        return Refusal("decimals_unknown", "its mint account has not been read yet")
    if guard.in_force(trader.pauses, "pause_family", token.mint, at) or guard.in_force(
        trader.pauses, "pause_mint", token.mint, at
    ):
        return Refusal("paused", "entries are paused for now")
    if any(close.mint == token.mint and close.closed_at > at - cooldown for close in trader.closes):
        return Refusal("cooldown", "a position in this token was closed only recently")
    if guard.lost_too_much(account.equity, trader.day_equity, trader.phase):
        return Refusal("daily_loss", "the daily loss stop of Guarded Start")
    waiting = sum(
        order.side == "buy" and order.mint not in account.positions
        for order in account.orders.values()
    )
    count = len(account.positions) + waiting
    if count >= guard.positions_for(trader.strategy.max_positions, trader.phase):
        told = "1 position is" if count == 1 else f"{count} positions are"
        return Refusal("position_limit", f"{told} open already")
    return None


def size_entry(trader: Trader, view: View, at: int) -> int:
    """Return the lamports for an entry: the allowed share of the equity, capped."""
    mint = view.token.mint
    share = guard.size_for(trader.strategy.size_bps, trader.phase, trader.pauses, mint, at)
    return cap_entry(trader, view, trader.account.equity * share // ONE)


def cap_entry(trader: Trader, view: View, wanted: int) -> int:
    """Return at most the lamports `wanted` for an entry: what the free cash and a share of the pool
    allow.
    """
    token = view.token
    pool = find_pool(view.last, token.decimals) if token.decimals is not None else None
    most = pool.sol * MAX_POOL_SHARE_BPS // ONE if pool else wanted
    return min(wanted, most, trader.account.free_cash - ENTRY_COSTS - RESERVED_CASH)
