"""Derive trades, results, positions and coverage from stored entries, without network access.

A rebuild only writes rows that differ, in one transaction. The order of arrival doesn't affect the
result.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import storage
from chain.ledger.coverage import BalanceChain, Progress, decide_state, order_entries
from chain.ledger.inventory import Opening
from chain.ledger.ledger import Ledger
from chain.ledger.sales import Booked
from chain.ledger.totals import Key, Spans
from chain.reading.currencies import Currency
from chain.reading.entries import READING, Entry
from chain.reading.kinds import TRADES
from chain.stored.attachments import (
    UNREADABLE,
    Sibling,
    has_other_marks,
    mark_entries,
    mark_new,
    read_shared,
    read_siblings,
    read_spans,
    replace_holdings,
)
from chain.stored.derived import (
    Pending,
    read_coverage,
    replace_rows,
    show_average,
    show_positions,
    show_reconciliation,
    show_results,
    show_stablecoins,
    show_time,
)
from chain.stored.standings import forget_standings_of
from chain.stored.trades import (
    Row,
    make_trade_row,
    read_digests,
    replace_trades,
    to_json,
)
from models import Wallet
from storage import Rows, store_arrival

FollowUp = Callable[[Wallet, set[str], int], None]


@dataclass
class PendingLedger:
    ledger: Ledger
    siblings: tuple[Sibling, ...] = ()
    # By signature. None is a stored row that no longer exists.
    rows: dict[str, Row | None] = field(default_factory=dict)
    derived: Pending = field(default_factory=Pending)
    # Shared with siblings, whose marks may predate the current entries.
    unchecked: set[str] = field(default_factory=set)
    first_time: int | None = None
    last_time: int | None = None
    place: tuple[int | None, int] = (None, 0)

    def book(self, entry: Entry) -> "BookedEntry":
        slot, count = self.place
        self.place = (entry.slot, count + 1 if slot == entry.slot else 0)
        if entry.block_time is not None:
            self.first_time = entry.block_time if self.first_time is None else self.first_time
            self.last_time = entry.block_time
        made = self.ledger.apply(entry)
        self.derived.note(self.ledger)
        place = self.place[1] if entry.tx_index is None else entry.tx_index
        return BookedEntry(entry, place, made)

    def book_all(self, entries: Iterable[Entry]) -> Iterator["BookedEntry"]:
        """Book entries sorted by slot. Within a slot, use the order that the balances show."""
        for _, slot in groupby(entries, key=attrgetter("slot")):
            for entry in order_entries(slot, self.ledger.chain.seen):
                yield self.book(entry)


class BookedEntry(NamedTuple):
    """An entry, its place in the slot, and the ledger's result."""

    entry: Entry
    place: int
    made: Mapping[Key, Booked]

    def make_row(self, wallet: Any) -> Row:
        return make_trade_row(wallet, self.place, self.made)


