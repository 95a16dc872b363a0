"""The operations of the API, with their parameters, responses and errors."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from accounts.posts import PostBody
from accounts.registration import RegistrationBody
from chain.reading.currencies import map_currencies
from chain.stored.standings import WINDOWS
from web.api import (
    health,
    leaderboard,
    market,
    paper,
    paper_brain,
    paper_closes,
    posts,
    registration,
    search,  # noqa: F401 - registers its route
    seasons,
    trades,
    v1,
)
from web.api.leaderboard import OWNERSHIPS, RECORDS, SORTS
from web.api.queries import POST_STATUSES
from web.api.shapes import ClosesPage, FollowedPage, Page, PaperPage
from web.api.trades import EVERY_TRADE, MAX_LOOK_BACK

# A part of the OpenAPI document.
Json = dict[str, Any]
ADDRESS: Json = {"type": "string", "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$"}
LIMIT = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "default": 20},
    "description": "rows per page; values over 100 are treated as 100",
}
CURSOR = {
    "name": "cursor",
    "in": "query",
    "schema": {"type": "string"},
    "description": "nextCursor of the previous page",
}
SINCE = {
    "name": "since",
    "in": "query",
    "schema": {"type": "string"},
    "description": (
        "newestCursor of any response, or the ID of a stream event; returns newer entries in order."
        " Pass each response's newestCursor to the next request. Can't be combined with cursor"
    ),
}
LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": {"type": "string"},
    "description": "ID of the last event received; the stream resumes after it. Overrides since",
}


@dataclass(frozen=True)
class Operation:
    """A route of the API.

    `answer` is its shape, or None for a stream of events. For a Page, `rows` is the shape of its
    rows. `refusals` are its error codes in addition to those of all lists and objects. `body` is a
    model or a schema. `name` is the method name in generated clients.
    """

    path: str
    name: str
    tag: str
    summary: str
    answer: Any
    parameters: tuple[Json, ...] = ()
    refusals: tuple[str, ...] = ()
    description: str = ""
    rows: Any = None
    body: type[BaseModel] | Json | None = None
    keyed: bool = True
    method: str = "get"


def query(name: str, schema: Json, description: str, required: bool = False) -> Json:
    told = {"name": name, "in": "query", "schema": schema, "description": description}
    return {**told, "required": True} if required else told


def identifier(noun: str) -> Json:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": f"ID of the {noun}",
    }


MINT = query("mint", ADDRESS, "token mint address")
CURRENCY = query(
    "currency",
    # This module is imported after the process has read the operator's currencies.
    {"type": "string", "enum": list(map_currencies()), "default": "SOL"},
    "currency of the trades, never converted; the operator can add some",
)
FLAG: Json = {"type": "string", "enum": ["0", "1"], "default": "1"}
BOT = query("botId", {"type": "string", "minLength": 1}, "return only this bot's entries")
# The query parameters of all routes, in the document's order.
PARAMETERS = (
    query("trades", FLAG, "0 leaves out latestTrades"),
    query("feed", FLAG, "0 leaves out feed"),
    query("wallet", ADDRESS, "return only this wallet's entries"),
    BOT,
    MINT,
    query(
        "label",
        {"type": "string", "enum": list(POST_STATUSES)},
        "return only posts with this status",
    ),
    query(
        "kind",
        {"type": "string"},
        f"one or more kinds of Trade, comma-separated; {EVERY_TRADE}: buys, sells, swaps"
        " and round trips. With a kind or currency, a page searches"
        f" {MAX_LOOK_BACK:,} trades of each wallet, so it may have fewer rows than `limit`"
        " and still have a `nextCursor`; with `since`, you're done once `newestCursor`"
        " stays the same",
    ),
    query("q", {"type": "string", "minLength": 1, "maxLength": 200}, "the query", True),
    query(
        "record",
        {"type": "string", "enum": list(RECORDS), "default": RECORDS[0]},
        "forward: since the bot connected its wallets; all: their entire known history",
    ),
    query(
        "sort",
        {"type": "string", "enum": list(SORTS), "default": SORTS[0]},
        "pnl: realized PnL; return: PnL of sales divided by their cost basis, ranked from 1 SOL or"
        " 100 of a stablecoin; win_rate: by position; pnl_floor: worst case; volume: of buys and"
        " sells; trades: number of trades",
    ),
    query(
        "window",
        {"type": "string", "enum": list(WINDOWS), "default": "all"},
        "length of the window, which starts on the hour",
    ),
    query(
        "ownership",
        {"type": "string", "enum": list(OWNERSHIPS)},
        "return only wallets with this ownership",
    ),
    CURRENCY,
    LIMIT,
    CURSOR,
    SINCE,
)
OF_BODIES = ("invalid_json", "body_too_large", "unsupported_media_type", "validation_failed")
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    "description": "alternative to eventId in the body",
}
IDS = {f"{noun}s": identifier(noun) for noun in ("bot", "post", "season", "trader")}
# The parameters that several operations share, by their names in the document.
SHARED = {
    **{one["name"]: one for one in (LIMIT, CURSOR, SINCE, MINT, BOT, CURRENCY)},
    "ofBot": IDS["bots"],
    "ofTrader": IDS["traders"],
}


def read_route(
    path: str,
    name: str,
    tag: str,
    summary: str,
    answer: Any = Page,
    required: str = "",
    description: str = "",
) -> Operation:
    """Return the Operation for a GET route of v1.

    `answer` is a list's shape. `required` is a parameter that other lists don't require.
    """
    route = v1.ROUTES[path]
    parameters = tuple(
        {**one, "required": True} if one["name"] == required else one
        for one in PARAMETERS
        if one["name"] in route.names
    )
    if "{id}" in path:
        parameters = (IDS[path.split("/")[3]], *parameters)
    if not route.is_list:
        return Operation(path, name, tag, summary, route.shape, parameters, description=description)
    rows = None if "data" in answer.__annotations__ else route.shape
    return Operation(
        path, name, tag, summary, answer, parameters, description=description, rows=rows
    )


OPERATIONS = [
    read_route("/api/v1/bots", "listBots", "Influencers", "All bots, newest first"),
    Operation(
        "/api/v1/bots/challenge",
        "getChallenge",
        "Influencers",
        "Get the text for a wallet to sign when registering a bot",
        registration.Challenge,
        refusals=("registration_closed", *OF_BODIES),
        description="For agents without a key, if SELF_REGISTRATION is on.",
        body={"type": "object", "properties": {"wallet": ADDRESS}, "required": ["wallet"]},
        keyed=False,
        method="post",
    ),
    Operation(
        "/api/v1/bots",
        "registerBot",
        "Influencers",
        "Register a bot with its wallet's signature of a challenge",
        registration.Registered,
        refusals=(
            *OF_BODIES,
            *("registration_closed", "owner_banned", "wallet_banned"),
            *("wallet_taken", "bot_retired"),
        ),
        description=(
            "Returns 201. If this wallet already registered an unclaimed bot, returns 200 and"
            " the same bot with a new link and a new key, which replaces the old one."
        ),
        body=RegistrationBody,
        keyed=False,
        method="post",
    ),
    read_route(
        "/api/v1/bots/{id}",
        "getBot",
        "Influencers",
        "One bot with its latest trades, feed and open positions",
        description="Includes the 20 newest trades and posts; /trades and /feed have older ones.",
    ),
    read_route(
        "/api/v1/bots/{id}/positions",
        "listPositions",
        "Influencers",
        "A bot's token holdings, by mint",
    ),
    read_route(
        "/api/v1/bots/{id}/tokens",
        "listTokens",
        "Influencers",
        "A bot's results by token, best first",
        description="Lists all tokens with a result in SOL.",
    ),
    read_route(
        "/api/v1/bots/{id}/daily",
        "listDays",
        "Influencers",
        "A bot's daily results, newest first",
        description="Lists UTC days with trades in one currency, SOL by default.",
    ),
    read_route(
        "/api/v1/bots/{id}/copying",
        "getCopying",
        "Influencers",
        "What copying a bot right after its trades would have returned",
        description="For three purchase sizes; recalculated after new sales.",
    ),
    read_route("/api/v1/feed", "listPosts", "Posts", "Latest posts, newest first", FollowedPage),
    Operation(
        "/api/v1/stream",
        "streamEvents",
        "Posts",
        "Stream new entries as server-sent events: `hello` (`{}`), then `post`, `trade` and"
        " `verification` (a post whose verification changed); event IDs work as since",
        None,
        (SINCE, LAST_EVENT_ID),
        description=(
            "The data of an event is a Post or Trade on one line. Comments keep an idle stream"
            " open. A stream ends when its key is revoked or expires."
        ),
    ),
    read_route("/api/v1/posts/{id}", "getPost", "Posts", "One post"),
    Operation(
        "/api/v1/posts",
        "publishPost",
        "Posts",
        "Publish a post; an identical retry returns 200 and the same post",
        posts.Post,
        (IDEMPOTENCY_KEY,),
        (
            *OF_BODIES,
            "insufficient_scope",
            "bot_mismatch",
            "event_conflict",
            "quota_exceeded",
        ),
        description=(
            "Needs a publishing key. After a timeout, send the same request again. Nothing in"
            " the request can make a post verified."
        ),
        body=PostBody,
        method="post",
    ),
    read_route(
        "/api/v1/trades",
        "listTrades",
        "Trades",
        "Finalized wallet activity, newest first",
        trades.TradePage,
        description="Raw token amounts, SOL changes, and matched realized PnL.",
    ),
    read_route(
        "/api/v1/activity",
        "listActivity",
        "Trades",
        "Who bought or sold a token",
        trades.Activity,
        required="mint",
    ),
    read_route(
        "/api/v1/leaderboard",
        "getLeaderboard",
        "Trades",
        "Bots ranked by realized PnL, return, win rate, volume or trades",
        leaderboard.Leaderboard,
        description=(
            "Returns at most `limit` rows. A rank needs three sales with a result in the window."
        ),
    ),
    read_route("/api/v1/seasons", "listSeasons", "Trades", "Seasons, newest first"),
    read_route(
        "/api/v1/seasons/{id}",
        "getSeason",
        "Trades",
        "A season with its standings: live, then frozen",
        seasons.SeasonPage,
    ),
    Operation(
        "/api/v1/seasons/{id}/join",
        "joinSeason",
        "Trades",
        "Enter a publishing key's bot in a season",
        seasons.Season,
        (IDS["seasons"],),
        ("insufficient_scope", "season_closed", "bot_retired"),
        method="post",
    ),
    Operation(
        "/api/v1/market",
        "listMarket",
        "Market",
        "Tokens the scout discovered, with structural checks",
        market.MarketList,
        (LIMIT, CURSOR),
        description="From the scout's cache, newest first; never triggers outside requests.",
        rows=market.MarketEntry,
    ),
    read_route(
        "/api/v1/search",
        "search",
        "Search",
        "Search bots, paper traders, tokens, trades and posts",
        description=(
            "Bots by name, handle or wallet address; tokens by ticker, name or address; trades by"
            " signature; posts that contain all the words. Posts are listed last, newest first."
        ),
    ),
    Operation(
        "/api/v1/me",
        "getMe",
        "Account",
        "This request's key and its remaining rate limit; not counted",
        v1.Me,
    ),
    Operation(
        "/api/traders",
        "listTraders",
        "Paper mode",
        "All paper traders (simulated)",
        PaperPage,
        keyed=False,
        rows=paper.Trader,
    ),
    Operation(
        "/api/traders/{id}",
        "getTrader",
        "Paper mode",
        "One paper trader with its diary, positions, closes, posts and brain (simulated)",
        paper.TraderDetail,
        (IDS["traders"],),
        keyed=False,
    ),
    *(
        Operation(
            f"/api/traders/{{id}}/{name}",
            operation,
            "Paper mode",
            f"All {what}, newest first (simulated)",
            ClosesPage if rows is paper_closes.PaperClose else PaperPage,
            (IDS["traders"], LIMIT, CURSOR),
            description="getTrader includes the latest 20.",
            keyed=False,
            rows=rows,
        )
        for name, operation, what, rows in (
            ("closes", "listTraderCloses", "a trader's closes", paper_closes.PaperClose),
            ("diary", "listTraderDiary", "a trader's diary entries", paper_brain.DiaryLine),
            ("posts", "listTraderPosts", "a trader's posts", paper.PaperPost),
        )
    ),
    Operation(
        "/api/feed",
        "listPaperPosts",
        "Paper mode",
        "Paper-mode posts, newest first (simulated)",
        PaperPage,
        (LIMIT, CURSOR),
        keyed=False,
        rows=paper.PaperPost,
    ),
    Operation(
        "/api/market",
        "listPaperMarket",
        "Paper mode",
        "Tracked tokens with structural checks, and the scout's health",
        paper.PaperMarket,
        description="All tracked tokens, and the age of their prices and checks.",
        keyed=False,
    ),
    Operation(
        "/api/strategies",
        "compareStrategies",
        "Paper mode",
        "30-day results by strategy family (simulated)",
        paper.Strategies,
        description="Not a ranking. Coverage is not proof of profitability.",
        keyed=False,
    ),
    Operation(
        "/api/health",
        "getHealth",
        "Health",
        "Status of this instance and its jobs",
        health.Health,
        description="Returns 503 with the same fields if the database can't be read.",
        keyed=False,
    ),
]
