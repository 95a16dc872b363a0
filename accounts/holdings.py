"""Which bot has which wallets (Attachment). Every start and end is logged.

All but the finders must run inside the caller's transaction. `now` is UTC milliseconds.
"""

from chain.stored.attachments import HOLDERS, Holder, find_past
from chain.stored.standings import forget_standings_of
from models import Address, Attachment, Bot, Wallet
from storage import database
from storage.arrivals import append_leaf


def find_attachment(bot: Bot) -> Attachment | None:
    """Return the bot's primary open attachment, with its wallet."""
    return next(iter(list_holdings(bot)), None)


def list_holdings(bot: Bot) -> list[Attachment]:
    """List a bot's open attachments with their wallets, oldest first; the first is the primary."""
    held = Attachment.select(Attachment, Wallet).join(Wallet)
    found = held.where(Attachment.bot == bot, Attachment.detached_at.is_null())
    return list(found.order_by(Attachment.attached_at, Attachment.id))


def find_holder(address: str) -> Attachment | None:
    """Return a wallet's open attachment, with the wallet, or None."""
    held = Attachment.select(Attachment, Wallet).join(Wallet)
    found: Attachment | None = held.where(
        Wallet.address == address, Attachment.detached_at.is_null()
    ).first()
    return found


# ---- begin and end -------------------------------------------------------------------------------
def begin(bot: Bot, address: str, ownership: str, now: int) -> None:
    """Attach a wallet that no bot has."""
    wallet = _watch(bot, address, now)
    Attachment.create(bot=bot, wallet=wallet, ownership=ownership, attached_at=now)
    append_leaf("attachment", now, bot=bot.uid, wallet=address, ownership=ownership)
    share_history(wallet.id, bot.id)
    forget_standings_of(wallet.id)


def end(held: Attachment, now: int) -> None:
    """End an attachment and schedule a last poll of its wallet."""
    Attachment.update(detached_at=now).where(Attachment.id == held.id).execute()
    Wallet.update(closing_at=now, due_at=0).where(Wallet.id == held.wallet_id).execute()
    append_leaf("detachment", now, bot=held.bot.uid, wallet=held.wallet.address)


def _watch(bot: Bot, address: str, now: int) -> Wallet:
    """Return the wallet's row, assigned to `bot` and due now.

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
# The open attachment last, whatever the clock said when it began.
OPEN_LAST = f"{HOLDERS.format(wallet='?')} ORDER BY detached_at IS NULL, attached_at, id"


def share_history(wallet_id: int, bot_id: int) -> None:
    """Store which bot owns the wallet's past trades, now that this bot attached or proved it."""
    rows = database.execute_sql(OPEN_LAST, (wallet_id,)).fetchall()
    past = find_past([Holder._make(row) for row in rows], bot_id)
    bot, until = past or (None, None)
    Wallet.update(earlier_bot=bot, bot_since=until).where(Wallet.id == wallet_id).execute()
