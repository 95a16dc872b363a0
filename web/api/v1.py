"""/api/v1: every route needs a key; read, validate, ask, answer."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from flask import Blueprint, current_app, g, request

from accounts import posts
from accounts.problem import Problem, invalid
from chain.addresses import is_address
from ratelimit import list_limits, show_windows
from web.api import leaderboard, market, paging, queries
from web.api.serialize import (
    positions_of,
    show_activity,
    show_bot,
    show_coverage,
    show_post,
    show_time,
    show_trade,
)
from web.server import gate
from web.server.application import JsonResponse
from web.server.cache import RenderedPosts

blueprint = Blueprint("v1", __name__, url_prefix="/api/v1")
blueprint.before_request(gate.check_key)
MINUTE = 60_000
# of some 1 KB each
MAX_RENDERED_POSTS = 1024
# trades and posts in the detail of a bot
LATEST = 20


def respond(shown, status=200, headers=None):
    return JsonResponse(orjson.dumps(shown), status, headers)


def show_list(data, limit, next_cursor=None, **more):
    return {"data": data, "nextCursor": next_cursor, "limit": limit, **more}


# ---- lists that are kept -------------------------------------------------------------------------
@dataclass(frozen=True)
class Asked:
    """What a list is made from, beside the database: the query's arguments, the time in ms, the
    secret of cursors, the instance's address, and posts as JSON that were written before.
    """

    args: Mapping
    now: int
    secret: str
    base_url: str
    posts: RenderedPosts

    @classmethod
    def by(cls, app, request, now, args=None):
        """`args`: what is known of the query; None for all of it."""
        known = request.args if args is None else args
        return cls(known, now, app.secret_key, app.config["CANDOR"].base_url, app.rendered_posts)


# path -> (names its query may have, what makes its list of an Asked)
LISTS = {}


def kept_list(path, *names):
    """The GET of a list that the function makes of an Asked, as a dict. `names`: the only ones of
    the query that it reads.

    It is kept until anything is written (web.kept) and for a minute at most, for windows of time
    move on; `asOf` is always now.
    """

    def decorate(make):
        LISTS[blueprint.url_prefix + path] = names, make

        @functools.wraps(make)
        def view():
            asked = request._get_current_object()
            return JsonResponse(find_list(current_app._get_current_object(), asked, g.visit))

        return blueprint.get(path)(view)

    return decorate


def find_list(app, request, visit):
    """The JSON of the list this request asks for, from what is kept or read anew."""
    names, make = LISTS[request.path]
    args = read_known(request.args, names)
    version = visit.version, start_of_minute(visit.now)
    body = app.list_cache.find(
        (request.path, *args.items()),
        version,
        # without its last brace: a body is copied once only
        lambda: orjson.dumps(make(Asked.by(app, request, visit.now, args)))[:-1],
    )
    return b'%b,"asOf":"%b"}' % (body, show_time(visit.now).encode())


def read_known(args, names):
    """{name: text} of a query's known names in one order, the first where one is repeated, and
    `limit` as it is echoed.

    Queries that ask for the same are the same: other names, orders and spellings cause no other
    reading.
    """
    known = {name: args[name] for name in names if name in args}
    return {**known, "limit": str(paging.read_limit(known))}


def start_of_minute(now):
    return now - now % MINUTE


# ---- what a query may say ------------------------------------------------------------------------
def read_address(asked, name):
    """A base58 address of the query, or None where it is not given."""
    text = asked.args.get(name)
    if text is not None and not is_address(text):
        raise Problem("invalid_parameter", f"{name} must be base58 of 32 bytes")
    return text


def read_choice(asked, name, allowed, default):
    text = asked.args.get(name, default)
    if text not in allowed:
        raise Problem("invalid_parameter", f"{name} must be one of: {', '.join(allowed)}")
    return text


def read_cursor(asked, scope, size):
    """The position the query's cursor stands for, or None without one."""
    text = asked.args.get("cursor")
    if text is None:
        return None
    position = paging.read_cursor(asked.secret, scope, text)
    if len(position) != size:
        raise Problem("invalid_cursor", "this cursor belongs to `since`")
    return position


def read_since(asked, scope, find_arrival, resumed=None):
    """The arrival after which `since` (or what is `resumed` instead) asks: a newestCursor or the id
    of an item; None without it.
    """
    text = resumed or asked.args.get("since")
    if text is None:
        return None
    if "cursor" in asked.args:
        raise Problem("invalid_parameter", "send either cursor (older) or since (newer)")
    known = find_arrival(text)
    return paging.read_cursor(asked.secret, ("since", *scope), text)[0] if known is None else known


