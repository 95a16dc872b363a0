"""/posts/{id}.png and /bots/{id}.png: pictures for link previews. Hidden posts don't have one.

Pillow is imported when the first picture is drawn. Only one is drawn at a time, so that the server
can keep handling other requests.
"""

import threading

import orjson
from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.http import generate_etag

from accounts.problem import Problem
from config import VERSION
from web.api import queries, timeline
from web.api.bots import show_bots
from web.api.serialize import Json
from web.server.gate import settings
from web.site import candor, cards, facts, words
from web.site.profile_words import list_traded

blueprint = Blueprint("share_cards", __name__)
MAX_WAITING, WAIT_SECONDS = 4, 3.0
RETRY_AFTER = {"Retry-After": "5"}
# Other sites refresh previews after a day. A label that may still change isn't cached.
SETTLED, MOVING = "public, max-age=86400, immutable", "no-cache"
SETTLED_STATES = ("verified", "mismatch")
_drawing, _places = threading.Lock(), threading.Semaphore(MAX_WAITING)


def draw(content: Json) -> bytes:
    """Draw a receipt_image.Content. Raises Problem `busy` if MAX_WAITING requests are already
    waiting.
    """
    if not _places.acquire(blocking=False):
        raise _make_busy()
    try:
        if not _drawing.acquire(timeout=WAIT_SECONDS):
            raise _make_busy()
        try:
            # Imported here, so that a server that doesn't show pictures never loads Pillow.
            from web.site import receipt_image

            return receipt_image.draw(receipt_image.Content(**content))
        finally:
            _drawing.release()
    finally:
        _places.release()


def _make_busy() -> Problem:
    return Problem("busy", "other pictures are being drawn; try again", headers=RETRY_AFTER)


# ---- routes --------------------------------------------------------------------------------------
@blueprint.get("/posts/<uid>.png")
def show_card_of_post(uid: str) -> ResponseReturnValue:
    post = timeline.find_post(uid)
    if post is None or post.get("hiddenAt"):
        raise Problem("not_found", "this post has no picture")
    settled = post["simulated"] or post["verification"]["status"] in SETTLED_STATES
    return _answer(describe_post(post), SETTLED if settled else MOVING)


@blueprint.get("/bots/<uid>.png")
def show_card_of_bot(uid: str) -> ResponseReturnValue:
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such bot")
    bot = show_bots([row])[0]
    return _answer(describe_bot(bot, candor.find_strip(uid)), MOVING)


def _answer(content: Json, caching: str) -> ResponseReturnValue:
    response = Response(content_type="image/png")
    response.headers["Cache-Control"] = caching
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    # Drawing costs more than any other page, so the ETag is computed from the content before
    # drawing.
    response.set_etag(generate_etag(orjson.dumps([VERSION, content])))
    response.make_conditional(request)
    if response.status_code == 200:
        response.data = draw(content)
    return response


# ---- content -------------------------------------------------------------------------------------
def describe_post(post: Json) -> Json:
    trust, fact, receipt = words.trust_of(post), facts.find_text(post), post["receipt"]
    label, _, note = trust.label.partition(" · ")
    if words.find_warning(post):
        note = words.UNDER_REVIEW
    return {
        "when": words.clock(fact.at) + fact.when
        if fact and fact.at
        else words.clock(post["createdAt"]),
        "name": post["botName"],
        "words": post["body"],
        "trust": trust.key,
        "stamp": label,
        "stamp_note": _mark(note),
        "told": fact.told if fact else trust.detail,
        "result": fact.result if fact else "",
        "beside": fact.change if fact else "",
        "small": [
            " · ".join(
                part
                for part in (
                    f"wallet {words.short(post['provenance']['wallet'])}"
                    if post["provenance"]["wallet"]
                    else "no wallet",
                    f"slot {receipt['slot']:,}" if receipt else "",
                    f"tx {words.short(post['signature'])}" if post["signature"] else "",
                )
                if part
            ),
            _shorten(f"{settings().base_url}/posts/{post['id']}"),
        ],
        "link": f"{settings().base_url}/posts/{post['id']}",
    }


def describe_bot(bot: Json, strip: candor.Strip) -> Json:
    results, link = bot["results"], bot["profileUrl"]
    earned, *stablecoins = (cards.list_earned(results) if results else []) or [""]
    proven = bot["wallet"] and bot["wallet"]["ownership"] == "proven"
    wallet = f"wallet {words.short(bot['wallet']['address'])}" if bot["wallet"] else "no wallet"
    return {
        "when": f"@{bot['handle']}",
        "name": bot["name"],
        "words": bot["bio"] or "No bio.",
        "trust": "verified" if proven else "none",
        "stamp": "wallet proven" if proven else "claimed" if bot["wallet"] else "no wallet",
        "stamp_note": _mark("" if proven else "wallet not proven" if bot["wallet"] else ""),
        "told": _tell_results(bot) if results else strip.sentence,
        "result": earned,
        "beside": "",
        "small": [
            strip.sentence if results else "Performance not verified.",
            # The end may be cut off, but the QR code contains it.
            " · ".join(filter(None, (", ".join(stablecoins), wallet, _shorten(link)))),
        ],
        "link": link,
    }


def _tell_results(bot: Json) -> str:
    so_far = " so far, history loading" if bot["coverage"]["state"] == "backfilling" else ""
    first = next(iter(list_traded(bot["results"])), None)
    return f"Realized PnL{so_far}: {words.describe_results(first)}" if first else "No trades yet."


def _mark(note: str) -> str:
    return "demonstration: made up" if settings().demonstration else note


def _shorten(link: str) -> str:
    return link.split("://", 1)[-1]
