"""Parts of pages: posts, trades and ranks as HTML, and the URLs of static files."""

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from flask import current_app

from accounts.problem import Problem
from chain.amounts import ONE, show_amount
from storage.rows import read, write_marks
from web.api import market, timeline
from web.api.serialize import Json
from web.api.trades import read_multiplier
from web.server.application import find_app
from web.site import figures, money, words

STATIC = Path(__file__).resolve().parent.parent.parent / "static"
# Not escaped in a query, as in the URLs that Flask builds.
QUERY_SIGNS = "!$'()*,/:;?@"


def _macros() -> Any:
    return current_app.jinja_env.get_template("macros.html").module


# ---- static files --------------------------------------------------------------------------------
def asset(name: str) -> str:
    """Return a static file's URL, which changes with its content, so caches may keep it forever."""
    return link_to(f"/static/{name}", v=_digest(name))


def link_to(path: str, **query: str | None) -> str:
    """Return the URL for a path on this instance, without empty query values.

    Flask's `url_for` searches all rules, which took 10% of the leaderboard's rendering time.
    """
    given = {name: text for name, text in query.items() if text is not None}
    asked = urlencode(given, safe=QUERY_SIGNS)
    return f"{find_app().settings.base_path}{path}{'?' if given else ''}{asked}"


@functools.cache
def _digest(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


# ---- posts ---------------------------------------------------------------------------------------
def find_post(uid: str) -> Json:
    """Return a post of either kind. Raises Problem `not_found`."""
    post = timeline.find_post(uid)
    if post is None:
        raise Problem("not_found", "there is no such post")
    return post


def draw_posts(posts: Sequence[Json], heading: str = "h2") -> list[str]:
    symbols, macros = find_symbols(posts), _macros()
    return [macros.post(post, symbols, heading) for post in posts]


# ---- trades --------------------------------------------------------------------------------------
def draw_trades(trades: Sequence[Json]) -> list[str]:
    """Return HTML for trades. The amounts in a column have the same number of decimal places."""
    symbols, lots, places = find_symbols(trades), find_lots(trades), _find_places(trades)
    macros = _macros()
    return [macros.trade(trade, lots[trade["id"]], symbols, places) for trade in trades]


def _find_places(trades: Sequence[Json]) -> dict[str, int]:
    return {
        "sol": figures.find_places(money.venue_sol(trade) for trade in trades),
        "result": figures.find_places(trade["realized"]["resultSol"] for trade in trades),
    }


def draw_activity(rows: Sequence[Json], mint: str) -> list[str]:
    symbols, macros = find_symbols(row for row in rows if money.is_exchange(row)), _macros()
    return [
        macros.activity(_show_exchange(row, mint, symbols) if money.is_exchange(row) else row)
        for row in rows
    ]


def _show_exchange(row: Json, mint: str, symbols: Mapping[str, str]) -> Json:
    """Return a row with what it exchanged the token for, and with the sign of its amount."""
    swapped = [
        {**one, "symbol": symbols.get(one["mint"])}
        for one in row["tokenChanges"]
        if one["mint"] != mint
    ]
    sign = "-" if row["side"] == "sell" else ""
    return {**row, "swapped": swapped, "amount": f"{sign}{row['amount']}"}


# The purchases with which sales were matched.
ORIGIN = "SELECT uid, block_time, signature FROM trade WHERE uid IN "


def find_lots(trades: Sequence[Json]) -> dict[str, list[Json]]:
    """Return {trade ID: the lots matched with the sale}. Each lot has its `amount` and `origin`,
    the row of its purchase, or None if that was before observation began.
    """
    ids = {lot["tradeId"] for trade in trades for lot in trade["realized"]["lots"]}
    uids = sorted(filter(None, ids))
    origins = {row.uid: row for row in read(f"{ORIGIN}({write_marks(uids)})", uids)}
    return {trade["id"]: _match_lots(trade, origins) for trade in trades}


def _match_lots(trade: Json, origins: Mapping[str, Any]) -> list[Json]:
    lots = trade["realized"]["lots"]
    decimals, multiplier = _find_sold(trade) if lots else (0, None)
    return [
        {
            **lot,
            "origin": origins.get(lot["tradeId"]),
            "amount": show_amount(int(lot["amountRaw"]), decimals, multiplier) or "",
        }
        for lot in lots
    ]


def _find_sold(trade: Json) -> tuple[int, Fraction | None]:
    """Return (decimals, display multiplier) of the token that a trade sold."""
    return next(
        (
            (change["decimals"], read_multiplier(change["multiplier"]))
            for change in money.venue_changes(trade)
            if change["changeRaw"].startswith("-")
        ),
        (0, ONE),
    )


# ---- names of tokens -----------------------------------------------------------------------------
def find_symbols(shown: Iterable[Json]) -> dict[str, str]:
    """Return {mint: symbol} for all tokens, except those that imitate a stablecoin's symbol."""
    mints = {mint for one in shown for mint in _mints_of(one)}
    symbols = market.find_symbols(sorted(mints))
    names = {mint: words.name_token(mint, symbols.get(mint)) for mint in mints}
    return {mint: name for mint, name in names.items() if name}


def _mints_of(shown: Json) -> list[str]:
    mints = (
        shown.get("mint"),
        *shown.get("tokenAddresses", ()),
        *(change["mint"] for change in shown.get("tokenChanges", ())),
        *(change["mint"] for change in (shown.get("outsideVenue") or {}).get("tokenChanges", ())),
    )
    return [mint for mint in mints if mint]
