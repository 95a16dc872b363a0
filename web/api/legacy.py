"""The public interface of paper mode: GET only, no key, everything simulated. It reads tables and
asks nobody.
"""

import hashlib
import time

import orjson
from flask import Blueprint, Response, current_app, request

from accounts.problem import Problem
from web.api import market, paging, paper
from web.api.serialize import show_time

blueprint = Blueprint("legacy", __name__, url_prefix="/api")
SCOPE = ("paper feed",)
# what moves with the clock alone
PASSING = {
    "asOf",
    "markAgeSeconds",
    "ageSeconds",
    "lagSeconds",
    "heartbeatAt",
}


def respond(shown, status=200):
    """JSON with an ETag over what does not merely grow older; weak, for `asOf` differs behind an
    equal one.
    """
    response = Response(
        orjson.dumps(shown),
        status,
        content_type="application/json",
        headers={"Cache-Control": "public, no-cache"},
    )
    response.set_etag(
        hashlib.blake2b(orjson.dumps(_lasting(shown)), digest_size=16).hexdigest(), weak=True
    )
    return response.make_conditional(request)


def _lasting(value):
    if isinstance(value, dict):
        return {name: _lasting(one) for name, one in value.items() if name not in PASSING}
    return [_lasting(one) for one in value] if isinstance(value, list) else value


def _now():
    return time.time_ns() // 1_000_000


@blueprint.get("/traders")
def list_traders():
    return respond({"data": paper.list_traders(), "asOf": show_time(_now()), "simulated": True})


@blueprint.get("/traders/<uid>")
def show_one_trader(uid):
    now = _now()
    trader = paper.find_trader(uid, now)
    if trader is None:
        raise Problem("not_found", "there is no such trader")
    return respond({**trader, "asOf": show_time(now)})


@blueprint.get("/feed")
def list_feed():
    limit, cursor = paging.read_limit(request.args), request.args.get("cursor")
    before = (
        paging.read_cursor(current_app.secret_key, SCOPE, cursor)[0] if cursor is not None else None
    )
    rows, more = paging.cut_page(paper.list_posts(limit + 1, before), limit)
    following = paging.write_cursor(current_app.secret_key, SCOPE, (rows[-1][0],)) if more else None
    return respond(
        {
            "data": [post for _, post in rows],
            "nextCursor": following,
            "limit": limit,
            "asOf": show_time(_now()),
            "simulated": True,
        }
    )


@blueprint.get("/market")
def list_market():
    """All tracked tokens at once, as the scout's cache has them."""
    now = _now()
    entries, _ = market.list_market(now, limit=1_000)
    return respond(
        {
            "data": [{**entry, "simulated": True} for entry in entries],
            "health": market.show_market_health(now),
            "asOf": show_time(now),
            "simulated": True,
        }
    )


@blueprint.get("/strategies")
def show_strategies():
    now = _now()
    return respond({**paper.compare_families(now), "asOf": show_time(now)})
