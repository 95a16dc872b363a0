"""Compare the fill model with real swaps, and measure what they paid the network. Pure.

The model's error is how much less a swap got than the model's result for the reserves in the swap's
own transaction (chain.reading.pools), in basis points of that result. It is negative if the swap
got more. Drift is the error against the preceding market snapshot, so it includes price moves in
between. It shows how old snapshots are and doesn't disqualify a venue.
"""

from collections.abc import Sequence
from typing import NamedTuple

from chain.reading.pools import PoolReading
from paper.fills import NEVER_TRADED, ONE, NetworkCosts, Terms, find_venue, quote, quote_pool
from paper.market import Snapshot, price_of

# The provider's id of a venue, by the venue's name in our table of programs.
VENUE_IDS = {
    "pump.fun": "pumpfun",
    "PumpSwap": "pumpswap",
    "Raydium v4": "raydium",
    "Raydium CPMM": "raydium/cpmm",
}
# A venue counts if it has this many receipts, and nine in ten have at most this error.
MIN_RECEIPTS = 10
MAX_ERROR_BPS = 300
# An older snapshot doesn't tell anything about a swap.
MAX_AGE_MS = 90_000
# Larger errors are reduced to this.
WORST_BPS = 1_000_000
MIN_PAID = 30


class RealSwap(NamedTuple):
    """A purchase or sale on the chain. `raw` and `lamports` passed through the venue."""

    uid: str
    at: int
    venue: str
    side: str
    mint: str
    decimals: int
    transfer_bps: int
    raw: int
    lamports: int


class Measured(NamedTuple):
    """A swap's difference from the model in basis points, by its own reserves and by the preceding
    snapshot. Unknown values are None.
    """

    bps: int | None
    drift_bps: int | None


class CostsFrom(NamedTuple):
    """The network costs from a time (ms) on, computed from this many of the instance's swaps."""

    at: int
    costs: NetworkCosts
    receipts: int


class VenueError(NamedTuple):
    """The model's error at a venue. `source`: own | recorded. `since`: UTC ms of the first
    receipt.
    """

    venue: str
    receipts: int
    median_bps: int | None
    p90_bps: int | None
    source: str
    since: int | None = None
    # Maximum time between a snapshot and a swap that is measured with it.
    drift_p90_bps: int | None = None

    @property
    def is_eligible(self) -> bool:
        known = self.p90_bps is not None and self.p90_bps <= MAX_ERROR_BPS
        return known and self.receipts >= MIN_RECEIPTS


# Measured on 2026-11-22 on the 102 recorded receipts, from the reserves in each receipt: 12 trades
# on Pump's curve, and 15 swaps in Raydium v4 pools.
RECORDED_RECEIPTS = 102
RECORDED = (
    VenueError("pumpfun", 12, 0, 0, "recorded"),
    VenueError("raydium", 15, 8, 11, "recorded"),
)


def measure(swap: RealSwap, pool: PoolReading | str, snapshot: Snapshot | None) -> Measured:
    """Measure the model's error for a swap.

    `pool` is from the swap's own transaction, or the reason why it can't be read. `snapshot` is the
    last one before the swap.
    """
    amount, real = (swap.lamports, swap.raw) if swap.side == "buy" else (swap.raw, swap.lamports)
    seen = quote_snapshot(swap, amount, snapshot) if snapshot else 0
    drift = find_error(seen, real)
    # Record the worst error if the formula no longer fits. Otherwise a venue that changed its rules
    # would keep its old, smaller errors.
    if pool == "not_reproduced":
        return Measured(WORST_BPS, drift)
    if isinstance(pool, str) or not _is_alone(swap, pool):
        return Measured(None, drift)
    is_same = snapshot is not None and snapshot.venue == swap.venue
    predicted = predict(swap, amount, pool, snapshot.market_cap if snapshot and is_same else None)
    return Measured(find_error(predicted, real), drift)


def _is_alone(swap: RealSwap, pool: PoolReading) -> bool:
    change = pool.before.raw - pool.after.raw
    return VENUE_IDS.get(pool.venue) == swap.venue and change == (
        swap.raw if swap.side == "buy" else -swap.raw
    )


def predict(swap: RealSwap, amount: int, pool: PoolReading, market_cap: int | None) -> int:
    """Return the model's result for lamports or raw units, from the reserves before the swap, at
    the pool's fee.

    Returns 0 if the fee depends on a market cap (lamports) that is unknown.
    """
    if market_cap is None and len(find_venue(swap.venue).steps) > 1:
        return 0
    price = price_of(pool.before.sol, max(1, pool.before.raw), swap.decimals)
    at = Snapshot(0, swap.mint, swap.at, price, venue=swap.venue, market_cap=market_cap)
    terms = Terms(swap.decimals, swap.transfer_bps)
    found = quote_pool(swap.side, amount, at, terms, pool.before)
    return found.brings(swap.side) if found else 0


def quote_snapshot(swap: RealSwap, amount: int, snapshot: Snapshot) -> int:
    """Return the model's result on a snapshot. Returns 0 if the venues differ or the snapshot can't
    fill the swap.
    """
    if snapshot.venue != swap.venue or not snapshot.price or amount <= 0:
        return 0
    terms = Terms(swap.decimals, swap.transfer_bps)
    found = quote(swap.side, amount, snapshot, terms, NEVER_TRADED, 0)
    return found.brings(swap.side) if found else 0


def find_error(predicted: int, real: int) -> int | None:
    """Return how much less than predicted a swap got, in basis points, or None if there is no
    prediction.
    """
    if predicted <= 0:
        return None
    missed = predicted - real
    bps = min(WORST_BPS, abs(missed) * ONE // predicted)
    return bps if missed > 0 else -bps


def find_quantile(sorted_values: Sequence[int], percent: int) -> int:
    """Return the smallest value that `percent` of the values don't exceed (nearest rank)."""
    return sorted_values[find_place(len(sorted_values), percent)]


def find_place(count: int, percent: int) -> int:
    return max(0, -(-count * percent // 100) - 1)


def describe_error(venue: str, found: Sequence[Measured], since: int) -> VenueError:
    errors = sorted(abs(one.bps) for one in found if one.bps is not None)
    drifts = sorted(abs(one.drift_bps) for one in found if one.drift_bps is not None)
    median, p90 = (find_quantile(errors, percent) if errors else None for percent in (50, 90))
    drift = find_quantile(drifts, 90) if drifts else None
    return VenueError(venue, len(errors), median, p90, "own", since, drift)


def choose(own: Sequence[VenueError]) -> list[VenueError]:
    """Return the error that counts for each venue. It is the instance's own error if that has
    MIN_RECEIPTS.
    """
    enough = {one.venue: one for one in own if one.receipts >= MIN_RECEIPTS}
    recorded = {one.venue: one for one in RECORDED}
    fewer = {one.venue: one for one in own}
    known = {**fewer, **recorded, **enough}
    drifts = {one.venue: one.drift_p90_bps for one in own}
    return [known[venue]._replace(drift_p90_bps=drifts.get(venue)) for venue in sorted(known)]


def list_eligible(errors: Sequence[VenueError]) -> frozenset[str]:
    return frozenset(one.venue for one in errors if one.is_eligible)
