"""Read stored snapshots for backtests, without querying a provider or using a long transaction."""

from collections.abc import Iterator, Mapping

import storage
from paper import measured_store, store
from paper.backtests import Recording
from paper.market import Snapshot, SnapshotRow, Token, parse_snapshot
from paper.player import Faults
from paper.rules import DAY_MS, HOUR_MS
from paper.store import find_tokens
from storage.rows import select

MINUTE_MS = 60_000
# The (maximum age, interval) of kept snapshots (market.rules.keep_until).
KEPT = ((30 * MINUTE_MS, 0), (2 * HOUR_MS, MINUTE_MS), (DAY_MS, 5 * MINUTE_MS))
MAX_SPAN_MS = 31 * DAY_MS
PAGE = 5_000
# IDs increase with time.
ENDS = """
SELECT (SELECT taken_at FROM snapshot ORDER BY id LIMIT 1),
       (SELECT taken_at FROM snapshot ORDER BY id DESC LIMIT 1)"""
PAGE_OF_SNAPSHOTS = f"""{store.NAMED_SNAPSHOT}
WHERE s.id > ? AND s.taken_at >= ? ORDER BY s.id LIMIT {PAGE}"""


def read_recording(span: range, interval_ms: int, now: int) -> Recording:
    """Return the recording of a period (ms), at the interval at which all of its snapshots are
    kept.

    `interval_ms` is the scout's interval. Data about tokens is current, not from the time of the
    recording.
    """
    grain = find_grain(span.start, interval_ms, now)
    found = find_tokens(Faults(), store.RECORDED_TOKENS)
    tokens = {token.mint: token for token in found.values()}
    known = store.list_flows(span.start - DAY_MS, span.stop)
    return Recording(
        grain,
        span.start,
        span.stop,
        tokens,
        known,
        _thin(_list_snapshots(span, tokens), grain),
        tuple(measured_store.list_costs()),
        tuple(measured_store.list_errors(now)),
    )


def find_grain(start: int, interval_ms: int, now: int) -> int:
    """Return the interval (ms) at which every snapshot since `start` is still kept."""
    kept = (distance for age, distance in KEPT if start >= now - age)
    return max(interval_ms, next(kept, HOUR_MS))


def find_recorded() -> range | None:
    ((first, last),) = storage.read_rows(ENDS)
    return None if first is None else range(first, last + 1)


def _thin(snapshots: Iterator[Snapshot], grain: int) -> Iterator[Snapshot]:
    newest: dict[str, int] = {}
    for one in snapshots:
        if newest.get(one.mint) != one.at // grain:
            newest[one.mint] = one.at // grain
            yield one


def _list_snapshots(span: range, tokens: Mapping[str, Token]) -> Iterator[Snapshot]:
    last = 0
    while page := select(SnapshotRow, PAGE_OF_SNAPSHOTS, (last, span.start)):
        for row in page:
            if row.taken_at >= span.stop:
                return
            if row.mint in tokens:
                yield parse_snapshot(row)
        last = page[-1].id
