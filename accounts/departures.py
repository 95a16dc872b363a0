"""Export and delete accounts (docs/leaving.md). `now` is UTC milliseconds.

The export is a zip file of JSON lines and CSV. It never contains hashes of keys, recovery codes or
sessions, webhook secrets, full webhook URLs, or salts. It reads one snapshot, a page of rows at a
time. Deletion erases the text, deletes keys and webhooks, frees wallets and stops traders. The log
stays, and so does the record of when a bot posted and what the chain showed.
"""

import datetime
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import orjson

from accounts import conduct, hooks, influencers
from accounts.api_keys import revoke_all
from accounts.influencers import read_voice
from accounts.posts import erase_words
from accounts.spreadsheet import disarm, write_lines
from accounts.tables import Hook, Registration
from chain.stored.tables import OBJECT
from chain.symbols import find_skeleton
from models import Bot, Key, Owner, Post, Session
from paper.tables import Backtest, PaperOrder, PaperPost, Period, Trader
from storage import database, erasing, snapshot, writing
from storage.rows import read_stored

# ---- export --------------------------------------------------------------------------------------
FORMAT, VERSION = "candor-export", 1
# Rows per file. export.json lists truncated files.
MAX_ROWS = 200_000
PAGE_ROWS = 500
TOLD = """All data of this account at {instance}, as of {at}.

bots.jsonl, posts.jsonl and traders.jsonl contain one JSON value per line. The CSV files open in a
spreadsheet. Keys, recovery codes and webhook secrets are not included. Amounts are integers:
lamports (SOL times 10^9) and raw token units. Times are UTC.
"""
Row = dict[str, Any]


# ---- files ---------------------------------------------------------------------------------------
class Sheet(NamedTuple):
    """A table of an owner's rows.

    `columns` are words like `name=expression`, or just the name if the column has the same name.
    `source` is the SQL from FROM on, with a placeholder for the owner's id. Rows are ordered by the
    id of table `x`.
    """

    columns: str
    source: str

    @property
    def names(self) -> list[str]:
        return [word.partition("=")[0] for word in self.columns.split()]

    @property
    def sql(self) -> str:
        words = [word.partition("=") for word in self.columns.split()]
        values = [expression or f"x.{name}" for name, _, expression in words]
        return f"SELECT x.id, {', '.join(values)} {self.source}"


