"""The page of a close: why it was traded, its fills on the price path, and what it cost."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from paper.venues import find_venue
from web.api import paper_closes
from web.api.paper_closes import CloseStory, QuotedFill, QuoteRow
from web.api.serialize import Json
from web.site.lists import add_etag
from web.site.price_path import PricePath, PricePoint, draw_path
from web.site.profile_words import write_duration

blueprint = Blueprint("closes", __name__)
blueprint.after_request(add_etag)
# How the pools of a venue are priced, by the kind the table of venues gives it.
POOL_KINDS = {
    "curve": "a launch curve, priced from the price alone",
    "product": "constant product, priced from the pool’s side in SOL",
    "uncalibrated": "a pool nobody can price: filled wide, not compared",
}
COSTS = (("slippageLamports", "Slippage"), ("feesLamports", "Fees"), ("rentLamports", "Rent"))


class CostLine(NamedTuple):
    """A line of what a close cost. `lamports`: at 1, 2 and 3 times its costs."""

    label: str
    lamports: list[str]


class VenueFact(NamedTuple):
    """What is known of the pool a close was traded in. `fee_percent`: what its fills paid it."""

    venue: str | None
    kind: str
    pair: str | None
    liquidity_usd: str | None
    market_cap_usd: str | None
    fee_percent: Decimal | None


@blueprint.get("/traders/<uid>/closes/<close_id>")
def show_close(uid: str, close_id: str) -> ResponseReturnValue:
    """Show a close."""
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
    """Draw the price path of a close with its fills; None where too little of it is recorded."""
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
    """List what a close cost, from what prices moved down to its net result."""
    times = [one["costs"] for one in close["atCosts"]]
    moved = CostLine("Price move", [close["grossLamports"]] * len(times))
    costs = [CostLine(label, [str(-n * int(close[name])) for n in times]) for name, label in COSTS]
    return [moved, *costs, CostLine("Net", [one["netLamports"] for one in close["atCosts"]])]


def find_venue_fact(fills: Sequence[QuotedFill]) -> VenueFact | None:
    """Tell what the pool of the first fill was; None where its snapshot is not known."""
    first = next((one for one in fills if not one.row.failed), None)
    if first is None or first.filled is None:
        return None
    quote: QuoteRow = first.filled
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
