"""Does what is stored agree with itself? Everything that is derived is derived again from the
stored receipts and compared.

Reads only, one wallet at a time, each in one snapshot of the database; beside a running server too.
What owners and strangers wrote (words of posts, names, profiles) has no second source: of it only
the form can be checked.
"""

import contextlib
import itertools
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import orjson
from peewee import BigIntegerField, BooleanField, IntegerField, TextField

import storage
from chain import store
from chain.coverage import order_entries
from chain.entries import Entry, read_entry
from chain.kinds import TRADES
from chain.ledger import Book
from chain.programs import table
from chain.receipts import parse_receipt
from chain.verify import judge
from models import Post, Trade
from operate import backups, schema

# of a wallet that is being observed meanwhile: receipts are stored a moment before the books
TRIES, PAUSE_SECONDS = 5, 1.0
# differing trades of a wallet whose fields are named
MAX_NAMED = 50
ROWS_AT_ONCE = 200
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, zlib.error)


@dataclass(frozen=True)
class Difference:
    """`where` says table, wallet, signature and field as far as they apply; `what` is the rest of
    the sentence.
    """

    table: str
    what: str
    wallet: str | None = None
    signature: str | None = None
    field: str | None = None
    # "look": nothing is lost, and what is described ends by itself
    level: str = "wrong"

    def __str__(self) -> str:
        names = {"wallet": self.wallet, "signature": self.signature, "field": self.field}
        where = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        return f"{self.table}: {where + ': ' if where else ''}{self.what}"


@dataclass
class Folded:
    """What a fold of a wallet's stored entries makes. `digests`: signature -> digest of its trade
    row; `rows`: the rows that were wanted.
    """

    kept: Any
    digests: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict] = field(default_factory=dict)
    last_trade_at: int | None = None


# ---- reading -------------------------------------------------------------------------------------
class FileReader:
    """Reads a SQLite file; inside `snapshot` one moment of it."""

    def __init__(self, config) -> None:
        self._db = backups.open_reading(config.database_path)

    def rows(self, sql: str) -> Iterator[tuple]:
        return iter(self._db.execute(sql))

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()


class ServerReader:
    """The same of a PostgreSQL server, by a connection of its own; rows come a few at a time."""

    def __init__(self, config) -> None:
        self._connection, self._names = storage.make_database(config).open(), itertools.count()

    def rows(self, sql: str) -> Iterator[tuple]:
        with self._connection.cursor(name=f"rows{next(self._names)}") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            yield from cursor.execute(sql)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


# ---- all of it -----------------------------------------------------------------------------------
def inspect(config, now: int, running: bool, sleep=time.sleep) -> Iterator[Difference]:
    """Every difference. `running`: an observer may be at work, so what differs is looked at again
    before it is said.
    """
    programs = table(config.extra_swap_programs)
    reader = ServerReader(config) if config.database_url else FileReader(config)
    try:
        with reader.snapshot():
            yield from check_forms(reader, now)
            yield from check_lists(reader)
            wallets = [number for (number,) in reader.rows("SELECT id FROM wallet ORDER BY id")]
        for number in wallets:
            for again in range(TRIES if running else 1):
                if again:
                    sleep(PAUSE_SECONDS)
                found = _try_wallet(reader, number, programs)
                if not any(one.level == "wrong" for one in found):
                    break
            yield from found
    finally:
        reader.close()


def _try_wallet(reader, number: int, programs) -> list[Difference]:
    try:
        with reader.snapshot():
            return list(check_wallet(reader, number, programs))
    except UnicodeDecodeError:
        return [Difference("wallet", f"a text of wallet {number} is no UTF-8")]


