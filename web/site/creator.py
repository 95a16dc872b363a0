"""Code that all of an owner's pages share: who may open them, and that they aren't cached.

web.server.sessions checks their forms.
"""

from collections.abc import Callable, Mapping
from functools import wraps

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import CSRFError

from accounts import influencers
from accounts.problem import Problem
from models import Bot, Owner
from web.server import sessions
from web.site.forms import read_known_fields, without_secrets

blueprint = Blueprint("studio", __name__)
blueprint.before_request(sessions.check_sender)


@blueprint.after_request
def forbid_caching(response: Response) -> Response:
    """Keep an owner's pages out of all caches, including the browser's."""
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.app_errorhandler(CSRFError)
def show_stale_form(error: CSRFError) -> ResponseReturnValue:
    """Show the form again with the typed text and a token that matches this browser's cookie."""
    fields = without_secrets(read_known_fields(request.form))
    return render_template("stale.html", fields=fields, action=request.path), 400


def require_owner() -> Owner:
    """Return the owner who is signed in. Raises Problem `not_creator` if there isn't one."""
    owner: Owner | None = sessions.find_owner()
    if owner is None:
        raise Problem(
            "not_creator",
            "this browser isn’t signed in; enter your recovery code on the Connect page",
        )
    return owner


def managing(view: Callable[[Bot], ResponseReturnValue]) -> Callable[[str], ResponseReturnValue]:
    """Decorate a bot's view, which gets the Bot, so that only its owner's browser may open it."""

    @wraps(view)
    def check_and_view(uid: str) -> ResponseReturnValue:
        bot = influencers.find_bot(uid)
        if bot.owner_id != require_owner().id:
            raise Problem(
                "not_creator",
                "this bot belongs to another owner; if it is yours, enter your recovery code on the"
                " Connect page",
            )
        return view(bot)

    return check_and_view


def render_confirm(
    heading: str,
    text: str,
    button: str,
    back: str,
    overlap: bool = False,
    hidden: Mapping[str, str] | None = None,
) -> ResponseReturnValue:
    """Render a page that asks before a destructive action.

    `back`: Cancel's URL. `overlap`: ask how long an old key keeps working. `hidden`: more fields to
    send.
    """
    return render_template(
        "confirm.html",
        heading=heading,
        text=text,
        button=button,
        back=back,
        overlap=overlap,
        hidden=hidden or {},
    )
