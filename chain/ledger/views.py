"""Keep the totals of a ledger's views: each is one currency, over all history or one attachment.
Pure.

In an attachment's view, older costs are unknown, and only its own period counts. A position lasts
from the first purchase of a token until it is closed. Only units with a known cost belong to it, so
tokens from strangers don't open it, keep it open or raise its peak.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from chain.ledger.inventory import UNDATED, KnownCost
from chain.ledger.sales import AGAINST, INCOMPLETE, Booked
from chain.ledger.sums import HOURS_A_DAY, Sums, Totals, round_down
from chain.reading.entries import Entry

# ---- positions -----------------------------------------------------------------------------------
# A position is closed when less than this percentage of its peak is left.
MIN_LEFT_PERCENT = 1


@dataclass(slots=True)
class OpenPosition:
    """An open position in a view.

    Amounts are raw units of a currency. `began` is in Unix seconds. `cost` is its whole known cost.
    `proceeds` are those of its sales so far, without units of unknown cost. `result` is that of its
    sales, minus the known cost that left without a sale. `peak` is the largest number of units of
    known cost that it ever had.
    """

    began: int | None
    cost: int
    proceeds: int = 0
    result: int = 0
    peak: int = 0
    is_sold: bool = False

    @property
    def is_won(self) -> bool:
        return self.is_sold and self.proceeds > self.cost


@dataclass(slots=True)
class Positions:
    """The counts of positions in a view.

    `ended` counts closed positions that had a sale, and `held` open ones. `..._sold` and `..._won`
    count those with a sale and with a gain. `holdings` counts ended positions by the seconds that
    they were held (round_down).
    """

    ended: int = 0
    ended_won: int = 0
    held: int = 0
    held_sold: int = 0
    held_won: int = 0
    holdings: dict[int, int] = field(default_factory=dict)
    # The open positions by mint.
    open: dict[str, OpenPosition] = field(default_factory=dict)
    # The best and worst results of closed positions.
    _ends: tuple[int, ...] = ()
    # Whether there are unwritten changes.
    is_changed: bool = False

    def follow(self, booked: Booked | None, known: KnownCost, time: int | None) -> None:
        """Apply an entry after its lots moved.

        `booked` is None if the entry doesn't count in this view. `time`: Unix seconds.
        """
        if booked and booked.side.kind == "round_trip" and booked.result is not None:
            # The token was bought and sold in one transaction. Other units of the token don't
            # matter.
            self._end(OpenPosition(time, 0, booked.result, booked.result, is_sold=True), time)
        sold = booked.sold if booked and INCOMPLETE not in booked.flags else None
        for mint in known.touched if sold is None else {*known.touched, sold}:
            self._follow_mint(mint, known, time, booked if mint == sold else None)
        if booked:
            for mint, cost in booked.left:
                if position := self.open.get(mint):
                    position.result -= cost
                    self.is_changed = self.is_changed or position.is_sold
        for mint in known.touched:
            self._settle(mint, known, time)

    def _follow_mint(
        self, mint: str, known: KnownCost, time: int | None, sale: Booked | None
    ) -> None:
        """Apply a purchase or sale of one mint."""
        position, arrived = self.open.get(mint), known.arrived.get(mint)
        if position is None:
            if arrived is None:
                return
            # The remainder of the previous position belongs to this one.
            held = known.held.get(mint)
            position = OpenPosition(time, max(arrived, held.cost if held else 0))
            self.open[mint] = position
        else:
            self._count(position, -1)
            position.cost += arrived or 0
        if sale and sale.side.kind != "round_trip":
            position.is_sold = self.is_changed = True
            position.proceeds += sale.proceeds or 0
            position.result += sale.result or 0
        self._count(position, 1)

    def _settle(self, mint: str, known: KnownCost, time: int | None) -> None:
        """Close the position in a mint if almost nothing is left of it."""
        position = self.open.get(mint)
        if position is None:
            return
        held = known.held.get(mint)
        units = held.units if held else 0
        position.peak = max(position.peak, units)
        if units * 100 < position.peak * MIN_LEFT_PERCENT:
            self._count(position, -1)
            del self.open[mint]
            self._end(position, time)

    def _count(self, position: OpenPosition, by: int) -> None:
        self.held += by
        self.held_sold += by * position.is_sold
        self.held_won += by * position.is_won

    def _end(self, position: OpenPosition, time: int | None) -> None:
        if not position.is_sold:
            return
        self.is_changed = True
        self.ended += 1
        self.ended_won += position.is_won
        results = (*self._ends, position.result)
        self._ends = (max(results), min(results))
        if time is not None and position.began is not None:
            seconds = round_down(max(0, time - position.began))
            self.holdings[seconds] = self.holdings.get(seconds, 0) + 1

    def find_ends(self) -> tuple[int, int] | None:
        """Return the best and worst result so far among positions with a sale, or None."""
        results = [*self._ends, *(one.result for one in self.open.values() if one.is_sold)]
        return (max(results), min(results)) if results else None


# ---- views ---------------------------------------------------------------------------------------
ALL_HISTORY = 0
# A pair (currency, view).
Key = tuple[str, int]
HOUR_SECONDS, HOUR_MS = 3_600, 3_600_000
# A purchase and a sale within this time form a pair.
PAIR_SECONDS = 60


class Span(NamedTuple):
    """An attachment: its id, and its start and end in UTC ms. The end is None if it is open."""

    number: int
    begins_ms: int
    ends_ms: int | None


class Holdings(NamedTuple):
    """A span's tokens that were acquired at a known cost and are still held, and the lamports
    realized.
    """

    open_positions: int = 0
    forward_realized: int = 0


@dataclass(slots=True)
class TokenResult:
    """The result of a token's sales in raw units of the currency, and their counts."""

    realized: int = 0
    sales: int = 0
    winning: int = 0


