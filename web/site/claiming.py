"""The page /claim, where a person claims a bot that an agent registered.

The link's code comes after the #, so servers don't log it. A script puts it into the form.
"""

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import registration
from storage import writing
from web.server import gate, sessions
from web.server.gate import settings
from web.site.connect import MAX_CODE, render_recovery_code
from web.site.creator import blueprint, render_confirm

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
    """Show the link's bot. Once confirmed, make this browser's owner the bot's owner."""
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
