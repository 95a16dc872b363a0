"""Owners, influencers, their keys and wallets: every write that makes or ends one, for the pages
and the command line alike.

Each function is one short transaction and raises Problem when it refuses; then nothing was stored.
`now` is UTC milliseconds.
"""

import base64
import re
import secrets
import unicodedata
from dataclasses import dataclass

import orjson
from peewee import JOIN

from accounts import quotas
from accounts.fields import (
    HOLDS_SECRET,
    NOBODYS,
    check_line,
    check_size,
    check_wallet,
    holds_secret,
    is_provable,
)
from accounts.keys import PREFIXES, hash_secret, make_key
from accounts.names import check_name, find_likeness
from accounts.problem import Problem, invalid, refuse_full
from chain.addresses import is_nobodys
from models import IS_PROGRAM, Address, Attachment, Bot, Key, Owner, Wallet
from paper.tables import Trader
from storage import new_uid, writing

MAX_ACTIVE_KEYS = 20
UNPROVABLE = (
    "cannot be proven: it is derived by a program (a multisig, a vault), so no key signs for it. "
    "It can be observed as a claimed wallet"
)
VOICE = {
    "tone": "plain",
    "style": [],
    "adjectives": [],
    "topics": [],
    "catchphrases": [],
    "emoji": "",
}
MAX_KEY_NAME, MAX_BIO, MAX_WORD, MAX_WORDS = 60, 500, 60, 12


@dataclass(frozen=True)
class NewKey:
    """A key just made; `text` exists nowhere else and is shown once."""

    key: Key
    text: str


@dataclass(frozen=True)
class NewBot:
    """An influencer just made with its publishing key; `recovery_code` is None where its owner
    existed before.
    """

    bot: Bot
    owner: Owner
    publish_key: NewKey
    recovery_code: str | None


# ---- owners --------------------------------------------------------------------------------------
def create_owner(now):
    """(owner, recovery code): the code exists nowhere else and is shown once."""
    code = make_recovery_code()
    return (
        Owner.create(uid=new_uid("owner"), recovery_hash=hash_recovery_code(code), created_at=now),
        code,
    )


def make_recovery_code():
    """128 random bits in base32, in groups: `ABCDE-FGHIJ-...`."""
    letters = base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=")
    return "-".join(letters[at : at + 5] for at in range(0, len(letters), 5))


def hash_recovery_code(code):
    """Spaces, hyphens and case are the writer's own."""
    return hash_secret("recovery:" + re.sub(r"[\s-]", "", code).upper())


def recover_owner(code):
    """(owner, new recovery code), or None for a code that is unknown or used. Each code works once:
    a race has one winner.
    """
    new_code = make_recovery_code()
    used, new = hash_recovery_code(code), hash_recovery_code(new_code)
    with writing():
        if not Owner.update(recovery_hash=new).where(Owner.recovery_hash == used).execute():
            return None
        return Owner.get(Owner.recovery_hash == new), new_code


def renew_recovery_code(owner, present_code):
    """Put a new recovery code in place of the present one, which must be known; None otherwise.

    A session alone is not enough: whoever stole one would own the account for good.
    """
    code, present = make_recovery_code(), hash_recovery_code(present_code)
    with writing():
        mine = (Owner.id == owner.id) & (Owner.recovery_hash == present)
        changed = Owner.update(recovery_hash=hash_recovery_code(code)).where(mine).execute()
    return code if changed else None


def replace_recovery_code(owner):
    """The operator's way out for an owner who lost the code: a new one, without the old."""
    code = make_recovery_code()
    with writing():
        replaced = hash_recovery_code(code)
        Owner.update(recovery_hash=replaced).where(Owner.id == owner.id).execute()
    return code


def find_owner(uid):
    return Owner.get_or_none(Owner.uid == uid) or _unknown("owner")


# ---- influencers ---------------------------------------------------------------------------------
def create_bot(config, name, now, wallet=None, owner=None, voice=None, bio="", uid=None):
    """A NewBot: the influencer, its publishing key and, without `owner`, a new owner. `voice` and
    `bio` as in `set_profile`; `uid`: the id it shall have if that is free.
    """
    name, bio, voice = check_name(name), check_bio(bio), check_voice(voice or {})
    address = check_wallet(wallet) if wallet is not None else None
    with writing():
        owner, code = (owner, None) if owner else create_owner(now)
        bot = Bot.create(
            uid=uid if uid and not _is_taken(uid) else new_uid("bot"),
            owner=owner,
            handle=_free_handle(name),
            name=name,
            likeness=find_free_likeness(name),
            bio=bio,
            voice=voice,
            created_at=now,
        )
        if address:
            _attach(config, bot, address, now, "claimed")
        return NewBot(bot, owner, _create_key(owner, "publish", "", now, bot=bot), code)


