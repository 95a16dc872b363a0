"""Embeds for other sites: a post or a bot in a frame, and a badge.

Only these pages allow framing. They have no session, cookie or script.
"""

from typing import Any

from flask import Blueprint, current_app
from flask.typing import ResponseReturnValue

from web.api.serialize import Json
from web.server.gate import settings
from web.site import candor, words
from web.site.cards import list_earned
from web.site.lists import respond
from web.site.pieces import find_post, find_symbols
from web.site.profiles import find_profile

blueprint = Blueprint("embeds", __name__)
FRAMED_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *"
)
# In pixels at font size 11: the approximate width of a badge's characters, its height and padding.
LETTER, HEIGHT, PADDING = 6.6, 20, 7
GOOD, BAD, PLAIN = "#06724a", "#b3261e", "#5c6670"
BADGE_CACHING = "public, max-age=300"
# Other sites may load these responses.
EMBEDDED = {"Cross-Origin-Resource-Policy": "cross-origin"}


@blueprint.get("/embed/<uid>")
def show_embedded(uid: str) -> ResponseReturnValue:
    post = find_post(uid)
    symbols = find_symbols([post])
    return _frame("embed.html", post=post, trust=words.trust_of(post), symbols=symbols)


@blueprint.get("/embed/bots/<uid>")
def show_embedded_bot(uid: str) -> ResponseReturnValue:
    return _frame("embed_bot.html", bot=find_profile(uid), strip=candor.find_strip(uid))


def _frame(name: str, **values: Any) -> ResponseReturnValue:
    # flask.render_template would run the context processors, which read the session.
    template = current_app.jinja_env.get_template(name)
    page = template.render(config=settings(), **values)
    headers = {"Content-Security-Policy": FRAMED_POLICY, **EMBEDDED}
    return respond(page, "text/html; charset=utf-8", "no-cache", headers)


# ---- the badge -----------------------------------------------------------------------------------
@blueprint.get("/bots/<uid>/badge.svg")
def show_badge(uid: str) -> ResponseReturnValue:
    svg = draw_badge(find_profile(uid), candor.find_strip(uid))
    return respond(svg, "image/svg+xml", BADGE_CACHING, EMBEDDED)


def draw_badge(bot: Json, strip: candor.Strip) -> str:
    results, made_up = bot["results"], "made up: " if settings().demonstration else ""
    earned = "no results"
    if results:
        earned = ", ".join(list_earned(results)) or "no trades yet"
    text = f"{made_up}{earned} · {strip.matching} of {strip.total} claims match"
    template = current_app.jinja_env.get_template("badge.svg")
    return template.render(
        alt=f"{words.plain(bot['name'])} on Candor: {earned}; {strip.sentence}",
        text=text,
        color=BAD if strip.contradicting else GOOD if strip.matching else PLAIN,
        height=HEIGHT,
        padding=PADDING,
        first=round(len("Candor") * LETTER),
        second=round(len(text) * LETTER),
    )
