"""/api/v1: every route needs a key. A route reads, validates, queries and responds."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from flask import Blueprint, Response, g, request

from accounts import posts
from accounts.fields import parse_json
from accounts.problem import Problem, invalid
from chain.reading.currencies import map_currencies
from chain.stored.standings import WINDOWS
from evidence import log
from ratelimit import list_limits, show_windows
from web.api import bots, leaderboard, market, paging, queries, results
from web.api.answers import Body, answer, keep_fields, read_fields
from web.api.copying import Copying, find_copying
from web.api.market import MarketEntry
from web.api.paging import Args, read_address, read_bot, read_choice, refuse
from web.api.posts import LogPromise, Post, show_posts
from web.api.queries import TradePosition
from web.api.serialize import show_time
from web.api.shapes import TypedDict, described
from web.api.trades import (
    EVERY_TRADE,
    PAYABLE_KINDS,
    TRADE_KINDS,
    TokenTrade,
    Trade,
    Wanted,
    expand_kinds,
    find_arrived,
    find_trades,
    show_activities,
    show_trades,
)
from web.api.wallets import Position, show_coverage
from web.server import gate
from web.server.application import JsonResponse, find_app


# ---- the request's key ---------------------------------------------------------------------------
class AllowanceWindow(TypedDict):
    """What is left of the owner's rate limit in one window."""

    window: Literal["minute", "hour", "day", "posts_minute"]
    limit: int
    remaining: int
    resetSeconds: int


class Me(TypedDict):
    """The key of the request."""

    kind: Literal["read", "publish"]
    keyId: str
    ownerId: str
    botId: Annotated[str | None, described("the bot a publishing key posts for")]
    windows: list[AllowanceWindow]


blueprint = Blueprint("v1", __name__, url_prefix="/api/v1")
blueprint.before_request(gate.check_key)
MINUTE_MS = 60_000
Json = dict[str, Any]


class Route(NamedTuple):
    """A GET route for an object or for a list of rows with this shape, and its query parameters."""

    shape: Any
    is_list: bool
    names: tuple[str, ...]


# The routes by path, as in the OpenAPI document. A parameter that only another route knows is an
# error.
ROUTES: dict[str, Route] = {}


def show_list(data: Any, limit: int, next_cursor: str | None = None, **more: Any) -> Json:
    return {"data": data, "nextCursor": next_cursor, "limit": limit, **more}


def show_page(
    rows: Sequence[Any],
    limit: int,
    scope: paging.Scope,
    place: Callable[[Any], paging.Position],
    show: Callable[[Sequence[Any]], Any] = list,
    **more: Any,
) -> Json:
    """Return a list of the first `limit` rows, with a cursor to the last one if there are more."""
    page, is_more = paging.cut_page(rows, limit)
    cursor = write_cursor(scope, place(page[-1])) if is_more else None
    return show_list(show(page), limit, cursor, **more)


# ---- cached answers ------------------------------------------------------------------------------
def cached_list(path: str, shape: Any, *names: str) -> Callable[[Callable[..., Json]], Any]:
    """Register a GET route for a list of `shape`.

    The decorated function builds the list from the query's arguments (only `names`) and the path.
    The list is cached until the next write (web.server.cache), but at most for a minute, because
    time windows move. Its `asOf` is always current.
    """
    return _cached(path, Route(shape, True, ("limit", *names)), write_end)


def cached_object(path: str, shape: Any, *names: str) -> Callable[[Callable[..., Any]], Any]:
    """Register a GET route for an object in the same way as `cached_list`."""
    return _cached(path, Route(shape, False, names), lambda now: b"}")


def write_end(now: int) -> bytes:
    """Return the end of a list's JSON, with the request time `now` (ms)."""
    return b',"asOf":"%b"}' % show_time(now).encode()


def _cached(
    path: str, route: Route, end: Callable[[int], bytes]
) -> Callable[[Callable[..., Any]], Any]:
    ROUTES[f"/api/v1{path.replace('<uid>', '{id}')}"] = route

    def decorate(make: Callable[..., Any]) -> Any:
        @functools.wraps(make)
        def view(**place: str) -> Response:
            context, args = gate.find_context(), read_known(request.args, route.names)
            fields = read_fields(request.args.get("fields"), route.shape)
            body = find_app().list_cache.find(
                (path, *place.values(), *args.items(), fields),
                (context.version, start_of_minute(context.now)),
                lambda: Body(keep_fields(make(args, **place), fields)),
            )
            return answer(body, end(context.now))

        return blueprint.get(path)(view)

    return decorate


