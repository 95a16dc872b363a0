"""/api/v1: every route needs a key; read, validate, ask, answer."""
import time

import orjson
from flask import Blueprint, Response, g

from web import auth

blueprint = Blueprint("v1", __name__, url_prefix="/api/v1")


@blueprint.before_request
def open_gate():
    g.now = time.time_ns() // 1_000_000
    auth.authenticate(g.now)


def respond(shown, status=200, headers=None):
    return Response(orjson.dumps(shown), status, headers={"Cache-Control": "no-store", **(headers or {})}, content_type="application/json")


@blueprint.get("/me")
def show_me():
    caller = g.caller
    return respond({"kind": caller.scope, "keyId": caller.key_uid, "ownerId": caller.owner_uid, "botId": caller.bot_uid, "windows": []})
