"""What the fill model says against what real swaps got, and what they paid the network. Pure.

An error is what a swap got less than predicted, in basis points of that: negative where it got
more. Both prices move between a snapshot and the swap, so it is an upper bound of the model's own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paper.fills import NetworkCosts, Terms, quote
from paper.market import Snapshot
from paper.pools import NEVER_TRADED

# The provider's id of a venue, by the name our table of programs gives it.
VENUE_IDS = {
    "pump.fun": "pumpfun",
    "PumpSwap": "pumpswap",
    "Raydium v4": "raydium",
    "Raydium CPMM": "raydium/cpmm",
}
# A venue counts with at least this many receipts, nine in ten of which are this near.
MIN_RECEIPTS = 10
MAX_ERROR_BPS = 300
# A snapshot older than this tells nothing of a swap.
MAX_AGE_MS = 90_000
# An error beyond it is as bad as any.
WORST_BPS = 1_000_000
# Swaps that network costs are read from, at least.
MIN_PAID = 30
ONE = 10_000


class RealSwap(NamedTuple):
    """A purchase or sale on the chain. `raw` and `lamports` passed through the venue."""

    uid: str
    # UTC ms.
    at: int
    # Of VENUE_IDS.
    venue: str
    side: str
    mint: str
    decimals: int
    transfer_bps: int
    raw: int
    lamports: int


class Measured(NamedTuple):
    """A swap beside what the model said of it: raw units of a purchase, lamports of a sale."""

    predicted: int
    real: int
    bps: int


class CostsFrom(NamedTuple):
    """What the network took from a time on (ms), worked out from so many swaps of this instance."""

    at: int
    costs: NetworkCosts
    receipts: int


class VenueError(NamedTuple):
    """How far off the model is at a venue: `source` own | recorded; since: UTC ms of the first."""

    venue: str
    receipts: int
    median_bps: int
    p90_bps: int
    source: str
    since: int | None = None

    @property
    def is_eligible(self) -> bool:
        """Whether closes at this venue may be compared."""
        return self.receipts >= MIN_RECEIPTS and self.p90_bps <= MAX_ERROR_BPS


# Measured on the 102 recorded receipts on 2026-11-22, from the reserves in the receipt itself: 12
# trades on Pump's curve, 15 swaps in pools of Raydium v4.
RECORDED_RECEIPTS = 102
RECORDED = (
    VenueError("pumpfun", 12, 0, 0, "recorded"),
    VenueError("raydium", 15, 8, 11, "recorded"),
)


def measure(swap: RealSwap, snapshot: Snapshot) -> Measured | None:
    """Return what the model says of a swap on the snapshot before it; None where it says nothing:
    another venue, no pool, or more than the pool would have taken.
    """
    amount = swap.lamports if swap.side == "buy" else swap.raw
    if snapshot.venue != swap.venue or not snapshot.price or amount <= 0:
        return None
    terms = Terms(swap.decimals, swap.transfer_bps)
    found = quote(swap.side, amount, snapshot, terms, NEVER_TRADED, 0)
    predicted = found.brings(swap.side) if found else 0
    if predicted <= 0:
        return None
    real = swap.raw if swap.side == "buy" else swap.lamports
    bps = (predicted - real) * ONE // predicted
    return Measured(predicted, real, max(-WORST_BPS, min(WORST_BPS, bps)))


def find_quantile(sorted_values: Sequence[int], percent: int) -> int:
    """Return the smallest value that `percent` of them do not exceed (nearest rank)."""
    return sorted_values[find_place(len(sorted_values), percent)]


def find_place(count: int, percent: int) -> int:
    """Return the place of this quantile, from 0, among `count` sorted values."""
    return max(0, -(-count * percent // 100) - 1)


def describe_error(venue: str, errors: Sequence[int], since: int) -> VenueError:
    """Return how far off the model was at a venue. errors: signed bps, at least one."""
    sizes = sorted(abs(error) for error in errors)
    return VenueError(
        venue, len(sizes), find_quantile(sizes, 50), find_quantile(sizes, 90), "own", since
    )


def choose(own: Sequence[VenueError]) -> list[VenueError]:
    """Return what counts for each venue: its own receipts from MIN_RECEIPTS on, before that what
    was recorded.
    """
    enough = {one.venue: one for one in own if one.receipts >= MIN_RECEIPTS}
    recorded = {one.venue: one for one in RECORDED}
    fewer = {one.venue: one for one in own}
    known = {**fewer, **recorded, **enough}
    return [known[venue] for venue in sorted(known)]


def list_eligible(errors: Sequence[VenueError]) -> frozenset[str]:
    """Return the venues whose closes may be compared."""
    return frozenset(one.venue for one in errors if one.is_eligible)
