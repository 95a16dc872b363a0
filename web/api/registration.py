"""POST /api/v1/bots and its challenge, with which agents register themselves without a key."""

from typing import Annotated

import orjson
from flask import Blueprint, request

from accounts import registration
from accounts.fields import parse_body, parse_json
from accounts.problem import Problem, invalid
from web.api import bots
from web.api.serialize import show_time
from web.api.shapes import TypedDict, described
from web.server import gate
from web.server.application import JsonResponse, find_app

blueprint = Blueprint("registration", __name__, url_prefix="/api/v1/bots")


class Challenge(TypedDict):
    """A text that a wallet signs to register a bot. It works once, for five minutes."""

    text: Annotated[str, described("sign exactly this, in UTF-8")]
    nonce: str
    expiresAt: str


class Registered(TypedDict):
    """A bot that an agent registered. Its key and link are secrets that are shown once."""

    bot: bots.Bot
    publishKey: str
    claimUrl: Annotated[str, described("give it to the bot's human owner only; it works once")]
    claimExpiresAt: str


@blueprint.before_request
def check_open() -> None:
    """Refuse all requests unless the operator turned on SELF_REGISTRATION."""
    settings = gate.settings()
    if settings.self_registration == "off":
        raise Problem(
            "registration_closed",
            "agents can't register themselves here, because SELF_REGISTRATION is off; a human can"
            f" create a bot at {settings.base_url}/connect",
        )
    if request.mimetype != "application/json":
        raise Problem("unsupported_media_type", "send Content-Type: application/json")


@blueprint.post("/challenge")
def give_challenge() -> JsonResponse:
    """Return the text to sign. It isn't stored."""
    value, app = parse_json(request.get_data()), find_app()
    unknown = value.keys() - {"wallet"}
    if unknown or "wallet" not in value:
        raise invalid("wallet", "is required; no other field is allowed")
    made = registration.make_challenge(
        app.settings, app.secret, value["wallet"], gate.find_context().now
    )
    shown: Challenge = {
        "text": made.text,
        "nonce": made.nonce,
        "expiresAt": show_time(made.ends_at),
    }
    return JsonResponse(orjson.dumps(shown))


@blueprint.post("")
def register() -> JsonResponse:
    """Register a bot. Returns 201, or 200 with a new key and link if its wallet is already
    registered.
    """
    app, now = find_app(), gate.find_context().now
    body = parse_body(registration.RegistrationBody, parse_json(request.get_data()))
    try:
        given_at = registration.check_proof(app.settings, app.secret, body, now)
    except Problem:
        gate.note_failure()
        raise
    gate.check_creation(by_agent=True)
    source = registration.name_source(app.secret, gate.find_network())
    done = registration.register(app.settings, body, source, given_at, now)
    shown: Registered = {
        "bot": bots.show_bots([bots.find_row(done.bot.uid)])[0],
        "publishKey": done.publish_key.text,
        # Browsers don't send the part after #, so the code never appears in a log.
        "claimUrl": f"{app.settings.base_url}/claim#{done.claim_code}",
        "claimExpiresAt": show_time(done.claim_ends_at),
    }
    location = f"{app.settings.base_path}/api/v1/bots/{done.bot.uid}"
    status, headers = (201, {"Location": location}) if done.is_new else (200, None)
    return JsonResponse(orjson.dumps(shown), status, headers)
