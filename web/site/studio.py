"""The pages creators run their influencers with: connect, manage, keys, recovery. Every change is a
form that web.sessions lets in.

A refused form is shown again with what was typed and the reason beside its field; a refused wallet
is emptied, for it may be a secret, and so is what holds one. What is shown once (keys, recovery
codes) is rendered into the answer to its form, with no-store, and exists nowhere else.
"""

import re
import secrets
from functools import wraps

import orjson
from flask import Blueprint, current_app, flash, g, redirect, render_template, request, url_for
from flask_wtf.csrf import CSRFError

from accounts import api_keys, influencers, owners, posts, proof, wallets
from accounts.fields import check_wallet, holds_secret, is_provable
from accounts.names import check_name
from accounts.problem import Problem, invalid
from models import Session
from voice import builtin as speech
from web.api.serialize import show_time
from web.server import gate, sessions
from web.site import pages

blueprint = Blueprint("studio", __name__)
blueprint.before_request(sessions.check_sender)
# how each is written in its field
LISTS = {
    "style": r"[,\n]",
    "adjectives": r"[,\n]",
    "topics": r"[,\n]",
    "catchphrases": r"\n",
}
TONES = ("plain", "dry", "cheerful", "solemn", "bold", "calm")
# hours a rotated key works on -> ms
OVERLAPS = {"0": 0, "1": 3_600_000, "24": 86_400_000}
SAMPLES = (
    {"kind": "buy", "symbol": "PINE", "amount": "1200", "sol": "0.5"},
    {"kind": "sell", "symbol": "PINE", "amount": "1200", "sol": "0.62", "resultSol": "0.12"},
)
# Of a form whose token is stale: fields that may hold a pasted secret (wallet, prove, signature,
# code) are left out.
STALE_FIELDS = (
    "name",
    "bio",
    "tone",
    "emoji",
    *LISTS,
    "body",
    "mint",
    "symbol",
    "reason",
    "family",
    "start",
    "label",
    "draft",
    "on",
    "overlap",
)
WRONG_PRESENT_CODE = (
    "This is not your present recovery code, so it stays. If you lost it, only the "
    "operator of this instance can replace it"
)
POST_FIELDS = ("body", "mint", "symbol", "signature", "reason")
# Twice the longest field: whoever wrote too much gets it back to shorten it.
MAX_TYPED_TEXT = 8_000
# A body and its reason at their longest.
MAX_STALE_TEXT = 8_500


@blueprint.after_request
def keep_nothing(response):
    """Pages of a creator are not for a cache, not even the browser's own."""
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.app_errorhandler(CSRFError)
def answer_stale_form(error):
    """The form's token and this browser's cookie do not belong together: what was typed is offered
    again with a new token.
    """
    typed = list(without_secrets(read_known_fields(request.form)).items())
    return render_template("stale.html", typed=typed, action=request.path), 400


def read_known_fields(form):
    """{name: text} of fields that forms here have, as long as they are not longer in all than what
    anybody types: nobody has shown yet that this sender was ever here, so its text is measured
    before it is read.
    """
    given = {name: form[name] for name in STALE_FIELDS if name in form}
    return given if sum(map(len, given.values())) <= MAX_STALE_TEXT else {}


def settings():
    return current_app.config["CANDOR"]


# ---- whose it is ---------------------------------------------------------------------------------
def require_owner():
    owner = sessions.find_owner()
    if owner is None:
        raise Problem(
            "not_creator",
            "this browser is not signed in as its creator; on the page Connect a recovery code"
            " signs it in",
        )
    return owner


def managing(view):
    """A view of an influencer that only its creator's browser may have; it gets the Bot."""

    @wraps(view)
    def check_and_view(uid):
        bot = influencers.find_bot(uid)
        if bot.owner_id != require_owner().id:
            raise Problem(
                "not_creator",
                "this influencer belongs to somebody else; if it is yours, its recovery code signs"
                " this browser in",
            )
        return view(bot)

    return check_and_view


