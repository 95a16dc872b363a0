"""From stored entries to what readers see: trades, results, positions, coverage. No network here.

A rebuild writes only the rows that differ, in one short transaction, so that the order in which
receipts arrived leaves no trace.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import storage
from chain.ledger.coverage import Progress, decide_state, order_entries
from chain.ledger.forward import Forward
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Booked, Opening
from chain.ledger.quote_book import QuoteBook
from chain.ledger.risk import RiskBook
from chain.ledger.sums import IN_SOL, WHOLE, Sums, read_sums
from chain.reading.entries import READING, Entry
from chain.reading.kinds import TRADES
from chain.stored.forward_store import read_spans, replace_holdings
from chain.stored.quote_store import PendingQuotes, replace_quotes, settle_quotes
from chain.stored.risk_store import replace_risk, settle_risk
from chain.stored.standings import forget_standings_of
from chain.stored.summary import (
    read_coverage,
    show_average,
    show_positions,
    show_quotes,
    show_reconciliation,
    show_results,
    show_time,
)
from chain.stored.totals import (
    HOUR_SECONDS,
    LedgerKey,
    PendingTotals,
    replace_totals,
    settle_totals,
)
from chain.stored.trade_store import (
    Row,
    complete_row,
    derive_columns,
    digest_columns,
    make_trade_row,
    read_digests_by_slot,
    replace_trades,
    to_json,
)
from models import Wallet
from storage.arrivals import store_arrival

# How many slots a rebuild reads, then books, then compares with what is stored: each of the three
# runs quicker in a row, while its instructions are in the processor's cache.
SLOTS_AT_ONCE = 32

FollowUp = Callable[[Wallet, set[str], int], None]


@dataclass
class PendingLedger:
    """A ledger and what is not written yet. Each signature has one fate: it is written, or (None)
    dropped.
    """

    ledger: Ledger
    forward: Forward = field(default_factory=Forward)
    # signature -> trade row, or None for a stored one that the book no longer has
    rows: dict[str, Row | None] = field(default_factory=dict)
    totals: PendingTotals = field(default_factory=PendingTotals)
    risk: RiskBook = field(default_factory=RiskBook)
    # stored risk of spans that have none, by span
    unwanted_risk: dict[int, RiskBook] = field(default_factory=dict)
    quotes: QuoteBook = field(default_factory=QuoteBook)
    quote_rows: PendingQuotes = field(default_factory=PendingQuotes)
    first_time: int | None = None
    last_time: int | None = None
    # of the latest block time so far, counted from 1970
    hour: int = 0
    place: tuple[int | None, int] = (None, 0)

    def list_risk(self) -> dict[int, RiskBook]:
        """Return the RiskBook of each span, by span, and of all that the wallet did."""
        spans = {number: record.risk for number, record in self.forward.records.items()}
        return {WHOLE: self.risk, **spans}

    def list_sums(self) -> dict[LedgerKey, Sums]:
        """Return the sums of each ledger that the last entry may have changed."""
        sums = {LedgerKey(IN_SOL, WHOLE): read_sums(self.ledger.totals)}
        for money, one in self.quotes.records.items():
            sums[LedgerKey(money, WHOLE)] = one.last
        record = self.forward.open_record
        if record:
            sums[LedgerKey(IN_SOL, record.span.number)] = record.last
            for money, one in record.quotes.records.items():
                sums[LedgerKey(money, record.span.number)] = one.last
        return sums

    def list_wallets(self, wallet_id: int) -> list[int]:
        """List the numbers of the wallets whose trades this is made of. `wallet_id`: the one that
        it is stored under.
        """
        return [wallet_id]

    @property
    def is_stale(self) -> bool:
        """Are all entries to be booked again, as Ledger.stale says?"""
        return self.ledger.stale or self.quotes.is_stale


class LedgerStore:
    """The ledgers of all wallets, in memory: what arrives at the head costs only itself. Of what
    is stored as it should be, nothing is kept.
    """

    def __init__(self, follow_up: FollowUp | None = None) -> None:
        """`follow_up(wallet, changed signatures, now)` runs in the transaction of each publish."""
        self._pending: dict[int, PendingLedger] = {}
        self._follow_up = follow_up

    def forget(self, wallet_id: int) -> None:
        self._pending.pop(wallet_id, None)

    def apply(self, wallet: Wallet, new: Sequence[Entry] = ()) -> Ledger:
        """The Ledger of a wallet with these new entries; rebuilt from the start where one is not
        newer than all before.
        """
        pending, spans = self._pending.get(wallet.id), read_spans(wallet.id)
        if (
            pending is None
            or pending.forward.spans != spans
            or pending.ledger.backfilled != wallet.backfilled
            or not _extends(pending.ledger, new)
        ):
            pending = self._pending[wallet.id] = PendingLedger(
                Ledger(backfilled=wallet.backfilled, untouched=read_untouched(wallet.id)),
                Forward(spans),
            )
            _rebuild(wallet, pending)
        else:
            for entry in order_entries(new, pending.ledger.seen):
                pending.rows[entry.signature] = apply_entry(wallet, pending, entry)
        if pending.is_stale:
            pending = self._pending[wallet.id] = PendingLedger(
                pending.ledger.restart(), Forward(spans)
            )
            _rebuild(wallet, pending)
        return pending.ledger

    def find(self, wallet_id: int) -> Ledger:
        """The Ledger of a wallet as it was applied last."""
        return self._pending[wallet_id].ledger

    def last_time(self, wallet_id: int) -> int | None:
        """Block time of the newest receipt in the ledger of a wallet, or None."""
        pending = self._pending.get(wallet_id)
        return None if pending is None else pending.last_time

    def publish(self, wallet: Wallet, progress: Progress | None, now: int) -> None:
        """Write what follows from the ledger: trades, the wallet's derived columns and what
        `follow_up` makes of them, in one transaction.

        `progress`: ledger.coverage.Progress; None leaves the coverage as it was said last (nothing
        was looked at).
        """
        pending = self._pending[wallet.id]
        with storage.writing():
            changed = replace_trades(wallet.id, pending.rows)
            moved = replace_sums(wallet.id, pending)
            shown = _replace_summary(wallet, pending, progress)
            if shown or moved or pending.rows:
                forget_standings_of(wallet.id)
            if self._follow_up:
                self._follow_up(wallet, changed, now)
        pending.rows, pending.unwanted_risk = {}, {}


def _extends(ledger: Ledger, new: Iterable[Entry]) -> bool:
    return all(ledger.last_slot is None or entry.slot > ledger.last_slot for entry in new)


def _rebuild(wallet: Wallet, pending: PendingLedger) -> None:
    """Apply all stored entries, some slots at once, and meanwhile compare what that makes with what
    is stored, so that a long past is not held in memory (see storage.InOrder).
    """
    digests = read_digests_by_slot(wallet.id)
    slots = (list(group) for _, group in groupby(list_entries(wallet.id), key=attrgetter("slot")))
    for part in storage.in_parts(slots, SLOTS_AT_ONCE):
        made = [
            book_entry(pending, wallet.id, entry)
            for slot in part
            for entry in order_entries(slot, pending.ledger.seen)
        ]
        stored = {one: digest for _, one, digest in digests.take(part[-1][0].slot)}
        for place, booked in made:
            columns = derive_columns(wallet.address, place, booked)
            digest, signature = digest_columns(columns), columns["signature"]
            if stored.pop(signature, None) != digest:
                pending.rows[signature] = complete_row(wallet, columns, digest)
        _drop(stored, pending)
    _drop((one for _, one, _ in digests.take()), pending)
    settle(wallet.id, pending)


def _drop(signatures: Iterable[str], pending: PendingLedger) -> None:
    """Note stored trades that the rebuild did not make, to be dropped. Where only the stored slot
    is wrong, a row was made already, or will be.
    """
    for signature in signatures:
        pending.rows.setdefault(signature, None)


def settle(wallet_id: int, pending: PendingLedger) -> None:
    """Reduce the sums that a rebuild made to those to be written: what differs from the stored
    ones, and None for what is stored and was not made.
    """
    settle_totals(wallet_id, pending.totals)
    settle_quotes(wallet_id, pending.quote_rows, pending.list_wallets(wallet_id))
    books = pending.list_risk()
    settle_risk(wallet_id, books)
    known = pending.list_risk()
    pending.unwanted_risk = {span: book for span, book in books.items() if span not in known}


def replace_sums(wallet_id: int, pending: PendingLedger) -> bool:
    """Write the sums that are not written yet, in the caller's transaction, after the trades;
    return whether any but those of risk moved.
    """
    replace_risk(wallet_id, pending.unwanted_risk)
    replace_risk(wallet_id, pending.list_risk())
    moved = replace_totals(wallet_id, pending.totals)
    moved = replace_holdings(pending.forward.find_holdings(pending.ledger)) or moved
    return replace_quotes(pending.quote_rows) or moved


def apply_entry(wallet: Wallet, pending: PendingLedger, entry: Entry) -> Row:
    """Book an entry: its trade row."""
    return make_trade_row(wallet, *book_entry(pending, wallet.id, entry))


def book_entry(pending: PendingLedger, wallet_id: int, entry: Entry) -> tuple[int, Booked]:
    """Book an entry: its place in its slot, and what the ledger made of it. `wallet_id`: of the
    wallet whose trade row tells of it.
    """
    slot, count = pending.place
    pending.place = (entry.slot, count + 1 if slot == entry.slot else 0)
    if entry.block_time is not None:
        pending.first_time = entry.block_time if pending.first_time is None else pending.first_time
        pending.last_time = entry.block_time
        pending.hour = max(pending.hour, entry.block_time // HOUR_SECONDS)
    pending.quotes.begin(entry, pending.ledger)
    booked = pending.forward.apply(entry, pending.ledger)
    in_quotes = pending.quotes.count(entry)
    if in_quotes:
        pending.quote_rows.add(wallet_id, entry, in_quotes)
    pending.risk.add(booked, pending.hour)
    place_in_slot = pending.place[1] if entry.tx_index is None else entry.tx_index
    pending.totals.note(pending.list_sums(), pending.hour)
    return place_in_slot, booked


class Untouched(NamedTuple):
    """What a node says that an account holds which no known transaction touched."""

    address: str
    held_mint: str
    held_amount: str
    held_decimals: int


# Plain SQL: it runs with each rebuild of a ledger, and in each poll to compare what nodes hold.
# `{wallet}`: its number, or the mark of a value.
UNTOUCHED = f"""
SELECT {", ".join(Untouched._fields)} FROM address
WHERE wallet_id = {{wallet}} AND held_amount IS NOT NULL"""


def read_untouched(wallet_id: int) -> dict[str, Opening]:
    """{address: Opening} of accounts that hold something and that no known receipt touched."""
    rows = storage.database.execute_sql(UNTOUCHED.format(wallet="?"), (wallet_id,)).fetchall()
    return {row.address: open_untouched(row) for row in map(Untouched._make, rows)}


def open_untouched(row: Untouched) -> Opening:
    """Return the Opening that such an account stands for."""
    return Opening.untouched(row.address, row.held_mint, int(row.held_amount), row.held_decimals)


ENTRIES = """
SELECT signature, slot, tx_index, entry, seen_at FROM sighting
WHERE wallet_id = ? AND state = 'stored' ORDER BY slot"""


def list_entries(wallet_id: int) -> Iterator[Entry]:
    """All stored entries of a wallet by slot, one after another."""
    for row in storage.database.execute_sql(ENTRIES, (wallet_id,)):
        yield Entry.load(*row)


def name_rules(programs: object) -> str:
    """Name the rules by which entries are read: where they change, entries are read anew."""
    return hashlib.sha256(f"{READING} {programs!r}".encode()).hexdigest()[:16]


# ---- the wallet's summary ------------------------------------------------------------------------
# Plain SQL: it runs with each publication.
KINDS = ", ".join(f"'{kind}'" for kind in sorted(TRADES))
LAST_TRADE = f"""
SELECT block_time FROM trade WHERE wallet_id = ? AND kind IN ({KINDS}) ORDER BY slot DESC LIMIT 1"""
TOLD = "SELECT results, coverage FROM wallet WHERE id = ?"


def _replace_summary(wallet: Wallet, pending: PendingLedger, progress: Progress | None) -> bool:
    """Write the derived columns; return whether there were no results before, or the history has
    gaps now and had none, or had.
    """
    execute = storage.database.execute_sql
    last = execute(LAST_TRADE, (wallet.id,)).fetchone()
    values = {
        **show_summary(pending.ledger),
        "last_trade_at": last and last[0] and last[0] * 1000,
        "observed_to": wallet.observed_to,
        "forward_realized": pending.forward.sum_realized(),
        **show_quote_columns(pending.quotes),
    }
    told = None if progress is None else show_coverage(wallet, pending, progress)
    results, coverage = execute(TOLD, (wallet.id,)).fetchone()
    if told is not None:
        values |= {"coverage": to_json(told), "polled_at": wallet.polled_at}
    columns = ", ".join(f"{name} = ?" for name in values)
    execute(f"UPDATE wallet SET {columns} WHERE id = ?", (*values.values(), wallet.id))
    if told is None:
        return results is None
    said = read_coverage(coverage)
    if told["state"] != said["state"]:
        store_arrival("coverage", wallet=wallet.id)
    return results is None or bool(said["gaps"]) != bool(told["gaps"])


def show_summary(ledger: Ledger) -> Row:
    """The columns of a wallet that follow from its ledger alone."""
    told = show_reconciliation(ledger)
    return {
        "results": to_json(show_results(ledger)),
        "positions": to_json(show_positions(ledger)),
        "realized": ledger.totals.realized,
        "cost_left": ledger.totals.cost_left,
        "reconciliation": told and to_json(told),
        "average_cost": to_json(show_average(ledger)),
        "imbalance": ledger.reconcile().imbalance,
    }


def show_quote_columns(book: QuoteBook) -> Row:
    """The columns of a wallet that follow from its ledgers in quotes."""
    return {
        "by_quote": to_json(show_quotes(book)),
        "quote_imbalance": to_json(book.find_imbalances()),
    }


def show_coverage(wallet: Wallet, pending: PendingLedger, progress: Progress) -> dict[str, Any]:
    """The coverage object of a Bot: how whole the history is, and what is missing."""
    ledger = pending.ledger
    state, gaps, note = decide_state(ledger, progress)
    observed_to = max(
        (t for t in (wallet.observed_to, pending.last_time) if t is not None), default=None
    )
    return {
        "state": state,
        "observedFrom": show_time(pending.first_time),
        "observedTo": show_time(observed_to),
        "firstSlot": ledger.first_slot,
        "lastSlot": ledger.last_slot,
        "checkedAt": show_time(wallet.polled_at and wallet.polled_at // 1000),
        "receipts": ledger.count,
        "pending": progress.pending,
        "gaps": [{"fromSlot": g.from_slot, "toSlot": g.to_slot, "reason": g.reason} for g in gaps],
        "openingInventoryUnknown": sorted(ledger.openings),
        "note": note,
    }