BOT_ROWS = Sheet(
    "id=x.uid handle name bio voice autoPost=x.auto_post createdAt=x.created_at "
    "retiredAt=x.retired_at",
    "FROM bot x WHERE x.owner_id = ?",
)
POST_ROWS = Sheet(
    "id=x.uid botId=b.uid source channel eventId=x.event_id body mint symbol "
    "signature reason sanitized wallet=w.address status "
    "statusReason=x.status_reason eventAt=x.event_at createdAt=x.created_at "
    "hiddenAt=x.hidden_at",
    "FROM post x JOIN bot b ON b.id = x.bot_id LEFT JOIN wallet w ON w.id = x.wallet_id "
    "WHERE b.owner_id = ?",
)
OWN_BOTS = "(SELECT id FROM bot WHERE owner_id = ?)"
WALLET_ROWS = Sheet(
    "botId=b.uid wallet=w.address ownership attachedAt=x.attached_at detachedAt=x.detached_at",
    "FROM attachment x JOIN bot b ON b.id = x.bot_id JOIN wallet w ON w.id = "
    f"x.wallet_id WHERE x.bot_id IN {OWN_BOTS}",
)
# A season entry's key is a pair, but pages need a single number.
ENTRIES = "(SELECT e.*, e.season_id * 4294967296 + e.bot_id AS id FROM season_entry e)"
TRADER_ROWS = Sheet(
    "id=x.uid handle name bio voice family settings startMode=x.start_mode "
    "adaptive createdAt=x.created_at retiredAt=x.retired_at",
    "FROM trader x WHERE x.owner_id = ?",
)
SHEETS = {
    "posts.csv": POST_ROWS,
    "wallets.csv": WALLET_ROWS,
    "trades.csv": Sheet(
        "wallet=w.address signature slot blockTime=x.block_time kind venue mint "
        "tokenChanges=x.token_changes solChangeLamports=x.sol_change "
        "feeLamports=x.fee tipLamports=x.tip rentLamports=x.rent currency=x.currency "
        "status=x.realized resultRaw=x.result proceedsRaw=x.proceeds costRaw=x.cost "
        "besideLamports=x.beside_sol besideTokenChanges=x.beside_tokens",
        "FROM trade x JOIN wallet w ON w.id = x.wallet_id WHERE x.wallet_id IN "
        f"(SELECT a.wallet_id FROM attachment a WHERE a.bot_id IN {OWN_BOTS})",
    ),
    "seasons.csv": Sheet(
        "seasonId=s.uid season=s.name botId=b.uid joinedAt=x.joined_at countsFromAt=x.since "
        "ownership rank reason currency=s.symbol realizedRaw=x.realized costRaw=x.cost "
        "returnHundredthsOfPercent=x.return_points worstCaseRaw=x.worst_case sales trades "
        "frozenAt=s.frozen_at",
        f"FROM {ENTRIES} x JOIN season s ON s.id = x.season_id JOIN bot b ON b.id = x.bot_id "
        "WHERE b.owner_id = ?",
    ),
    "registrations.csv": Sheet(
        "botId=b.uid wallet registeredAt=x.created_at claimedAt=x.claimed_at",
        "FROM registration x JOIN bot b ON b.id = x.bot_id WHERE b.owner_id = ?",
    ),
    "keys.csv": Sheet(
        "id=x.uid botId=b.uid scope name createdAt=x.created_at "
        "expiresAt=x.expires_at revokedAt=x.revoked_at",
        'FROM "key" x LEFT JOIN bot b ON b.id = x.bot_id WHERE x.owner_id = ?',
    ),
    "hooks.csv": Sheet(
        "id=x.uid kind host=x.url events bots state createdAt=x.created_at",
        "FROM hook x WHERE x.owner_id = ?",
    ),
    "sessions.csv": Sheet(
        "createdAt=x.created_at seenAt=x.seen_at", "FROM session x WHERE x.owner_id = ?"
    ),
    "traders.csv": TRADER_ROWS,
    "paper_accounts.csv": Sheet(
        "traderId=t.uid account=x.number startingLamports=x.starting_cash "
        "cashLamports=x.cash openedAt=x.opened_at closedAt=x.closed_at "
        "closingReason=x.closing_reason",
        "FROM period x JOIN trader t ON t.id = x.trader_id WHERE t.owner_id = ? AND x.twin = 0",
    ),
    "paper_orders.csv": Sheet(
        "traderId=t.uid account=p.number number mint symbol side amount reason "
        "decidedAt=x.decided_at state",
        "FROM paper_order x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id "
        "= p.trader_id WHERE t.owner_id = ? AND p.twin = 0",
    ),
    "paper_fills.csv": Sheet(
        "traderId=t.uid account=p.number orderNumber=o.number filledAt=x.at raw "
        "midLamports=x.mid slippageLamports=x.slippage poolFeeLamports=x.pool_fee "
        "networkFeeLamports=x.network_fee rentLamports=x.rent failed model",
        "FROM paper_fill x JOIN paper_order o ON o.id = x.order_id JOIN period p ON "
        "p.id = o.period_id JOIN trader t ON t.id = p.trader_id "
        "WHERE t.owner_id = ? AND p.twin = 0",
    ),
    "paper_positions.csv": Sheet(
        "traderId=t.uid account=p.number number mint symbol openedAt=x.opened_at "
        "closedAt=x.closed_at raw spentLamports=x.spent feesLamports=x.fees "
        "netLamports=x.cash reason",
        'FROM "position" x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id '
        "= p.trader_id WHERE t.owner_id = ? AND p.twin = 0",
    ),
    "paper_diary.csv": Sheet(
        "traderId=t.uid account=p.number notedAt=x.at kind mint facts",
        "FROM diary_entry x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id "
        "= p.trader_id WHERE t.owner_id = ? AND p.twin = 0",
    ),
    "paper_posts.csv": Sheet(
        "id=x.uid traderId=t.uid body mint symbol writer eventAt=x.event_at "
        "createdAt=x.created_at hiddenAt=x.hidden_at",
        "FROM paper_post x JOIN trader t ON t.id = x.trader_id WHERE t.owner_id = ?",
    ),
    "paper_reviews.csv": Sheet(
        "traderId=t.uid account=p.number state reasons openedAt=x.opened_at "
        "decidedAt=x.decided_at decision",
        "FROM review x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id = "
        "p.trader_id WHERE t.owner_id = ? AND p.twin = 0",
    ),
    "backtests.csv": Sheet(
        "id=x.uid asked state result createdAt=x.created_at", "FROM backtest x WHERE x.owner_id = ?"
    ),
}
# All files of an archive.
NAMES = ("export.json", "README.txt", "bots.jsonl", "posts.jsonl", "traders.jsonl", *SHEETS)


