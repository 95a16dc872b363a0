"""Totals of a wallet in one currency, over all history or one attachment. Pure.

They are reconciled to the lamport. A window is the difference between two. In an attachment's view,
older costs are unknown, and only its own period counts. A position lasts from the first purchase of
a token until it is closed. Only units of known cost belong to it, so unsolicited tokens don't
open it, keep it open or raise its peak.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter, sub
from typing import NamedTuple

from chain.ledger.inventory import SOL, UNDATED, KnownCost
from chain.ledger.sales import AGAINST, INCOMPLETE, PAID_ELSEWHERE, Booked
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES

# ---- running sums, reconciled to the lamport -----------------------------------------------------
# The kinds that receive or send SOL. Others without a trade count as `other`.
TRANSFERS = frozenset(
    "native_transfer transfer_in transfer_out transfer_self account_open account_close".split()
)


@dataclass
class Totals:
    """Running sums over a wallet's transactions, in raw units of a currency, and counts.

    Some are columns of `running_total` (Sums). `opening` and `closing` are the accounts' balances
    before their first and after the last transaction. `cost_left` is the known cost of lots that
    left without a sale. `other` wasn't moved by a trade or transfer, or moved at an unknown cost.
    `gaps` is the amount by which balances changed between two transactions that aren't continuous.
    `open_cost` is the known cost of lots held; only Ledger.reconcile sets it.
    """

    realized: int = 0
    cost: int = 0
    proceeds: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    volume: int = 0
    trades: int = 0
    carried: int = 0
    fee_lamports: int = 0
    cross_sells: int = 0
    failed: int = 0
    failed_cost: int = 0
    overhead: int = 0
    cost_left: int = 0
    cost_left_receipts: int = 0
    unmatched_proceeds: int = 0
    received: int = 0
    sent: int = 0
    other: int = 0
    opening: int = 0
    closing: int = 0
    gaps: int = 0
    open_cost: int = 0

    def add(self, booked: Booked, money: str = SOL) -> None:
        side = booked.side
        self.received += side.sponsored
        self._transfer(side.beside)
        self.cost_left += booked.cost_left
        self.cost_left_receipts += bool(booked.cost_left)
        self.other += booked.other
        if side.kind == "failed":
            self.failed += money == SOL
            self.failed_cost += side.fee
            self.other += side.through + side.fee
        elif side.kind in TRADES:
            self._add_trade(booked, money)
        else:
            self._add_other(booked, money)

    def _add_trade(self, booked: Booked, money: str) -> None:
        if not booked.counts:
            return
        result, status = booked.result or 0, booked.status
        is_against = booked.side.kind in AGAINST
        if is_against:
            self.volume += abs(booked.side.through)
        if money == SOL:
            self.trades += 1
            self.carried += booked.carried
        elif is_against:
            self.trades += 1
            self.fee_lamports += booked.entry.fee + booked.entry.tip
            self.cross_sells += PAID_ELSEWHERE in booked.flags
        if INCOMPLETE in booked.flags:
            return
        self.matched += status == "matched"
        self.partial += status == "partial"
        self.unmatched += status == "unmatched"
        self.realized += result
        self.cost += booked.cost or 0
        self.proceeds += booked.proceeds or 0
        self.winning += result > 0
        self.unmatched_proceeds += booked.unmatched_proceeds

    def _add_other(self, booked: Booked, money: str) -> None:
        side = booked.side
        costs = side.fee + side.tip
        self.overhead += costs
        if money == SOL:
            self.carried += booked.carried
        if side.kind in TRANSFERS:
            self._transfer(side.through + costs)
        else:
            self.other += side.through + costs

    def _transfer(self, lamports: int) -> None:
        if lamports > 0:
            self.received += lamports
        else:
            self.sent -= lamports

    @property
    def difference(self) -> int:
        """The amount that the items don't explain; 0 if no transaction is missing."""
        explained = (
            *(self.realized, self.unmatched_proceeds, -self.open_cost, -self.cost_left),
            *(self.received, -self.sent, -self.overhead, -self.failed_cost, self.other),
        )
        return self.closing - self.opening - sum(explained)

    @property
    def imbalance(self) -> int:
        """The difference minus the amount that gaps moved. Anything but 0 is a bug."""
        return self.difference - self.gaps


