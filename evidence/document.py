"""Build the evidence document: everything that is claimed about a bot and one of its wallets.

Full pages of receipts and posts are separate documents. They are named by their digests and never
change. The last page is part of the document. docs/check.md describes the members. The log has a
digest of each wallet's claims, so that later changes are detectable.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

import orjson

from accounts.influencers import SAID
from chain.reading.currencies import list_added
from chain.reading.entries import READING
from chain.reading.programs import Programs, table
from chain.stored.attachments import HELD, LEAD
from chain.stored.store import UNTOUCHED, name_rules
from config import VERSION
from evidence import claimed
from evidence.lines import POSTS, RECEIPTS, Json, name_pages, show_json
from evidence.tables import LoggedWallet
from storage import Rows, database, read_rows, snapshot, write_rows, writing
from storage.log import append_leaf, mark_owner
from storage.rows import make_object, make_shape, read_stored

FORMAT = "candor-evidence/1"
# Pending signatures that are listed. `pendingCount` includes all of them.
MAX_PENDING = MAX_BOTS = 1_000
# Change with every poll.
POLLED = ("observedTo", "checkedAt")
WALLET = "SELECT address, rules, backfilled, coverage FROM wallet WHERE id = {wallet}"
UNTOUCHED_MEMBERS = ("address", "mint", "amountRaw", "decimals")
BOT = f"""
SELECT b.uid, o.uid, b.created_at, b.retired_at, b.salt, {", ".join(f"b.{name}" for name in SAID)}
FROM bot b JOIN owner o ON o.id = b.owner_id WHERE b.id = {{bot}}"""
COUNT_PENDING = "SELECT COUNT(*) FROM sighting WHERE wallet_id = {wallet} AND state = 'pending'"
# Each half is read from an index in order of slots. During a long backfill, sorting all pending
# rows would take longer than the rest of the document.
OLDEST = f"""
SELECT * FROM (
    SELECT signature, slot FROM sighting
    WHERE wallet_id = {{{{wallet}}}} AND state = 'pending' AND head = {{head}}
    ORDER BY slot, signature LIMIT {MAX_PENDING}) {{head}}_half"""
PENDING = f"""
SELECT signature, slot FROM (
    {OLDEST.format(head="FALSE")} UNION ALL {OLDEST.format(head="TRUE")}) both_halves
ORDER BY slot, signature LIMIT {MAX_PENDING}"""
WALLETS = """
SELECT w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = {bot} ORDER BY a.attached_at, a.id"""


def _rows(sql: str) -> Iterable[tuple[Any, ...]]:
    """Yield one row at a time, because a wallet may have thousands of hourly rows."""
    return cast(Iterable[tuple[Any, ...]], database.execute_sql(sql))


# ---- a wallet ------------------------------------------------------------------------------------
def show_wallet(wallet_id: int) -> Json:
    ((address, rules, backfilled, coverage),) = _rows(WALLET.format(wallet=wallet_id))
    untouched = _rows(f"{UNTOUCHED} ORDER BY address".format(wallet=wallet_id))
    addresses = _rows(f"SELECT address FROM address WHERE wallet_id = {wallet_id} ORDER BY address")
    return {
        "address": address,
        "rules": rules,
        "backfilled": bool(backfilled),
        "addresses": [address for (address,) in addresses],
        "untouched": [dict(zip(UNTOUCHED_MEMBERS, one, strict=True)) for one in untouched],
        "coverage": show_json(coverage),
        **claimed.show_derived(_rows, wallet_id),
    }


def digest_wallet(wallet_id: int) -> str:
    with snapshot():
        return digest_claims(show_wallet(wallet_id), name_pages(RECEIPTS, wallet_id).digests)


def digest_claims(wallet: Mapping[str, Any], pages: Iterable[str]) -> str:
    """Return the SHA-256 of the receipt pages and of show_wallet without polling times."""
    coverage = wallet.get("coverage")
    if isinstance(coverage, dict):
        coverage = {name: value for name, value in coverage.items() if name not in POLLED}
    told = [FORMAT, {**wallet, "coverage": coverage}, list(pages)]
    return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()


# ---- the document --------------------------------------------------------------------------------
def make_document(bot_id: int, wallet_id: int | None, programs: Programs, hour: int) -> Json:
    """Build the document for a bot and one of its wallets (None if it never had one).

    `hour` is the current hour, counted from 1970. The document is read from one snapshot, without
    locks.
    """
    with snapshot():
        wallets = _rows(WALLETS.format(bot=bot_id))
        posts = name_pages(POSTS, bot_id)
        return {
            "format": FORMAT,
            **show_rules(programs),
            "bot": {
                **show_profile(_rows, bot_id),
                "hour": hour,
                "standings": claimed.show_standings(_rows, bot_id, hour),
                "pace": claimed.show_pace(_rows, bot_id),
                "seasons": claimed.show_seasons(_rows, bot_id),
            },
            "wallets": list(dict.fromkeys(address for (address,) in wallets)),
            **_show_history(wallet_id),
            "postPages": posts.pages,
            "posts": posts.tail.lines,
        }


def _show_history(wallet_id: int | None) -> Json:
    if wallet_id is None:
        nothing: Json = {"pending": [], "pendingCount": 0, "receiptPages": [], "receipts": []}
        return {"wallet": None, **nothing, "digest": None}
    wallet, receipts = show_wallet(wallet_id), name_pages(RECEIPTS, wallet_id)
    return {
        "wallet": wallet,
        **_show_pending(wallet_id),
        "receiptPages": receipts.pages,
        "receipts": receipts.tail.lines,
        "digest": digest_claims(wallet, receipts.digests),
    }


def show_rules(programs: Programs) -> Json:
    return {
        "version": VERSION,
        "reading": READING,
        "programTable": name_rules(table(), ()),
        "rules": name_rules(programs, list_added()),
        "addedPrograms": [
            {"id": one.id, "name": one.name, "family": one.family, "source": one.source}
            for one in programs.rows
            if one.id in programs.added
        ],
        "markers": sorted(programs.markers),
        "addedCurrencies": [
            {"mint": one.mint, "symbol": one.symbol, "decimals": one.decimals}
            for one in list_added()
        ],
    }


def _show_pending(wallet_id: int) -> Json:
    ((count,),) = _rows(COUNT_PENDING.format(wallet=wallet_id))
    rows = _rows(PENDING.format(wallet=wallet_id))
    return {
        "pending": [{"signature": signature, "slot": slot} for signature, slot in rows],
        "pendingCount": count,
    }


def show_profile(rows: Rows, bot_id: int) -> Json:
    ((uid, owner, created_at, retired_at, salt, *said),) = rows(BOT.format(bot=bot_id))
    return {
        "owner": mark_owner(uid, owner),
        "createdAtMs": created_at,
        "retiredAtMs": retired_at,
        "salt": salt,
        "said": dict(zip(SAID, said, strict=True)),
    }


# ---- which documents there are -------------------------------------------------------------------
BOTS = f"""
SELECT b.uid, (SELECT w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
               WHERE a.id = {LEAD})
