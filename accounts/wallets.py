"""Attach, prove, add and detach bots' wallets.

Each public function is one short transaction that raises Problem and rolls back if it refuses.
`attach`, `detach` and `give_up` run inside the caller's. `now` is UTC milliseconds.
"""

from accounts import conduct, quotas
from accounts.fields import NOBODYS, check_wallet, is_provable
from accounts.holdings import (
    begin,
    end,
    find_attachment,
    find_holder,
    list_holdings,
    share_history,
)
from accounts.problem import Problem, invalid, refuse_full, refuse_unknown
from accounts.verification import verify_posts
from chain.addresses import is_nobodys
from chain.reading.programs import table
from chain.stored.standings import forget_standings, forget_standings_of
from config import Config
from models import IS_PROGRAM, Attachment, Bot, Wallet
from storage import writing
from storage.arrivals import append_leaf

UNPROVABLE = (
    "cannot be proven: it belongs to a program (a multisig, a vault), so no key signs for it. You "
    "can connect it as a claimed wallet"
)
CLAIMED_FIRST = "this bot’s current wallet is only claimed; prove that one first, then add others"
SEVERAL = (
    "this bot has several wallets, and all of them are proven: prove this one too, or disconnect "
    "the others first"
)


def attach_wallet(
    config: Config, bot: Bot, address: str, now: int, ownership: str = "claimed"
) -> None:
    """Replace the bot's primary wallet. Its other wallets stay, and the first of them becomes the
    primary.

    `ownership`: `claimed`, or `proven`, which takes the wallet from a bot that only claimed it.
    """
    address = check_wallet(address)
    with writing():
        attach(config, bot, address, now, ownership)


def add_wallet(config: Config, bot: Bot, address: str, now: int) -> None:
    """Add a proven wallet to the bot."""
    address = check_wallet(address)
    with writing():
        attach(config, bot, address, now, "proven", is_added=True)


def remove_wallet(bot: Bot, address: str, now: int) -> None:
    """Detach one of the bot's wallets. If it was the primary, the next one takes over."""
    with writing():
        held = find_holder(address)
        if held is None or held.bot_id != bot.id:
            refuse_unknown("wallet of this bot")
        give_up(held, now)


def detach_wallet(bot: Bot, now: int) -> None:
    """Detach all of a bot's wallets. Their trades stay with it until another bot attaches them."""
    with writing():
        detach(bot, now)


def attach(
    config: Config, bot: Bot, address: str, now: int, ownership: str, is_added: bool = False
) -> None:
    """Like `attach_wallet`, inside a transaction and with a checked address. `is_added`: like
    `add_wallet`.
    """
    # Read again: the bot may have been retired since the caller loaded it.
    if not Bot.select().where(Bot.id == bot.id, Bot.retired_at.is_null()).exists():
        raise Problem("bot_retired", "a retired bot cannot take a wallet")
    _check_address(config, address, ownership)
    held = find_holder(address)
    if held and held.bot_id == bot.id:
        _prove(held, ownership, now)
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
    # Also counts a wallet that moves from another bot of the same owner.
    given_up = [one for one in (replaced, held) if one and one.bot.owner_id == bot.owner_id]
    used = quotas.find_wallets(config, bot.owner_id, len(given_up))
    refuse_full(used, "wallet_limit")
    refuse_full(quotas.find_wallet_changes(config, bot.owner_id, now))
    forget_standings([bot.id])
    for one in (replaced, held):
        if one:
            give_up(one, now)
    begin(bot, address, ownership, now)


def detach(bot: Bot, now: int) -> None:
    """Like `detach_wallet`, inside a transaction."""
    forget_standings([bot.id])
    for held in list_holdings(bot):
        end(held, now)


def give_up(held: Attachment, now: int) -> None:
    """Like `remove_wallet`, inside a transaction."""
    forget_standings([held.bot_id])
    end(held, now)


def _check_company(bot: Bot, lead: Attachment | None, ownership: str, is_added: bool) -> None:
    """Require every wallet to be proven if the bot has several."""
    if is_added and lead and lead.ownership != "proven":
        raise invalid("wallet", CLAIMED_FIRST)
    if ownership != "proven" and len(list_holdings(bot)) > 1:
        raise invalid("wallet", SEVERAL)


def _check_address(config: Config, address: str, ownership: str) -> None:
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


def _prove(held: Attachment, ownership: str, now: int) -> None:
    if ownership != "proven":
        return
    if held.ownership != "proven":
        Attachment.update(ownership="proven").where(Attachment.id == held.id).execute()
        append_leaf(
            "attachment", now, bot=held.bot.uid, wallet=held.wallet.address, ownership="proven"
        )
    share_history(held.wallet_id, held.bot_id)
    # An earlier bot's trades are now this bot's, so verify its posts about them again.
    verify_posts(held.wallet, (), now)
    forget_standings_of(held.wallet_id)
