"""The wallet of a bot: attached, detached, and proven by its holder's signature."""

import secrets

import orjson
from flask import g, redirect, render_template, request, url_for

from accounts import proof, wallets
from accounts.fields import check_wallet, is_provable
from accounts.problem import Problem, invalid
from models import Session
from web.api.serialize import show_time
from web.server import sessions
from web.site.creator import blueprint, managing, render_confirm
from web.site.forms import first_error, list_errors, settings
from web.site.manage import back_to_manage, render_manage


@blueprint.post("/bots/<uid>/wallet")
@managing
def attach_wallet(bot):
    try:
        wallets.attach_wallet(settings(), bot, request.form.get("wallet", ""), g.now)
    except Problem as problem:
        return render_manage(
            bot,
            None,
            {("wallet" if problem.errors else "wallet.form"): first_error(problem)},
            problem.status,
        )
    return back_to_manage(
        bot, "The wallet is connected. Its history is fetched next; that can take a few minutes."
    )


@blueprint.route("/bots/<uid>/wallet/detach", methods=["GET", "POST"])
@managing
def detach_wallet(bot):
    if request.method != "POST":
        return render_confirm(
            "Detach the wallet?",
            "Observing it ends. Its trades stay on the profile; results and rank do not. A proof of"
            " ownership ends too.",
            "Yes, detach it",
            url_for("studio.show_manage", uid=bot.uid),
        )
    wallets.detach_wallet(bot, g.now)
    return back_to_manage(bot, "The wallet is detached.")


@blueprint.post("/bots/<uid>/challenge")
@managing
def begin_proof(bot):
    """Write the text this browser's wallet is to sign; it replaces one written before."""
    attached = wallets.find_attachment(bot)
    text = request.form.get("prove", "").strip() or (attached.wallet.address if attached else "")
    try:
        wallet = check_wallet(text)
        if not is_provable(wallet):
            raise invalid("wallet", wallets.UNPROVABLE)
    except Problem as problem:
        return render_manage(bot, None, {"prove": list_errors(problem)["wallet"]}, 422)
    ends_at = g.now + proof.MINUTES * 60_000
    challenge = {
        "text": proof.write_challenge(
            settings().base_url,
            bot.uid,
            wallet,
            secrets.token_hex(12),
            show_time(ends_at // 1000 * 1000),
        ),
        "bot": bot.uid,
        "wallet": wallet,
        "endsAt": ends_at,
    }
    Session.update(challenge=orjson.dumps(challenge).decode()).where(
        Session.id == sessions.find_session().id
    ).execute()
    return redirect(url_for("studio.show_proof", uid=bot.uid))


@blueprint.get("/bots/<uid>/proof")
@managing
def show_proof(bot):
    return render_proof(bot, find_challenge(bot))


def render_proof(bot, challenge, error=None, status=200):
    if challenge is None:
        return back_to_manage(
            bot,
            "That text is no longer valid: it works once, for five minutes. Begin the proof again.",
        )
    return (
        render_template(
            "proof.html", bot=bot, challenge=challenge, error=error, minutes=proof.MINUTES
        ),
        status,
    )


@blueprint.post("/bots/<uid>/proof")
@managing
def prove_wallet(bot):
    challenge, signature = (
        find_challenge(bot),
        proof.parse_signature(request.form.get("signature", "")),
    )
    if challenge is None or signature is None:
        return render_proof(
            bot, challenge, "A signature has 64 bytes, written in base58, base64 or hex.", 422
        )
    if not proof.is_signed(challenge["wallet"], signature, challenge["text"]):
        return render_proof(
            bot,
            challenge,
            "This is not this wallet’s signature of the text above. Sign exactly that text, with"
            " that wallet.",
            422,
        )
    if not spend_challenge():
        return render_proof(bot, None)
    try:
        wallets.attach_wallet(settings(), bot, challenge["wallet"], g.now, ownership="proven")
    except Problem as problem:
        return render_manage(bot, None, {"prove": first_error(problem)}, problem.status)
    return back_to_manage(bot, "Proven: the wallet is yours, and the profile says so.")


def find_challenge(bot):
    """The challenge under way in this browser, if it is for this influencer and still valid."""
    stored = sessions.find_session().challenge
    challenge = orjson.loads(stored) if stored else None
    return (
        challenge
        if challenge and challenge["bot"] == bot.uid and challenge["endsAt"] > g.now
        else None
    )


def spend_challenge():
    """Of two equal proofs sent at once one wins."""
    found = sessions.find_session()
    return (
        Session.update(challenge=None)
        .where(Session.id == found.id, Session.challenge == found.challenge)
        .execute()
        == 1
    )
