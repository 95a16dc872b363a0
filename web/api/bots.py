"""Bots: their shapes, how rows become them, their routes, and how agents register. List items
include results; heavy members are on the detail only, or in a list of their own.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, cast

import orjson
from flask import Blueprint, g, request, url_for

from accounts import registration
from accounts.fields import is_provable, parse_body, parse_json
from accounts.influencers import read_voice
from accounts.problem import Problem, invalid
from chain.amounts import exact, show_amount, show_raw
from chain.reading.currencies import CURRENCIES, map_currencies
from chain.stored.attachments import LEAD, OF_RECORD, OF_RESULTS
from chain.stored.standings import find_signs
from storage import read_rows
from storage.rows import read, read_one, write_marks
from web.api import market, paging, results, v1
from web.api.copying import Copying, CopySize, find_copying, find_sizes
from web.api.paging import STORED, Args, IdSortKey, read_currency, write_select
from web.api.posts import Post, PostFilter, read_posts, show_posts
from web.api.results import (
    Results,
    Risk,
    Sign,
    TokenResult,
    Told,
    find_results,
    find_risk,
    find_risk_reason,
    show_results,
)
from web.api.serialize import (
    DAMAGED,
    HELD_BY_ANOTHER,
    Json,
    fill,
    show_part,
    show_share,
    show_sol,
    show_time,
)
from web.api.shapes import (
    Address,
    CurrencySymbol,
    Exact,
    NotRequired,
    Share,
    Time,
    TypedDict,
    Untrusted,
    Whole,
    described,
)
from web.api.trades import (
    Trade,
    find_multiplier,
    find_wallets,
    read_scales,
    read_trades,
    show_trades,
)
from web.api.wallets import (
    AverageCost,
    Coverage,
    Position,
    Reconciliation,
    Wallet,
    add_wallets,
    find_books_reason,
    find_least,
    find_positions,
    is_provisional,
    list_held,
    show_books,
    show_coverage,
)
from web.server import gate
from web.server.application import JsonResponse, find_app

# Maximum numbers of a detail's trades, posts and tokens, and of its latest days.
LATEST, LATEST_DAYS = 20, 90


class Voice(TypedDict):
    """How a bot speaks. Its owner wrote this, so it is untrusted."""

    tone: str
    style: list[str]
    adjectives: list[str]
    topics: list[str]
    catchphrases: list[str]
    emoji: str


class Pace(TypedDict):
    """How soon a bot posts about its trades, from a trade's block time to the arrival of the first
    verified post about it.
    """

    tradesPosted: Annotated[int, described("number of trades with a verified post")]
    withinMinute: Annotated[int, described("number of trades posted about within 60 seconds")]
    postedWithinMinuteShare: Share | None
    postDelaySecondsMedian: Annotated[
        int | None, described("median posting delay, to two significant digits")
    ]


class Owner(TypedDict):
    """The combined record of all bots of the same owner. A new browser is a new owner."""

    influencers: Annotated[int, described("number of bots created")]
    retired: int
    walletsTried: Annotated[int, described("number of wallets ever connected to these bots")]
    walletsDetached: Annotated[int, described("number of those wallets that are now disconnected")]
    realizedLamportsOfAll: Annotated[
        Whole | None,
        described(
            "total of all bots since they connected, to two significant digits; null if"
            " that would reveal one wallet's result"
        ),
    ]


class DayResult(TypedDict):
    """A bot's results on one UTC day in one currency."""

    date: Annotated[str, described("YYYY-MM-DD")]
    currency: CurrencySymbol
    realizedRaw: Whole
    realized: Exact
    volumeRaw: Whole
    volume: Exact
    trades: int
    sells: Annotated[int, described("number of sales with a result")]


