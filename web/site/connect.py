"""The Connect page: new bots, and an owner's read keys, recovery code and sign-out.

Secrets that are shown once (keys, recovery codes) appear only in the response to a form.
"""

import re
import secrets
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from flask import flash, g, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue

from accounts import api_keys, departures, influencers, owners, registration
from accounts.fields import check_wallet, is_provable
from accounts.problem import Problem
from config import VERSION
from models import Bot, Owner
from storage import writing
from web.api import health
from web.api.bots import find_row, show_bots
from web.api.posts import PostFilter, read_posts
from web.api.serialize import Json
from web.server import gate, sessions
from web.server.gate import settings
from web.site import profiles
from web.site.creator import blueprint, render_confirm, require_owner
from web.site.forms import (
    LISTS,
    TONES,
    Texts,
    check_profile,
    first_error,
    list_errors,
    read_texts,
    read_voice,
    without_secrets,
    write_samples,
)
from web.site.keys import list_keys, render_key

# This text must be typed.
CONFIRMATION = "delete my account"
# Archives up to this many bytes are kept in memory.
MAX_IN_MEMORY = 4_000_000
MAX_CODE = 200
# A bot that hasn't posted for this long is silent.
SILENT_MS = 7 * 86_400_000
WRONG_PRESENT_CODE = (
    "That isn’t your current recovery code, so nothing was changed. If you lost it, only the"
    " operator of this instance can replace it"
)
CREATED_ALREADY = (
    "You already created this bot with this form. Its key was shown then; if you lost it, rotate"
    " it."
)
UNKNOWN_CODE = (
    "This code is unknown or already used. Each code works once; only the newest is valid."
    " Spaces, hyphens and case don’t matter."
)


@blueprint.get("/connect")
def show_connect() -> ResponseReturnValue:
    return render_connect()


