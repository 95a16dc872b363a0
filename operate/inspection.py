"""Check stored data: rebuild all derived data from the stored transactions, and compare.

This only reads, one wallet at a time, each in one snapshot. It works while a server is running.
Posts are compared with the log. Names and profiles have no second source.
"""

import contextlib
import itertools
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import orjson
from peewee import TextField

import storage
from accounts.seasons import Terms, show_terms
from accounts.verification import CitedTrade, TimedPost, judge_delays, judge_trades, sum_delays
from chain.ledger.coverage import Gap
from chain.ledger.totals import Holdings, round_down
from chain.reading.currencies import list_added
from chain.reading.entries import Entry, read_entry
from chain.reading.programs import table
from chain.reading.receipts import digest_receipt, parse_stored, unpack_text
from chain.stored import store
from chain.stored.attachments import (
    HOLDINGS,
    mark_entries,
    read_shared,
    read_siblings,
)
from chain.stored.derived import DERIVED, read_coverage
from chain.stored.derived import UNREADABLE as NO_COVERAGE
from chain.stored.standings import Board, list_boards, list_forgotten, work_out
from chain.stored.tables import CHANGES, LOTS, NAMES, OBJECT, WALLET_PARTS, StandingRow
from chain.stored.trades import DIGESTED, OTHER_WALLET
from config import Config
from evidence.audit import compare_coverage
from evidence.audited_log import LogMemory, Part, Said
from evidence.claimed import PACE, SUMS, Books, show_seasons
from evidence.claims import ClaimedProfile, ClaimedSeason, Nonsense, check_shape
from evidence.document import show_profile
from evidence.leaves import Held, HeldWallets, compare_bot, compare_held, compare_post
from evidence.lines import POST_LINES, ClaimedPost, show_post
from evidence.seasons import compare_seasons
from models import Attachment, Wallet
from operate import backups, schema
from storage import Rows, trouble
from storage.rows import make_shape, read_stored
from storage.tree import TILE_WIDTH, hash_leaf, hash_tile

# Raised when reading damaged rows.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
# Maximum number of characters shown of a value, and of differences kept for a table.
MAX_SHOWN, MAX_FOUND = 80, 1_000
Key = tuple[Any, ...]
Keyed = tuple[Key, Sequence[Any]]


@dataclass(frozen=True)
class Difference:
    """Where stored data differs (as far as each field applies), and `what` the difference is."""

    table: str
    what: str
    wallet: str | None = None
    signature: str | None = None
    field: str | None = None
    # "wrong", or "look" if nothing is lost and the difference will resolve itself.
    level: str = "wrong"

    def __str__(self) -> str:
        names = {"wallet": self.wallet, "signature": self.signature, "field": self.field}
        where = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        return f"{self.table}: {where + ': ' if where else ''}{self.what}"


