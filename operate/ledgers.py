"""Rebuild all data derived from stored transactions and compare it with the stored rows: ledgers,
verifications and delays of posts, standings.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accounts.delays import judge_delays, sum_delays
from accounts.verification import CitedTrade, judge_stored
from chain.ledger.sums import round_down
from chain.ledger.views import Holdings
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES
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
from chain.stored.standings import Board, StandingRow, list_boards, list_forgotten, work_out
from chain.stored.summary import UNREADABLE as NO_COVERAGE
from chain.stored.summary import read_coverage
from chain.stored.trades import DIGESTED, Row, list_moved
from chain.stored.verify import OTHER_WALLET, choose
from evidence.claimed import PACE
from operate.differences import UNREADABLE, Comparison, Difference, compare_rows
from operate.readers import Reader

ENTRIES = """
SELECT signature, slot, tx_index, entry, seen_at FROM sighting
WHERE wallet_id = {wallet} AND state = 'stored' AND entry IS NOT NULL ORDER BY slot"""
# Trades, and the tokens they moved, by place.
ORDER = ("slot", "place", "signature")
PLACED = ", ".join(f"t.{name}" for name in ORDER)
COLUMNS = ("uid", "digest", *(name for name in DIGESTED if name not in ORDER))
STORED_TRADES = f"""
SELECT {PLACED}, {", ".join(f"t.{name}" for name in COLUMNS)} FROM trade t
WHERE t.wallet_id = {{wallet}} ORDER BY {PLACED}"""
STORED_MOVED = f"""
SELECT {PLACED}, m.wallet_id, n.address, m.side, m.slot, m.place
FROM trade t LEFT JOIN trade_mint m ON m.trade_id = t.id LEFT JOIN mint n ON n.id = m.mint_id
WHERE t.wallet_id = {{wallet}} ORDER BY {PLACED}, m.id"""


# ---- a wallet's ledger ---------------------------------------------------------------------------
@dataclass
class Rebuilt:
    """A wallet's rebuilt ledger, and how its trades differ from the stored ones."""

    pending: store.PendingLedger
    trades: Comparison
    moved: Comparison
    traded: set[tuple[str, str]] = field(default_factory=set)
    last_trade_at: int | None = None

    def add(self, wallet_id: int, row: Row) -> None:
        key = tuple(row[name] for name in ORDER)
        self.trades.add(key, [row[name] for name in COLUMNS])
        moved = list_moved(row)
        self.moved.add(key, [[(wallet_id, *one) for one in moved]])
        self.traded |= {(mint, side) for mint, side, *_ in moved if side}


def rebuild(reader: Reader, wallet: Any, reread: dict[str, Entry]) -> Rebuilt:
    """Rebuild the wallet's ledger from its first transaction. `reread`: entries that replace the
    stored ones, by signature.
    """
    ledger = store.begin_ledger(reader.rows, wallet.id, _was_backfilled(wallet))

    def make(pending: store.PendingLedger, booked: Iterable[store.BookedEntry]) -> Rebuilt:
        trades = reader.rows(STORED_TRADES.format(wallet=wallet.id))
        rebuilt = Rebuilt(
            pending,
            Comparison("trade", COLUMNS, map(_part, trades), wallet.address, signed=True),
            Comparison(
                "trade_mint", ("moved",), _list_moved(reader, wallet.id), wallet.address, True
            ),
        )
        for one in booked:
            rebuilt.add(wallet.id, one.make_row(wallet))
            if one.entry.kind in TRADES:
                rebuilt.last_trade_at = one.entry.block_time and one.entry.block_time * 1000
        return rebuilt

    return store.rebuild_ledger(ledger, lambda: _list_entries(reader, wallet.id, reread), make)


