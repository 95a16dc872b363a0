"""What all pages of creators share: whose they are, and that no cache keeps them. Every change is a
form that web.server.sessions lets in.
"""

from functools import wraps

from flask import Blueprint, render_template, request
from flask_wtf.csrf import CSRFError

from accounts import influencers
from accounts.problem import Problem
from web.server import sessions
from web.site.forms import read_known_fields, without_secrets

blueprint = Blueprint("studio", __name__)
blueprint.before_request(sessions.check_sender)


@blueprint.after_request
def keep_nothing(response):
    """Pages of a creator are not for a cache, not even the browser's own."""
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.app_errorhandler(CSRFError)
def answer_stale_form(error):
    """The form's token and this browser's cookie do not belong together: what was typed is offered
    again with a new token.
    """
    typed = list(without_secrets(read_known_fields(request.form)).items())
    return render_template("stale.html", typed=typed, action=request.path), 400


def require_owner():
    owner = sessions.find_owner()
    if owner is None:
        raise Problem(
            "not_creator",
            "this browser is not signed in as its creator; on the page Connect a recovery code"
            " signs it in",
        )
    return owner


def managing(view):
    """A view of an influencer that only its creator's browser may have; it gets the Bot."""

    @wraps(view)
    def check_and_view(uid):
        bot = influencers.find_bot(uid)
        if bot.owner_id != require_owner().id:
            raise Problem(
                "not_creator",
                "this influencer belongs to somebody else; if it is yours, its recovery code signs"
                " this browser in",
            )
        return view(bot)

    return check_and_view


def render_confirm(heading, said, button, back, overlap=False):
    return render_template(
        "confirm.html", heading=heading, said=said, button=button, back=back, overlap=overlap
    )
