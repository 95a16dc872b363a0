"""API keys of an owner: create, rotate, revoke, list. Their text is `accounts.keys`.

Each function is one short transaction and raises Problem when it refuses; then nothing was stored.
`now` is UTC milliseconds.
"""

from dataclasses import dataclass
from typing import Any

from peewee import JOIN

from accounts.fields import check_line
from accounts.keys import PREFIXES, hash_secret, make_key
from accounts.owners import check_present
from accounts.problem import Problem, refuse_unknown
from models import Bot, Key, Owner
from storage import new_uid, writing

MAX_ACTIVE_KEYS = 20
MAX_KEY_NAME = 60


@dataclass(frozen=True)
class NewKey:
    """A key just made; `text` exists nowhere else and is shown once."""

    key: Key
    text: str


def create_key(
    owner: Owner,
    scope: str,
    now: int,
    name: str = "",
    bot: Bot | None = None,
    expires_at: int | None = None,
) -> NewKey:
    """Create a key of this scope. A `read` key has no bot; any other needs one."""
    name = check_line("name", name, MAX_KEY_NAME, shortest=0)
    with writing():
        return insert_key(owner, scope, name, now, bot, expires_at)


def rotate_key(key: Key, now: int, overlap_ms: int = 0) -> NewKey:
    """Replace `key`, which ends now or works on for `overlap_ms`.

    The replacement ends when `key` was to end, and the overlap is never longer than what `key`
    had left. During an overlap both count among the twenty. Problem `key_ended` for a key that
    was revoked or has expired: rotation never revives one.
    """
    with writing():
        expires_at = Key.select(Key.expires_at).where(Key.id == key.id).scalar()
        ends = min(now + overlap_ms, expires_at or now + overlap_ms)
        change = {"expires_at": ends} if overlap_ms else {"revoked_at": now}
        if not Key.update(**change).where(Key.id == key.id, is_active(now)).execute():
            raise Problem(
                "key_ended", "this key was revoked or has expired: create a new one instead"
            )
        return insert_key(key.owner, key.scope, key.name, now, key.bot, expires_at)


def revoke_key(uid: str, now: int) -> None:
    """End a key at once, everywhere. Revoking twice changes nothing."""
    key = find_key(uid)
    Key.update(revoked_at=now).where(Key.id == key.id, Key.revoked_at.is_null()).execute()


def find_key(uid: str) -> Key:
    """Return the key of this id; Problem `not_found` otherwise."""
    key: Key | None = Key.get_or_none(Key.uid == uid)
    return key or refuse_unknown("key")


def list_keys(owner: Owner | None = None, uses: dict[str, int] | None = None) -> list[Key]:
    """List keys with their owners and bots, the oldest first; of one owner or of all.

    `uses`: {uid: ms} of what ratelimit.Allowance knows of uses.
    """
    keys = (
        Key.select(Key, Owner, Bot)
        .join(Owner)
        .switch(Key)
        .join(Bot, JOIN.LEFT_OUTER)
        .order_by(Key.id)
    )
    listed = list(keys.where(Key.owner == owner) if owner else keys)
    for key in listed:
        key.last_used_at = (uses or {}).get(key.uid)
    return listed


def is_active(now: int) -> Any:
    """The condition of a key that works, as SQL."""
    return Key.revoked_at.is_null() & (Key.expires_at.is_null() | (Key.expires_at > now))


def insert_key(
    owner: Owner,
    scope: str,
    name: str,
    now: int,
    bot: Bot | None = None,
    expires_at: int | None = None,
) -> NewKey:
    """As `create_key`, inside a transaction and with a name that was checked."""
    check_present(owner.id)
    # Asked again: it may have been retired since it was read.
    if bot is not None and Bot.get_by_id(bot.id).retired_at is not None:
        raise Problem("bot_retired", "a retired bot cannot get a new key")
    if Key.select().where(Key.owner == owner, is_active(now)).count() >= MAX_ACTIVE_KEYS:
        raise Problem(
            "key_limit",
            f"an account can have at most {MAX_ACTIVE_KEYS} active keys: revoke one first",
        )
    text = make_key(scope)
    key = Key.create(
        uid=new_uid("key"),
        owner=owner,
        bot=bot,
        scope=scope,
        name=name,
        prefix=PREFIXES[scope],
        last4=text[-4:],
        hash=hash_secret(text),
        created_at=now,
        expires_at=expires_at,
    )
    return NewKey(key, text)
