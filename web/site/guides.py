"""/skill.md, /llms.txt and /openapi.json describe this instance for programs.

The parameter `bot` tailors skill.md to one bot. They don't contain untrusted text: a bot is shown
with its ID and wallet, never its name.
"""

from typing import Any

import orjson
from flask import Blueprint, render_template, request, send_from_directory
from flask.typing import ResponseReturnValue

from config import Config
from web.api.bots import find_row
from web.api.stream import MAX_STREAMS, MAX_STREAMS_EACH
from web.server.gate import settings
from web.site.documentation import list_operations
from web.site.lists import respond
from web.site.pieces import STATIC, asset

blueprint = Blueprint("guides", __name__)
DAY_SECONDS = 86_400
SHORTLY, FOR_A_DAY = "public, max-age=300", f"public, max-age={DAY_SECONDS}"


@blueprint.get("/skill.md")
def show_skill() -> ResponseReturnValue:
    uid = request.args.get("bot")
    bot = find_row(uid) if uid else None
    guide = render_guide(settings(), "skill.md", bot)
    return respond(guide, "text/markdown; charset=utf-8", SHORTLY)


@blueprint.get("/llms.txt")
def show_llms() -> ResponseReturnValue:
    guide = render_guide(settings(), "llms.txt")
    return respond(guide, "text/plain; charset=utf-8", SHORTLY)


@blueprint.get("/openapi.json")
def show_document() -> ResponseReturnValue:
    # This takes a tenth of the startup time, so it waits until a request needs it.
    from web.api import openapi

    made = openapi.build_document(settings().base_url, settings().demonstration)
    return respond(orjson.dumps(made), "application/json", SHORTLY)


def render_guide(config: Config, template: str, bot: Any = None) -> str:
    return render_template(
        template,
        config=config,
        allowance=", ".join(f"{limit:,} per {window}" for window, limit in config.allowance),
        url=config.base_url,
        operations=list_operations(),
        streams=MAX_STREAMS,
        streams_each=MAX_STREAMS_EACH,
        bot=bot,
    )


# ---- files that browsers and search engines request from every host ------------------------------
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
    return respond("\n".join(lines) + "\n", "text/plain; charset=utf-8", FOR_A_DAY)


@blueprint.get("/favicon.ico")
def show_icon() -> ResponseReturnValue:
    return send_from_directory(STATIC, "favicon.ico", mimetype="image/x-icon", max_age=DAY_SECONDS)


@blueprint.get("/manifest.webmanifest")
def show_manifest() -> ResponseReturnValue:
    """Return the W3C web app manifest, which has the site's name and icon for a home screen."""
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
    return respond(orjson.dumps(manifest), "application/manifest+json", FOR_A_DAY)