class Checked(NamedTuple):
    """`source` is SQL from FROM on. `key` and `columns` are also SQL. Keys aren't null."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    source: str

    def read(self, rows: Rows, **values: Any) -> Iterator[Keyed]:
        """Yield the rows in key order. `values` are for the placeholders in `source`."""
        width, order = len(self.key), f" ORDER BY {', '.join(self.key)}" if self.key else ""
        sql = f"SELECT {', '.join((*self.key, *self.columns))} {self.source.format(**values)}"
        for row in rows(sql + order):
            yield tuple(row[:width]), row[width:]


def compare_rows(
    checked: Checked, stored: Iterable[Keyed], right: Iterable[Keyed], wallet: str | None = None
) -> Iterator[Difference]:
    """Both must be in key order."""
    return islice(_compare(checked, stored, right, wallet), MAX_FOUND)


def _compare(
    checked: Checked, stored: Iterable[Keyed], right: Iterable[Keyed], wallet: str | None
) -> Iterator[Difference]:
    names = [_bare(name) for name in checked.key]
    signed = names.index("signature") + 1 if "signature" in names else 0
    both = merge(((*one, 0) for one in stored), ((*one, 1) for one in right), key=itemgetter(0))
    for key, found in groupby(both, itemgetter(0)):
        rows = [(side, values) for _, values, side in found]
        signature = key[signed - 1] if signed else None
        if sum(side == 0 for side, _ in rows) > 1:
            where = " ".join(map(str, key[signed:])) or None
            yield Difference(checked.table, "is stored twice", wallet, signature, where)
        sides = dict(rows)
        for name, what in _compare_row(checked, sides.get(0), sides.get(1)):
            field = " ".join([*map(str, key[signed:]), name]).strip() or None
            yield Difference(checked.table, what, wallet, signature, field)


def _compare_row(
    checked: Checked, stored: Sequence[Any] | None, right: Sequence[Any] | None
) -> Iterator[tuple[str, str]]:
    """Yield the differing columns, and how they differ. None means that there is no such row."""
    if stored is None or right is None:
        yield (
            "",
            "the row is missing" if stored is None else "a fresh rebuild doesn't have this row",
        )
        return
    for column, one, other in zip(checked.columns, stored, right, strict=True):
        if one != other:
            yield _bare(column), _tell(one, other)


def _tell(stored: Any, right: Any) -> str:
    return f"is {stored!r:.{MAX_SHOWN}}; a fresh rebuild says {right!r:.{MAX_SHOWN}}"


def _bare(column: str) -> str:
    return column.rsplit(".", 1)[-1]


# ---- reading -------------------------------------------------------------------------------------
ROWS_AT_ONCE = 200


class Reader:
    """A separate connection to either engine. Inside `snapshot`, it sees one snapshot."""

    def __init__(self, config: Config) -> None:
        self._is_file, self._names = not config.database_url, itertools.count()
        self._connection: Any = (
            backups.open_reading(config.database_path)
            if self._is_file
            else storage.make_database(config).open()
        )
        self.close = self._connection.close

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        return iter(self._connection.execute(sql)) if self._is_file else self._stream(sql)

    def _stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor(name=f"rows{next(self._names)}") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            yield from cursor.execute(sql)

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        engine = "sqlite" if self._is_file else "postgresql"
        return trouble.hold_snapshot(self._connection.execute, engine)


# ---- text ----------------------------------------------------------------------------------------
# JSON columns, by name, in every table.
JSON = {
    **{name: part.shape for name, part in WALLET_PARTS.items()},
    **{"token_changes": CHANGES.shape, "beside_tokens": CHANGES.shape, "lots": LOTS.shape},
    **dict.fromkeys(("flags", "counterparties", "marks", "events", "bots"), NAMES.shape),
    **dict.fromkeys(("checks", "reasons", "reserves"), make_shape(list[Any])),
    **dict.fromkeys(("voice", "coverage", "scan_cursor", "details", "fall_check"), OBJECT),
    **dict.fromkeys(("challenge", "settings", "phase", "facts", "asked"), OBJECT),
}


def check_text(reader: Reader) -> Iterator[Difference]:
    """Yield text that isn't UTF-8, or isn't the JSON of its column."""
    for model in schema.TABLES:
        table: Any = model._meta
        columns = [one for one in table.sorted_fields if isinstance(one, TextField)]
        if not columns:
            continue
        shown = ", ".join(f'"{one.column_name}"' for one in (table.get_primary_keys()[0], *columns))
        try:
            for number, *values in reader.rows(f'SELECT {shown} FROM "{table.table_name}"'):
                for column, value in zip(columns, values, strict=True):
                    shape = JSON.get(column.name)
                    if shape and value is not None and read_stored(value, shape) is None:
                        what = f"of row {number} cannot be {value!r:.60}"
                        yield Difference(table.table_name, what, field=column.column_name)
        except UnicodeDecodeError:
            yield Difference(table.table_name, "a text is not UTF-8")


# ---- one wallet after the other ------------------------------------------------------------------
# An observed wallet's transactions are stored shortly before its ledger.
TRIES, PAUSE_SECONDS = 5, 1.0
WALLET = ("address", "backfilled", "rules", "reconciliation", "coverage")


class ListedReceipt(NamedTuple):
    signature: str
    slot: int
    tx_index: int | None
    entry: bytes | None
    receipt_slot: int | None
    receipt_tx_index: int | None
    receipt_block_time: int | None
    receipt_digest: str | None
    body: bytes | None


LISTED = """
SELECT s.signature, s.slot, s.tx_index, s.entry, r.slot, r.tx_index, r.block_time,
       r.digest, r.body
