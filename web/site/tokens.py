"""The market, and the page of a token."""

from collections.abc import Sequence

from flask import Blueprint, g, render_template
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from chain.addresses import is_address
from web.api import market, paging, queries
from web.api.posts import show_posts
from web.api.serialize import show_activity
from web.api.statements import ActivityRow, TradePosition
from web.server.application import find_app
from web.site import charts
from web.site.lists import add_etag, cut_page, read_cursor
from web.site.pieces import draw_posts

blueprint = Blueprint("tokens", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, MAX_POSTS, MAX_MARKS = 20, 10, 200


@blueprint.get("/tokens/<mint>")
def show_token(mint: str) -> ResponseReturnValue:
    """Show a token: price, checks, who traded it, posts about it."""
    if not is_address(mint):
        raise Problem(
            "not_found", "a token address has 32 to 44 letters and digits; this is not one"
        )
    scope = ("activity of", mint)
    position = read_cursor("before", scope, TradePosition)
    latest = queries.list_activity(mint, MAX_MARKS)
    rows = queries.list_activity(mint, PAGE_SIZE + 1, position) if position else latest
    page = cut_page(rows[: PAGE_SIZE + 1], PAGE_SIZE, scope, lambda row: row.position)
    posts = show_posts(queries.list_posts(MAX_POSTS, mint=mint))
    return render_template(
        "token.html",
        mint=mint,
        entry=market.find_entry(g.now, mint),
        activity=[show_activity(row, mint) for row in page.rows],
        cursor=page.cursor,
        sides=queries.count_sides(mint),
        tracked=queries.count_tracked(),
        timeline=draw_timeline(latest),
        posts=draw_posts(posts, "h3"),
    )


def draw_timeline(rows: Sequence[ActivityRow]) -> charts.Timeline | None:
    """Draw the trades whose time is known."""
    return charts.draw_timeline(
        [
            charts.TimedTrade(row.block_time, row.side, row.sol_change - row.beside_sol)
            for row in rows
            if row.block_time is not None
        ]
    )


@blueprint.get("/market")
def show_market() -> ResponseReturnValue:
    """Show the tokens that the scout lists."""
    scope = ("market page",)
    after = read_cursor("before", scope, market.MarketPosition)
    entries, last = market.list_market(g.now, PAGE_SIZE, after)
    cursor = paging.write_cursor(find_app().secret, scope, last) if last else None
    return render_template(
        "market.html", entries=entries, cursor=cursor, health=market.show_market_health(g.now)
    )