def write_cursor(asked, scope, position):
    return paging.write_cursor(asked.secret, scope, position)


# ---- influencers ---------------------------------------------------------------------------------
@kept_list("/bots", "limit", "cursor")
def list_bots(asked):
    limit, position = paging.read_limit(asked.args), read_cursor(asked, ("bots",), 1)
    rows, more = paging.cut_page(queries.list_bots(limit + 1, position and position[0]), limit)
    former = queries.list_former_wallets([row.id for row in rows])
    return show_list(
        [show_bot(row, former.get(row.id, ()), asked.base_url) for row in rows],
        limit,
        write_cursor(asked, ("bots",), (rows[-1].id,)) if more else None,
    )


@blueprint.get("/bots/<uid>")
def show_one_bot(uid):
    return JsonResponse(
        current_app.list_cache.find(
            request.path,
            g.visit.version,
            lambda: orjson.dumps(find_bot(uid, current_app.config["CANDOR"].base_url)),
        )
    )


def find_bot(uid, base_url):
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such influencer")
    former = queries.list_former_wallets([row.id])
    shares = queries.find_wallets(bot=uid)
    return {
        **show_bot(row, former.get(row.id, ()), base_url),
        "latestTrades": show_trades(queries.list_trades(LATEST, shares=shares)),
        "feed": [show_post(post) for post in queries.list_posts(LATEST, bot=uid)],
        "openPositions": show_positions(positions_of(row)),
    }


def show_positions(positions):
    symbols = market.find_symbols([position["mint"] for position in positions])
    return [{**position, "symbol": symbols.get(position["mint"])} for position in positions]


# ---- posts ---------------------------------------------------------------------------------------
@kept_list("/feed", "limit", "cursor", "since")
def list_feed(asked):
    limit, scope = paging.read_limit(asked.args), ("feed",)
    after = read_since(asked, scope, queries.find_post_arrival)
    if after is not None:
        arrived = queries.list_posts_since(limit, after)
        return show_list(
            [show_post(row) for _, row in arrived],
            limit,
            newestCursor=write_cursor(
                asked, ("since", *scope), (arrived[-1][0] if arrived else after,)
            ),
        )
    position, head = read_cursor(asked, scope, 1), queries.find_head()
    states, more = paging.cut_page(
        queries.list_post_states(limit + 1, position[0] if position else head.post + 1), limit
    )
    return show_list(
        asked.posts.list(states),
        limit,
        write_cursor(asked, scope, (states[-1].id,)) if more else None,
        newestCursor=write_cursor(asked, ("since", *scope), (head.arrival,)),
    )


def write_posts(ids):
    """{state: JSON} of these posts as they are now."""
    return {
        queries.state_of_post(row): orjson.Fragment(orjson.dumps(show_post(row)))
        for row in queries.find_posts(ids).values()
    }


@blueprint.record
def keep_rendered_posts(state):
    """Give each application its own: the state of a post does not say which database it is in."""
    state.app.rendered_posts = RenderedPosts(MAX_RENDERED_POSTS, write_posts)


@blueprint.get("/posts/<uid>")
def show_one_post(uid):
    row = queries.find_post(uid)
    if row is None:
        raise Problem("not_found", "there is no such post")
    return respond(show_post(row))


@blueprint.post("/posts")
def publish():
    return JsonResponse(*store_post(current_app, request, g.visit))


def store_post(app, request, visit):
    """(JSON, status, headers) of the post this request publishes."""
    caller = visit.caller
    if caller.scope != "publish":
        raise Problem("insufficient_scope", "posting needs a publishing key; this is a read key")
    if request.mimetype != "application/json":
        raise Problem("unsupported_media_type", "send Content-Type: application/json")
    body, sanitized = posts.parse_post(
        posts.parse_json(request.get_data()), read_idempotency_key(request)
    )
    if body.botId not in (None, caller.bot_uid):
        raise Problem(
            "bot_mismatch", "botId names another influencer than the one this key belongs to"
        )
    with app.list_cache.writing():
        done = posts.publish(
            caller.bot_id, body, visit.now, "api", caller.key_id, sanitized, app.config["CANDOR"]
        )
        shown = orjson.dumps(show_post(queries.find_post(done.uid)))
    return (shown, 200, {"Idempotent-Replayed": "true"}) if done.replayed else (shown, 201, {})


