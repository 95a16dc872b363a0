"""A view of a ledger: in a money, over all history or of an attachment. Pure.

In an attachment's view older costs are unknown, and only what happened while it lasted counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.ledger.inventory import SOL
from chain.ledger.lots import UNDATED
from chain.ledger.reconciliation import Totals
from chain.ledger.risk import RiskBook
from chain.ledger.sales import Booked
from chain.reading.entries import Entry

ALL_HISTORY = 0
# (money, view)
Key = tuple[str, int]
HOUR_SECONDS = 3_600


class Span(NamedTuple):
    """An attachment: its number, and when it began and ended (None: not yet) in UTC ms."""

    number: int
    begins_ms: int
    ends_ms: int | None


class Holdings(NamedTuple):
    """Of a span, in lamports: the known cost of what was held when it began (`carried_in`), that of
    what it acquired and still holds, in how many tokens, and what it realized.
    """

    carried_in: int = 0
    open_cost: int = 0
    open_positions: int = 0
    forward_realized: int = 0


@dataclass
class Account:
    """What was done in a money, in one view."""

    totals: Totals = field(default_factory=Totals)
    risk: RiskBook = field(default_factory=RiskBook)

    def add(self, booked: Booked, money: str, hour: int) -> None:
        """Count a booked transaction in. `hour` as in RiskBook.add."""
        self.totals.add(booked, money)
        if money == SOL:
            self.risk.add(booked, hour)


# Measures holdings; costs from before a moment (UTC ms) count as unknown.
Measure = Callable[[int], Holdings]


@dataclass
class Spans:
    """Attachments in order. They follow the latest time: older entries count for none."""

    spans: tuple[Span, ...] = ()
    now_ms: int = 0
    open: Span | None = None
    # by number, of those that began: carried_in so far, all of it once they are over
    _held: dict[int, Holdings] = field(default_factory=dict)
    _begun: int = 0

    def turn(self, entry: Entry, measure: Measure) -> None:
        """Close and begin spans up to the latest time. `measure`: before this entry."""
        happened_at = entry.happened_at
        if happened_at is None or happened_at <= self.now_ms:
            return
        self.now_ms = happened_at
        self._close_over(measure)
        while not self.open and self._begun < len(self.spans):
            span = self.spans[self._begun]
            if span.begins_ms > self.now_ms:
                return
            self._begun += 1
            self.open = span
            self._held[span.number] = Holdings(carried_in=measure(UNDATED).open_cost)
            self._close_over(measure)

    def _close_over(self, measure: Measure) -> None:
        span = self.open
        if span and span.ends_ms is not None and span.ends_ms <= self.now_ms:
            held = measure(span.begins_ms)
            self._held[span.number] = held._replace(carried_in=self._held[span.number].carried_in)
            self.open = None

    def list_views(self, entry: Entry) -> list[tuple[int, int]]:
        """(view, its beginning in UTC ms) of each view that an entry counts in."""
        span, happened_at = self.open, entry.happened_at
        if span and happened_at is not None and happened_at >= span.begins_ms:
            return [(ALL_HISTORY, UNDATED), (span.number, span.begins_ms)]
        return [(ALL_HISTORY, UNDATED)]

    def find_holdings(self, measure: Measure) -> dict[int, Holdings]:
        """By number of the span. `measure`: of the ledger now."""
        waiting = Holdings(carried_in=measure(UNDATED).open_cost)
        found = {span.number: self._held.get(span.number, waiting) for span in self.spans}
        if self.open:
            number = self.open.number
            held = measure(self.open.begins_ms)
            found[number] = held._replace(carried_in=found[number].carried_in)
        return found