# ---- the archive ---------------------------------------------------------------------------------
def write_archive(owner: Owner, instance: str, software: str, now: int, file: IO[bytes]) -> None:
    """`instance` is this server's URL."""
    with snapshot(), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        told = TOLD.format(instance=instance, at=write_time(now))
        archive.writestr(_name_entry("README.txt"), told)
        files = {
            "bots.jsonl": _list_bot_lines(owner),
            "posts.jsonl": _list_post_lines(owner),
            "traders.jsonl": _list_trader_lines(owner),
            **{name: _list_csv_lines(sheet, owner) for name, sheet in SHEETS.items()},
        }
        rows = {name: _write(archive, name, lines) for name, lines in files.items()}
        head = {
            "format": FORMAT,
            "version": VERSION,
            "instance": instance,
            "software": software,
            "exportedAt": write_time(now),
            "owner": {"id": owner.uid, "createdAt": write_time(owner.created_at)},
            "rows": {name: min(count, MAX_ROWS) for name, count in rows.items()},
            "cut": [name for name, count in rows.items() if count > MAX_ROWS],
        }
        archive.writestr(_name_entry("export.json"), orjson.dumps(head, option=orjson.OPT_INDENT_2))


def _name_entry(name: str) -> zipfile.ZipInfo:
    # A fixed time and default permissions don't reveal anything about this machine.
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _write(archive: zipfile.ZipFile, name: str, lines: Iterator[bytes]) -> int:
    """Write up to MAX_ROWS rows, and return their number, or one more if the file was cut."""
    # A CSV file's header isn't a row.
    first, count = (0 if name.endswith(".csv") else 1), 0
    with archive.open(_name_entry(name), "w", force_zip64=True) as entry:
        for count, line in enumerate(lines, first):
            if count > MAX_ROWS:
                break
            entry.write(line)
    return count


# ---- rows ----------------------------------------------------------------------------------------
def list_rows(sheet: Sheet, owner: Owner) -> Iterator[Row]:
    names, last = sheet.names, 0
    page = f"{sheet.sql} AND x.id > ? ORDER BY x.id LIMIT {PAGE_ROWS}"
    while True:
        rows = database.execute_sql(page, (owner.id, last)).fetchall()
        for number, *values in rows:
            yield dict(zip(names, map(_plain, names, values), strict=True))
            last = number
        if len(rows) < PAGE_ROWS:
            return


def _plain(name: str, value: Any) -> Any:
    """Format times as text, and flags as booleans, on both engines."""
    if name.endswith("At"):
        return write_time(value)
    if name in ("autoPost", "sanitized", "failed"):
        return bool(value)
    return value


def _list_bot_lines(owner: Owner) -> Iterator[bytes]:
    held: dict[str, list[Row]] = {}
    for row in list_rows(WALLET_ROWS, owner):
        held.setdefault(row.pop("botId"), []).append(row)
    for bot in list_rows(BOT_ROWS, owner):
        bot["voice"] = read_voice(bot["voice"])
        yield _write_json({**bot, "wallets": held.get(bot["id"], [])})


def _list_post_lines(owner: Owner) -> Iterator[bytes]:
    for row in list_rows(POST_ROWS, owner):
        yield _write_json({**row, "body": None if row["hiddenAt"] else row["body"]})


def _list_trader_lines(owner: Owner) -> Iterator[bytes]:
    for row in list_rows(TRADER_ROWS, owner):
        parsed = {
            "voice": read_voice(row["voice"]),
            "settings": read_stored(row["settings"], OBJECT) or {},
        }
        yield _write_json({**row, **parsed})


def _write_json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _list_csv_lines(sheet: Sheet, owner: Owner) -> Iterator[bytes]:
    """Yield the header, then the rows. Text that looks like a formula is escaped."""
    yield write_lines([sheet.names]).encode()
    for row in list_rows(sheet, owner):
        if "host" in row:
            row["host"] = hooks.mask_url(row["host"])
        cells = [disarm(one) if isinstance(one, str) else one for one in row.values()]
        yield write_lines([cells]).encode()


