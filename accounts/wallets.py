"""Attach, prove, add and detach bots' wallets. Every start and end of an Attachment is logged.

The proof is a text signed with the wallet's key (Ed25519), so secrets never leave the wallet. Each
public function is one short transaction that raises Problem and rolls back if the change isn't
allowed. `give_up` runs inside the caller's transaction. `now` is UTC milliseconds.
"""

import base64
import datetime
import struct
from functools import partial

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from accounts import conduct, quotas
from accounts.fields import NOBODYS, check_wallet, is_provable
from accounts.problem import Problem, invalid, refuse_full
from accounts.verification import verify_posts
from chain import addresses
from chain.reading.programs import is_nobodys, table
from chain.stored.attachments import HOLDERS, Holder, find_past
from chain.stored.standings import forget_standings, forget_standings_of
from config import Config
from models import IS_PROGRAM, Address, Attachment, Bot, Wallet
from storage import database, writing
from storage.log import append_leaf


# ---- attachments ---------------------------------------------------------------------------------
def find_attachment(bot: Bot) -> Attachment | None:
    return next(iter(list_holdings(bot)), None)


def list_holdings(bot: Bot) -> list[Attachment]:
    """List open attachments with their wallets, oldest first. The first one is the primary."""
    held = Attachment.select(Attachment, Wallet).join(Wallet)
    found = held.where(Attachment.bot == bot, Attachment.detached_at.is_null())
    return list(found.order_by(Attachment.attached_at, Attachment.id))


def find_holder(address: str) -> Attachment | None:
    held = Attachment.select(Attachment, Wallet).join(Wallet)
    found: Attachment | None = held.where(
        Wallet.address == address, Attachment.detached_at.is_null()
    ).first()
    return found


# ---- begin and end -------------------------------------------------------------------------------
def begin(bot: Bot, address: str, ownership: str, now: int) -> None:
    wallet = _watch(bot, address, now)
    Attachment.create(bot=bot, wallet=wallet, ownership=ownership, attached_at=now)
    append_leaf("attachment", now, bot=bot.uid, wallet=address, ownership=ownership)
    share_history(wallet.id, bot.id)
    forget_standings_of(wallet.id)


def give_up(held: Attachment, now: int) -> None:
    """Detach a wallet inside the caller's transaction."""
    forget_standings([held.bot_id])
    Attachment.update(detached_at=now).where(Attachment.id == held.id).execute()
    Wallet.update(closing_at=now, due_at=0).where(Wallet.id == held.wallet_id).execute()
    append_leaf("detachment", now, bot=held.bot.uid, wallet=held.wallet.address)


def _watch(bot: Bot, address: str, now: int) -> Wallet:
    wallet: Wallet | None = Wallet.get_or_none(Wallet.address == address)
    if wallet:
        Wallet.update(bot=bot, due_at=0, closing_at=None).where(Wallet.id == wallet.id).execute()
        return wallet
    wallet = Wallet.create(address=address, bot=bot, created_at=now)
    Address.create(wallet=wallet, address=address)
    return wallet


# ---- whose the past is ---------------------------------------------------------------------------
# The open attachment comes last, no matter what the clock said when it began.
OPEN_LAST = f"{HOLDERS.format(wallet='?')} ORDER BY detached_at IS NULL, attached_at, id"


def share_history(wallet_id: int, bot_id: int) -> None:
    """Store which bot owns the wallet's past trades, after this bot attached or proved it."""
    rows = database.execute_sql(OPEN_LAST, (wallet_id,)).fetchall()
    past = find_past([Holder._make(row) for row in rows], bot_id)
    bot, until = past or (None, None)
    Wallet.update(earlier_bot=bot, bot_since=until).where(Wallet.id == wallet_id).execute()


# ---- proof of ownership --------------------------------------------------------------------------
MINUTES = 5
SIGNATURE_BYTES = 64
# 128 characters in hex.
MAX_SIGNATURE_TEXT = 200
# Prefix of Solana's off-chain messages. Transactions never start with it.
SIGNING_DOMAIN = b"\xffsolana offchain"
# Printable ASCII and UTF-8.
FORMATS = (0, 1)


