"""Serve the append-only log in C2SP's tlog-tiles format: checkpoints, hash tiles, entry bundles.

/log serves the current log. /log/{id} serves each log by its ID.
"""

from flask import Blueprint, Response

from accounts.fields import parse_whole
from accounts.problem import Problem
from evidence import log
from evidence.log import LogRow
from storage import tree
from web.server.application import find_app

blueprint = Blueprint("log", __name__, url_prefix="/log")
# A tile never changes, not even a partial one, because a wider tile has another URL.
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
BRIEFLY = {"Cache-Control": "no-cache"}


def find_log(uid: str | None) -> LogRow:
    """Return the log with this ID, or the current one. Raises Problem for an unknown ID."""
    found = log.find_log(uid)
    if found is None:
        raise Problem("not_found", "there is no such log, or nothing has been logged yet")
    return found


def respond_text(text: str) -> Response:
    return Response(text, headers=BRIEFLY, content_type="text/plain; charset=utf-8")


@blueprint.get("/checkpoint", defaults={"uid": None})
@blueprint.get("/<uid>/checkpoint")
def show_checkpoint(uid: str | None) -> Response:
    one = find_log(uid)
    written = log.make_checkpoint(one).write()
    return respond_text(find_app().log_signer.sign_note(one.origin, written))


@blueprint.get("/key", defaults={"uid": None})
@blueprint.get("/<uid>/key")
def show_key(uid: str | None) -> Response:
    return respond_text(f"{find_app().log_signer.verifier(find_log(uid).origin)}\n")


@blueprint.get("/witness")
def show_witnessed() -> Response:
    """Return our cosigner key and the checkpoints of other logs that we found to be consistent."""
    return respond_text(log.write_witnessed(find_app().log_signer))


@blueprint.get("/tile/<level>/<path:place>", defaults={"uid": None})
@blueprint.get("/<uid>/tile/<level>/<path:place>")
def show_tile(uid: str | None, level: str, place: str) -> Response:
    """Return a tile of hashes or, for the level `entries`, the leaves below it."""
    one, number, width = find_log(uid), *read_place(place)
    leaves = level == "entries"
    height = 0 if leaves else read_part(level, 0, tree.MAX_LEVEL)
    if width > tree.find_width(one.size, height, number):
        raise Problem("not_found", "the log has no such tile yet")
    if leaves:
        begin = number * tree.TILE_WIDTH
        body = tree.write_bundle(log.read_leaves(one, begin, begin + width))
    else:
        body = b"".join(log.read_hashes(one, height, number, width))
    return Response(body, headers=FOR_EVER, content_type="application/octet-stream")


def read_place(text: str) -> tuple[int, int]:
    """Return the number and width in a tile's path. Raises Problem if it's malformed."""
    path, _, partial = text.partition(".p/")
    number = tree.read_index(path)
    if number is None:
        raise Problem("not_found", "there is no such tile")
    return number, tree.TILE_WIDTH if path == text else read_part(partial, 1, tree.TILE_WIDTH - 1)


def read_part(text: str, least: int, most: int) -> int:
    number = parse_whole(text)
    if number is None or not least <= number <= most:
        raise Problem("not_found", "there is no such tile")
    return number
