"""The forward record: what a wallet did while a bot held it, apart from what it did before. Pure.

A span is an attachment, from when to when by block time (Entry.happened_at). It has lots of its
own: what was held when it began is there, in its place of the queue, at unknown cost.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chain.ledger.ledger import Ledger
from chain.ledger.lots import Booked
from chain.ledger.quote_book import QuoteBook
from chain.ledger.risk import RiskBook
from chain.ledger.sums import NOTHING, Sums, read_sums
from chain.reading.entries import Entry

HOUR_SECONDS = 3600


class Span(NamedTuple):
    """An attachment: its number, and when it began and ended (None: not yet) in UTC ms."""

    number: int
    begins_ms: int
    ends_ms: int | None

    def is_over(self, now_ms: int) -> bool:
        return self.ends_ms is not None and self.ends_ms <= now_ms


class SpanHoldings(NamedTuple):
    """Known cost in lamports of what was held when a span began, and of what it acquired and still
    holds; in how many tokens; and the lamports it realized.
    """

    carried_in: int
    open_cost: int
    open_positions: int
    forward_realized: int = 0


@dataclass
class SpanRecord:
    """The ledger of one span, and its sums.

    `is_shared`: `ledger` is the wallet's, as a ledger of its own would hold the same: nothing of
    known cost was held when the span began, and all that followed counts. `before`: what the
    `ledger` had summed up when the span began.
    """

    span: Span
    ledger: Ledger
    carried_in: int
    is_shared: bool = False
    before: Sums = NOTHING
    last: Sums = NOTHING
    risk: RiskBook = field(default_factory=RiskBook)
    quotes: QuoteBook = field(default_factory=QuoteBook)

    def apply(self, entry: Entry, second: int, whole: Ledger) -> Booked:
        """Book an entry here and in `whole`, the wallet's ledger: once, where they are the same.
        `second` is the latest so far, in Unix time.
        """
        self.quotes.begin(entry, self.ledger)
        if not self._counts(entry):
            self.separate()
            self._skip(entry)
            return whole.apply(entry)
        booked = whole.apply(entry)
        self._count(booked if self.is_shared else self.ledger.apply(entry), second)
        self.quotes.count(entry)
        return booked

    def apply_alone(self, entry: Entry, second: int, begins_ms: int) -> None:
        """Book an entry here alone; before `begins_ms` it counts for nothing."""
        self.quotes.begin(entry, self.ledger)
        if entry.happened_at is None or entry.happened_at < begins_ms:
            self._skip(entry)
        else:
            self._count(self.ledger.apply(entry), second)
            self.quotes.count(entry)

    def separate(self) -> None:
        """Go on with a ledger of its own, which begins where the wallet's stands."""
        if self.is_shared:
            self.ledger, self.is_shared = copy.deepcopy(self.ledger), False

    def _counts(self, entry: Entry) -> bool:
        happened_at = entry.happened_at
        return happened_at is not None and happened_at >= self.span.begins_ms

    def _skip(self, entry: Entry) -> None:
        """Book an entry that moves lots and counts for nothing: it has no block time, or is from
        before the span.
        """
        totals = replace(self.ledger.totals)
        booked = self.ledger.apply(entry)
        self.ledger.totals = totals
        self.ledger.inventory.forget_costs(entry.signature)
        self.risk.skip(booked)
        self.quotes.skip(entry)

    def _count(self, booked: Booked, second: int) -> None:
        self.risk.add(booked, second // HOUR_SECONDS)
        self.last = read_sums(self.ledger.totals).minus(self.before)

    def find_holdings(self) -> SpanHoldings:
        known = [one for one in self.ledger.positions() if one.cost is not None]
        return SpanHoldings(
            self.carried_in,
            self.ledger.inventory.sum_open_cost(),
            len(known),
            self.last.realized,
        )


@dataclass
class Forward:
    """The forward record of a wallet: `spans` in order, of which no two overlap."""

    spans: tuple[Span, ...] = ()
    # begun, by number of the span
    records: dict[int, SpanRecord] = field(default_factory=dict)
    _open: SpanRecord | None = None
    _begun: int = 0
    _now_ms: int = 0

    @property
    def second(self) -> int:
        """The latest Entry.happened_at so far, in Unix seconds."""
        return self._now_ms // 1000

    def apply(self, entry: Entry, whole: Ledger) -> Booked:
        """Book an entry in `whole`, the wallet's ledger, and in the span it falls into; return what
        the wallet's made of it.
        """
        happened_at = entry.happened_at
        if happened_at is not None and happened_at > self._now_ms:
            self._now_ms = happened_at
            self._turn(whole)
        if self._open:
            return self._open.apply(entry, self.second, whole)
        return whole.apply(entry)

    def _turn(self, whole: Ledger) -> None:
        """Close and begin spans, up to the one that the latest time is in."""
        now_ms = self._now_ms
        self._close_over()
        if self._begun == len(self.spans):
            return
        for span in self.spans[self._begun :]:
            if self._open or span.begins_ms > now_ms:
                return
            self._begun += 1
            self._open = self.records[span.number] = begin(span, whole)
            self._close_over()

    def _close_over(self) -> None:
        """Close the open span once the latest time is past its end: its ledger changes no more."""
        if self._open and self._open.span.is_over(self._now_ms):
            self._open.separate()
            self._open = None

    @property
    def open_record(self) -> SpanRecord | None:
        """The record of the span that the latest time is in."""
        return self._open

    def sum_realized(self) -> int | None:
        """Lamports realized in all spans; None for a wallet that was never attached."""
        if not self.spans:
            return None
        return sum(record.last.realized for record in self.records.values())

    def find_holdings(self, whole: Ledger) -> dict[int, SpanHoldings]:
        """What each span brought in and still holds, by its number. `whole`: the ledger now."""
        waiting = self.spans[self._begun :]
        untouched = SpanHoldings(whole.inventory.sum_open_cost() if waiting else 0, 0, 0)
        return {
            **{number: record.find_holdings() for number, record in self.records.items()},
            **{span.number: untouched for span in waiting},
        }


def begin(span: Span, whole: Ledger) -> SpanRecord:
    """The record of a span that begins where `whole` stands: all that is held, at unknown cost."""
    before = read_sums(whole.totals)
    if not whole.inventory.has_known_cost():
        return SpanRecord(span, whole, 0, is_shared=True, before=before)
    ledger = copy.deepcopy(whole)
    ledger.inventory.forget_costs()
    return SpanRecord(span, ledger, whole.inventory.sum_open_cost(), before=before)