class Flow(NamedTuple):
    """A mint's purchases and sales since `began` (Unix seconds): their net amount, and fees."""

    began: int
    net: int
    fees: int


@dataclass(slots=True)
class Churn:
    """Counts purchases and sales of one mint within a minute whose net result doesn't exceed their
    fees.

    A purchase and a sale in several parts count as one pair.
    """

    pairs: int = 0
    _flows: dict[str, Flow] = field(default_factory=dict)

    def follow(self, booked: Booked, mint: str, time: int) -> None:
        side, began = booked.side, time
        net, fees = side.through, side.fee + side.tip
        flow = self._flows.get(mint)
        if flow and 0 <= time - flow.began <= PAIR_SECONDS:
            began, net, fees = flow.began, flow.net + net, flow.fees + fees
        elif side.kind == "sell":
            self._flows.pop(mint, None)
            return
        if side.kind == "sell" and abs(net) <= fees:
            self.pairs += 1
            self._flows.pop(mint, None)
        else:
            self._flows[mint] = Flow(began, net, fees)


@dataclass
class Account:
    """The totals in one currency and view.

    `token_rows` are unwritten results. `open_cost` is the part of current holdings that the worst
    case counts as lost.
    """

    totals: Totals = field(default_factory=Totals)
    positions: Positions = field(default_factory=Positions)
    tokens: defaultdict[str, TokenResult] = field(default_factory=lambda: defaultdict(TokenResult))
    token_rows: dict[str, TokenResult] = field(default_factory=dict)
    open_cost: int = 0
    days: int = 0
    churn: Churn = field(default_factory=Churn)
    _last_day: int | None = None

    def add(self, booked: Booked, money: str, hour: int) -> None:
        """Add a booked transaction.

        `hour` is counted from 1970 and never decreases.
        """
        trades = self.totals.trades
        self.totals.add(booked, money)
        if booked.sold and booked.result is not None:
            self._count_token(booked.sold, booked.result)
        if self.totals.trades > trades and booked.entry.block_time is not None:
            self._count_day(hour // HOURS_A_DAY)
            mint = booked.sold or booked.entry.mint
            if mint and booked.side.kind in AGAINST:
                self.churn.follow(booked, mint, booked.entry.block_time)

    def _count_token(self, mint: str, result: int) -> None:
        token = self.token_rows[mint] = self.tokens[mint]
        token.realized += result
        token.sales += 1
        token.winning += result > 0

    def _count_day(self, day: int) -> None:
        self.days += day != self._last_day
        self._last_day = day

    @property
    def sums(self) -> Sums:
        counted = (self.open_cost, self.days, self.churn.pairs)
        return Sums._make((*_read_totals(self.totals), *counted, *_read_positions(self.positions)))


_TOTALS = Sums._fields[: Sums._fields.index("open_cost")]
_POSITIONS = Sums._fields[Sums._fields.index("ended") :]
_read_totals, _read_positions = attrgetter(*_TOTALS), attrgetter(*_POSITIONS)


# Returns the number of tokens held at a known cost. Costs older than the given time (UTC ms) count
# as unknown.
Count = Callable[[int], int]


@dataclass
class Spans:
    """Attachments in order.

    They follow the latest time, so older entries don't count in any of them.
    """

    spans: tuple[Span, ...] = ()
    now_ms: int = 0
    open: Span | None = None
    # The tokens held at the end of closed spans, by id.
    _held: dict[int, int] = field(default_factory=dict)
    _begun: int = 0

    def turn(self, entry: Entry, count: Count) -> None:
        """Close and open spans up to the latest time.

        `count` is the count before this entry.
        """
        happened_at = entry.happened_at
        if happened_at is None or happened_at <= self.now_ms:
            return
        self.now_ms = happened_at
        self._close_over(count)
        while not self.open and self._begun < len(self.spans):
            span = self.spans[self._begun]
            if span.begins_ms > self.now_ms:
                return
            self._begun += 1
            self.open = span
            self._close_over(count)

    def _close_over(self, count: Count) -> None:
        span = self.open
        if span and span.ends_ms is not None and span.ends_ms <= self.now_ms:
            self._held[span.number] = count(span.begins_ms)
            self.open = None

    def list_views(self, entry: Entry) -> list[tuple[int, int]]:
        """Return (view, its start in UTC ms) for each view that an entry counts in."""
        span, happened_at = self.open, entry.happened_at
        if span and happened_at is not None and happened_at >= span.begins_ms:
            return [(ALL_HISTORY, UNDATED), (span.number, span.begins_ms)]
        return [(ALL_HISTORY, UNDATED)]

    def count_held(self, count: Count) -> dict[int, int]:
        """Return the number of tokens held by span id. `count` is the current ledger's count."""
        held = {span.number: self._held.get(span.number, 0) for span in self.spans}
        if self.open:
            held[self.open.number] = count(self.open.begins_ms)
        return held