class Bot(TypedDict):
    """A bot, and what was observed about its wallets."""

    id: str
    handle: str
    name: Untrusted
    bio: Untrusted
    mode: Literal["wallet"]
    voice: Voice
    avatarUrl: str | None
    profileUrl: str
    wallet: Annotated[Wallet | None, described("the bot's first wallet")]
    wallets: list[Wallet]
    performance: Annotated[
        Literal["observed", "unverified"], described("unverified: no wallet is connected")
    ]
    results: Annotated[Results | None, described("results over all known history")]
    resultsReason: Annotated[
        Literal["held_by_another", "damaged"] | None,
        described(
            "held_by_another: another bot had the wallet first, so only later trades are shown;"
            " damaged: stored data is unreadable until the next poll"
        ),
    ]
    record: Annotated[
        Results | None,
        described(
            "results since the bot connected its wallets; earlier holdings have "
            "unknown cost, and tokens still held when a wallet was disconnected "
            "count as cost left"
        ),
    ]
    copying: Annotated[
        CopySize | None,
        described(
            "return of a follower with 1 SOL per purchase (getCopying); null if not calculated"
        ),
    ]
    coverage: Coverage
    createdAt: Time
    lastTradeAt: Time | None
    lastPostAt: Time | None
    retiredAt: Time | None


Reason = Annotated[
    Literal["no_wallet", "not_observed", "backfilling", "held_by_another", "damaged"] | None,
    described("reason if the return is null"),
]


class BotDetail(Bot):
    """A bot with its latest trades, posts and holdings."""

    latestTrades: Annotated[
        NotRequired[list[Trade]], described("the latest 20; omitted with trades=0")
    ]
    feed: Annotated[NotRequired[list[Post]], described("the latest 20; omitted with feed=0")]
    openPositions: list[Position] | None
    openPositionsReason: Annotated[
        Literal["damaged"] | None, described("reason if openPositions is null")
    ]
    risk: Annotated[Risk | None, described("over all known history, in SOL")]
    riskReason: Reason
    tokens: Annotated[
        list[TokenResult] | None,
        described("the 20 tokens with the largest effect; null if risk is null"),
    ]
    daily: Annotated[list[DayResult], described("the latest 90 days with trades in SOL")]
    reconciliation: Reconciliation | None
    reconciliationReason: Reason
    averageCost: AverageCost | None
    owner: Owner
    pace: Pace
    signs: Annotated[
        list[Sign],
        described(
            "one_token: one token accounts for more than 80% of a gain; flat_round_trips: at"
            " least 10 times a token was bought and sold within a minute for no more than the"
            " fees; flags don't affect the rank"
        ),
    ]
    formerWallets: list[Address]
    autoPost: Annotated[
        bool, described("whether this instance automatically posts about its new trades")
    ]
    provable: Annotated[
        bool | None,
        described(
            "false if the address belongs to a program, so no key can sign; null without a wallet"
        ),
    ]


# ---- rows ----------------------------------------------------------------------------------------
# Bots with their primary wallet. `voice` and `coverage` are JSON. `since` is when the bot's claim
# began if the wallet is only claimed and another bot had proven it, else null.
BOT = f"""
SELECT b.id, b.uid, b.handle, b.name, b.bio, b.voice, b.avatar_url, b.auto_post, b.created_at,
       b.retired_at, w.address, a.attached_at, a.ownership, w.results, w.coverage, w.positions,
       w.reconciliation, w.average_cost, w.by_stablecoin, w.last_trade_at,
       (SELECT p.created_at FROM post p WHERE p.bot_id = b.id ORDER BY p.id DESC LIMIT 1)
       AS last_post_at, w.bot_since AS since
FROM bot b LEFT JOIN attachment a ON a.id = {LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id
"""


FORMER_WALLETS = """
SELECT a.bot_id, w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.detached_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM attachment c
    WHERE c.bot_id = a.bot_id AND c.wallet_id = a.wallet_id AND c.detached_at IS NULL)
AND a.bot_id IN """


def read_bots(limit: int, before: int | None = None) -> list[Any]:
    sql, values = write_select(
        BOT, [("b.id < ?", before) if before else None], "ORDER BY b.id DESC LIMIT ?"
    )
    return add_wallets(read(sql, [*values, limit], **STORED))


