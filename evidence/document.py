"""The document of evidence: all that is claimed of a bot and one of its wallets.

Full pages of receipts and posts stand apart, named by their digests, and never change under that
name; what is not full yet stands in the document. docs/check.md describes the members.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from chain.amounts import show_lamports
from chain.ledger.sums import Sums
from chain.ledger.views import ALL_HISTORY
from chain.reading.entries import READING
from chain.reading.programs import Programs, table
from chain.stored.attachments import write_last
from chain.stored.store import UNTOUCHED, name_rules
from chain.stored.summary import show_time
from config import VERSION
from evidence import totals
from evidence.pages import name_pages
from evidence.posts import POSTS
from evidence.receipts import RECEIPTS, show_json
from storage import database, snapshot

FORMAT = "candor-evidence/1"
# Signatures without their transaction that are named; the count tells of all.
MAX_PENDING = 1_000
# Of a coverage, what moves with every poll, though nothing happened.
POLLED = ("observedTo", "checkedAt")
Json = dict[str, Any]


class WalletRow(NamedTuple):
    """A wallet with what was derived of it, as stored: JSON texts, lamports, ms."""

    id: int
    address: str
    backfilled: bool
    rules: str
    coverage: str | None
    results: str | None
    positions: str | None
    last_trade_at: int | None
    realized: int | None
    cost_left: int | None
    reconciliation: str | None
    average_cost: str | None
    forward_realized: int | None


class SpanRow(NamedTuple):
    """A stretch in which a bot held a wallet (ms), with its last running totals and holdings."""

    id: int
    bot: str
    ownership: str
    attached_at: int
    detached_at: int | None
    carried_in: int | None
    open_cost: int | None
    open_positions: int | None
    forward_realized: int | None
    totals: Sums


WALLET = f"SELECT {', '.join(WalletRow._fields)} FROM wallet WHERE id = ?"
SPANS = f"""
SELECT a.id, b.uid, a.ownership, a.attached_at, a.detached_at, a.carried_in, a.open_cost,
       a.open_positions, a.forward_realized,
       {", ".join(f"t.{name}" for name in Sums._fields)}
FROM attachment a JOIN bot b ON b.id = a.bot_id
LEFT JOIN running_total t ON {write_last("t", "a.id")}
WHERE a.wallet_id = ? ORDER BY a.attached_at, a.id"""
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
        "sums": {
            "results": show_json(row.results),
            "positions": show_json(row.positions),
            "realizedLamports": show_lamports(row.realized),
            "costLeftLamports": show_lamports(row.cost_left),
            "lastTradeAt": None if row.last_trade_at is None else _show_ms(row.last_trade_at),
            "reconciliation": show_json(row.reconciliation),
            "averageCost": show_json(row.average_cost),
            "forwardRealizedLamports": show_lamports(row.forward_realized),
            **totals.digest_stored(row.id, ALL_HISTORY),
        },
        "spans": show_spans(row.id),
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
        claimed = show_wallet(read_wallet(wallet_id))
        pages = name_pages(RECEIPTS, wallet_id)
    return digest_claims(claimed, pages.digests)


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
def make_document(bot_id: int, wallet_id: int | None, programs: Programs) -> Json:
    """Make the document of a bot and one of its wallets, None for a bot that never had any.

    It is of one moment, and locks nothing: the wallet may be published meanwhile.
    """
    with snapshot():
        row = None if wallet_id is None else read_wallet(wallet_id)
        return _read_document(bot_id, row, programs)


def _read_document(bot_id: int, row: WalletRow | None, programs: Programs) -> Json:
    wallets = database.execute_sql(WALLETS, (bot_id,))
    posts = name_pages(POSTS, bot_id)
    told = {
        "format": FORMAT,
        **show_rules(programs),
        "wallets": list(dict.fromkeys(address for (address,) in wallets.fetchall())),
        "wallet": None,
        "postPages": posts.pages,
        "posts": posts.tail.lines,
    }
    if row is None:
        nothing: Json = {"pending": [], "pendingCount": 0, "receiptPages": [], "receipts": []}
        return {**told, **nothing, "digest": None}
    claimed = show_wallet(row)
    receipts = name_pages(RECEIPTS, row.id)
    return {
        **told,
        "wallet": claimed,
        **_show_pending(row.id),
        "receiptPages": receipts.pages,
        "receipts": receipts.tail.lines,
        "digest": digest_claims(claimed, receipts.digests),
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


def show_spans(wallet_id: int) -> list[Json]:
    """Make the forward record of a wallet, whichever bot held it, the first span first."""
    rows = database.execute_sql(SPANS, (wallet_id,)).fetchall()
    return [_show_span(wallet_id, _read_span(row)) for row in rows]


def _read_span(row: tuple[Any, ...]) -> SpanRow:
    width = len(SpanRow._fields) - 1
    told = Sums(*(value or 0 for value in row[width:]))
    return SpanRow._make((*row[:width], told))


def _show_span(wallet_id: int, row: SpanRow) -> Json:
    return {
        "botId": row.bot,
        "ownership": row.ownership,
        "attachedAtMs": row.attached_at,
        "detachedAtMs": row.detached_at,
        "carriedInLamports": show_lamports(row.carried_in),
        "openCostLamports": show_lamports(row.open_cost),
        "openPositions": row.open_positions,
        "realizedLamports": show_lamports(row.forward_realized),
        "totals": {name: str(value) for name, value in row.totals._asdict().items()},
        **totals.digest_stored(wallet_id, row.id),
    }


def _show_ms(ms: int) -> str | None:
    return show_time(ms // 1000)
