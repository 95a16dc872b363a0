"""/api/v1: every route needs a key; read, validate, query, answer."""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import orjson
from flask import Blueprint, Response, g, request

from accounts import posts
from accounts.json_body import parse_json
from accounts.problem import Problem, invalid
from chain.stored.attachments import OF_RESULTS
from chain.stored.signs import find_signs
from chain.stored.standings import WINDOWS
from evidence import log
from evidence.notes import encode
from ratelimit import list_limits, show_windows
from storage import read_rows
from web.api import leaderboard, market, paging, queries, quote_results, records, risk, spreadsheet
from web.api.arguments import Args, read_address, read_bot, read_choice
from web.api.estimates import add_estimates
from web.api.held_wallets import list_wallets
from web.api.look_back import TRADE_KINDS, Wanted, find_arrived, find_trades
from web.api.posts import show_posts
from web.api.records import show_records
from web.api.serialize import (
    DAMAGED,
    positions_of,
    show_bot,
    show_coverage,
    show_time,
    write_cached,
)
from web.api.standings import show_connected
from web.api.statements import BotRow, TradePosition
from web.api.token_results import list_by_token, show_token_results
from web.api.trades import show_activities, show_trades
from web.server import gate
from web.server.application import NO_STORE, JsonResponse, find_app

blueprint = Blueprint("v1", __name__, url_prefix="/api/v1")
blueprint.before_request(gate.check_key)
MINUTE_MS = 60_000
# Trades and posts in the detail of a bot.
LATEST = 20
JSON, CSV = "application/json", "text/csv"
TRADE_ARGUMENTS = ("limit", "cursor", "since", "wallet", "mint", "botId", "kind")
Json = dict[str, Any]


def respond(shown: Json) -> JsonResponse:
    """Answer 200 with JSON that no cache holds."""
    return JsonResponse(orjson.dumps(shown))


def show_list(data: Sequence[Any], limit: int, next_cursor: str | None = None, **more: Any) -> Json:
    """Make the envelope of every list."""
    return {"data": data, "nextCursor": next_cursor, "limit": limit, **more}


# ---- cached lists --------------------------------------------------------------------------------
def cached_list(
    path: str, *names: str, as_csv: Callable[[Args], Response] | None = None
) -> Callable[[Callable[[Args], Json]], Any]:
    """Register the GET of a list. The decorated function makes it of the query's arguments, of
    which it reads `names` only. `as_csv` answers whoever prefers `text/csv`.

    The list is cached until anything is written (web.server.cache), and for a minute at most, for
    windows of time move on. Its `asOf` is always now.
    """

    def decorate(make: Callable[[Args], Json]) -> Any:
        @functools.wraps(make)
        def view() -> Response:
            context, args = gate.find_context(), read_known(request.args, names)
            if as_csv and prefers_csv():
                return as_csv(args)
            body = find_app().list_cache.find(
                (path, *args.items()),
                (context.version, start_of_minute(context.now)),
                # Without its last brace: a body is copied once only.
                lambda: orjson.dumps(make(args))[:-1],
            )
            return JsonResponse(b'%b,"asOf":"%b"}' % (body, show_time(context.now).encode()))

        return blueprint.get(path)(view)

    return decorate


def prefers_csv() -> bool:
    """Whether the request would rather have `text/csv` than JSON."""
    if CSV not in request.headers.get("Accept", ""):
        return False
    return request.accept_mimetypes.best_match((JSON, CSV)) == CSV


def read_known(args: Args, names: Collection[str]) -> dict[str, str]:
    """Return {name: text} of a query's known names in one order, the first where one is repeated,
    and `limit` as it is echoed.

    So queries that mean the same share one entry of the cache, whatever else they say.
    """
    known = {name: args[name] for name in names if name in args}
    return {**known, "limit": str(paging.read_limit(known))}


def start_of_minute(now: int) -> int:
    """Return when the minute of this time began, both in ms."""
    return now - now % MINUTE_MS


# ---- arguments of a query ------------------------------------------------------------------------
def read_cursor(
    args: Args, scope: paging.Scope, kind: Callable[..., paging.Kind]
) -> paging.Kind | None:
    """Return the position, as a NamedTuple `kind`, that the query's cursor stands for; None
    without one.
    """
    text = args.get("cursor")
    if text is None:
        return None
    secret = find_app().secret
    return paging.read_position(secret, scope, text, kind, "this cursor belongs to `since`")