def find_bot(uid: str) -> Any:
    row = read_one(BOT + "WHERE b.uid = ?", (uid,), **STORED)
    return row and add_wallets([row])[0]


def list_former_wallets(bot_ids: Sequence[int]) -> dict[int, list[str]]:
    held: dict[int, list[str]] = {}
    sql = f"{FORMER_WALLETS}({write_marks(bot_ids)}) ORDER BY a.attached_at, w.id"
    for row in read(sql, bot_ids):
        held.setdefault(row.bot_id, []).append(row.address)
    return held


# ---- bots ----------------------------------------------------------------------------------------
# A bot's attachments combined: when the first began (ms), how many are derived, and their tokens.
RECORDS = """
SELECT bot_id, MIN(attached_at) AS since, COUNT(open_positions) AS derived,
       SUM(CASE WHEN detached_at IS NULL THEN COALESCE(open_positions, 0) ELSE 0 END)
         AS open_positions
FROM attachment WHERE bot_id IN ({}) GROUP BY bot_id"""
NOTHING = Told({}, {})


def show_bots(rows: Sequence[Any]) -> list[Bot]:
    ids, base_url = [row.id for row in rows], find_app().settings.base_url
    if not ids:
        return []
    held = list_held(ids)
    results, records = find_results(OF_RESULTS, ids), find_results(OF_RECORD, ids)
    copying = find_sizes(ids)
    connected = {row.bot_id: row for row in read(RECORDS.format(write_marks(ids)), ids)}
    return [
        _show_bot(
            row,
            held.get(row.id, []),
            results.get(row.id, NOTHING),
            _show_record(connected.get(row.id), records.get(row.id, NOTHING), held.get(row.id, [])),
            copying.get(row.id),
            base_url,
        )
        for row in rows
    ]


def _show_record(row: Any, told: Told, held: Sequence[Wallet]) -> Results | None:
    if row is None or not row.derived:
        return None
    provisional = is_provisional(_find_coverage(held)) if held else False
    return show_results(
        told, show_time(row.since), provisional=provisional, open_positions=row.open_positions
    )


def _find_coverage(held: Sequence[Wallet]) -> Coverage:
    return find_least(one["coverage"] for one in held)


def _show_bot(
    row: Any,
    held: list[Wallet],
    told: Told,
    record: Results | None,
    copying: CopySize | None,
    base_url: str,
) -> Bot:
    coverage = _find_coverage(held) if held else show_coverage(row.address, row.coverage)
    results, reason = _show_all(row, told, coverage)
    return fill(
        Bot,
        row,
        voice=read_voice(row.voice),
        profileUrl=f"{base_url}/bots/{row.uid}",
        wallet=_show_wallet(row),
        wallets=held,
        performance="observed" if row.address else "unverified",
        results=results,
        resultsReason=reason,
        record=record,
        copying=copying if results else None,
        coverage=coverage,
        lastTradeAt=show_time(_find_last_trade(row)),
    )


def _show_all(row: Any, told: Told, coverage: Coverage) -> tuple[Results | None, Any]:
    if row.since is not None:
        return None, HELD_BY_ANOTHER
    derived, reason = show_part(row.results)
    if derived is None:
        return None, reason
    positions = show_part(row.positions)[0]
    results = show_results(
        told,
        coverage["observedFrom"],
        provisional=is_provisional(coverage),
        open_positions=len(positions or ()),
    )
    return results, None


def _show_wallet(row: Any) -> Wallet | None:
    if row.address is None or row.attached_at is None:
        return None
    return {
        "address": row.address,
        "attachedAt": show_time(row.attached_at),
        "ownership": row.ownership,
    }


def _find_last_trade(row: Any) -> Any:
    """Return when the bot's wallet last traded (ms), or None if that was before the bot's claim."""
    if row.since is not None and (row.last_trade_at or 0) < row.since:
        return None
    return row.last_trade_at


