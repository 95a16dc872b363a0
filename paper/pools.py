"""Pools as the fill model sees them, and what simulated trades have done to each. Pure.

A pool remembers: what simulated traders put in less what they took out (its flow) stays from
snapshot to snapshot, moves the price along the pool's own curve, and fades as observed volume
passes through. Lamports and raw units, all integers. The token side is rounded up for a sale and
down for a purchase, so that neither gets more than the exact formula pays.
"""

from math import isqrt
from typing import NamedTuple

from paper.market import LAMPORTS, SCALE, Snapshot
from paper.venues import Venue, find_venue

# Launch curves follow from the price alone: virtual lamports times virtual raw units,
CURVE = 30 * LAMPORTS * 1_073_000_000 * 10**6
# ... beginning with this many lamports, which nobody can take out,
CURVE_VIRTUAL_SOL = 30 * LAMPORTS
# ... and this many raw units, which nobody can buy.
CURVE_KEPT_RAW = 279_900_000 * 10**6
CURVE_DECIMALS = 6
MINUTE_MS = 60_000
# A minute counts as passed from its 31st second on, where no poll of a usual interval falls: some
# milliseconds more or less between two polls change no fill.
EARLY_MS = 29_000
FIVE_MINUTES_MS, HOUR_MS, DAY_MS = 300_000, 3_600_000, 86_400_000


class Memory(NamedTuple):
    """What simulated trades have done to a pool, up to the last of them."""

    # Net lamports that were put in; negative where more was taken out.
    flow: int = 0
    # The snapshot of the last trade, None before the first.
    last: Snapshot | None = None
    # How many there were.
    turns: int = 0
    # Id of the last snapshot of unknown liquidity on which somebody traded.
    blind: int | None = None


NEVER_TRADED = Memory()


class Pool(NamedTuple):
    """Both sides of a pool as they price the next trade."""

    sol: int
    tokens: int
    # The most it can pay out, in lamports,
    payable: int
    # ... and give, in raw units.
    buyable: int
    # Whether its kind is one that these sides price to the basis point.
    fits: bool = True


def pool_key(snapshot: Snapshot) -> str:
    """Return what tells pools apart: the pair, or the mint where the provider tells none."""
    return snapshot.pair or snapshot.mint


def find_pool(snapshot: Snapshot, decimals: int, side: str = "buy") -> Pool | None:
    """Return the pool of a snapshot with a price as a purchase or a sale sees it; None if its
    reserves are unknown.
    """
    if snapshot.pool:
        return Pool(*snapshot.pool.after)
    venue = find_venue(snapshot.venue)
    if venue.kind == "curve":
        return _find_curve(snapshot, decimals, side)
    if snapshot.reserve is None:
        return None
    sol = snapshot.reserve + (find_virtual(snapshot) if venue.has_virtual else 0)
    tokens = _divide(sol * 10**decimals * SCALE, snapshot.known_price * LAMPORTS, side)
    return Pool(sol, tokens, snapshot.reserve, tokens, venue.kind == "product")


def find_virtual(snapshot: Snapshot) -> int:
    """Return the lamports by which a pool is priced as if its vault held more: what its tokens are
    worth beyond the vault, at most as much again.
    """
    if snapshot.liquidity is None or not snapshot.sol_cents or snapshot.reserve is None:
        return 0
    both_sides = snapshot.liquidity * LAMPORTS // snapshot.sol_cents
    return max(0, min(snapshot.reserve, both_sides - 2 * snapshot.reserve))


def _divide(above: int, below: int, side: str) -> int:
    return -(-above // below) if side == "sell" else above // below


def _find_curve(snapshot: Snapshot, decimals: int, side: str) -> Pool | None:
    """Return a launch curve at its price; None where the price lies on no such curve."""
    if decimals != CURVE_DECIMALS or not snapshot.price:
        return None
    tokens = isqrt(CURVE * 10**CURVE_DECIMALS * SCALE // (snapshot.price * LAMPORTS))
    tokens += side == "sell"
    # A price cut to a few digits may lie just outside either end.
    if not CURVE_KEPT_RAW * 99 // 100 <= tokens <= CURVE // CURVE_VIRTUAL_SOL * 101 // 100:
        return None
    sol = CURVE // tokens
    return Pool(sol, tokens, max(0, sol - CURVE_VIRTUAL_SOL), max(0, tokens - CURVE_KEPT_RAW))


def shift(pool: Pool, flow: int, side: str = "sell") -> Pool:
    """Return a pool after a net flow of lamports, along its own curve, as a side sees it."""
    sol = pool.sol + flow
    if sol <= 0:
        return pool._replace(sol=0, tokens=0, payable=0, buyable=0)
    tokens = _divide(pool.sol * pool.tokens, sol, side)
    moved = tokens - pool.tokens
    return pool._replace(
        sol=sol,
        tokens=tokens,
        payable=max(0, pool.payable + flow),
        buyable=max(0, pool.buyable + moved),
    )


def carry(memory: Memory, snapshot: Snapshot, decimals: int) -> int:
    """Return the flow that is left of a pool's memory at a snapshot.

    It fades with the share of the pool that observed volume turned over, and where the pool was
    drained since, what was in it by simulation went with the rest.
    """
    last = memory.last
    if last is None or last.id == snapshot.id or not memory.flow:
        return memory.flow
    flow = _drain(memory.flow, last, snapshot, decimals)
    turned = turnover(last, snapshot)
    if turned is None:
        return flow
    whole, volume = turned
    left = abs(flow) * whole // (whole + volume)
    return left if flow > 0 else -left


def _drain(flow: int, last: Snapshot, snapshot: Snapshot, decimals: int) -> int:
    before, now = find_pool(last, decimals), find_pool(snapshot, decimals)
    if before is None or now is None or now.sol >= before.sol or not before.sol:
        return flow
    left = abs(flow) * now.sol // before.sol
    return left if flow > 0 else -left


class Turnover(NamedTuple):
    """A pool's side in SOL and the volume that passed, both in USD cents."""

    pool: int
    volume: int


def turnover(last: Snapshot, snapshot: Snapshot) -> Turnover | None:
    """Return what passed through a pool between two snapshots; None where it is unknown.

    The shortest window that covers the time between is told by the provider: five minutes, an hour
    or a day.
    """
    side = find_side_cents(snapshot)
    if not side:
        return None
    passed = max(0, snapshot.at - last.at + EARLY_MS) // MINUTE_MS * MINUTE_MS
    windows = (
        (snapshot.volume5m, FIVE_MINUTES_MS),
        (snapshot.volume1h, HOUR_MS),
        (snapshot.volume, DAY_MS),
    )
    known = [(volume, length) for volume, length in windows if volume is not None]
    if not known:
        return None
    volume, length = next((one for one in known if passed <= one[1]), known[-1])
    return Turnover(side, volume * passed // length)


def find_side_cents(snapshot: Snapshot) -> int | None:
    """Return what the SOL side of a pool is worth, in USD cents; None where that is unknown."""
    if snapshot.liquidity is not None:
        return snapshot.liquidity // 2
    if find_venue(snapshot.venue).kind == "curve" and snapshot.sol_cents is not None:
        curve = _find_curve(snapshot, CURVE_DECIMALS, "buy")
        return curve and curve.sol * snapshot.sol_cents // LAMPORTS
    return None


def venue_of(snapshot: Snapshot) -> Venue:
    """Return the venue a snapshot was taken at."""
    return find_venue(snapshot.venue)
