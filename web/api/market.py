"""The scout's stored market (entries and their route), and its health. Calls no provider."""

from collections.abc import Collection
from typing import Annotated, Any, Literal, NamedTuple

from flask import Response, g, request

from chain.mints import CHECKS
from chain.stored.tables import OBJECT
from chain.symbols import mark_name, show_symbol
from storage.rows import (
    make_object,
    make_shape,
    read,
    read_one,
    read_stored,
    select_value,
    write_marks,
)
from web.api import paging, v1
from web.api.serialize import count_seconds, fill, show_time
from web.api.shapes import Address, Exact, NotRequired, Page, Time, TypedDict, described

NOT_CHECKED = [
    "holder_concentration",
    "linked_wallets",
    "bundlers",
    "lp_ownership",
    "sell_simulation",
]
MINUTE_MS, DAY_MS = 60_000, 86_400_000
CHECK: Any = make_object(key=str, label=str, status=str, detail=str | None)
STORED_CHECKS = make_shape(list[CHECK])


class MarketCheck(TypedDict):
    """A structural check of a token's mint account."""

    key: str
    label: str
    status: Literal["pass", "warn", "fail", "unknown"]
    detail: str
    checkedAt: Time | None


class MarketEntry(TypedDict):
    """A token that the scout discovered. Its creator chose the symbol and the name, so they are
    untrusted.
    """

    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    name: Annotated[str | None, described("untrusted")]
    source: str
    discoveredAt: Time
    priceSol: Exact | None
    priceUsd: Exact | None
    priceDoubt: Annotated[str | None, described("reason if the last price was rejected")]
    liquidityUsd: Exact | None
    volume24hUsd: Exact | None
    volume1hUsd: Exact | None
    volume5mUsd: Exact | None
    change1hPct: Annotated[Exact | None, described("price change as a percentage")]
    change5mPct: Annotated[Exact | None, described("price change as a percentage")]
    marketCapUsd: Exact | None
    poolSol: Annotated[Exact | None, described("the pool's SOL reserve")]
    poolTokens: Annotated[Exact | None, described("the pool's other reserve, in whole tokens")]
    venue: Annotated[str | None, described("the exchange, and the kind of its pool if known")]
    dexId: Annotated[str | None, described("the price provider's ID for the exchange")]
    pairId: Annotated[str | None, described("the pool's address")]
    pairCreatedAt: Time | None
    pairUrl: Annotated[str | None, described("null in a demonstration")]
    checks: list[MarketCheck]
    notChecked: Annotated[list[str], described("risks that the checks don't cover")]
    asOf: Annotated[Time, described("time of the prices")]
    stale: Annotated[bool, described("whether the prices are outdated")]
    simulated: NotRequired[Annotated[bool, described("true in paper mode, otherwise omitted")]]


class MarketList(Page):
    """A page of tokens."""

    note: NotRequired[Annotated[str, described("reason if the list is empty")]]


class FeedHealth(TypedDict):
    """A part of the scout's work. `waiting`: not requested yet."""

    state: Literal["ok", "failing", "late", "off", "unknown", "waiting"]
    lastSuccessAt: Time | None
    ageSeconds: Annotated[int | None, described("seconds since the last success")]
    lastAttemptAt: Time | None
    lastError: str | None
    droppedRows: Annotated[int, described("unreadable rows skipped in the latest responses")]
    feeds: NotRequired[
        Annotated[
            dict[str, "FeedHealth"], described("discovery only: health by request and provider")
        ]
    ]


class ProviderBudget(TypedDict):
    """The requests to a provider this UTC day, and how many its published limits allow."""

    requestsToday: int
    allowedToday: int
    heldBackToday: Annotated[
        int, described("requests postponed to a later pass by a rate limit or Retry-After")
    ]
    heldBackAt: Annotated[Time | None, described("when a request was last postponed today")]


class MarketSortKey(NamedTuple):
    """A token's place in the list. Neither number changes. `discovered_at` is in ms."""

    discovered_at: int
    id: int


