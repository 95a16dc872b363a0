"""Compare the fill model with real swaps, and measure what they paid the network.

The model's error is how much less a swap got than the model's result for the reserves in its own
transaction (chain.reading.pools), in basis points of that result. It is negative if the swap got
more. Drift is the error against the preceding market snapshot. It includes price moves in between,
so it shows how old snapshots are and doesn't disqualify a venue.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import storage
from chain.reading.entries import Entry
from chain.reading.pools import PoolReading, unpack_pool
from chain.stored.attachments import UNREADABLE
from paper.fills import (
    MODEL,
    NEVER_TRADED,
    ONE,
    RECORDED_COSTS,
    VENUE_IDS,
    NetworkCosts,
    Terms,
    find_venue,
    quote,
    quote_pool,
)
from paper.market import Snapshot, SnapshotRow, parse_snapshot, price_of
from paper.rules import DAY_MS, HOUR_MS
from paper.store import NAMED_SNAPSHOT, SWAPS, Columns, Row, read_entry, show
from paper.tables import NetworkCost, RealFill
from storage.rows import read as read_rows
from storage.rows import select, select_value

# A venue counts with this many receipts, if the error of nine in ten is at most this.
MIN_RECEIPTS = 10
MAX_ERROR_BPS = 300
# An older snapshot says nothing about a swap.
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
    """A swap's errors in basis points, by its own reserves and the preceding snapshot, or None."""

    bps: int | None
    drift_bps: int | None


class CostsFrom(NamedTuple):
    """The network costs from a time (ms) on, from this many of the instance's swaps."""

    at: int
    costs: NetworkCosts
    receipts: int


class VenueError(NamedTuple):
    """The error at a venue. `source`: own | recorded. `since`: UTC ms of the first receipt.

    Without receipts, it is unknown.
    """

    venue: str
    receipts: int = 0
    median_error_bps: int | None = None
    p90_error_bps: int | None = None
    source: str | None = None
    since: int | None = None
    p90_drift_bps: int | None = None

    @property
    def eligible(self) -> bool:
        known = self.p90_error_bps is not None and self.p90_error_bps <= MAX_ERROR_BPS
        return known and self.receipts >= MIN_RECEIPTS


# Measured on 2026-11-22 from the reserves in each of the 102 recorded receipts: 12 trades on Pump's
# curve, and 15 swaps in Raydium v4 pools.
RECORDED_RECEIPTS = 102
RECORDED = (
    VenueError("pumpfun", 12, 0, 0, "recorded"),
    VenueError("raydium", 15, 8, 11, "recorded"),
)


def measure(swap: RealSwap, pool: PoolReading | str, snapshot: Snapshot | None) -> Measured:
    """Measure the model's error for a swap.

    `pool` is from the swap's own transaction, or why it can't be read. `snapshot` is the last
    before it.
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
    """Return the model's result from the reserves before the swap, or 0 if the fee is unknown."""
    if market_cap is None and len(find_venue(swap.venue).steps) > 1:
        return 0
    price = price_of(pool.before.sol, max(1, pool.before.raw), swap.decimals)
    at = Snapshot(0, swap.mint, swap.at, price, venue=swap.venue, market_cap=market_cap)
    terms = Terms(swap.decimals, swap.transfer_bps)
    found = quote_pool(swap.side, amount, at, terms, pool.before)
    return found.brings(swap.side) if found else 0


def quote_snapshot(swap: RealSwap, amount: int, snapshot: Snapshot) -> int:
    """Return the model's result on a snapshot. 0 if the venues differ or it can't fill the swap."""
    if snapshot.venue != swap.venue or not snapshot.price:
        return 0
    terms = Terms(swap.decimals, swap.transfer_bps)
    found = quote(swap.side, amount, snapshot, terms, NEVER_TRADED, 0)
    return found.brings(swap.side) if found else 0


def find_error(predicted: int, real: int) -> int | None:
    """Return how much less than predicted a swap got (basis points), or None."""
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
    enough = {one.venue: one for one in own if one.receipts >= MIN_RECEIPTS}
    recorded = {one.venue: one for one in RECORDED}
    fewer = {one.venue: one for one in own}
    known = {**fewer, **recorded, **enough}
    drifts = {one.venue: one.p90_drift_bps for one in own}
    return [known[venue]._replace(p90_drift_bps=drifts.get(venue)) for venue in sorted(known)]


def list_eligible(errors: Sequence[VenueError]) -> frozenset[str]:
    return frozenset(one.venue for one in errors if one.eligible)