def check_lists(reader) -> Iterator[Difference]:
    """Receipts and the signatures listed for wallets, in both directions."""
    unlisted = (
        "SELECT r.signature FROM receipt r WHERE NOT EXISTS (SELECT 1 FROM sighting s WHERE"
        " s.signature = r.signature)"
    )
    for (signature,) in reader.rows(unlisted):
        yield Difference("receipt", "no wallet lists it", signature=signature)
    empty = (
        "SELECT w.address, s.signature FROM sighting s JOIN wallet w ON w.id = s.wallet_id WHERE"
        " s.state = 'stored' AND s.entry IS NULL"
    )
    for address, signature in reader.rows(empty):
        yield Difference(
            "sighting",
            "it is stored, and what it means for the wallet is not",
            address,
            signature,
            "entry",
        )


# ---- one wallet ----------------------------------------------------------------------------------
def check_wallet(reader, number: int, programs) -> Iterator[Difference]:
    """Differences between what is stored of a wallet and what its receipts make."""
    columns = (
        "address",
        "whole",
        "rules",
        "results",
        "positions",
        "realized",
        "last_trade_at",
        "coverage",
    )
    row = next(reader.rows(f"SELECT {', '.join(columns)} FROM wallet WHERE id = {number}"))
    wallet = SimpleNamespace(id=number, **dict(zip(columns, row)))
    reread: dict[str, Entry] = {}
    yield from _check_receipts(reader, wallet, programs, reread)
    signed = {
        signature
        for (signature,) in reader.rows(
            f"SELECT signature FROM post WHERE wallet_id = {number} AND signature IS NOT NULL"
        )
    }
    folded = fold(reader, wallet, reread)
    waiting = _count_waiting(wallet, folded)
    if waiting:
        yield Difference(
            "wallet",
            f"{waiting} stored receipts are not in its books yet: its next look takes them in",
            wallet.address,
            level="look",
        )
        return
    trades: dict[str, tuple] = {}
    yield from _check_trades(reader, wallet, folded, reread, signed, trades)
    yield from _check_hours(reader, wallet, folded)
    yield from _check_summary(wallet, folded)
    yield from _check_posts(reader, wallet, trades)


def _count_waiting(wallet, folded: Folded) -> int:
    """Receipts that were stored and, for want of time or a server, not published yet."""
    count = folded.kept.book.count
    with contextlib.suppress(*UNREADABLE):
        return max(0, count - orjson.loads(wallet.coverage)["receipts"])
    return count if wallet.coverage is None else 0


def _check_receipts(reader, wallet, programs, reread: dict[str, Entry]) -> Iterator[Difference]:
    """Each stored receipt says what its row, the list of the wallet and its entry say; entries that
    differ go into `reread`.
    """
    known = {
        address
        for (address,) in reader.rows(f"SELECT address FROM address WHERE wallet_id = {wallet.id}")
    }
    same_rules = wallet.rules == store.name_rules(programs)
    if not same_rules:
        said = (
            "its entries were read by other rules or programs, so they were not compared: its next"
            " look, or `app.py rebuild`, reads them anew"
        )
        yield Difference("sighting", said, wallet.address, level="look")
    sql = (
        "SELECT s.signature, s.slot, s.tx_index, s.entry, r.slot, r.tx_index, r.block_time, r.body"
        " FROM sighting s LEFT JOIN receipt r ON r.signature = s.signature WHERE s.wallet_id ="
        f" {wallet.id} AND s.state = 'stored'"
    )
    for signature, slot, tx_index, text, *told, body in reader.rows(sql):
        if body is None:
            yield Difference(
                "receipt",
                "the row is missing: the next pass of the observer fetches it again",
                wallet.address,
                signature,
            )
            continue
        try:
            receipt = parse_receipt(store.unpack(body), signature)
            entry = read_entry(receipt, wallet.address, programs, frozenset(known))
        except UNREADABLE:
            yield Difference("receipt", "it cannot be read", wallet.address, signature, "body")
            continue
        for name, mine, its in zip(
            ("slot", "tx_index", "block_time"),
            told,
            (receipt.slot, receipt.tx_index, receipt.block_time),
        ):
            if mine != its:
                yield Difference(
                    "receipt", f"is {mine}, the receipt says {its}", wallet.address, signature, name
                )
        if slot != receipt.slot:
            yield Difference(
                "sighting",
                f"is {slot}, the receipt says {receipt.slot}",
                wallet.address,
                signature,
                "slot",
            )
        if receipt.tx_index is not None and tx_index != receipt.tx_index:
            yield Difference(
                "sighting",
                f"is {tx_index}, the receipt says {receipt.tx_index}",
                wallet.address,
                signature,
                "tx_index",
            )
        if same_rules and text is not None and text != entry.dump():
            reread[signature] = entry
            yield Difference(
                "sighting",
                "it is not what the receipt says",
                wallet.address,
                signature,
                _name_difference(text, entry),
            )


