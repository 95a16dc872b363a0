"""The log's page, and the proof on a post's page."""

from typing import Any

import orjson
from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

from evidence import log
from web.server.application import find_app
from web.site.lists import add_etag

blueprint = Blueprint("log_page", __name__)
blueprint.after_request(add_etag)


@blueprint.get("/log/")
def show_log() -> ResponseReturnValue:
    one, signer = log.find_log(), find_app().log_signer
    checkpoint = log.make_checkpoint(one) if one else None
    return render_template(
        "log.html",
        checkpoint=checkpoint,
        note=checkpoint and signer.sign_note(checkpoint.origin, checkpoint.write()),
        key=checkpoint and signer.verifier(checkpoint.origin),
        openings=log.list_openings(),
        watched=log.list_witnessed(),
    )


def find_key() -> str | None:
    one = log.find_log()
    return str(find_app().log_signer.verifier(one.origin)) if one else None


def find_proof(uid: str) -> dict[str, Any]:
    """Return the values of templates/log_proof.html, or {} if the post isn't in the log."""
    logged = log.find_post(uid)
    one = log.find_log(logged.log) if logged else None
    if logged is None or one is None:
        return {}
    signer = find_app().log_signer
    texts = (logged.event_id, logged.body, logged.symbol, logged.reason)
    return {
        "logged": logged,
        "proof": log.prove(one, logged.place, signer),
        "key": str(signer.verifier(one.origin)),
        "words": logged.salt and orjson.dumps([logged.salt, *texts]).decode(),
    }