def read_idempotency_key(request):
    """The header as UTF-8 text, or None."""
    text = request.headers.get("Idempotency-Key")
    try:
        return text and text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise invalid("Idempotency-Key", "must be UTF-8") from None


# ---- trades --------------------------------------------------------------------------------------
def show_trades(rows):
    """Trades as JSON, with the symbols the market knows (hostile text, like all names)."""
    changes = [orjson.loads(row.token_changes) for row in rows]
    symbols = market.find_symbols({mint for moved in changes for mint, _, _ in moved})
    return [show_trade(row, moved, symbols) for row, moved in zip(rows, changes, strict=True)]


@kept_list("/trades", "limit", "cursor", "since", "wallet", "mint", "botId")
def list_trades(asked):
    limit, wallet, mint, bot = (
        paging.read_limit(asked.args),
        read_address(asked, "wallet"),
        read_address(asked, "mint"),
        asked.args.get("botId"),
    )
    scope = ("trades", wallet, mint, bot)
    shares = queries.find_wallets(wallet, bot) if wallet or bot else None
    coverage = show_coverage(True, shares[0].coverage) if shares and len(shares) == 1 else None
    after = read_since(asked, scope, queries.find_trade_arrival)
    if after is not None:
        arrived = queries.list_trades_since(limit, after, shares, mint)
        return show_list(
            show_trades([row for _, row in arrived]),
            limit,
            newestCursor=write_cursor(
                asked, ("since", *scope), (arrived[-1][0] if arrived else after,)
            ),
            coverage=coverage,
        )
    position, head = read_cursor(asked, scope, 3), queries.find_head()
    rows, more = paging.cut_page(
        queries.list_trades(limit + 1, position, None if position else head.trade, shares, mint),
        limit,
    )
    return show_list(
        show_trades(rows),
        limit,
        write_cursor(asked, scope, rows[-1].position) if more else None,
        newestCursor=write_cursor(asked, ("since", *scope), (head.arrival,)),
        coverage=coverage,
    )


@kept_list("/activity", "limit", "cursor", "mint")
def list_activity(asked):
    limit, mint = paging.read_limit(asked.args), read_address(asked, "mint")
    if mint is None:
        raise Problem("invalid_parameter", "mint is required: base58 of 32 bytes")
    scope = ("activity", mint)
    rows, more = paging.cut_page(
        queries.list_activity(mint, limit + 1, read_cursor(asked, scope, 3)), limit
    )
    sides = queries.count_sides(mint)
    return show_list(
        [show_activity(row, mint) for row in rows],
        limit,
        write_cursor(asked, scope, rows[-1].position) if more else None,
        mint=mint,
        symbol=market.find_symbols([mint]).get(mint),
        buyers=sides.get("buy", 0),
        sellers=sides.get("sell", 0),
        walletsTracked=queries.count_tracked(),
    )


@kept_list("/leaderboard", "limit", "sort", "window")
def show_leaderboard(asked):
    limit = paging.read_limit(asked.args)
    sort, window = (
        read_choice(asked, "sort", leaderboard.SORTS, "pnl"),
        read_choice(asked, "window", tuple(leaderboard.WINDOWS), "all"),
    )
    entries = leaderboard.list_entries(sort, window, start_of_minute(asked.now))
    return show_list(
        leaderboard.show_entries(entries[:limit], sort), limit, sort=sort, window=window
    )


@blueprint.get("/market")
# not kept: a quote goes stale at its second
def list_market():
    asked = Asked.by(current_app, request, g.now)
    limit, scope = paging.read_limit(asked.args), ("market",)
    entries, last = market.list_market(asked.now, limit, read_cursor(asked, scope, 2))
    more = {} if entries else {"note": market.explain_empty(asked.now)}
    return respond(
        {
            **show_list(entries, limit, write_cursor(asked, scope, last) if last else None, **more),
            "asOf": show_time(asked.now),
        }
    )


@blueprint.get("/me")
def show_me():
    caller = g.visit.caller
    standing = current_app.allowance.look(
        list_limits(current_app.config["CANDOR"], caller.owner_id, posting=True), g.now / 1000
    )
    return respond(
        {
            "kind": caller.scope,
            "keyId": caller.key_uid,
            "ownerId": caller.owner_uid,
            "botId": caller.bot_uid,
            "windows": show_windows(standing),
        }
    )
