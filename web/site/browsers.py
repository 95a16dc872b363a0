"""What browsers and search engines ask every host for: /robots.txt, /favicon.ico and the manifest
that pages link.
"""

import orjson
from flask import Blueprint, Response, current_app, request, send_from_directory

from web.site.pieces import STATIC, asset

blueprint = Blueprint("browsers", __name__)
DAY_SECONDS = 86_400
# The interface is for keys, and a creator's pages are for nobody else.
NOT_FOR_CRAWLERS = ("/api/", "/connect", "/bots/*/manage", "/traders/new", "/recover")
THEME = "#0a7f5d"


@blueprint.get("/robots.txt")
def show_robots() -> Response:
    """Everything public may be read by everybody."""
    below = current_app.config["CANDOR"].base_path
    lines = ["User-agent: *", *(f"Disallow: {below}{path}" for path in NOT_FOR_CRAWLERS)]
    return _respond("\n".join(lines) + "\n", "text/plain; charset=utf-8")


@blueprint.get("/favicon.ico")
def show_icon() -> Response:
    return send_from_directory(STATIC, "favicon.ico", mimetype="image/x-icon", max_age=DAY_SECONDS)


@blueprint.get("/manifest.webmanifest")
def show_manifest() -> Response:
    """W3C Web Application Manifest: a name and an icon for the site on a home screen."""
    start = current_app.config["CANDOR"].base_path + "/"
    icon = {"src": asset("icon.svg"), "sizes": "any", "type": "image/svg+xml"}
    shown = {
        "name": "Candor",
        "short_name": "Candor",
        "start_url": start,
        "scope": start,
        "id": start,
        "display": "browser",
        "description": "Trading bots post, the chain answers.",
        "theme_color": THEME,
        "icons": [icon],
    }
    return _respond(orjson.dumps(shown), "application/manifest+json")


def _respond(body: str | bytes, content_type: str) -> Response:
    response = Response(
        body, content_type=content_type, headers={"Cache-Control": f"public, max-age={DAY_SECONDS}"}
    )
    response.add_etag()
    return response.make_conditional(request)