# ---- one bot -------------------------------------------------------------------------------------
def find_row(uid: str) -> Any:
    row = find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such bot")
    return row


def make_detail(uid: str, now: int, *, trades: bool = True, feed: bool = True) -> BotDetail:
    """Raises Problem for an unknown ID. `now`: ms."""
    row = find_row(uid)
    bot = show_bots([row])[0]
    positions = find_holdings(row, now)
    shown = {
        **show_profile(row, bot),
        "openPositions": positions,
        "openPositionsReason": DAMAGED if positions is None else None,
        "tokens": results.list_by_token(row.id) if bot["results"] else None,
        "daily": [] if row.since else find_days(uid, "")[:LATEST_DAYS],
    }
    if trades:
        spans = find_wallets(bot=uid)
        shown["latestTrades"] = show_trades(read_trades(LATEST, spans=spans))
    if feed:
        shown["feed"] = show_posts(read_posts(LATEST, wanted=PostFilter(uid)))
    return cast(BotDetail, shown)


def show_profile(row: Any, bot: Bot) -> Any:
    former = list_former_wallets([row.id]).get(row.id, ())
    state = bot["coverage"]["state"]
    reason, books_reason = find_risk_reason(bot), find_books_reason(row, state)
    risk = None if reason else find_risk(OF_RESULTS, row.id)
    return {
        **bot,
        "risk": risk,
        "riskReason": DAMAGED if risk is None and reason is None else reason,
        "reconciliation": None if books_reason else show_books(row),
        "reconciliationReason": books_reason,
        "averageCost": None if row.since is not None else show_part(row.average_cost)[0],
        "owner": find_owner(row.id),
        "pace": find_pace(row.id),
        "formerWallets": [one for one in dict.fromkeys(former) if one != row.address],
        "autoPost": bool(row.auto_post),
        "signs": find_signs(read_rows, OF_RESULTS, [row.id])[row.id],
        "provable": is_provable(row.address) if row.address else None,
    }


def find_holdings(row: Any, now: int) -> list[Position] | None:
    positions = find_positions(row)
    if positions is None:
        return None
    symbols = market.find_symbols([position["mint"] for position in positions])
    return [
        cast(Position, {**position, "symbol": symbols.get(position["mint"])})
        for position in add_estimates(positions, now)
    ]


def find_days(uid: str, money: str) -> list[DayResult]:
    symbol, decimals = CURRENCIES[money].symbol, CURRENCIES[money].decimals
    return [
        fill(
            DayResult,
            day,
            date=datetime.fromtimestamp(day.at, UTC).date().isoformat(),
            currency=symbol,
            realized=exact(day.realized, decimals),
            volume=exact(day.volume, decimals),
        )
        for day in reversed(results.list_daily_totals(uid, money))
    ]


# ---- its owner -----------------------------------------------------------------------------------
# All bots with the same owner, and every wallet they had. `realized`: lamports, over all spans.
OWNER = """
SELECT COUNT(DISTINCT b.id) AS influencers,
       COUNT(DISTINCT CASE WHEN b.retired_at IS NOT NULL THEN b.id END) AS retired,
       COUNT(DISTINCT a.wallet_id) AS wallets_tried,
       COUNT(DISTINCT CASE WHEN a.detached_at IS NULL THEN a.wallet_id END) AS held,
       COALESCE(SUM(a.forward_realized), 0) AS realized
FROM bot b LEFT JOIN attachment a ON a.bot_id = b.id
WHERE b.owner_id = (SELECT owner_id FROM bot WHERE id = ?)"""


def find_owner(bot_id: int) -> Owner:
    """The sum is omitted if it would reveal the result of a single wallet."""
    row = read_one(OWNER, [bot_id])
    alone = row.influencers < 2 and row.wallets_tried < 2
    return fill(
        Owner,
        row,
        walletsDetached=row.wallets_tried - row.held,
        realizedLamportsOfAll=None if alone else show_raw(round_to_two_digits(int(row.realized))),
    )


