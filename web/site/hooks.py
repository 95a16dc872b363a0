"""The part Notifications of the tab Manage bot: who else is told what a bot does."""

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import hooks
from accounts.problem import Problem
from accounts.tables import Hook
from models import Bot
from web.server.gate import settings
from web.site.creator import blueprint, managing, render_confirm, require_owner
from web.site.forms import list_errors
from web.site.manage import render_manage, return_to_manage
from web.site.profiles import is_own

TESTED = "A test is on its way; reload this page to see what came of it."


@blueprint.post("/bots/<uid>/hooks")
@managing
def create_hook(bot: Bot) -> ResponseReturnValue:
    """Create a hook of one bot; a webhook's secret is shown, once."""
    kind = request.form.get("kind", "webhook")
    url = request.form.get("url", "").strip()
    events = request.form.getlist("event")
    try:
        made = hooks.add_hook(settings(), bot.owner, url, g.now, kind, events, [bot.uid])
    except Problem as problem:
        errors = {
            f"hook.{field}" if field else "hook": message
            for field, message in list_errors(problem).items()
        }
        return render_manage(bot, None, errors, problem.status)
    if made.secret is None:
        return return_to_manage(bot, f"Added. {TESTED}")
    return render_template(
        "secret.html",
        key=made.secret,
        scope="hook",
        heading="Your new webhook",
        back=url_for("studio.show_manage", uid=bot.uid),
        text="Your program checks the signature of each message with this secret. A signed ping is"
        " on its way; the webhook is told nothing else before it answers.",
    )


@blueprint.post("/hooks/<uid>/test")
def ping_hook(uid: str) -> ResponseReturnValue:
    """Ask for a ping of a hook."""
    hook = find_own_hook(uid)
    hooks.ask_for_ping(hook.uid, g.now)
    flash(TESTED)
    return redirect(find_page_of(hook))


@blueprint.route("/hooks/<uid>/remove", methods=["GET", "POST"])
def remove_hook(uid: str) -> ResponseReturnValue:
    """Remove a hook, once confirmed."""
    hook = find_own_hook(uid)
    back = find_page_of(hook)
    if request.method != "POST":
        return render_confirm(
            "Remove this notification?",
            f"{hooks.mask_url(hook.url)} is told nothing more; its address is forgotten.",
            "Yes, remove it",
            back,
        )
    hooks.remove_hook(uid)
    flash("Removed.")
    return redirect(back)


def find_own_hook(uid: str) -> Hook:
    """Return the hook of this id. Problem `not_found` for a hook of another owner."""
    hook = hooks.find_hook(uid)
    if hook.owner_id != require_owner().id:
        raise Problem("not_found", "there is no such notification in your account")
    return hook


def find_page_of(hook: Hook) -> str:
    """Return the address of a page that lists a hook."""
    bots = hooks.read_list(hook.bots)
    if not bots:
        return url_for("studio.show_connect")
    if is_own(bots[0]):
        return url_for("studio.show_manage", uid=bots[0])
    return url_for("studio.show_following")
