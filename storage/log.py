"""Append to the log, in the transaction of the write that it records."""

import hashlib
import secrets
from typing import Any, NamedTuple

import orjson

from storage import database, new_uid
from storage.tree import TILE_WIDTH, hash_leaf, hash_tile

# Version of the leaf's JSON format.
LEAF_VERSION = 1
# Inserts nothing if there is no log yet.
APPEND = """
INSERT INTO log_leaf (id, data)
SELECT COALESCE((SELECT MAX(id) + 1 FROM log_leaf), 0), ? FROM log
WHERE id = (SELECT MAX(id) FROM log)
RETURNING id, (SELECT MAX(first_leaf) FROM log)"""
OPEN = """
INSERT INTO log (uid, opened_at, first_leaf)
SELECT ?, ?, COALESCE(MAX(id) + 1, 0) FROM log_leaf"""
TILE_LEAVES = "SELECT data FROM log_leaf WHERE id >= ? AND id < ? ORDER BY id"
ADD_NODE = "INSERT INTO log_node (log_id, level, place, hash) VALUES (?, ?, ?, ?)"
TILE_NODES = (
    "SELECT hash FROM log_node WHERE log_id = ? AND level = ? AND place >= ? AND place < ? ORDER BY"
    " place"
)


class Appended(NamedTuple):
    """A new leaf: its row ID, its index in its log, and its JSON."""

    id: int
    place: int
    data: str


def append_leaf(kind: str, now: int, db: Any = database, **fields: Any) -> Appended:
    """Append a leaf, inside the caller's transaction. Open a log if there isn't one.

    Only one writer runs at a time, so indexes have no gaps. `now`: UTC milliseconds.
    """
    said = {"v": LEAF_VERSION, "kind": kind, "at": now, **fields}
    data = orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()
    row = db.execute_sql(APPEND, (data,)).fetchall()
    if not row:
        open_log(now, db=db)
        row = db.execute_sql(APPEND, (data,)).fetchall()
    ((leaf, first),) = row
    place = leaf - first
    if (place + 1) % TILE_WIDTH == 0:
        _store_node(db, first, place // TILE_WIDTH)
    return Appended(leaf, place, data)


def open_log(now: int, previous: dict[str, Any] | None = None, db: Any = database) -> str:
    """Open a new log for all later leaves, and return its uid.

    Call this inside a transaction. `previous` is the previous log's last checkpoint, which the
    first leaf contains.
    """
    uid = new_uid("log")
    db.execute_sql(OPEN, (uid, now))
    append_leaf("opening", now, db, log=uid, previous=previous)
    return uid


def _store_node(db: Any, first: int, place: int) -> None:
    ((log,),) = db.execute_sql("SELECT MAX(id) FROM log").fetchall()
    begin = first + place * TILE_WIDTH
    leaves = db.execute_sql(TILE_LEAVES, (begin, begin + TILE_WIDTH)).fetchall()
    hashes, level = [hash_leaf(data.encode()) for (data,) in leaves], 1
    while True:
        db.execute_sql(ADD_NODE, (log, level, place, hash_tile(hashes)))
        if (place + 1) % TILE_WIDTH:
            return
        bounds = (log, level, place + 1 - TILE_WIDTH, place + 1)
        hashes = [bytes(node) for (node,) in db.execute_sql(TILE_NODES, bounds).fetchall()]
        level, place = level + 1, place // TILE_WIDTH


def mark_owner(bot: str, owner: str) -> str:
    """Return the owner mark for a bot's leaves, a hash of both IDs.

    It changes with the owner, but doesn't reveal which bots have the same owner.
    """
    return hashlib.sha256(orjson.dumps([bot, owner])).hexdigest()


def new_salt() -> str:
    return secrets.token_hex(16)


def hash_words(salt: str, *texts: str | None) -> str:
    """Return the salted SHA-256, in hex, that replaces free text in a leaf.

    The texts of a post are event id, body, symbol and reason. The texts of a bot are name, handle,
    bio, voice and avatar.
    """
    return hashlib.sha256(orjson.dumps([salt, *texts])).hexdigest()
