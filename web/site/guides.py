"""/skill.md and /llms.txt: this instance explained to programs, with its own address, limits and,
where `bot` names one, influencer.

Nothing in them was written by a stranger: an influencer appears by its id and wallet only, never by
its name.
"""

import functools

from flask import Blueprint, Response, current_app, render_template, request

from accounts.problem import Problem
from web.api import openapi, queries
from web.api.stream import PLACES

blueprint = Blueprint("guides", __name__)


@blueprint.get("/skill.md")
def show_skill():
    return respond(
        "skill.md", "text/markdown; charset=utf-8", bot=find_bot(request.args.get("bot"))
    )


@blueprint.get("/llms.txt")
def show_llms():
    return respond("llms.txt", "text/plain; charset=utf-8")


def find_bot(uid):
    """{id, wallet} of the influencer the guide is written for, or None."""
    row = queries.find_bot(uid) if uid else None
    if uid and row is None:
        raise Problem("not_found", "there is no such influencer")
    return row and {"id": row.uid, "wallet": row.address}


def respond(template, content_type, bot=None):
    named = tuple(bot.items()) if bot else ()
    text = draw(current_app.config["CANDOR"], template, named)
    response = Response(
        text, content_type=content_type, headers={"Cache-Control": "public, max-age=300"}
    )
    response.add_etag()
    return response.make_conditional(request)


@functools.lru_cache(64)
def draw(config, template, named):
    """The guide's text, drawn once for each influencer and wallet it names."""
    allowance = ", ".join(f"{most:,} per {window}" for window, most in config.allowance)
    return render_template(
        template,
        config=config,
        allowance=allowance,
        url=config.base_url,
        operations=openapi.OPERATIONS,
        streams=PLACES,
        bot=dict(named) or None,
    )