# ---- drawdown ------------------------------------------------------------------------------------
HOURS_A_DAY = 24


def find_drawdown(changes: Iterable[int]) -> int:
    high = drawdown = 0
    for realized in accumulate(changes):
        high = max(high, realized)
        drawdown = max(drawdown, high - realized)
    return drawdown


@dataclass(slots=True)
class Fall:
    """The deepest fall of a sum by the hour. `high` and `drawdown` exclude the latest."""

    hour: int = 0
    realized: int = 0
    high: int = 0
    drawdown: int = 0

    def follow(self, realized: int, hour: int) -> tuple[int, int]:
        """Return (peak, deepest fall). Hours never decrease."""
        if hour != self.hour:
            self.high, self.drawdown = self._measure()
            self.hour = hour
        self.realized = realized
        return self._measure()

    def _measure(self) -> tuple[int, int]:
        return max(self.high, self.realized), max(self.drawdown, self.high - self.realized)


def round_down(seconds: int) -> int:
    """Round down to two significant digits: 3,725 s become 3,700 s."""
    if seconds < 100:
        return seconds
    unit = int(f"1{'0' * (len(str(seconds)) - 2)}")
    return seconds - seconds % unit


# ---- sums of a window ----------------------------------------------------------------------------
# A result comes mostly from one token if that token's result exceeds four fifths of it.
ONE_TOKEN, FLAT_ROUND_TRIPS = "one_token", "flat_round_trips"
MIN_FLAT_PAIRS = 10


class Sums(NamedTuple):
    """The columns of `running_total`: counts, and raw units of a currency.

    Only SOL has `failed` to `overhead` and `carried`. Only stablecoins have `fee_lamports` and
    `cross_sells` (paid elsewhere). `cost` and `proceeds` are totals for sold units of known cost.
    `open_cost` is the known cost of current holdings. `days` is the number of UTC days with a
    trade. `flat_pairs` is explained at Churn. `ended` and `ended_won` count closed
    positions. `held`, `held_sold` and `held_won` count open positions (Positions).
    """

    realized: int = 0
    cost: int = 0
    proceeds: int = 0
    volume: int = 0
    trades: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    failed: int = 0
    failed_cost: int = 0
    overhead: int = 0
    cost_left: int = 0
    cost_left_receipts: int = 0
    carried: int = 0
    fee_lamports: int = 0
    cross_sells: int = 0
    open_cost: int = 0
    days: int = 0
    flat_pairs: int = 0
    ended: int = 0
    ended_won: int = 0
    held: int = 0
    held_sold: int = 0
    held_won: int = 0

    def minus(self, before: "Sums") -> "Sums":
        """Return the change since `before`. Currently open positions count in every window."""
        changed = Sums._make(map(sub, self, before))
        return changed._replace(held=self.held, held_sold=self.held_sold, held_won=self.held_won)

    def give_up(self) -> "Sums":
        """Return the sums after a disconnect: everything still held counts as moved out unsold."""
        return self._replace(
            cost_left=self.cost_left + self.open_cost,
            open_cost=0,
            ended=self.positions,
            ended_won=self.positions_won,
            held=0,
            held_sold=0,
            held_won=0,
        )

    @property
    def positions(self) -> int:
        return self.ended + self.held_sold

    @property
    def positions_won(self) -> int:
        return self.ended_won + self.held_won

    @property
    def worst_case(self) -> int:
        """The result if unsold tokens are worthless. In a window, only added cost counts."""
        return self.realized - self.cost_left - max(0, self.open_cost)

    @property
    def return_points(self) -> int | None:
        """Return on the cost of sold units, in hundredths of a percent, or None without a cost."""
        return divide(10_000 * (self.proceeds - self.cost), self.cost) if self.cost > 0 else None

    @property
    def win_points(self) -> int | None:
        """Win rate in hundredths of a percent, or None if no position had a sale."""
        return divide(10_000 * self.positions_won, self.positions) if self.positions else None


