"""The geometry of a close's price path, pure: quotes over time, and fills at what they paid."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from web.site.axes import Axis, Scale, Tick, list_dates
from web.site.charts import thin_out

# Whole numbers stand for prices while they are drawn.
PRICE_SCALE = 10**24
MAX_LEVELS = 6
# Of more quotes than these every nth is drawn.
MAX_DRAWN = 120


class PricePoint(NamedTuple):
    """A price in SOL. `at`: Unix seconds."""

    at: int
    price: Decimal


class PaidMark(NamedTuple):
    """A fill at the price it paid. `kind`: bought | part (sold of it) | sold."""

    x: float
    y: float
    kind: str


class PricePath(NamedTuple):
    """Quotes, each of which holds until the next. `line`: the `d` of a path; `drawn`: the quotes
    that are shown, in order; `begins`, `ends`: Unix seconds; `bought`, `sold`: what the first
    purchase and the last sale paid, None without one.
    """

    line: str
    levels: list[Tick]
    dates: list[Tick]
    marks: list[PaidMark]
    drawn: Sequence[PricePoint]
    begins: int
    ends: int
    bought: Decimal | None
    sold: Decimal | None


def draw_path(
    quotes: Sequence[PricePoint],
    bought: Sequence[PricePoint],
    sold: Sequence[PricePoint],
    closed_at: int,
) -> PricePath | None:
    """Draw quotes, given in order, with fills; None for fewer than two quotes. `closed_at`: Unix
    seconds; what was sold before was a part.
    """
    if len(quotes) < 2:
        return None
    drawn = thin_out(quotes, MAX_DRAWN)
    prices = [_scale(one.price) for one in (*drawn, *bought, *sold)]
    scale = Scale(max(prices), min(prices))
    axis = Axis(quotes[0].at, quotes[-1].at)
    marks = [
        PaidMark(axis.find_x(one.at), scale.find_y(_scale(one.price)), kind)
        for kind, one in (
            *(("bought", one) for one in bought),
            *(("part" if one.at < closed_at else "sold", one) for one in sold),
        )
    ]
    return PricePath(
        _draw_line(drawn, axis, scale),
        list_levels(scale),
        list_dates(axis),
        marks,
        drawn,
        axis.begins,
        axis.ends,
        bought[0].price if bought else None,
        sold[-1].price if sold else None,
    )


def _draw_line(drawn: Sequence[PricePoint], axis: Axis, scale: Scale) -> str:
    first = f"M{axis.find_x(drawn[0].at):g} {scale.find_y(_scale(drawn[0].price)):g}"
    return first + "".join(
        f"H{axis.find_x(one.at):g}V{scale.find_y(_scale(one.price)):g}" for one in drawn[1:]
    )


def _scale(price: Decimal) -> int:
    return int(price * PRICE_SCALE)


def list_levels(scale: Scale) -> list[Tick]:
    """List round prices that lie on the scale: steps of 1, 2, 5, 10... of them."""
    size = _find_size(scale.top - scale.bottom)
    first, last = -(-scale.bottom // size), scale.top // size
    return [Tick(scale.find_y(n * size), _write_level(n * size)) for n in range(first, last + 1)]


def _find_size(height: int) -> int:
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * MAX_LEVELS >= height:
                return factor * power
        power *= 10


def _write_level(scaled: int) -> str:
    text = f"{Decimal(scaled) / PRICE_SCALE:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