def find_bot(uid):
    return Bot.get_or_none(Bot.uid == uid) or _unknown("influencer")


def list_bots_of(owner):
    return list(Bot.select().where(Bot.owner == owner).order_by(Bot.id))


def list_bots():
    return list(Bot.select(Bot, Owner).join(Owner).order_by(Bot.id))


def set_profile(bot, name=None, bio=None, voice=None, auto_post=None, now=None):
    """Change what is given. `voice`: a dict of any of VOICE's names. Switched on, `auto_post`
    starts with trades after `now`.
    """
    with writing():
        if name is not None:
            rename(bot, name)
        if bio is not None:
            bot.bio = check_bio(bio)
        if voice is not None:
            bot.voice = check_voice({**orjson.loads(bot.voice), **voice})
        if auto_post is not None and auto_post != bot.auto_post:
            bot.auto_post, bot.auto_post_since = auto_post, now if auto_post else None
        if bot.dirty_fields:
            bot.save(only=bot.dirty_fields)


def rename(bot, name):
    """Give a Bot or a Trader this name. One that stays may be of before these rules."""
    if name.strip() != bot.name:
        bot.name = check_name(name)
        bot.likeness = find_free_likeness(bot.name, bot)


def find_free_likeness(name, holder=None):
    """The name's likeness; Problem where another than `holder` (a Bot or a Trader) has it."""
    likeness = find_likeness(name)
    for table in (Bot, Trader):
        alike = table.select().where(table.likeness == likeness)
        if isinstance(holder, table):
            alike = alike.where(table.id != holder.id)
        if alike.exists():
            raise invalid("name", "is taken here, or looks like one that is")
    return likeness


def check_bio(text):
    check_size("bio", text, MAX_BIO)
    return check_line("bio", " ".join(text.split()), MAX_BIO, shortest=0)


def check_voice(given):
    """The stored JSON of a voice; missing names take their default. Problem for a name or a value
    that does not belong.
    """
    unknown = set(given) - set(VOICE)
    if unknown:
        raise invalid("voice", f"has only {', '.join(VOICE)}")
    return orjson.dumps(
        {
            name: _check_words(name, given.get(name, default), default)
            for name, default in VOICE.items()
        }
    ).decode()


def _check_words(name, value, default):
    if isinstance(default, str):
        return check_line(name, value, MAX_WORD, shortest=0) or default
    if len(value) > MAX_WORDS:
        raise invalid(name, f"must have at most {MAX_WORDS} entries")
    for word in value:
        check_size(name, word, MAX_WORD, shortest=1)
    # a seed phrase, written as a list
    if holds_secret(" ".join(value)):
        raise invalid(name, HOLDS_SECRET)
    return [check_line(name, word, MAX_WORD) for word in value]


def _is_taken(uid):
    return Bot.select().where(Bot.uid == uid).exists()


def retire_bot(bot, now):
    """Revoke its keys and free its wallet; page and posts stay. Retiring twice changes nothing."""
    with writing():
        Bot.update(retired_at=now, auto_post=False).where(
            Bot.id == bot.id, Bot.retired_at.is_null()
        ).execute()
        Key.update(revoked_at=now).where(Key.bot == bot, Key.revoked_at.is_null()).execute()
        _detach(bot, now)


def _free_handle(name):
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    handle = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "bot"
    return (
        f"{handle}-{secrets.token_hex(3)}"
        if Bot.select().where(Bot.handle == handle).exists()
        else handle
    )


# ---- wallets -------------------------------------------------------------------------------------
def attach_wallet(config, bot, address, now, ownership="claimed"):
    """Give `bot` this wallet instead of the one it holds. `ownership="proven"` displaces another
    influencer's mere claim.
    """
    address = check_wallet(address)
    with writing():
        _attach(config, bot, address, now, ownership)


def detach_wallet(bot, now):
    """Free the wallet; its trades stay under the bot until another one takes it."""
    with writing():
        _detach(bot, now)


def find_attachment(bot):
    """The open attachment of a bot with its wallet, or None."""
    return (
        Attachment.select(Attachment, Wallet)
        .join(Wallet)
        .where(Attachment.bot == bot, Attachment.detached_at.is_null())
        .first()
    )


