"""Read real swaps and the snapshots before them; store what they told about the fill model."""

from collections import defaultdict
from typing import NamedTuple

import storage
from chain.reading.entries import Entry
from chain.reading.pools import unpack_pool
from chain.stored.siblings import UNREADABLE
from paper import measured
from paper.fills import MODEL, RECORDED_COSTS, NetworkCosts
from paper.guard import DAY_MS, HOUR_MS
from paper.load import read_snapshot
from paper.measured import CostsFrom, Measured, RealSwap, VenueError
from paper.rows import NAMED_SNAPSHOT, Columns, NamedSnapshotRow
from paper.tables import NetworkCost, RealFill
from storage.rows import select

# A swap that was seen later than this has no snapshot any more.
LATE_MS = 2 * HOUR_MS
MAX_SWAPS = 200
# What is measured counts for this long.
KEPT_MS = 30 * DAY_MS


class SwapRow(NamedTuple):
    """A purchase or sale of an observed wallet with its stored entry; `block_time` in seconds."""

    uid: str
    block_time: int
    venue: str
    kind: str
    mint: str
    transfer_fee_bps: int | None
    signature: str
    slot: int
    tx_index: int | None
    entry: bytes


# The newest first: those that cannot be measured are asked for again until they are too old.
SWAPS = """
SELECT t.uid, t.block_time, t.venue, t.kind, t.mint, k.transfer_fee_bps, t.signature, t.slot,
       t.tx_index, s.entry
FROM trade t JOIN sighting s ON s.signature = t.signature AND s.wallet_id = t.wallet_id
LEFT JOIN token k ON k.mint = t.mint
WHERE t.kind IN ('buy', 'sell') AND t.block_time >= ? AND t.venue IN (?, ?, ?, ?)
AND s.state = 'stored'
AND NOT EXISTS (SELECT 1 FROM real_fill r WHERE r.uid = t.uid) ORDER BY t.id DESC LIMIT ?"""
# The snapshot nearest before a moment, not older than another.
SNAPSHOT_BEFORE = f"""{NAMED_SNAPSHOT}
WHERE t.mint = ? AND s.taken_at <= ? AND s.taken_at >= ? ORDER BY s.taken_at DESC LIMIT 1"""


class ErrorRow(NamedTuple):
    """How far off the model was for one swap, at a venue."""

    venue: str
    bps: int | None
    drift_bps: int | None
    at: int


ERRORS = "SELECT venue, bps, drift_bps, at FROM real_fill WHERE at >= ? AND model = ? ORDER BY id"


class PaidRow(NamedTuple):
    """How many swaps paid the network since when (Unix seconds), and how many of them rent."""

    swaps: int
    since: int | None
    with_rent: int


# Of the swaps since a Unix second that paid for themselves. There may be hundreds of thousands, so
# what is wanted of them is found in the database.
PAID = """
FROM trade t WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND t.fee > 0"""
COUNT_PAID = f"""
SELECT COUNT(*) AS swaps, MIN(t.block_time) AS since,
       COUNT(CASE WHEN t.rent > 0 THEN 1 END) AS with_rent {PAID}"""
NTH_PAID = f"SELECT t.fee + t.tip AS paid {PAID} ORDER BY paid LIMIT 1 OFFSET ?"
NTH_RENT = f"SELECT t.rent {PAID} AND t.rent > 0 ORDER BY t.rent LIMIT 1 OFFSET ?"


class CostRow(NamedTuple):
    """The network costs that count now."""

    at: int
    p50: int
    p75: int
    p90: int
    rent: int | None
    receipts: int
    since: int


ALL_COSTS = "SELECT at, p50, p75, p90, rent, receipts, since FROM network_cost ORDER BY id"
COSTS = f"{ALL_COSTS} DESC LIMIT 1"


