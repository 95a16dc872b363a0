"""GET /oembed (oembed.com): a site that is given the address of a post or a bot shows it in a
frame.
"""

import re
from typing import NamedTuple
from urllib.parse import urlencode

import orjson
from flask import Blueprint, Flask, Response, request
from flask.typing import ResponseReturnValue
from markupsafe import escape

from accounts.problem import Problem
from web.api import timeline
from web.api.serialize import Json
from web.server.gate import settings
from web.site import cards, words
from web.site.profiles import find_profile

blueprint = Blueprint("oembed", __name__)
# Pixels; a frame is made smaller where less room is given, but not below what can be read.
WIDTH, HEIGHT, MIN_WIDTH, MIN_HEIGHT = 560, 260, 220, 120
CACHE_SECONDS = 300
PAGE = re.compile(r"/(posts|bots)/([a-z]+_[0-9a-z]{1,40})")


class Embedded(NamedTuple):
    """What a frame shows: the frame's path, its title, and whose it is."""

    path: str
    title: str
    author: str
    author_path: str


def init_app(app: Flask) -> None:
    """Give templates the filter that makes the link by which other sites find this."""
    app.jinja_env.filters["oembed_url"] = find_discovery


@blueprint.get("/oembed")
def show_oembed() -> ResponseReturnValue:
    """Tell how a post or a bot is embedded, as oEmbed 1.0 has it: JSON of type `rich`."""
    if request.args.get("format", "json") != "json":
        raise Problem("invalid_parameter", "format: Only json is served.")
    shown = find_embedded(request.args.get("url", ""))
    width = read_room("maxwidth", WIDTH, MIN_WIDTH)
    height = read_room("maxheight", HEIGHT, MIN_HEIGHT)
    answer = orjson.dumps(show_embedded(shown, width, height))
    caching = {"Cache-Control": f"public, max-age={CACHE_SECONDS}"}
    return Response(answer, headers=caching, content_type="application/json")


def show_embedded(shown: Embedded, width: int, height: int) -> Json:
    """Make the answer for a frame of this width and height in pixels."""
    base_url = settings().base_url
    return {
        "version": "1.0",
        "type": "rich",
        "provider_name": "Candor",
        "provider_url": base_url,
        "title": shown.title,
        "author_name": shown.author,
        "author_url": base_url + shown.author_path,
        "cache_age": CACHE_SECONDS,
        "width": width,
        "height": height,
        "html": f'<iframe src="{escape(base_url + shown.path)}" title="{escape(shown.title)}"'
        f' width="{width}" height="{height}" style="border:0" loading="lazy"></iframe>',
    }


def find_embedded(url: str) -> Embedded:
    """Return what the page at this address shows; Problem where it is none of a post or a bot."""
    base_url = settings().base_url
    page = PAGE.fullmatch(url.removeprefix(base_url)) if url.startswith(base_url) else None
    if page is None:
        raise Problem("not_found", "url: That's not the page of a post or bot here.")
    kind, uid = page.groups()
    if kind == "posts":
        return _embed_post(uid)
    bot = find_profile(uid)
    title = cards.card_of_bot(bot).title
    return Embedded(f"/embed/bots/{uid}", title, words.plain(bot["name"]), f"/bots/{uid}")


def _embed_post(uid: str) -> Embedded:
    post = timeline.find_post(uid)
    if post is None:
        raise Problem("not_found", "there is no such post")
    whose = f"/{'traders' if post['simulated'] else 'bots'}/{post['botId']}"
    return Embedded(f"/embed/{uid}", cards.write_title(post), words.plain(post["botName"]), whose)


def read_room(name: str, most: int, least: int) -> int:
    """Read a limit of the query in pixels; Problem where it is no number."""
    text = request.args.get(name)
    if text is None:
        return most
    if not re.fullmatch(r"\d{1,6}", text):
        raise Problem("invalid_parameter", f"{name}: That's not a number of pixels.")
    return min(most, max(least, int(text)))


def find_discovery(path: str) -> str:
    """Return the address that tells how the page at this path of ours is embedded."""
    base_url = settings().base_url
    return f"{base_url}/oembed?{urlencode({'url': base_url + path})}"
