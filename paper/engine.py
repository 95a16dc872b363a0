"""One round of paper mode: play the snapshots of one moment through the traders. Pure: no clock, no
disk, no chance.

Due orders are filled, positions marked or written off, then positions are left and entered. What a
round brings about is collected in each trader's journal, in order; the caller stores it. The same
snapshots in the same order give the same journal, byte for byte.
"""

from collections import defaultdict
from collections.abc import Sequence

from paper.adaptive import check_drawdown
from paper.decisions import enter, leave
from paper.faults import Faults
from paper.fills import Usage
from paper.market import SKEW_MS, Judged, Market, Snapshot
from paper.orders import expire_orders, settle_orders
from paper.positions import watch
from paper.trader import Trader


def play(
    market: Market,
    traders: Sequence[Trader],
    snapshots: Sequence[Snapshot],
    now: int,
    faults: Faults | None = None,
) -> None:
    """Play one round: snapshots of one moment. `now` is when the engine sees them; only staleness
    and skew depend on it.

    faults: collects what goes wrong with one trader or token; without it such an exception ends
    the round.
    """
    faults = faults or Faults(raising=True)
    # A snapshot of the future moves nobody's time: what is held would look forgotten for as long.
    at = min(snapshots[0].at, now + SKEW_MS)
    seen = judge(market, snapshots, now, faults)
    # of each pool, by all traders together
    usage: defaultdict[str, Usage] = defaultdict(Usage)
    for trader in faults.spare(traders):
        with faults.of(trader.id):
            expire_orders(trader, at)
            if trader.book.positions or trader.book.orders:
                watch(trader, market, seen, usage, at, faults)
    settle_orders(faults.spare(traders), seen, usage, at, faults)
    for trader in faults.spare(traders):
        with faults.of(trader.id):
            leave(trader, market, seen, now, faults)
    enter(faults.spare(traders), market, seen, at, now, faults)
    for trader in faults.spare(traders):
        with faults.of(trader.id):
            check_drawdown(trader, at)


def judge(
    market: Market, snapshots: Sequence[Snapshot], now: int, faults: Faults
) -> dict[str, Judged]:
    """{mint: (snapshot, its flaw or None)} of the tokens that are followed. A snapshot that raises
    is left out.
    """
    seen: dict[str, Judged] = {}
    for one in snapshots:
        with faults.of():
            faults.mint = one.mint
            if one.mint in market.tokens:
                seen[one.mint] = market.push(one, now)
    return seen