FROM sighting s LEFT JOIN receipt r ON r.signature = s.signature
WHERE s.wallet_id = {wallet} AND s.state = 'stored'"""


def inspect(
    config: Config, now: int, running: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Difference]:
    """With `running`, an observer may be active, so compare again before reporting a difference."""
    programs = table(config.extra_swap_programs, config.added_programs)
    reader = Reader(config)
    try:
        with reader.snapshot():
            yield from check_text(reader)
            yield from check_lists(reader)
            yield from check_delays(reader)
            yield from check_log(reader)
            yield from check_standings(reader, now)
            wallets = [number for (number,) in reader.rows("SELECT id FROM wallet ORDER BY id")]
        for number in wallets:
            found: list[Difference] = []
            for again in range(TRIES if running else 1):
                if again:
                    sleep(PAUSE_SECONDS)
                found = _try_wallet(reader, number, programs)
                if not any(one.level == "wrong" for one in found):
                    break
            yield from found
    finally:
        reader.close()


def _try_wallet(reader: Reader, number: int, programs: Any) -> list[Difference]:
    found: list[Difference] = []
    try:
        with reader.snapshot():
            found.extend(check_wallet(reader, number, programs))
    except UNREADABLE:
        # check_text reports text that isn't JSON.
        found.append(Difference("wallet", f"the stored data of wallet {number} is unreadable"))
    return found


UNLISTED = """
SELECT signature FROM receipt r
WHERE NOT EXISTS (SELECT 1 FROM sighting s WHERE s.signature = r.signature)"""
WITHOUT_ENTRY = """
SELECT w.address, s.signature FROM sighting s JOIN wallet w ON w.id = s.wallet_id
WHERE s.state = 'stored' AND s.entry IS NULL"""


def check_lists(reader: Reader) -> Iterator[Difference]:
    for (signature,) in reader.rows(UNLISTED):
        yield Difference("receipt", "no wallet lists it", signature=signature)
    for address, signature in reader.rows(WITHOUT_ENTRY):
        what = "the transaction is stored, but its effect on the wallet isn't"
        yield Difference("sighting", what, address, signature, "entry")


# ---- one wallet ----------------------------------------------------------------------------------
def check_wallet(reader: Reader, number: int, programs: Any) -> Iterator[Difference]:
    row = next(reader.rows(f"SELECT {', '.join(WALLET)} FROM wallet WHERE id = {number}"))
    wallet = SimpleNamespace(id=number, **dict(zip(WALLET, row, strict=True)))
    reread: dict[str, Entry] = {}
    yield from _check_receipts(reader, wallet, programs, reread)
    yield from check_ledger(reader, wallet, reread)
    yield from check_posts(reader, wallet)


def _check_receipts(
    reader: Reader, wallet: Any, programs: Any, reread: dict[str, Entry]
) -> Iterator[Difference]:
    """Check receipts against their rows and entries. Differing ones go to `reread`."""
    rows = reader.rows(f"SELECT address FROM address WHERE wallet_id = {wallet.id}")
    known = frozenset(address for (address,) in rows)
    same_rules = wallet.rules == store.name_rules(programs, list_added())
    if not same_rules:
        said = (
            "its entries were read under other rules, programs or currencies, so they were not"
            " compared; its next poll, or `app.py rebuild`, rereads them"
        )
        yield Difference("sighting", said, wallet.address, level="look")
    for listed in map(ListedReceipt._make, reader.rows(LISTED.format(wallet=wallet.id))):
        if listed.body is None:
            what = "the row is missing; the observer's next pass fetches it again"
            yield Difference("receipt", what, wallet.address, listed.signature)
            continue
        try:
            receipt = parse_stored(listed.body, listed.signature)
            entry = read_entry(receipt, wallet.address, programs, known)
        except UNREADABLE:
            what = "it can't be read"
            yield Difference("receipt", what, wallet.address, listed.signature, "body")
            continue
        yield from _check_columns(wallet, listed, receipt)
        if same_rules and _is_other(listed, entry):
            reread[listed.signature] = entry
            what = "it doesn't match the receipt"
            yield Difference("sighting", what, wallet.address, listed.signature, "entry")


def _check_columns(wallet: Any, listed: ListedReceipt, receipt: Any) -> Iterator[Difference]:
    columns: list[tuple[str, str, object, object]] = [
        ("receipt", "slot", listed.receipt_slot, receipt.slot),
        ("receipt", "tx_index", listed.receipt_tx_index, receipt.tx_index),
        ("receipt", "block_time", listed.receipt_block_time, receipt.block_time),
        ("receipt", "digest", listed.receipt_digest, digest_receipt(receipt)),
        ("sighting", "slot", listed.slot, receipt.slot),
    ]
    if receipt.tx_index is not None:
        columns.append(("sighting", "tx_index", listed.tx_index, receipt.tx_index))
    for table_name, name, stored, said in columns:
        if stored != said:
            what = f"is {stored}; the receipt says {said}"
            yield Difference(table_name, what, wallet.address, listed.signature, name)


def _is_other(listed: ListedReceipt, entry: Entry) -> bool:
    try:
        return listed.entry is not None and unpack_text(listed.entry) != entry.show()
    except ValueError:
        return True


# ---- a wallet's ledger ---------------------------------------------------------------------------
ENTRIES = """
SELECT signature, slot, tx_index, entry, seen_at FROM sighting
WHERE wallet_id = {wallet} AND state = 'stored' AND entry IS NOT NULL ORDER BY slot"""
PLACED = ("t.slot", "t.place", "t.signature")
OF_WALLET = "WHERE wallet_id = {wallet}"
# Derived from a wallet's ledger.
LEDGER = (
    Checked(
        "trade",
        PLACED,
        ("uid", "digest", *(name for name in DIGESTED if f"t.{name}" not in PLACED)),
        f"FROM trade t {OF_WALLET}",
    ),
    Checked(
        "trade_mint",
        (*PLACED, "COALESCE(n.address, '')"),
        ("m.wallet_id", "m.side", "m.slot", "m.place"),
        """FROM trade t JOIN trade_mint m ON m.trade_id = t.id LEFT JOIN mint n ON n.id = m.mint_id
        WHERE t.wallet_id = {wallet}""",
    ),
    *(Checked(one.name, one.key, one.columns, f"FROM {one.name} {OF_WALLET}") for one in DERIVED),
)
# Empty before the first publication.
PUBLISHED = (
    Checked("attachment", ("id",), Holdings._fields, f"FROM attachment {OF_WALLET}"),
    Checked("wallet", (), SUMS, "FROM wallet WHERE id = {wallet}"),
)


def check_ledger(reader: Reader, wallet: Any, reread: dict[str, Entry]) -> Iterator[Difference]:
    """Rebuild a wallet's ledger from its first transaction, and compare the derived data.

    `reread`: entries that replace the stored ones, by signature.
    """
    with contextlib.closing(Books()) as books:
        pending = _rebuild(reader, wallet, reread, books)
        ledger, said = pending.ledger, read_coverage(wallet.coverage)
        waiting = 0 if said is NO_COVERAGE else ledger.chain.count - said["receipts"]
        if waiting > 0:
            what = f"{waiting} stored receipts aren't in its ledger yet; the next poll applies them"
            yield Difference("wallet", what, wallet.address, level="look")
            return
        is_published = wallet.coverage is not None or ledger.chain.count
        for checked in (*LEDGER, *(PUBLISHED if is_published else ())):
            stored = checked.read(reader.rows, wallet=wallet.id)
            right = checked.read(books.rows, wallet=wallet.id)
            yield from compare_rows(checked, stored, right, wallet.address)
        if is_published:
            yield from _check_coverage(wallet, pending, said)


def _rebuild(
    reader: Reader, wallet: Any, reread: dict[str, Entry], books: Books
) -> store.PendingLedger:
    books.add(Wallet, id=wallet.id)
    for number, *_ in reader.rows(HOLDINGS.format(wallet=wallet.id)):
        books.add(Attachment, id=number, wallet_id=wallet.id)

    def make(
        pending: store.PendingLedger, booked: Iterable[store.BookedEntry]
    ) -> store.PendingLedger:
        books.drop_trades(wallet.id)
        for one in booked:
            books.add_trade(wallet.id, one.make_row(wallet))
        return pending

    def list_entries() -> Iterator[Entry]:
        siblings = read_siblings(reader.rows, wallet.id)
        shared = read_shared(reader.rows, wallet.id, siblings)
        yield from mark_entries(_list_own(reader, wallet.id, reread), siblings, shared)

    ledger = store.begin_ledger(reader.rows, wallet.id, _was_backfilled(wallet))
    pending = store.rebuild_ledger(ledger, list_entries, make)
    books.add_ledger(wallet.id, pending)
    return pending


def _was_backfilled(wallet: Any) -> bool:
    """Whether the history was completely listed at the wallet's last publication."""
    if not wallet.backfilled or wallet.reconciliation is not None:
        return bool(wallet.backfilled)
    return bool(read_coverage(wallet.coverage)["state"] != "backfilling")