# ---- stored swaps and costs ----------------------------------------------------------------------
# After this, a swap's snapshot is deleted.
LATE_MS = 2 * HOUR_MS
MAX_SWAPS = 200
KEPT_MS = 30 * DAY_MS
SNAPSHOT_BEFORE = f"""{NAMED_SNAPSHOT}
WHERE t.mint = ? AND s.taken_at <= ? AND s.taken_at >= ? ORDER BY s.taken_at DESC LIMIT 1"""
ERRORS = "SELECT venue, at, bps, drift_bps FROM real_fill WHERE at >= ? AND model = ? ORDER BY id"
# Swaps since a Unix second whose wallet paid the fee. The database counts them, because there may
# be hundreds of thousands.
PAID = """
FROM trade t WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND t.fee > 0"""
COUNT_PAID = f"""
SELECT COUNT(*), MIN(t.block_time), COUNT(CASE WHEN t.rent > 0 THEN 1 END) {PAID}"""
NTH_PAID = f"SELECT t.fee + t.tip AS paid {PAID} ORDER BY paid LIMIT 1 OFFSET ?"
NTH_RENT = f"SELECT t.rent {PAID} AND t.rent > 0 ORDER BY t.rent LIMIT 1 OFFSET ?"


def measure_swaps(now: int) -> int:
    values = ((now - LATE_MS) // 1000, *VENUE_IDS, MAX_SWAPS)
    rows = [found for row in read_rows(SWAPS, values) if (found := _measure(row))]
    if rows:
        with storage.writing():
            RealFill.insert_many(rows).on_conflict_ignore().execute()
    return len(rows)


def _measure(row: Row) -> Columns | None:
    try:
        entry = read_entry(row)
        swap, pool = _read_swap(row, entry), unpack_pool(entry.pool)
    except UNREADABLE:
        return None
    if swap is None:
        return None
    values = swap.mint, swap.at, swap.at - MAX_AGE_MS
    before = select(SnapshotRow, SNAPSHOT_BEFORE, values)
    snapshot = parse_snapshot(before[0]) if before else None
    found = measure(swap, pool, snapshot)
    if found == (None, None):
        return None
    about = {"snapshot": snapshot and snapshot.id, "age_ms": snapshot and swap.at - snapshot.at}
    return show(swap, RealFill, **found._asdict(), **about, model=MODEL)


def _read_swap(row: Row, entry: Entry) -> RealSwap | None:
    changes = entry.venue_tokens
    if [mint for mint, _, _ in changes] != [row.mint]:
        return None
    ((_, change, decimals),) = changes
    lamports = abs(entry.venue_sol + entry.fee + entry.tip)
    venue, at = VENUE_IDS[row.venue], row.block_time * 1000
    about = row.mint, decimals, row.transfer_bps
    return RealSwap(row.uid, at, venue, row.kind, *about, abs(change), lamports)


def list_errors(now: int) -> list[VenueError]:
    found: defaultdict[str, list[Measured]] = defaultdict(list)
    since: dict[str, int] = {}
    for venue, at, *bps in storage.read_rows(ERRORS, (now - KEPT_MS, MODEL)):
        found[venue].append(Measured(*bps))
        since[venue] = min(at, since.get(venue, at))
    return choose([describe_error(venue, errors, since[venue]) for venue, errors in found.items()])


def refresh_costs(now: int) -> NetworkCosts:
    """Return the network costs at `now` (ms), recomputed once a day from thirty days of swaps."""
    last = find_costs()
    if last is None or last.at // DAY_MS < now // DAY_MS:
        costs = _measure_costs(now)
        if costs:
            return costs
    return NetworkCosts(last.p50, last.p75, last.p90) if last else RECORDED_COSTS


def find_costs() -> NetworkCost | None:
    last: NetworkCost | None = NetworkCost.select().order_by(NetworkCost.id.desc()).first()
    return last


def list_costs() -> list[CostsFrom]:
    return [
        CostsFrom(row.at, NetworkCosts(row.p50, row.p75, row.p90), row.receipts)
        for row in NetworkCost.select().order_by(NetworkCost.id)
    ]


def _measure_costs(now: int) -> NetworkCosts | None:
    begin = (now - KEPT_MS) // 1000
    ((swaps, since, with_rent),) = storage.read_rows(COUNT_PAID, (begin,))
    if swaps < MIN_PAID:
        return None
    found = [_find_quantile(NTH_PAID, begin, swaps, percent) for percent in (50, 75, 90)]
    quantiles = [one for one in found if one is not None]
    if len(quantiles) < len(found):
        # Trades were deleted in the meantime, so the next tick counts again.
        return None
    costs = NetworkCosts(*quantiles)
    rent = _find_quantile(NTH_RENT, begin, with_rent, 50) if with_rent else None
    with storage.writing():
        NetworkCost.create(at=now, **costs._asdict(), rent=rent, receipts=swaps, since=since * 1000)
    return costs


def _find_quantile(nth: str, begin: int, count: int, percent: int) -> int | None:
    found = select_value(nth, (begin, find_place(count, percent)))
    return None if found is None else int(found)
