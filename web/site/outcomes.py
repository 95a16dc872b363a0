"""How single sales and days went, as bars and squares: the histogram and the calendar."""

from collections.abc import Sequence
from typing import NamedTuple

from web.site.axes import BOTTOM, DAY_SECONDS
from web.site.charts import find_side


# ---- how single sales went -----------------------------------------------------------------------
class Bucket(NamedTuple):
    """Sales whose return lies in a range, and their bar; `middle` is of its width."""

    label: str
    side: str
    sales: int
    x: float
    middle: float
    y: float
    height: float


BUCKET_WIDTH, BUCKET_GAP, TALLEST = 11.1, 1.2, 78.0


# Upper edges in percent of the cost, and what is said of what lies below them.
RETURNS = (
    (-50, "lost over 50%"),
    (-25, "lost 25% to 50%"),
    (-10, "lost 10% to 25%"),
    (0, "lost up to 10%"),
    (10, "gained up to 10%"),
    (25, "gained 10% to 25%"),
    (50, "gained 25% to 50%"),
    (100, "gained 50% to 100%"),
    (None, "gained over 100%"),
)
# The place of the first that is no loss.
FIRST_GAIN = 4


def group_returns(sales: Sequence[tuple[int, int]]) -> list[Bucket]:
    """Count sales by their return. `sales`: result and cost of each, in lamports."""
    counts = [0] * len(RETURNS)
    for result, cost in sales:
        counts[_find_bucket(result, cost)] += 1
    most = max(counts) or 1
    return [
        _draw_bucket(n, label, counts[n], TALLEST * counts[n] / most)
        for n, (_, label) in enumerate(RETURNS)
    ]


def _draw_bucket(n: int, label: str, count: int, height: float) -> Bucket:
    x, middle = round(n * BUCKET_WIDTH + BUCKET_GAP / 2, 2), round((n + 0.5) * BUCKET_WIDTH, 2)
    side = "down" if n < FIRST_GAIN else "up"
    return Bucket(label, side, count, x, middle, round(BOTTOM - height, 2), round(height, 2))


def _find_bucket(result: int, cost: int) -> int:
    """Return the place in RETURNS; what was neither won nor lost counts as a gain of nothing."""
    for n, (edge, _) in enumerate(RETURNS):
        is_below = edge is not None and 100 * result < edge * cost
        if edge is None or is_below or (edge == 0 and result < 0):
            return n
    raise AssertionError("the last bucket has no edge")


# ---- the calendar --------------------------------------------------------------------------------
class CalendarDay(NamedTuple):
    """A day of the calendar: weeks from left to right, weekdays from Monday down. `x`, `y`: the
    middle of its square; `strength`: 0 for nothing, to 3 for the most.
    """

    at: int
    x: int
    y: int
    side: str
    strength: int
    realized: int
    trades: int


CALENDAR_DAYS = 30
CALENDAR_COLUMN, CALENDAR_ROW = 28, 24


def draw_calendar(results: dict[int, tuple[int, int]], today: int) -> list[CalendarDay]:
    """Lay out the last CALENDAR_DAYS days. `results`: {day: (lamports, trades)}, with days since
    1970; `today`: the last of them.
    """
    days = range(today - CALENDAR_DAYS + 1, today + 1)
    most = max((abs(results.get(day, (0, 0))[0]) for day in days), default=0) or 1
    # 1970 began on a Thursday.
    first_week = (days[0] + 3) // 7
    return [
        _draw_day(day, (day + 3) // 7 - first_week, *results.get(day, (0, 0)), most) for day in days
    ]


def _draw_day(day: int, column: int, realized: int, trades: int, most: int) -> CalendarDay:
    x = column * CALENDAR_COLUMN + CALENDAR_COLUMN // 2
    y = (day + 3) % 7 * CALENDAR_ROW + CALENDAR_ROW // 2
    strength = -(-3 * abs(realized) // most)
    return CalendarDay(day * DAY_SECONDS, x, y, find_side(realized), strength, realized, trades)
