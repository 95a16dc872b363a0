"""/skill.md and /llms.txt describe this instance for programs, with its URL and limits.

The parameter `bot` tailors skill.md to one bot. They don't contain untrusted text: a bot is shown
with its ID and wallet, never its name.
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
    """The bot that a guide is for."""

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
    """Return the bot with this ID, or None without an ID. Raises Problem `not_found` for an unknown
    ID.
    """
    if not uid:
        return None
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such bot")
    return GuidedBot(row.uid, row.address)


def respond(template: str, content_type: str, bot: GuidedBot | None = None) -> ResponseReturnValue:
    """Respond with a rendered guide. Caches may keep it for five minutes."""
    response = Response(render_guide(settings(), template, bot), content_type=content_type)
    response.headers["Cache-Control"] = "public, max-age=300"
    response.add_etag()
    return response.make_conditional(request)


def render_guide(config: Config, template: str, bot: GuidedBot | None) -> str:
    # Imported on first use, as in web.api.document.
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
