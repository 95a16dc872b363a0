"""Play one round of paper mode: the snapshots of one moment through all traders. Pure.

Orders expire, positions are marked or written off, due orders are filled, then positions are left
and entered. What a round brings about is collected in each trader's journal, in order; the caller
stores it. The same snapshots in the same order give the same journal, byte for byte.
"""

from collections.abc import Sequence

from paper.adaptive import check_drawdown
from paper.decisions import enter, leave
from paper.faults import Faults
from paper.market import SKEW_MS, CheckedSnapshot, Snapshot
from paper.orders import expire_orders, settle_orders
from paper.positions import update_positions
from paper.recent import Market
from paper.trader import Trader
from paper.twins import play_twins


def play(
    market: Market,
    traders: Sequence[Trader],
    snapshots: Sequence[Snapshot],
    now: int,
    faults: Faults | None = None,
) -> None:
    """Play one round. `snapshots` are of one moment; `now` is when the engine sees them, and
    decides only whether they are stale or ahead of the clock.

    faults: collects what goes wrong with one trader or token; without it such an exception ends
    the round.
    """
    faults = faults or Faults(raising=True)
    # A snapshot from the future does not move the time, or positions would look unpriced until
    # then.
    at = min(snapshots[0].at, now + SKEW_MS)
    seen = check_snapshots(market, snapshots, now, faults)
    for trader in faults.skip_faulty(traders):
        with faults.isolate(trader.id):
            expire_orders(trader, at)
            if trader.account.positions or trader.account.orders:
                update_positions(trader, market, seen, at, faults)
    settle_orders(faults.skip_faulty(traders), seen, market, at, faults)
    for trader in faults.skip_faulty(traders):
        with faults.isolate(trader.id):
            leave(trader, market, seen, now, faults)
    enter(faults.skip_faulty(traders), market, seen, at, now, faults)
    # A copy without delay is filled right behind the transaction.
    settle_orders(faults.skip_faulty(traders), {}, market, at, faults)
    for trader in faults.skip_faulty(traders):
        with faults.isolate(trader.id):
            check_drawdown(trader, at)
            play_twins(trader, market, seen, at, now, faults)


def check_snapshots(
    market: Market, snapshots: Sequence[Snapshot], now: int, faults: Faults
) -> dict[str, CheckedSnapshot]:
    """Push the snapshots into the market; return those of its tokens by mint. A snapshot that
    raises is left out.
    """
    seen: dict[str, CheckedSnapshot] = {}
    for one in snapshots:
        with faults.isolate():
            faults.mint = one.mint
            if one.mint in market.tokens:
                seen[one.mint] = market.push(one, now)
    market.note_sol(one.snapshot for one in seen.values())
    return seen