NOTHING = Sums()


def add_up(parts: Iterable[Sums]) -> Sums:
    listed = list(parts)
    return Sums(*map(sum, zip(*listed, strict=True))) if listed else NOTHING


def divide(number: int, by: int) -> int:
    """Divide, rounding to nearest and halves away from zero. `by` is positive."""
    quotient = (2 * abs(number) + by) // (2 * by)
    return quotient if number >= 0 else -quotient


def list_signs(sums: Sums, best_token: int) -> list[str]:
    """Return warning signs about a result. They don't affect the rank."""
    signs = []
    if sums.realized > 0 and best_token * 5 > sums.realized * 4:
        signs.append(ONE_TOKEN)
    if sums.flat_pairs >= MIN_FLAT_PAIRS:
        signs.append(FLAT_ROUND_TRIPS)
    return signs


# ---- positions -----------------------------------------------------------------------------------
# A position is closed when less than this percentage of its peak is left.
MIN_LEFT_PERCENT = 1


@dataclass(slots=True)
class OpenPosition:
    """An open position in a view.

    Amounts are raw units of a currency, `began` is in Unix seconds. `cost` is its whole known cost.
    `proceeds` are those of its sales so far, without units of unknown cost. `result` is that of its
    sales, minus the known cost that left without a sale. `peak` is the most units of known cost
    that it had.
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
    open: dict[str, OpenPosition] = field(default_factory=dict)
    _ends: tuple[int, ...] = ()
    # Whether it has unwritten changes.
    is_changed: bool = False

    def follow(self, booked: Booked | None, known: KnownCost, time: int | None) -> None:
        """`booked` is None if the entry doesn't count in this view. `time`: Unix seconds."""
        if booked and booked.side.kind == "round_trip" and booked.result is not None:
            # It was bought and sold in one transaction. Other units of the token don't matter.
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
        position = self.open.get(mint)
        if position is None:
            return
        held = known.held.get(mint)
        units = held.units if held else 0
        position.peak = max(position.peak, units)
        if not units or units * 100 < position.peak * MIN_LEFT_PERCENT:
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
        results = [*self._ends, *(one.result for one in self.open.values() if one.is_sold)]
        return (max(results), min(results)) if results else None


# ---- views ---------------------------------------------------------------------------------------
ALL_HISTORY = 0
Key = tuple[str, int]
HOUR_SECONDS, HOUR_MS = 3_600, 3_600_000
PAIR_SECONDS = 60


class Span(NamedTuple):
    """An attachment, in UTC ms. The end is None if it is open."""

    number: int
    begins_ms: int
    ends_ms: int | None


class Holdings(NamedTuple):
    """Tokens of known cost still held, and the lamports realized."""

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
    """Totals in a currency and view. `open_cost` is what the worst case counts as lost."""

    totals: Totals = field(default_factory=Totals)
    positions: Positions = field(default_factory=Positions)
    tokens: defaultdict[str, TokenResult] = field(default_factory=lambda: defaultdict(TokenResult))
    token_rows: dict[str, TokenResult] = field(default_factory=dict)
    open_cost: int = 0
    days: int = 0
    churn: Churn = field(default_factory=Churn)
    _last_day: int | None = None

    def add(self, booked: Booked, money: str, hour: int) -> None:
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


# Returns the number of tokens whose known cost dates from a time (UTC ms) or later.
Count = Callable[[int], int]


@dataclass
class Spans:
    """Attachments, by the latest time. Older entries don't count in any of them."""

    spans: tuple[Span, ...] = ()
    now_ms: int = 0
    open: Span | None = None
    _held: dict[int, int] = field(default_factory=dict)
    _begun: int = 0

    def turn(self, entry: Entry, count: Count) -> None:
        """Close and open spans up to the latest time. `count` is the count before this entry."""
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
        """Return the number of tokens held by span id."""
        held = {span.number: self._held.get(span.number, 0) for span in self.spans}
        if self.open:
            held[self.open.number] = count(self.open.begins_ms)
        return held
