"""The pages everybody reads: the feed, bots, tokens, the leaderboard, the market, paper mode,
health.

They show what the interface shows: rows go through web.api.serialize, words come from
web.site.words.
"""

import functools

import orjson
from flask import Blueprint, current_app, g, render_template, request, session, url_for

from accounts.fields import holds_secret
from accounts.problem import Problem
from chain.addresses import is_address
from chain.amounts import exact
from web.api import health, leaderboard, market, paging, paper, queries, timeline, v1
from web.api.serialize import (
    explorer_url,
    positions_of,
    show_activity,
    show_bot,
    show_post,
    show_sol,
)
from web.server import sessions
from web.site import charts, words
from web.site.pieces import (
    asset,
    draw_chart,
    draw_post,
    draw_posts,
    draw_trade,
    draw_trades,
    find_symbols,
)

blueprint = Blueprint("pages", __name__)
PAGE, ON_PROFILE, MARKS, BOARD = 20, 10, 200, 100
FILTERS = ("source", "mint", "posts", "trades")
MAX_MINT = 44


def init_app(app):
    """Filters and names every template knows; pages are compared by ETag, files are named after
    their content.
    """
    app.jinja_env.filters.update(words.FILTERS, sol=show_sol)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        root=app.config["CANDOR"].base_path,
        asset=asset,
        explorer_url=explorer_url,
        KINDS=words.KINDS,
        FLAGS=words.FLAGS,
        UNRANKED=words.UNRANKED,
        COVERAGE=words.COVERAGE,
        JOB_STATES=words.JOB_STATES,
    )
    app.draw_post, app.draw_trade, app.draw_chart = (
        functools.lru_cache(most)(draw)
        for most, draw in ((1024, draw_post), (1024, draw_trade), (256, draw_chart))
    )
    app.context_processor(lambda: {"signed_in": "creator" in session, "older": link_to_older})
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = 31_536_000


def link_to_older(name, cursor):
    """This page from where `cursor` says on."""
    return link_here(**{name: cursor})


def link_here(**more):
    """This page with its filters; what else stands in the address is nobody's business."""
    return url_for(
        request.endpoint,
        **{
            **request.view_args,
            **{name: text for name, text in request.args.items() if name in FILTERS},
            **more,
        },
    )


@blueprint.after_request
def compare(response):
    """What did not change since the browser asked last is not sent again."""
    response.headers.setdefault("Cache-Control", "no-cache")
    if response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def read_cursor(name, scope, size):
    text = request.args.get(name)
    position = paging.read_cursor(current_app.secret_key, scope, text) if text else None
    if position is not None and len(position) != size:
        raise Problem("invalid_cursor", "this link to older entries belongs to another page")
    return position


def cut_page(rows, limit, scope, find_position):
    """(rows of this page, the cursor of the next or None). `find_position(row)`: its place in the
    list.
    """
    shown, more = paging.cut_page(rows, limit)
    if not more:
        return shown, None
    return shown, paging.write_cursor(current_app.secret_key, scope, find_position(shown[-1]))


def as_dict(shown):
    """An object of the interface as templates read it: stored JSON inside it is parsed."""
    return orjson.loads(orjson.dumps(shown))


# ---- posts ---------------------------------------------------------------------------------------
@blueprint.get("/")
def show_feed():
    source, mint = request.args.get("source", ""), request.args.get("mint", "").strip()
    problem = find_filter_problem(source, mint)
    if problem:
        return (
            render_template(
                "feed.html",
                posts=[],
                problem=problem,
                sources=timeline.SOURCES,
                source=source if source in timeline.SOURCES else "",
                mint=may_show(mint),
            ),
            422,
        )
    scope = ("feed page", source, mint)
    position = read_cursor("before", scope, 2)
    page = timeline.list_page(PAGE, position, source, mint)
    cursor = page.next and paging.write_cursor(current_app.secret_key, scope, page.next)
    return render_template(
        "feed.html",
        posts=draw_posts(page.posts),
        cursor=cursor,
        source=source,
        mint=mint,
        sources=timeline.SOURCES,
        first=position is None,
    )


def may_show(mint):
    """What was typed into the filter, unless it may be a secret somebody pasted."""
    return mint if len(mint) <= MAX_MINT and not holds_secret(mint) else ""


def find_filter_problem(source, mint):
    """(field, what is allowed) of a filter nobody can mean, or None."""
    if source not in timeline.SOURCES:
        return "source", "Choose one of the list."
    if mint and not is_address(mint):
        return (
            "mint",
            (
                "This is no token address: one has 32 to 44 letters and digits, such as the one"
                " behind a token’s name here."
            ),
        )


@blueprint.get("/posts/<uid>")
def show_one_post(uid):
    post = timeline.find_post(uid)
    if post is None:
        raise Problem("not_found", "there is no such post")
    return render_template("post.html", post=post, drawn=draw_posts([post])[0])


# ---- influencers ---------------------------------------------------------------------------------
def find_profile(uid):
    """The Bot as the interface shows it, as a dict; `openPositions` too. Problem for one that is
    not there.
    """
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such influencer")
    former = queries.list_former_wallets([row.id]).get(row.id, ())
    return as_dict(
        {
            **show_bot(row, former, current_app.config["CANDOR"].base_url),
            "openPositions": positions_of(row),
        }
    )


