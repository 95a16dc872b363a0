"""Read real swaps and the preceding snapshots, and store the fill model's errors."""

from collections import defaultdict

import storage
from chain.reading.entries import Entry
from chain.reading.pools import unpack_pool
from chain.stored.attachments import UNREADABLE
from paper import measured
from paper.fills import MODEL, RECORDED_COSTS, NetworkCosts
from paper.market import SnapshotRow, parse_snapshot
from paper.measured import CostsFrom, Measured, RealSwap, VenueError
from paper.rules import DAY_MS, HOUR_MS
from paper.store import NAMED_SNAPSHOT, SWAPS, Columns, StoredTrade, show
from paper.tables import NetworkCost, RealFill
from storage.rows import select, select_value

# After this time, a swap's snapshot is deleted.
LATE_MS = 2 * HOUR_MS
MAX_SWAPS = 200
KEPT_MS = 30 * DAY_MS
# The last snapshot in a period.
SNAPSHOT_BEFORE = f"""{NAMED_SNAPSHOT}
WHERE t.mint = ? AND s.taken_at <= ? AND s.taken_at >= ? ORDER BY s.taken_at DESC LIMIT 1"""


ERRORS = "SELECT venue, at, bps, drift_bps FROM real_fill WHERE at >= ? AND model = ? ORDER BY id"


# The swaps since a Unix second whose wallet paid the fee. The database counts them, because there
# may be hundreds of thousands.
PAID = """
FROM trade t WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND t.fee > 0"""
COUNT_PAID = f"""
SELECT COUNT(*), MIN(t.block_time), COUNT(CASE WHEN t.rent > 0 THEN 1 END) {PAID}"""
NTH_PAID = f"SELECT t.fee + t.tip AS paid {PAID} ORDER BY paid LIMIT 1 OFFSET ?"
NTH_RENT = f"SELECT t.rent {PAID} AND t.rent > 0 ORDER BY t.rent LIMIT 1 OFFSET ?"


def measure_swaps(now: int) -> int:
    """Measure the model on the swaps of the last hours, and store the errors. Return how many could
    be measured.

    `now`: ms.
    """
    values = ((now - LATE_MS) // 1000, *measured.VENUE_IDS, MAX_SWAPS)
    swaps = [(StoredTrade._make(trade), fee) for *trade, fee in storage.read_rows(SWAPS, values)]
    rows = [found for row, fee in swaps if (found := _measure(row, fee or 0))]
    if rows:
        with storage.writing():
            RealFill.insert_many(rows).on_conflict_ignore().execute()
    return len(rows)


def _measure(row: StoredTrade, fee_bps: int) -> Columns | None:
    try:
        entry = row.read_entry()
        swap, pool = _read_swap(row, fee_bps, entry), unpack_pool(entry.pool)
    except UNREADABLE:
        # `doctor` reports the damaged row.
        return None
    if swap is None:
        return None
    span = swap.mint, swap.at, swap.at - measured.MAX_AGE_MS
    before = select(SnapshotRow, SNAPSHOT_BEFORE, span)
    snapshot = parse_snapshot(before[0]) if before else None
    found = measured.measure(swap, pool, snapshot)
    if found == (None, None):
        return None
    about = {"snapshot": snapshot and snapshot.id, "age_ms": snapshot and swap.at - snapshot.at}
    return show(swap, RealFill, **found._asdict(), **about, model=MODEL)


def _read_swap(row: StoredTrade, fee_bps: int, entry: Entry) -> RealSwap | None:
    """Return a trade's exchange at its venue, or None if several tokens passed through it."""
    changes = entry.venue_tokens
    if [mint for mint, _, _ in changes] != [row.mint]:
        return None
    ((_, change, decimals),) = changes
    # Another account paid the fee and the tip.
    lamports = abs(entry.venue_sol + entry.fee + entry.tip)
    venue, at = measured.VENUE_IDS[row.venue], row.block_time * 1000
    raw = abs(change)
    return RealSwap(row.uid, at, venue, row.kind, row.mint, decimals, fee_bps, raw, lamports)


def list_errors(now: int) -> list[VenueError]:
    found: defaultdict[str, list[Measured]] = defaultdict(list)
    since: dict[str, int] = {}
    for venue, at, *bps in storage.read_rows(ERRORS, (now - KEPT_MS, MODEL)):
        found[venue].append(Measured(*bps))
        since[venue] = min(at, since.get(venue, at))
    return measured.choose(
        [measured.describe_error(venue, errors, since[venue]) for venue, errors in found.items()]
    )


def refresh_costs(now: int) -> NetworkCosts:
    """Return the network costs at `now` (ms).

    They are recomputed once a day from thirty days of swaps. If there are too few swaps, the
    recorded costs are returned.
    """
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
    if since is None or swaps < measured.MIN_PAID:
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
    found = select_value(nth, (begin, measured.find_place(count, percent)))
    return None if found is None else int(found)
