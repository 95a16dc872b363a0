"""Let agents register themselves.

A text signed by the agent's wallet creates a bot with a key, and a link that makes a human the
bot's owner. Challenges aren't stored, because a nonce contains its time of issue and is
authenticated with this instance's secret. It works once, because a wallet's next registration needs
a newer one. `now` is UTC milliseconds.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from accounts import conduct, influencers, quotas, wallets
from accounts.api_keys import NewKey, create_key, refuse_too_many, revoke_all
from accounts.fields import check_wallet, is_provable
from accounts.keys import hash_secret, is_well_formed, make_key
from accounts.owners import change_recovery_code, check_present
from accounts.problem import Problem, invalid, refuse_full
from accounts.tables import Hook, Registration
from config import Config
from models import Bot, Key, Owner, Session
from paper.tables import Backtest, Trader
from storage import writing

CHALLENGE_MS, CLAIM_MS = wallets.MINUTES * 60_000, 30 * 86_400_000
# Time of issue (ms, in 11 hex digits), 64 random bits, and half of an HMAC-SHA256 of both.
NONCE = re.compile(r"(?P<head>[0-9a-f]{11}[0-9a-f]{16})(?P<code>[0-9a-f]{32})")
# Their rows move to another owner with a claim.
OWNED = (Bot, Key, Hook, Trader, Backtest)


class RegistrationBody(BaseModel):
    """The JSON body of POST /api/v1/bots."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: str
    bio: str = ""
    voice: dict[str, Any] = Field({}, description="any fields of Voice")
    wallet: str
    signature: str = Field(description="signature of the challenge's text: base58, base64 or hex")
    nonce: str = Field(description="the challenge's")


class Challenge(NamedTuple):
    """A text to sign, and the nonce in it. Both expire at `ends_at`."""

    text: str
    nonce: str
    ends_at: int


@dataclass(frozen=True)
class Registered:
    """A bot that an agent registered. The key and the claim link's code are shown once."""

    bot: Bot
    publish_key: NewKey
    claim_code: str
    claim_ends_at: int
    is_new: bool


# ---- the challenge -------------------------------------------------------------------------------
def make_challenge(config: Config, secret: str, wallet: Any, now: int) -> Challenge:
    if not isinstance(wallet, str):
        raise invalid("wallet", "must be the wallet's address, as text")
    address = check_wallet(wallet)
    if not is_provable(address):
        raise invalid("wallet", wallets.UNPROVABLE)
    head = f"{now:011x}{secrets.token_hex(8)}"
    return _write(config, address, head + _authenticate(config, secret, address, head), now)


def check_proof(config: Config, secret: str, body: RegistrationBody, now: int) -> int:
    """Return when a registration's nonce was issued, in ms.

    Raises Problem unless this instance issued it for this wallet, it is still valid, and the wallet
    signed its text.
    """
    address, found = check_wallet(body.wallet), NONCE.fullmatch(body.nonce)
    if not found or not hmac.compare_digest(
        found["code"], _authenticate(config, secret, address, found["head"])
    ):
        raise invalid("nonce", "isn't a nonce that this instance issued for this wallet")
    given_at = int(body.nonce[:11], 16)
    if now >= given_at + CHALLENGE_MS:
        raise invalid(
            "nonce", f"has expired: a challenge works for {wallets.MINUTES} minutes; get a new one"
        )
    signature = wallets.parse_signature(body.signature)
    if signature is None:
        raise invalid("signature", "must be 64 bytes in base58, base64 or hex")
    text = _write(config, address, body.nonce, given_at).text
    if not is_provable(address) or not wallets.is_signed(address, signature, text):
        raise invalid("signature", "is not this wallet's signature of the text with this nonce")
    return given_at


def _write(config: Config, address: str, nonce: str, given_at: int) -> Challenge:
    ends_at = given_at + CHALLENGE_MS
    text = wallets.write_challenge(config.base_url, "a new bot", address, nonce, ends_at)
    return Challenge(text, nonce, ends_at)


def _authenticate(config: Config, secret: str, address: str, head: str) -> str:
    told = "\n".join(("registration", config.base_url, address, head))
    return hmac.digest(secret.encode(), told.encode(), hashlib.sha256).hex()[:32]


def name_source(secret: str, network: str) -> str:
    """Identify a network without storing it, so that the operator can find its registrations."""
    return hmac.digest(secret.encode(), f"source\n{network}".encode(), hashlib.sha256).hex()[:12]


