"""Check that stored data is consistent: rebuild all derived data from the stored transactions and
compare.

Read-only, one wallet at a time, each in one snapshot; also with a running server. Posts are
compared with the log. Names and profiles have no second source, so only their form is checked
(operate.forms).
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from accounts.delays import judge_delays, sum_delays
from accounts.verification import CitedTrade, judge_stored
from chain.ledger.sums import round_down
from chain.ledger.views import Holdings
from chain.reading.entries import Entry, read_entry
from chain.reading.programs import table
from chain.reading.quotes import list_added
from chain.reading.receipts import digest_receipt, parse_stored, unpack_text
from chain.stored import store
from chain.stored.attachments import (
    HOLDERS,
    HOLDINGS,
    Holder,
    is_own_trade,
    mark_entries,
    read_shared,
    read_siblings,
)
from chain.stored.derived import DERIVED
from chain.stored.standings import Board, StandingRow, list_boards, list_forgotten, work_out
from chain.stored.summary import UNREADABLE as NO_COVERAGE
from chain.stored.summary import read_coverage
from chain.stored.trades import DIGESTED
from chain.stored.verify import OTHER_WALLET, choose
from config import Config
from evidence.books import Books
from evidence.claimed import PACE, SUMS
from models import Attachment, Wallet
from operate.differences import UNREADABLE, Checked, Difference, Keyed, compare_rows
from operate.forms import check_forms
from operate.log_checks import check_log
from operate.readers import Reader, open_reader

# An observed wallet's transactions are stored a moment before its ledger.
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
    """Yield all differences. `running`: an observer may be active, so compare again before
    reporting one.
    """
    programs = table(config.extra_swap_programs, config.added_programs)
    reader = open_reader(config)
    try:
        with reader.snapshot():
            yield from check_forms(reader, now)
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
        # The inspection of forms reports text that isn't JSON.
        found.append(Difference("wallet", f"the stored data of wallet {number} is unreadable"))
    return found


def check_lists(reader: Reader) -> Iterator[Difference]:
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
        what = "it is stored, and what it means for the wallet is not"
        yield Difference("sighting", what, address, signature, "entry")


# ---- one wallet ----------------------------------------------------------------------------------
def check_wallet(reader: Reader, number: int, programs: Any) -> Iterator[Difference]:
    """Yield differences between a wallet's stored data and what its receipts lead to."""
    row = next(reader.rows(f"SELECT {', '.join(WALLET)} FROM wallet WHERE id = {number}"))
    wallet = SimpleNamespace(id=number, **dict(zip(WALLET, row, strict=True)))
    reread: dict[str, Entry] = {}
    yield from _check_receipts(reader, wallet, programs, reread)
    yield from check_ledger(reader, wallet, reread)
    yield from check_posts(reader, wallet)


def _check_receipts(
    reader: Reader, wallet: Any, programs: Any, reread: dict[str, Entry]
) -> Iterator[Difference]:
    """Check that each stored receipt matches its row, the wallet's list and its entry; entries that
    differ are added to `reread`.
    """
    known = frozenset(
        address
        for (address,) in reader.rows(f"SELECT address FROM address WHERE wallet_id = {wallet.id}")
    )
    same_rules = wallet.rules == store.name_rules(programs, list_added())
    if not same_rules:
        said = (
            "its entries were read by other rules, programs or currencies, so they were not"
            " compared: its next poll, or `app.py rebuild`, rereads them"
        )
        yield Difference("sighting", said, wallet.address, level="look")
    for listed in map(ListedReceipt._make, reader.rows(LISTED.format(wallet=wallet.id))):
        if listed.body is None:
            what = "the row is missing: the next pass of the observer fetches it again"
            yield Difference("receipt", what, wallet.address, listed.signature)
            continue
        try:
            receipt = parse_stored(listed.body, listed.signature)
            entry = read_entry(receipt, wallet.address, programs, known)
        except UNREADABLE:
            what = "it cannot be read"
            yield Difference("receipt", what, wallet.address, listed.signature, "body")
            continue
        yield from _check_columns(wallet, listed, receipt)
        if same_rules and _is_other(listed, entry):
            reread[listed.signature] = entry
            what = "it is not what the receipt says"
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
            what = f"is {stored}, the receipt says {said}"
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
# Everything derived from a wallet's ledger.
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
    Checked("token_trader", ("side", "mint"), (), f"FROM token_trader {OF_WALLET}"),
    *(Checked(one.name, one.key, one.columns, f"FROM {one.name} {OF_WALLET}") for one in DERIVED),
)
# Before the first publication these are empty.
PUBLISHED = (
    Checked("attachment", ("id",), Holdings._fields, f"FROM attachment {OF_WALLET}"),
    Checked("wallet", (), SUMS, "FROM wallet WHERE id = {wallet}"),
)


def check_ledger(reader: Reader, wallet: Any, reread: dict[str, Entry]) -> Iterator[Difference]:
    """Rebuild a wallet's ledger from its first transaction, and compare what is derived from it.
    `reread`: entries that replace the stored ones, by signature.
    """
    with contextlib.closing(Books()) as books:
        pending = _rebuild(reader, wallet, reread, books)
        ledger, said = pending.ledger, read_coverage(wallet.coverage)
        waiting = 0 if said is NO_COVERAGE else ledger.chain.count - said["receipts"]
        if waiting > 0:
            what = f"{waiting} stored receipts aren't in its ledger yet: the next poll applies them"
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

    ledger = store.begin_ledger(reader.rows, wallet.id, _was_backfilled(wallet))
    pending = store.rebuild_ledger(ledger, lambda: _list_entries(reader, wallet.id, reread), make)
    books.add_ledger(wallet.id, pending)
    return pending