def _list_own(reader: Reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
    for row in reader.rows(ENTRIES.format(wallet=number)):
        if row[0] in reread:
            yield reread[row[0]]._replace(seen_at=row[-1])
        else:
            yield Entry.load(*row)


def _check_coverage(
    wallet: Any, pending: store.PendingLedger, said: dict[str, Any]
) -> Iterator[Difference]:
    for one in compare_coverage(said, pending, timeless=False):
        yield Difference("wallet", _tell(one.theirs, one.ours), wallet.address, field=one.field)
    ledger = pending.ledger
    yield from _check_reasons(wallet, ledger.chain.gaps, said)
    left_over = {"lamports": ledger.reconcile().imbalance, **ledger.find_imbalances()}
    for money, units in left_over.items():
        if units:
            what = f"the books don't balance: {units} of {money} are left over"
            yield Difference("wallet", what, wallet.address, field="reconciliation")


def _check_reasons(wallet: Any, gaps: list[Gap], said: dict[str, Any]) -> Iterator[Difference]:
    """Compare the reasons of listed gaps. `compare_coverage` reports unlisted ones."""
    reasons: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for gap in said["gaps"]:
        reasons[gap["fromSlot"], gap["toSlot"]].add(gap["reason"])
    for one in gaps:
        shown = reasons[one.from_slot, one.to_slot]
        if shown and one.reason not in shown:
            what = _tell(min(shown), one.reason)
            yield Difference("wallet", what, wallet.address, field="coverage.gaps")


# ---- posts ---------------------------------------------------------------------------------------
class JudgedPost(NamedTuple):
    """A post that cites a signature, with its stored verification. Times are in ms."""

    uid: str
    bot_id: int
    signature: str
    mint: str | None
    created_at: int
    checked_at: int | None
    status: str
    status_reason: str | None
    trade_id: int | None
    event_at: int


POSTS = f"""
SELECT {", ".join(JudgedPost._fields)} FROM post
WHERE wallet_id = {{wallet}} AND signature IS NOT NULL ORDER BY id"""
# Trades of the post's wallet, and of others that the bot had proven and attached at that time.
NAMED = f"""
SELECT p.uid, {", ".join(f"t.{name}" for name in CitedTrade._fields)}
FROM post p JOIN attachment a ON a.bot_id = p.bot_id
    AND (a.wallet_id = p.wallet_id OR a.ownership = 'proven' AND a.attached_at <= p.created_at
        AND (a.detached_at IS NULL OR a.detached_at >= p.created_at))
JOIN sighting s ON s.wallet_id = a.wallet_id AND s.signature = p.signature
JOIN trade t ON t.wallet_id = s.wallet_id AND t.slot = s.slot AND t.signature = s.signature
WHERE p.wallet_id = {{wallet}} AND p.signature IS NOT NULL ORDER BY t.id"""
JUDGED = JudgedPost._fields[-4:]


def check_posts(reader: Reader, wallet: Any) -> Iterator[Difference]:
    trades: dict[str, dict[int, CitedTrade]] = defaultdict(dict)
    for uid, *named in reader.rows(NAMED.format(wallet=wallet.id)):
        trade = CitedTrade._make(named)
        trades[uid][trade.id] = trade
    for post in map(JudgedPost._make, reader.rows(POSTS.format(wallet=wallet.id))):
        if post.status == "pending" and post.checked_at is None:
            # The post is newer than the last publication.
            continue
        right = _judge(reader, post, list(trades[post.uid].values()))
        for name, one, other in zip(JUDGED, post[-4:], right, strict=True):
            if one != other:
                what = f"of {post.uid} is {one}; its trade says {other}"
                yield Difference("post", what, wallet.address, post.signature, name)


def _judge(
    reader: Reader, post: JudgedPost, named: list[CitedTrade]
) -> tuple[str, str | None, int | None, int]:
    judged = judge_trades(named, post.bot_id, post.created_at, post.mint, reader.rows)
    if judged and (trade := judged.trade):
        status, reason, _ = judged
        at = post.event_at
        if status == post.status == "verified":
            at = trade.block_time * 1000 if trade.block_time else post.created_at
        return status, reason, trade.id, at
    stored = post.status, post.status_reason
    if named:
        stored = OTHER_WALLET
    elif post.status not in ("pending", "not_found") and stored != OTHER_WALLET:
        stored = "pending", None
    return *stored, None, post.event_at


TIMED = """
SELECT p.uid, p.bot_id, p.trade_id, p.delay, p.status, p.created_at, t.block_time
FROM post p LEFT JOIN trade t ON t.id = p.trade_id
WHERE p.delay IS NOT NULL OR p.status = 'verified'
ORDER BY p.created_at, p.id"""
# A bot's first post about a transaction is its claim.
CLAIMS = """
SELECT p.uid, p.claim FROM post p WHERE p.claim <> (p.signature IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM post o WHERE o.signature = p.signature AND o.bot_id = p.bot_id AND o.id < p.id))
ORDER BY p.id"""


DELAYS = Checked("delay_total", ("bot_id",), PACE, "FROM delay_total")


def check_delays(reader: Reader) -> Iterator[Difference]:
    for uid, claim in reader.rows(CLAIMS):
        what = f"of {uid} is {bool(claim)}; its bot's posts say {not claim}"
        yield Difference("post", what, field="claim")
    counted: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for post, delay in judge_delays(map(TimedPost._make, reader.rows(TIMED))):
        if delay is not None:
            counted[post.bot][round_down(delay)] += 1
        if post.delay != delay:
            what = f"of {post.id} is {post.delay}; its trade says {delay}"
            yield Difference("post", what, field="delay")
    sums = ((bot, sum_delays(delays)) for bot, delays in sorted(counted.items()))
    right = (((bot,), [told[name] for name in PACE]) for bot, told in sums)
    yield from compare_rows(DELAYS, DELAYS.read(reader.rows), right)


# ---- standings -----------------------------------------------------------------------------------
STANDINGS = Checked(
    "standing_total",
    ("bot_id",),
    StandingRow._fields[1:],
    "FROM standing_total WHERE record = '{record}' AND money = '{money}' AND seconds = {seconds}",
)


def check_standings(reader: Reader, now: int) -> Iterator[Difference]:
    """Compare standings with activity, except those waiting to be recomputed. `now`: ms."""
    for board in list_boards():
        try:
            yield from _check_board(reader, board, now // 1000)
        except UNREADABLE:
            # Damaged rows are reported for their own table.
            continue


def _check_board(reader: Reader, board: Board, now: int) -> Iterator[Difference]:
    waiting = list_forgotten(reader.rows, board, now)
    found = STANDINGS.read(reader.rows, **board._asdict())
    stored = [StandingRow(*key, *values) for key, values in found if key[0] not in waiting]
    made = work_out(reader.rows, board, now, [one.bot for one in stored])
    yield from compare_rows(STANDINGS, _name_rows(board, stored), _name_rows(board, made))


def _name_rows(board: Board, rows: Iterable[StandingRow]) -> list[Keyed]:
    return sorted(((f"bot {one.bot}, {board}",), one[1:]) for one in rows)


LOGS = "SELECT id, uid, first_leaf FROM log ORDER BY id"
NODES = "SELECT log_id, level, place, hash FROM log_node"
LEAVES = "SELECT id, data FROM log_leaf ORDER BY id"
BOTS = "SELECT id, uid FROM bot ORDER BY id"
ATTACHED = """
SELECT w.address, a.ownership, a.attached_at, a.detached_at
FROM attachment a JOIN wallet w ON w.id = a.wallet_id WHERE a.bot_id = {bot} ORDER BY a.id"""
LOGGED_WALLETS = """
SELECT w.address, g.leaf_id FROM wallet w LEFT JOIN logged_wallet g ON g.wallet_id = w.id
ORDER BY w.id"""
SEASONS = f"""
SELECT uid, CASE WHEN cancelled_at IS NULL THEN 0 ELSE 1 END,
       CASE WHEN frozen_at IS NULL THEN 0 ELSE 1 END, {", ".join(Terms._fields)}
FROM season ORDER BY id"""
# All logs are read as one. A leaf's place is its ID. MANY exceeds every ID, so no leaf is left out.
ALL, MANY = "all", 2**62


def check_log(reader: Reader) -> Iterator[Difference]:
    with contextlib.closing(sqlite3.connect("", isolation_level=None)) as kept:
        memory = LogMemory(kept)
        kept.execute("BEGIN")
        yield from check_leaves(reader, memory)
        memory.join([Part(ALL, 0, MANY)])
        firsts = {uid: first for _, uid, first in reader.rows(LOGS)}
        bots, seasons = dict(reader.rows(BOTS)), memory.list_seasons()
        for number, uid in bots.items():
            yield from _check_bot(reader, memory, number, uid, seasons)
            yield from _check_posts(reader, memory, firsts, number, uid)
        yield from _check_terms(reader, seasons)
        for uid in sorted(set(memory.list_bots()) - set(bots.values())):
            yield Difference("bot", f"{uid} is in the log but not in the database")
        for address, leaf in reader.rows(LOGGED_WALLETS):
            said = [one for one in memory.list_said(address) if one.leaf["kind"] == "evidence"]
            last = said[-1].place if said else None
            if leaf != last:
                what = f"is leaf {leaf}, but the last leaf of the log is {last}"
                yield Difference("logged_wallet", what, wallet=address)


# ---- bots and posts ------------------------------------------------------------------------------
def _check_bot(
    reader: Reader, memory: LogMemory, number: int, uid: str, seasons: list[Said]
) -> Iterator[Difference]:
    said, held = memory.list_said(uid), HeldWallets()
    try:
        profile = check_shape(ClaimedProfile, show_profile(reader.rows, number))
    except Nonsense:
        yield Difference("bot", f"{uid} cannot be read")
        return
    for one in compare_bot(profile, said, MANY):
        field = one.field.split(".")[-1]
        yield Difference("bot", f"{uid} doesn't match the log", field=field)
    for address, *span in reader.rows(ATTACHED.format(bot=number)):
        held.setdefault(address, []).append(Held(*span))
    for one in compare_held(held, said, MANY):
        what = f"the period in which {uid} had it, or its proof, doesn't match the log"
        yield Difference("attachment", what, wallet=_bare(one.field))
    try:
        frozen = {
            season: check_shape(ClaimedSeason, one)
            for season, one in show_seasons(reader.rows, number).items()
        }
    except Nonsense:
        yield Difference("season_entry", f"{uid}: a season row can't be read")
        return
    for one in compare_seasons(frozen, uid, held, seasons, MANY):
        what = f"{uid}: {one.field.split('.')[1]} doesn't match the log"
        yield Difference("season_entry", what, field=one.field.split(".")[-1])


def _check_terms(reader: Reader, said: list[Said]) -> Iterator[Difference]:
    last = {one.leaf["season"]: one.leaf for one in said if one.leaf["kind"] == "season"}
    for uid, is_cancelled, is_frozen, *terms in reader.rows(SEASONS):
        state = "cancelled" if is_cancelled else "final" if is_frozen else "open"
        shown = {"state": state, **show_terms(Terms._make(terms))}
        leaf = last.pop(uid, {})
        for name, value in shown.items():
            if leaf.get(name) != value:
                yield Difference("season", f"{uid} doesn't match the log", field=name)
    for uid in sorted(last):
        yield Difference("season", f"{uid} is in the log but not in the database")


def _check_posts(
    reader: Reader, memory: LogMemory, firsts: dict[str, int], number: int, uid: str
) -> Iterator[Difference]:
    known = set()
    for _, *values in reader.rows(POST_LINES.format(owner=number, after=0, most=MANY)):
        line = show_post(values)
        known.add(line["id"])
        try:
            post = check_shape(ClaimedPost, line)
        except Nonsense:
            yield Difference("post", f"{line['id']} cannot be read")
            continue
        place = None
        if post.log is not None and post.logIndex is not None:
            place = firsts[post.log] + post.logIndex
        for one in compare_post(post, uid, place, memory.list_said(post.id), MANY):
            field = one.field.split(".")[-1]
            yield Difference("post", f"{post.id} doesn't match the log", field=field)
    for missing in memory.list_posts(uid, MANY):
        if missing not in known:
            yield Difference("post", f"{missing} is in the log but not in the database")


# ---- the tree ------------------------------------------------------------------------------------
def check_leaves(reader: Reader, memory: LogMemory) -> Iterator[Difference]:
    """Read all leaves in order into `memory`, and compare the stored hashes above full tiles."""
    logs = {first: (number, uid) for number, uid, first in reader.rows(LOGS)}
    nodes = {(log, level, place): bytes(node) for log, level, place, node in reader.rows(NODES)}
    log, first, expected = 0, 0, 0
    levels: list[list[bytes]] = [[]]
    begun = set()
    for number, data in reader.rows(LEAVES):
        for missing in range(expected, min(number, expected + 10)):
            yield Difference("log_leaf", f"leaf {missing} is missing")
        expected = number + 1
        if number in logs:
            (log, uid), first, levels = logs[number], number, [[]]
            begun.add(uid)
        try:
            leaf = orjson.loads(data)
            if number not in logs and leaf["kind"] == "opening":
                what = f"leaf {number} opens {leaf['log']}, which is missing"
                yield Difference("log", what)
            if number in logs and (leaf["kind"], leaf["log"]) != ("opening", uid):
                yield Difference("log", f"{uid} doesn't start with its opening leaf")
            memory.add_leaves(ALL, number, [data.encode()])
        except UNREADABLE:
            yield Difference("log_leaf", f"leaf {number - first} can't be read")
        yield from _add(nodes, log, levels, 0, number - first, hash_leaf(data.encode()))
    for _, uid in logs.values():
        if uid not in begun:
            yield Difference("log", f"{uid}: its first leaf is missing")
    for _, level, place in nodes:
        yield Difference("log_node", f"level {level}, place {place}: no leaves lead to this hash")


def _add(
    nodes: dict[Any, bytes], log: int, levels: list[list[bytes]], level: int, place: int, one: bytes
) -> Iterator[Difference]:
    """Add a hash to the tree. If it fills a tile, compare the hash above it."""
    levels[level].append(one)
    if (place + 1) % TILE_WIDTH or len(levels[level]) != TILE_WIDTH:
        return
    found, parent = hash_tile(levels[level]), place // TILE_WIDTH
    levels[level].clear()
    if nodes.pop((log, level + 1, parent), None) != found:
        what = "the hash doesn't match the leaves below it; one of them was changed"
        yield Difference("log_node", f"level {level + 1}, place {parent}: {what}")
    if level + 1 == len(levels):
        levels.append([])
    yield from _add(nodes, log, levels, level + 1, parent, found)
