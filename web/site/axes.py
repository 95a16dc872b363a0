"""Axes of charts, pure: the times below a drawing and the amounts beside it.

Coordinates are percent of the drawing, so that it stretches while its words do not.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from chain.amounts import sol
from web.site.figures import write_tokens

# Curves stay between these heights: above is air, below stand the dates.
TOP, BOTTOM = 5.0, 88.0
MAX_LEVELS, MAX_DATES = 4, 5
MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3_600, 86_400
# Seconds between two dates of an axis.
DATE_STEPS = (
    *(MINUTE_SECONDS * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(HOUR_SECONDS * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY_SECONDS * days for days in (1, 2, 3, 7, 14, 30, 60, 120, 365, 730)),
)
# Lamports between two amounts of an axis: 1, 2, 5, 10...
ROUND_AMOUNTS = [factor * int("1" + power * "0") for power in range(20) for factor in (1, 2, 5)]
# Of the width of a drawing on a screen of 320 pixels: what a character of a date takes, the room
# between two dates, and how far one may reach out of the drawing.
CHARACTER_WIDTH, DATE_GAP, DATE_EXCESS = 2.6, 3.0, 2.0


class Tick(NamedTuple):
    """A date below a curve, or an amount beside it. `at`: its place; `anchor`: start | middle |
    end; `hour`: the Unix seconds of a time of day, which a script writes in the reader's zone.
    """

    at: float
    label: str
    anchor: str = "middle"
    hour: int | None = None


class Axis(NamedTuple):
    """Time from left to right, in Unix seconds."""

    begins: int
    ends: int

    def find_x(self, at: int) -> float:
        """Return the place of a time; what lies outside stands at the edge."""
        x = 100 * (at - self.begins) / ((self.ends - self.begins) or 1)
        return round(min(100.0, max(0.0, x)), 2)


class Scale(NamedTuple):
    """Lamports from the top down to the bottom, between two heights."""

    top: int
    bottom: int
    high: float = TOP
    low: float = BOTTOM

    def find_y(self, lamports: int) -> float:
        """Return the height of an amount; the middle, where all amounts are the same."""
        height = self.top - self.bottom
        share = (self.top - lamports) / height if height else 0.5
        return round(self.high + (self.low - self.high) * share, 2)


def write_gain(lamports: int) -> str:
    """Write what was gained or lost, with its sign."""
    return write_tokens(sol(lamports), sign=True)


def list_levels(
    scale: Scale, base: int = 0, write: Callable[[int], str] = write_gain
) -> list[Tick]:
    """List round amounts that lie on the scale, the base among them."""
    size = _find_size(scale.top - scale.bottom)
    first, last = -(-(scale.bottom - base) // size), (scale.top - base) // size
    return [
        Tick(scale.find_y(base + n * size), write(base + n * size)) for n in range(first, last + 1)
    ]


def _find_size(height: int) -> int:
    """Return the smallest of 1, 2, 5, 10... lamports that cuts a height into few pieces."""
    return next(size for size in ROUND_AMOUNTS if size * MAX_LEVELS >= height)


def list_dates(axis: Axis) -> list[Tick]:
    """List full minutes, hours or days on an axis, at most MAX_DATES and one, none too close to
    another on a phone. The first time has its date, where that of the next day leaves room for it.
    """
    duration = axis.ends - axis.begins
    size = next((one for one in DATE_STEPS if one * MAX_DATES >= duration), DATE_STEPS[-1])
    times = range(-(-axis.begins // size) * size, axis.ends + 1, size)[: MAX_DATES + 1]
    ticks = [_draw_date(axis, at, "%b %-d" if _is_date(at, size) else "%H:%M") for at in times]
    if times and not _is_date(times[0], size):
        first = _draw_date(axis, times[0], "%b %-d %H:%M")
        midnight = next((one for one in ticks if _tells_day(one)), None)
        if midnight is None or _are_apart(first, midnight):
            ticks[0] = first
    return _thin_out(ticks)


def _is_date(at: int, size: int) -> bool:
    return size >= DAY_SECONDS or at % DAY_SECONDS == 0


def _draw_date(axis: Axis, at: int, pattern: str) -> Tick:
    x, text = axis.find_x(at), _write_time(at, pattern)
    room = len(text) * CHARACTER_WIDTH / 2 - DATE_EXCESS
    anchor = "start" if x < room else "end" if x > 100 - room else "middle"
    return Tick(x, text, anchor, at if ":" in text else None)


def _thin_out(ticks: Sequence[Tick]) -> list[Tick]:
    """Leave out what stands too close to the one before; of a day and a time, the time."""
    kept: list[Tick] = []
    for one in ticks:
        if kept and not _are_apart(kept[-1], one):
            if not _tells_day(one) or _tells_day(kept[-1]):
                continue
            kept.pop()
        kept.append(one)
    return kept


def _tells_day(tick: Tick) -> bool:
    return ":" not in tick.label


def _are_apart(left: Tick, right: Tick) -> bool:
    return _find_edges(right)[0] - _find_edges(left)[1] >= DATE_GAP


def _find_edges(tick: Tick) -> tuple[float, float]:
    """Where a date begins and ends on a narrow screen, in percent of the width."""
    width = len(tick.label) * CHARACTER_WIDTH
    left = tick.at - {"start": 0.0, "middle": width / 2, "end": width}[tick.anchor]
    return left, left + width


def _write_time(at: int, pattern: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(pattern)