def read_known(args: Args, names: Collection[str]) -> dict[str, str]:
    """Return {name: text} of a query's known parameters, in a fixed order.

    If a parameter is repeated, the first one counts. `limit` is as the response shows it.
    Equivalent queries therefore share one cache entry, regardless of unknown parameters. Raises
    Problem for a parameter that only other lists know.
    """
    for name in args:
        if name not in names and any(name in route.names for route in ROUTES.values()):
            allowed = ", ".join((*names, "fields"))
            raise refuse(name, f"is not a parameter of this request, which accepts: {allowed}")
    known = {name: args[name] for name in names if name in args}
    return {**known, "limit": str(paging.read_limit(known))} if "limit" in names else known


def start_of_minute(now: int) -> int:
    return now - now % MINUTE_MS


# ---- arguments of a query ------------------------------------------------------------------------
def read_cursor(
    args: Args, scope: paging.Scope, kind: Callable[..., paging.Kind]
) -> paging.Kind | None:
    """Return the query's cursor as a position (the NamedTuple `kind`), or None."""
    text = args.get("cursor")
    if text is None:
        return None
    return paging.read_position(find_app().secret, scope, text, kind)


def read_since(args: Args, last_event_id: str | None = None) -> int | None:
    """Return the arrival in `since` or, without it, in the `Last-Event-ID` header. Return None
    without either.
    """
    text = last_event_id or args.get("since")
    if text is None:
        return None
    if "cursor" in args:
        raise Problem("invalid_parameter", "send either cursor (older) or since (newer)")
    (arrival,) = paging.read_cursor(find_app().secret, paging.ARRIVALS, text)
    return arrival


def read_flag(args: Args, name: str) -> bool:
    """Return the flag `name=0` or `name=1`. The default is True."""
    return read_choice(args, name, ("0", "1"), "1") == "1"


def write_cursor(scope: paging.Scope, position: paging.Position) -> str:
    return paging.write_cursor(find_app().secret, scope, position)


def write_newest(arrival: int) -> str:
    return write_cursor(paging.ARRIVALS, (arrival,))


# ---- bots ----------------------------------------------------------------------------------------
@cached_list("/bots", bots.Bot, "cursor")
def list_bots(args: Args) -> Json:
    limit, position = paging.read_limit(args), read_cursor(args, ("bots",), paging.IdPosition)
    before = position.id if position else None
    rows = queries.list_bots(limit + 1, before)
    return show_page(rows, limit, ("bots",), lambda row: (row.id,), bots.show_bots)


@cached_object("/bots/<uid>", bots.BotDetail, "trades", "feed")
def show_one_bot(args: Args, uid: str) -> bots.BotDetail:
    trades, feed = (read_flag(args, name) for name in ("trades", "feed"))
    return bots.make_detail(uid, start_of_minute(g.now), trades=trades, feed=feed)


@cached_object("/bots/<uid>/copying", Copying)
def show_copying(args: Args, uid: str) -> Copying:
    return find_copying(bots.find_row(uid).id)


