"""The risk of realized results, in lamports, seconds and counts of sales with a result. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.ledger.lots import find_lower_median
from chain.ledger.sales import Booked
from chain.reading.kinds import TRADES

HOURS_A_DAY = 24


class Period(NamedTuple):
    """`hours` of UTC time from the hour `begins` on, counted from 1970; 0 hours: all time."""

    hours: int
    begins: int


ALL = Period(0, 0)


def find_drawdown(changes: Iterable[int]) -> int:
    """The deepest fall of a sum that begins at 0, from its highest."""
    realized = high = drawdown = 0
    for change in changes:
        realized += change
        if realized > high:
            high = realized
        elif high - realized > drawdown:
            drawdown = high - realized
    return drawdown


@dataclass(slots=True)
class Fall:
    """The deepest fall of a sum by the hour. `high`, `drawdown`: before the latest hour."""

    hour: int = 0
    realized: int = 0
    high: int = 0
    drawdown: int = 0

    def follow(self, realized: int, hour: int) -> tuple[int, int]:
        """Take the sum so far in an hour, which never falls; return (highest, deepest fall)."""
        if hour != self.hour:
            self.high, self.drawdown = self._measure()
            self.hour = hour
        self.realized = realized
        return self._measure()

    def _measure(self) -> tuple[int, int]:
        return max(self.high, self.realized), max(self.drawdown, self.high - self.realized)


@dataclass(slots=True)
class Stretch:
    """Sales and positions in a stretch of time.

    `best`, `worst`: results; `closed`: positions from empty to empty that count, `won` with a gain,
    `uncounted`: that don't count; `days`: UTC days with a trade; `holdings`: sales by seconds held
    (round_down).
    """

    sales: int = 0
    winning: int = 0
    best: int | None = None
    worst: int | None = None
    closed: int = 0
    won: int = 0
    uncounted: int = 0
    days: int = 0
    first_day: int | None = None
    last_day: int | None = None
    holdings: dict[int, int] = field(default_factory=dict)

    @property
    def median_holding(self) -> int | None:
        """Seconds; of an even number of sales the lower of the two in the middle."""
        return find_lower_median(sorted(self.holdings.items()))

    def add(self, later: "Stretch") -> None:
        self.closed += later.closed
        self.won += later.won
        self.uncounted += later.uncounted
        self.sales += later.sales
        self.winning += later.winning
        self.best = pick(max, self.best, later.best)
        self.worst = pick(min, self.worst, later.worst)
        for seconds, count in later.holdings.items():
            self.holdings[seconds] = self.holdings.get(seconds, 0) + count
        if later.first_day is not None:
            self.days += later.days - (later.first_day == self.last_day)
            self.first_day = later.first_day if self.first_day is None else self.first_day
            self.last_day = later.last_day

    # Added one by one, without a Stretch of their own: a rebuild adds each of them to six.
    def add_sale(self, result: int, held: int | None) -> None:
        """`result` in lamports; `held`: seconds (round_down), None if unknown."""
        self.sales += 1
        self.winning += result > 0
        if self.best is None or result > self.best:
            self.best = result
        if self.worst is None or result < self.worst:
            self.worst = result
        if held is not None:
            self.holdings[held] = self.holdings.get(held, 0) + 1

    def add_position(self, ended: "PositionSoFar") -> None:
        counts = ended.sold and not ended.unknown
        self.closed += counts
        self.won += counts and ended.result > 0
        self.uncounted += not counts

    def add_day(self, day: int) -> None:
        """No day may be earlier than one added before."""
        self.days += day != self.last_day
        self.first_day = day if self.first_day is None else self.first_day
        self.last_day = day


def pick(choose: Callable[[Iterable[int]], int], *values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def join_stretches(parts: Iterable[Stretch]) -> Stretch:
    joined = Stretch()
    for part in parts:
        joined.add(part)
    return joined


def round_down(seconds: int) -> int:
    """Round down to two significant digits: 3,725 s are 3,700 s."""
    if seconds < 100:
        return seconds
    unit = int(f"1{'0' * (len(str(seconds)) - 2)}")
    return seconds - seconds % unit


@dataclass(slots=True)
class PositionSoFar:
    """`result`: of its sales less the known cost of what left without one, in lamports."""

    result: int = 0
    # a sale of known cost
    sold: bool = False
    # a sale of which no cost, or only a part, is known
    unknown: bool = False


@dataclass(slots=True)
class TokenResult:
    """What the sales of a token earned: lamports and counts."""

    realized: int = 0
    sales: int = 0
    winning: int = 0


@dataclass
class RiskBook:
    """`rows` and `token_rows` hold what is not written yet."""

    positions: defaultdict[str, PositionSoFar] = field(
        default_factory=lambda: defaultdict(PositionSoFar)
    )
    tokens: defaultdict[str, TokenResult] = field(default_factory=lambda: defaultdict(TokenResult))
    rows: dict[Period, Stretch] = field(default_factory=dict)
    token_rows: dict[str, TokenResult] = field(default_factory=dict)
    # the stretches that the latest hour is in
    _present: dict[Period, Stretch] = field(default_factory=dict)
    _hour: int | None = None

    def add(self, booked: Booked, hour: int) -> None:
        """Count one booked transaction in; `hour`, counted from 1970, never falls."""
        entry, result = booked.entry, booked.result
        is_dated = booked.side.kind in TRADES and booked.counts and entry.block_time is not None
        ended = self._follow_positions(booked)
        if result is None and not is_dated and not ended:
            return
        day = hour // HOURS_A_DAY
        held = None if booked.holding is None else round_down(booked.holding)
        if result is not None and booked.sold is not None:
            self._count_token(booked.sold, result)
        for stretch in self._list_stretches(hour):
            if result is not None:
                stretch.add_sale(result, held)
            for position in ended:
                stretch.add_position(position)
            if is_dated and stretch.last_day != day:
                stretch.add_day(day)

    def _list_stretches(self, hour: int) -> Iterable[Stretch]:
        """All time, the day and the hour; they are to be written."""
        if hour != self._hour:
            self._hour = hour
            periods = ALL, Period(HOURS_A_DAY, hour - hour % HOURS_A_DAY), Period(1, hour)
            self._present = {one: self._present.get(one) or Stretch() for one in periods}
        self.rows |= self._present
        return self._present.values()

    def skip(self, booked: Booked) -> None:
        """Follow a transaction that counts for nothing, nor do positions it sold from."""
        if booked.sold and booked.entry.kind != "round_trip":
            self.positions[booked.sold].unknown = True
        for mint in booked.emptied:
            self.positions.pop(mint, None)

    def _follow_positions(self, booked: Booked) -> list[PositionSoFar]:
        """Return the positions that end with it."""
        ended = []
        if booked.entry.kind == "round_trip" and booked.result is not None:
            # From empty to empty in one transaction, apart from what else is held of the token.
            ended.append(PositionSoFar(booked.result, sold=True))
        elif booked.sold:
            position = self.positions[booked.sold]
            position.result += booked.result or 0
            position.sold = position.sold or booked.status == "matched"
            position.unknown = position.unknown or booked.status != "matched"
        for mint, cost in booked.left:
            self.positions[mint].result -= cost
        if booked.emptied:
            ended += [self.positions.pop(one) for one in booked.emptied if one in self.positions]
        return ended

    def _count_token(self, mint: str, result: int) -> None:
        token = self.token_rows[mint] = self.tokens[mint]
        token.realized += result
        token.sales += 1
        token.winning += result > 0