def find_own_key(uid):
    key = api_keys.find_key(uid)
    if key.owner_id != require_owner().id:
        raise Problem("not_found", "there is no such key in your account")
    return key


# ---- forms ---------------------------------------------------------------------------------------
def read_texts(*names, form=None):
    """What was typed, with the line breaks of the interface."""
    form = request.form if form is None else form
    return {name: form.get(name, "").replace("\r\n", "\n") for name in names}


def without_secrets(typed, errors=None):
    """What may be shown in a form again. What is longer than any field takes is not looked into,
    and not shown.
    """
    return {
        name: (
            ""
            if name == "wallet"
            and name in (errors or {})
            or len(text) > MAX_TYPED_TEXT
            or holds_secret(text)
            else text
        )
        for name, text in typed.items()
    }


def read_voice(form=None):
    """The voice as typed in its fields, as accounts.check_voice takes it."""
    lists = {
        name: [part.strip() for part in re.split(LISTS[name], text) if part.strip()]
        for name, text in read_texts(*LISTS, form=form).items()
    }
    return {
        **{
            name: text
            for name, text in read_texts("tone", "emoji", form=form).items()
            if text.strip()
        },
        **lists,
    }


def find_errors(**checks):
    """{field: message} of the checks that refuse; the check of `field` may also name another field
    of its own.
    """
    errors = {}
    for check in checks.values():
        try:
            check()
        except Problem as problem:
            errors.update(list_errors(problem))
    return errors


def list_errors(problem):
    """{field: message}; a refusal that names no field stands above the form, under ''."""
    return {one["field"]: as_sentence(one["message"]) for one in problem.errors} or {
        "": as_sentence(problem.detail)
    }


def as_sentence(message):
    return message[:1].upper() + message[1:] + ("" if message.endswith(".") else ".")


def find_profile_errors(texts, present=None):
    """`present`: the name it has, which may be one of before today's rules."""
    return find_errors(
        name=lambda: texts["name"].strip() == present or check_name(texts["name"]),
        bio=lambda: influencers.check_bio(texts["bio"]),
        voice=lambda: influencers.check_voice(read_voice()),
    )


# ---- connect -------------------------------------------------------------------------------------
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


def check_registration():
    if settings().registration == "closed":
        raise Problem(
            "registration_closed", "this instance takes new influencers from its operator only"
        )


@blueprint.get("/connect/preview")
def show_voice():
    """Two sentences this voice might say, for the script that shows them while one types."""
    samples = write_samples(read_voice(request.args))
    return render_template("samples.html", samples=samples) if samples else ("", 204)


def write_samples(voice):
    """What this voice might say of SAMPLES; nothing while it is one that would be refused."""
    try:
        persona = orjson.loads(influencers.check_voice(voice))
    except Problem:
        return []
    return [speech.write(persona, facts, seed=f"{persona}") for facts in SAMPLES]


# ---- the account ---------------------------------------------------------------------------------
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


# ---- managing an influencer ----------------------------------------------------------------------
@blueprint.get("/bots/<uid>/manage")
@managing
def show_manage(bot):
    return render_manage(bot)


def render_manage(bot, typed=None, errors=None, status=200, headers=None):
    """The tab Manage bot. `typed` and `errors` belong to the one form that was refused; the others
    show what is stored.
    """
    voice = orjson.loads(bot.voice)
    stored = {
        "name": bot.name,
        "bio": bot.bio,
        "tone": voice["tone"],
        "emoji": voice["emoji"],
        **{name: ("\n" if name == "catchphrases" else ", ").join(voice[name]) for name in LISTS},
    }
    keys = [key for key in list_keys(bot.owner) if key.bot_id == bot.id]
    return (
        render_template(
            "manage.html",
            bot=pages.find_profile(bot.uid),
            typed={**stored, **without_secrets(typed or {})},
            errors=errors or {},
            keys=keys,
            tones=TONES,
            draft=secrets.token_hex(12),
            samples=write_samples(read_voice() if "tone" in request.form else voice),
        ),
        status,
        headers or {},
    )


def back_to_manage(bot, said):
    flash(said)
    return redirect(url_for("studio.show_manage", uid=bot.uid))


