"""Chart geometry, pure: amounts become coordinates, which the templates draw as inline SVG."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from web.api.paper import EquityPoint
from web.api.queries import DayTotals

# In units of the drawing, which the page stretches; the templates' viewBox repeats them.
WIDTH, LINE_HEIGHT, BARS_HEIGHT, STRIP_HEIGHT = 600, 160, 48, 60
# Keeps half of a line at the very edge from being cut off.
MARGIN = 2
MAX_INTERVALS = 60
DAY_SECONDS = 86_400


class Interval(NamedTuple):
    """Consecutive days of a wallet added up, in lamports and counts.

    `begins`, `ends`: Unix seconds; `sells`: sales with a result; `total`: realized PnL up to the
    end.
    """

    begins: int
    ends: int
    realized: int
    volume: int
    trades: int
    sells: int
    total: int


class Bar(NamedTuple):
    """A bar of the volume chart: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Curve(NamedTuple):
    """A line and the bars below it.

    `line`: the `points` of a polyline; `zero`: the height of the zero line, or of the first value
    where there is no zero; `top`, `bottom`: lamports at the edges of the scale.
    """

    line: str
    bars: list[Bar]
    zero: float
    top: int
    bottom: int


class TimedTrade(NamedTuple):
    """A purchase or sale of a token. `at`: Unix seconds; `side`: buy | sell."""

    at: int
    side: str
    lamports: int


class Mark(NamedTuple):
    """A trade on a token's timeline: above the middle for a purchase, below it for a sale; its
    height grows with the SOL that moved.
    """

    x: float
    y: float
    height: float
    side: str


class Timeline(NamedTuple):
    """The trades of a token, the oldest at the left. `begins`, `ends`: Unix seconds."""

    marks: list[Mark]
    begins: int
    ends: int


class Scale(NamedTuple):
    """The vertical axis of a line chart. `top`, `bottom`: lamports at its edges."""

    top: int
    bottom: int

    def find_y(self, lamports: int) -> float:
        """Return the distance of a value from the upper edge of the box."""
        height = (self.top - self.bottom) or 1
        return MARGIN + (LINE_HEIGHT - 2 * MARGIN) * (self.top - lamports) / height


# ---- the curve of a wallet -----------------------------------------------------------------------
def group_days(days: Sequence[DayTotals]) -> list[Interval]:
    """Add days, given in order, up to at most MAX_INTERVALS intervals of equally many days."""
    if not days:
        return []
    first, count = days[0].day, days[-1].day - days[0].day + 1
    size = -(-count // MAX_INTERVALS)
    groups = {
        index: list(group)
        for index, group in itertools.groupby(days, lambda one: (one.day - first) // size)
    }
    intervals: list[Interval] = []
    for index in range(-(-count // size)):
        total = intervals[-1].total if intervals else 0
        intervals.append(_sum_up(groups.get(index, []), first + index * size, size, total))
    return intervals


def _sum_up(days: Sequence[DayTotals], first: int, size: int, total: int) -> Interval:
    realized = sum(one.realized for one in days)
    return Interval(
        first * DAY_SECONDS,
        (first + size) * DAY_SECONDS,
        realized,
        sum(one.volume for one in days),
        sum(one.trades for one in days),
        sum(one.sells for one in days),
        total + realized,
    )


def draw_curve(intervals: Sequence[Interval]) -> Curve | None:
    """Draw realized PnL as a step line and volume as bars; None where there is nothing to draw."""
    if not intervals:
        return None
    totals = [one.total for one in intervals]
    scale, step = Scale(max(0, *totals), min(0, *totals)), WIDTH / len(intervals)
    y = zero = scale.find_y(0)
    points = [(0.0, y)]
    for n, total in enumerate(totals):
        points += [(n * step, y), (n * step, y := scale.find_y(total))]
    points.append((WIDTH, y))
    bars = _draw_bars([one.volume for one in intervals], step)
    return Curve(_write_points(points), bars, round(zero, 2), scale.top, scale.bottom)


def _draw_bars(volumes: Sequence[int], step: float) -> list[Bar]:
    highest = max(volumes) or 1
    heights = [BARS_HEIGHT * volume / highest for volume in volumes]
    return [
        Bar(
            round((n + 0.15) * step, 2),
            round(BARS_HEIGHT - height, 2),
            round(0.7 * step, 2),
            round(height, 2),
        )
        for n, height in enumerate(heights)
    ]


# ---- the curve of a paper trader -----------------------------------------------------------------
def draw_equity(points: Sequence[EquityPoint]) -> Curve | None:
    """Draw points, given in order, over time; None for fewer than two."""
    if len(points) < 2:
        return None
    values = [point.lamports for point in points]
    scale, first = Scale(max(values), min(values)), points[0].at
    duration = (points[-1].at - first) or 1
    line = _write_points(
        [(WIDTH * (one.at - first) / duration, scale.find_y(one.lamports)) for one in points]
    )
    return Curve(line, [], round(scale.find_y(values[0]), 2), scale.top, scale.bottom)


def _write_points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


# ---- the trades of a token -----------------------------------------------------------------------
def draw_timeline(trades: Sequence[TimedTrade]) -> Timeline | None:
    """Draw the trades of a token, given in any order; None where there are none."""
    if not trades:
        return None
    begins, ends = min(trade.at for trade in trades), max(trade.at for trade in trades)
    duration = (ends - begins) or 1
    largest = max(abs(trade.lamports) for trade in trades) or 1
    marks = [
        _draw_mark(
            WIDTH * (0.01 + 0.98 * (trade.at - begins) / duration),
            trade.side,
            abs(trade.lamports) / largest,
        )
        for trade in sorted(trades)
    ]
    return Timeline(marks, begins, ends)


def _draw_mark(x: float, side: str, share: float) -> Mark:
    middle = STRIP_HEIGHT / 2
    height = round(4 + (middle - 6) * share, 2)
    return Mark(round(x, 2), round(middle - height, 2) if side == "buy" else middle, height, side)