ABOVE_ALL = MarketSortKey(2**62, 2**62)
# Times are in ms, prices are exact text, and `checks` is JSON.
ENTRY = """
SELECT t.discovered_at, t.id, t.mint, t.symbol, t.name, t.found_by, t.price_sol, t.price_usd,
       t.liquidity_usd, t.volume24h_usd, t.volume5m_usd, t.volume1h_usd, t.change5m_pct,
       t.change1h_pct, t.market_cap_usd, t.pool_sol, t.pool_tokens, t.venue, t.pair,
       t.pair_created_at, t.pair_url, t.checks, t.checked_at, t.quoted_at, t.absurd
FROM token t """
LISTED = f"""{ENTRY} WHERE t.tracked_at IS NOT NULL
AND (t.discovered_at < ? OR t.discovered_at = ? AND t.id < ?)
ORDER BY t.discovered_at DESC, t.id DESC LIMIT ?"""
SCOUT = "SELECT details FROM job WHERE name = 'scout'"
DECIMALS = "SELECT decimals FROM token WHERE mint = ?"
SYMBOLS = "SELECT mint, symbol FROM token WHERE symbol IS NOT NULL AND mint IN "


def list_entries(
    now_ms: int, limit: int = 100, after: MarketSortKey = ABOVE_ALL
) -> tuple[list[MarketEntry], MarketSortKey | None]:
    """Return tracked tokens' entries below a sort key, newest discovery first.

    Also returns the sort key of the last entry, or None if the list ends.
    """
    rows = read(LISTED, (after.discovered_at, *after, limit + 1))
    current, shown = find_current(now_ms), rows[:limit]
    last = MarketSortKey(shown[-1].discovered_at, shown[-1].id) if len(rows) > limit else None
    return [show_entry(row, current) for row in shown], last


def find_entry(now_ms: int, mint: str) -> MarketEntry | None:
    row = read_one(ENTRY + "WHERE t.mint = ?", (mint,))
    return row and show_entry(row, find_current(now_ms))


def find_symbols(mints: Collection[str]) -> dict[str, str]:
    """Return {mint: symbol} as chain.symbols shows it. Symbols are untrusted text."""
    if not mints:
        return {}
    asked = list(mints)
    rows = read(f"{SYMBOLS}({write_marks(asked)})", asked)
    told = {row.mint: row.symbol for row in rows}
    shown = {mint: show_symbol(mint, told.get(mint)) for mint in asked}
    return {mint: symbol for mint, symbol in shown.items() if symbol}


def find_decimals(mint: str) -> int | None:
    """Return a token's decimals, or None if the scout hasn't read its mint."""
    found: int | None = select_value(DECIMALS, (mint,))
    return found


def find_current(now_ms: int) -> int:
    """Return the time (ms) before which quotes are stale.

    A quote is stale after three passes without a new one, or as soon as the pass that should have
    renewed it failed.
    """
    details = read_details(select_value(SCOUT))
    oldest = now_ms - max(MINUTE_MS, int(3000 * details.get("intervalSeconds", 0)))
    prices = details.get("discovery", {}).get("feeds", {}).get("dexscreenerPrices", {})
    return max(oldest, prices["lastAttemptAt"]) if prices.get("lastError") else oldest


def show_entry(row: Any, current: int) -> MarketEntry:
    """`asOf` is when the prices were fetched. Before that, it is when the token was discovered."""
    as_of = row.quoted_at or row.discovered_at
    return fill(
        MarketEntry,
        row,
        symbol=show_symbol(row.mint, row.symbol),
        name=mark_name(row.mint, row.name),
        source=row.found_by,
        priceDoubt=row.absurd,
        dexId=row.venue and row.venue.partition("/")[0],
        checks=_show_checks(row.checks, show_time(row.checked_at)),
        notChecked=NOT_CHECKED,
        asOf=show_time(as_of),
        stale=as_of is None or as_of < current,
    )