def _name_difference(text: str, entry: Entry) -> str:
    try:
        stored = Entry.load(text, entry.tx_index)
    except UNREADABLE:
        return "entry"
    return next(
        (
            f"entry.{name}"
            for name in Entry.__dataclass_fields__
            if getattr(stored, name) != getattr(entry, name)
        ),
        "entry",
    )


def fold(reader, wallet, reread: dict[str, Entry], wanted: frozenset = frozenset()) -> Folded:
    """The wallet's ledger from the start, holding no more than a digest of each trade and the rows
    that are `wanted`.
    """
    folded = _fold_once(reader, wallet, Book(whole=bool(wallet.whole)), reread, wanted)
    return (
        _fold_once(reader, wallet, folded.kept.book.again(), reread, wanted)
        if folded.kept.book.stale
        else folded
    )


def _fold_once(reader, wallet, book, reread, wanted) -> Folded:
    folded = Folded(store.PendingLedger(book))
    for _, group in groupby(_list_entries(reader, wallet.id, reread), key=attrgetter("slot")):
        for entry in order_entries(group, book.seen):
            row = store.take_entry(wallet, folded.kept, entry)
            folded.digests[entry.signature] = row["digest"]
            if entry.signature in wanted:
                folded.rows[entry.signature] = row
            if entry.kind in TRADES:
                folded.last_trade_at = None if entry.block_time is None else entry.block_time * 1000
    return folded