def render_connect(
    typed: Texts | None = None,
    errors: Texts | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> ResponseReturnValue:
    """`typed`: the form for a new bot. `errors`: by field, for any form on the page."""
    owner = sessions.find_owner()
    page = render_template(
        "connect.html",
        typed=without_secrets(typed or {}, errors),
        errors=errors or {},
        draft=secrets.token_hex(12),
        bots=list_own_bots(influencers.list_bots_of(owner)) if owner else [],
        keys=[key for key in list_keys(owner) if key.scope == "read"] if owner else [],
        tones=TONES,
        owner=owner,
        samples=write_samples(read_voice()),
        closed=settings().registration == "closed",
    )
    return page, status, headers or {}


def list_own_bots(owned: Sequence[Bot]) -> list[Json]:
    is_down = bool(owned) and health.check_instance()["walletObserver"]["state"] == "failing"
    return [
        {**one, "state": STATES[find_state(one, is_down)], "isToProve": is_to_prove(one["wallet"])}
        for one in show_bots([find_row(bot.uid) for bot in owned])
    ]


def is_to_prove(wallet: Json | None) -> bool:
    return bool(wallet and wallet["ownership"] == "claimed" and is_provable(wallet["address"]))


class BotState(NamedTuple):
    """A bot's status as text, with the shape of its icon."""

    shape: str
    text: str


STATES = {
    "healthy": BotState("verified", "healthy"),
    "loading": BotState("pending", "loading history"),
    "gap": BotState("mismatch", "part of its history is missing"),
    "node_trouble": BotState("mismatch", "no Solana node responds"),
    "silent": BotState("none", "silent: no posts for a week"),
    "no_wallet": BotState("none", "no wallet"),
    "retired": BotState("none", "retired"),
}


def find_state(bot: Json, is_down: bool) -> str:
    """Return a bot's status, one of STATES. `is_down`: the observer can't reach a node."""
    coverage = bot["coverage"]
    if bot["retiredAt"]:
        return "retired"
    if not bot["wallet"]:
        return "no_wallet"
    if is_down:
        return "node_trouble"
    if coverage["state"] == "backfilling" or not coverage["checkedAt"]:
        return "loading"
    if coverage["gaps"]:
        return "gap"
    latest = read_posts(1, wanted=PostFilter(bot["id"]))
    is_silent = not latest or latest[0].created_at < g.now - SILENT_MS
    return "silent" if is_silent else "healthy"


# ---- a new bot -----------------------------------------------------------------------------------
@blueprint.post("/connect")
def create_bot() -> ResponseReturnValue:
    """Create a bot. Its ID is the form's draft number, so reloading doesn't create another."""
    texts = read_texts("name", "bio", "wallet", "tone", "emoji", *LISTS)
    wallet, owner, uid = texts["wallet"].strip(), sessions.find_owner(), read_draft()
    try:
        check_profile(texts, None, lambda: wallet and check_wallet(wallet))
        if owner and uid and profiles.is_own(uid):
            flash(CREATED_ALREADY)
            return redirect(url_for("studio.show_manage", uid=uid))
        made = _create(texts, wallet or None, owner, uid)
    except Problem as problem:
        return render_connect(texts, list_errors(problem), problem.status, problem.headers)
    return render_template(
        "created.html",
        bot=made.bot,
        wallet=wallet,
        key=made.publish_key.text,
        recovery_code=made.recovery_code,
        base_url=settings().base_url,
        is_observing=settings().observer_interval_seconds > 0,
    )


def _create(
    texts: Texts, wallet: str | None, owner: Owner | None, uid: str | None
) -> influencers.NewBot:
    """Create the bot and sign in a new owner, in one commit."""
    gate.check_creation(owner.id if owner else None)
    with writing():
        made = influencers.create_bot(
            settings(), texts["name"], g.now, wallet, owner, read_voice(), texts["bio"], uid
        )
        if made.recovery_code:
            sessions.begin_session(made.owner, g.now)
    return made


def read_draft() -> str | None:
    draft = request.form.get("draft", "")
    return f"bot_{draft}" if re.fullmatch(r"[0-9a-f]{24}", draft) else None


@blueprint.get("/connect/preview")
def show_voice() -> ResponseReturnValue:
    """Return two sample sentences for the voice in the form. A script calls this."""
    samples = write_samples(read_voice(request.args))
    return render_template("samples.html", samples=samples) if samples else ("", 204)


# ---- the owner -----------------------------------------------------------------------------------
@blueprint.post("/connect/keys")
def create_read_key() -> ResponseReturnValue:
    owner, label = require_owner(), request.form.get("label", "")
    try:
        return render_key(api_keys.create_key(owner, "read", g.now, label))
    except Problem as problem:
        return render_connect(errors={"label": first_error(problem)}, status=problem.status)


@blueprint.post("/recover")
def recover() -> ResponseReturnValue:
    """Sign in with a recovery code, which is replaced. Other browsers are signed out."""
    # Use one commit, so that a code is never used up without signing anyone in.
    with writing():
        found = owners.recover_owner(request.form.get("code", "")[:MAX_CODE])
        if found:
            sessions.end_sessions_of(found.owner)
            sessions.begin_session(found.owner, g.now)
    if found is None:
        gate.note_failure()
        return render_connect(errors={"code": UNKNOWN_CODE}, status=422)
    return render_recovery_code(
        found.recovery_code,
        "Welcome back",
        "You can manage your bots in this browser again. All other browsers were signed out. This"
        " code replaces the one you just used.",
    )


@blueprint.post("/recovery-code")
def renew_recovery_code() -> ResponseReturnValue:
    """Replace the owner's recovery code, given the current one. The new code is shown once."""
    present = request.form.get("present", "")[:MAX_CODE]
    code = owners.renew_recovery_code(require_owner(), present)
    if code is None:
        gate.note_failure()
        return render_connect(errors={"present": WRONG_PRESENT_CODE}, status=422)
    return render_recovery_code(code, "Your new recovery code", "The old code no longer works.")


def render_recovery_code(code: str, heading: str, text: str) -> ResponseReturnValue:
    back = url_for("studio.show_connect")
    return render_template("secret.html", recovery_code=code, heading=heading, back=back, text=text)


@blueprint.post("/logout")
def log_out() -> ResponseReturnValue:
    sessions.end_session()
    flash("You’re signed out. Use your recovery code to sign in again.")
    return redirect(url_for("studio.show_connect"))


# ---- deletion ------------------------------------------------------------------------------------
@blueprint.post("/account/export")
def export_account() -> ResponseReturnValue:
    owner = require_owner()
    gate.count_in("exports", gate.EXPORTS_PER_MINUTE, "archives")
    # Send the file only when it is complete, so that a truncated file can't pass for an archive.
    file = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115
    departures.write_archive(owner, settings().base_url, VERSION, g.now, file)
    file.seek(0)
    name = f"candor-{owner.uid}.zip"
    return send_file(file, "application/zip", as_attachment=True, download_name=name, max_age=0)


@blueprint.route("/account/delete", methods=["GET", "POST"])
def delete_account() -> ResponseReturnValue:
    owner = require_owner()
    typed = " ".join(request.form.get("confirmation", "")[:100].split()).lower()
    if request.method == "POST" and typed == CONFIRMATION:
        departures.delete_owner(owner, g.now)
        sessions.end_session()
        flash("Your account is deleted.")
        return redirect(url_for("studio.show_connect"))
    errors = {"confirmation": f"Type: {CONFIRMATION}"} if request.method == "POST" else {}
    bots = influencers.list_bots_of(owner)
    page = render_template(
        "delete_account.html", bots=bots, errors=errors, confirmation=CONFIRMATION
    )
    return page, 422 if errors else 200


# ---- claiming a bot that an agent registered -----------------------------------------------------
UNKNOWN_LINK = (
    "This link is unknown, already used, or expired. The agent gets a new one by"
    " registering again with the same wallet."
)
WARNING = (
    " Claim only a bot that you run: the agent that registered it keeps its publishing key until"
    " you rotate it."
)


@blueprint.get("/claim")
def show_claim() -> ResponseReturnValue:
    return render_template("claim.html", error=None)


@blueprint.post("/claim")
def claim_bot() -> ResponseReturnValue:
    code, owner = request.form.get("code", "").strip()[:MAX_CODE], sessions.find_owner()
    found = registration.find_claim(code, g.now)
    if found is None:
        gate.note_failure()
        return render_template("claim.html", error=UNKNOWN_LINK), 422
    if request.form.get("sure") != "yes":
        return render_confirm(
            f"Become the owner of {found.bot.name}?",
            _tell_account(signed_in=owner is not None) + WARNING,
            "Yes, this bot is mine",
            url_for("studio.show_connect"),
            hidden={"code": code, "sure": "yes"},
        )
    # Use one commit, so that a link is used up only together with an owner who can sign in.
    with writing():
        claimed = registration.claim(settings(), code, owner, g.now)
        if claimed and claimed.recovery_code:
            sessions.begin_session(claimed.owner, g.now)
    if claimed is None:
        return render_template("claim.html", error=UNKNOWN_LINK), 422
    if claimed.recovery_code:
        return render_recovery_code(
            claimed.recovery_code,
            f"{claimed.bot.name} is yours",
            "You can manage it in this browser. Keep this recovery code to sign in elsewhere.",
        )
    flash(f"{claimed.bot.name} is yours.")
    return redirect(url_for("studio.show_manage", uid=claimed.bot.uid))


def _tell_account(signed_in: bool) -> str:
    if signed_in:
        return "The bot moves to your account, and its wallet counts toward your limits."
    return (
        "You get a new account with this bot. To add it to an existing account, sign in on"
        " the Connect page first, then open the link again."
    )
