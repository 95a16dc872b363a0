"""Create, edit and retire bots (AI influencers).

Each function is one short transaction that raises Problem and rolls back if the change isn't
allowed. `now` is UTC milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from accounts.api_keys import NewKey, create_key, revoke_all
from accounts.fields import (
    HOLDS_SECRET,
    check_line,
    check_name,
    check_size,
    check_wallet,
    find_free_handle,
    holds_secret,
)
from accounts.owners import check_present, create_owner
from accounts.problem import invalid, refuse_unknown
from accounts.wallets import attach_wallet, detach_wallet
from chain.symbols import find_skeleton
from config import Config
from models import Bot, Key, Owner
from paper.tables import Trader
from storage import new_uid, writing
from storage.log import append_leaf, hash_words, mark_owner, new_salt
from storage.rows import make_shape, read_stored

VOICE: dict[str, Any] = {
    "tone": "plain",
    "style": [],
    "adjectives": [],
    "topics": [],
    "catchphrases": [],
    "emoji": "",
}
STORED_VOICE = make_shape(dict[str, str | list[str]])
MAX_BIO, MAX_WORD, MAX_WORDS = 500, 60, 12


@dataclass(frozen=True)
class NewBot:
    """`recovery_code` is None if the owner already existed."""

    bot: Bot
    owner: Owner
    publish_key: NewKey
    recovery_code: str | None


def create_bot(
    config: Config,
    name: str,
    now: int,
    wallet: str | None = None,
    owner: Owner | None = None,
    voice: Mapping[str, Any] | None = None,
    bio: str = "",
    uid: str | None = None,
) -> NewBot:
    """Create a bot, its publishing key and, without `owner`, a new owner.

    `voice` and `bio` are as in `set_profile`. `uid` is the preferred id, which is used if it is
    free.
    """
    name, bio, stored_voice = check_name(name), check_bio(bio), check_voice(voice or {})
    address = check_wallet(wallet) if wallet is not None else None
    with writing():
        code = None
        if owner is None:
            owner, code = create_owner(now)
        check_present(owner.id)
        is_taken = Bot.select().where(Bot.uid == uid).exists()
        bot = Bot.create(
            uid=new_uid("bot") if uid is None or is_taken else uid,
            owner=owner,
            handle=find_free_handle(name, Bot, "bot"),
            name=name,
            likeness=find_free_likeness(name),
            bio=bio,
            voice=stored_voice,
            created_at=now,
        )
        log_profile(bot, now)
        if address:
            attach_wallet(config, bot, address, now)
        return NewBot(bot, owner, create_key(owner, "publish", now, bot=bot), code)


def retire_bot(bot: Bot, now: int) -> bool:
    """Revoke keys and free wallets. Page and posts stay. Return False if it was already retired."""
    with writing():
        retired = Bot.update(retired_at=now, auto_post=False).where(
            Bot.id == bot.id, Bot.retired_at.is_null()
        )
        is_new = bool(retired.execute())
        if is_new:
            append_leaf("retirement", now, bot=bot.uid)
        revoke_all(Key.bot == bot, now)
        detach_wallet(bot, now)
        return is_new


def find_bot(uid: str) -> Bot:
    bot: Bot | None = Bot.get_or_none(Bot.uid == uid)
    return bot or refuse_unknown("bot")


def list_bots_of(owner: Owner) -> list[Bot]:
    return list(Bot.select().where(Bot.owner == owner).order_by(Bot.id))


def list_bots() -> list[Bot]:
    return list(Bot.select(Bot, Owner).join(Owner).order_by(Bot.id))


# ---- profile -------------------------------------------------------------------------------------
def set_profile(
    bot: Bot,
    name: str | None = None,
    bio: str | None = None,
    voice: Mapping[str, Any] | None = None,
    auto_post: bool | None = None,
    *,
    now: int,
) -> None:
    """Change the given fields. With `auto_post`, trades after `now` are posted."""
    with writing():
        # Another form may have changed the bot.
        bot = Bot.get_by_id(bot.id)
        check_present(bot.owner_id)
        change_texts(bot, name, bio, voice)
        if auto_post is not None and auto_post != bot.auto_post:
            bot.auto_post, bot.auto_post_since = auto_post, now if auto_post else None
        if bot.dirty_fields:
            if {field.name for field in bot.dirty_fields}.intersection(SAID):
                log_profile(bot, now)
            else:
                bot.save(only=bot.dirty_fields)


# The bot's self-description. The log contains a salted hash of it.
SAID = ("name", "handle", "bio", "voice", "avatar_url")


def log_profile(bot: Bot, now: int) -> None:
    """Save the bot, and log its self-description and owner, inside a transaction.

    Each leaf has its own salt. Once a salt is erased, the earlier name can't be guessed.
    """
    bot.salt = new_salt()
    bot.save(only=bot.dirty_fields)
    words = hash_words(bot.salt, *(getattr(bot, name) for name in SAID))
    owner = mark_owner(bot.uid, bot.owner.uid)
    append_leaf("profile", now, bot=bot.uid, owner=owner, words=words)


def change_texts(
    one: Bot | Trader, name: str | None, bio: str | None, voice: Mapping[str, Any] | None
) -> None:
    """Set the given texts. The current name stays valid even if it breaks a newer rule."""
    if name is not None and name.strip() != one.name:
        one.name = check_name(name)
        one.likeness = find_free_likeness(one.name, one)
    if bio is not None:
        one.bio = check_bio(bio)
    if voice is not None:
        one.voice = check_voice({**read_voice(one.voice), **voice})


def find_free_likeness(name: str, holder: Bot | Trader | None = None) -> str:
    """Return the name's likeness. Raises Problem if anyone except `holder` has it."""
    likeness = find_skeleton(name)
    for table in (Bot, Trader):
        alike = table.select().where(table.likeness == likeness)
        if isinstance(holder, table):
            alike = alike.where(table.id != holder.id)
        if alike.exists():
            raise invalid(
                "name",
                "is taken or too similar to one that is: it must differ in more than spaces,"
                " punctuation, accents and look-alike letters",
            )
    return likeness


def check_bio(text: str) -> str:
    check_size("bio", text, MAX_BIO)
    return check_line("bio", " ".join(text.split()), MAX_BIO, shortest=0)


def read_voice(text: str) -> dict[str, Any]:
    """Fill in defaults, also for a damaged voice, which its owner can rewrite."""
    return {**VOICE, **(read_stored(text, STORED_VOICE) or {})}


def check_voice(given: Mapping[str, Any]) -> str:
    if set(given) - set(VOICE):
        raise invalid("voice", f"may only contain {', '.join(VOICE)}")
    return orjson.dumps(
        {
            name: _check_words(name, given.get(name, default), default)
            for name, default in VOICE.items()
        }
    ).decode()


def _check_words(name: str, value: Any, default: Any) -> str | list[str]:
    if isinstance(default, str):
        if not isinstance(value, str):
            raise invalid(name, "must be text")
        return check_line(name, value, MAX_WORD, shortest=0) or default
    if not (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        raise invalid(name, "must be a list of texts")
    if len(value) > MAX_WORDS:
        raise invalid(name, f"must have at most {MAX_WORDS} entries")
    for word in value:
        check_size(name, word, MAX_WORD, shortest=1)
    # A seed phrase can be split across a list.
    if holds_secret(" ".join(value)):
        raise invalid(name, HOLDS_SECRET)
    return [check_line(name, word, MAX_WORD) for word in value]