def _part(row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return row[: len(ORDER)], row[len(ORDER) :]


def _list_moved(reader: Reader, number: int) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    last: tuple[Any, ...] | None = None
    moved: list[tuple[Any, ...]] = []
    for key, values in map(_part, reader.rows(STORED_MOVED.format(wallet=number))):
        if last is not None and key != last:
            yield last, [moved]
            moved = []
        last = key
        if values[0] is not None:
            moved.append(values)
    if last is not None:
        yield last, [moved]


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


def check_ledger(reader: Reader, wallet: Any, reread: dict[str, Entry]) -> Iterator[Difference]:
    """Compare a wallet's trades, derived tables and columns with a rebuilt ledger."""
    rebuilt = rebuild(reader, wallet, reread)
    ledger, said = rebuilt.pending.ledger, read_coverage(wallet.coverage)
    waiting = 0 if said is NO_COVERAGE else ledger.chain.count - said["receipts"]
    if waiting > 0:
        what = f"{waiting} stored receipts are not in its ledger yet; the next poll applies them"
        yield Difference("wallet", what, wallet.address, level="look")
        return
    yield from rebuilt.trades.end()
    yield from rebuilt.moved.end()
    rows = reader.rows(f"SELECT mint, side FROM token_trader WHERE wallet_id = {wallet.id}")
    stored: dict[Any, tuple[()]] = {(side, mint): () for mint, side in rows}
    right: dict[Any, tuple[()]] = {(side, mint): () for mint, side in rebuilt.traded}
    yield from compare_rows("token_trader", (), stored, right, wallet.address)
    for one, made in rebuilt.pending.derived.take(ledger).items():
        kept = {key: values for key, values in made.items() if values is not None}
        found = dict(one.read(reader.rows(one.select.format(wallet=wallet.id))))
        yield from compare_rows(one.name, one.columns, found, kept, wallet.address)
    # Before the first publication, the other columns are empty.
    if wallet.coverage is not None or ledger.chain.count:
        yield from _check_columns(reader, wallet, rebuilt)


def _check_columns(reader: Reader, wallet: Any, rebuilt: Rebuilt) -> Iterator[Difference]:
    ledger, said = rebuilt.pending.ledger, read_coverage(wallet.coverage)
    held = {(number,): one for number, one in ledger.find_holdings().items()}
    rows = reader.rows(HOLDINGS.format(wallet=wallet.id))
    stored = {(number,): values for number, *values in rows}
    yield from compare_rows("attachment", Holdings._fields, stored, held, wallet.address)
    right = {**store.show_summary(ledger), "last_trade_at": rebuilt.last_trade_at}
    told = {name: getattr(wallet, name) for name in right}
    for name, value in store.show_extent(rebuilt.pending).items():
        right[f"coverage.{name}"], told[f"coverage.{name}"] = value, said[name]
    yield from compare_rows(
        "wallet", list(right), {(): list(told.values())}, {(): list(right.values())}, wallet.address
    )
    for name, what in _judge_books(ledger, said):
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
        yield "coverage.state", "says complete, but a fresh rebuild has gaps or begins late"
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
                what = f"of {post.uid} is {one}; its trade says {other}"
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


def check_delays(reader: Reader) -> Iterator[Difference]:
    """Compare the posts' delays, their totals, and which posts are claims."""
    for uid, claim in reader.rows(CLAIMS):
        what = f"of {uid} is {bool(claim)}; its bot's posts say {not claim}"
        yield Difference("post", what, field="claim")
    counted: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for post, delay in judge_delays(map(TimedPost._make, reader.rows(TIMED))):
        if delay is not None:
            counted[post.bot][round_down(delay)] += 1
        if post.delay != delay:
            what = f"of {post.uid} is {post.delay}; its trade says {delay}"
            yield Difference("post", what, field="delay")
    sums = {bot: sum_delays(delays) for bot, delays in counted.items()}
    right = {(bot,): [told[name] for name in PACE] for bot, told in sums.items()}
    rows = reader.rows(f"SELECT bot_id, {', '.join(PACE)} FROM delay_total")
    yield from compare_rows("delay_total", PACE, {(bot,): row for bot, *row in rows}, right)


# ---- standings -----------------------------------------------------------------------------------
STANDINGS = f"""
SELECT {", ".join(("bot_id", *StandingRow._fields[1:]))} FROM standing_total
WHERE record = '{{record}}' AND money = '{{money}}' AND seconds = {{seconds}}"""


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
    rows = map(StandingRow._make, reader.rows(STANDINGS.format(**board._asdict())))
    stored = {(f"bot {one.bot}, {board}",): one for one in rows if one.bot not in waiting}
    made = work_out(reader.rows, board, now, [one.bot for one in stored.values()])
    right = {(f"bot {one.bot}, {board}",): one for one in made}
    yield from compare_rows("standing_total", StandingRow._fields, stored, right)