def _was_backfilled(wallet: Any) -> bool:
    """Whether the history was listed completely at the wallet's last publication, which is a later
    transaction.
    """
    if not wallet.backfilled or wallet.reconciliation is not None:
        return bool(wallet.backfilled)
    return bool(read_coverage(wallet.coverage)["state"] != "backfilling")


def _list_entries(reader: Reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
    siblings = read_siblings(reader.rows, number)
    shared = read_shared(reader.rows, number, siblings)
    yield from mark_entries(_list_own(reader, number, reread), siblings, shared)


def _list_own(reader: Reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
    for row in reader.rows(ENTRIES.format(wallet=number)):
        if row[0] in reread:
            yield reread[row[0]]._replace(seen_at=row[-1])
        else:
            yield Entry.load(*row)


def _check_coverage(
    wallet: Any, pending: store.PendingLedger, said: dict[str, Any]
) -> Iterator[Difference]:
    told = store.show_extent(pending)
    coverage = Checked("wallet", (), tuple(f"coverage.{name}" for name in told), "")
    stored = [said[name] for name in told]
    for one in compare_rows(coverage, [((), stored)], [((), [*told.values()])], wallet.address):
        yield replace(one, field=f"coverage.{one.field}")
    for name, what in _judge_books(pending.ledger, said):
        yield Difference("wallet", what, wallet.address, field=name)


def _judge_books(ledger: Any, said: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield money that is left over, and coverage claims beyond what the ledger shows. Whether the
    node agreed is unknown here.
    """
    left_over = {"lamports": ledger.reconcile().imbalance, **ledger.find_imbalances()}
    for money, units in left_over.items():
        if units:
            yield "reconciliation", f"the books don't balance: {units} of {money} are left over"
    if said["state"] == "complete" and (ledger.chain.gaps or ledger.chain.opened or said["gaps"]):
        yield "coverage.state", "says complete, a fresh rebuild has gaps or begins late"
    gaps = {(gap["fromSlot"], gap["toSlot"], gap["reason"]) for gap in said["gaps"]}
    found = {(gap.from_slot, gap.to_slot, gap.reason) for gap in ledger.chain.gaps}
    if said["state"] == "partial" and not found <= gaps:
        yield "coverage.gaps", "lacks gaps that a fresh rebuild finds"


# ---- posts ---------------------------------------------------------------------------------------
class JudgedPost(NamedTuple):
    """A post that cites a signature, with its stored verification; times in ms."""

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
# From the post's wallet, and from others that the bot had proven and attached then.
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
    """Compare verifications of posts with their trades."""
    sql = f"{HOLDERS.format(wallet=wallet.id)} ORDER BY id"
    holders = [Holder._make(row) for row in reader.rows(sql)]
    trades: dict[str, dict[int, CitedTrade]] = defaultdict(dict)
    for uid, *named in reader.rows(NAMED.format(wallet=wallet.id)):
        trade = CitedTrade._make(named)
        trades[uid][trade.id] = trade
    for post in map(JudgedPost._make, reader.rows(POSTS.format(wallet=wallet.id))):
        if post.status == "pending" and post.checked_at is None:
            # Newer than the last publication.
            continue
        right = _judge(post, list(trades[post.uid].values()), wallet.id, holders)
        for name, one, other in zip(JUDGED, post[-4:], right, strict=True):
            if one != other:
                what = f"of {post.uid} is {one}, its trade says {other}"
                yield Difference("post", what, wallet.address, post.signature, name)


def _judge(
    post: JudgedPost, named: list[CitedTrade], wallet_id: int, holders: list[Holder]
) -> tuple[str, str | None, int | None, int]:
    """Return the correct values of JUDGED according to the trades a post cites."""
    mine = [
        one
        for one in named
        if one.wallet_id != wallet_id
        or is_own_trade(holders, post.bot_id, post.created_at, one.block_time)
    ]
    if chosen := choose([(*judge_stored(one, post.mint), one) for one in mine]):
        status, reason, trade = chosen
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


class TimedPost(NamedTuple):
    """A post that has or needs a delay; `created_at` in ms, `block_time` in Unix seconds."""

    uid: str
    bot: int
    trade: int | None
    delay: int | None
    status: str
    created_at: int
    block_time: int | None


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
    """Compare the posts' delays, their totals, and which posts are claims."""
    for uid, claim in reader.rows(CLAIMS):
        what = f"of {uid} is {bool(claim)}, its bot's posts say {not claim}"
        yield Difference("post", what, field="claim")
    counted: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for post, delay in judge_delays(map(TimedPost._make, reader.rows(TIMED))):
        if delay is not None:
            counted[post.bot][round_down(delay)] += 1
        if post.delay != delay:
            what = f"of {post.uid} is {post.delay}, its trade says {delay}"
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
    """Compare standings with the wallets' activity, except those waiting to be recomputed. `now` in
    ms.
    """
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
