"""Whose key came with a request: `Authorization: Bearer` alone is read, and one statement
answers.
"""

import hmac
from typing import NamedTuple

from accounts.keys import hash_secret, is_well_formed
from accounts.problem import Problem
from storage import database

FIND_CALLER = """
SELECT k.hash, k.expires_at, k.id, k.uid, k.scope, o.id, o.uid, b.id, b.uid
FROM "key" k JOIN owner o ON o.id = k.owner_id LEFT JOIN bot b ON b.id = k.bot_id
WHERE k.hash = ? AND k.revoked_at IS NULL"""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="candor"'}
INVALID = {"WWW-Authenticate": 'Bearer realm="candor", error="invalid_token"'}


class ApiCaller(NamedTuple):
    """The owner of a working key. `bot_*` is None for a read key."""

    key_id: int
    key_uid: str
    scope: str
    owner_id: int
    owner_uid: str
    bot_id: int | None
    bot_uid: str | None


class StoredKey(NamedTuple):
    """A key that was not revoked: its hash, its end in ms, whose it is."""

    hash: bytes
    expires_at: int | None
    caller: ApiCaller


def authenticate(header, now, find):
    """The ApiCaller whose key the header `Authorization` holds; Problem 401 without a working one.
    `find`: find_key, or what it gave for this state of the database.
    """
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Problem(
            "missing_key", "send the header Authorization: Bearer <API_KEY>", headers=CHALLENGE
        )
    caller = find_caller(text.strip(), now, find)
    if caller is None:
        raise Problem("invalid_key", "this key is unknown, revoked or expired", headers=INVALID)
    return caller


def find_caller(text, now, find):
    """The ApiCaller of a working key, or None."""
    digest = hash_secret(text)
    stored = find(text, digest)
    if not stored or not hmac.compare_digest(stored.hash, digest):
        return None
    if stored.expires_at is not None and stored.expires_at <= now:
        return None
    return stored.caller


def find_key(text, digest):
    """The StoredKey of a key that was not revoked, or None. A text that cannot be a key costs no
    look-up.
    """
    if not is_well_formed(text):
        return None
    row = database.execute_sql(FIND_CALLER, (digest,)).fetchone()
    if row is None:
        return None
    stored_hash, expires_at, *caller = row
    return StoredKey(stored_hash, expires_at, ApiCaller(*caller))
