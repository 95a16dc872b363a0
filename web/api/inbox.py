"""POST /api/v1/inbox/discord/<key>: a bot built for Discord webhooks posts here unchanged.

The inbox key is the only key that is allowed in a URL. It can't be used for anything else. URLs are
never logged (web.server.gate logs routes).
"""

from typing import Any

import orjson
from flask import Blueprint, Response, request

from accounts import discord, posts
from accounts.fields import parse_json
from accounts.problem import Problem
from web.api import queries, v1
from web.api.posts import show_posts
from web.server import errors, gate
from web.server.application import JsonResponse, find_app

blueprint = Blueprint("inbox", __name__, url_prefix="/api/v1/inbox")


FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
FORM_FIELDS = ("content", "nonce")
# Discord's response when a URL isn't a webhook.
UNKNOWN_WEBHOOK = {"message": "Unknown Webhook", "code": 10015}
# The reasons for rejecting the key in the URL.
KEY_REFUSALS = ("missing_key", "invalid_key", "insufficient_scope")
# The values that Discord clients send for true: Python's, JSON's, and a number.
YES = ("true", "True", "1")


@blueprint.before_request
def check_inbox_key() -> None:
    """Admit a request whose URL ends with a working inbox key that has requests left."""
    text = (request.view_args or {}).get("key", "")
    gate.admit(f"Bearer {text}", "inbox")


@blueprint.errorhandler(Problem)
def answer_refusal(problem: Problem) -> Response:
    """Return an error in the form that Discord clients understand.

    For an unknown webhook and for too many requests, this is Discord's own form. All other errors
    are problem documents.
    """
    if problem.code in KEY_REFUSALS:
        return JsonResponse(orjson.dumps(UNKNOWN_WEBHOOK), 404)
    if problem.code != "rate_limited":
        return errors.answer(problem)
    shown = {
        "message": "You are being rate limited.",
        "retry_after": float(problem.headers["Retry-After"]),
        "global": False,
        "window": problem.more["window"],
    }
    # Discord clients wait only if the response came through a proxy. Without this header, they drop
    # the message.
    return JsonResponse(orjson.dumps(shown), 429, {**problem.headers, "Via": "1.1 candor"})


@blueprint.post("/discord/<key>")
def take_message(key: str) -> Response:
    """Store a Discord message as a post.

    Returns 204. With `?wait=true`, returns 200 and Discord's message object, with the Post as
    `post`.
    """
    app, context, caller = find_app(), gate.find_context(), gate.find_caller()
    if caller.bot_id is None:
        raise Problem("bot_retired", "this key's bot is retired")
    value = read_message()
    given = discord.read_message(value)
    event_id = v1.read_event_id() or discord.name_event(
        value, given.get("signature"), caller.key_uid, context.now
    )
    body, sanitized = posts.parse_post({**given, "eventId": event_id})
    done = posts.publish(
        caller.bot_id, body, context.now, "discord", caller.key_id, sanitized, app.settings
    )
    if request.args.get("wait") not in YES:
        return Response(status=204)
    return JsonResponse(orjson.dumps(make_message(value, done.uid, caller.key_uid)))


def make_message(value: dict[str, Any], uid: str, key_uid: str) -> dict[str, Any]:
    row = queries.find_post(uid)
    if row is None:
        raise Problem("not_found", "the post was stored, but its account has since been deleted")
    message = discord.show_message(value, row.uid, row.bot, row.bot_name, key_uid, row.created_at)
    return {**message, "post": show_posts([row])[0]}


def read_message() -> dict[str, Any]:
    """Return the message from a JSON body or from a form, as its part `payload_json` or
    `content`.
    """
    if request.mimetype == "application/json":
        return parse_json(request.get_data())
    if request.mimetype not in FORMS:
        raise Problem("unsupported_media_type", "send Content-Type: application/json")
    if "payload_json" in request.form:
        return parse_json(request.form["payload_json"].encode())
    return {name: request.form[name] for name in FORM_FIELDS if name in request.form}
