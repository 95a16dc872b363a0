"""The market as the scout left it: entries and the scout's health. It reads the cache, never a
provider.
"""

import orjson

from chain.mints import CHECKS
from storage import database
from web.api.serialize import show_time

NOT_CHECKED = [
    "holder_concentration",
    "linked_wallets",
    "bundlers",
    "lp_ownership",
    "sell_simulation",
]
MINUTE = 60_000
ENTRY = """
SELECT t.discovered_at, t.id, t.mint, t.symbol, t.name, t.found_by, t.price_sol, t.price_usd, t.liquidity_usd, t.volume24h_usd,
       t.pair_url, t.checks, t.checked_at, t.quoted_at, t.absurd
FROM token t """
LISTED = ENTRY + "WHERE t.tracked_at IS NOT NULL ORDER BY t.discovered_at DESC, t.id DESC LIMIT ?"
LISTED_AFTER = (
    ENTRY
    + """WHERE t.tracked_at IS NOT NULL AND (t.discovered_at < ? OR t.discovered_at = ? AND t.id < ?)
ORDER BY t.discovered_at DESC, t.id DESC LIMIT ?"""
)
SCOUT = "SELECT details FROM job WHERE name = 'scout'"
SYMBOLS = "SELECT mint, symbol FROM token WHERE symbol IS NOT NULL AND mint IN "


def list_market(now_ms, limit=100, after=None):
    """Market entries of the tracked tokens, newest discovery first: ([entry], position of the last
    one or None where the list ends).

    `after`: the position (discovered at in ms, id) that an earlier call gave; both never change, so
    a cursor over them holds its place.
    """
    rows = database.execute_sql(
        *((LISTED_AFTER, (after[0], *after, limit + 1)) if after else (LISTED, (limit + 1,)))
    ).fetchall()
    current = find_current(now_ms)
    return [show_entry(row, current) for row in rows[:limit]], (
        rows[limit - 1][:2] if len(rows) > limit else None
    )


def find_entry(now_ms, mint):
    """The entry of one mint, tracked or not; None for a mint the scout never saw."""
    row = database.execute_sql(ENTRY + "WHERE t.mint = ?", (mint,)).fetchone()
    return row and show_entry(row, find_current(now_ms))


def find_symbols(mints):
    """{mint: symbol} of those that have one; hostile text."""
    mints = list(mints)
    return (
        dict(database.execute_sql(f"{SYMBOLS}({', '.join('?' * len(mints))})", mints).fetchall())
        if mints
        else {}
    )


def find_current(now_ms):
    """The time in ms from which on a quote is current; an older one is stale.

    A quote is stale after three passes without a new one, and at once where the pass that should
    have renewed it failed.
    """
    details = _read_details()
    oldest = now_ms - max(MINUTE, int(3000 * details.get("intervalSeconds", 0)))
    prices = details.get("discovery", {}).get("feeds", {}).get("dexscreenerPrices", {})
    return max(oldest, prices["lastAttemptAt"]) if prices.get("lastError") else oldest


def show_entry(row, current):
    """A row of ENTRY as the interface's Market entry. `asOf` is when the prices were taken, before
    the first ones when the token was discovered.
    """
    (
        discovered_at,
        _,
        mint,
        symbol,
        name,
        found_by,
        price_sol,
        price_usd,
        liquidity_usd,
        volume24h_usd,
        pair_url,
        checks,
        checked_at,
        quoted_at,
        absurd,
    ) = row
    as_of = quoted_at or discovered_at
    return {
        "mint": mint,
        "symbol": symbol,
        "name": name,
        "source": found_by,
        "discoveredAt": show_time(discovered_at),
        "priceSol": price_sol,
        "priceUsd": price_usd,
        "priceDoubt": absurd,
        "liquidityUsd": liquidity_usd,
        "volume24hUsd": volume24h_usd,
        "pairUrl": pair_url,
        "checks": _show_checks(checks, show_time(checked_at)),
        "notChecked": NOT_CHECKED,
        "asOf": show_time(as_of),
        "stale": as_of is None or as_of < current,
    }


def _show_checks(stored, checked_at):
    """All checks of one account were made at once: their time is shown once for all."""
    if stored is None:
        unread = {
            "status": "unknown",
            "detail": "the mint account was not read yet",
            "checkedAt": None,
        }
        return [{"key": key, "label": label, **unread} for key, (label, _) in CHECKS.items()]
    checks = orjson.loads(stored)
    for check in checks:
        check["checkedAt"] = checked_at
    return checks


def show_market_health(now_ms):
    """{"discovery": part, "safety": part}, each {state: ok | failing | waiting, lastSuccessAt,
    ageSeconds, lastAttemptAt, lastError, droppedRows}; discovery has `feeds` beside, the same by
    question and provider. `waiting`: not asked yet. Ages are of the last success.
    """
    details = _read_details()
    discovery = details.get("discovery", {})
    feeds = {name: _show_part(feed, now_ms) for name, feed in discovery.get("feeds", {}).items()}
    return {
        "discovery": {**_show_part(discovery, now_ms), "feeds": feeds},
        "safety": _show_part(details.get("safety", {}), now_ms),
    }


def explain_empty(now_ms):
    """Why there is no entry, in a sentence."""
    discovery = show_market_health(now_ms)["discovery"]
    if discovery["lastError"]:
        return f"the scout has found nothing yet; {discovery['lastError']}"
    return (
        "the scout has not looked at the market yet"
        if discovery["state"] == "waiting"
        else "the scout has found nothing yet"
    )


def _show_part(part, now_ms):
    success_at = part.get("lastSuccessAt")
    age = None if success_at is None else max(0, now_ms - success_at) // 1000
    return {
        "state": part.get("state", "waiting"),
        "lastSuccessAt": show_time(success_at),
        "ageSeconds": age,
        "lastAttemptAt": show_time(part.get("lastAttemptAt")),
        "lastError": part.get("lastError"),
        "droppedRows": part.get("droppedRows", 0),
    }


def _read_details():
    row = database.execute_sql(SCOUT).fetchone()
    return orjson.loads(row[0]) if row else {}