def write_challenge(base_url: str, bot: str, wallet: str, nonce: str, ends_at: int) -> str:
    """Return one line of printable ASCII for hardware wallets. `ends_at`: ms."""
    until = datetime.datetime.fromtimestamp(ends_at // 1000, datetime.UTC).isoformat()[:19]
    return (
        f"I own this Solana wallet and connect it to {bot} at {base_url}. Wallet {wallet}. Nonce"
        f" {nonce}. Valid until {until}Z."
    )


def parse_signature(text: str) -> bytes | None:
    text = text.strip()
    if len(text) > MAX_SIGNATURE_TEXT:
        return None
    if addresses.is_base58(text, SIGNATURE_BYTES):
        return addresses.b58decode(text)
    for decode in (bytes.fromhex, partial(base64.b64decode, validate=True)):
        try:
            raw = decode(text)
        except ValueError:
            continue
        if len(raw) == SIGNATURE_BYTES:
            return raw
    return None


def is_signed(address: str, signature: bytes, text: str) -> bool:
    key = VerifyKey(addresses.b58decode(address))
    return any(
        _verifies(key, signature, message)
        for message in list_forms(addresses.b58decode(address), text.encode())
    )


def list_forms(signer: bytes, text: bytes) -> list[bytes]:
    """List the messages that wallets may sign for a text.

    They are the plain text, Solana's off-chain message as `solana sign-offchain-message` writes it,
    and the off-chain message as specified, with an empty application domain and one signer
    (docs.anza.xyz, proposals/off-chain-message-signing).
    """
    length = struct.pack("<H", len(text))
    short = [SIGNING_DOMAIN + bytes((0, form)) + length + text for form in FORMATS]
    full = [
        SIGNING_DOMAIN + b"\0" + bytes(32) + bytes((form, 1)) + signer + length + text
        for form in FORMATS
    ]
    return [text, *short, *full]


def _verifies(key: VerifyKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(message, signature)
    except BadSignatureError:
        return False
    return True


# ---- connecting ----------------------------------------------------------------------------------
UNPROVABLE = (
    "cannot be proven: this address belongs to a program (a multisig, a vault), so no key can "
    "sign for it. You "
    "can connect it as a claimed wallet"
)
CLAIMED_FIRST = "this bot's current wallet is only claimed; prove it first, then add others"
SEVERAL = (
    "this bot has several wallets, all of them proven: prove this one too, or disconnect the others"
    " first"
)


def attach_wallet(
    config: Config,
    bot: Bot,
    address: str,
    now: int,
    ownership: str = "claimed",
    is_added: bool = False,
) -> None:
    """Replace the bot's primary wallet, or add another one (`is_added`).

    Other wallets stay, and the first of them becomes the primary. `ownership` is `claimed` or
    `proven`. A proof takes the wallet from a bot that only claimed it.
    """
    address = check_wallet(address)
    with writing():
        # The bot may have been retired since the caller loaded it.
        if not Bot.select().where(Bot.id == bot.id, Bot.retired_at.is_null()).exists():
            raise Problem("bot_retired", "a retired bot can't connect a wallet")
        check_address(config, address, ownership)
        held = find_holder(address)
        if held and held.bot_id == bot.id:
            if ownership == "proven":
                _prove(held, now)
            return
        if held and not (ownership == "proven" and held.ownership == "claimed"):
            raise Problem(
                "wallet_taken",
                "this wallet is already connected to another bot",
                errors=[{"field": "wallet", "message": "belongs to another bot"}],
            )
        lead = find_attachment(bot)
        _check_company(bot, lead, ownership, is_added)
        replaced = None if is_added else lead
        # Also count a wallet that moves from another bot of the same owner.
        given_up = [one for one in (replaced, held) if one and one.bot.owner_id == bot.owner_id]
        used = quotas.find_use(config, "wallets", bot.owner_id).add(-len(given_up))
        refuse_full(used, "wallet_limit")
        refuse_full(quotas.find_use(config, "wallet_changes_per_day", bot.owner_id, now))
        forget_standings([bot.id])
        for one in (replaced, held):
            if one:
                give_up(one, now)
        begin(bot, address, ownership, now)


def add_wallet(config: Config, bot: Bot, address: str, now: int) -> None:
    attach_wallet(config, bot, address, now, "proven", is_added=True)


def remove_wallet(bot: Bot, address: str, now: int) -> None:
    """Detach one of the bot's wallets. If it was the primary, the next one takes over."""
    with writing():
        held = find_holder(address)
        if held is None or held.bot_id != bot.id:
            raise Problem("not_found", "this bot doesn't have that wallet")
        give_up(held, now)


def detach_wallet(bot: Bot, now: int) -> None:
    """Detach all wallets. Their trades stay with the bot until another bot attaches the wallets."""
    with writing():
        for held in list_holdings(bot):
            give_up(held, now)


def _check_company(bot: Bot, lead: Attachment | None, ownership: str, is_added: bool) -> None:
    if is_added and lead and lead.ownership != "proven":
        raise invalid("wallet", CLAIMED_FIRST)
    if ownership != "proven" and len(list_holdings(bot)) > 1:
        raise invalid("wallet", SEVERAL)


def check_address(config: Config, address: str, ownership: str) -> None:
    if is_nobodys(address, table(config.extra_swap_programs, config.added_programs)):
        raise invalid("wallet", NOBODYS)
    if Wallet.select().where(Wallet.address == address, Wallet.trouble == IS_PROGRAM).exists():
        raise invalid("wallet", NOBODYS)
    if ownership == "proven" and not is_provable(address):
        raise invalid("wallet", UNPROVABLE)
    banned = conduct.find_ban("wallet", address)
    if banned is not None:
        told = f"the operator of this instance banned this wallet: {banned}"
        raise Problem("wallet_banned", told, errors=[{"field": "wallet", "message": told}])


def _prove(held: Attachment, now: int) -> None:
    if held.ownership != "proven":
        Attachment.update(ownership="proven").where(Attachment.id == held.id).execute()
        append_leaf(
            "attachment", now, bot=held.bot.uid, wallet=held.wallet.address, ownership="proven"
        )
    share_history(held.wallet_id, held.bot_id)
    # An earlier bot's trades are now this bot's, so verify this bot's posts about them again.
    verify_posts(held.wallet, (), now)
    forget_standings_of(held.wallet_id)
