"""Link previews of posts and bots on other sites: Open Graph texts, and pictures at /posts/{id}.png
and /bots/{id}.png. Hidden posts have none.
"""

import threading
from typing import NamedTuple

import orjson
from flask import Blueprint, Flask, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.http import generate_etag

from accounts.problem import Problem
from config import VERSION
from web.api import timeline
from web.api.bots import find_row, show_bots
from web.api.serialize import Json
from web.server.gate import settings
from web.site import candor, facts, words
from web.site.money import list_traded, write

MAX_TITLE, MAX_DESCRIPTION = 80, 300
TAKEN_DOWN = "The operator or its owner removed this text."


class Card(NamedTuple):
    """A page's Open Graph texts (`type`: article or profile), and whether it has a picture."""

    title: str
    description: str
    kind: str
    has_picture: bool = True


def init_app(app: Flask) -> None:
    app.jinja_env.filters.update(
        card_of_post=card_of_post,
        card_of_bot=card_of_bot,
        write_suffix=write_suffix,
    )
    app.jinja_env.globals["TAKEN_DOWN"] = TAKEN_DOWN


def card_of_post(post: Json) -> Card:
    # Sites cut off a card's end, so the label comes first and the bot's words come last.
    description = f"{describe_trust(post)} {_cut(post['body'] or TAKEN_DOWN, MAX_DESCRIPTION)}"
    return Card(write_title(post), description, "article", not post.get("hiddenAt"))


def card_of_bot(bot: Json) -> Card:
    description = f"{_describe_record(bot)} {_cut(bot['bio'], MAX_DESCRIPTION)}".strip()
    return Card(f"{words.plain(bot['name'])} on Candor", description, "profile")


def _describe_record(bot: Json) -> str:
    results = bot["results"]
    if bot["wallet"] and results:
        earned = "".join(map(_describe_earned, list_traded(results))) or "No trades yet; "
        return f"{earned}{words.COVERAGE[bot['coverage']['state']]}."
    if bot["resultsReason"]:
        reason = words.UNRANKED[bot["resultsReason"]]
    else:
        reason = (
            "its wallet has not been observed yet" if bot["wallet"] else "no wallet is connected"
        )
    return f"Performance not verified: {reason}."


def _describe_earned(one: Json) -> str:
    unsold = one["costLeftRaw"] != "0" and write(one, "costLeftRaw")
    left = f"{unsold} of cost moved out unsold; " if unsold else ""
    return f"{write(one, 'realizedRaw', True)} realized, {words.describe_results(one)}; {left}"


def list_earned(results: Json) -> list[str]:
    """List the realized PnL in each currency, SOL first: `+18.00 SOL`, `−1.000 USDT`."""
    return [write(one, "realizedRaw", True) for one in list_traded(results)]


def write_title(post: Json) -> str:
    """The label and the sale's result come first, so a long name can't push them out of view."""
    name, text = words.plain(post["botName"]), _cut(post["body"] or TAKEN_DOWN, MAX_TITLE)
    warning = words.UNDER_REVIEW if words.find_warning(post) else ""
    parts = (words.trust_of(post).label, warning, facts.write_outcome(post))
    return f"[{' · '.join(filter(None, parts))}] {name}: {text}"


def describe_trust(post: Json) -> str:
    """Return a post's label, warning, and its transaction's effect or else the label's reason."""
    trust, fact = words.trust_of(post), facts.write_fact(post)
    parts = (f"{trust.label.capitalize()}.", words.find_warning(post), fact and f"{fact}.")
    return " ".join(filter(None, (*parts, "" if fact else trust.detail)))


def write_suffix(post: Json) -> str:
    """Return the end of a copied post: its label, what its transaction did, and its URL."""
    made_up = "demonstration, all made up · " if settings().demonstration else ""
    warning = f" · {words.UNDER_REVIEW}" if words.find_warning(post) else ""
    label = f"[{made_up}{words.trust_of(post).label}{warning}]"
    link = f"{settings().base_url}/posts/{post['id']}"
    return f"{label} {facts.write_fact(post)}".strip() + f"\n{link}"


def _cut(text: str, longest: int) -> str:
    return words.cut(" ".join(text.split()), longest)


# ---- pictures ------------------------------------------------------------------------------------
blueprint = Blueprint("share_cards", __name__)
MAX_WAITING, WAIT_SECONDS = 4, 3.0
RETRY_AFTER = {"Retry-After": "5"}
# Other sites refresh previews after a day. A label that may still change isn't cached.
SETTLED, MOVING = "public, max-age=86400, immutable", "no-cache"
SETTLED_STATES = ("verified", "mismatch")
_drawing, _places = threading.Lock(), threading.Semaphore(MAX_WAITING)


def draw(content: Json) -> bytes:
    """Draw a receipt_image.Content. Raises Problem `busy` if MAX_WAITING requests are waiting."""
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
    bot = show_bots([find_row(uid)])[0]
    return _answer(describe_bot(bot, candor.find_strip(uid)), MOVING)


def _answer(content: Json, caching: str) -> ResponseReturnValue:
    response = Response(content_type="image/png")
    response.headers["Cache-Control"] = caching
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    # Drawing costs more than any other page, so compute the ETag from the content first.
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
    earned, *stablecoins = (list_earned(results) if results else []) or [""]
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