def _attach(config, bot, address, now, ownership):
    if bot.retired_at is not None:
        raise Problem("bot_retired", "a retired influencer cannot take a wallet")
    _check_address(config, address, ownership)
    held = (
        Attachment.select(Attachment, Wallet)
        .join(Wallet)
        .where(Wallet.address == address, Attachment.detached_at.is_null())
        .first()
    )
    if held and held.bot_id == bot.id:
        return _prove(held, ownership)
    if held and not (ownership == "proven" and held.ownership == "claimed"):
        raise Problem(
            "wallet_taken",
            "this wallet belongs to another influencer here",
            errors=[{"field": "wallet", "message": "belongs to another influencer"}],
        )
    _check_room_for_wallet(config, bot)
    refuse_full(quotas.find_wallet_changes(config, bot.owner_id, now))
    _detach(bot, now)
    if held:
        Attachment.update(detached_at=now).where(Attachment.id == held.id).execute()
    wallet = _watch(bot, address, now)
    Attachment.create(bot=bot, wallet=wallet, ownership=ownership, attached_at=now)
    _share_history(wallet.id, bot.id)


def _check_address(config, address, ownership):
    if is_nobodys(address, config.extra_swap_programs):
        raise invalid("wallet", NOBODYS)
    if Wallet.select().where(Wallet.address == address, Wallet.trouble == IS_PROGRAM).exists():
        raise invalid("wallet", NOBODYS)
    if ownership == "proven" and not is_provable(address):
        raise invalid("wallet", UNPROVABLE)


def _prove(held, ownership):
    if ownership == "proven":
        Attachment.update(ownership="proven").where(Attachment.id == held.id).execute()
        _share_history(held.wallet_id, held.bot_id)


def _share_history(wallet_id, bot_id):
    """Store whose the wallet's past is, now that this bot attached or proved it.

    What a bot had proven stays with it until another proof: who merely claims the wallet later
    shows what happened since its own first claim. A wallet that nobody proved goes whole.
    """
    held = Attachment.select().where(Attachment.wallet == wallet_id).order_by(Attachment.id)
    proofs = [one for one in held if one.ownership == "proven"]
    past = {"prover": None, "bot_since": None}
    if proofs and proofs[-1].bot_id != bot_id:
        claims = [one for one in held if one.bot_id == bot_id and one.id > proofs[-1].id]
        past = {"prover": proofs[-1].bot_id, "bot_since": claims[0].attached_at}
    Wallet.update(**past).where(Wallet.id == wallet_id).execute()


def _check_room_for_wallet(config, bot):
    refuse_full(quotas.find_wallets(config, bot.owner_id, bot.id), "wallet_limit")


def _watch(bot, address, now):
    """The wallet's row, held by `bot` and due at once. The observer adds the token accounts to its
    addresses.
    """
    wallet = Wallet.get_or_none(Wallet.address == address)
    if wallet:
        Wallet.update(bot=bot, due_at=0).where(Wallet.id == wallet.id).execute()
        return wallet
    wallet = Wallet.create(address=address, bot=bot, created_at=now)
    Address.create(wallet=wallet, address=address)
    return wallet


def _detach(bot, now):
    Attachment.update(detached_at=now).where(
        Attachment.bot == bot, Attachment.detached_at.is_null()
    ).execute()


# ---- keys ----------------------------------------------------------------------------------------
def create_key(owner, scope, now, name="", bot=None, expires_at=None):
    """A NewKey. A publishing key needs its bot; a read key has none."""
    name = check_line("name", name, MAX_KEY_NAME, shortest=0)
    with writing():
        return _create_key(owner, scope, name, now, bot, expires_at)


def rotate_key(key, now, overlap_ms=0):
    """Replace `key`, which ends now or works on for `overlap_ms`; return the NewKey.

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
        return _create_key(key.owner, key.scope, key.name, now, key.bot, expires_at)


def revoke_key(uid, now):
    """It ends at once, everywhere. Revoking twice changes nothing."""
    key = find_key(uid)
    Key.update(revoked_at=now).where(Key.id == key.id, Key.revoked_at.is_null()).execute()


def find_key(uid):
    return Key.get_or_none(Key.uid == uid) or _unknown("key")


def list_keys(owner=None, uses=None):
    """Keys with their owners and bots, the oldest first. `uses`: {uid: ms} of what
    ratelimit.Allowance knows of later uses.
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
        key.last_used_at = (uses or {}).get(key.uid, key.last_used_at)
    return listed


def is_active(now):
    """The condition of a key that works, as SQL."""
    return Key.revoked_at.is_null() & (Key.expires_at.is_null() | (Key.expires_at > now))


def _create_key(owner, scope, name, now, bot=None, expires_at=None):
    if bot is not None and bot.retired_at is not None:
        raise Problem("bot_retired", "a retired influencer gets no new key")
    if Key.select().where(Key.owner == owner, is_active(now)).count() >= MAX_ACTIVE_KEYS:
        raise Problem(
            "key_limit", f"an account holds at most {MAX_ACTIVE_KEYS} active keys: revoke one first"
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


def _unknown(noun):
    raise Problem("not_found", f"there is no such {noun}")
