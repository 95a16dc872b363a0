"""Authenticate API keys, using only `Authorization: Bearer` and one SQL statement."""

import hmac
from collections.abc import Callable
from typing import NamedTuple

from accounts.conduct import tell_owner
from accounts.keys import hash_secret, is_well_formed
from accounts.problem import Problem
from storage.rows import select_one

FIND_KEY = """
SELECT k.hash AS key_hash, k.expires_at AS key_expires_at, k.id AS key_id, k.uid AS key_uid,
       k.scope, o.id AS owner_id, o.uid AS owner_uid, b.id AS bot_id, b.uid AS bot_uid,
       (SELECT reason FROM ban WHERE kind = 'owner' AND target = o.uid) AS ban_reason
FROM "key" k JOIN owner o ON o.id = k.owner_id LEFT JOIN bot b ON b.id = k.bot_id
WHERE k.hash = ? AND k.revoked_at IS NULL"""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="candor"'}
INVALID_TOKEN = {"WWW-Authenticate": 'Bearer realm="candor", error="invalid_token"'}


class ApiCaller(NamedTuple):
    """The owner of a key that isn't revoked.

    `key_expires_at` is in ms, or None. `bot_*` is None for a read key. `key_hash` is the hash of
    the key's text, which isn't stored.
    """

    key_hash: str
    key_expires_at: int | None
    key_id: int
    key_uid: str
    scope: str
    owner_id: int
    owner_uid: str
    bot_id: int | None
    bot_uid: str | None
    # None if the owner isn't banned.
    ban_reason: str | None


FindKey = Callable[[str, str], ApiCaller | None]


def authenticate(header: str, now: int, find: FindKey) -> ApiCaller:
    """Return the caller whose key is in the Authorization header.

    Raises Problem 401 without a valid key, and 403 if the owner is banned. `now` is UTC
    milliseconds. `find` is find_key, or a cache of it.
    """
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Problem(
            "missing_key", 'send the Authorization header as "Bearer <API_KEY>"', headers=CHALLENGE
        )
    caller = find_caller(text.strip(), now, find)
    if caller is None:
        raise Problem(
            "invalid_key", "this key is unknown, revoked or expired", headers=INVALID_TOKEN
        )
    if caller.ban_reason is not None:
        raise Problem("owner_banned", tell_owner(caller.ban_reason))
    return caller


def find_caller(text: str, now: int, find: FindKey) -> ApiCaller | None:
    """Return a valid key's owner, or None."""
    digest = hash_secret(text)
    caller = find(text, digest)
    if not caller or not hmac.compare_digest(caller.key_hash, digest):
        return None
    if caller.key_expires_at is not None and caller.key_expires_at <= now:
        return None
    return caller


def find_key(text: str, digest: str) -> ApiCaller | None:
    """Return the owner of a key that isn't revoked, even if it has expired.

    Returns None for an unknown key. `digest` is hash_secret(text). Malformed text doesn't cause a
    query.
    """
    if not is_well_formed(text):
        return None
    return select_one(ApiCaller, FIND_KEY, (digest,))
