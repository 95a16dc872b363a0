"""Read stored snapshots for backtests, without a query to a provider or a long transaction."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import storage
from paper import measured_store, store
from paper.backtests import Recording
from paper.market import Snapshot, Token
from paper.rules import DAY_MS, HOUR_MS
from paper.store import find_tokens, read_snapshot
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


class Span(NamedTuple):
    """A period of the recording, from `start` until before `end` (ms)."""

    start: int
    end: int


def read_recording(span: Span, interval_ms: int, now: int) -> Recording:
    """Return the recording of a period, with snapshots as far apart as in its sparsest part.

    `interval_ms`: the scout's. Token data is current, not from the time of the recording.
    """
    grain = find_grain(span.start, interval_ms, now)
    found = find_tokens(Faults(), store.RECORDED_TOKENS)
    tokens = {token.mint: token for token in found.values()}
    known = store.list_flows(span.start - DAY_MS, span.end)
    return Recording(
        grain,
        span.start,
        span.end,
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


def find_recorded() -> Span | None:
    """Return the period from the first stored snapshot to just after the last one; None if there
    are none."""
    ((first, last),) = storage.read_rows(ENDS)
    if first is None:
        return None
    return Span(_taken_at(first) or 0, (_taken_at(last) or 0) + 1)


def _thin(snapshots: Iterator[Snapshot], grain: int) -> Iterator[Snapshot]:
    """Yield the first snapshot of each token in each `grain` (ms), so that all have the same
    interval."""
    newest: dict[str, int] = {}
    for one in snapshots:
        if newest.get(one.mint) != one.at // grain:
            newest[one.mint] = one.at // grain
            yield one


def _list_snapshots(span: Span, tokens: Mapping[str, Token]) -> Iterator[Snapshot]:
    ident = _find_first_id(span.start)
    while True:
        page = select(store.NamedSnapshotRow, PAGE_OF_SNAPSHOTS, (ident,))
        for row in page:
            if row.taken_at >= span.end:
                return
            if row.mint in tokens:
                yield read_snapshot(row, row.mint)
        if len(page) < PAGE:
            return
        ident = page[-1].id + 1


def _find_first_id(at: int) -> int:
    """Return the id of the first snapshot taken at `at` or later. Ids increase with time."""
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