def _show_checks(stored: str | None, checked_at: str | None) -> list[Any]:
    """Return an account's checks. Their common time is shown once."""
    checks: Any = read_stored(stored, STORED_CHECKS)
    if checks is None:
        checked_at, detail = None, "the mint account has not been read yet"
        checks = [
            {"key": key, "label": label, "status": "unknown", "detail": detail}
            for key, (label, _) in CHECKS.items()
        ]
    return [{**check, "checkedAt": checked_at} for check in checks]


def show_market_health(now_ms: int) -> dict[str, Any]:
    """Return the scout's health as {"discovery": part, "safety": part}.

    Each part is {state: ok | failing | waiting, lastSuccessAt, ageSeconds, lastAttemptAt,
    lastError, droppedRows}. `waiting` means not requested yet. Ages count from the last success.
    Discovery also has `feeds`, with the same members by request and provider, and `budgets`,
    {provider: ProviderBudget}.
    """
    details = read_details(select_value(SCOUT))
    discovery = details.get("discovery", {})
    feeds = {name: _show_part(feed, now_ms) for name, feed in discovery.get("feeds", {}).items()}
    return {
        "discovery": {**_show_part(discovery, now_ms), "feeds": feeds},
        "safety": _show_part(details.get("safety", {}), now_ms),
        "budgets": {
            name: _show_budget(one, now_ms) for name, one in details.get("budgets", {}).items()
        },
    }


def _show_budget(budget: dict[str, Any], now_ms: int) -> dict[str, Any]:
    is_today = budget["day"] == now_ms // DAY_MS
    return {
        "requestsToday": budget["requests"] if is_today else 0,
        "allowedToday": budget["allowed"],
        "heldBackToday": budget["heldBack"] if is_today else 0,
        "heldBackAt": show_time(budget["heldBackAt"] if is_today else None),
    }


def explain_empty(now_ms: int) -> str:
    discovery = show_market_health(now_ms)["discovery"]
    if discovery["lastError"]:
        return f"the scout has found nothing yet; {discovery['lastError']}"
    return (
        "the scout has not checked the market yet"
        if discovery["state"] == "waiting"
        else "the scout has found nothing yet"
    )


def _show_part(part: dict[str, Any], now_ms: int) -> dict[str, Any]:
    success_at = part.get("lastSuccessAt")
    return {
        "state": part.get("state", "waiting"),
        "lastSuccessAt": show_time(success_at),
        "ageSeconds": count_seconds(success_at, now_ms),
        "lastAttemptAt": show_time(part.get("lastAttemptAt")),
        "lastError": part.get("lastError"),
        "droppedRows": part.get("droppedRows", 0),
    }


def read_details(stored: str | None) -> dict[str, Any]:
    """Parse a job's health details. If they are damaged, return {}: the next pass rewrites them."""
    details: dict[str, Any] = read_stored(stored, OBJECT) or {}
    return details


# ---- the route -----------------------------------------------------------------------------------
@v1.route(v1.blueprint, "get", "/market", MarketList, "limit", "cursor", rows=MarketEntry)
def list_market() -> Response:
    """Tokens the scout discovered, with structural checks. From the scout's cache, newest first;
    never triggers outside requests.
    """
    # Not cached: a quote becomes stale at a precise time.
    now, scope = g.now, ("market",)
    args = v1.read_known(request.args, ("limit", "cursor"))
    limit, fields = paging.read_limit(args), v1.read_fields(request.args.get("fields"), MarketEntry)
    after = paging.read_cursor(args, scope, MarketSortKey) or ABOVE_ALL
    entries, last = list_entries(now, limit, after)
    more = {} if entries else {"note": explain_empty(now)}
    cursor = paging.write_cursor(scope, last) if last else None
    shown = v1.keep_fields(v1.show_list(entries, limit, cursor, **more), fields)
    return v1.answer(v1.Body(shown), v1.write_end(now))
