"""Bring an archive of another instance to this one: bots and paper traders anew, for a new owner.

Nothing of it is believed that could make a record: posts have the time of the import and `pending`
as any other, a wallet is claimed from now on, accounts begin anew, followers are told nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from accounts import influencers, owners, traders
from accounts.archive_reading import (
    Archive,
    BadArchive,
    GivenBot,
    GivenPost,
    GivenTrader,
    list_posts,
)
from accounts.archives import BOTS, TRADERS
from accounts.holdings import find_attachment
from accounts.names import check_name
from accounts.posts import count_posts_bytes, log_post, measure_post
from accounts.problem import Problem
from accounts.tables import IMPORTED
from config import Config, lift_quotas
from models import Bot, Owner, Post
from paper.tables import ImportedTrader
from storage import database, new_uid, store_row, writing
from storage.arrivals import new_salt

ORIGIN = (
    "INSERT INTO imported_post (post_id, original_uid, original_at, instance) VALUES (?, ?, ?, ?)"
)


class ImportedBot(NamedTuple):
    """A bot as it is here. `publish_key` is stored nowhere; `wallet`: the one it claims now."""

    uid: str
    name: str
    wallet: str | None
    publish_key: str | None


class MovedTrader(NamedTuple):
    """A paper trader as it is here."""

    uid: str
    name: str
    is_retired: bool


class Imported(NamedTuple):
    """What an import made; `recovery_code` is stored nowhere."""

    owner: str
    recovery_code: str
    bots: list[ImportedBot]
    traders: list[MovedTrader]
    posts: int


def store_archive(
    config: Config,
    archive: Archive,
    now: int,
    names: Mapping[str, str] | None = None,
    with_wallets: bool = True,
    with_traders: bool = True,
) -> Imported:
    """Store a checked archive in one transaction: all of it or nothing.

    `names`: {id of a bot or trader of the archive: another name}. BadArchive where a name is taken
    here, a wallet is held by another bot, or a trader cannot play here. Of the quotas only that of
    traders counts: each costs every tick of paper mode.
    """
    names = names or {}
    known = {bot.uid for bot in archive.bots} | {trader.uid for trader in archive.traders}
    unknown = set(names) - known
    if unknown:
        raise BadArchive(f"the archive has no {sorted(unknown)[0][:40]!a} to rename")
    with writing():
        owner, code = owners.create_owner(now)
        made = {
            bot.uid: _store_bot(lift_quotas(config), bot, owner, now, names, with_wallets)
            for bot in archive.bots
        }
        held = {uid: _find_wallet(one.bot) for uid, one in made.items()}
        count = 0
        for post in list_posts(archive):
            _store_post(made[post.bot].bot, post, held[post.bot], now)
            count += 1
        for bot in archive.bots:
            if bot.is_retired:
                influencers.retire_bot(made[bot.uid].bot, now)
        shown = [_show(one, bot, held[bot.uid]) for bot in archive.bots for one in [made[bot.uid]]]
        moved = [
            _store_trader(config, one, owner, now, names)
            for one in (archive.traders if with_traders else ())
        ]
    return Imported(owner.uid, code, shown, moved, count)


def check_names(given: list[str]) -> dict[str, str]:
    """Read `ID=NAME` pairs. Problem where one is not such a pair, or the name could deceive."""
    pairs = [one.partition("=") for one in given]
    if not all(uid and sign for uid, sign, _ in pairs):
        raise Problem("validation_failed", "--rename wants ID=NAME, with an id of the archive")
    return {uid: check_name(name) for uid, _, name in pairs}


def _store_bot(
    config: Config,
    given: GivenBot,
    owner: Owner,
    now: int,
    names: Mapping[str, str],
    with_wallets: bool,
) -> influencers.NewBot:
    name, wallet = names.get(given.uid, given.name), given.wallet if with_wallets else None
    try:
        return influencers.create_bot(
            config, name, now, wallet, owner, voice=given.voice, bio=given.bio
        )
    except Problem as problem:
        fields = {one["field"] for one in problem.errors}
        way = f": --rename {given.uid}=NAME" if "name" in fields else ""
        way = ": --without-wallets leaves them out" if "wallet" in fields else way
        raise BadArchive(f"{BOTS}, line {given.line}: {problem.detail}{way}") from None


def _find_wallet(bot: Bot) -> Any:
    attached = find_attachment(bot)
    return attached.wallet if attached else None


def _store_post(bot: Bot, given: GivenPost, wallet: Any, now: int) -> None:
    """Insert a post that no follower is told of; it is judged once its wallet was observed here."""
    body = given.body
    # Checked against the wallet that it was posted beside, and against no other.
    judged = wallet if wallet and wallet.address == given.wallet else None
    row: dict[str, Any] = {
        "uid": new_uid("post"),
        "salt": new_salt(),
        "bot": bot.id,
        "source": "bot",
        "channel": IMPORTED,
        "event_id": body.eventId,
        "body": body.body,
        "mint": body.mint,
        "symbol": body.symbol,
        "signature": body.signature,
        "reason": body.reason,
        "sanitized": given.sanitized,
        "wallet": judged.id if judged else None,
        "status": "pending" if judged and body.signature else "none",
        "event_at": now,
        "created_at": now,
    }
    number = store_row(Post, {**row, "leaf_id": log_post(row).id})
    count_posts_bytes(bot.id, measure_post(row))
    database.execute_sql(ORIGIN, (number, *given.origin))


def _store_trader(
    config: Config, given: GivenTrader, owner: Owner, now: int, names: Mapping[str, str]
) -> MovedTrader:
    """Make a trader as an owner here makes one, with an account that begins now."""
    try:
        trader = traders.create_trader(
            names.get(given.uid, given.name),
            given.family,
            now,
            given.start_mode,
            owner,
            given.voice,
            given.bio,
            given.settings,
            given.adaptive,
            config,
        ).trader
    except Problem as problem:
        is_named = any(one["field"] == "name" for one in problem.errors)
        way = f"--rename {given.uid}=NAME" if is_named else "--without-traders leaves them out"
        raise BadArchive(f"{TRADERS}, line {given.line}: {problem.detail}: {way}") from None
    uid, at, instance = given.origin
    ImportedTrader.create(trader=trader, original_uid=uid, original_at=at, instance=instance)
    if given.is_retired:
        traders.retire_trader(trader, now)
    return MovedTrader(trader.uid, trader.name, given.is_retired)


def _show(made: influencers.NewBot, given: GivenBot, wallet: Any) -> ImportedBot:
    address = wallet.address if wallet else None
    key = None if given.is_retired else made.publish_key.text
    return ImportedBot(made.bot.uid, made.bot.name, address, key)
