"""The page Connect: a new bot, and the account: read keys, recovery, log-out.

What is shown once (keys, recovery codes) is rendered into the answer to its form, with no-store,
and exists nowhere else.
"""

import re
import secrets

from flask import flash, g, redirect, render_template, request, url_for

from accounts import api_keys, influencers, owners
from accounts.fields import check_wallet
from accounts.problem import Problem
from web.server import gate, sessions
from web.site import pages
from web.site.creator import blueprint, require_owner
from web.site.forms import (
    LISTS,
    TONES,
    as_sentence,
    check_registration,
    find_errors,
    find_profile_errors,
    list_errors,
    read_texts,
    read_voice,
    settings,
    without_secrets,
    write_samples,
)
from web.site.keys import list_keys, render_key

WRONG_PRESENT_CODE = (
    "This is not your present recovery code, so it stays. If you lost it, only the "
    "operator of this instance can replace it"
)


@blueprint.get("/connect")
def show_connect():
    return render_connect(typed={})


def render_connect(
    typed,
    errors=None,
    status=200,
    headers=None,
    recovery_error=None,
    key_error=None,
    renewal_error=None,
):
    owner = sessions.find_owner()
    bots = influencers.list_bots_of(owner) if owner else []
    keys = [key for key in list_keys(owner) if key.scope == "read"] if owner else []
    return (
        render_template(
            "connect.html",
            typed=without_secrets(typed, errors),
            errors=errors or {},
            draft=secrets.token_hex(12),
            bots=bots,
            keys=keys,
            tones=TONES,
            owner=owner,
            samples=write_samples(read_voice()),
            closed=settings().registration == "closed",
            recovery_error=recovery_error,
            key_error=key_error,
            renewal_error=renewal_error,
        ),
        status,
        headers or {},
    )


@blueprint.post("/connect")
def create_bot():
    """The form's draft number becomes the influencer's: sent again by its creator's browser (a
    reload), the form makes no second one.
    """
    texts = read_texts("name", "bio", "wallet", "tone", "emoji", *LISTS)
    wallet, owner, uid = texts["wallet"].strip(), sessions.find_owner(), read_draft()
    errors = find_profile_errors(texts) | (
        find_errors(wallet=lambda: check_wallet(wallet)) if wallet else {}
    )
    if errors:
        return render_connect(texts, errors, 422)
    if owner and uid and pages.is_own(uid):
        flash(
            "This influencer was made when the form was first sent. Its key was shown then; if it"
            " is lost, rotate it."
        )
        return redirect(url_for("studio.show_manage", uid=uid))
    try:
        check_registration()
        gate.check_creation(owner and owner.id)
        made = influencers.create_bot(
            settings(), texts["name"], g.now, wallet or None, owner, read_voice(), texts["bio"], uid
        )
    except Problem as problem:
        errors = list_errors(problem)
        return render_connect(texts, errors, problem.status, problem.headers)
    if made.recovery_code:
        sessions.begin_session(made.owner, g.now)
    return render_template(
        "created.html",
        bot=made.bot,
        wallet=wallet,
        key=made.publish_key.text,
        recovery_code=made.recovery_code,
        base_url=settings().base_url,
    )


def read_draft():
    """The id the form gives its influencer; None where it gives none that could be."""
    draft = request.form.get("draft", "")
    return f"bot_{draft}" if re.fullmatch(r"[0-9a-f]{24}", draft) else None


@blueprint.get("/connect/preview")
def show_voice():
    """Two sentences this voice might say, for the script that shows them while one types."""
    samples = write_samples(read_voice(request.args))
    return render_template("samples.html", samples=samples) if samples else ("", 204)


@blueprint.post("/connect/keys")
def create_read_key():
    owner = require_owner()
    try:
        made = api_keys.create_key(owner, "read", g.now, request.form.get("label", ""))
    except Problem as problem:
        return render_connect(
            {},
            status=problem.status,
            key_error=as_sentence(
                problem.errors[0]["message"] if problem.errors else problem.detail
            ),
        )
    return render_key(made, "show_connect")


@blueprint.post("/recover")
def recover():
    """A code works once: it signs this browser in, signs every other one out, and is followed by a
    new code.
    """
    found = owners.recover_owner(request.form.get("code", "")[:200])
    if found is None:
        gate.note_failure()
        return render_connect(
            {},
            status=422,
            recovery_error=(
                "This code is unknown or was used before. A code works once, then the newest one"
                " counts. Spaces, hyphens and case do not matter."
            ),
        )
    owner, code = found
    sessions.end_sessions_of(owner)
    sessions.begin_session(owner, g.now)
    return render_template(
        "secret.html",
        recovery_code=code,
        heading="You are back",
        back=url_for("studio.show_connect"),
        said=(
            "This browser manages your influencers again, every other one was signed out. "
            "The code you used is spent. This one takes its place."
        ),
    )


@blueprint.post("/recovery-code")
def renew_recovery_code():
    code = owners.renew_recovery_code(require_owner(), request.form.get("present", "")[:200])
    if code is None:
        gate.note_failure()
        return render_connect({}, status=422, renewal_error=WRONG_PRESENT_CODE)
    return render_template(
        "secret.html",
        recovery_code=code,
        heading="A new recovery code",
        back=url_for("studio.show_connect"),
        said="The code before it has stopped working.",
    )


@blueprint.post("/logout")
def log_out():
    sessions.end_session()
    flash("This browser is logged out. Your recovery code lets you in again.")
    return redirect(url_for("studio.show_connect"))