FROM bot b WHERE b.id > COALESCE((SELECT id FROM bot WHERE uid = ?), 0)
ORDER BY b.id LIMIT {MAX_BOTS}"""
# The current primary wallet, or the last one.
LEADING = """
SELECT a.wallet_id FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? AND (? = '' OR w.address = ?)
ORDER BY a.detached_at IS NULL DESC, CASE WHEN a.detached_at IS NULL THEN a.attached_at END,
    a.attached_at DESC, CASE WHEN a.detached_at IS NULL THEN a.id ELSE -a.id END LIMIT 1"""


def list_bots(after: str) -> Json:
    """List bots with their current wallets, oldest first, after the bot `after` (or "")."""
    rows = database.execute_sql(BOTS, (after,)).fetchall()
    return {
        "bots": [{"botId": uid, "wallet": wallet} for uid, wallet in rows],
        "next": rows[-1][0] if len(rows) == MAX_BOTS else None,
    }


def find_bot(uid: str) -> int | None:
    row = database.execute_sql("SELECT id FROM bot WHERE uid = ?", (uid,)).fetchone()
    return row and int(row[0])


def find_wallet(bot_id: int, address: str | None) -> int | None:
    """Return the bot's wallet at this address, or by default its current or last one."""
    given = address or ""
    row = database.execute_sql(LEADING, (bot_id, given, given)).fetchone()
    return row and int(row[0])


# ---- digests in the log --------------------------------------------------------------------------
# Columns of a wallet that change with every publication.
STATES = f"""
SELECT id, address, coverage, results, positions, reconciliation
FROM wallet WHERE id IN {HELD} ORDER BY id"""
RECORDS = "SELECT COUNT(*) FROM attachment WHERE wallet_id = ? AND open_positions IS NOT NULL"
LEAF = make_shape(make_object(digest=str, at=int))
LOGGED = """
SELECT g.wallet_id, f.data, l.uid, f.id - l.first_leaf
FROM logged_wallet g JOIN log_leaf f ON f.id = g.leaf_id
JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)"""


class DigestLog:
    def __init__(self) -> None:
        self._logged: dict[int, str] | None = None
        self._states: dict[int, bytes] = {}

    def run_tick(self, now: int) -> tuple[None, None]:
        """Log a digest for each attached wallet whose digest changed. `now`: ms."""
        if self._logged is None:
            rows = database.execute_sql(LOGGED).fetchall()
            leaves = {number: read_stored(data, LEAF) for number, data, *_ in rows}
            self._logged = {number: leaf["digest"] for number, leaf in leaves.items() if leaf}
        for number, address, *texts in database.execute_sql(STATES).fetchall():
            # The text is tens of kilobytes per wallet.
            state = hashlib.sha256(orjson.dumps(texts)).digest()
            if texts[0] is None or self._states.get(number) == state:
                continue
            digest = digest_wallet(number)
            if self._logged.get(number) != digest:
                with writing():
                    append_digest(number, address, digest, now)
            self._logged[number], self._states[number] = digest, state
        return None, None


def append_digest(wallet_id: int, address: str, digest: str, now: int) -> None:
    """Log a digest of a wallet's evidence, inside a transaction. `now`: ms.

    The leaf includes the number of the wallet's records, which never decreases.
    """
    ((records,),) = database.execute_sql(RECORDS, (wallet_id,)).fetchall()
    leaf = append_leaf("evidence", now, wallet=address, digest=digest, records=records)
    write_rows(LoggedWallet, [{"wallet": wallet_id, "leaf_id": leaf.id}], ("wallet",))


def show_logged(wallet_id: int) -> dict[str, Any] | None:
    """Return the log, index and digest of the wallet's last such leaf, unless it is damaged."""
    for _, data, log, place in read_rows(f"{LOGGED} WHERE g.wallet_id = {wallet_id}"):
        if leaf := read_stored(data, LEAF):
            return {"log": log, "leaf": place, "digest": leaf["digest"], "loggedAtMs": leaf["at"]}
    return None
