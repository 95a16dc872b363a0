"""Convert amounts and times to chart coordinates, which the templates draw as SVG. Pure.

Coordinates are percentages of the drawing, so that it can stretch without distorting its text.
"""

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple, TypeVar

from chain.amounts import sol
from web.site.figures import write_exact, write_tokens

SPARK_HEIGHT, SPARK_MARGIN = 20, 1.5
# As a share of the race's height.
LABEL_HEIGHT = 8.0
MAX_RACE_ROWS = 8
Point = TypeVar("Point")
# Curves stay between these heights, with space above and dates below.
TOP, BOTTOM = 5.0, 88.0
MAX_LEVELS, MAX_PRICE_LEVELS, MAX_DATES = 4, 6, 5
MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3_600, 86_400
# Possible seconds between dates on an axis.
DATE_STEPS = (
    *(MINUTE_SECONDS * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(HOUR_SECONDS * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY_SECONDS * days for days in (1, 2, 3, 7, 14, 30, 60, 120, 365, 730)),
)
# Prices are scaled to whole numbers for drawing.
PRICE_SCALE = 10**24
# The width of a character, the space between two dates, and how far a date may overhang, as
# percentages of a drawing's width on a 320-pixel screen.
CHARACTER_WIDTH, DATE_GAP, DATE_EXCESS = 2.6, 3.0, 2.0


class Tick(NamedTuple):
    """A date below a curve, or an amount next to it.

    `anchor`: start | middle | end. `hour` is the Unix second of a time of day, which a script
    formats in the reader's time zone.
    """

    at: float
    label: str
    anchor: str = "middle"
    hour: int | None = None


class Axis(NamedTuple):
    """The time from left to right, in Unix seconds."""

    begins: int
    ends: int

    def find_x(self, at: int) -> float:
        x = 100 * (at - self.begins) / ((self.ends - self.begins) or 1)
        return round(min(100.0, max(0.0, x)), 2)


class Scale(NamedTuple):
    """Maps lamports to heights, from top to bottom, between two heights."""

    top: int
    bottom: int
    high: float = TOP
    low: float = BOTTOM

    def find_y(self, lamports: int) -> float:
        """Return an amount's height, or the middle if all amounts are equal."""
        height = self.top - self.bottom
        share = (self.top - lamports) / height if height else 0.5
        return round(self.high + (self.low - self.high) * share, 2)


def write_gain(lamports: int) -> str:
    return write_tokens(sol(lamports), sign=True)


def list_levels(
    scale: Scale,
    base: int = 0,
    write: Callable[[int], str] = write_gain,
    most: int = MAX_LEVELS,
) -> list[Tick]:
    size = _find_size(scale.top - scale.bottom, most)
    first, last = -(-(scale.bottom - base) // size), (scale.top - base) // size
    return [
        Tick(scale.find_y(base + n * size), write(base + n * size)) for n in range(first, last + 1)
    ]


def _find_size(height: int, most: int) -> int:
    """Return the smallest step of 1, 2, 5, 10... that divides a height into up to `most` parts."""
    power = 1
    while 10 * power * most < height:
        power *= 10
    return next(n * power for n in (1, 2, 5, 10) if n * power * most >= height)


def list_dates(axis: Axis) -> list[Tick]:
    """List full minutes, hours or days on an axis: at most MAX_DATES plus one, spaced for a phone.

    The first time includes its date if there is room before the next day's date.
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
    return _keep_apart(ticks)


def _is_date(at: int, size: int) -> bool:
    return size >= DAY_SECONDS or at % DAY_SECONDS == 0


def _draw_date(axis: Axis, at: int, pattern: str) -> Tick:
    x, text = axis.find_x(at), _write_time(at, pattern)
    room = len(text) * CHARACTER_WIDTH / 2 - DATE_EXCESS
    anchor = "start" if x < room else "end" if x > 100 - room else "middle"
    return Tick(x, text, anchor, at if ":" in text else None)


def _keep_apart(ticks: Sequence[Tick]) -> list[Tick]:
    """Drop ticks that are too close to the previous one, and the time of a tick that has both."""
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
    width = len(tick.label) * CHARACTER_WIDTH
    left = tick.at - {"start": 0.0, "middle": width / 2, "end": width}[tick.anchor]
    return left, left + width


def _write_time(at: int, pattern: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(pattern)


class Step(NamedTuple):
    """An amount (`value`: lamports) from one Unix second to another."""

    begins: int
    ends: int
    value: int


class Run(NamedTuple):
    """A part of a curve on one side of zero, as the `d` attributes of paths.

    `side`: up | down | flat, or held, which is neither good nor bad.
    """

    side: str
    area: str
    line: str


class Mark(NamedTuple):
    """A trade on a curve.

    `kind`: buy | gain | loss | unknown (a sale with unknown cost, or a paid price) | part (a
    partial sale) | sold.
    """

    x: float
    y: float
    kind: str


class TimedTrade(NamedTuple):
    """A trade. `at` is in Unix seconds.

    `side` is a kind of Mark or, on a timeline, buy | sell | got | gave (in a swap for another
    token).
    """

    at: int
    side: str
    lamports: int


class Curve(NamedTuple):
    """A curve from `begins` to `ends` (Unix seconds).

    `zero` is the y coordinate of the baseline: the starting equity, or zero PnL.
    `total`: the lamports at its end.
    `gaps`: each with its x coordinate and its width.
    `connected`: when the wallet was connected to its bot.
    """

    runs: list[Run]
    zero: float
    levels: list[Tick]
    dates: list[Tick]
    gaps: list[tuple[float, float]]
    marks: list[Mark]
    connected: float | None
    begins: int
    ends: int
    total: int


def thin_out(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Return every nth point and the last one, so that about `most` are left."""
    chosen = points[:: -(-len(points) // most)]
    return chosen if chosen[-1] == points[-1] else [*chosen, points[-1]]


# ---- curves --------------------------------------------------------------------------------------
def make_steps(times: Sequence[int], values: Sequence[int]) -> list[Step]:
    """Return steps for samples in order. Each value applies from the previous time to its own."""
    return [
        Step(begins, ends, value)
        for (begins, ends), value in zip(itertools.pairwise(times), values[1:], strict=True)
    ]


def draw_curve(
    steps: Sequence[Step],
    base: int = 0,
    gaps: Sequence[tuple[int, int]] = (),
    trades: Sequence[TimedTrade] = (),
    connected_at: int | None = None,
    write_level: Callable[[int], str] = write_gain,
) -> Curve | None:
    """Draw steps, which must be in order. None without steps.

    `base`: the lamports that separate gain from loss. `gaps` and `connected_at` are in Unix
    seconds. `write_level` formats the amounts on the axis.
    """
    if not steps:
        return None
    values = [base, *(step.value for step in steps)]
    scale, axis = Scale(max(values), min(values)), Axis(steps[0].begins, steps[-1].ends)
    is_inside = connected_at is not None and axis.begins < connected_at < axis.ends
    return Curve(
        draw_runs(steps, base, axis, scale),
        scale.find_y(base),
        list_levels(scale, base, write_level),
        list_dates(axis),
        [_draw_gap(axis, *gap) for gap in gaps if gap[1] >= axis.begins and gap[0] <= axis.ends],
        [_draw_mark(one, steps, axis, scale) for one in trades if one.at >= axis.begins],
        axis.find_x(connected_at) if is_inside and connected_at is not None else None,
        axis.begins,
        axis.ends,
        steps[-1].value,
    )


def draw_runs(steps: Sequence[Step], base: int, axis: Axis, scale: Scale) -> list[Run]:
    """Split steps where they cross the base, so that a loss isn't drawn as a gain."""
    zero = scale.find_y(base)
    runs: list[Run] = []
    for side, group in itertools.groupby(steps, lambda step: find_side(step.value - base)):
        run = list(group)
        line = f"M{axis.find_x(run[0].begins):g} {zero:g}{draw_steps(run, axis, scale)}"
        runs.append(Run(side, f"{line}V{zero:g}", f"{line}V{zero:g}"))
    runs[-1] = runs[-1]._replace(line=runs[-1].line.rpartition("V")[0])
    return runs


def draw_steps(steps: Sequence[Step], axis: Axis, scale: Scale) -> str:
    return "".join(
        f"V{scale.find_y(value):g}H{axis.find_x(list(same)[-1].ends):g}"
        for value, same in itertools.groupby(steps, lambda step: step.value)
    )


def find_side(amount: int) -> str:
    return "up" if amount > 0 else "down" if amount < 0 else "flat"


def _draw_gap(axis: Axis, begins: int, ends: int) -> tuple[float, float]:
    x = axis.find_x(begins)
    # Keeps a gap within one block visible.
    return x, max(0.6, round(axis.find_x(ends) - x, 2))


def _draw_mark(trade: TimedTrade, steps: Sequence[Step], axis: Axis, scale: Scale) -> Mark:
    value = next((step.value for step in steps if trade.at < step.ends), steps[-1].value)
    return Mark(axis.find_x(trade.at), scale.find_y(value), trade.side)


# ---- prices --------------------------------------------------------------------------------------
class PricePoint(NamedTuple):
    """A price in SOL. `at` is in Unix seconds."""

    at: int
    price: Decimal


def scale_price(price: Decimal) -> int:
    return int(price * PRICE_SCALE)


def draw_path(quotes: Sequence[PricePoint], paid: Sequence[tuple[str, PricePoint]]) -> Curve | None:
    """Draw quotes in order, with fills by kind of mark. None for fewer than two quotes."""
    if len(quotes) < 2:
        return None
    prices = [scale_price(one.price) for one in quotes]
    every = [*prices, *(scale_price(one.price) for _, one in paid)]
    times = [one.at for one in quotes]
    axis, scale = Axis(times[0], times[-1]), Scale(max(every), min(every))
    ends = [*times[1:], times[-1]]
    steps = [Step(*one) for one in zip(times, ends, prices, strict=True)]
    line = f"M0 {scale.find_y(prices[0]):g}{draw_steps(steps, axis, scale)}"
    return Curve(
        [Run("flat", "", line)],
        scale.low,
        list_levels(scale, write=_write_price, most=MAX_PRICE_LEVELS),
        list_dates(axis),
        [],
        [Mark(axis.find_x(one.at), scale.find_y(scale_price(one.price)), k) for k, one in paid],
        None,
        axis.begins,
        axis.ends,
        prices[-1],
    )


def _write_price(scaled: int) -> str:
    return write_exact(Decimal(scaled) / PRICE_SCALE)


# ---- sparklines ----------------------------------------------------------------------------------
class Spark(NamedTuple):
    """A small curve. `zero` is the height of its start, `side` the direction of `change`."""

    runs: tuple[Run, ...]
    zero: float
    change: int
    side: str


def draw_spark(values: Sequence[int]) -> Spark | None:
    """Draw equally spaced samples as changes since the first. None for fewer than two."""
    if len(values) < 2:
        return None
    base = values[0]
    steps = [Step(n, n + 1, value) for n, value in enumerate(values[1:])]
    scale = Scale(max(values), min(values), SPARK_MARGIN, SPARK_HEIGHT - SPARK_MARGIN)
    runs = draw_runs(steps, base, Axis(0, len(steps)), scale)
    change = values[-1] - base
    return Spark(tuple(runs), scale.find_y(base), change, find_side(change))


# ---- the race ------------------------------------------------------------------------------------
class Runner(NamedTuple):
    """A bot in the race. `values`: its realized PnL in raw units at each sampled time."""

    name: str
    values: Sequence[int]
    is_partial: bool


class Lane(NamedTuple):
    """A bot's line in the race.

    `place`: from 1; `changes`: raw units since the start of the race, at each sampled time;
    `label_y`: the height of its label.
    """

    place: int
    name: str
    is_partial: bool
    changes: Sequence[int]
    path: str
    label_y: float


class Race(NamedTuple):
    """Realized PnL of several bots in a window, best first.

    `times`: sampled Unix seconds; `listed`: indexes of the bots in the table.
    """

    lanes: list[Lane]
    times: Sequence[int]
    listed: list[int]
    zero: float
    levels: list[Tick]
    dates: list[Tick]


def draw_race(
    times: Sequence[int],
    runners: Sequence[Runner],
    write_level: Callable[[int], str] = write_gain,
) -> Race | None:
    if not runners or len(times) < 2:
        return None
    changes = [[value - one.values[0] for value in one.values] for one in runners]
    every = list(itertools.chain(*changes))
    axis, scale = Axis(times[0], times[-1]), Scale(max(every), min(every))
    ordered = sorted(zip(runners, changes, strict=True), key=lambda pair: -pair[1][-1])
    heights = spread([scale.find_y(changed[-1]) for _, changed in ordered])
    lanes = [
        Lane(
            place,
            one.name,
            one.is_partial,
            changed,
            f"M0 {scale.find_y(0):g}{draw_steps(make_steps(times, changed), axis, scale)}",
            height,
        )
        for place, ((one, changed), height) in enumerate(zip(ordered, heights, strict=True), 1)
    ]
    listed = [n for n in thin_out(range(len(times)), MAX_RACE_ROWS) if n]
    levels = list_levels(scale, write=write_level)
    return Race(lanes, times, listed, scale.find_y(0), levels, list_dates(axis))


def spread(heights: Sequence[float]) -> list[float]:
    """Move labels, which are given from top to bottom, until they don't overlap."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LABEL_HEIGHT) if placed else height)
    # Labels below the bottom edge push the labels above them up.
    limit = BOTTOM
    for n in range(len(placed) - 1, -1, -1):
        placed[n] = round(min(placed[n], limit), 2)
        limit = placed[n] - LABEL_HEIGHT
    return placed


# ---- trades of one token -------------------------------------------------------------------------
class Timeline(NamedTuple):
    """A token's trades, with the oldest on the left. `begins` and `ends` are in Unix seconds."""

    bars: list["Bar"]
    dates: list[Tick]
    begins: int
    ends: int

    def count(self, *sides: str) -> int:
        return sum(bar.side in sides for bar in self.bars)


class Bar(NamedTuple):
    """A trade on a token's timeline. It is above the middle if the wallet received the token."""

    x: float
    y: float
    height: float
    side: str


def draw_timeline(trades: Sequence[TimedTrade]) -> Timeline | None:
    if not trades:
        return None
    axis = Axis(min(trade.at for trade in trades), max(trade.at for trade in trades))
    largest = max(abs(trade.lamports) for trade in trades) or 1
    bars = [
        _draw_bar(0.99 * axis.find_x(one.at), one.side, abs(one.lamports) / largest)
        for one in sorted(trades)
    ]
    return Timeline(bars, list_dates(axis), axis.begins, axis.ends)


def _draw_bar(x: float, side: str, share: float) -> Bar:
    middle = BOTTOM / 2
    height = round(4 + (middle - 6) * share, 2)
    top = round(middle - height, 2) if side in ("buy", "got") else middle
    return Bar(round(x, 2), top, height, side)