def _list_entries(reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
    rows = reader.rows(
        f"SELECT signature, entry, tx_index FROM sighting WHERE wallet_id = {number} AND state ="
        " 'stored' AND entry IS NOT NULL ORDER BY slot"
    )
    for signature, text, tx_index in rows:
        if signature in reread:
            yield reread[signature]
            continue
        with contextlib.suppress(*UNREADABLE):
            # one that cannot be read was said to differ above
            yield Entry.load(text, tx_index)


def _check_trades(
    reader, wallet, folded: Folded, reread, signed: set[str], trades: dict[str, tuple]
) -> Iterator[Difference]:
    """Trade rows against the fold; of those that posts name, `trades` gets (id, kind, flags, mints,
    block time).
    """
    mints = _list_moved(reader, wallet.id)
    differing: dict[str, dict] = {}
    missing = set(folded.digests)
    names = list(Trade._meta.fields)
    columns = ", ".join(f'"{one.column_name}"' for one in Trade._meta.fields.values())
    for values in reader.rows(
        f"SELECT {columns} FROM trade WHERE wallet_id = {wallet.id} ORDER BY id"
    ):
        row = dict(zip(names, values))
        signature = row["signature"]
        missing.discard(signature)
        if signature not in folded.digests:
            yield Difference("trade", "no stored receipt makes it", wallet.address, signature)
            continue
        digest = store.digest_trade(row)
        if digest != folded.digests[signature]:
            differing[signature] = row
        elif row["digest"] != digest:
            yield Difference("trade", "is not that of the row", wallet.address, signature, "digest")
        if row["uid"] != store.trade_uid(wallet.address, signature):
            yield Difference("trade", f"is {row['uid']}", wallet.address, signature, "uid")
        yield from _check_moved(wallet, row, mints.pop(row["id"], []))
        if signature in signed:
            with contextlib.suppress(*UNREADABLE):
                moved = {mint for mint, _, _ in orjson.loads(row["token_changes"])}
                trades[signature] = (
                    row["id"],
                    row["kind"],
                    orjson.loads(row["flags"]),
                    moved,
                    row["block_time"],
                )
    for signature in sorted(missing):
        yield Difference("trade", "is missing", wallet.address, signature)
    yield from _name_fields(reader, wallet, reread, differing)


def _list_moved(reader, number: int) -> dict[int, list[tuple]]:
    found = defaultdict(list)
    sql = (
        "SELECT m.trade_id, m.wallet_id, m.mint, m.side, m.slot, m.place FROM trade_mint m JOIN"
        f" trade t ON t.id = m.trade_id WHERE t.wallet_id = {number} ORDER BY m.id"
    )
    for trade, *rest in reader.rows(sql):
        found[trade].append(tuple(rest))
    return found


def _check_moved(wallet, row: dict, stored: list[tuple]) -> Iterator[Difference]:
    try:
        right = [(wallet.id, *one) for one in store.list_moved(row)]
    except UNREADABLE:
        # the row itself was said to differ
        return
    if stored != right:
        yield Difference(
            "trade_mint",
            f"{len(stored)} rows are not the {len(right)} of the trade",
            wallet.address,
            row["signature"],
        )


def _name_fields(reader, wallet, reread, differing: dict[str, dict]) -> Iterator[Difference]:
    wanted = frozenset(sorted(differing)[:MAX_NAMED])
    rows = fold(reader, wallet, reread, wanted).rows if wanted else {}
    for signature, stored in differing.items():
        if signature not in rows:
            yield Difference("trade", "differs", wallet.address, signature)
        for name, right in rows.get(signature, {}).items():
            if name not in ("uid", "wallet", "digest") and stored[name] != right:
                yield Difference(
                    "trade",
                    f"is {stored[name]!r:.80}, a fresh fold says {right!r:.80}",
                    wallet.address,
                    signature,
                    name,
                )


def _check_hours(reader, wallet, folded: Folded) -> Iterator[Difference]:
    names = ", ".join(f'"{name}"' for name in store.RUNNING)
    stored = {
        hour: tuple(totals)
        for hour, *totals in reader.rows(
            f"SELECT hour, {names} FROM hour_total WHERE wallet_id = {wallet.id}"
        )
    }
    right = folded.kept.hours
    for hour in sorted(stored.keys() | right.keys()):
        if stored.get(hour) != right.get(hour):
            yield Difference(
                "hour_total",
                f"is {stored.get(hour)}, a fresh fold says {right.get(hour)}",
                wallet.address,
                field=f"hour {hour}",
            )


def _check_summary(wallet, folded: Folded) -> Iterator[Difference]:
    """The wallet's derived columns. Before its first publication nothing stands there."""
    book = folded.kept.book
    if wallet.coverage is None and not book.count:
        return
    right = {
        "results": store.to_json(store.show_results(book)),
        "positions": store.to_json(store.show_positions(book)),
        "realized": book.totals.realized,
        "last_trade_at": folded.last_trade_at,
    }
    for name, value in right.items():
        if getattr(wallet, name) != value:
            yield Difference(
                "wallet",
                f"is {getattr(wallet, name)!r:.200}, a fresh fold says {value!r:.200}",
                wallet.address,
                field=name,
            )
    try:
        said = orjson.loads(wallet.coverage or "{}")
        told = {
            name: said[name]
            for name in (
                "state",
                "receipts",
                "firstSlot",
                "lastSlot",
                "observedFrom",
                "openingInventoryUnknown",
                "gaps",
            )
        }
    except UNREADABLE:
        yield Difference("wallet", "it cannot be read", wallet.address, field="coverage")
        return
    yield from _check_coverage(wallet, told, folded)


def _check_coverage(wallet, told: dict, folded: Folded) -> Iterator[Difference]:
    """What coverage says as far as the books know it; whether the node agreed at the last look they
    do not.
    """
    book = folded.kept.book
    right = {
        "receipts": book.count,
        "firstSlot": book.first_slot,
        "lastSlot": book.last_slot,
        "observedFrom": store.show_time(folded.kept.first_time),
        "openingInventoryUnknown": sorted(book.openings),
    }
    for name, value in right.items():
        if told[name] != value:
            yield Difference(
                "wallet",
                f"is {told[name]!r:.80}, a fresh fold says {value!r:.80}",
                wallet.address,
                field=f"coverage.{name}",
            )
    if told["state"] not in ("none", "backfilling", "partial", "complete"):
        yield Difference(
            "wallet", f"is {told['state']!r:.40}", wallet.address, field="coverage.state"
        )
    if told["state"] == "complete" and (book.gaps or book.opened or told["gaps"]):
        yield Difference(
            "wallet",
            "says complete, a fresh fold has gaps or begins late",
            wallet.address,
            field="coverage.state",
        )
    said = {(gap["fromSlot"], gap["toSlot"], gap["reason"]) for gap in told["gaps"]}
    if (
        told["state"] == "partial"
        and not {(gap.from_slot, gap.to_slot, gap.reason) for gap in book.gaps} <= said
    ):
        yield Difference(
            "wallet", "lacks gaps that a fresh fold finds", wallet.address, field="coverage.gaps"
        )


def _check_posts(reader, wallet, trades: dict[str, tuple]) -> Iterator[Difference]:
    """Each post that names a signature stands where its trade puts it; without a trade nothing is
    verified.
    """
    sql = (
        "SELECT uid, signature, mint, status, status_reason, trade_id, event_at, created_at,"
        f" checked_at FROM post WHERE wallet_id = {wallet.id} AND signature IS NOT NULL ORDER BY id"
    )
    for (
        uid,
        signature,
        mint,
        status,
        reason,
        trade_id,
        event_at,
        created_at,
        checked_at,
    ) in reader.rows(sql):
        if status == "pending" and checked_at is None:
            # made since the last publication
            continue
        number, kind, flags, moved, block_time = trades.get(signature, (None, None, (), (), None))
        right = (*judge(kind, flags, moved, mint), number) if number else (status, reason, None)
        if not number and (
            status not in ("pending", "not_found")
            and (status, reason) != ("mismatch", "other_wallet")
        ):
            right = ("pending", None, None)
        for name, stored, value in zip(
            ("status", "status_reason", "trade_id"), (status, reason, trade_id), right
        ):
            if stored != value:
                yield Difference(
                    "post",
                    f"of {uid} is {stored}, its trade says {value}",
                    wallet.address,
                    signature,
                    name,
                )
        at = block_time * 1000 if status == "verified" and block_time else created_at
        if status == right[0] == "verified" and event_at != at:
            yield Difference(
                "post",
                f"of {uid} is {event_at}, its trade says {at}",
                wallet.address,
                signature,
                "event_at",
            )


# ---- the form of what has no second source -------------------------------------------------------
BASE58 = "[1-9A-HJ-NP-Za-km-z]"
ADDRESS, SIGNATURE, HASH = rf"{BASE58}{{32,44}}", rf"{BASE58}{{64,88}}", "[0-9a-f]{64}"
FORMS = {
    "owner": {"uid": "owner_[0-9a-f]{24}", "recovery_hash": HASH},
    "bot": {"uid": "bot_[0-9a-f]{24}", "handle": "[^A-Z]+"},
    "key": {
        "uid": "key_[0-9a-f]{24}",
        "hash": HASH,
        "scope": "read|publish|inbox",
        "prefix": "cnd_(read|pub|inbox)_",
        "last4": "[0-9A-Za-z]{4}",
    },
    "session": {"hash": HASH},
    "wallet": {"address": ADDRESS, "rules": "|[0-9a-f]{16}"},
    "attachment": {"ownership": "claimed|proven"},
    "address": {"address": ADDRESS},
    "receipt": {"signature": SIGNATURE},
    "sighting": {"signature": SIGNATURE, "state": "pending|stored"},
    "trade": {"uid": "trade_[0-9a-f]{24}", "signature": SIGNATURE, "digest": "|[0-9a-f]{24}"},
    "post": {
        "uid": "post_[0-9a-f]{24}",
        "mint": ADDRESS,
        "signature": SIGNATURE,
        "source": "bot|observer",
        "channel": "api|studio|observer|inbox",
        "status": "none|pending|verified|mismatch|not_found",
        "hidden_hash": HASH,
        "status_reason": "other_wallet|failed|not_a_trade|mint_not_in_trade|value_unexplained",
    },
    "arrival": {"kind": "post|trade|verification|restore"},
    "token": {"mint": ADDRESS},
    "trader": {"uid": "trader_[0-9a-f]{24}"},
}
JSON = {
    "voice",
    "coverage",
    "results",
    "positions",
    "walk_cursor",
    "token_changes",
    "lots",
    "flags",
    "details",
    "checks",
    "challenge",
}
# by the column's name, in every table
NUMBER = r"-?\d+(\.\d+)?([eE][+-]?\d+)?"
EVERYWHERE = {
    "mint": ADDRESS,
    "signature": SIGNATURE,
    "source": "bot|observer|dexscreener|geckoterminal|wallets",
    "endpoint": r"endpoint \d+",
    **dict.fromkeys(
        ("price_sol", "price_usd", "liquidity_usd", "pool_sol", "volume24h_usd"), NUMBER
    ),
}
# what is planned may lie ahead
AHEAD = {"due_at", "heal_at", "expires_at", "auto_post_since"}
# ms; before that nothing of this program was, but pairs that others made
FIRST_MS = 1_500_000_000_000
DAY_MS = 86_400_000
CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f]")


