"""A bot's wallets: attach, detach, and prove with the owner's signature."""

import secrets

from flask import g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import wallets
from accounts.fields import check_wallet, is_provable
from accounts.problem import Problem, invalid
from models import Bot, Session
from storage import writing
from storage.rows import Stored, make_shape, read_stored
from web.server import sessions
from web.server.gate import settings
from web.site.creator import blueprint, managing, render_confirm
from web.site.forms import first_error, list_errors
from web.site.manage import render_manage, return_to_manage
from web.site.words import short

NOT_A_SIGNATURE = "That’s not a signature: it must be 64 bytes in base58, base64 or hex."
WRONG_SIGNATURE = (
    "That isn’t this wallet’s signature of the text above. Sign exactly that text with this wallet."
)
LEAVING = (
    "We’ll stop observing it. Its trades stay on the profile, but its results, rank and any proof"
    " of ownership are removed."
)
LEAVING_OTHERS = (
    "We’ll stop observing it, and its proof of ownership ends. Results will include only the other"
    " wallets. In the record since connected, its holdings count as cost moved out unsold."
)
LEAD_LEAVING = " The next wallet becomes the main one; the others don’t change."


class Challenge(Stored):
    """A text for a wallet's owner to sign, stored as JSON in the browser's session.

    `bot` is the bot's ID. `endsAt` is in ms. `action` is `add` (to the bot's wallets) or `replace`
    (the primary wallet).
    """

    text: str
    bot: str
    wallet: str
    endsAt: int
    action: str


CHALLENGE = make_shape(Challenge)


# ---- attach and detach ---------------------------------------------------------------------------
@blueprint.post("/bots/<uid>/wallet")
@managing
def attach_wallet(bot: Bot) -> ResponseReturnValue:
    try:
        wallets.attach_wallet(settings(), bot, request.form.get("wallet", ""), g.now)
    except Problem as problem:
        field = "wallet" if problem.errors else "wallet.form"
        return render_manage(bot, None, {field: first_error(problem)}, problem.status)
    return return_to_manage(
        bot, "The wallet is connected. Its history is loading; this can take a few minutes."
    )


@blueprint.route("/bots/<uid>/wallet/detach", methods=["GET", "POST"])
@managing
def detach_wallet(bot: Bot) -> ResponseReturnValue:
    held = [one.wallet.address for one in wallets.list_holdings(bot)]
    address = request.values.get("wallet") or next(iter(held), "")
    if request.method == "POST" and address in held:
        wallets.remove_wallet(bot, address, g.now)
    # Also redirect if the wallet was already disconnected, because the form was sent twice.
    if request.method == "POST" or address not in held:
        return return_to_manage(bot, "The wallet is disconnected.")
    return render_confirm(
        f"Disconnect the wallet {short(address)}?" if len(held) > 1 else "Disconnect the wallet?",
        _tell_leaving(held, address),
        "Yes, disconnect it",
        url_for("studio.show_manage", uid=bot.uid),
        hidden={"wallet": address},
    )


def _tell_leaving(held: list[str], address: str) -> str:
    if len(held) == 1:
        return LEAVING
    return LEAVING_OTHERS + (LEAD_LEAVING if address == held[0] else "")


# ---- prove ---------------------------------------------------------------------------------------
@blueprint.post("/bots/<uid>/challenge")
@managing
def begin_proof(bot: Bot) -> ResponseReturnValue:
    """Write the text to sign. It replaces this browser's earlier one."""
    action = "add" if request.form.get("action") == "add" else "replace"
    attached = wallets.find_attachment(bot)
    address = request.form.get("prove", "").strip() or (attached.wallet.address if attached else "")
    try:
        wallet = check_wallet(address)
        if not is_provable(wallet):
            raise invalid("wallet", wallets.UNPROVABLE)
    except Problem as problem:
        return render_manage(bot, None, {"prove": list_errors(problem)["wallet"]}, 422)
    stored = _write_challenge(bot, wallet, action).model_dump_json()
    Session.update(challenge=stored).where(Session.id == sessions.require_session().id).execute()
    return redirect(url_for("studio.show_proof", uid=bot.uid))


def _write_challenge(bot: Bot, wallet: str, action: str) -> Challenge:
    ends_at = g.now + wallets.MINUTES * 60_000
    nonce = secrets.token_hex(12)
    text = wallets.write_challenge(settings().base_url, bot.uid, wallet, nonce, ends_at)
    return Challenge(text=text, bot=bot.uid, wallet=wallet, endsAt=ends_at, action=action)


@blueprint.get("/bots/<uid>/proof")
@managing
def show_proof(bot: Bot) -> ResponseReturnValue:
    return render_proof(bot, find_challenge(bot))


def render_proof(
    bot: Bot, challenge: Challenge | None, error: str | None = None, status: int = 200
) -> ResponseReturnValue:
    """Render the page that asks for a signature. Without a valid challenge, render the Manage bot
    tab.
    """
    if challenge is None:
        return return_to_manage(
            bot,
            "That text is no longer valid. It works once, for five minutes. Start the proof again.",
            "error",
        )
    page = render_template(
        "proof.html", bot=bot, challenge=challenge, error=error, minutes=wallets.MINUTES
    )
    return page, status


@blueprint.post("/bots/<uid>/proof")
@managing
def prove_wallet(bot: Bot) -> ResponseReturnValue:
    challenge = find_challenge(bot)
    signature = wallets.parse_signature(request.form.get("signature", ""))
    if challenge is None or signature is None:
        return render_proof(bot, challenge, NOT_A_SIGNATURE, 422)
    if not wallets.is_signed(challenge.wallet, signature, challenge.text):
        return render_proof(bot, challenge, WRONG_SIGNATURE, 422)
    try:
        # Use one commit, so that a challenge is used up only if its wallet is attached.
        with writing():
            is_unspent = spend_challenge()
            if is_unspent:
                _attach_proven(bot, challenge)
    except Problem as problem:
        return render_manage(bot, None, {"prove": first_error(problem)}, problem.status)
    if not is_unspent:
        return render_proof(bot, None)
    return return_to_manage(bot, "Proven. Your bot’s profile now shows that the wallet is yours.")


def _attach_proven(bot: Bot, challenge: Challenge) -> None:
    if challenge.action == "add":
        wallets.add_wallet(settings(), bot, challenge.wallet, g.now)
    else:
        wallets.attach_wallet(settings(), bot, challenge.wallet, g.now, ownership="proven")


def find_challenge(bot: Bot) -> Challenge | None:
    """Return this browser's challenge if it is for this bot and still valid."""
    stored = sessions.require_session().challenge
    read = read_stored(stored, CHALLENGE)
    challenge = Challenge(**read) if read else None
    if challenge is None or challenge.bot != bot.uid or challenge.endsAt <= g.now:
        return None
    return challenge


def spend_challenge() -> bool:
    """Use up the challenge. If two equal proofs are sent at the same time, only one succeeds."""
    found = sessions.require_session()
    unspent = (Session.id == found.id) & (Session.challenge == found.challenge)
    changed: int = Session.update(challenge=None).where(unspent).execute()
    return changed == 1
