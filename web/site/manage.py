"""The Manage bot tab: profile, automatic posts, manual posts, publishing keys, retirement."""

import secrets

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import api_keys, hooks, influencers, posts, wallets
from accounts.fields import check_wallet, is_provable
from accounts.problem import Problem, invalid
from accounts.tables import Hook
from models import Bot, Owner, Session
from storage import writing
from storage.rows import Stored, make_shape, read_stored
from web.api.serialize import Json
from web.server import gate, sessions
from web.server.gate import settings
from web.site import profiles
from web.site.creator import blueprint, managing, render_confirm, require_owner
from web.site.forms import (
    LISTS,
    TONES,
    Texts,
    check_profile,
    first_error,
    list_errors,
    list_errors_of,
    read_texts,
    read_voice,
    without_secrets,
    write_samples,
)
from web.site.keys import find_last_signature, list_keys, render_key
from web.site.words import short

HOOK_KINDS = {
    "webhook": "My own program (webhook)",
    "discord": "Discord",
    "slack": "Slack",
    "telegram": "Telegram",
    "ntfy": "ntfy",
}
HOOK_EVENTS = {
    "post": "posts",
    "trade": "trades",
    "verification": "changed labels",
    "coverage": "gaps in the history",
}
POST_FIELDS = ("body", "mint", "symbol", "signature", "reason")


@blueprint.get("/bots/<uid>/manage")
@managing
def show_manage(bot: Bot) -> ResponseReturnValue:
    """Show the tab where the owner manages a bot. `signature` prefills the post form."""
    asked = {name: request.args[name] for name in ("signature",) if name in request.args}
    return render_manage(bot, asked)


