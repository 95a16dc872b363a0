"""The pages everybody reads: feed, bots, tokens, leaderboard, market, paper mode and status.

They show what the API shows: web.api makes the JSON objects, web.site.words puts them in words.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from flask import (
    Blueprint,
    Flask,
    Response,
    g,
    render_template,
    request,
    session,
    url_for,
)
from flask.typing import ResponseReturnValue

from accounts.fields import holds_secret
from accounts.problem import Problem
from chain.addresses import is_address
from chain.amounts import exact
from web.api import health, leaderboard, market, paging, paper, queries, timeline, v1
from web.api.serialize import (
    Json,
    explorer_url,
    positions_of,
    show_activity,
    show_bot,
    show_post,
)
from web.api.statements import ActivityRow, TradePosition
from web.server import sessions
from web.server.application import find_app
from web.server.gate import settings
from web.site import charts, figures, money, pieces, words
from web.site.pieces import draw_posts, draw_trades, find_symbols

blueprint = Blueprint("pages", __name__)
PAGE_SIZE, PROFILE_SIZE, MAX_RANKS, MAX_MARKS = 20, 10, 100, 200
# Parameters that the link to older entries keeps.
KEPT_PARAMETERS = ("source", "mint", "posts", "trades", "q")
MAX_MINT = 44
YEAR_SECONDS = 31_536_000
# Names a list and its filters; a cursor works only in the list that gave it.
Scope = tuple[str | None, ...]
Row = TypeVar("Row")


class ListPage(NamedTuple, Generic[Row]):
    """A page of a list. `cursor`: of the older entries, None where there are none."""

    rows: Sequence[Row]
    cursor: str | None


class FilterProblem(NamedTuple):
    """A filter that cannot match anything, and what is allowed instead, for a reader."""

    field: str
    message: str


def init_app(app: Flask) -> None:
    """Add the filters and names that every template knows."""
    app.jinja_env.filters.update(words.FILTERS | money.FILTERS | figures.FILTERS)
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
    app.context_processor(lambda: {"signed_in": "creator" in session, "older": link_to_older})
    # The address of a static file changes with its content.
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = YEAR_SECONDS


def link_to_older(name: str, cursor: str) -> str:
    """Return the address of this page from `cursor` on, with its filters and nothing else."""
    values: dict[str, Any] = {**(request.view_args or {})}
    values |= {key: text for key, text in request.args.items() if key in KEPT_PARAMETERS}
    return url_for(request.endpoint or "", **{**values, name: cursor})


@blueprint.after_request
def add_etag(response: Response) -> Response:
    """Answer 304 where the browser already has the page."""
    response.headers.setdefault("Cache-Control", "no-cache")
    if response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def read_cursor(name: str, scope: Scope, kind: Callable[..., paging.Kind]) -> paging.Kind | None:
    """Return the position, as a NamedTuple `kind`, that the parameter `name` gives; None without
    one.
    """
    text = request.args.get(name)
    if not text:
        return None
    refusal = "this link to older entries belongs to another page"
    return paging.read_position(find_app().secret, scope, text, kind, refusal)


def cut_page(
    rows: Sequence[Row], limit: int, scope: Scope, find_position: Callable[[Row], paging.Position]
) -> ListPage[Row]:
    """Cut rows, of which one more than `limit` was read, to a page."""
    shown, more = paging.cut_page(rows, limit)
    if not more:
        return ListPage(shown, None)
    position = find_position(shown[-1])
    return ListPage(shown, paging.write_cursor(find_app().secret, scope, position))


def read_choice(name: str, allowed: Sequence[str], default: str) -> str:
    """Return an argument of the query that must be one of `allowed`."""
    text = request.args.get(name, default)
    if text not in allowed:
        raise Problem("invalid_parameter", f"{name} must be one of: {', '.join(allowed)}")
    return text


def expand_json(shown: Any) -> Any:
    """Return objects of the API as templates read them: JSON stored inside them is parsed."""
    return orjson.loads(orjson.dumps(shown))


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
            "That is no token address. Paste the full one: 32 to 44 letters and digits.",
        )
    return None


@blueprint.get("/posts/<uid>")
def show_one_post(uid: str) -> ResponseReturnValue:
    """Show one post."""
    post = timeline.find_post(uid)
    if post is None:
        raise Problem("not_found", "there is no such post")
    return render_template("post.html", post=post, drawn=draw_posts([post])[0])


# ---- bots ----------------------------------------------------------------------------------------
def find_profile(uid: str) -> Json:
    """Return the bot as the API shows it, with `openPositions`. Problem `not_found` without one."""
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such bot")
    former = queries.list_former_wallets([row.id]).get(row.id, ())
    bot = show_bot(row, former, settings().base_url)
    profile: Json = expand_json({**bot, "openPositions": positions_of(row)})
    return profile


def is_own(uid: str) -> bool:
    """May this browser manage the bot?"""
    owner = sessions.find_owner()
    return owner is not None and queries.is_owner(owner.id, uid)


@blueprint.get("/bots/<uid>")
def show_profile(uid: str) -> ResponseReturnValue:
    """Show a bot: profile, results, holdings, trades, posts."""
    bot, posts, trades = find_profile(uid), list_posts_of(uid), list_trades_of(uid)
    has_chart = bot["wallet"] and bot["results"]
    return render_template(
        "bot.html",
        bot=bot,
        posts=draw_posts(posts.rows, "h3"),
        older_posts=posts.cursor,
        trades=draw_trades(trades.rows),
        older_trades=trades.cursor,
        own=is_own(uid),
        chart=pieces.draw_wallet_chart(bot["wallet"]["address"], bot["results"])
        if has_chart
        else "",
        symbols=find_symbols(bot["openPositions"]),
        exact=exact,
    )


def list_posts_of(uid: str) -> ListPage[Json]:
    """List a page of a bot's posts, newest first."""
    scope = ("posts of", uid)
    before = read_cursor("posts", scope, paging.IdPosition)
    rows = queries.list_posts(PROFILE_SIZE + 1, before.id if before else None, bot=uid)
    page = cut_page(rows, PROFILE_SIZE, scope, lambda row: (row.id,))
    return ListPage([show_post(row) for row in page.rows], page.cursor)


