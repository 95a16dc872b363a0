"""Attach wallets to bots, prove and detach them.

Each public function is one short transaction and raises Problem when it refuses; then nothing was
stored. `attach` and `detach` are for callers that are inside one. `now` is UTC milliseconds.
"""

from accounts import conduct, quotas
from accounts.fields import NOBODYS, check_wallet, is_provable
from accounts.problem import Problem, invalid, refuse_full
from chain.addresses import is_nobodys
from chain.programs import table
from chain.standing_store import forget_standings, forget_standings_of
from config import Config
from models import IS_PROGRAM, Address, Attachment, Bot, Wallet
from storage import writing
from storage.arrivals import append_leaf

UNPROVABLE = (
    "cannot be proven: it is derived by a program (a multisig, a vault), so no key signs for it. "
    "It can be observed as a claimed wallet"
)


def attach_wallet(
    config: Config, bot: Bot, address: str, now: int, ownership: str = "claimed"
) -> None:
    """Give `bot` this wallet instead of the one it holds.

    `ownership`: `claimed`, or `proven`, which displaces another bot's mere claim.
    """
    address = check_wallet(address)
    with writing():
        attach(config, bot, address, now, ownership)


def detach_wallet(bot: Bot, now: int) -> None:
    """Free the wallet; its trades stay under the bot until another one takes it."""
    with writing():
        detach(bot, now)


def find_attachment(bot: Bot) -> Attachment | None:
    """Return the open attachment of a bot, with its wallet."""
    found: Attachment | None = (
        Attachment.select(Attachment, Wallet)
        .join(Wallet)
        .where(Attachment.bot == bot, Attachment.detached_at.is_null())
        .first()
    )
    return found


def attach(config: Config, bot: Bot, address: str, now: int, ownership: str) -> None:
    """As `attach_wallet`, inside a transaction and for an address that was checked."""
    if bot.retired_at is not None:
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
    refuse_full(quotas.find_wallets(config, bot.owner_id, bot.id), "wallet_limit")
    refuse_full(quotas.find_wallet_changes(config, bot.owner_id, now))
    detach(bot, now)
    if held:
        _end(held, now)
    wallet = _watch(bot, address, now)
    Attachment.create(bot=bot, wallet=wallet, ownership=ownership, attached_at=now)
    append_leaf("attachment", now, bot=bot.uid, wallet=address, ownership=ownership)
    _share_history(wallet.id, bot.id)
    forget_standings_of(wallet.id)


def detach(bot: Bot, now: int) -> None:
    """As `detach_wallet`, inside a transaction."""
    forget_standings([bot.id])
    held = find_attachment(bot)
    if held:
        _end(held, now)


def _end(held: Attachment, now: int) -> None:
    """End an attachment; the wallet is due for a last look."""
    Attachment.update(detached_at=now).where(Attachment.id == held.id).execute()
    Wallet.update(closing_at=now, due_at=0).where(Wallet.id == held.wallet_id).execute()
    append_leaf("detachment", now, bot=held.bot.uid, wallet=held.wallet.address)


def find_holder(address: str) -> Attachment | None:
    """Return the open attachment of a wallet, or None where nobody holds it."""
    found: Attachment | None = (
        Attachment.select(Attachment, Wallet)
        .join(Wallet)
        .where(Wallet.address == address, Attachment.detached_at.is_null())
        .first()
    )
    return found


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
    if ownership == "proven":
        Attachment.update(ownership="proven").where(Attachment.id == held.id).execute()
        if held.ownership != "proven":
            append_leaf(
                "attachment",
                now,
                bot=held.bot.uid,
                wallet=held.wallet.address,
                ownership="proven",
            )
        _share_history(held.wallet_id, held.bot_id)
        forget_standings([held.bot_id])


def _share_history(wallet_id: int, bot_id: int) -> None:
    """Store which bot's the wallet's past trades are, now that this bot attached or proved it.

    What a bot has proven stays with it until another proof: a bot that merely claims the wallet
    later shows what happened since its first claim. A wallet that nobody proved goes whole.
    """
    held = Attachment.select().where(Attachment.wallet == wallet_id).order_by(Attachment.id)
    proofs = [one for one in held if one.ownership == "proven"]
    past: dict[str, int | None] = {"prover": None, "bot_since": None}
    if proofs and proofs[-1].bot_id != bot_id:
        claims = [one for one in held if one.bot_id == bot_id and one.id > proofs[-1].id]
        past = {"prover": proofs[-1].bot_id, "bot_since": claims[0].attached_at}
    Wallet.update(**past).where(Wallet.id == wallet_id).execute()


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
