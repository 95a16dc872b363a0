"""The market, and a token's page."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from chain.addresses import is_address
from web.api import market, queries, quotes
from web.api.arguments import read_choice, read_whole
from web.api.posts import show_posts
from web.api.queries import TradePosition, find_place
from web.api.serialize import Json
from web.api.trades import list_moving, read_scales, show_activity, show_changes
from web.server.gate import settings
from web.site import charts, pictures
from web.site.lists import add_etag, cut_page, read_cursor
from web.site.money import venue_changes
from web.site.pieces import draw_activity, draw_posts

blueprint = Blueprint("tokens", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, MAX_POSTS, MAX_MARKS, MARKET_SIZE, MAX_PAGE = 20, 10, 200, 40, 9_999
# Swap sides on the timeline.
SWAPPED = {"buy": "got", "sell": "gave"}
# Of 24 in a day. Two points used to draw a line across the whole day from two hours of data.
MIN_PRICES = 4


@blueprint.get("/tokens/<mint>")
def show_token(mint: str) -> ResponseReturnValue:
    if not is_address(mint):
        raise Problem("not_found", "not a token address: it must have 32 to 44 letters and digits")
    scope = ("activity of", mint)
    position = read_cursor("before", scope, TradePosition)
    latest = queries.list_activity(mint, MAX_MARKS)
    rows = queries.list_activity(mint, PAGE_SIZE + 1, position) if position else latest
    page = cut_page(rows[: PAGE_SIZE + 1], PAGE_SIZE, scope, find_place)
    posts = show_posts(queries.list_posts(MAX_POSTS, mint=mint))
    return render_template(
        "token.html",
        mint=mint,
        entry=find_entry(mint),
        activity=draw_activity([show_row(row, mint) for row in list_moving(page.rows, mint)], mint),
        cursor=page.cursor,
        sides=queries.count_sides(mint),
        tracked=queries.count_tracked(),
        timeline=draw_timeline(latest),
        posts=draw_posts(posts, "h3"),
    )


def find_entry(mint: str) -> Json | None:
    """Return a token's market entry, with its checks in display order."""
    entry = market.find_entry(g.now, mint)
    return entry and quotes.add_counts(entry)


def show_row(row: Any, mint: str) -> Json:
    """Make a row of a token's activity, with the tokens that moved through the venue."""
    scales = read_scales()
    moved = show_changes(row, row.token_changes, {}, scales)
    shown = {**show_activity(row, mint, scales), "tokenChanges": moved}
    return {**shown, "tokenChanges": venue_changes(shown)}


def draw_timeline(rows: Sequence[Any]) -> str:
    """Return the HTML of the timeline of trades with a known time."""
    return pictures.draw_timeline([time_trade(row) for row in rows if row.block_time is not None])


def time_trade(row: Any) -> charts.TimedTrade:
    """Convert a trade with a known time for the timeline. In a swap for another token, the SOL
    moved is only the fee.
    """
    if row.kind == "swap" or row.currency:
        return charts.TimedTrade(row.block_time or 0, SWAPPED[row.side], 0)
    return charts.TimedTrade(row.block_time or 0, row.side, row.sol_change - row.beside_sol)


@blueprint.get("/market")
def show_market() -> ResponseReturnValue:
    query = quotes.Query(
        read_choice(request.args, "sort", quotes.SORTS, quotes.SORTS[0]),
        read_choice(request.args, "show", quotes.FILTERS, quotes.FILTERS[0]),
    )
    page = read_whole(request.args, "page", 1, MAX_PAGE, default=1)
    interval = settings().scout_interval_seconds
    table = quotes.list_table(query, g.now, (page - 1) * MARKET_SIZE, MARKET_SIZE)
    return render_template(
        "market.html",
        table=table,
        asked=query,
        page=page,
        pages=-(-table.total // MARKET_SIZE),
        sparks={one["mint"]: draw_prices(one["prices"]) for one in table.rows},
        health=market.show_market_health(g.now),
        scout_off=not interval,
        scout_seconds=f"{interval:g}",
    )


def draw_prices(prices: Sequence[str]) -> charts.Spark | None:
    """Draw prices (exact decimal text), oldest first; None for too few."""
    if len(prices) < MIN_PRICES:
        return None
    return charts.draw_spark([charts.scale_price(Decimal(price)) for price in prices])
