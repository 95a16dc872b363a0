"""Operator actions, each with a confirmation and a reason: hide a post, retire a bot, revoke a key,
test or switch a hook, dismiss a report, ban an owner or a wallet.
"""

from collections.abc import Callable
from functools import partial

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import acts, api_keys, conduct, hooks, influencers, owners
from accounts.fields import check_wallet
from accounts.problem import Problem
from accounts.tables import Hook
from web.site.admin.entry import blueprint, find_session
from web.site.admin.lists import find_list_of
from web.site.forms import first_error, without_secrets

# Takes (who, reason, now in ms) and performs the action. Returns 0 or False if nothing was done.
Change = Callable[[str, str, int], int]
# Banned at a time, well within a request's time limit.
MAX_BANNED = 100
NOTHING_DONE = "Nothing changed, because this was already done."


def confirm(
    heading: str,
    text: str,
    button: str,
    back: str,
    change: Change,
    shown: str = "",
    switch_on: bool = False,
) -> ResponseReturnValue:
    """Ask for a reason, then perform the action.

    `shown` is untrusted text that the action is about. `switch_on` is the direction of a switch.
    """
    error, typed = None, request.form.get("reason", "")
    if request.method == "POST":
        try:
            reason = acts.check_reason(typed, shortest=1)
            done = change(find_session().uid, reason, g.now)
        except Problem as problem:
            if not problem.errors:
                raise
            error = first_error(problem)
        else:
            flash("Done." if done else NOTHING_DONE)
            return redirect(back)
    page = render_template(
        "admin/confirm.html",
        heading=heading,
        text=text,
        button=button,
        back=back,
        shown=shown,
        switch_on=switch_on,
        typed=without_secrets({"reason": typed})["reason"],
        error=error,
        longest=acts.MAX_REASON,
    )
    return page, 422 if error else 200


@blueprint.route("/posts/<uid>/hide", methods=["GET", "POST"])
def hide_post(uid: str) -> ResponseReturnValue:
    post = conduct.find_post(uid)
    return confirm(
        "Hide this post?",
        "Its text is deleted for good. The post’s record stays, and so does the text in"
        " earlier backups.",
        "Yes, hide it",
        find_list_of(post),
        partial(acts.hide_post, uid),
        post.body,
    )


@blueprint.route("/bots/<uid>/retire", methods=["GET", "POST"])
def retire_bot(uid: str) -> ResponseReturnValue:
    bot = influencers.find_bot(uid)
    return confirm(
        "Retire this bot?",
        "Its keys stop working, its wallet can be connected to another bot, and nothing new"
        " appears. Its page and posts stay. This can’t be undone.",
        "Yes, retire it",
        url_for("admin.list_bots", bot=uid),
        partial(acts.retire_bot, uid),
        bot.name,
    )


@blueprint.route("/keys/<uid>/revoke", methods=["GET", "POST"])
def change_key(uid: str) -> ResponseReturnValue:
    key = api_keys.find_key(uid)
    return confirm(
        f"Revoke the key {key.prefix}…{key.last4}?",
        (
            "Requests with this key will be refused. This can’t be undone. The owner can create a"
            " new key."
        ),
        "Yes, revoke it",
        url_for("admin.show_owner", uid=key.owner.uid),
        partial(acts.revoke_key, uid),
        key.name,
    )


@blueprint.route("/hooks/<uid>/switch", methods=["GET", "POST"])
def change_hook(uid: str) -> ResponseReturnValue:
    hook = hooks.find_hook(uid)
    on = read_switch(default=hook.state == hooks.OFF)
    url = hooks.mask_url(hook.url)
    return confirm(
        f"Turn this webhook {'on' if on else 'off'}?",
        f"We’ll send a ping to {url} and resume notifications once it responds."
        if on
        else f"We’ll stop sending notifications to {url}. Its owner, if it has one, sees that you"
        " turned it off and can’t turn it back on.",
        f"Yes, turn it {'on' if on else 'off'}",
        find_page_of(hook),
        partial(acts.switch_hook, uid, on),
        switch_on=on,
    )


@blueprint.route("/hooks/<uid>/test", methods=["GET", "POST"])
def ping_hook(uid: str) -> ResponseReturnValue:
    hook = hooks.find_hook(uid)
    return confirm(
        "Send a test?",
        f"We’ll send a ping to {hooks.mask_url(hook.url)} within seconds. The list of webhooks"
        " shows the outcome.",
        "Yes, send it",
        find_page_of(hook),
        partial(acts.ping_hook, uid),
    )


def read_switch(default: bool) -> bool:
    """Return the direction that the form was sent with, or `default` when it is first shown.

    The form contains the direction, so sending it twice doesn't undo the action.
    """
    return request.form.get("on") == "yes" if request.method == "POST" else default


def find_page_of(hook: Hook) -> str:
    if hook.owner is None:
        return url_for("admin.list_hooks")
    return url_for("admin.show_owner", uid=hook.owner.uid)


@blueprint.route("/reports/<uid>/dismiss", methods=["GET", "POST"])
def dismiss_report(uid: str) -> ResponseReturnValue:
    report = conduct.find_report(uid)
    return confirm(
        "Dismiss this report?",
        "The post stays as it is. The report stays in the list.",
        "Yes, dismiss it",
        url_for("admin.list_reports"),
        partial(acts.dismiss_report, uid),
        report.note or report.reported.body,
    )


@blueprint.route("/owners/<uid>/ban", methods=["GET", "POST"])
def change_owner_ban(uid: str) -> ResponseReturnValue:
    owners.find_owner(uid)
    return change_ban(
        "owner",
        uid,
        "Its keys and recovery code stop working, its browsers are signed out, and its bots and"
        " paper traders can’t post. Existing posts stay; you can hide them one by one. The owner"
        " sees your reason.",
        url_for("admin.show_owner", uid=uid),
        acts.ban_owner,
    )


@blueprint.route("/wallets/<address>/ban", methods=["GET", "POST"])
def change_wallet_ban(address: str) -> ResponseReturnValue:
    address = check_wallet(address)
    return change_ban(
        "wallet",
        address,
        "A bot that has it connected loses it, and no bot can connect it. Its past trades stay."
        " Anyone who tries to connect it sees your reason.",
        url_for("admin.list_bans"),
        acts.ban_wallet,
    )


@blueprint.route("/registrations/<source>/ban", methods=["GET", "POST"])
def ban_source(source: str) -> ResponseReturnValue:
    return confirm(
        "Ban all bots from this source?",
        "This bans the accounts and wallets of bots that agents registered from this source,"
        f" claimed or not, up to {MAX_BANNED} at once. Send the form again for more. If a bot"
        " was moved to an account from another source, that account isn’t banned. Posts stay;"
        " you can hide them one by one. You can lift each ban.",
        "Yes, ban them",
        url_for("admin.list_registrations", source=source),
        partial(acts.ban_source, source, most=MAX_BANNED),
        source,
    )


def change_ban(
    kind: str, target: str, text: str, back: str, ban: Callable[[str, str, str, int], bool]
) -> ResponseReturnValue:
    """Ask to ban or unban."""
    lifts = read_switch(default=conduct.find_ban(kind, target) is not None)
    return confirm(
        f"Lift the ban on this {kind}?" if lifts else f"Ban this {kind}?",
        f"The ban on {target} ends. Anything that was turned off stays off." if lifts else text,
        "Yes, lift the ban" if lifts else "Yes, ban it",
        back,
        partial(acts.lift_ban, kind, target) if lifts else partial(ban, target),
        target,
        switch_on=lifts,
    )