class LedgerStore:
    def __init__(self, follow_up: FollowUp | None = None) -> None:
        """`follow_up(wallet, changed signatures, now)` runs in each publication's transaction."""
        self._pending: dict[int, PendingLedger] = {}
        self._follow_up = follow_up

    def forget(self, wallet_id: int) -> None:
        self._pending.pop(wallet_id, None)

    def apply(self, wallet: Wallet, new: Sequence[Entry] = ()) -> Ledger:
        """Return the ledger after these new entries. It is rebuilt unless they are all newer."""
        pending, spans = self._pending.get(wallet.id), read_spans(storage.read_rows, wallet.id)
        siblings = read_siblings(storage.read_rows, wallet.id)
        if (
            pending is None
            or pending.ledger.spans.spans != spans
            or pending.siblings != siblings
            or pending.ledger.backfilled != wallet.backfilled
            or not _extends(pending.ledger, new)
        ):
            ledger = begin_ledger(storage.read_rows, wallet.id, wallet.backfilled)
            pending = PendingLedger(ledger, siblings)
            _rebuild(wallet, pending)
        else:
            for entry in order_entries(mark_new(new, siblings), pending.ledger.chain.seen):
                pending.rows[entry.signature] = pending.book(entry).make_row(wallet)
        if pending.ledger.stale:
            pending = PendingLedger(pending.ledger.restart(), siblings)
            _rebuild(wallet, pending)
        self._pending[wallet.id] = pending
        return pending.ledger

    def find(self, wallet_id: int) -> Ledger:
        return self._pending[wallet_id].ledger

    def last_time(self, wallet_id: int) -> int | None:
        """Return the block time of the ledger's newest receipt."""
        pending = self._pending.get(wallet_id)
        return None if pending is None else pending.last_time

    def publish(self, wallet: Wallet, progress: Progress | None, now: int) -> None:
        """Write all derived data in one transaction. If `progress` is None, the coverage stays."""
        pending = self._pending[wallet.id]
        try:
            with storage.writing():
                changed = replace_trades(wallet.id, pending.rows)
                moved = replace_rows(wallet.id, pending.derived.take(pending.ledger))
                moved = replace_holdings(wallet.id, pending.ledger.find_holdings()) or moved
                shown = _replace_summary(wallet, pending, progress)
                if shown or moved or pending.rows:
                    forget_standings_of(wallet.id)
                if self._follow_up:
                    self._follow_up(wallet, changed, now)
                booked = pending.unchecked.union(pending.rows)
                pending.rows, pending.unchecked = {}, set()
                self._rebuild_marked(wallet, pending, booked, now)
        except BaseException:
            # Only a rebuild finds which rows are missing, including siblings' rows.
            for number in (wallet.id, *(one.wallet for one in pending.siblings)):
                self.forget(number)
            raise

    def _rebuild_marked(
        self, wallet: Wallet, pending: PendingLedger, booked: Iterable[str], now: int
    ) -> None:
        kin = {wallet.id, *(one.wallet for one in pending.siblings)} if pending.siblings else ()
        for number in sorted(kin):
            if has_other_marks(number, booked):
                other = wallet if number == wallet.id else Wallet.get_by_id(number)
                self.forget(number)
                try:
                    self.apply(other)
                except UNREADABLE:
                    # A wallet with a damaged entry fails in its own step, not in another wallet's.
                    continue
                self.publish(other, None, now)


def begin_ledger(rows: Rows, wallet_id: int, backfilled: bool) -> Ledger:
    untouched = read_untouched(rows, wallet_id)
    return Ledger(backfilled, Spans(read_spans(rows, wallet_id)), BalanceChain(untouched))


def _extends(ledger: Ledger, new: Iterable[Entry]) -> bool:
    last = ledger.chain.last_slot
    return all(last is None or entry.slot > last for entry in new)


def _rebuild(wallet: Wallet, pending: PendingLedger) -> None:
    """Apply all entries. Keep only rows that differ from the stored ones."""
    stored = read_digests(wallet.id)
    shared = read_shared(storage.read_rows, wallet.id, pending.siblings)
    pending.unchecked = set(shared)
    entries = mark_entries(list_entries(wallet.id), pending.siblings, shared)
    for one in pending.book_all(entries):
        row = one.make_row(wallet)
        if stored.pop(row["signature"], None) != row["digest"]:
            pending.rows[row["signature"]] = row
    pending.rows |= dict.fromkeys(stored)
    pending.derived.settle(wallet.id, pending.ledger)


# Plain SQL for speed: it runs on every rebuild and poll. `{wallet}` is an ID or a placeholder.
UNTOUCHED = """
SELECT address, held_mint, held_amount, held_decimals FROM address
WHERE wallet_id = {wallet} AND held_amount IS NOT NULL"""


def read_untouched(rows: Rows, wallet_id: int) -> dict[str, Opening]:
    """Return Openings of accounts with a balance that no known receipt involves, by address."""
    return {
        address: Opening.untouched(address, mint, int(amount), decimals)
        for address, mint, amount, decimals in rows(UNTOUCHED.format(wallet=wallet_id))
    }


ENTRIES = """
SELECT signature, slot, tx_index, entry, seen_at FROM sighting
WHERE wallet_id = ? AND state = 'stored' ORDER BY slot"""


def list_entries(wallet_id: int) -> Iterator[Entry]:
    """List entries by slot. Raises one of siblings.UNREADABLE if an entry is damaged."""
    rows = storage.database.execute_sql(ENTRIES, (wallet_id,))
    try:
        for row in rows:
            yield Entry.load(*row)
    finally:
        rows.close()