# ---- registering ---------------------------------------------------------------------------------
def register(
    config: Config, body: RegistrationBody, source: str, given_at: int, now: int
) -> Registered:
    """Create a bot with a proven wallet, for an account that nobody can sign in to yet.

    A wallet registers one bot. Until someone claims it, registering again replaces its key and its
    claim link, so a lost response isn't a problem. `given_at` is when the nonce was issued.
    """
    address = check_wallet(body.wallet)
    with writing():
        row = Registration.get_or_none(Registration.wallet == address)
        if row:
            _check_again(row, given_at)
            revoke_all(Key.bot == row.bot, now)
            bot, key = row.bot, create_key(row.bot.owner, "publish", now, bot=row.bot)
        else:
            made = influencers.create_bot(config, body.name, now, voice=body.voice, bio=body.bio)
            bot, key = made.bot, made.publish_key
            row = Registration(bot=bot, account=made.owner, wallet=address, created_at=now)
        # A bot whose wallet was banned gets it back once the ban is lifted.
        wallets.attach_wallet(config, bot, address, now, "proven")
        code = make_key("claim")
        row.source, row.nonce_at = source, max(now, given_at)
        row.claim_hash, row.claim_ends_at = hash_secret(code), now + CLAIM_MS
        is_new = row.id is None
        row.save()
    return Registered(bot, key, code, row.claim_ends_at, is_new)


def _check_again(row: Registration, given_at: int) -> None:
    if row.claimed_at is not None:
        raise Problem(
            "wallet_taken", "this wallet already registered a bot, which its owner now manages"
        )
    if row.bot.retired_at is not None:
        raise Problem("bot_retired", "this wallet already registered a bot, which is retired")
    if given_at <= row.nonce_at:
        raise invalid("nonce", "was already used; get a new one")
    conduct.refuse_banned(row.bot.owner)


def list_registered(source: str | None = None) -> list[Registration]:
    """List registrations with their bots and owners, newest first."""
    found = Registration.select(Registration, Bot, Owner).join(Bot).join(Owner)
    found = found.order_by(Registration.id.desc())
    return list(found.where(Registration.source == source) if source else found)


# ---- claiming ------------------------------------------------------------------------------------
def find_claim(code: str, now: int) -> Registration | None:
    """Return None if the code is unknown, used or expired, or if its bot is retired."""
    if not is_well_formed(code):
        return None
    found: Registration | None = (
        Registration.select(Registration, Bot, Owner)
        .join(Bot)
        .join(Owner)
        .where(
            Registration.claim_hash == hash_secret(code),
            Registration.claim_ends_at > now,
            Bot.retired_at.is_null(),
        )
        .first()
    )
    return found


class Claimed(NamedTuple):
    """`recovery_code` is set if the account is new."""

    bot: Bot
    owner: Owner
    recovery_code: str | None


def claim(config: Config, code: str, owner: Owner | None, now: int) -> Claimed | None:
    """Redeem a claim link, which gives the bot to `owner` or, if that is None, to a new owner.

    Returns None if the link doesn't work. Raises Problem if the operator banned the bot's account,
    or if `owner` has no room for its wallets and keys.
    """
    with writing():
        row = find_claim(code, now)
        if row is None:
            return None
        conduct.refuse_banned(row.bot.owner)
        recovery_code = None
        if owner is None:
            owner = row.bot.owner
            recovery_code = change_recovery_code(owner)
        else:
            _move(config, row.bot.owner, owner, now)
        Registration.update(claim_hash=None, claim_ends_at=None, claimed_at=now).where(
            Registration.id == row.id
        ).execute()
        return Claimed(row.bot, owner, recovery_code)


def _move(config: Config, source: Owner, owner: Owner, now: int) -> None:
    check_present(owner.id)
    conduct.refuse_banned(owner)
    held = quotas.find_use(config, "wallets", source.id).used
    if held:
        refuse_full(quotas.find_use(config, "wallets", owner.id).add(held - 1), "wallet_limit")
    refuse_too_many([source, owner], now)
    moved = influencers.list_bots_of(source)
    for table in OWNED:
        table.update(owner=owner).where(table.owner == source).execute()
    kept = Owner.select(Owner.posts_bytes).where(Owner.id == source.id).scalar()
    Owner.update(posts_bytes=Owner.posts_bytes + kept).where(Owner.id == owner.id).execute()
    Owner.update(posts_bytes=0, recovery_hash=None).where(Owner.id == source.id).execute()
    Session.delete().where(Session.owner == source).execute()
    # The log contains a mark of each bot's owner.
    for bot in moved:
        influencers.log_profile(influencers.find_bot(bot.uid), now)