def is_own(uid):
    """Is the influencer this browser's to manage?"""
    owner = sessions.find_owner()
    return owner is not None and queries.is_owner(owner.id, uid)


@blueprint.get("/bots/<uid>")
def show_profile(uid):
    bot = find_profile(uid)
    (posts, older_posts), (trades, older_trades) = list_posts_of(uid), list_trades_of(uid)
    chart = (
        current_app.draw_chart(bot["wallet"]["address"], orjson.dumps(bot["results"]))
        if bot["wallet"] and bot["results"]
        else ""
    )
    return render_template(
        "bot.html",
        bot=bot,
        posts=draw_posts(posts, "h3"),
        older_posts=older_posts,
        trades=draw_trades(trades),
        older_trades=older_trades,
        own=is_own(uid),
        chart=chart,
        symbols=find_symbols(bot["openPositions"]),
        exact=exact,
    )


def list_posts_of(uid):
    scope = ("posts of", uid)
    before = read_cursor("posts", scope, 1)
    rows, cursor = cut_page(
        queries.list_posts(ON_PROFILE + 1, before and before[0], bot=uid),
        ON_PROFILE,
        scope,
        lambda row: (row.id,),
    )
    return [show_post(row) for row in rows], cursor


def list_trades_of(uid):
    scope = ("trades of", uid)
    rows, cursor = cut_page(
        queries.list_trades(
            ON_PROFILE + 1, read_cursor("trades", scope, 3), shares=queries.find_wallets(bot=uid)
        ),
        ON_PROFILE,
        scope,
        lambda row: row.position,
    )
    return as_dict(v1.show_trades(rows)), cursor


@blueprint.get("/leaderboard")
def show_leaderboard():
    sort, window = (
        read_choice("sort", leaderboard.SORTS, "pnl"),
        read_choice("window", tuple(leaderboard.WINDOWS), "all"),
    )
    rows = leaderboard.show_entries(leaderboard.list_entries(sort, window, g.now)[:BOARD], sort)
    return render_template(
        "leaderboard.html",
        rows=as_dict(rows),
        sort=sort,
        window=window,
        windows=leaderboard.WINDOWS,
    )


def read_choice(name, allowed, default):
    text = request.args.get(name, default)
    if text not in allowed:
        raise Problem("invalid_parameter", f"{name} must be one of: {', '.join(allowed)}")
    return text


# ---- tokens --------------------------------------------------------------------------------------
@blueprint.get("/tokens/<mint>")
def show_token(mint):
    if not is_address(mint):
        raise Problem("not_found", "this is no token address: one has 32 to 44 letters and digits")
    scope = ("activity of", mint)
    latest = queries.list_activity(mint, MARKS)
    position = read_cursor("before", scope, 3)
    rows, cursor = cut_page(
        queries.list_activity(mint, PAGE + 1, position) if position else latest[: PAGE + 1],
        PAGE,
        scope,
        lambda row: row.position,
    )
    timed = [
        (row.block_time, row.side, row.sol_change) for row in latest if row.block_time is not None
    ]
    posts = [show_post(row) for row in queries.list_posts(ON_PROFILE, mint=mint)]
    return render_template(
        "token.html",
        mint=mint,
        entry=market.find_entry(g.now, mint),
        activity=[show_activity(row, mint) for row in rows],
        cursor=cursor,
        sides=queries.count_sides(mint),
        tracked=queries.count_tracked(),
        marks=charts.draw_marks(timed),
        span=(min(timed)[0], max(timed)[0]) if timed else None,
        posts=draw_posts(posts, "h3"),
    )


@blueprint.get("/market")
def show_market():
    scope = ("market page",)
    entries, last = market.list_market(g.now, PAGE, read_cursor("before", scope, 2))
    cursor = paging.write_cursor(current_app.secret_key, scope, last) if last else None
    return render_template(
        "market.html", entries=entries, cursor=cursor, health=market.show_market_health(g.now)
    )


# ---- paper mode ----------------------------------------------------------------------------------
@blueprint.get("/traders")
def show_traders():
    return render_template("traders.html", traders=paper.list_traders())


@blueprint.get("/traders/<uid>")
def show_trader(uid):
    trader = paper.find_trader(uid, g.now)
    if trader is None:
        raise Problem("not_found", "there is no such paper trader")
    equity = charts.draw_line(
        [] if trader["performance"]["headlineSuppressed"] else paper.list_equity(uid)
    )
    return render_template(
        "trader.html",
        trader=trader,
        equity=equity,
        posts=draw_posts(trader["posts"][:ON_PROFILE], "h3"),
    )


@blueprint.get("/strategies")
def show_strategies():
    return render_template("strategies.html", comparison=paper.compare_families(g.now))


# ---- about this instance -------------------------------------------------------------------------
@blueprint.get("/create")
def show_invitation():
    return render_template(
        "create.html", closed=current_app.config["CANDOR"].registration == "closed"
    )


@blueprint.get("/status")
def show_status():
    return render_template(
        "status.html",
        health=health.check_health(current_app.config["CANDOR"], g.now),
        market=market.show_market_health(g.now),
    )
