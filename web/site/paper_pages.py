"""Paper mode's pages: all traders in a table, one trader, and the comparison of strategies."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from paper import fills as fills_at
from paper.results import COST_FACTORS
from web.api import market, paper, paper_closes
from web.api.paging import read_choice
from web.api.paper_closes import CloseStory, QuotedFill
from web.api.serialize import Json
from web.server import sessions
from web.server.gate import settings
from web.site import charts, pictures
from web.site.charts import thin_out
from web.site.figures import write_price
from web.site.lists import add_etag
from web.site.pieces import draw_posts
from web.site.words import write_duration

blueprint = Blueprint("paper", __name__)
blueprint.after_request(add_etag)
SHOWN_POSTS = 10
TABS = ("", "trades", "holdings", "posts", "record")
# Tabs with charts or sums of the account, and tabs with posts.
ACCOUNT_TABS, POST_TABS = ("", "trades", "record"), ("", "posts")
# Sortable columns, each with its performance figure. Win rates are sorted by their lower bound, so
# that 3 of 3 isn't the best.
WINS = "wins"
SORTS = {"return": "returnPct", "closes": "closes", WINS: "winRate", "equity": "equitySol"}
NO_SCOUT = (
    "This instance doesn’t fetch prices, so paper traders can’t trade. The operator can set"
    " SCOUT_INTERVAL_SECONDS to 60 and restart it."
)
NO_PRICES = (
    "No prices yet. Paper traders start trading once there are some. If this takes more than a few"
    " minutes, see Status for the reason."
)
FAILING = (
    "Prices can’t be fetched right now, so paper traders are waiting. See Status for the reason."
)


@blueprint.get("/traders")
def show_traders() -> ResponseReturnValue:
    sort, traders = read_choice(request.args, "sort", ("", *SORTS), ""), paper.list_traders()
    rates = paper.find_win_rates(g.now) if sort == WINS else {}
    return render_template(
        "traders.html",
        traders=sort_traders(traders, sort, rates) if sort else traders,
        sort=sort,
        least_rates=rates,
        sparks={
            uid: charts.draw_spark(tuple(sums)) for uid, sums in paper.list_sums(g.now).items()
        },
        trouble=find_price_trouble(g.now),
    )


def sort_traders(
    traders: Sequence[Json], sort: str, least_rates: Mapping[str, float]
) -> list[Json]:
    """Sort traders by a figure, highest first. Traders without the figure come last."""
    figures: Mapping[str, Any] = (
        least_rates
        if sort == WINS
        else {one["id"]: find_figure(one, SORTS[sort]) for one in traders}
    )
    return sorted(
        traders,
        key=lambda one: (figures.get(one["id"]) is None, -(figures.get(one["id"]) or 0)),
    )


def find_figure(trader: Json, name: str) -> Decimal | None:
    shown = trader["performance"]
    if shown["headlineSuppressed"] or shown[name] is None:
        return None
    return Decimal(str(shown[name]))


def find_price_trouble(now: int) -> str:
    """Explain why paper traders have no prices, and what to do, or "" if they have. `now`: ms."""
    if not settings().scout_interval_seconds:
        return NO_SCOUT
    discovery = market.show_market_health(now)["discovery"]
    if discovery["lastError"]:
        return FAILING
    return "" if discovery["lastSuccessAt"] else NO_PRICES


@blueprint.get("/traders/<uid>")
def show_trader(uid: str) -> ResponseReturnValue:
    tab = read_choice(request.args, "tab", TABS, "")
    trader = paper.find_trader(uid, g.now)
    if trader is None:
        raise Problem("not_found", "there is no such paper trader")
    is_shown = tab in ACCOUNT_TABS and not trader["performance"]["headlineSuppressed"]
    posts = trader["posts"][:SHOWN_POSTS] if tab in POST_TABS else []
    return render_template(
        "trader.html",
        tab=tab,
        trader=trader,
        account=pictures.draw_account(uid, g.now) if is_shown else None,
        posts=draw_posts(posts, "h3"),
        trouble="" if trader["retiredAt"] else find_price_trouble(g.now),
    )


@blueprint.get("/strategies")
def show_strategies() -> ResponseReturnValue:
    comparison = paper.compare_families(g.now)
    return render_template(
        "strategies.html",
        comparison=comparison,
        closes=sum(one["eligibleCloses"] for one in comparison["families"]),
        is_signed_in=sessions.find_owner() is not None,
    )


# ---- a closed position ---------------------------------------------------------------------------
# How a venue's pools are priced, by the kind in the table of venues.
POOL_KINDS = {
    "curve": "launch curve, priced from its quote only",
    "product": "constant product, priced from the pool’s SOL reserve",
    "uncalibrated": "pool without a price model: filled conservatively, not compared",
}
COSTS = (("slippageLamports", "Slippage"), ("feesLamports", "Fees"), ("rentLamports", "Rent"))


# If there are more quotes than this, draw every nth.
MAX_DRAWN = 120


@blueprint.get("/traders/<uid>/closes/<close_id>")
def show_close(uid: str, close_id: str) -> ResponseReturnValue:
    story = paper_closes.find_story(uid, close_id)
    if story is None:
        raise Problem("not_found", "there is no such closed position")
    quotes = thin_out(story.path, MAX_DRAWN) if story.path else []
    return render_template(
        "close.html",
        story=story,
        close=story.close,
        held=write_duration(_find_held_seconds(story.close)),
        quotes=quotes,
        path=draw_story(story, quotes),
        prices=describe_prices(story.fills),
        lines=list_cost_lines(story.close),
        venue=find_venue(story.fills),
    )


def _find_held_seconds(close: Json) -> int:
    opened, closed = (datetime.fromisoformat(close[name]) for name in ("openedAt", "closedAt"))
    return int((closed - opened).total_seconds())


def draw_story(story: CloseStory, quotes: Sequence[Any]) -> charts.Curve | None:
    closed_at = int(datetime.fromisoformat(story.close["closedAt"]).timestamp())
    paid = [
        (name_fill(one.row, closed_at), charts.PricePoint(one.row.at // 1000, one.paid))
        for one in story.fills
        if one.paid is not None
    ]
    path = [charts.PricePoint(one.at // 1000, Decimal(one.price_sol)) for one in quotes]
    return charts.draw_path(path, paid)


def describe_prices(fills: Sequence[QuotedFill]) -> str:
    """Describe the first price paid and the last one received."""
    paid = [(one.row.side, one.paid) for one in fills if one.paid is not None]
    bought = [f"bought at {write_price(price)} SOL" for side, price in paid if side == "buy"]
    sold = [f"sold at {write_price(price)} SOL" for side, price in paid if side == "sell"]
    text = ", ".join([*bought[:1], *sold[-1:]])
    return text[:1].upper() + text[1:]


def name_fill(fill: Any, closed_at: int) -> str:
    """Return the kind of a fill's mark. Sales before the close are partial."""
    if fill.side == "buy":
        return "unknown"
    return "part" if fill.at // 1000 < closed_at else "sold"


def list_cost_lines(close: Json) -> list[tuple[str, list[int]]]:
    """List a close's costs from gross to net: each with its lamports at 1, 2 and 3 times."""
    gross, net = int(close["grossLamports"]), int(close["netLamports"])
    return [
        ("Price move", [gross] * len(COST_FACTORS)),
        *((label, [-n * int(close[name]) for n in COST_FACTORS]) for name, label in COSTS),
        ("Net", [gross - n * (gross - net) for n in COST_FACTORS]),
    ]


def find_venue(fills: Sequence[QuotedFill]) -> Json | None:
    """Describe the first fill's pool, with the fee in percent. None if its snapshot is unknown."""
    first = next((one for one in fills if not one.row.failed), None)
    if first is None or first.filled is None:
        return None
    moved = sum(int(one.shown["solLamports"]) for one in fills)
    taken = sum(one.row.pool_fee for one in fills)
    return {
        "quote": first.filled,
        "kind": POOL_KINDS[fills_at.find_venue(first.filled.venue).kind],
        "fee_percent": Decimal(taken * 100) / moved if moved else None,
    }
