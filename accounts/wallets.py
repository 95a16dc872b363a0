"""Attach wallets to bots, prove, add and detach them.

Each public function is one short transaction and raises Problem when it refuses; then nothing was
stored. `attach`, `detach` and `give_up` are for callers that are inside one. `now` is UTC
milliseconds.
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
    "cannot be proven: it is derived by a program (a multisig, a vault), so no key signs for it. "
    "It can be observed as a claimed wallet"
)
CLAIMED_FIRST = (
    "the wallet that this bot holds is only claimed; prove that one first, then add others"
)
SEVERAL = (
    "this bot holds several wallets, and each of those is proven: prove this one, too, or detach "
    "the others first"
)


def attach_wallet(
    config: Config, bot: Bot, address: str, now: int, ownership: str = "claimed"
) -> None:
    """Give `bot` this wallet instead of the one that leads. It keeps its other wallets; the first
    of them leads.

    `ownership`: `claimed`, or `proven`, which displaces another bot's mere claim.
    """
    address = check_wallet(address)
    with writing():
        attach(config, bot, address, now, ownership)


def add_wallet(config: Config, bot: Bot, address: str, now: int) -> None:
    """Give `bot` one more wallet, which was proven."""
    address = check_wallet(address)
    with writing():
        attach(config, bot, address, now, "proven", is_added=True)


def remove_wallet(bot: Bot, address: str, now: int) -> None:
    """Free one of the bot's wallets. If it led, the next one leads from now on."""
    with writing():
        held = find_holder(address)
        if held is None or held.bot_id != bot.id:
            refuse_unknown("wallet of this bot")
        give_up(held, now)


def detach_wallet(bot: Bot, now: int) -> None:
    """Free all wallets of a bot; their trades stay under it until another one takes them."""
    with writing():
        detach(bot, now)


def attach(
    config: Config, bot: Bot, address: str, now: int, ownership: str, is_added: bool = False
) -> None:
    """As `attach_wallet`, inside a transaction and for an address that was checked; `is_added`: as
    `add_wallet`.
    """
    # Asked again: it may have been retired since it was read.
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
    # Also one that another bot of the owner's gives up: it moves.
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
    """As `detach_wallet`, inside a transaction."""
    forget_standings([bot.id])
    for held in list_holdings(bot):
        end(held, now)


def give_up(held: Attachment, now: int) -> None:
    """As `remove_wallet`, inside a transaction."""
    forget_standings([held.bot_id])
    end(held, now)


def _check_company(bot: Bot, lead: Attachment | None, ownership: str, is_added: bool) -> None:
    """Refuse several wallets if one of them is merely claimed."""
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
    # Trades of an earlier bot are this bot's from now on, so judge its posts about them again.
    verify_posts(held.wallet, (), now)
    forget_standings_of(held.wallet_id)
