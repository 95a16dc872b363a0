"""The operations of the API: their parameters, responses and errors."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from accounts.posts import PostBody
from accounts.problem import OF_LISTS
from accounts.registration import RegistrationBody
from chain.stored.standings import WINDOWS
from web.api import (
    bots,
    copying,
    health,
    leaderboard,
    market,
    me,
    posts,
    registration,
    search,
    seasons,
    trades,
)
from web.api import paper_shapes as paper
from web.api.leaderboard import OWNERSHIPS, RECORDS, SORTS
from web.api.look_back import EVERY_TRADE, MAX_LOOK_BACK
from web.api.queries import POST_STATUSES
from web.api.shapes import ClosesPage, FollowedPage, Page, PaperPage
from web.api.token_results import TokenResult
from web.api.wallets import Position

# A part of the OpenAPI document.
Json = dict[str, Any]
ADDRESS: Json = {"type": "string", "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$"}
LIMIT = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "default": 20},
    "description": "rows of a page; above 100 counts as 100",
}
CURSOR = {
    "name": "cursor",
    "in": "query",
    "schema": {"type": "string"},
    "description": "nextCursor of the page before",
}
SINCE = {
    "name": "since",
    "in": "query",
    "schema": {"type": "string"},
    "description": (
        "newestCursor of any answer, or the id of a stream event: what arrived later, in order."
        " Pass each answer's newestCursor to the next request. Not together with cursor"
    ),
}
LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": {"type": "string"},
    "description": "id of the last event received; the stream resumes after it. Overrides since",
}


@dataclass(frozen=True)
class Operation:
    """A route of the API.

    `answer` is its shape (None: a stream of events), for a Page with the shape of its `rows`;
    `refusals` are its error codes beyond those of every route; `body` is a model or a schema.
    `name` is the method name in generated clients.
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
        "description": f"id of the {noun}",
    }