def write_time(ms: int | None) -> str | None:
    """Format UTC milliseconds as `2026-11-20T12:00:00.123Z`. None stays None."""
    if ms is None:
        return None
    moment = datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


# ---- deletion ------------------------------------------------------------------------------------
# Posts erased per transaction, so that other writers get a turn.
POSTS_AT_ONCE = 200


def delete_owner(owner: Owner, now: int) -> None:
    """Delete the session and the recovery code last, so that the owner can retry."""
    with writing():
        revoke_all(Key.owner == owner, now)
        Hook.delete().where(Hook.owner == owner).execute()
    while not _forget(owner, now):
        for bot in influencers.list_bots_of(owner):
            # Retire the bot first, so that neither the bot nor the observer can post.
            influencers.retire_bot(bot, now)
            while _erase_some(bot, now):
                pass


def _erase_some(bot: Bot, now: int) -> bool:
    """Erase a batch of posts, newest first, and their event IDs. Return whether there were any.

    A post's event ID is replaced with its own ID. A later post may already use that ID as its event
    ID, so the later post is erased first.
    """
    with erasing():
        found = list(_find_said([bot]).order_by(Post.id.desc()).limit(POSTS_AT_ONCE))
        for post in found:
            if post.hidden_at is None:
                erase_words(post, now)
            if post.source == "bot":
                # These identify retries. The bot's keys are revoked, so no retry can arrive.
                told = Post.update(event_id=post.uid, hidden_hash=None)
                told.where(Post.id == post.id).execute()
    return bool(found)


def _find_said(bots: list[Bot]) -> Any:
    is_named = (Post.source == "bot") & (Post.event_id != Post.uid)
    return Post.select().where(Post.bot.in_(bots), Post.hidden_at.is_null() | is_named)


def _empty_bot(bot: Bot, now: int) -> None:
    bot.name = f"Deleted {bot.uid[-10:]}"
    bot.likeness = find_skeleton(bot.name)
    bot.handle = f"deleted-{bot.uid[-24:]}"
    bot.bio, bot.avatar_url, bot.voice = "", None, influencers.check_voice({})
    influencers.log_profile(bot, now)


def _empty_trader(trader: Trader, now: int) -> None:
    """Stop a trader and erase its text.

    Open positions stay open, because their outcome is unknown. The handle stays, because it seeds
    the trader's random draws.
    """
    name = f"Deleted {trader.uid[-10:]}"
    periods = Period.select().where(Period.trader == trader, Period.closed_at.is_null())
    waiting = PaperOrder.period.in_(periods) & (PaperOrder.state == "open")
    PaperOrder.update(state="cancelled").where(waiting).execute()
    Trader.update(
        retired_at=trader.retired_at or now,
        version=Trader.version + 1,
        name=name,
        likeness=find_skeleton(name),
        bio="",
        voice=influencers.check_voice({}),
    ).where(Trader.id == trader.id).execute()
    conduct.erase_paper_words(PaperPost.trader == trader, now)


def _forget(owner: Owner, now: int) -> bool:
    """Erase everything except posts, and delete keys, webhooks, backtests and sessions.

    After that, nobody can sign in or create anything, and no trader posts. If a bot isn't retired
    yet or a post still has its text, return False without a change.
    """
    with erasing():
        bots = influencers.list_bots_of(owner)
        if any(bot.retired_at is None for bot in bots) or _find_said(bots).exists():
            return False
        for bot in bots:
            _empty_bot(bot, now)
        for trader in list(Trader.select().where(Trader.owner == owner).order_by(Trader.id)):
            _empty_trader(trader, now)
        keys = Key.select(Key.id).where(Key.owner == owner)
        Post.update(key=None).where(Post.key.in_(keys)).execute()
        Key.delete().where(Key.owner == owner).execute()
        Hook.delete().where(Hook.owner == owner).execute()
        Backtest.delete().where(Backtest.owner == owner).execute()
        Registration.update(source="").where(Registration.bot.in_(bots)).execute()
        Owner.update(recovery_hash=None).where(Owner.id == owner.id).execute()
        Session.delete().where(Session.owner == owner).execute()
    return True
