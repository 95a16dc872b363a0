"""The document of evidence: all that is claimed of a bot and one of its wallets.

Full pages of receipts and posts stand apart, named by their digests, and never change under that
name; what is not full yet stands in the document. docs/check.md describes the members.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import orjson

from accounts.influencers import SAID
from chain.reading.entries import READING
from chain.reading.programs import Programs, table
from chain.stored.store import UNTOUCHED, name_rules
from config import VERSION
from evidence import claimed
from evidence.pages import name_pages
from evidence.posts import POSTS
from evidence.receipts import RECEIPTS, show_json
from storage import Rows, database, snapshot
from storage.arrivals import mark_owner

FORMAT = "candor-evidence/1"
# Signatures without their transaction that are named; the count tells of all.
MAX_PENDING = 1_000
# Of a coverage, what moves with every poll, though nothing happened.
POLLED = ("observedTo", "checkedAt")
Json = dict[str, Any]


class WalletRow(NamedTuple):
    """A wallet; `coverage` is JSON."""

    id: int
    address: str
    backfilled: bool
    rules: str
    coverage: str | None


class BotRow(NamedTuple):
    """A bot, as its profile shows it; times in ms."""

    uid: str
    owner: str
    created_at: int
    retired_at: int | None
    salt: str
    said: tuple[str | None, ...]


WALLET = f"SELECT {', '.join(WalletRow._fields)} FROM wallet WHERE id = ?"
BOT = f"""
SELECT b.uid, o.uid, b.created_at, b.retired_at, b.salt, {", ".join(f"b.{name}" for name in SAID)}
FROM bot b JOIN owner o ON o.id = b.owner_id WHERE b.id = {{bot}}"""
COUNT_PENDING = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ? AND state = 'pending'"
# Each half comes from an index in the order of slots: during a long backfill sorting all that is
# pending would take longer than the rest of the document.
OLDEST = f"""
SELECT * FROM (
    SELECT signature, slot FROM sighting
    WHERE wallet_id = ? AND state = 'pending' AND head = {{head}}
    ORDER BY slot, signature LIMIT {MAX_PENDING}) {{head}}_half"""
PENDING = f"""
SELECT signature, slot FROM (
    {OLDEST.format(head="FALSE")} UNION ALL {OLDEST.format(head="TRUE")}) both_halves
ORDER BY slot, signature LIMIT {MAX_PENDING}"""
WALLETS = """
SELECT w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? ORDER BY a.attached_at, a.id"""


def _rows(sql: str) -> Iterable[tuple[Any, ...]]:
    """As storage.read_rows, one row at a time: a wallet may have thousands of hours."""
    return cast(Iterable[tuple[Any, ...]], database.execute_sql(sql))


# ---- a wallet ------------------------------------------------------------------------------------
def read_wallet(wallet_id: int) -> WalletRow:
    """Read the row of a wallet."""
    return WalletRow(*database.execute_sql(WALLET, (wallet_id,)).fetchone())


def show_wallet(row: WalletRow) -> Json:
    """Make what is claimed of a wallet as a whole."""
    untouched = database.execute_sql(
        f"{UNTOUCHED} ORDER BY address".format(wallet="?"), (row.id,)
    ).fetchall()
    addresses = database.execute_sql(
        "SELECT address FROM address WHERE wallet_id = ? ORDER BY address", (row.id,)
    )
    return {
        "address": row.address,
        "rules": row.rules,
        "backfilled": bool(row.backfilled),
        "addresses": [address for (address,) in addresses.fetchall()],
        "untouched": [_show_untouched(*one) for one in untouched],
        "coverage": show_json(row.coverage),
        **claimed.show_derived(_rows, row.id),
    }


def _show_untouched(address: str, mint: str, amount: str, decimals: int) -> Json:
    return {
        "address": address,
        "mint": mint,
        "amountRaw": amount,
        "decimals": decimals,
    }


def digest(value: object) -> str:
    """SHA-256, in hex, of a value as JSON with its members sorted."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def digest_wallet(wallet_id: int) -> str:
    """Digest of all that is claimed of a wallet; the same as long as nothing of it changed. It is
    of one moment.
    """
    with snapshot():
        wallet = show_wallet(read_wallet(wallet_id))
        pages = name_pages(RECEIPTS, wallet_id)
    return digest_claims(wallet, pages.digests)


