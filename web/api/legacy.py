"""The public interface of paper mode: GET only, no key, all simulated. It only reads tables."""

import hashlib
import time
from collections.abc import Callable
from typing import Any

import orjson
from flask import Blueprint, request
from werkzeug.wrappers import Response

from accounts.problem import Problem
from web.api import health, market, paging, paper, paper_brain, paper_closes
from web.api.answers import PASSING, finish, respond
from web.api.serialize import show_time
from web.server.application import find_app

blueprint = Blueprint("legacy", __name__, url_prefix="/api")
SCOPE = ("paper feed",)


def _now() -> int:
    return time.time_ns() // 1_000_000


@blueprint.get("/traders")
def list_traders() -> Response:
    traders = paper.list_traders()
    return respond(show_page(traders, len(traders), None))


def show_page(rows: Any, limit: int, next_cursor: str | None) -> dict[str, Any]:
    return {
        "data": rows,
        "nextCursor": next_cursor,
        "limit": limit,
        "asOf": show_time(_now()),
        "simulated": True,
    }


@blueprint.get("/traders/<uid>")
def show_one_trader(uid: str) -> Response:
    now = _now()
    trader = paper.find_trader(uid, now)
    if trader is None:
        raise Problem("not_found", "there is no such trader")
    return respond({**shorten(trader), "asOf": show_time(now)})


# The shapes of a detail's rows. Only its lists include their optional members.
SHAPES: dict[str, Any] = {
    "closes": paper_closes.PaperClose,
    "fills": paper_closes.PaperFill,
    "diary": paper_brain.DiaryLine,
    "posts": paper.PaperPost,
}


def shorten(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a trader, or a row from one of its lists, without the members that only lists
    include.
    """
    return {name: _cut(value, SHAPES.get(name)) for name, value in shown.items()}


def _cut(value: Any, shape: Any) -> Any:
    if shape is None:
        return value
    left_out = shape.__optional_keys__
    return [shorten({n: one for n, one in row.items() if n not in left_out}) for row in value]


LISTS: dict[str, Callable[..., list[paper.Placed]]] = {
    "closes": paper.list_closes,
    "diary": paper.list_diary,
    "posts": paper.list_own_posts,
}


@blueprint.get("/traders/<uid>/<any(closes, diary, posts):name>")
def list_of_trader(uid: str, name: str) -> Response:
    row = paper.find_row(uid)
    if row is None:
        raise Problem("not_found", "there is no such trader")
    limit, cursor = paging.read_limit(request.args), request.args.get("cursor")
    secret, scope = find_app().secret, (f"trader {name}", uid)
    before = None if cursor is None else paging.read_position(secret, scope, cursor, paper.Place)
    found, more = paging.cut_page(LISTS[name](row, limit + 1, before), limit)
    following = paging.write_cursor(secret, scope, found[-1].place) if more else None
    page = show_page([one.shown for one in found], limit, following)
    return respond({**page, "models": paper_closes.show_models()} if name == "closes" else page)


@blueprint.get("/feed")
def list_feed() -> Response:
    limit, cursor = paging.read_limit(request.args), request.args.get("cursor")
    secret = find_app().secret
    before = None if cursor is None else paging.read_cursor(secret, SCOPE, cursor)[0]
    posts, more = paging.cut_page(paper.list_posts(limit + 1, before), limit)
    following = paging.write_cursor(secret, SCOPE, (posts[-1].place.id,)) if more else None
    return respond(show_page([post.shown for post in posts], limit, following))


@blueprint.get("/market")
def list_market() -> Response:
    """List all tracked tokens at once, as the scout's cache has them."""
    now = _now()
    entries, _ = market.list_market(now, limit=1_000)
    # Serialize this only once, because it is two megabytes for a thousand tokens. No member changes
    # only with the clock, so don't search for them.
    data = orjson.dumps([{**entry, "simulated": True} for entry in entries])
    scout = orjson.dumps(health.show_scout(now))
    page = show_page(orjson.Fragment(data), len(entries), None)
    body = orjson.dumps({**page, "health": orjson.Fragment(scout)})
    digest = hashlib.blake2b(data, digest_size=16)
    digest.update(PASSING.sub(b"", scout))
    return finish(body, digest)


@blueprint.get("/strategies")
def show_strategies() -> Response:
    now = _now()
    return respond({**paper.compare_families(now), "asOf": show_time(now)})