def round_to_two_digits(lamports: int) -> int:
    """Round to two significant digits, halves away from zero: 1,250 becomes 1,300."""
    unit = int("1" + "0" * max(0, len(str(abs(lamports))) - 2))
    rounded = (abs(lamports) + unit // 2) // unit * unit
    return rounded if lamports >= 0 else -rounded


# ---- its pace ------------------------------------------------------------------------------------
# A row of chain.stored.tables.DelayTotal. There is none before the first verified post.
PACE = """
SELECT COALESCE(MAX(posted), 0) AS trades_posted, COALESCE(MAX(within_minute), 0) AS within_minute,
       MAX(median) AS post_delay_seconds_median FROM delay_total WHERE bot_id = ?"""


def find_pace(bot_id: int) -> Pace:
    row = read_one(PACE, [bot_id])
    share = row.within_minute * 100 // row.trades_posted if row.trades_posted else None
    return fill(Pace, row, postedWithinMinuteShare=show_share(share))


# ---- estimated values of positions ---------------------------------------------------------------
LAMPORTS = 10**9
# Powers of ten that a price in SOL can have.
MIN_EXPONENT, MAX_EXPONENT = -30, 12


# `quoted_at` is in ms. `absurd` is why the price is implausible.
PRICES = "SELECT mint, price_sol, source, quoted_at, absurd FROM token WHERE mint IN "


def add_estimates(positions: Sequence[Json], now: int) -> list[Json]:
    """Return positions with displayed amounts, `estimate` and `estimateReason`. `now`: ms."""
    prices, current = find_prices([one["mint"] for one in positions]), market.find_current(now)
    scales = read_scales()
    return [
        _add_estimate(
            one,
            prices.get(one["mint"]),
            current,
            find_multiplier(scales, one["mint"], now // 1000),
        )
        for one in positions
    ]


def _add_estimate(position: Json, row: Any, current: int, multiplier: Fraction | None) -> Json:
    amount, unknown = (
        show_amount(int(position[name]), position["decimals"], multiplier)
        for name in ("amountRaw", "unknownBasisRaw")
    )
    estimate = show_estimate(position, row, current, multiplier)
    return {**position, "amount": amount, "unknownBasis": unknown, **estimate}


def find_prices(mints: Collection[str]) -> dict[str, Any]:
    asked = list(mints)
    rows = read(f"{PRICES}({write_marks(asked)})", asked) if asked else []
    return {row.mint: row for row in rows}


def show_estimate(position: Json, row: Any, current: int, multiplier: Fraction | None) -> Json:
    """Return a position's Estimate, or the reason if there isn't one.

    A quote from before `current` (ms) is stale. Prices are per displayed amount, which is
    `multiplier` times the raw units.
    """
    if multiplier is None:
        return {"estimate": None, "estimateReason": "multiplier_unknown"}
    price = None if row is None else parse_price(row.price_sol)
    if row is None or price is None or row.quoted_at is None:
        return {"estimate": None, "estimateReason": "no_price"}
    if row.absurd:
        return {"estimate": None, "estimateReason": "price_doubtful"}
    value = find_value(int(position["amountRaw"]), position["decimals"], price * multiplier)
    estimate = {
        "valueLamports": str(value),
        "valueSol": show_sol(value),
        "priceSol": f"{Decimal(row.price_sol or 0):f}",
        "source": row.source,
        "priceAt": show_time(row.quoted_at),
        "stale": row.quoted_at < current,
    }
    return {"estimate": estimate, "estimateReason": None}


def find_value(raw: int, decimals: int, price: Fraction) -> int:
    """Return the value at a price in SOL, in whole lamports rounded down."""
    return raw * price.numerator * LAMPORTS // (int(10**decimals) * price.denominator)


def parse_price(text: str | None) -> Fraction | None:
    """Return a positive price as an exact number, or None if the text isn't one."""
    try:
        price = Decimal(text or "")
    except InvalidOperation:
        return None
    if not price.is_finite() or price <= 0:
        return None
    return Fraction(price) if MIN_EXPONENT <= price.adjusted() <= MAX_EXPONENT else None


# ---- routes --------------------------------------------------------------------------------------
@v1.cached_list("/bots", Bot, "cursor")
def list_bots(args: Args) -> Json:
    """All bots, newest first"""
    limit, scope = paging.read_limit(args), ("bots",)
    before = paging.read_cursor(args, scope, IdSortKey)
    rows = read_bots(limit + 1, before and before.id)
    page = paging.cut_page(rows, limit, scope, lambda row: (row.id,))
    return v1.show_list(show_bots(page.rows), limit, page.cursor)


@v1.cached_object("/bots/<uid>", BotDetail, "trades", "feed")
def get_bot(args: Args, uid: str) -> BotDetail:
    """One bot with its latest trades, feed and open positions. Includes the 20 newest trades and
    posts; /trades and /feed have older ones.
    """
    trades, feed = (
        paging.read_choice(args, name, ("0", "1"), "1") == "1" for name in ("trades", "feed")
    )
    return make_detail(uid, v1.start_of_minute(g.now), trades=trades, feed=feed)


@v1.cached_object("/bots/<uid>/copying", Copying)
def get_copying(args: Args, uid: str) -> Copying:
    """What copying a bot right after its trades would have returned. For three purchase sizes;
    recalculated after new sales.
    """
    return find_copying(find_row(uid).id)


class MintSortKey(NamedTuple):
    """For lists of tokens: a number and its mint, or only its mint.

    Cursors contain whole numbers, so a mint is written as the number that its bytes represent.
    """

    mint: int
    number: int = 0

    @property
    def text(self) -> str:
        return self.mint.to_bytes((self.mint.bit_length() + 7) // 8).decode()


def make_mint_key(mint: str, number: int = 0) -> MintSortKey:
    return MintSortKey(int.from_bytes(mint.encode()), number)


@v1.cached_list("/bots/<uid>/positions", Position, "cursor")
def list_positions(args: Args, uid: str) -> Json:
    """A bot's token holdings, by mint"""
    limit, scope, row = paging.read_limit(args), ("positions", uid), find_row(uid)
    after = paging.read_cursor(args, scope, MintSortKey)
    held = find_holdings(row, v1.start_of_minute(g.now)) or []
    wanted = [one for one in held if not after or one["mint"] > after.text]
    wanted.sort(key=lambda one: one["mint"])
    page = paging.cut_page(wanted, limit, scope, lambda one: make_mint_key(one["mint"]))
    return v1.show_list(page.rows, limit, page.cursor)


@v1.cached_list("/bots/<uid>/tokens", TokenResult, "cursor")
def list_tokens(args: Args, uid: str) -> Json:
    """A bot's results by token, best first. Lists all tokens with a result in SOL."""
    limit, scope, row = paging.read_limit(args), ("tokens", uid), find_row(uid)
    after = paging.read_cursor(args, scope, MintSortKey)
    place = (after.number, after.text) if after else None
    found = [] if row.since else results.list_tokens(row.id, limit + 1, place)
    page = paging.cut_page(found, limit, scope, lambda one: make_mint_key(one.mint, one.realized))
    return v1.show_list(results.show_tokens(page.rows), limit, page.cursor)


@v1.cached_list("/bots/<uid>/daily", DayResult, "cursor", "currency")
def list_days(args: Args, uid: str) -> Json:
    """A bot's daily results, newest first. Lists UTC days with trades in one currency, SOL by
    default.
    """
    limit, currency = paging.read_limit(args), read_currency(args) or "SOL"
    row, scope = find_row(uid), ("daily", uid, currency)
    before = paging.read_cursor(args, scope, IdSortKey)
    days = [] if row.since else find_days(uid, map_currencies()[currency])
    wanted = [day for day in days if not before or count_days(day["date"]) < before.id]
    page = paging.cut_page(wanted, limit, scope, lambda day: (count_days(day["date"]),))
    return v1.show_list(page.rows, limit, page.cursor)


def count_days(date: str) -> int:
    """Return 20261120 for `2026-11-20`."""
    return int(date.replace("-", ""))


# ---- agents register themselves, without a key ---------------------------------------------------
blueprint = Blueprint("registration", __name__, url_prefix="/api/v1/bots")


class Challenge(TypedDict):
    """A text that a wallet signs to register a bot. It works once, for five minutes."""

    text: Annotated[str, described("text to sign, exactly as given, in UTF-8")]
    nonce: str
    expiresAt: Time


class Registered(TypedDict):
    """A bot that an agent registered. Its key and link are secrets that are shown once."""

    bot: Bot
    publishKey: str
    claimUrl: Annotated[str, described("link for the bot's human owner only; it works once")]
    claimExpiresAt: Time


@blueprint.before_request
def check_open() -> None:
    """Refuse all requests unless the operator turned on SELF_REGISTRATION."""
    settings = gate.settings()
    if settings.self_registration == "off":
        raise Problem(
            "registration_closed",
            "agents can't register themselves here, because SELF_REGISTRATION is off; a human can"
            f" create a bot at {settings.base_url}/connect",
        )
    if request.mimetype != "application/json":
        raise Problem("unsupported_media_type", "send Content-Type: application/json")


@v1.route(
    blueprint,
    "post",
    "/challenge",
    Challenge,
    body={
        "type": "object",
        "properties": {"wallet": paging.ADDRESS},
        "required": ["wallet"],
    },
    refusals=("registration_closed", *v1.OF_BODIES),
)
def get_challenge() -> JsonResponse:
    """Get the text for a wallet to sign when registering a bot. For agents without a key, if
    SELF_REGISTRATION is on.
    """
    value, app = parse_json(request.get_data()), find_app()
    unknown = value.keys() - {"wallet"}
    if unknown or "wallet" not in value:
        raise invalid("wallet", "is required; no other field is allowed")
    made = registration.make_challenge(app.settings, app.secret, value["wallet"], g.now)
    shown: Challenge = {
        "text": made.text,
        "nonce": made.nonce,
        "expiresAt": show_time(made.ends_at),
    }
    return JsonResponse(orjson.dumps(shown))


@v1.route(
    blueprint,
    "post",
    "",
    Registered,
    body=registration.RegistrationBody,
    refusals=(
        *v1.OF_BODIES,
        *("registration_closed", "owner_banned", "wallet_banned"),
        *("wallet_taken", "bot_retired"),
    ),
)
def register_bot() -> JsonResponse:
    """Register a bot with its wallet's signature of a challenge. 201, or 200 if this wallet already
    registered an unclaimed bot: the same bot with a new key, which replaces the old one, and a new
    link.
    """
    app = find_app()
    body = parse_body(registration.RegistrationBody, parse_json(request.get_data()))
    try:
        given_at = registration.check_proof(app.settings, app.secret, body, g.now)
    except Problem:
        gate.note_failure()
        raise
    gate.check_creation(by_agent=True)
    source = registration.name_source(app.secret, gate.find_network())
    done = registration.register(app.settings, body, source, given_at, g.now)
    shown: Registered = {
        "bot": show_bots([find_row(done.bot.uid)])[0],
        "publishKey": done.publish_key.text,
        # Browsers don't send the part after #, so the code never appears in a log.
        "claimUrl": f"{app.settings.base_url}/claim#{done.claim_code}",
        "claimExpiresAt": show_time(done.claim_ends_at),
    }
    location = url_for("v1.get_bot", uid=done.bot.uid)
    status, headers = (201, {"Location": location}) if done.is_new else (200, None)
    return JsonResponse(orjson.dumps(shown), status, headers)