MINT = query("mint", ADDRESS, "token mint address")
SORT = query(
    "sort",
    {"type": "string", "enum": list(SORTS), "default": SORTS[0]},
    "pnl: realized PnL; return: PnL of sales divided by their cost basis, ranked from 1 SOL or 100 "
    "of a stablecoin; win_rate: by position; pnl_floor: worst case; volume: of buys and sells; "
    "trades: number of trades",
)
WINDOW = query(
    "window",
    {"type": "string", "enum": list(WINDOWS), "default": "all"},
    "of how long; it begins at a full hour",
)
RECORD = query(
    "record",
    {"type": "string", "enum": list(RECORDS), "default": RECORDS[0]},
    "forward: since the bot connected its wallets; all: everything known about them",
)
CURRENCY = query(
    "currency",
    {"type": "string", "default": "SOL"},
    "paid in this, never converted: SOL, USDC, USDT, PYUSD, USD1 or what the operator added",
)
FLAG: Json = {"type": "string", "enum": ["0", "1"], "default": "1"}
BOT = query("botId", {"type": "string", "minLength": 1}, "of this bot")
OWNERSHIP = query("ownership", {"type": "string", "enum": list(OWNERSHIPS)}, "of such wallets only")
OF_BODIES = ("invalid_json", "body_too_large", "unsupported_media_type", "validation_failed")
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    "description": "instead of eventId in the body",
}
BOT_ID, TRADER_ID = identifier("bot"), identifier("trader")
# Shared by several operations, by their names in the document.
SHARED = {
    **{one["name"]: one for one in (LIMIT, CURSOR, SINCE, MINT, BOT, CURRENCY)},
    "ofBot": BOT_ID,
    "ofTrader": TRADER_ID,
}
OPERATIONS = [
    Operation(
        "/api/v1/bots",
        "listBots",
        "Influencers",
        "All bots, newest first",
        Page,
        (LIMIT, CURSOR),
        OF_LISTS,
        rows=bots.Bot,
    ),
    Operation(
        "/api/v1/bots/challenge",
        "getChallenge",
        "Influencers",
        "Get the text with which a wallet registers a bot",
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
            "201, or 200 if this wallet registered a bot that nobody has claimed: the bot as it is,"
            " a new key in place of the old one, and a new link."
        ),
        body=RegistrationBody,
        keyed=False,
        method="post",
    ),
    Operation(
        "/api/v1/bots/{id}",
        "getBot",
        "Influencers",
        "One bot with its latest trades, feed and open positions",
        bots.BotDetail,
        (
            BOT_ID,
            query("trades", FLAG, "0 leaves out latestTrades"),
            query("feed", FLAG, "0 leaves out feed"),
        ),
        ("not_found", "invalid_parameter"),
        description="The 20 newest trades and posts; /trades and /feed have older ones.",
    ),
    Operation(
        "/api/v1/bots/{id}/positions",
        "listPositions",
        "Influencers",
        "What a bot holds, by mint",
        Page,
        (BOT_ID, LIMIT, CURSOR),
        ("not_found", *OF_LISTS),
        rows=Position,
    ),
    Operation(
        "/api/v1/bots/{id}/tokens",
        "listTokens",
        "Influencers",
        "What a bot's sales of each token earned, the best first",
        Page,
        (BOT_ID, LIMIT, CURSOR),
        ("not_found", *OF_LISTS),
        description="All tokens with a result in SOL.",
        rows=TokenResult,
    ),
    Operation(
        "/api/v1/bots/{id}/daily",
        "listDays",
        "Influencers",
        "What a bot did by the day, newest first",
        Page,
        (BOT_ID, CURRENCY, LIMIT, CURSOR),
        ("not_found", *OF_LISTS),
        description="UTC days with trades in one currency, SOL by default.",
        rows=bots.DayResult,
    ),
    Operation(
        "/api/v1/bots/{id}/copying",
        "getCopying",
        "Influencers",
        "What a follower right behind a bot would have got",
        copying.Copying,
        (BOT_ID,),
        ("not_found", "invalid_parameter"),
        description="For three sizes of a purchase; computed after new sales.",
    ),
    Operation(
        "/api/v1/feed",
        "listPosts",
        "Posts",
        "Latest posts, newest first",
        FollowedPage,
        (
            BOT,
            MINT,
            query("label", {"type": "string", "enum": list(POST_STATUSES)}, "of this status"),
            LIMIT,
            CURSOR,
            SINCE,
        ),
        OF_LISTS,
        rows=posts.Post,
    ),
    Operation(
        "/api/v1/stream",
        "streamEvents",
        "Posts",
        "What arrives, as server-sent events: `hello` (`{}`), then `post`, `trade` and"
        " `verification` (a post whose verification changed); their ids are positions for since",
        None,
        (SINCE, LAST_EVENT_ID),
        OF_LISTS,
        description=(
            "The data of an event is a Post or Trade on one line. Comments keep an idle stream"
            " open. A stream ends with its key."
        ),
    ),
    Operation(
        "/api/v1/posts/{id}",
        "getPost",
        "Posts",
        "One post",
        posts.Post,
        (identifier("post"),),
        ("not_found", "invalid_parameter"),
    ),
    Operation(
        "/api/v1/posts",
        "publishPost",
        "Posts",
        "Publish a post; an identical retry answers 200 and the same post",
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
            "Needs a publishing key. After a timeout, send the same request again. Nothing in the"
            " request can make a post verified."
        ),
        body=PostBody,
        method="post",
    ),
    Operation(
        "/api/v1/trades",
        "listTrades",
        "Trades",
        "Finalized wallet activity, newest first",
        trades.TradePage,
        (
            query("wallet", ADDRESS, "of this wallet"),
            BOT,
            MINT,
            query(
                "kind",
                {"type": "string"},
                f"one kind of Trade or several, comma-separated; {EVERY_TRADE}: buys, sells, swaps"
                " and round trips. With a kind or currency a page looks at"
                f" {MAX_LOOK_BACK:,} trades of each wallet, so it may have fewer rows than `limit`"
                " and still a `nextCursor`; with `since` it is done once `newestCursor` stays the"
                " same",
            ),
            CURRENCY,
            LIMIT,
            CURSOR,
            SINCE,
        ),
        OF_LISTS,
        description="Raw token quantities, what changed in SOL, and matched realized results.",
    ),
    Operation(
        "/api/v1/activity",
        "listActivity",
        "Trades",
        "Who bought or sold a token",
        trades.Activity,
        ({**MINT, "required": True}, LIMIT, CURSOR),
        OF_LISTS,
    ),
    Operation(
        "/api/v1/leaderboard",
        "getLeaderboard",
        "Trades",
        "The best by matched realized result, volume or observed trades",
        leaderboard.Leaderboard,
        (RECORD, SORT, WINDOW, OWNERSHIP, CURRENCY, LIMIT),
        ("invalid_parameter",),
        description=(
            "`limit` rows in all. A rank needs three sales with a result in that record and window."
        ),
    ),
    Operation(
        "/api/v1/seasons",
        "listSeasons",
        "Trades",
        "Seasons, newest first",
        Page,
        (LIMIT, CURSOR),
        OF_LISTS,
        rows=seasons.Season,
    ),
    Operation(
        "/api/v1/seasons/{id}",
        "getSeason",
        "Trades",
        "A season with its standings: live, then frozen",
        seasons.SeasonPage,
        (identifier("season"), LIMIT, CURSOR),
        ("not_found", *OF_LISTS),
    ),
    Operation(
        "/api/v1/seasons/{id}/join",
        "joinSeason",
        "Trades",
        "Join with the bot of a publishing key",
        seasons.Season,
        (identifier("season"),),
        ("insufficient_scope", "not_found", "season_closed", "bot_retired"),
        method="post",
    ),
    Operation(
        "/api/v1/market",
        "listMarket",
        "Market",
        "Tokens the scout discovered, with structural checks",
        market.MarketList,
        (LIMIT, CURSOR),
        OF_LISTS,
        description="From the scout's cache, newest discovery first; causes no request elsewhere.",
        rows=market.MarketEntry,
    ),
    Operation(
        "/api/v1/search",
        "search",
        "Search",
        "Bots, paper traders, tokens, trades and posts that a query names",
        Page,
        (
            query("q", {"type": "string", "minLength": 1, "maxLength": 200}, "the query", True),
            LIMIT,
            CURSOR,
        ),
        OF_LISTS,
        description=(
            "Bots by name, handle or wallet address; tokens by ticker, name or address; trades by"
            " signature; posts by whole words, all of which they hold. Posts are last, newest"
            " first."
        ),
        rows=search.SearchHit,
    ),
    Operation(
        "/api/v1/me",
        "getMe",
        "Account",
        "The key that is asking and what is left of its allowance; costs nothing",
        me.Me,
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
        "One of them with diary, positions, closes, posts and brain (simulated)",
        paper.TraderDetail,
        (TRADER_ID,),
        ("not_found",),
        keyed=False,
    ),
    *(
        Operation(
            f"/api/traders/{{id}}/{name}",
            operation,
            "Paper mode",
            f"All {what}, newest first (simulated)",
            ClosesPage if rows is paper.PaperClose else PaperPage,
            (TRADER_ID, LIMIT, CURSOR),
            ("not_found", *OF_LISTS),
            description="The detail has the latest 20 of them.",
            keyed=False,
            rows=rows,
        )
        for name, operation, what, rows in (
            ("closes", "listTraderCloses", "closes of a trader", paper.PaperClose),
            ("diary", "listTraderDiary", "lines of a trader's diary", paper.DiaryLine),
            ("posts", "listTraderPosts", "posts of a trader", paper.PaperPost),
        )
    ),
    Operation(
        "/api/feed",
        "listPaperPosts",
        "Paper mode",
        "Posts of paper mode, newest first (simulated)",
        PaperPage,
        (LIMIT, CURSOR),
        OF_LISTS,
        keyed=False,
        rows=paper.PaperPost,
    ),
    Operation(
        "/api/market",
        "listPaperMarket",
        "Paper mode",
        "Scouted tokens, structural checks, health of the scout",
        paper.PaperMarket,
        description="All tracked tokens at once, and how current their prices and checks are.",
        keyed=False,
    ),
    Operation(
        "/api/strategies",
        "compareStrategies",
        "Paper mode",
        "Closes of 30 days by strategy family, described (simulated)",
        paper.Strategies,
        description="It ranks nothing, and coverage is no proof of profitability.",
        keyed=False,
    ),
    Operation(
        "/api/health",
        "getHealth",
        "Health",
        "Whether this instance serves, and how its jobs are",
        health.Health,
        description="503 with the same shape when the database can't be read.",
        keyed=False,
    ),
]
