"""Where the lines of a chart go: numbers to points in a box, drawn by the templates as inline SVG.
Pure; whole numbers in, coordinates out.
"""

from dataclasses import dataclass

# of the drawing, in its own units; the page stretches it
WIDTH, HEIGHT, BARS, STRIP = (
    600,
    160,
    48,
    60,
)
MAX_POINTS = 60
DAY = 86_400


@dataclass(frozen=True)
class Stretch:
    """Some days of a wallet, added up: lamports and counts. `begins`, `ends`: Unix seconds;
    `total`: realised so far.
    """

    begins: int
    ends: int
    realized: int
    volume: int
    trades: int
    sells: int
    total: int


@dataclass(frozen=True)
class Curve:
    """A step line of what was realised, bars of what was moved. `zero`: where nothing was realised;
    `top`, `bottom`: lamports at the edges.
    """

    # points of a polyline
    line: str
    # [(x, y, width, height), ...]
    bars: list
    zero: float
    top: int
    bottom: int


@dataclass(frozen=True)
class Mark:
    """One trade on a token's time line: above the middle it was bought, below it was sold; the
    longer, the more SOL.
    """

    x: float
    y: float
    height: float
    side: str


def book_stretches(days):
    """[(day, realised, volume, trades, sells), ...] in order -> [Stretch], at most MAX_POINTS,
    each of equally many days.
    """
    if not days:
        return []
    first, count = days[0][0], days[-1][0] - days[0][0] + 1
    size = -(-count // MAX_POINTS)
    sums = {}
    for day, *values in days:
        place = (day - first) // size
        sums[place] = [a + b for a, b in zip(sums.get(place, (0, 0, 0, 0)), values, strict=True)]
    stretches, total = [], 0
    for place in range(-(-count // size)):
        values = sums.get(place, (0, 0, 0, 0))
        total += values[0]
        stretches.append(
            Stretch(
                (first + place * size) * DAY, (first + (place + 1) * size) * DAY, *values, total
            )
        )
    return stretches


def draw_curve(stretches):
    """A Curve over [Stretch]; None where there is nothing to draw."""
    if not stretches:
        return None
    top, bottom = max(0, *(s.total for s in stretches)), min(0, *(s.total for s in stretches))
    high, most, step = (
        (top - bottom) or 1,
        max(s.volume for s in stretches) or 1,
        WIDTH / len(stretches),
    )
    points, y = [(0, _height(0, top, high))], _height(0, top, high)
    for n, stretch in enumerate(stretches):
        points += [(n * step, y), (n * step, y := _height(stretch.total, top, high))]
    points.append((WIDTH, y))
    heights = [BARS * stretch.volume / most for stretch in stretches]
    bars = [
        (
            round((n + 0.15) * step, 2),
            round(BARS - height, 2),
            round(0.7 * step, 2),
            round(height, 2),
        )
        for n, height in enumerate(heights)
    ]
    return Curve(
        " ".join(f"{x:.2f},{y:.2f}" for x, y in points),
        bars,
        round(_height(0, top, high), 2),
        top,
        bottom,
    )


def draw_line(points):
    """[(ms, lamports), ...] in order -> a Curve without bars, its axis from the lowest to the
    highest; `zero` is where it began. None for fewer than two points.
    """
    if len(points) < 2:
        return None
    values = [value for _, value in points]
    top, bottom, first, span = (
        max(values),
        min(values),
        points[0][0],
        (points[-1][0] - points[0][0]) or 1,
    )
    high = (top - bottom) or 1
    line = " ".join(
        f"{WIDTH * (at - first) / span:.2f},{_height(value, top, high):.2f}" for at, value in points
    )
    return Curve(line, [], round(_height(values[0], top, high), 2), top, bottom)


def _height(value, top, high):
    """Down from the upper edge, a little inside it so that the line is not cut."""
    return 2 + (HEIGHT - 4) * (top - value) / high


def draw_marks(trades):
    """[(Unix seconds, side, lamports), ...] -> [Mark], oldest left."""
    if not trades:
        return []
    first, most = (
        min(at for at, _, _ in trades),
        max(abs(lamports) for _, _, lamports in trades) or 1,
    )
    span = (max(at for at, _, _ in trades) - first) or 1
    return [
        _draw_mark(WIDTH * 0.01 + WIDTH * 0.98 * (at - first) / span, side, abs(lamports) / most)
        for at, side, lamports in sorted(trades)
    ]


def _draw_mark(x, side, share):
    height = round(4 + (STRIP / 2 - 6) * share, 2)
    return Mark(
        round(x, 2), round(STRIP / 2 - height, 2) if side == "buy" else STRIP / 2, height, side
    )
