"""The market, and a token's page."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from chain.addresses import is_address
from storage.rows import read, select_value, write_marks
from web.api import market
from web.api.paging import cut_page, read_choice, read_whole
from web.api.posts import PostFilter, read_posts, show_posts
from web.api.serialize import Json, count_seconds
from web.api.trades import (
    TradeSortKey,
    count_sides,
    find_sort_key,
    list_moving,
    read_activity,
    read_scales,
    show_activity,
    show_changes,
)
from web.api.wallets import count_tracked
from web.server.gate import settings
from web.site import charts
from web.site.lists import add_etag, read_cursor
from web.site.money import venue_changes
from web.site.pieces import draw_activity, draw_posts

blueprint = Blueprint("tokens", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, MAX_POSTS, MAX_MARKS, MARKET_SIZE, MAX_PAGE = 20, 10, 200, 40, 9_999
# The sides of swaps on the timeline.
SWAPPED = {"buy": "got", "sell": "gave"}
# Minimum of the day's 24 prices. With two, two hours of data would look like a whole day.
MIN_PRICES = 4


@blueprint.get("/tokens/<mint>")
def show_token(mint: str) -> ResponseReturnValue:
    if not is_address(mint):
        raise Problem("not_found", "isn't a token address, which has 32 to 44 letters and digits")
    scope = ("activity of", mint)
    before, entry = read_cursor("before", scope, TradeSortKey), market.find_entry(g.now, mint)
    latest = read_activity(mint, MAX_MARKS)
    rows = read_activity(mint, PAGE_SIZE + 1, before) if before else latest
    page = cut_page(rows[: PAGE_SIZE + 1], PAGE_SIZE, scope, find_sort_key)
    posts = show_posts(read_posts(MAX_POSTS, wanted=PostFilter(mints=(mint,))))
    return render_template(
        "token.html",
        mint=mint,
        entry=entry and add_counts(entry),
        activity=draw_activity([show_row(row, mint) for row in list_moving(page.rows, mint)], mint),
        cursor=page.cursor,
        sides=count_sides(mint),
        tracked=count_tracked(),
        timeline=charts.draw_timeline(
            [time_trade(row) for row in latest if row.block_time is not None]
        ),
        posts=draw_posts(posts, "h3"),
    )


def show_row(row: Any, mint: str) -> Json:
    scales = read_scales()
    moved = show_changes(row, row.token_changes, {}, scales)
    shown = {**show_activity(row, mint, scales), "tokenChanges": moved}
    return {**shown, "tokenChanges": venue_changes(shown)}


def time_trade(row: Any) -> charts.TimedTrade:
    """Convert a trade for the timeline. In a swap for another token, only the fee is SOL."""
    if row.kind == "swap" or row.currency:
        return charts.TimedTrade(row.block_time, SWAPPED[row.side], 0)
    return charts.TimedTrade(row.block_time, row.side, row.sol_change - row.beside_sol)


@blueprint.get("/market")
def show_market() -> ResponseReturnValue:
    query = Query(
        read_choice(request.args, "sort", SORTS, SORTS[0]),
        read_choice(request.args, "show", FILTERS, FILTERS[0]),
    )
    page = read_whole(request.args, "page", 1, MAX_PAGE, default=1)
    interval = settings().scout_interval_seconds
    table = list_table(query, g.now, (page - 1) * MARKET_SIZE, MARKET_SIZE)
    return render_template(
        "market.html",
        table=table,
        asked=query,
        page=page,
        pages=-(-table["total"] // MARKET_SIZE),
        sparks={one["mint"]: draw_prices(one["prices"]) for one in table["rows"]},
        health=market.show_market_health(g.now),
        scout_off=not interval,
        scout_seconds=f"{interval:g}",
    )


def draw_prices(prices: Sequence[str]) -> charts.Spark | None:
    """Draw prices (exact decimal text), oldest first. None if there are too few."""
    if len(prices) < MIN_PRICES:
        return None
    return charts.draw_spark([charts.scale_price(Decimal(price)) for price in prices])


# ---- the market as a table -----------------------------------------------------------------------
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SPARK_POINTS, SPARK_MS = 24, 24 * HOUR_MS
# A price may be this much older than the requested time.
CHANGE_TOLERANCE_MS, SPARK_TOLERANCE_MS = 4 * MINUTE_MS, HOUR_MS
SORTS = ("age", "price", "change5m", "change1h", "liquidity", "volume", "checks")
FILTERS = ("all", "no_failures", "all_pass", "priced")
# In the order that readers want to see.
STATUSES = ("fail", "warn", "unknown", "pass")
# Checks that only report a number when they pass.
FACTS = ("supply", "decimals")


# Youngest first. A token of unknown age counts from its discovery.
TRACKED = f"""{market.ENTRY}WHERE t.tracked_at IS NOT NULL
ORDER BY COALESCE(t.pair_created_at, t.discovered_at) DESC, t.id DESC"""
COUNT = "SELECT COUNT(*) FROM token t WHERE t.tracked_at IS NOT NULL"
# Each token's last price in US dollars up to a time (ms), or null. {} are the times, then the
# tokens. Each is one index look-up, no matter how long the history is.
PRICES = """
WITH sampled (at) AS (VALUES {})
SELECT t.mint, s.at, (
    SELECT n.price_usd FROM snapshot n WHERE n.token_id = t.id AND n.taken_at <= s.at
    AND n.taken_at > s.at - ? AND n.absurd IS NULL AND n.reserves IS NULL
    ORDER BY n.taken_at DESC LIMIT 1) AS price