class MintPosition(NamedTuple):
    """A token's position in a list: a number and its mint, or only its mint.

    Cursors contain whole numbers, so a mint is written as the number that its bytes represent.
    """

    mint: int
    number: int = 0

    @property
    def text(self) -> str:
        return self.mint.to_bytes((self.mint.bit_length() + 7) // 8).decode()


def place_mint(mint: str, number: int = 0) -> MintPosition:
    return MintPosition(int.from_bytes(mint.encode()), number)


@cached_list("/bots/<uid>/positions", Position, "cursor")
def list_positions(args: Args, uid: str) -> Json:
    limit, scope, row = paging.read_limit(args), ("positions", uid), bots.find_row(uid)
    after = read_cursor(args, scope, MintPosition)
    held = bots.list_positions(row, start_of_minute(g.now)) or []
    wanted = [one for one in held if not after or one["mint"] > after.text]
    wanted.sort(key=lambda one: one["mint"])
    return show_page(wanted, limit, scope, lambda one: place_mint(one["mint"]))


@cached_list("/bots/<uid>/tokens", results.TokenResult, "cursor")
def list_tokens(args: Args, uid: str) -> Json:
    limit, scope, row = paging.read_limit(args), ("tokens", uid), bots.find_row(uid)
    after = read_cursor(args, scope, MintPosition)
    place = (after.number, after.text) if after else None
    found = [] if row.since else results.list_tokens(row.id, limit + 1, place)
    return show_page(
        found,
        limit,
        scope,
        lambda row: place_mint(row.mint, row.realized),
        results.show_tokens,
    )


@cached_list("/bots/<uid>/daily", bots.DayResult, "cursor", "currency")
def list_days(args: Args, uid: str) -> Json:
    """Return the list of a bot's daily results in a currency, newest first."""
    limit, currency = paging.read_limit(args), read_currency(args) or "SOL"
    row, scope = bots.find_row(uid), ("daily", uid, currency)
    before = read_cursor(args, scope, paging.IdPosition)
    money = map_currencies()[currency]
    days = [] if row.since else bots.list_days(uid, money)
    wanted = [day for day in days if not before or count_days(day["date"]) < before.id]
    return show_page(wanted, limit, scope, lambda day: (count_days(day["date"]),))


def count_days(date: str) -> int:
    """Return a day's number: 20261120 for `2026-11-20`."""
    return int(date.replace("-", ""))


def read_currency(args: Args) -> str | None:
    if "currency" not in args:
        return None
    return read_choice(args, "currency", tuple(map_currencies()), "")


# ---- posts ---------------------------------------------------------------------------------------
@cached_list("/feed", Post, "cursor", "since", "botId", "mint", "label")
def list_feed(args: Args) -> Json:
    limit, wanted = paging.read_limit(args), read_post_filter(args)
    after, head = read_since(args), queries.find_head()
    if after is not None:
        arrived = queries.list_posts_since(limit, after, wanted)
        last = arrived[-1].arrival if arrived else after
        newest = last if len(arrived) == limit else max(last, head.arrival)
        return show_list(
            show_posts(one.row for one in arrived), limit, newestCursor=write_newest(newest)
        )
    scope = ("feed", *wanted[:3])
    position = read_cursor(args, scope, paging.IdPosition)
    before = position.id if position else head.post + 1
    rows = queries.list_posts(limit + 1, before, *wanted[:3])
    cursor = write_newest(head.arrival)
    return show_page(rows, limit, scope, lambda row: (row.id,), show_posts, newestCursor=cursor)


def read_post_filter(args: Args) -> queries.PostFilter:
    label = read_choice(args, "label", queries.POST_STATUSES, "") if "label" in args else None
    return queries.PostFilter(read_bot(args), read_address(args, "mint"), label)


@cached_object("/posts/<uid>", Post)
def show_one_post(args: Args, uid: str) -> Post:
    return find_post(uid)


def find_post(uid: str) -> Post:
    row = queries.find_post(uid)
    if row is None:
        raise Problem("not_found", "there is no such post")
    return show_posts([row])[0]


@blueprint.post("/posts")
def publish() -> JsonResponse:
    """Store the post in the body. Returns 201, or 200 if the same post was sent before."""
    app, context, caller = find_app(), gate.find_context(), gate.find_caller()
    if caller.scope != "publish" or caller.bot_id is None:
        raise Problem("insufficient_scope", "posting needs a publishing key; this is a read key")
    if request.mimetype != "application/json":
        raise Problem("unsupported_media_type", "send Content-Type: application/json")
    body, sanitized = posts.parse_post(parse_json(request.get_data()), read_event_id())
    if body.botId not in (None, caller.bot_uid):
        raise Problem("bot_mismatch", "botId must be the bot that this key belongs to")
    done = posts.publish(
        caller.bot_id, body, context.now, "api", caller.key_id, sanitized, app.settings
    )
    post = find_post(done.uid)
    shown = orjson.dumps({**post, "logPromise": make_promise(done, post["logId"] or "")})
    if done.replayed:
        return JsonResponse(shown, 200, {"Idempotent-Replayed": "true"})
    location = f"{app.settings.base_path}/api/v1/posts/{done.uid}"
    return JsonResponse(shown, 201, {"Location": location})


def make_promise(done: posts.Published, log_uid: str) -> LogPromise:
    leaf, salt = done.leaf, done.salt
    if leaf is None:
        logged = log.find_post(done.uid)
        if logged is None:
            raise Problem("internal_error", "this post is not in the log")
        leaf, salt = logged.leaf, logged.salt
    signature = find_app().log_signer.promise(log_uid, leaf)
    return {"leaf": leaf, "salt": salt, "signature": signature}


def read_event_id() -> str | None:
    """Return the `Idempotency-Key` header as UTF-8 text, or None."""
    text = request.headers.get("Idempotency-Key")
    try:
        return text and text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise invalid("Idempotency-Key", "must be UTF-8") from None


# ---- trades --------------------------------------------------------------------------------------
def read_wanted(args: Args) -> tuple[Wanted, paging.Scope]:
    """Return the requested trades, and the scope of their cursors."""
    bot, wallet, mint = read_bot(args), read_address(args, "wallet"), read_address(args, "mint")
    kinds, currency = read_kinds(args), read_currency(args)
    spans = queries.find_wallets(wallet, bot) if wallet or bot else None
    scope = ("trades", wallet, mint, bot, args.get("kind"), currency)
    money = None if currency is None else map_currencies()[currency]
    if money is not None:
        payable = frozenset(PAYABLE_KINDS)
        # If no requested kind has a currency, the empty kind makes the query return no rows.
        kinds = (kinds or payable) & payable or frozenset(("",))
    return Wanted(spans, [mint] if mint else None, kinds, money), scope


def read_kinds(args: Args) -> frozenset[str]:
    """Return the comma-separated kinds in the query. If it is empty, all kinds are wanted."""
    if "kind" not in args:
        return frozenset()
    allowed = (*TRADE_KINDS, EVERY_TRADE)
    words = args["kind"].split(",")
    for word in words:
        read_choice({"kind": word}, "kind", allowed, "")
    return expand_kinds(words)


@cached_list("/trades", Trade, "cursor", "since", "wallet", "mint", "botId", "kind", "currency")
def list_trades(args: Args) -> Json:
    limit, (wanted, scope) = paging.read_limit(args), read_wanted(args)
    spans = wanted.spans
    one = spans[0] if spans and len(spans) == 1 else None
    coverage = one and show_coverage(one.address, one.coverage)
    after, head = read_since(args), queries.find_head()
    if after is not None:
        arrived = find_arrived(wanted, limit, after)
        return show_list(
            show_trades(arrived.rows),
            limit,
            newestCursor=write_newest(arrived.arrival),
            coverage=coverage,
        )
    position = read_cursor(args, scope, TradePosition)
    found = find_trades(wanted, limit, position, None if position else head.trade)
    return show_list(
        show_trades(found.rows),
        limit,
        found.position and write_cursor(scope, found.position),
        newestCursor=write_newest(head.arrival),
        coverage=coverage,
    )


@cached_list("/activity", TokenTrade, "cursor", "mint")
def list_activity(args: Args) -> Json:
    limit, mint = paging.read_limit(args), read_address(args, "mint")
    if mint is None:
        raise refuse("mint", "is required: a base58 address of 32 bytes")
    scope = ("activity", mint)
    rows = queries.list_activity(mint, limit + 1, read_cursor(args, scope, TradePosition))
    sides = queries.count_sides(mint)
    return show_page(
        rows,
        limit,
        scope,
        queries.find_place,
        lambda page: show_activities(page, mint),
        mint=mint,
        symbol=market.find_symbols([mint]).get(mint),
        buyers=sides.get("buy", 0),
        sellers=sides.get("sell", 0),
        walletsTracked=queries.count_tracked(),
    )


@cached_list(
    "/leaderboard",
    leaderboard.LeaderboardEntry,
    *("sort", "window", "record", "ownership", "currency"),
)
def show_leaderboard(args: Args) -> Json:
    limit, board, now = paging.read_limit(args), read_board(args), start_of_minute(g.now)
    entries = leaderboard.list_entries(board, now, limit)[:limit]
    rows = leaderboard.show_entries(entries, board, now)
    return show_list(rows, limit, **board._asdict())


def read_board(args: Mapping[str, str]) -> leaderboard.Board:
    """Return the requested board. Raises Problem for an unknown choice."""
    return leaderboard.Board(
        read_choice(args, "record", leaderboard.RECORDS, leaderboard.RECORDS[0]),
        read_choice(args, "sort", leaderboard.SORTS, leaderboard.SORTS[0]),
        read_choice(args, "window", tuple(WINDOWS), "all"),
        read_choice(args, "ownership", leaderboard.OWNERSHIPS, "") if "ownership" in args else None,
        read_currency(args) or "SOL",
    )


@blueprint.get("/market")
def list_market() -> Response:
    """Return the tracked tokens. They aren't cached, because a quote becomes stale at a precise
    time.
    """
    now, scope, args = g.now, ("market",), read_known(request.args, ("limit", "cursor"))
    limit, fields = paging.read_limit(args), read_fields(request.args.get("fields"), MarketEntry)
    after = read_cursor(args, scope, market.MarketPosition) or market.ABOVE_ALL
    entries, last = market.list_market(now, limit, after)
    more = {} if entries else {"note": market.explain_empty(now)}
    cursor = write_cursor(scope, last) if last else None
    shown = keep_fields(show_list(entries, limit, cursor, **more), fields)
    return answer(Body(shown), write_end(now))


@blueprint.get("/me")
def show_me() -> Response:
    app, caller = find_app(), gate.find_caller()
    limits = list_limits(app.settings, caller.owner_id, posting=True)
    windows: Any = show_windows(app.allowance.peek(limits, g.now / 1000))
    kind: Any = caller.scope
    me: Me = {
        "kind": kind,
        "keyId": caller.key_uid,
        "ownerId": caller.owner_uid,
        "botId": caller.bot_uid,
        "windows": windows,
    }
    return answer(Body(keep_fields(me, read_fields(request.args.get("fields"), Me))))
