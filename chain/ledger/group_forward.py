"""The forward record of a wallet that leads others: each counts from when it came to when it left.
Pure.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.ledger.forward import HOUR_SECONDS, Forward, Span, SpanHoldings, SpanRecord, begin
from chain.ledger.groups import GroupLedger, Join, LedSpan, Parts, list_in_quotes
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Booked
from chain.reading.entries import Entry


class StayHoldings(NamedTuple):
    """Known cost in lamports of what a wallet brought when it came beside another, and of what it
    took along when it went.
    """

    carried_in: int
    open_cost: int


@dataclass
class Company:
    """Who is beside the lead in a span, by number of the stay: lamports that what they brought had
    cost, and that what they took along had.
    """

    came: dict[int, int] = field(default_factory=dict)
    went: dict[int, int] = field(default_factory=dict)


@dataclass
class GroupForward(Forward):
    """The forward record of a wallet that leads others: `led_spans` by number of the span;
    `ledgers`: of each wallet alone; `join` makes one entry of the parts of a transaction.
    """

    led_spans: Mapping[int, LedSpan] = field(default_factory=dict)
    ledgers: dict[int, GroupLedger] = field(default_factory=dict)
    join: Join | None = None
    lead: int = 0
    companies: dict[int, Company] = field(default_factory=dict)

    def apply(self, entry: Entry, whole: Ledger) -> Booked:
        """Book an entry in `whole` alone: what each wallet did is booked by `take`, also where only
        a former member did it.
        """
        return whole.apply(entry)

    def take(self, parts: Parts) -> None:
        """Book a transaction in each wallet's own ledger, and in the span it falls into."""
        times = [one.happened_at for one in parts.values() if one.happened_at is not None]
        if times:
            self._now_ms = max(self._now_ms, min(times))
            self._turn(self.ledgers[self.lead])
        record = self._open
        if record:
            self._turn_company(record)
        for wallet, entry in parts.items():
            self.ledgers[wallet].apply(entry)
        if record:
            self._book(record, parts)

    def _close_over(self) -> None:
        """As Forward._close_over; those come and go first whose time it was by then."""
        if self._open and self._open.span.is_over(self._now_ms):
            self._turn_company(self._open)
        super()._close_over()

    def _turn_company(self, record: SpanRecord) -> None:
        """Have those come and go whose time it is by now."""
        record.separate()
        self._change_company(record, self._find_company(record), self._now_ms)

    def _find_company(self, record: SpanRecord) -> Company:
        return self.companies.setdefault(record.span.number, Company())

    def _book(self, record: SpanRecord, parts: Parts) -> None:
        """Book what the present members did; from before they came it counts for nothing."""
        led = self.led_spans[record.span.number]
        company = self.companies[record.span.number]
        begins = {led.lead: record.span.begins_ms}
        for one in led.stays:
            if one.number in company.came and one.number not in company.went:
                begins[one.wallet] = one.begins_ms
        mine = {wallet: part for wallet, part in parts.items() if wallet in begins}
        if not mine or self.join is None:
            return
        assert isinstance(record.ledger, GroupLedger)
        for each in (record.ledger, *list_in_quotes(record.quotes)):
            for wallet, part in mine.items():
                each.learn(part, self.ledgers[wallet])
        begun_ms = max(record.span.begins_ms, min(begins[wallet] for wallet in mine))
        record.apply_alone(self.join(mine), self._now_ms // 1000, begun_ms)

    def _change_company(self, record: SpanRecord, company: Company, now_ms: float) -> None:
        """Have those come and go whose time it is at `now_ms`, before the span ends."""
        ends_ms = math.inf if record.span.ends_ms is None else record.span.ends_ms
        hour = int(min(self._now_ms, ends_ms)) // 1000 // HOUR_SECONDS
        now_ms = min(now_ms, ends_ms)
        ledger = record.ledger
        assert isinstance(ledger, GroupLedger)
        in_quotes = list_in_quotes(record.quotes)
        for one in self.led_spans[record.span.number].stays:
            own, over = self.ledgers[one.wallet], one.ends_ms is not None and one.ends_ms <= now_ms
            if one.number not in company.came and one.begins_ms <= now_ms and not over:
                company.came[one.number] = own.inventory.sum_open_cost()
                for each in (ledger, *in_quotes):
                    each.absorb(own)
            if over and one.number in company.came and one.number not in company.went:
                lost = ledger.release(own)
                company.went[one.number] = sum(lost.values())
                gone = [mint for mint in lost if not ledger.inventory.is_held(mint)]
                record.risk.release(lost, gone, hour)
                for each in in_quotes:
                    each.release(own)

    def find_holdings(self, whole: Ledger) -> dict[int, SpanHoldings]:
        """As Forward.find_holdings; `find_stays` has what the others brought and took along."""
        told = {}
        for span in self.spans:
            record, company = self._settle(span)
            told[span.number] = record.find_holdings()._replace(
                carried_in=record.carried_in + sum(company.came.values())
            )
        return told

    def find_stays(self) -> dict[int, StayHoldings]:
        """What the others brought and took along, by number of the stay."""
        stays = {}
        for span in self.spans:
            company = self._settle(span)[1]
            for one in self.led_spans[span.number].stays:
                stays[one.number] = StayHoldings(
                    company.came.get(one.number, 0), company.went.get(one.number, 0)
                )
        return stays

    def _settle(self, span: Span) -> tuple[SpanRecord, Company]:
        """Return the record of a span as of now: since it began, or since a wallet came or went, no
        transaction may have been booked yet.
        """
        record = self.records.get(span.number)
        if record is None:
            record, company = begin(span, self.ledgers[self.lead]), Company()
            record.separate()
        else:
            company = self._find_company(record)
            if record is not self._open or not self._is_changing(span.number, company):
                return record, company
            record, company = copy.deepcopy(record), copy.deepcopy(company)
        self._change_company(record, company, math.inf)
        return record, company

    def _is_changing(self, number: int, company: Company) -> bool:
        return any(
            one.number not in company.came
            or (one.ends_ms is not None and one.number not in company.went)
            for one in self.led_spans[number].stays
        )