def measure_swaps(now: int) -> int:
    """Store what the model says of the swaps of the last hours; return how many could be measured,
    by their own reserves or by a snapshot before them. `now`: ms.
    """
    values = ((now - LATE_MS) // 1000, *measured.VENUE_IDS, MAX_SWAPS)
    rows = [found for row in select(SwapRow, SWAPS, values) if (found := _measure(row))]
    if rows:
        with storage.writing():
            RealFill.insert_many(rows).on_conflict_ignore().execute()
    return len(rows)


def _measure(row: SwapRow) -> Columns | None:
    """The row of a swap that could be measured."""
    try:
        entry = Entry.load(row.signature, row.slot, row.tx_index, row.entry)
        swap, pool = _read_swap(row, entry), unpack_pool(entry.pool)
    except UNREADABLE:
        # `doctor` names the damaged row.
        return None
    if swap is None:
        return None
    span = swap.mint, swap.at, swap.at - measured.MAX_AGE_MS
    before = select(NamedSnapshotRow, SNAPSHOT_BEFORE, span)
    snapshot = read_snapshot(before[0], swap.mint) if before else None
    found = measured.measure(swap, pool, snapshot)
    if found == (None, None):
        return None
    return {
        "uid": swap.uid,
        "at": swap.at,
        "venue": swap.venue,
        "side": swap.side,
        "mint": swap.mint,
        "lamports": swap.lamports,
        "raw": str(swap.raw),
        "bps": found.bps,
        "drift_bps": found.drift_bps,
        "snapshot": snapshot and snapshot.id,
        "age_ms": snapshot and swap.at - snapshot.at,
        "model": MODEL,
    }


def _read_swap(row: SwapRow, entry: Entry) -> RealSwap | None:
    """What passed through the venue in a trade; None if more than one token did."""
    changes = entry.venue_tokens
    if [mint for mint, _, _ in changes] != [row.mint]:
        return None
    ((_, change, decimals),) = changes
    # Fee and tip went elsewhere.
    lamports = abs(entry.venue_sol + entry.fee + entry.tip)
    venue, at = measured.VENUE_IDS[row.venue], row.block_time * 1000
    fee = row.transfer_fee_bps or 0
    return RealSwap(row.uid, at, venue, row.kind, row.mint, decimals, fee, abs(change), lamports)


def list_errors(now: int) -> list[VenueError]:
    """Return how far off the model is at each venue, by what counts now (ms)."""
    found: defaultdict[str, list[ErrorRow]] = defaultdict(list)
    for row in select(ErrorRow, ERRORS, (now - KEPT_MS, MODEL)):
        found[row.venue].append(row)
    return measured.choose(
        [
            measured.describe_error(
                venue,
                [Measured(row.bps, row.drift_bps) for row in rows],
                min(row.at for row in rows),
            )
            for venue, rows in found.items()
        ]
    )


def refresh_costs(now: int) -> NetworkCosts:
    """Return the network costs that count now (ms), worked out anew once a day from the swaps of
    the last thirty; the recorded ones while those are too few.
    """
    last = find_costs()
    if last is None or last.at // DAY_MS < now // DAY_MS:
        costs = _measure_costs(now)
        if costs:
            return costs
    return NetworkCosts(last.p50, last.p75, last.p90) if last else RECORDED_COSTS


def find_costs() -> CostRow | None:
    """Return the network costs of this instance's own receipts that count now."""
    return next(iter(select(CostRow, COSTS)), None)


def list_costs() -> list[CostsFrom]:
    """List all network costs that there were, oldest first."""
    return [
        CostsFrom(row.at, NetworkCosts(row.p50, row.p75, row.p90), row.receipts)
        for row in select(CostRow, ALL_COSTS)
    ]


def _measure_costs(now: int) -> NetworkCosts | None:
    begin = (now - KEPT_MS) // 1000
    (paid,) = select(PaidRow, COUNT_PAID, (begin,))
    if paid.since is None or paid.swaps < measured.MIN_PAID:
        return None
    found = [_find_quantile(NTH_PAID, begin, paid.swaps, percent) for percent in (50, 75, 90)]
    quantiles = [one for one in found if one is not None]
    if len(quantiles) < len(found):
        # Trades were dropped meanwhile: the next tick counts again.
        return None
    costs = NetworkCosts(*quantiles)
    rent = _find_quantile(NTH_RENT, begin, paid.with_rent, 50) if paid.with_rent else None
    with storage.writing():
        NetworkCost.create(
            at=now, **costs._asdict(), rent=rent, receipts=paid.swaps, since=paid.since * 1000
        )
    return costs


def _find_quantile(nth: str, begin: int, count: int, percent: int) -> int | None:
    """Read this quantile of so many payments since a Unix second, in lamports; None where they have
    become fewer.
    """
    place = measured.find_place(count, percent)
    row = storage.database.execute_sql(nth, (begin, place)).fetchone()
    return None if row is None else int(row[0])