def list_trades_of(uid: str) -> ListPage[Json]:
    """List a page of a bot's trades, newest first."""
    scope = ("trades of", uid)
    rows = queries.list_trades(
        PROFILE_SIZE + 1,
        read_cursor("trades", scope, TradePosition),
        spans=queries.find_wallets(bot=uid),
    )
    page = cut_page(rows, PROFILE_SIZE, scope, lambda row: row.position)
    return ListPage(expand_json(v1.show_trades(page.rows)), page.cursor)


@blueprint.get("/leaderboard")
def show_leaderboard() -> ResponseReturnValue:
    """Show the ranking of bots."""
    sort = read_choice("sort", leaderboard.SORTS, "pnl")
    window = read_choice("window", tuple(leaderboard.WINDOWS), "all")
    entries = leaderboard.list_entries(sort, window, g.now)[:MAX_RANKS]
    return render_template(
        "leaderboard.html",
        rows=expand_json(leaderboard.show_entries(entries, sort)),
        sort=sort,
        window=window,
        windows=leaderboard.WINDOWS,
    )


# ---- tokens --------------------------------------------------------------------------------------
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
    posts = [show_post(row) for row in queries.list_posts(PROFILE_SIZE, mint=mint)]
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
        equity=None if withheld else charts.draw_equity(paper.list_equity(uid)),
        posts=draw_posts(trader["posts"][:PROFILE_SIZE], "h3"),
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
        health=health.check_health(settings(), g.now),
        market=market.show_market_health(g.now),
        programs=health.show_programs(find_app().settings),
    )
