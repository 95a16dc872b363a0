"""Read stored snapshots for backtests, without a query to a provider or a long transaction."""

from collections.abc import Iterator, Mapping

import storage
from paper import measured_store, store
from paper.backtests import Recording
from paper.market import Snapshot, SnapshotRow, Token, parse_snapshot
from paper.rules import DAY_MS, HOUR_MS
from paper.store import find_tokens
from paper.trader import Faults
from storage.rows import select

MINUTE_MS = 60_000
# (maximum age, interval) of kept snapshots; see market.rules.keep_until.
KEPT = ((30 * MINUTE_MS, 0), (2 * HOUR_MS, MINUTE_MS), (DAY_MS, 5 * MINUTE_MS))
MAX_SPAN_MS = 31 * DAY_MS
PAGE = 5_000
ENDS = "SELECT MIN(id) AS first, MAX(id) AS last FROM snapshot"
FIRST_AFTER = "SELECT taken_at FROM snapshot WHERE id >= ? ORDER BY id LIMIT 1"
PAGE_OF_SNAPSHOTS = f"{store.NAMED_SNAPSHOT} WHERE s.id >= ? ORDER BY s.id LIMIT {PAGE}"


def read_recording(span: range, interval_ms: int, now: int) -> Recording:
    """Return the recording of a time (ms) at the distance at which all of it is kept.

    `interval_ms`: the scout's. Token data is current, not from the time of the recording.
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
    if first is None:
        return None
    return range(_taken_at(first) or 0, (_taken_at(last) or 0) + 1)


def _thin(snapshots: Iterator[Snapshot], grain: int) -> Iterator[Snapshot]:
    newest: dict[str, int] = {}
    for one in snapshots:
        if newest.get(one.mint) != one.at // grain:
            newest[one.mint] = one.at // grain
            yield one


def _list_snapshots(span: range, tokens: Mapping[str, Token]) -> Iterator[Snapshot]:
    ident = _find_first_id(span.start)
    while True:
        page = select(SnapshotRow, PAGE_OF_SNAPSHOTS, (ident,))
        for row in page:
            if row.taken_at >= span.stop:
                return
            if row.mint in tokens:
                yield parse_snapshot(row)
        if len(page) < PAGE:
            return
        ident = page[-1].id + 1


def _find_first_id(at: int) -> int:
    ((first, last),) = storage.read_rows(ENDS)
    low, high = first or 1, (last or 0) + 1
    while low < high:
        middle = (low + high) // 2
        taken_at = _taken_at(middle)
        if taken_at is None or taken_at >= at:
            high = middle
        else:
            low = middle + 1
    return low


def _taken_at(ident: int) -> int | None:
    found = storage.read_rows(FIRST_AFTER, (ident,))
    return found[0][0] if found else None