def render_manage(
    bot: Bot,
    typed: Texts | None = None,
    errors: Texts | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> ResponseReturnValue:
    """Render the tab. `typed` and `errors` belong to the rejected form."""
    voice = influencers.read_voice(bot.voice)
    page = render_template(
        "manage.html",
        bot=profiles.find_profile(bot.uid),
        typed=_list_stored(bot) | without_secrets(typed or {}),
        errors=errors or {},
        keys=[key for key in list_keys(bot.owner) if key.bot_id == bot.id],
        hooks=[one for one in list_hooks(bot.owner) if not one["bots"] or bot.uid in one["bots"]],
        last_signature=find_last_signature(bot.uid),
        hook_kinds=HOOK_KINDS,
        hook_events=HOOK_EVENTS,
        tones=TONES,
        draft=secrets.token_hex(12),
        samples=write_samples(read_voice() if "tone" in request.form else voice),
    )
    return page, status, headers or {}


def _list_stored(bot: Bot) -> Texts:
    voice = influencers.read_voice(bot.voice)
    lists = {name: ("\n" if name == "catchphrases" else ", ").join(voice[name]) for name in LISTS}
    return {
        "name": bot.name,
        "bio": bot.bio,
        "tone": voice["tone"],
        "emoji": voice["emoji"],
        **lists,
    }


def return_to_manage(bot: Bot, message: str, kind: str = "message") -> ResponseReturnValue:
    """Show the tab again with a message. `kind` is error if something wasn't done."""
    flash(message, kind)
    return redirect(url_for("studio.show_manage", uid=bot.uid))


@blueprint.post("/bots/<uid>/profile")
@managing
def change_profile(bot: Bot) -> ResponseReturnValue:
    texts = read_texts("name", "bio", "tone", "emoji", *LISTS)
    voice = {**influencers.VOICE, **read_voice()}
    try:
        check_profile(texts, bot.name)
        influencers.set_profile(bot, texts["name"], texts["bio"], voice, now=g.now)
    except Problem as problem:
        unchanged = influencers.find_bot(bot.uid)
        return render_manage(unchanged, texts, list_errors(problem), problem.status)
    return return_to_manage(bot, "Saved. Earlier posts don’t change.")


@blueprint.post("/bots/<uid>/auto-post")
@managing
def switch_auto_post(bot: Bot) -> ResponseReturnValue:
    on = request.form.get("on") == "yes"
    influencers.set_profile(bot, auto_post=on, now=g.now)
    if on:
        return return_to_manage(bot, "On: new trades are now posted in the bot’s voice.")
    return return_to_manage(bot, "Off: trades are no longer posted automatically.")


@blueprint.post("/bots/<uid>/posts")
@managing
def write_post(bot: Bot) -> ResponseReturnValue:
    texts = read_texts(*POST_FIELDS)
    try:
        return redirect(url_for("pages.show_one_post", uid=_publish(bot, texts).uid))
    except Problem as problem:
        errors = list_errors_of("post", problem)
        return render_manage(bot, texts, errors, problem.status, problem.headers)


def _publish(bot: Bot, texts: Texts) -> posts.Published:
    given = {name: text for name, text in texts.items() if text.strip()}
    # The form's draft number prevents a double submission from posting twice.
    event_id = f"studio-{request.form.get('draft', '')}"
    body, sanitized = posts.parse_post({"eventId": event_id, **given})
    gate.check_posting(bot.owner_id)
    return posts.publish(bot.id, body, g.now, "studio", None, sanitized, settings())


@blueprint.post("/bots/<uid>/keys")
@managing
def create_publish_key(bot: Bot) -> ResponseReturnValue:
    label = request.form.get("label", "")
    scope = "inbox" if request.form.get("scope") == "inbox" else "publish"
    try:
        return render_key(api_keys.create_key(bot.owner, scope, g.now, label, bot))
    except Problem as problem:
        return render_manage(bot, None, {"key": first_error(problem)}, problem.status)


@blueprint.route("/bots/<uid>/retire", methods=["GET", "POST"])
@managing
def retire_bot(bot: Bot) -> ResponseReturnValue:
    if request.method != "POST":
        return render_confirm(
            f"Retire {bot.name}?",
            "Its keys stop working, its wallet can be connected to another bot, and nothing new"
            " appears. Its page and posts stay. This can’t be undone.",
            "Yes, retire it",
            url_for("studio.show_manage", uid=bot.uid),
        )
    influencers.retire_bot(bot, g.now)
    flash(f"{bot.name} is retired.")
    return redirect(url_for("profiles.show_profile", uid=bot.uid))


# ---- notifications -------------------------------------------------------------------------------
TESTED = "We’re sending a test. Reload this page to see the result."


def list_hooks(owner: Owner) -> list[Json]:
    """List an owner's hooks, with possible tokens in `url` masked. `bots`: IDs, empty for all."""
    return [
        {
            "uid": hook.uid,
            "kind": hook.kind,
            "url": hooks.mask_url(hook.url),
            "events": [HOOK_EVENTS[one] for one in hooks.read_list(hook.events) or ()],
            "bots": hooks.read_list(hook.bots) or [],
            "state": hook.state,
            "delivered_at": hook.delivered_at,
            "last_error": hook.last_error,
        }
        for hook in hooks.list_hooks(owner)
    ]


def add_hook(owner: Owner, bot: Bot) -> Hook:
    """Add the hook in the form, for one bot. Raises Problem, which names the field."""
    kind, url = request.form.get("kind", "webhook"), request.form.get("url", "").strip()
    events = request.form.getlist("event")
    return hooks.add_hook(settings(), owner, url, g.now, kind, events, [bot.uid])


def render_hook_secret(secret: str, back: str) -> ResponseReturnValue:
    return render_template(
        "secret.html",
        key=secret,
        scope="hook",
        heading="Your new webhook",
        back=back,
        text="Your program uses this secret to check each message’s signature. We’re sending a"
        " signed ping; notifications start once your program responds.",
    )


@blueprint.post("/bots/<uid>/hooks")
@managing
def create_hook(bot: Bot) -> ResponseReturnValue:
    try:
        made = add_hook(bot.owner, bot)
    except Problem as problem:
        return render_manage(bot, None, list_errors_of("hook", problem), problem.status)
    if made.secret is None:
        return return_to_manage(bot, f"Added. {TESTED}")
    return render_hook_secret(made.secret, url_for("studio.show_manage", uid=bot.uid))


@blueprint.post("/hooks/<uid>/test")
def ping_hook(uid: str) -> ResponseReturnValue:
    hook = find_own_hook(uid)
    hooks.ask_for_ping(hook.uid, g.now)
    flash(TESTED)
    return redirect(find_page_of(hook))


@blueprint.route("/hooks/<uid>/remove", methods=["GET", "POST"])
def remove_hook(uid: str) -> ResponseReturnValue:
    hook = find_own_hook(uid)
    back = find_page_of(hook)
    if request.method != "POST":
        return render_confirm(
            "Remove this notification?",
            f"{hooks.mask_url(hook.url)} won’t get any more messages, and its address is deleted.",
            "Yes, remove it",
            back,
        )
    hooks.remove_hook(uid)
    flash("Removed.")
    return redirect(back)


def find_own_hook(uid: str) -> Hook:
    """Raises Problem `not_found` for another owner's hook."""
    hook = hooks.find_hook(uid)
    if hook.owner_id != require_owner().id:
        raise Problem("not_found", "there is no such notification in your account")
    return hook


def find_page_of(hook: Hook) -> str:
    bots = hooks.read_list(hook.bots)
    if not bots:
        return url_for("studio.show_connect")
    if profiles.is_own(bots[0]):
        return url_for("studio.show_manage", uid=bots[0])
    return url_for("studio.show_following")


# ---- wallets: attach, detach, and prove with the owner's signature -------------------------------
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
