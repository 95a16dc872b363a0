"""Following bots: an owner's notifications about other owners' bots."""

from typing import NamedTuple

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import hooks, influencers
from accounts.problem import Problem
from accounts.tables import Hook
from models import Bot, Owner
from web.server import sessions
from web.server.gate import settings
from web.site.creator import blueprint, require_owner
from web.site.forms import list_errors
from web.site.manage import HOOK_KINDS

FOLLOWED_EVENTS = {
    "trade": "verified trades",
    "verification": "posts that are verified or don't match the chain",
    "coverage": "gaps in the history",
}
TESTED = "We’re sending a test. Notifications start once it’s answered."


class Following(NamedTuple):
    """A hook as its owner sees it, with the bots it covers: (uid, name)."""

    uid: str
    kind: str
    url: str
    state: str
    last_error: str | None
    bots: list[tuple[str, str]]


@blueprint.get("/following")
def show_following() -> ResponseReturnValue:
    """List an owner's notifications about other owners' bots."""
    owner = require_owner()
    own = {bot.uid for bot in influencers.list_bots_of(owner)}
    listed = [one for one in list_hooks(owner) if any(uid not in own for uid, _ in one.bots)]
    return render_template("following.html", hooks=listed, own=own)


def list_hooks(owner: Owner) -> list[Following]:
    """List the owner's hooks that name bots."""
    rows = [(hook, hooks.read_list(hook.bots) or []) for hook in hooks.list_hooks(owner)]
    uids = {uid for _, named in rows for uid in named}
    names = {bot.uid: bot.name for bot in Bot.select(Bot.uid, Bot.name).where(Bot.uid.in_(uids))}
    return [
        _show(hook, [(uid, names[uid]) for uid in named if uid in names])
        for hook, named in rows
        if named
    ]


def _show(hook: Hook, bots: list[tuple[str, str]]) -> Following:
    return Following(
        hook.uid, hook.kind, hooks.mask_url(hook.url), hook.state, hook.last_error, bots
    )


@blueprint.get("/bots/<uid>/follow")
def show_follow(uid: str) -> ResponseReturnValue:
    """Show the ways to follow a bot."""
    return render_follow(influencers.find_bot(uid), {})


def render_follow(bot: Bot, errors: dict[str, str], status: int = 200) -> ResponseReturnValue:
    owner = sessions.find_owner()
    listed = list_hooks(owner) if owner else []
    page = render_template(
        "follow.html",
        bot=bot,
        owner=owner,
        is_own=owner is not None and bot.owner_id == owner.id,
        following=[one for one in listed if bot.uid in dict(one.bots)],
        others=[one for one in listed if bot.uid not in dict(one.bots)],
        hook_kinds=HOOK_KINDS,
        events=FOLLOWED_EVENTS,
        errors=errors,
    )
    return page, status


@blueprint.post("/bots/<uid>/follow")
def follow(uid: str) -> ResponseReturnValue:
    """Follow a bot with one of the owner's hooks, or with a new one."""
    owner, bot = require_owner(), influencers.find_bot(uid)
    back = url_for("studio.show_follow", uid=bot.uid)
    form = request.form
    try:
        if "hook" in form:
            hooks.follow(owner, form["hook"], bot.uid)
            flash("Following.")
            return redirect(back)
        made = hooks.add_hook(
            settings(),
            owner,
            form.get("url", "").strip(),
            g.now,
            form.get("kind", "webhook"),
            form.getlist("event"),
            [bot.uid],
        )
    except Problem as problem:
        if problem.code == "not_found":
            raise
        return render_follow(bot, list_errors(problem), problem.status)
    if made.secret is None:
        flash(f"Following. {TESTED}")
        return redirect(back)
    return render_template(
        "secret.html",
        key=made.secret,
        scope="hook",
        heading="Your new webhook",
        back=back,
        text=f"Your program checks the signature of each message with this secret. {TESTED}",
    )


@blueprint.post("/bots/<uid>/unfollow")
def unfollow(uid: str) -> ResponseReturnValue:
    """Stop following a bot with one of the owner's hooks."""
    hooks.unfollow(require_owner(), request.form.get("hook", ""), uid)
    flash("You no longer follow this bot.")
    return redirect(url_for("studio.show_follow", uid=influencers.find_bot(uid).uid))