def name_rules(programs: object, currencies: Iterable[Currency]) -> str:
    """Name the rules for reading entries. If the name changes, entries are reread.

    `currencies` are the operator's.
    """
    money = sorted((one.mint, one.decimals) for one in currencies)
    return hashlib.sha256(f"{READING} {programs!r} {money!r}".encode()).hexdigest()[:16]


# Plain SQL for speed: it runs with each publication.
KINDS = ", ".join(f"'{kind}'" for kind in sorted(TRADES))
LAST_TRADE = f"""
SELECT block_time FROM trade WHERE wallet_id = ? AND kind IN ({KINDS}) ORDER BY slot DESC LIMIT 1"""
TOLD = "SELECT results, coverage FROM wallet WHERE id = ?"


def _replace_summary(wallet: Wallet, pending: PendingLedger, progress: Progress | None) -> bool:
    """Write the summary, and return whether standings are affected.

    They are if there were no results before, or if the state of the history or the existence of
    gaps changed.
    """
    execute = storage.database.execute_sql
    last = execute(LAST_TRADE, (wallet.id,)).fetchone()
    values = {
        **show_summary(pending.ledger),
        "last_trade_at": last and last[0] and last[0] * 1000,
        "observed_to": wallet.observed_to,
    }
    told = None if progress is None else show_coverage(wallet, pending, progress)
    results, coverage = execute(TOLD, (wallet.id,)).fetchone()
    if told is not None and progress is not None:
        values |= {"coverage": to_json(told), "polled_at": wallet.polled_at}
        values["filled"] = progress.filled
    columns = ", ".join(f"{name} = ?" for name in values)
    execute(f"UPDATE wallet SET {columns} WHERE id = ?", (*values.values(), wallet.id))
    if told is None:
        return results is None
    said = read_coverage(coverage)
    if told["state"] != said["state"]:
        store_arrival("coverage", wallet=wallet.id)
    is_changed = told["state"] != said["state"] or bool(told["gaps"]) != bool(said["gaps"])
    return results is None or is_changed


def show_summary(ledger: Ledger) -> Row:
    told = show_reconciliation(ledger)
    return {
        "results": to_json(show_results(ledger)),
        "positions": to_json(show_positions(ledger)),
        "reconciliation": told and to_json(told),
        "average_cost": to_json(show_average(ledger)),
        "imbalance": ledger.reconcile().imbalance,
        "forward_realized": ledger.find_forward_realized(),
        "by_stablecoin": to_json(show_stablecoins(ledger)),
        "stablecoin_imbalance": to_json(ledger.find_imbalances()),
    }


@functools.cache
def list_summary() -> tuple[str, ...]:
    return tuple(show_summary(Ledger(True, Spans(()), BalanceChain({}))))


def show_coverage(wallet: Wallet, pending: PendingLedger, progress: Progress) -> dict[str, Any]:
    ledger = pending.ledger
    state, gaps, note = decide_state(ledger.chain, progress)
    observed_to = max(
        (t for t in (wallet.observed_to, pending.last_time) if t is not None), default=None
    )
    return {
        "state": state,
        **show_extent(pending),
        "observedTo": show_time(observed_to),
        "checkedAt": show_time(wallet.polled_at and wallet.polled_at // 1000),
        "pending": progress.pending,
        "gaps": [{"fromSlot": g.from_slot, "toSlot": g.to_slot, "reason": g.reason} for g in gaps],
        "note": note,
    }


def show_extent(pending: PendingLedger) -> dict[str, Any]:
    chain = pending.ledger.chain
    return {
        "receipts": chain.count,
        "firstSlot": chain.first_slot,
        "lastSlot": chain.last_slot,
        "observedFrom": show_time(pending.first_time),
        "openingInventoryUnknown": sorted(chain.openings),
    }


T = TypeVar("T")


def rebuild_ledger(
    ledger: Ledger,
    entries: Callable[[], Iterable[Entry]],
    make: Callable[[PendingLedger, Iterable[BookedEntry]], T],
) -> T:
    """Book entries sorted by slot. If they must be booked again, start over with `make`."""
    pending = PendingLedger(ledger)
    made = make(pending, pending.book_all(entries()))
    if not ledger.stale:
        return made
    pending = PendingLedger(ledger.restart())
    return make(pending, pending.book_all(entries()))
