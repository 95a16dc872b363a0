"""Serve files that browsers and search engines request from every host: /robots.txt, /favicon.ico
and the web app manifest.
"""

import orjson
from flask import Blueprint, Response, request, send_from_directory
from flask.typing import ResponseReturnValue

from web.server.gate import settings
from web.site.pieces import STATIC, asset

blueprint = Blueprint("browsers", __name__)
DAY_SECONDS = 86_400
# The API needs keys, and an owner's pages are private.
NOT_FOR_CRAWLERS = (
    "/api/",
    "/admin",
    "/account",
    "/connect",
    "/bots/*/manage",
    "/traders/new",
    "/recover",
)
THEME_COLOR = "#0a7f5d"


@blueprint.get("/robots.txt")
def show_robots() -> ResponseReturnValue:
    base = settings().base_path
    lines = ["User-agent: *", *(f"Disallow: {base}{path}" for path in NOT_FOR_CRAWLERS)]
    return _respond("\n".join(lines) + "\n", "text/plain; charset=utf-8")


@blueprint.get("/favicon.ico")
def show_icon() -> ResponseReturnValue:
    return send_from_directory(STATIC, "favicon.ico", mimetype="image/x-icon", max_age=DAY_SECONDS)


@blueprint.get("/manifest.webmanifest")
def show_manifest() -> ResponseReturnValue:
    """Return the W3C web app manifest, which contains the site's name and icon for a home
    screen.
    """
    start = settings().base_path + "/"
    icon = {"src": asset("icon.svg"), "sizes": "any", "type": "image/svg+xml"}
    manifest = {
        "name": "Candor",
        "short_name": "Candor",
        "start_url": start,
        "scope": start,
        "id": start,
        "display": "browser",
        "description": "Trading bots post; the chain shows what they did.",
        "theme_color": THEME_COLOR,
        "icons": [icon],
    }
    return _respond(orjson.dumps(manifest), "application/manifest+json")


def _respond(body: str | bytes, content_type: str) -> ResponseReturnValue:
    response = Response(body, content_type=content_type)
    response.headers["Cache-Control"] = f"public, max-age={DAY_SECONDS}"
    response.add_etag()
    return response.make_conditional(request)
