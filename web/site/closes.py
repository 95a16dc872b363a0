"""A close's page: its reasons, its fills on the price path, and its costs."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from paper.fills import find_venue
from paper.results import COST_FACTORS
from web.api import paper_closes
from web.api.paper_closes import CloseStory, QuotedFill
from web.api.serialize import Json
from web.site.charts import (
    PRICE_SCALE,
    Axis,
    Scale,
    Tick,
    list_dates,
    list_levels,
    scale_price,
    thin_out,
)
from web.site.lists import add_etag
from web.site.profile_words import write_duration

blueprint = Blueprint("closes", __name__)
blueprint.after_request(add_etag)
# How a venue's pools are priced, by the kind in the table of venues.
POOL_KINDS = {
    "curve": "launch curve, computed from the quoted price only",
    "product": "constant product, computed from the pool’s SOL reserve",
    "uncalibrated": "pool without a price model, so its fills are conservative and aren’t compared",
}
COSTS = (("slippageLamports", "Slippage"), ("feesLamports", "Fees"), ("rentLamports", "Rent"))


class CostLine(NamedTuple):
    """A line of a close's costs.

    `lamports` are the amounts at 1, 2 and 3 times its costs. `is_result` means that it is a gain or
    a loss, not a cost.
    """

    label: str
    lamports: list[str]
    is_result: bool = False


class VenueFact(NamedTuple):
    """Facts about a close's pool. `fee_percent` is the fee that its fills paid."""

    venue: str | None
    kind: str
    pair: str | None
    liquidity_usd: str | None
    market_cap_usd: str | None
    fee_percent: Decimal | None


MAX_LEVELS = 6
# If there are more quotes than this, draw every nth.
MAX_DRAWN = 120


class PricePoint(NamedTuple):
    """A price in SOL. `at` is in Unix seconds."""

    at: int
    price: Decimal


class PaidMark(NamedTuple):
    """A fill at its price. `kind`: bought | part (a partial sale) | sold."""

    x: float
    y: float
    kind: str


class PricePath(NamedTuple):
    """Quotes, each valid until the next one.

    `line` is the `d` attribute of a path. `drawn` are the drawn quotes, in order. `begins` and
    `ends` are in Unix seconds. `bought` and `sold` are the prices of the first purchase and the
    last sale, or None.
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
    """Draw quotes, which must be in order, with fills. Return None for fewer than two quotes.

    `closed_at` is in Unix seconds. Earlier sales are partial.
    """
    if len(quotes) < 2:
        return None
    drawn = thin_out(quotes, MAX_DRAWN)
    prices = [scale_price(one.price) for one in (*drawn, *bought, *sold)]
    scale = Scale(max(prices), min(prices))
    axis = Axis(quotes[0].at, quotes[-1].at)
    marks = [
        PaidMark(axis.find_x(one.at), scale.find_y(scale_price(one.price)), kind)
        for kind, one in (
            *(("bought", one) for one in bought),
            *(("part" if one.at < closed_at else "sold", one) for one in sold),
        )
    ]
    return PricePath(
        _draw_line(drawn, axis, scale),
        list_levels(scale, write=_write_level, most=MAX_LEVELS),
        list_dates(axis),
        marks,
        drawn,
        axis.begins,
        axis.ends,
        bought[0].price if bought else None,
        sold[-1].price if sold else None,
    )


def _draw_line(drawn: Sequence[PricePoint], axis: Axis, scale: Scale) -> str:
    first = f"M{axis.find_x(drawn[0].at):g} {scale.find_y(scale_price(drawn[0].price)):g}"
    return first + "".join(
        f"H{axis.find_x(one.at):g}V{scale.find_y(scale_price(one.price)):g}" for one in drawn[1:]
    )


def _write_level(scaled: int) -> str:
    text = f"{Decimal(scaled) / PRICE_SCALE:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@blueprint.get("/traders/<uid>/closes/<close_id>")
def show_close(uid: str, close_id: str) -> ResponseReturnValue:
    story = paper_closes.find_story(uid, close_id)
    if story is None:
        raise Problem("not_found", "there is no such closed position")
    return render_template(
        "close.html",
        story=story,
        close=story.close,
        held=write_duration(_find_held_seconds(story.close)),
        path=draw_story(story),
        lines=list_cost_lines(story.close),
        venue=find_venue_fact(story.fills),
    )


def _find_held_seconds(close: Json) -> int:
    opened, closed = (datetime.fromisoformat(close[name]) for name in ("openedAt", "closedAt"))
    return int((closed - opened).total_seconds())


def draw_story(story: CloseStory) -> PricePath | None:
    """Draw a close's price path with its fills. Return None if too little is recorded."""
    quotes = [PricePoint(one.at // 1000, Decimal(one.price_sol)) for one in story.path]
    paid = {
        side: [
            PricePoint(one.row.at // 1000, one.paid)
            for one in story.fills
            if one.row.side == side and one.paid is not None
        ]
        for side in ("buy", "sell")
    }
    closed_at = int(datetime.fromisoformat(story.close["closedAt"]).timestamp())
    return draw_path(quotes, paid["buy"], paid["sell"], closed_at)


def list_cost_lines(close: Json) -> list[CostLine]:
    """List a close's costs, from the gross result to the net result."""
    gross, net = int(close["grossLamports"]), int(close["netLamports"])
    costs = {label: int(close[name]) for name, label in COSTS}
    return [
        CostLine("Price move", [str(gross)] * len(COST_FACTORS), True),
        *(CostLine(label, [str(-n * cost) for n in COST_FACTORS]) for label, cost in costs.items()),
        CostLine("Net", [str(gross - n * (gross - net)) for n in COST_FACTORS], True),
    ]


def find_venue_fact(fills: Sequence[QuotedFill]) -> VenueFact | None:
    """Return facts about the first fill's pool, or None if its snapshot is unknown."""
    first = next((one for one in fills if not one.row.failed), None)
    if first is None or first.filled is None:
        return None
    quote = first.filled
    moved = sum(int(one.shown["solLamports"]) for one in fills)
    taken = sum(one.row.pool_fee for one in fills)
    return VenueFact(
        quote.venue,
        POOL_KINDS[find_venue(quote.venue).kind],
        quote.pair,
        quote.liquidity_usd,
        quote.market_cap_usd,
        Decimal(taken * 100) / moved if moved else None,
    )
