"""The public interface of paper mode: GET only, no key, all simulated. It only reads tables."""

import hashlib
from collections.abc import Callable
from typing import Any

import orjson
from flask import Blueprint, g, request
from werkzeug.wrappers import Response

from accounts.problem import Problem
from web.api import health, market, paging, paper
from web.api.paper_brain import DiaryLine
from web.api.paper_closes import PaperClose, PaperFill, show_models
from web.api.serialize import show_time
from web.api.shapes import ClosesPage, PaperPage
from web.api.v1 import PASSING, finish, respond, route

blueprint = Blueprint("legacy", __name__, url_prefix="/api")
OF_LIST = ("limit", "cursor")


@route(blueprint, "get", "/traders", PaperPage, rows=paper.Trader)
def list_traders() -> Response:
    """All paper traders (simulated)"""
    traders = paper.list_traders()
    return respond(show_page(traders, len(traders), None))


def show_page(rows: Any, limit: int, next_cursor: str | None) -> dict[str, Any]:
    return {
        "data": rows,
        "nextCursor": next_cursor,
        "limit": limit,
        "asOf": show_time(g.now),
        "simulated": True,
    }


@route(blueprint, "get", "/traders/<uid>", paper.TraderDetail)
def get_trader(uid: str) -> Response:
    """One paper trader with its diary, positions, closes, posts and brain (simulated)"""
    trader = paper.find_trader(uid, g.now)
    if trader is None:
        raise Problem("not_found", "there is no such trader")
    return respond({**shorten(trader), "asOf": show_time(g.now)})


# The shapes of a detail's rows. Only its lists include their optional members.
SHAPES: dict[str, Any] = {
    "closes": PaperClose,
    "fills": PaperFill,
    "diary": DiaryLine,
    "posts": paper.PaperPost,
}


def shorten(shown: dict[str, Any]) -> dict[str, Any]:
    """Remove the members that only lists include from a trader or one of its rows."""
    return {name: _cut(value, SHAPES.get(name)) for name, value in shown.items()}


def _cut(value: Any, shape: Any) -> Any:
    if shape is None:
        return value
    left_out = shape.__optional_keys__
    return [shorten({n: one for n, one in row.items() if n not in left_out}) for row in value]


@route(blueprint, "get", "/traders/<uid>/closes", ClosesPage, *OF_LIST, rows=PaperClose)
def list_trader_closes(uid: str) -> Response:
    """All closes of a trader, newest first (simulated). getTrader includes the latest 20."""
    page = list_of_trader(uid, "closes", paper.list_closes)
    return respond({**page, "models": show_models()})


@route(blueprint, "get", "/traders/<uid>/diary", PaperPage, *OF_LIST, rows=DiaryLine)
def list_trader_diary(uid: str) -> Response:
    """All entries of a trader's diary, newest first (simulated). getTrader includes the latest
    20.
    """
    return respond(list_of_trader(uid, "diary", paper.list_diary))


@route(blueprint, "get", "/traders/<uid>/posts", PaperPage, *OF_LIST, rows=paper.PaperPost)
def list_trader_posts(uid: str) -> Response:
    """All posts of a trader, newest first (simulated). getTrader includes the latest 20."""
    return respond(list_of_trader(uid, "posts", paper.list_own_posts))


def list_of_trader(
    uid: str, name: str, list_rows: Callable[..., list[paper.SortedRow]]
) -> dict[str, Any]:
    row = paper.find_row(uid)
    if row is None:
        raise Problem("not_found", "there is no such trader")
    limit, scope = paging.read_limit(request.args), (f"trader {name}", uid)
    before = paging.read_cursor(request.args, scope, paper.TimeSortKey)
    page = paging.cut_page(list_rows(row, limit + 1, before), limit, scope, lambda one: one.key)
    return show_page([one.shown for one in page.rows], limit, page.cursor)


@route(blueprint, "get", "/feed", PaperPage, *OF_LIST, rows=paper.PaperPost)
def list_paper_posts() -> Response:
    """Paper-mode posts, newest first (simulated)"""
    limit, scope = paging.read_limit(request.args), ("paper feed",)
    before = paging.read_cursor(request.args, scope, paging.IdSortKey)
    found = paper.list_posts(limit + 1, before and before.id)
    page = paging.cut_page(found, limit, scope, lambda one: (one.key.id,))
    return respond(show_page([one.shown for one in page.rows], limit, page.cursor))


@route(blueprint, "get", "/market", paper.PaperMarket)
def list_paper_market() -> Response:
    """Scouted tokens, structural checks, health of the scout. All tracked tokens, and the age of
    their prices and checks.
    """
    entries, _ = market.list_entries(g.now, limit=1_000)
    # Serialize this only once, because it is two megabytes for a thousand tokens. No member changes
    # only with the clock, so don't search for them.
    data = orjson.dumps([{**entry, "simulated": True} for entry in entries])
    scout = orjson.dumps(health.show_scout(g.now))
    page = show_page(orjson.Fragment(data), len(entries), None)
    body = orjson.dumps({**page, "health": orjson.Fragment(scout)})
    digest = hashlib.blake2b(data, digest_size=16)
    digest.update(PASSING.sub(b"", scout))
    return finish(body, digest)


@route(blueprint, "get", "/strategies", paper.Strategies)
def compare_strategies() -> Response:
    """Results of 30 days by strategy family (simulated). Not a ranking. Coverage is not proof of
    profitability.
    """
    return respond({**paper.compare_families(g.now), "asOf": show_time(g.now)})