def check_forms(reader, now: int) -> Iterator[Difference]:
    """Every text, number and date of every table can be what it stands for."""
    for model in schema.TABLES:
        checks = list(_list_form_checks(model, now))
        name = model._meta.table_name
        key = model._meta.get_primary_keys()[0]
        places = [
            one.column_name
            for one in model._meta.sorted_fields
            if one.column_name in {column for column, _ in checks}
        ]
        if not places:
            continue
        selected = ", ".join(f'"{column}"' for column in (key.column_name, *places))
        by_column = dict(checks)
        try:
            for number, *values in reader.rows(f'SELECT {selected} FROM "{name}"'):
                for column, value in zip(places, values):
                    if value is not None and not by_column[column](value):
                        yield Difference(
                            name, f"of row {number} cannot be {value!r:.60}", field=column
                        )
        except UnicodeDecodeError:
            yield Difference(name, "a text is no UTF-8")


def _list_form_checks(model, now: int) -> Iterator[tuple[str, Any]]:
    forms = EVERYWHERE | FORMS.get(model._meta.table_name, {})
    for one in model._meta.sorted_fields:
        if one.name in forms:
            yield one.column_name, re.compile(forms[one.name]).fullmatch
        elif isinstance(one, BooleanField):
            yield one.column_name, lambda value: value in (0, 1)
        elif one.name in JSON:
            yield one.column_name, _is_json
        elif isinstance(one, BigIntegerField) and one.name.endswith("_at"):
            latest = now + DAY_MS * (4_000 if one.name in AHEAD else 1)
            yield (
                one.column_name,
                lambda value, latest=latest: value == 0 or FIRST_MS <= value <= latest,
            )
        elif isinstance(one, BigIntegerField | IntegerField) and one.name in (
            "slot",
            "head_slot",
            "tries",
            "walks",
            "walk_new",
            "place",
            "tx_index",
            "posts_bytes",
        ):
            yield one.column_name, lambda value: 0 <= value < 10**12
        elif isinstance(one, TextField) and model is Post:
            yield one.column_name, _is_text


def _is_json(value) -> bool:
    try:
        orjson.loads(value)
    except ValueError:
        return False
    return True


def _is_text(value) -> bool:
    return isinstance(value, str) and CONTROL.search(value) is None