FROM token t CROSS JOIN sampled s WHERE t.mint IN ({}) ORDER BY t.mint, s.at
"""


class Query(NamedTuple):
    sort: str = SORTS[0]
    filter: str = FILTERS[0]


def list_table(query: Query, now: int, start: int, limit: int) -> Json:
    """Return a page of the market: `rows` of MarketEntry with `changes`, `prices` and `counts`, the
    number of matches (`total`) and of tokens (`tracked`). `now`: ms; `start`: rows to skip.
    """
    current = market.find_current(now)
    if query == Query():
        total = tracked = int(select_value(COUNT))
        rows = read(f"{TRACKED} LIMIT ? OFFSET ?", (limit, start))
    else:
        found = read(TRACKED)
        matching = [row for row in found if MATCHES[query.filter](row, current)]
        total, tracked = len(matching), len(found)
        rows = sort_rows(matching, query.sort, now, current)[start : start + limit]
    changes = find_changes(rows, now, current)
    prices = find_known_prices([row.mint for row in rows], now)
    entries = [
        {
            **add_counts(market.show_entry(row, current)),
            "ageSeconds": count_seconds(row.pair_created_at, now),
            "changes": changes[row.mint],
            "prices": prices[row.mint],
        }
        for row in rows
    ]
    return {"rows": entries, "total": total, "tracked": tracked}


def add_counts(entry: Any) -> Json:
    """Return an entry with its checks in the order of STATUSES, and by status their `counts` and
    labels (`failures`).

    Passed checks that are only a number (FACTS) are in `facts` instead.
    """
    facts = [one for one in entry["checks"] if one["key"] in FACTS and one["status"] == "pass"]
    checks = [one for one in entry["checks"] if one not in facts]
    checks.sort(key=lambda one: STATUSES.index(one["status"]))
    failures: Json = {status: [] for status in STATUSES}
    for one in checks:
        failures[one["status"]].append(one["label"])
    counts = {status: len(labels) for status, labels in failures.items()}
    return {**entry, "checks": checks, "facts": facts, "counts": counts, "failures": failures}


def count_checks(row: Any, status: str) -> int:
    return (row.checks or "").count(f'"status":"{status}"')


MATCHES: dict[str, Callable[[Any, int], bool]] = {
    "all": lambda row, current: True,
    "no_failures": lambda row, current: not count_checks(row, "fail"),
    "all_pass": lambda row, current: (
        row.checks is not None and not any(count_checks(row, one) for one in STATUSES[:3])
    ),
    "priced": lambda row, current: row.price_usd is not None and not is_stale(row, current),
}
KEYS: dict[str, Callable[[Any], Decimal | None]] = {
    "price": lambda row: read_number(row.price_usd),
    "liquidity": lambda row: read_number(row.liquidity_usd),
    "volume": lambda row: read_number(row.volume24h_usd),
    "checks": lambda row: Decimal(100 * count_checks(row, "fail") + count_checks(row, "warn")),
}


def sort_rows(rows: Sequence[Any], sort: str, now: int, current: int) -> list[Any]:
    """Sort rows, given youngest first, by a column: largest first, unknown values last."""
    if sort == "age":
        return list(rows)
    key = KEYS.get(sort)
    if key is None:
        changes = find_changes(rows, now, current)
        found = [(changes[row.mint][sort], row) for row in rows]
    else:
        found = [(key(row), row) for row in rows]
    known = sorted((one for one in found if one[0] is not None), key=lambda one: -one[0])
    return [row for _, row in known] + [row for number, row in found if number is None]


def is_stale(row: Any, current: int) -> bool:
    return (row.quoted_at or 0) < current


def read_number(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


# ---- price changes -------------------------------------------------------------------------------
def find_prices(
    mints: Sequence[str], times: Sequence[int], tolerance: int
) -> dict[str, list[str | None]]:
    """Return {mint: its prices at these times, in order}. Times and tolerance are in ms."""
    found: dict[str, list[str | None]] = {}
    if not mints:
        return found
    sql = PRICES.format(", ".join(["(?)"] * len(times)), write_marks(mints))
    for row in read(sql, [*times, tolerance, *mints]):
        found.setdefault(row.mint, []).append(row.price)
    return found


def find_changes(rows: Sequence[Any], now: int, current: int) -> dict[str, Json]:
    """Return {mint: changes in percent}. They are None if a price is missing, doubtful or stale."""
    times = [now - HOUR_MS, now - 5 * MINUTE_MS]
    found = find_prices([row.mint for row in rows], times, CHANGE_TOLERANCE_MS)
    changes: dict[str, Json] = {}
    for row in rows:
        hour, minutes = found[row.mint]
        price = None if is_stale(row, current) or row.absurd else row.price_usd
        changes[row.mint] = {
            "change5m": find_change(minutes, price),
            "change1h": find_change(hour, price),
        }
    return changes


def find_change(before: str | None, after: str | None) -> Decimal | None:
    old, new = read_number(before), read_number(after)
    return (new / old - 1) * 100 if old and new is not None else None


def find_known_prices(mints: Sequence[str], now: int) -> dict[str, list[str]]:
    """Return {mint: its known prices in the last SPARK_MS, oldest first}, as exact text."""
    times = [now - SPARK_MS + n * SPARK_MS // SPARK_POINTS for n in range(1, SPARK_POINTS + 1)]
    found = find_prices(mints, times, SPARK_TOLERANCE_MS)
    return {mint: [one for one in prices if one is not None] for mint, prices in found.items()}
