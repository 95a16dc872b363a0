"""Which bot holds which wallets: one that leads (Attachment), under which its results stand, and
those beside it (Companion). Each that begins or ends is logged.

All but the finders are for callers that are inside a transaction. `now` is UTC milliseconds.
"""

from typing import NamedTuple

from chain.stored.group_tables import Companion
from chain.stored.standings import forget_standings_of
from models import Address, Attachment, Bot, Wallet
from storage import database
from storage.arrivals import append_leaf

Holding = Attachment | Companion


def find_attachment(bot: Bot) -> Attachment | None:
    """Return the open attachment of a bot, with its wallet: the one that leads."""
    found: Attachment | None = (
        Attachment.select(Attachment, Wallet)
        .join(Wallet)
        .where(Attachment.bot == bot, Attachment.detached_at.is_null())
        .first()
    )
    return found


def list_companions(bot: Bot) -> list[Companion]:
    """List what a bot holds beside the wallet that leads, the oldest first, with their wallets."""
    beside = Companion.select(Companion, Wallet).join(Wallet)
    held = beside.where(Companion.bot == bot, Companion.detached_at.is_null())
    return list(held.order_by(Companion.attached_at, Companion.id))


def list_holdings(bot: Bot) -> list[Holding]:
    """List all that a bot holds, the one that leads first."""
    lead = find_attachment(bot)
    return [lead, *list_companions(bot)] if lead else []


def find_holder(address: str) -> Holding | None:
    """Return what is open of a wallet, with the wallet, or None where nobody holds it."""
    for table in (Attachment, Companion):
        held = table.select(table, Wallet).join(Wallet)
        found: Holding | None = held.where(
            Wallet.address == address, table.detached_at.is_null()
        ).first()
        if found:
            return found
    return None


# ---- begin and end -------------------------------------------------------------------------------
def begin(bot: Bot, address: str, ownership: str, now: int) -> None:
    """Have a bot hold a wallet that nobody holds: as the one that leads, or beside that."""
    wallet, leads = _watch(bot, address, now), find_attachment(bot) is None
    if leads:
        Attachment.create(bot=bot, wallet=wallet, ownership=ownership, attached_at=now)
    else:
        Companion.create(bot=bot, wallet=wallet, attached_at=now)
    append_leaf("attachment", now, bot=bot.uid, wallet=address, ownership=ownership)
    share_history(wallet.id, bot.id)
    forget_standings_of(wallet.id)


def end(held: Holding, now: int) -> None:
    """End a holding; the wallet is due for a last poll."""
    table = type(held)
    table.update(detached_at=now).where(table.id == held.id).execute()
    Wallet.update(closing_at=now, due_at=0).where(Wallet.id == held.wallet_id).execute()
    append_leaf("detachment", now, bot=held.bot.uid, wallet=held.wallet.address)


def hand_over(bot: Bot, now: int) -> None:
    """Have the oldest wallet of a bot lead the others, where none leads any more."""
    beside = list_companions(bot)
    for held in beside:
        end(held, now)
    for held in beside:
        begin(bot, held.wallet.address, "proven", now)


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
SELECT bot_id, ownership, attached_at FROM (
    SELECT id, bot_id, ownership, attached_at, detached_at, 1 AS leads
    FROM attachment WHERE wallet_id = ?
    UNION ALL SELECT id, bot_id, 'proven', attached_at, detached_at, 0
    FROM companion WHERE wallet_id = ?) h
ORDER BY detached_at IS NULL, attached_at, leads, id"""


def share_history(wallet_id: int, bot_id: int) -> None:
    """Store which bot's the wallet's past trades are, now that this bot attached or proved it.

    A bot that merely claims a wallet that another one held shows what happened since its first
    claim. What was before stays, until another proof, with the bot that proved the wallet; where
    none did, with the one that held it first.
    """
    rows = database.execute_sql(HELD, (wallet_id, wallet_id)).fetchall()
    held = [HeldRow._make(row) for row in rows]
    proofs = [place for place, one in enumerate(held) if one.ownership == "proven"]
    begin = proofs[-1] if proofs else 0
    past: dict[str, int | None] = {"earlier_bot": None, "bot_since": None}
    if held[begin].bot_id != bot_id:
        claims = [one for one in held[begin:] if one.bot_id == bot_id]
        past = {"earlier_bot": held[begin].bot_id, "bot_since": claims[0].attached_at}
    Wallet.update(**past).where(Wallet.id == wallet_id).execute()
