"""POST /api/v1/inbox/discord/<key>: a bot that only knows a Discord webhook posts here unchanged.

Its inbox key is the one key that may stand in an address: it is good for nothing else. No address
is ever logged here (web.server.gate logs routes).
"""

import secrets

import orjson
from flask import Blueprint, Response, request

from accounts import discord, posts
from accounts.problem import Problem
from web.api import v1
from web.server import gate
from web.server.application import JsonResponse, find_app

blueprint = Blueprint("inbox", __name__, url_prefix="/api/v1/inbox")


@blueprint.before_request
def check_inbox_key() -> None:
    """Admit a request whose address ends in a working inbox key with allowance left."""
    text = (request.view_args or {}).get("key", "")
    gate.admit(f"Bearer {text}", "inbox")


@blueprint.post("/discord/<key>")
def take_message(key: str) -> Response:
    """Store a Discord message as a post: 204, or with `?wait=true` 200 and the post."""
    app, context, caller = find_app(), gate.find_context(), gate.find_caller()
    if caller.bot_id is None:
        raise Problem("bot_retired", "the bot of this key is retired")
    given = discord.read_message(posts.parse_json(read_body()))
    event_id = v1.read_event_id() or given["eventId"] or f"discord-{secrets.token_hex(16)}"
    body, sanitized = posts.parse_post({**given, "eventId": event_id})
    with app.list_cache.writing():
        done = posts.publish(
            caller.bot_id, body, context.now, "discord", caller.key_id, sanitized, app.settings
        )
    if request.args.get("wait") != "true":
        return Response(status=204)
    return JsonResponse(orjson.dumps(v1.find_post(done.uid)))


def read_body() -> bytes:
    """Return the JSON of the message: the body, or the part `payload_json` of a form."""
    if request.mimetype == "multipart/form-data":
        return request.form.get("payload_json", "").encode()
    if request.mimetype != "application/json":
        raise Problem("unsupported_media_type", "send Content-Type: application/json")
    return request.get_data()