@blueprint.post("/bots/<uid>/profile")
@managing
def change_profile(bot):
    texts = read_texts("name", "bio", "tone", "emoji", *LISTS)
    errors = find_profile_errors(texts, bot.name)
    if errors:
        return render_manage(bot, texts, errors, 422)
    try:
        influencers.set_profile(
            bot, texts["name"], texts["bio"], {**influencers.VOICE, **read_voice()}
        )
    except Problem as problem:
        return render_manage(
            influencers.find_bot(bot.uid), texts, list_errors(problem), problem.status
        )
    return back_to_manage(bot, "Saved. Posts made before keep their words.")


@blueprint.post("/bots/<uid>/auto-post")
@managing
def switch_auto_post(bot):
    on = request.form.get("on") == "yes"
    influencers.set_profile(bot, auto_post=on, now=g.now)
    return back_to_manage(
        bot,
        (
            "Trades that happen from now on are told in its voice."
            if on
            else "Trades are no longer told automatically."
        ),
    )


@blueprint.post("/bots/<uid>/posts")
@managing
def write_post(bot):
    texts = read_texts(*POST_FIELDS)
    given = {name: text for name, text in texts.items() if text.strip()}
    try:
        if bot.retired_at is not None:
            raise Problem("bot_retired", "a retired influencer says nothing new")
        body, sanitized = posts.parse_post(
            {"eventId": f"studio-{request.form.get('draft', '')}", **given}
        )
        gate.check_posting(bot.owner_id)
        done = posts.publish(bot.id, body, g.now, "studio", None, sanitized, settings())
    except Problem as problem:
        errors = {
            f"post.{field}" if field else "post": message
            for field, message in list_errors(problem).items()
        }
        return render_manage(bot, texts, errors, problem.status, problem.headers)
    return redirect(url_for("pages.show_one_post", uid=done.uid))


# ---- its wallet ----------------------------------------------------------------------------------
@blueprint.post("/bots/<uid>/wallet")
@managing
def attach_wallet(bot):
    try:
        wallets.attach_wallet(settings(), bot, request.form.get("wallet", ""), g.now)
    except Problem as problem:
        return render_manage(
            bot,
            None,
            {
                ("wallet" if problem.errors else "wallet.form"): list(
                    list_errors(problem).values()
                )[0]
            },
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
        return render_manage(
            bot, None, {"prove": list(list_errors(problem).values())[0]}, problem.status
        )
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


# ---- keys ----------------------------------------------------------------------------------------
def list_keys(owner):
    """All keys of an owner; when each was last used is told by the counters."""
    return api_keys.list_keys(owner, current_app.allowance.find_uses())


@blueprint.post("/bots/<uid>/keys")
@managing
def create_publish_key(bot):
    try:
        made = api_keys.create_key(bot.owner, "publish", g.now, request.form.get("label", ""), bot)
    except Problem as problem:
        return render_manage(
            bot, None, {"key": list(list_errors(problem).values())[0]}, problem.status
        )
    return render_key(made, "show_manage", uid=bot.uid)


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
        made = api_keys.rotate_key(key, g.now, OVERLAPS.get(request.form.get("overlap"), 0))
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


# ---- the end -------------------------------------------------------------------------------------
@blueprint.route("/bots/<uid>/retire", methods=["GET", "POST"])
@managing
def retire_bot(bot):
    if request.method != "POST":
        return render_confirm(
            f"Retire {bot.name}?",
            "Its keys stop working, its wallet is free for another influencer, and nothing new"
            " appears. Its page and its posts stay. This cannot be undone.",
            "Yes, retire it",
            url_for("studio.show_manage", uid=bot.uid),
        )
    influencers.retire_bot(bot, g.now)
    flash(f"{bot.name} is retired.")
    return redirect(url_for("pages.show_profile", uid=bot.uid))


def render_confirm(heading, said, button, back, overlap=False):
    return render_template(
        "confirm.html", heading=heading, said=said, button=button, back=back, overlap=overlap
    )