def digest_claims(wallet: Mapping[str, Any], pages: Iterable[str]) -> str:
    """Digest of what show_wallet says, times of polls left out, and of the pages of receipts."""
    return digest([FORMAT, drop_polls(wallet), list(pages)])


def drop_polls(told: Mapping[str, Any]) -> Json:
    """Return what is claimed without the times of polls in its `coverage`."""
    coverage = told.get("coverage")
    if isinstance(coverage, dict):
        coverage = {name: value for name, value in coverage.items() if name not in POLLED}
    return {**told, "coverage": coverage}


# ---- the document --------------------------------------------------------------------------------
def make_document(bot_id: int, wallet_id: int | None, programs: Programs, hour: int) -> Json:
    """Make the document of a bot and one of its wallets, None for a bot that never had any.
    `hour`: the present one, counted from 1970.

    It is of one moment, and locks nothing: the wallet may be published meanwhile.
    """
    with snapshot():
        row = None if wallet_id is None else read_wallet(wallet_id)
        return _read_document(bot_id, row, programs, hour)


def _read_document(bot_id: int, row: WalletRow | None, programs: Programs, hour: int) -> Json:
    wallets = database.execute_sql(WALLETS, (bot_id,))
    posts = name_pages(POSTS, bot_id)
    told = {
        "format": FORMAT,
        **show_rules(programs),
        "bot": show_bot(bot_id, hour),
        "wallets": list(dict.fromkeys(address for (address,) in wallets.fetchall())),
        "wallet": None,
        "postPages": posts.pages,
        "posts": posts.tail.lines,
    }
    if row is None:
        nothing: Json = {"pending": [], "pendingCount": 0, "receiptPages": [], "receipts": []}
        return {**told, **nothing, "digest": None}
    wallet = show_wallet(row)
    receipts = name_pages(RECEIPTS, row.id)
    return {
        **told,
        "wallet": wallet,
        **_show_pending(row.id),
        "receiptPages": receipts.pages,
        "receipts": receipts.tail.lines,
        "digest": digest_claims(wallet, receipts.digests),
    }


def show_rules(programs: Programs) -> Json:
    """Make what names the rules: the version, the built-in table, and what the operator added."""
    return {
        "version": VERSION,
        "reading": READING,
        "programTable": name_rules(table()),
        "rules": name_rules(programs),
        "addedPrograms": [
            {"id": one.id, "name": one.name, "family": one.family, "source": one.source}
            for one in programs.rows
            if one.id in programs.added
        ],
        "markers": sorted(programs.markers),
    }


def _show_pending(wallet_id: int) -> Json:
    """Signatures that are listed and whose transactions are not here yet, the oldest first."""
    count = database.execute_sql(COUNT_PENDING, (wallet_id,)).fetchone()
    rows = database.execute_sql(PENDING, (wallet_id, wallet_id))
    return {
        "pending": [{"signature": signature, "slot": slot} for signature, slot in rows.fetchall()],
        "pendingCount": count[0],
    }


def show_bot(bot_id: int, hour: int) -> Json:
    """Make what is claimed of a bot: what its profile says, whose it is, its rows on the boards."""
    return {
        **show_profile(_rows, bot_id),
        "hour": hour,
        "standings": claimed.show_standings(_rows, bot_id, hour),
        "pace": claimed.show_pace(_rows, bot_id),
    }


def show_profile(rows: Rows, bot_id: int) -> Json:
    """Make what a bot says of itself, and whose it is."""
    width = len(BotRow._fields) - 1
    (found,) = rows(BOT.format(bot=bot_id))
    row = BotRow._make((*found[:width], tuple(found[width:])))
    return {
        "owner": mark_owner(row.uid, row.owner),
        "createdAtMs": row.created_at,
        "retiredAtMs": row.retired_at,
        "salt": row.salt,
        "said": dict(zip(SAID, row.said, strict=True)),
    }