def read_since(
    args: Args,
    scope: paging.Scope,
    find_arrival: Callable[[str], int | None],
    last_event_id: str | None = None,
) -> int | None:
    """Return the arrival after which `since` asks, or the header `Last-Event-ID` instead of it: a
    newestCursor, or the id of an item. None without them.
    """
    text = last_event_id or args.get("since")
    if text is None:
        return None
    if "cursor" in args:
        raise Problem("invalid_parameter", "send either cursor (older) or since (newer)")
    known = find_arrival(text)
    if known is not None:
        return known
    (arrival,) = paging.read_cursor(find_app().secret, ("since", *scope), text)
    return arrival


def write_cursor(scope: paging.Scope, position: paging.Position) -> str:
    """Return the cursor of older rows than the one at this position."""
    return paging.write_cursor(find_app().secret, scope, position)


def write_newest(scope: paging.Scope, arrival: int) -> str:
    """Return the cursor for `since` of what arrives after this arrival."""
    return write_cursor(("since", *scope), (arrival,))


# ---- bots ----------------------------------------------------------------------------------------
@cached_list("/bots", "limit", "cursor")
def list_bots(args: Args) -> Json:
    """Make the list of bots, newest first."""
    limit, position = paging.read_limit(args), read_cursor(args, ("bots",), paging.IdPosition)
    before = position.id if position else None
    rows, more = paging.cut_page(queries.list_bots(limit + 1, before), limit)
    return show_list(
        show_bots(rows),
        limit,
        write_cursor(("bots",), (rows[-1].id,)) if more else None,
    )


def show_bots(rows: Sequence[BotRow]) -> list[Json]:
    """Make the Bots."""
    ids, base_url = [row.id for row in rows], find_app().settings.base_url
    former, told = queries.list_former_wallets(ids), show_records(ids)
    shown = [{**show_bot(row, former.get(row.id, ()), base_url), **told[row.id]} for row in rows]
    risk.add_risks(shown, ids)
    records.add_postings(shown, ids)
    quote_results.add_quotes(shown, rows)
    return shown


@blueprint.get("/bots/<uid>")
def show_one_bot(uid: str) -> JsonResponse:
    """Answer one bot with its latest trades, posts and open positions."""
    context = gate.find_context()
    minute = start_of_minute(context.now)
    version = context.version, minute
    body = find_app().list_cache.find(
        ("bot", uid), version, lambda: write_cached(make_bot(uid, minute))
    )
    return JsonResponse(body)


def make_bot(uid: str, now: int) -> Json:
    """Make the BotDetail; Problem for an unknown id. `now`: ms, for what windows of time hold."""
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such bot")
    spans, bot = queries.find_wallets(bot=uid), show_bots([row])[0]
    return {
        **bot,
        "wallets": list_wallets(row.id),
        "riskWindows": risk.list_windows(bot, row.id, now),
        "tokenResults": show_token_results(bot, row.id),
        "signs": find_signs(read_rows, OF_RESULTS, [row.id])[row.id],
        "byToken": list_by_token(bot, row.id),
        "latestTrades": show_trades(queries.list_trades(LATEST, spans=spans)),
        "feed": show_posts(queries.list_posts(LATEST, bot=uid)),
        **show_positions(positions_of(row), now),
    }


def show_positions(positions: Sequence[Json] | None, now: int) -> Json:
    """Show open positions with the symbols that the market knows and what they may be worth, or why
    they cannot be told.
    """
    if positions is None:
        return {"openPositions": None, "openPositionsReason": DAMAGED}
    symbols = market.find_symbols([position["mint"] for position in positions])
    shown = [
        {**position, "symbol": symbols.get(position["mint"])}
        for position in add_estimates(positions, now)
    ]
    return {"openPositions": shown, "openPositionsReason": None}


