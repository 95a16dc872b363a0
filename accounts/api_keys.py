"""Create, rotate, revoke and list an owner's API keys. `accounts.keys` defines their format.

Each function is one short transaction that raises Problem and rolls back if the change isn't
allowed. `now` is UTC milliseconds.
"""

from collections.abc import Sequence
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
    """`text` is shown once and isn't stored."""

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
    """A `read` key doesn't have a bot, but the other scopes require one."""
    name = check_line("name", name, MAX_KEY_NAME, shortest=0)
    with writing():
        check_present(owner.id)
        # The bot may have been retired since the caller loaded it.
        if bot is not None and Bot.get_by_id(bot.id).retired_at is not None:
            raise Problem("bot_retired", "a retired bot cannot get a new key")
        refuse_too_many([owner], now, new=1)
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


def refuse_too_many(owners: Sequence[Owner], now: int, new: int = 0) -> None:
    """Raise Problem unless one account has room for all active keys of these and for new ones."""
    if Key.select().where(Key.owner.in_(owners), is_active(now)).count() + new > MAX_ACTIVE_KEYS:
        raise Problem(
            "key_limit",
            f"an account can have at most {MAX_ACTIVE_KEYS} active keys; revoke one first",
        )


def rotate_key(key: Key, now: int, overlap_ms: int = 0) -> NewKey:
    """Replace `key`, which stops working immediately or after `overlap_ms`.

    The replacement keeps the expiry of `key`, and the overlap never extends past it. Both count
    toward MAX_ACTIVE_KEYS during an overlap. Raises Problem `key_ended` if `key` is revoked or
    expired.
    """
    with writing():
        expires_at = Key.select(Key.expires_at).where(Key.id == key.id).scalar()
        ends = min(now + overlap_ms, expires_at or now + overlap_ms)
        change = {"expires_at": ends} if overlap_ms else {"revoked_at": now}
        if not Key.update(**change).where(Key.id == key.id, is_active(now)).execute():
            raise Problem("key_ended", "this key was revoked or has expired; create a new one")
        return create_key(key.owner, key.scope, now, key.name, key.bot, expires_at)


def revoke_key(uid: str, now: int) -> bool:
    """Return False if the key was already revoked."""
    return revoke_all(Key.id == find_key(uid).id, now) > 0


def revoke_all(which: Any, now: int) -> int:
    revoked = Key.update(revoked_at=now).where(which, Key.revoked_at.is_null())
    return int(revoked.execute())


def find_key(uid: str) -> Key:
    key: Key | None = Key.get_or_none(Key.uid == uid)
    return key or refuse_unknown("key")


def list_keys(owner: Owner | None = None, uses: dict[str, int] | None = None) -> list[Key]:
    """List an owner's keys, or all, oldest first. `uses`: {uid: ms of the last use}."""
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
    return Key.revoked_at.is_null() & (Key.expires_at.is_null() | (Key.expires_at > now))
