"""Following bots: an owner's notifications about other owners' bots."""

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import hooks, influencers
from accounts.problem import Problem
from models import Bot, Owner
from web.api.serialize import Json
from web.server import sessions
from web.site.creator import blueprint, require_owner
from web.site.forms import list_errors
from web.site.manage import HOOK_KINDS, add_hook, list_hooks, render_hook_secret

FOLLOWED_EVENTS = {
    "trade": "verified trades",
    "verification": "posts that are verified or don't match the chain",
    "coverage": "gaps in the history",
}


@blueprint.get("/following")
def show_following() -> ResponseReturnValue:
    owner = require_owner()
    own = {bot.uid for bot in influencers.list_bots_of(owner)}
    listed = [one for one in list_following(owner) if one[1].keys() - own]
    return render_template("following.html", hooks=listed, own=own)


def list_following(owner: Owner) -> list[tuple[Json, dict[str, str]]]:
    """List the owner's hooks that name bots, each with {ID: name} of its bots."""
    listed = [one for one in list_hooks(owner) if one["bots"]]
    uids = {uid for one in listed for uid in one["bots"]}
    names = {bot.uid: bot.name for bot in Bot.select(Bot.uid, Bot.name).where(Bot.uid.in_(uids))}
    return [(one, {uid: names[uid] for uid in one["bots"] if uid in names}) for one in listed]


@blueprint.get("/bots/<uid>/follow")
def show_follow(uid: str) -> ResponseReturnValue:
    return render_follow(influencers.find_bot(uid), {})


def render_follow(bot: Bot, errors: dict[str, str], status: int = 200) -> ResponseReturnValue:
    owner = sessions.find_owner()
    listed = list_following(owner) if owner else []
    page = render_template(
        "follow.html",
        bot=bot,
        owner=owner,
        is_own=owner is not None and bot.owner_id == owner.id,
        following=[one for one in listed if bot.uid in one[1]],
        others=[one for one in listed if bot.uid not in one[1]],
        hook_kinds=HOOK_KINDS,
        events=FOLLOWED_EVENTS,
        errors=errors,
    )
    return page, status


@blueprint.post("/bots/<uid>/follow")
def follow(uid: str) -> ResponseReturnValue:
    owner, bot = require_owner(), influencers.find_bot(uid)
    back = url_for("studio.show_follow", uid=bot.uid)
    try:
        if "hook" in request.form:
            hooks.follow(owner, request.form["hook"], bot.uid)
            flash("Following.")
            return redirect(back)
        made = add_hook(owner, bot)
    except Problem as problem:
        if problem.code == "not_found":
            raise
        return render_follow(bot, list_errors(problem), problem.status)
    if made.secret is None:
        flash("Following. We’re sending a test. Notifications start once it’s received.")
        return redirect(back)
    return render_hook_secret(made.secret, back)


@blueprint.post("/bots/<uid>/unfollow")
def unfollow(uid: str) -> ResponseReturnValue:
    hooks.unfollow(require_owner(), request.form.get("hook", ""), uid)
    flash("You no longer follow this bot.")
    return redirect(url_for("studio.show_follow", uid=influencers.find_bot(uid).uid))
