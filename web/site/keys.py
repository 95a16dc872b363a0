"""API keys on an owner's pages: list, show once, revoke, and rotate."""

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import api_keys
from accounts.problem import Problem
from models import Key, Owner
from web.api.trades import Wanted, expand_kinds, find_trades, find_wallets
from web.server.application import find_app
from web.server.gate import settings
from web.site.creator import blueprint, render_confirm, require_owner
from web.site.forms import as_sentence

HOUR_MS = 3_600_000
KEY_NAMES = {"publish": "publishing key", "read": "read key", "inbox": "inbox key"}
# How long a rotated key keeps working.
OVERLAPS_MS = {"0": 0, "1": HOUR_MS, "24": 24 * HOUR_MS}


def list_keys(owner: Owner) -> list[Key]:
    return api_keys.list_keys(owner, find_app().allowance.find_uses())


def find_own_key(uid: str) -> Key:
    """Raises Problem `not_found` for another owner's key."""
    key = api_keys.find_key(uid)
    if key.owner_id != require_owner().id:
        raise Problem("not_found", "your account has no such key")
    return key


def render_key(made: api_keys.NewKey) -> ResponseReturnValue:
    scope = KEY_NAMES[made.key.scope]
    return render_template(
        "secret.html",
        key=made.text,
        scope=made.key.scope,
        heading=f"Your new {scope}",
        back=find_page_of(made.key),
        base_url=settings().base_url,
        last_signature=find_last_signature(made.key.bot.uid) if made.key.bot else "",
        text="Keep it with your bot’s other secrets. Only its fingerprint is stored here.",
    )


def find_last_signature(uid: str) -> str:
    wanted = Wanted(find_wallets(bot=uid), None, expand_kinds(["trade"]))
    rows = find_trades(wanted, 1, None).rows
    return rows[0].signature if rows else ""


@blueprint.route("/keys/<uid>/revoke", methods=["GET", "POST"])
def revoke_key(uid: str) -> ResponseReturnValue:
    key = find_own_key(uid)
    back = find_page_of(key)
    if request.method != "POST":
        return render_confirm(
            "Revoke this key?",
            f"{describe(key)} stops working immediately. This can’t be undone.",
            "Yes, revoke it",
            back,
        )
    api_keys.revoke_key(uid, g.now)
    flash("Key revoked.")
    return redirect(back)


@blueprint.route("/keys/<uid>/rotate", methods=["GET", "POST"])
def rotate_key(uid: str) -> ResponseReturnValue:
    """Replace an owner's key, once confirmed. The old key keeps working for the chosen time."""
    key = find_own_key(uid)
    back = find_page_of(key)
    if request.method != "POST":
        return render_confirm(
            "Rotate this key?",
            f"A new key replaces {describe(key)}.",
            "Yes, rotate it",
            back,
            overlap=True,
        )
    overlap_ms = OVERLAPS_MS.get(request.form.get("overlap", ""), 0)
    try:
        return render_key(api_keys.rotate_key(key, g.now, overlap_ms))
    except Problem as problem:
        flash(as_sentence(problem.detail), "error")
        return redirect(back)


def find_page_of(key: Key) -> str:
    if key.bot is None:
        return url_for("studio.show_connect")
    return url_for("studio.show_manage", uid=key.bot.uid)


def describe(key: Key) -> str:
    return f"{f'“{key.name}” ' if key.name else ''}{key.prefix}…{key.last4}"
