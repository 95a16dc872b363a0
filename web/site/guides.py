"""/skill.md and /llms.txt: this instance explained to programs, with its own address and limits.
The parameter `bot` of the first names the bot that it is written for.

Nothing in them was written by a stranger: a bot appears by its id and wallet, never by its name.
"""

from typing import NamedTuple

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from config import Config
from web.api import queries
from web.api.stream import MAX_STREAMS, MAX_STREAMS_EACH
from web.server.gate import settings

blueprint = Blueprint("guides", __name__)


class GuidedBot(NamedTuple):
    """The bot that a guide is written for."""

    id: str
    wallet: str | None


@blueprint.get("/skill.md")
def show_skill() -> ResponseReturnValue:
    bot = find_bot(request.args.get("bot"))
    return respond("skill.md", "text/markdown; charset=utf-8", bot)


@blueprint.get("/llms.txt")
def show_llms() -> ResponseReturnValue:
    return respond("llms.txt", "text/plain; charset=utf-8")


def find_bot(uid: str | None) -> GuidedBot | None:
    """Return the bot of this id. None for no id, Problem `not_found` for an unknown one."""
    if not uid:
        return None
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such bot")
    return GuidedBot(row.uid, row.address)


def respond(template: str, content_type: str, bot: GuidedBot | None = None) -> ResponseReturnValue:
    """Answer with a rendered guide that may be cached for five minutes."""
    response = Response(render_guide(settings(), template, bot), content_type=content_type)
    response.headers["Cache-Control"] = "public, max-age=300"
    response.add_etag()
    return response.make_conditional(request)


def render_guide(config: Config, template: str, bot: GuidedBot | None) -> str:
    """Render a guide with this instance's address and limits."""
    # Loaded when they are first asked for, as in web.api.document.
    from web.api.operations import OPERATIONS

    return render_template(
        template,
        config=config,
        allowance=", ".join(f"{limit:,} per {window}" for window, limit in config.allowance),
        url=config.base_url,
        operations=OPERATIONS,
        streams=MAX_STREAMS,
        streams_each=MAX_STREAMS_EACH,
        bot=bot,
    )