# ---- posts ---------------------------------------------------------------------------------------
@cached_list("/feed", "limit", "cursor", "since")
def list_feed(args: Args) -> Json:
    """Make the list of posts: newest first, or with `since` in order of arrival."""
    limit, scope = paging.read_limit(args), ("feed",)
    after = read_since(args, scope, queries.find_post_arrival)
    if after is not None:
        arrived = queries.list_posts_since(limit, after)
        return show_list(
            show_posts(one.row for one in arrived),
            limit,
            newestCursor=write_newest(scope, arrived[-1].arrival if arrived else after),
        )
    position, head = read_cursor(args, scope, paging.IdPosition), queries.find_head()
    before = position.id if position else head.post + 1
    rows, more = paging.cut_page(queries.list_posts(limit + 1, before), limit)
    return show_list(
        show_posts(rows),
        limit,
        write_cursor(scope, (rows[-1].id,)) if more else None,
        newestCursor=write_newest(scope, head.arrival),
    )


@blueprint.get("/posts/<uid>")
def show_one_post(uid: str) -> JsonResponse:
    """Answer one post as it stands now."""
    return respond(find_post(uid))


def find_post(uid: str) -> Json:
    """Make the Post of this id; Problem for an unknown one."""
    row = queries.find_post(uid)
    if row is None:
        raise Problem("not_found", "there is no such post")
    return show_posts([row])[0]


@blueprint.post("/posts")
def publish() -> JsonResponse:
    """Store the post in the body: 201, or 200 where the very same was sent before."""
    app, context, caller = find_app(), gate.find_context(), gate.find_caller()
    if caller.scope != "publish" or caller.bot_id is None:
        raise Problem("insufficient_scope", "posting needs a publishing key; this is a read key")
    if request.mimetype != "application/json":
        raise Problem("unsupported_media_type", "send Content-Type: application/json")
    body, sanitized = posts.parse_post(parse_json(request.get_data()), read_event_id())
    if body.botId not in (None, caller.bot_uid):
        raise Problem("bot_mismatch", "botId names another bot than the one this key belongs to")
    done = posts.publish(
        caller.bot_id, body, context.now, "api", caller.key_id, sanitized, app.settings
    )
    post = find_post(done.uid)
    shown = orjson.dumps({**post, "logPromise": make_promise(done, post["logId"])})
    if done.replayed:
        return JsonResponse(shown, 200, {"Idempotent-Replayed": "true"})
    return JsonResponse(shown, 201)


def make_promise(done: posts.Published, log_uid: str) -> Json:
    """Make the LogPromise of a post: its leaf, the salt of its words, and our signature."""
    leaf, salt = done.leaf, done.salt
    if leaf is None:
        logged = log.find_post(done.uid)
        if logged is None:
            raise Problem("internal_error", "this post is not in the log")
        leaf, salt = logged.leaf, logged.salt
    message = log.write_promise(log.name_origin(log_uid), leaf)
    signature = encode(find_app().log_signer.sign(message))
    return {"leaf": leaf, "salt": salt, "signature": signature}


def read_event_id() -> str | None:
    """Return the header `Idempotency-Key` as UTF-8 text, or None without it."""
    text = request.headers.get("Idempotency-Key")
    try:
        return text and text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise invalid("Idempotency-Key", "must be UTF-8") from None


# ---- trades --------------------------------------------------------------------------------------
def export_trades(args: Args) -> Response:
    """Answer all trades that the filters of listTrades allow, newest first, as a table; from a
    cursor on where one is given.
    """
    if "since" in args:
        raise Problem("invalid_parameter", "since belongs to JSON; a table begins at a cursor")
    wanted, scope = read_wanted(args)
    position = read_cursor(args, scope, TradePosition)
    pages = spreadsheet.list_trade_pages(show_trades, wanted, position)
    return spreadsheet.respond_table(
        "trades",
        pages,
        spreadsheet.TRADE_COLUMNS,
        lambda trade: [spreadsheet.make_trade_cells(trade)],
        NO_STORE["Cache-Control"],
    )


def read_wanted(args: Args) -> tuple[Wanted, paging.Scope]:
    """Return which trades are asked for, and the scope of their cursors."""
    bot, wallet, mint = read_bot(args), read_address(args, "wallet"), read_address(args, "mint")
    kind = read_choice(args, "kind", TRADE_KINDS, "") if "kind" in args else None
    spans = queries.find_wallets(wallet, bot) if wallet or bot else None
    scope = ("trades", wallet, mint, bot, *([kind] if kind else []))
    return Wanted(spans, [mint] if mint else None, kind), scope


