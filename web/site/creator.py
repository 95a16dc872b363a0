"""What all pages of an owner share: who may open them, and that no cache keeps them. Their forms
are checked by web.server.sessions.
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
    """Keep an owner's pages out of every cache, the browser's own included."""
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.app_errorhandler(CSRFError)
def show_stale_form(error: CSRFError) -> ResponseReturnValue:
    """Offer what was typed again, with a token that matches this browser's cookie."""
    fields = without_secrets(read_known_fields(request.form))
    return render_template("stale.html", fields=fields, action=request.path), 400


def require_owner() -> Owner:
    """Return the owner whom this browser is signed in as. Problem `not_creator` without one."""
    owner: Owner | None = sessions.find_owner()
    if owner is None:
        raise Problem(
            "not_creator",
            "this browser isn’t signed in; enter your recovery code on the Connect page",
        )
    return owner


def managing(view: Callable[[Bot], ResponseReturnValue]) -> Callable[[str], ResponseReturnValue]:
    """Decorate a view of a bot that only its owner's browser may open; it gets the Bot."""

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
    """Render a page that asks before something is destroyed.

    `back`: the address of the way out; `overlap`: whether to ask how long an old key works on;
    `hidden`: fields that are sent along.
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
