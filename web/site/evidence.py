"""Serve a bot's evidence as JSON, so that anyone can recompute every number (docs/check.md)."""

from collections.abc import Callable

import orjson
from flask import Blueprint, g, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from evidence import document
from evidence.document import show_logged
from evidence.lines import POSTS, RECEIPTS, Page, read_page
from web.api.paging import read_whole
from web.server.application import find_app
from web.server.gate import count_evidence, count_more_evidence, find_network, settings
from web.site.lists import respond
from web.site.pages import read_programs

blueprint = Blueprint("evidence", __name__)
# A page is named by its digest, so its content never changes.
IMMUTABLE = "public, max-age=31536000, immutable"
MAX_PAGE = 10**7
HOUR_MS = 3_600_000
blueprint.before_request(count_evidence)


@blueprint.get("/evidence.json")
def show_index() -> ResponseReturnValue:
    """Serve the list of all bots, one page at a time. A full audit starts with it."""
    made = document.list_bots(request.args.get("after", ""))
    return respond(orjson.dumps(made), "application/json", "no-cache")


@blueprint.get("/bots/<uid>/evidence.json")
def show_evidence(uid: str) -> ResponseReturnValue:
    """Serve the document of a bot or one of its wallets, or a full page of either."""
    bot = document.find_bot(uid)
    if bot is None:
        raise Problem("not_found", "there is no such bot")
    wallet_id = document.find_wallet(bot, request.args.get("wallet"))
    if wallet_id is None and "wallet" in request.args:
        raise Problem("not_found", "this bot never had that wallet")
    if "posts" in request.args:
        # Not kept forever, because the text of a hidden post must not stay in caches.
        return show_page("posts", lambda number: read_page(POSTS, bot, number), keeps=False)
    if "page" in request.args:
        return show_page("page", lambda number: find_receipts(wallet_id, number))
    leave = find_app().places.take(find_network())
    try:
        return respond(render(bot, wallet_id), "application/json", "no-cache")
    finally:
        leave()


def render(bot: int, wallet_id: int | None) -> bytes:
    made = document.make_document(bot, wallet_id, read_programs(settings()), g.now // HOUR_MS)
    # A long history needs seconds of CPU time.
    pages = len(made["receiptPages"]) + len(made["postPages"])
    count_more_evidence(pages)
    return orjson.dumps({**made, "log": wallet_id and show_logged(wallet_id)})


def find_receipts(wallet_id: int | None, number: int) -> Page:
    """Raises Problem `not_found` if there is no wallet."""
    if wallet_id is None:
        raise Problem("not_found", "this bot has no wallet")
    return read_page(RECEIPTS, wallet_id, number)


def show_page(name: str, read: Callable[[int], Page], keeps: bool = True) -> ResponseReturnValue:
    """Serve the page in the query. `keeps`: caches may keep a page named by its digest forever."""
    page = read(read_whole(request.args, name, 1, MAX_PAGE))
    wanted = request.args.get("digest")
    if wanted not in (None, page.digest):
        raise Problem("not_found", "this page has changed; evidence.json lists its current name")
    is_named = keeps and wanted is not None and page.is_full
    return respond(page.body, "application/json", IMMUTABLE if is_named else "no-cache")