@cached_list("/trades", *TRADE_ARGUMENTS, as_csv=export_trades)
def list_trades(args: Args) -> Json:
    """Make the list of trades: newest first, or with `since` in order of arrival."""
    limit, (wanted, scope) = paging.read_limit(args), read_wanted(args)
    spans = wanted.spans
    coverage = show_coverage(True, spans[0].coverage) if spans and len(spans) == 1 else None
    after = read_since(args, scope, queries.find_trade_arrival)
    if after is not None:
        arrived = find_arrived(wanted, limit, after)
        return show_list(
            show_trades(arrived.rows),
            limit,
            newestCursor=write_newest(scope, arrived.arrival),
            coverage=coverage,
        )
    position, head = read_cursor(args, scope, TradePosition), queries.find_head()
    found = find_trades(wanted, limit, position, None if position else head.trade)
    return show_list(
        show_trades(found.rows),
        limit,
        found.position and write_cursor(scope, found.position),
        newestCursor=write_newest(scope, head.arrival),
        coverage=coverage,
    )


@cached_list("/activity", "limit", "cursor", "mint")
def list_activity(args: Args) -> Json:
    """Make the list of who bought or sold a token, newest first."""
    limit, mint = paging.read_limit(args), read_address(args, "mint")
    if mint is None:
        raise Problem("invalid_parameter", "mint is required: a base58 address of 32 bytes")
    scope = ("activity", mint)
    rows, more = paging.cut_page(
        queries.list_activity(mint, limit + 1, read_cursor(args, scope, TradePosition)), limit
    )
    sides = queries.count_sides(mint)
    return show_list(
        show_activities(rows, mint),
        limit,
        write_cursor(scope, rows[-1].position) if more else None,
        mint=mint,
        symbol=market.find_symbols([mint]).get(mint),
        buyers=sides.get("buy", 0),
        sellers=sides.get("sell", 0),
        walletsTracked=queries.count_tracked(),
    )


@cached_list("/leaderboard", "limit", "sort", "window", "record", "ownership", "quote")
def show_leaderboard(args: Args) -> Json:
    """Make a leaderboard."""
    limit, board, now = paging.read_limit(args), read_board(args), start_of_minute(g.now)
    entries = leaderboard.list_entries(board, now, limit)
    rows = leaderboard.show_entries(entries, board, now)
    return show_list(rows, limit, **leaderboard.show_board(board), instance=show_connected())


def read_board(args: Args) -> leaderboard.Board:
    """Return which board a query asks for; Problem where it has a word that is none."""
    sort = read_choice(args, "sort", leaderboard.SORTS, leaderboard.SORTS[0])
    return leaderboard.Board(
        read_choice(args, "record", leaderboard.RECORDS, leaderboard.RECORDS[0]),
        sort,
        read_choice(args, "window", tuple(WINDOWS), "all"),
        read_choice(args, "ownership", leaderboard.OWNERSHIPS, "") if "ownership" in args else None,
        leaderboard.read_quote(args["quote"]) if "quote" in args else None,
    )


@blueprint.get("/market")
def list_market() -> JsonResponse:
    """Answer the tracked tokens. They are not cached: a quote goes stale at its second."""
    now, limit, scope = g.now, paging.read_limit(request.args), ("market",)
    entries, last = market.list_market(
        now, limit, read_cursor(request.args, scope, market.MarketPosition)
    )
    more = {} if entries else {"note": market.explain_empty(now)}
    cursor = write_cursor(scope, last) if last else None
    return respond({**show_list(entries, limit, cursor, **more), "asOf": show_time(now)})


@blueprint.get("/me")
def show_me() -> JsonResponse:
    """Answer whose key is asking, and what is left of the owner's allowance."""
    app, caller = find_app(), gate.find_caller()
    limits = list_limits(app.settings, caller.owner_id, posting=True)
    return respond(
        {
            "kind": caller.scope,
            "keyId": caller.key_uid,
            "ownerId": caller.owner_uid,
            "botId": caller.bot_uid,
            "windows": show_windows(app.allowance.peek(limits, g.now / 1000)),
        }
    )
