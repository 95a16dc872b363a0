"""The pages everybody reads: feed, posts, paper mode and status, and what all templates know.

They show what the API shows: web.api makes the JSON objects, web.site.words puts them in words.
"""

from typing import NamedTuple

from flask import Blueprint, Flask, g, render_template, request, session
from flask.typing import ResponseReturnValue

from accounts.fields import holds_secret
from accounts.problem import Problem
from chain.addresses import is_address
from web.api import health, market, paging, paper, timeline
from web.api.serialize import explorer_url
from web.server.application import find_app
from web.server.gate import settings
from web.site import (
    candor,
    charts,
    figures,
    money,
    pictures,
    pieces,
    profile_words,
    record_words,
    words,
)
from web.site.lists import add_etag, link_to_older, read_cursor
from web.site.log_pages import find_key, find_proof
from web.site.pieces import draw_posts

blueprint = Blueprint("pages", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, MAX_TRADER_POSTS = 20, 10
MAX_MINT = 44
YEAR_SECONDS = 31_536_000


class FilterProblem(NamedTuple):
    """A filter that cannot match anything, and what is allowed instead, for a reader."""

    field: str
    message: str


def init_app(app: Flask) -> None:
    """Add the filters and names that every template knows."""
    for module in (words, money, figures, candor, profile_words, record_words):
        app.jinja_env.filters.update(module.FILTERS)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        root=app.config["CANDOR"].base_path,
        asset=pieces.asset,
        explorer_url=explorer_url,
        KINDS=words.KINDS,
        FLAGS=words.FLAGS,
        UNRANKED=words.UNRANKED,
        COVERAGE=words.COVERAGE,
        NO_BOOKS=money.NO_BOOKS,
        JOB_STATES=words.JOB_STATES,
    )
    pieces.init_app(app)
    pictures.init_app(app)
    app.context_processor(lambda: {"signed_in": "creator" in session, "older": link_to_older})
    # The address of a static file changes with its content.
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = YEAR_SECONDS


# ---- posts ---------------------------------------------------------------------------------------
@blueprint.get("/")
def show_feed() -> ResponseReturnValue:
    """Show posts of all bots, newest first."""
    source, mint = request.args.get("source", ""), request.args.get("mint", "").strip()
    problem = find_filter_problem(source, mint)
    if problem:
        return refuse_filter(problem, source, mint)
    scope = ("feed page", source, mint)
    position = read_cursor("before", scope, timeline.Start)
    page = timeline.list_page(PAGE_SIZE, position, source, mint)
    cursor = page.next and paging.write_cursor(find_app().secret, scope, page.next)
    return render_template(
        "feed.html",
        posts=draw_posts(page.posts),
        cursor=cursor,
        source=source,
        mint=mint,
        sources=timeline.SOURCES,
        first=position is None,
    )


def refuse_filter(problem: FilterProblem, source: str, mint: str) -> ResponseReturnValue:
    """Show the feed's form again, with what is wrong in it."""
    # What was typed is shown again, unless it may be a secret that somebody pasted.
    is_harmless = len(mint) <= MAX_MINT and not holds_secret(mint)
    page = render_template(
        "feed.html",
        posts=[],
        problem=problem,
        sources=timeline.SOURCES,
        source=source if source in timeline.SOURCES else "",
        mint=mint if is_harmless else "",
    )
    return page, 422


def find_filter_problem(source: str, mint: str | None) -> FilterProblem | None:
    """Return what is wrong with the filters of the feed, None where nothing is."""
    if source not in timeline.SOURCES:
        return FilterProblem("source", "Choose one from the list.")
    if mint and not is_address(mint):
        return FilterProblem(
            "mint",
            "That's not a token address. Paste the full address.",
        )
    return None


@blueprint.get("/posts/<uid>")
def show_one_post(uid: str) -> ResponseReturnValue:
    """Show one post."""
    post = timeline.find_post(uid)
    if post is None:
        raise Problem("not_found", "there is no such post")
    proof = {} if post["simulated"] else find_proof(uid)
    return render_template("post.html", post=post, drawn=draw_posts([post])[0], **proof)


# ---- paper mode ----------------------------------------------------------------------------------
@blueprint.get("/traders")
def show_traders() -> ResponseReturnValue:
    """Show all paper traders."""
    return render_template("traders.html", traders=paper.list_traders())


@blueprint.get("/traders/<uid>")
def show_trader(uid: str) -> ResponseReturnValue:
    """Show a paper trader."""
    trader = paper.find_trader(uid, g.now)
    if trader is None:
        raise Problem("not_found", "there is no such paper trader")
    withheld = trader["performance"]["headlineSuppressed"]
    return render_template(
        "trader.html",
        trader=trader,
        equity=None if withheld else charts.draw_equity(paper.list_equity(uid), g.now),
        posts=draw_posts(trader["posts"][:MAX_TRADER_POSTS], "h3"),
    )


@blueprint.get("/strategies")
def show_strategies() -> ResponseReturnValue:
    """Show the comparison of strategies."""
    return render_template("strategies.html", comparison=paper.compare_families(g.now))


# ---- about this instance -------------------------------------------------------------------------
@blueprint.get("/create")
def show_invitation() -> ResponseReturnValue:
    """Show the public page that invites to create a bot."""
    return render_template("create.html", closed=settings().registration == "closed")


@blueprint.get("/status")
def show_status() -> ResponseReturnValue:
    """Show how the jobs and the database are."""
    return render_template(
        "status.html",
        log_key=find_key(),
        health=health.check_health(settings(), g.now),
        market=market.show_market_health(g.now),
        programs=health.show_programs(find_app().settings),
    )
