"""API keys on the pages of creators: listed, shown once, revoked, rotated."""

from flask import current_app, flash, g, redirect, render_template, request, url_for

from accounts import api_keys
from accounts.problem import Problem
from web.site.creator import blueprint, render_confirm, require_owner
from web.site.forms import as_sentence, settings

# hours a rotated key works on -> ms
OVERLAPS = {"0": 0, "1": 3_600_000, "24": 86_400_000}


def list_keys(owner):
    """All keys of an owner; when each was last used is told by the counters."""
    return api_keys.list_keys(owner, current_app.allowance.find_uses())


def find_own_key(uid):
    key = api_keys.find_key(uid)
    if key.owner_id != require_owner().id:
        raise Problem("not_found", "there is no such key in your account")
    return key


def render_key(made, back, **values):
    scope = "publishing key" if made.key.scope == "publish" else "read key"
    return render_template(
        "secret.html",
        key=made.text,
        scope=made.key.scope,
        heading=f"Your new {scope}",
        back=url_for(f"studio.{back}", **values),
        base_url=settings().base_url,
        said="Keep it where your bot keeps its secrets. Only its fingerprint is stored here.",
    )


@blueprint.route("/keys/<uid>/revoke", methods=["GET", "POST"])
def revoke_key(uid):
    key = find_own_key(uid)
    back = place_of(key)
    if request.method != "POST":
        return render_confirm(
            "Revoke this key?",
            f"{describe(key)} stops working at once, everywhere, and for good.",
            "Yes, revoke it",
            back,
        )
    api_keys.revoke_key(uid, g.now)
    flash("The key is revoked.")
    return redirect(back)


@blueprint.route("/keys/<uid>/rotate", methods=["GET", "POST"])
def rotate_key(uid):
    key = find_own_key(uid)
    back = place_of(key)
    if request.method != "POST":
        return render_confirm(
            "Rotate this key?",
            f"A new key takes the place of {describe(key)}.",
            "Yes, rotate it",
            back,
            overlap=True,
        )
    try:
        made = api_keys.rotate_key(key, g.now, OVERLAPS.get(request.form.get("overlap", ""), 0))
    except Problem as problem:
        flash(as_sentence(problem.detail))
        return redirect(back)
    return (
        render_key(made, "show_manage", uid=key.bot.uid)
        if key.bot
        else render_key(made, "show_connect")
    )


def place_of(key):
    return (
        url_for("studio.show_manage", uid=key.bot.uid)
        if key.bot
        else url_for("studio.show_connect")
    )


def describe(key):
    return f"{f'“{key.name}” ' if key.name else ''}{key.prefix}…{key.last4}"
