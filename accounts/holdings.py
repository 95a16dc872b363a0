"""Which bot holds which wallets (Attachment). Each that begins or ends is logged.

All but the finders are for callers that are inside a transaction. `now` is UTC milliseconds.
"""

from typing import NamedTuple

from chain.stored.standings import forget_standings_of
from models import Address, Attachment, Bot, Wallet
from storage import database
from storage.arrivals import append_leaf


def find_attachment(bot: Bot) -> Attachment | None:
    """Return the open attachment that leads, with its wallet."""
    return next(iter(list_holdings(bot)), None)


def list_holdings(bot: Bot) -> list[Attachment]:
    """List the open attachments of a bot with their wallets: the one that leads, then the others as
    they began.
    """
    held = Attachment.select(Attachment, Wallet).join(Wallet)
    found = held.where(Attachment.bot == bot, Attachment.detached_at.is_null())
    return list(found.order_by(Attachment.attached_at, Attachment.id))


def find_holder(address: str) -> Attachment | None:
    """Return the open attachment of a wallet, with the wallet, or None."""
    held = Attachment.select(Attachment, Wallet).join(Wallet)
    found: Attachment | None = held.where(
        Wallet.address == address, Attachment.detached_at.is_null()
    ).first()
    return found


# ---- begin and end -------------------------------------------------------------------------------
def begin(bot: Bot, address: str, ownership: str, now: int) -> None:
    """Have a bot hold a wallet that nobody holds."""
    wallet = _watch(bot, address, now)
    Attachment.create(bot=bot, wallet=wallet, ownership=ownership, attached_at=now)
    append_leaf("attachment", now, bot=bot.uid, wallet=address, ownership=ownership)
    share_history(wallet.id, bot.id)
    forget_standings_of(wallet.id)


def end(held: Attachment, now: int) -> None:
    """End an attachment; the wallet is due for a last poll."""
    Attachment.update(detached_at=now).where(Attachment.id == held.id).execute()
    Wallet.update(closing_at=now, due_at=0).where(Wallet.id == held.wallet_id).execute()
    append_leaf("detachment", now, bot=held.bot.uid, wallet=held.wallet.address)


def _watch(bot: Bot, address: str, now: int) -> Wallet:
    """Return the wallet's row, held by `bot` and due at once.

    The observer adds its token accounts to the addresses.
    """
    wallet: Wallet | None = Wallet.get_or_none(Wallet.address == address)
    if wallet:
        Wallet.update(bot=bot, due_at=0, closing_at=None).where(Wallet.id == wallet.id).execute()
        return wallet
    wallet = Wallet.create(address=address, bot=bot, created_at=now)
    Address.create(wallet=wallet, address=address)
    return wallet


# ---- whose the past is ---------------------------------------------------------------------------
class HeldRow(NamedTuple):
    """Which bot held a wallet, as what, and from when in ms."""

    bot_id: int
    ownership: str
    attached_at: int


# The one that is open last, whatever the clock said when it began.
HELD = """
SELECT bot_id, ownership, attached_at FROM attachment WHERE wallet_id = ?
ORDER BY detached_at IS NULL, attached_at, id"""


def share_history(wallet_id: int, bot_id: int) -> None:
    """Store which bot's the wallet's past trades are, now that this bot attached or proved it.

    A bot that merely claims a wallet that another one held shows what happened since its first
    claim. What was before stays, until another proof, with the bot that proved the wallet; where
    none did, with the one that held it first.
    """
    rows = database.execute_sql(HELD, (wallet_id,)).fetchall()
    held = [HeldRow._make(row) for row in rows]
    proofs = [place for place, one in enumerate(held) if one.ownership == "proven"]
    begin = proofs[-1] if proofs else 0
    past: dict[str, int | None] = {"earlier_bot": None, "bot_since": None}
    if held[begin].bot_id != bot_id:
        claims = [one for one in held[begin:] if one.bot_id == bot_id]
        past = {"earlier_bot": held[begin].bot_id, "bot_since": claims[0].attached_at}
    Wallet.update(**past).where(Wallet.id == wallet_id).execute()
