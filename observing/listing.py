"""Which signatures an address lists, and which token accounts a wallet owns."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import orjson

import storage
from chain.reading.answers import ListedSignature, check_accounts, check_page
from chain.reading.entries import Entry
from chain.reading.instructions import TOKEN_PROGRAMS
from chain.rpc import BadAnswer, Refused
from chain.stored.store import list_entries
from models import Address, Wallet, WalletSignature
from observing.entries import list_addresses, reread_entries
from observing.state import FINALIZED, FULL_SCAN_INTERVAL_MS, SLICE, State
from storage import in_parts
from storage.stored import make_object, make_shape, read_stored

HEAD_PAGE, FULL_PAGE = 100, 1000
# Of one wallet: itself and its token accounts.
MAX_ADDRESSES = 2_000
# Where something new was, slots below the covered head are listed again: a lagging node may have
# left something out.
OVERLAP_SLOTS = 512
# Plain SQL: it runs in each step, and peewee would take longer to build it than SQLite to run it.
COUNT = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ?"
KNOWN = "SELECT signature FROM sighting WHERE wallet_id = ?"
HEADS = """
SELECT id, address, head_slot FROM address
WHERE wallet_id = ? AND full_scans > 0 AND address IN ({marks})"""
UNSCANNED = "SELECT 1 FROM address WHERE wallet_id = ? AND full_scans = 0 LIMIT 1"
IS_DUE = "full_scans < 2 OR scan_new > 0 OR scanned_at IS NULL OR NOT scanned_at BETWEEN ? AND ?"
DUE_SCAN = (
    f"SELECT * FROM address WHERE wallet_id = ? AND ({IS_DUE}) ORDER BY full_scans, id LIMIT 1"
)

GO_ON_SCANNING = "UPDATE address SET endpoint = ?, scan_cursor = ? WHERE id = ?"
END_SCAN = """
UPDATE address
SET endpoint = ?, scan_cursor = NULL, full_scans = ?, scan_new = ?, scanned_at = ?, head_slot = ?
WHERE id = ?"""


class HeadRow(NamedTuple):
    """An address whose head is listed, and the slot up to which it was."""

    id: int
    address: str
    head_slot: int | None


@dataclass
class ScanCursor:
    """How far a full scan has come; stored as JSON, so that a restart resumes it."""

    # The last signature listed.
    before: str | None = None
    # Signatures that were unknown though they lie below the covered head.
    new: int = 0
    # The newest slot, the number of signatures, and empty pages in a row.
    top: int = 0
    listed: int = 0
    empty: int = 0

    def add(self, page: Sequence[ListedSignature], new: int) -> None:
        self.new += new
        self.top = max([self.top, *(row.slot for row in page)])
        self.listed += len(page)
        self.empty = 0 if page else self.empty + 1
        if page:
            self.before = page[-1].signature

    def is_finished(self) -> bool:
        """Whether the end is reached; where nothing is listed at all, two empty pages say so."""
        return self.empty >= (1 if self.listed else 2)


STORED_CURSOR = make_object(before=str | None, new=int, top=int, listed=int, empty=int)
SCAN_CURSOR = make_shape(STORED_CURSOR)


class Listing:
    """Lists the newest signatures, scans whole histories and adds accounts to watch."""

    def __init__(self, state: State) -> None:
        self._state = state

    def _fetch_page(
        self, address: str, before: str | None, limit: int
    ) -> tuple[list[ListedSignature], str]:
        """Fetch a page of signatures, newest first; return it and the endpoint's label."""
        options = {**FINALIZED, "limit": limit, **({"before": before} if before else {})}
        return self._state.rpc.call("getSignaturesForAddress", [address, options], check_page)

    # ---- heads -----------------------------------------------------------------------------------
    def list_heads(self, wallet: Wallet, addresses: Collection[str], now: int) -> None:
        """List the heads of some of these, longest unlisted first; the others in the next poll."""
        listed_at = self._state.watches[wallet.id].listed_at
        waiting = [a for a in addresses if listed_at.get(a, -math.inf) < self._state.begun_at]
        chosen = sorted(waiting, key=lambda a: (listed_at.get(a, -math.inf), a))[:SLICE]
        if not chosen:
            return
        sql = HEADS.format(marks=storage.mark(chosen))
        # All at once: a query that is open while nodes are asked makes the next write fail.
        found = list(storage.database.execute_sql(sql, (wallet.id, *chosen)))
        for row in map(HeadRow._make, found):
            if self._state.clock() >= self._state.work_until:
                break
            self._state.spare_requests -= row.address == wallet.address
            listed_at[row.address] = self._state.clock()
            self._list_head(wallet, row, now)

    def _list_head(self, wallet: Wallet, row: HeadRow, now: int) -> None:
        before, head = None, row.head_slot or 0
        top = head
        while True:
            page, label = self._fetch_page(row.address, before, HEAD_PAGE)
            if before is None and row.address == wallet.address:
                self._state.watches[wallet.id].answered_at = self._state.clock()
            new = self.store_new(wallet, page, now, head=True)
            for one in new if row.head_slot else ():
                now_seconds = self._state.clock()
                self._state.bell.note_found(wallet.id, row.address, one.signature, now_seconds)
            top = max([top, *(one.slot for one in page)])
            if not page:
                break
            covered = len(page) < HEAD_PAGE or page[-1].slot <= head - OVERLAP_SLOTS
            if not new and (before is None or covered):
                break
            before = page[-1].signature
        if top != row.head_slot:
            Address.update(head_slot=top, endpoint=label).where(Address.id == row.id).execute()

    @staticmethod
    def find_known(wallet: Wallet, signatures: Iterable[str]) -> set[str]:
        """Find which of these are listed for the wallet."""
        known: set[str] = set()
        for part in in_parts(signatures):
            sql = f"{KNOWN} AND signature IN ({storage.mark(part)})"
            rows = storage.database.execute_sql(sql, (wallet.id, *part))
            known.update(signature for (signature,) in rows)
        return known

    def store_new(
        self, wallet: Wallet, page: Sequence[ListedSignature], now: int, head: bool
    ) -> list[ListedSignature]:
        """Insert the unknown signatures of a page, as far as the wallet has room; return them."""
        known = self.find_known(wallet, [row.signature for row in page])
        new = [row for row in page if row.signature not in known]
        if not new:
            return []
        with storage.writing():
            ((count,),) = storage.database.execute_sql(COUNT, (wallet.id,)).fetchall()
            new = new[: max(0, self._state.config.max_receipts_per_wallet - count)]
            common = {"wallet": wallet.id, "head": head, "seen_at": now}
            # Oldest first, as they are fetched: rows that grow in their order leave pages full.
            rows = [row._asdict() | common for row in reversed(new)]
            storage.insert_rows(WalletSignature, rows)
        self._state.watches[wallet.id].settled = False
        return new

    def list_newest(self, wallet: Wallet, address: str, now: int) -> int:
        """List the newest signatures of an address that was rung for; return how many are new.

        One page: whether anything is missing before it, the next poll shows.
        """
        row = Address.get_or_none(Address.wallet == wallet.id, Address.address == address)
        if row is None or not row.full_scans:
            return 0
        page, _ = self._fetch_page(address, None, HEAD_PAGE)
        return len(self.store_new(wallet, page, now, head=True))

    # ---- full scans ------------------------------------------------------------------------------
    def scan_page(self, wallet: Wallet, now: int) -> bool:
        """List one page of the full scan that is due; return whether one is."""
        row = self._find_due_scan(wallet, now)
        if row is None:
            return False
        # A damaged place is none: the scan begins again.
        stored = read_stored(row.scan_cursor, SCAN_CURSOR) or {}
        cursor = ScanCursor(**{name: stored[name] for name in STORED_CURSOR.model_fields if stored})
        try:
            page, label = self._fetch_page(row.address, cursor.before, FULL_PAGE)
        except (BadAnswer, Refused):
            # The node may not know the place any more: begin again.
            Address.update(scan_cursor=None).where(Address.id == row.id).execute()
            raise
        new = self.store_new(wallet, page, now, head=False)
        cursor.add(page, sum(one.slot <= (row.head_slot or one.slot) for one in new))
        _store_scan(row, cursor, label, now)
        return True

    def scan_new(self, wallet: Wallet, now: int) -> None:
        """Scan the addresses that are new, in a wallet of which all others were scanned, while
        there is time.
        """
        new = Address.select().where(Address.wallet == wallet.id, Address.full_scans < 2)
        while wallet.backfilled and self._state.clock() < self._state.work_until and new.exists():
            self.scan_page(wallet, now)

    @staticmethod
    def find_scanned(wallet: Wallet) -> set[str]:
        """Find the addresses of a wallet that were scanned to their end."""
        rows = Address.select(Address.address).where(
            Address.wallet == wallet.id, Address.full_scans > 0
        )
        return set(rows.scalars())

    def _find_due_scan(self, wallet: Wallet, now: int) -> Address | None:
        """The address to scan next: first scans before second ones before the nightly round."""
        values = wallet.id, now - FULL_SCAN_INTERVAL_MS, now
        return next(iter(Address.raw(DUE_SCAN, *values)), None)

    def mark_backfilled(self, wallet: Wallet) -> None:
        """Let results count once every address was scanned to its end."""
        if wallet.backfilled or storage.database.execute_sql(UNSCANNED, (wallet.id,)).fetchone():
            return
        wallet.backfilled = True
        Wallet.update(backfilled=True).where(Wallet.id == wallet.id).execute()

    # ---- accounts --------------------------------------------------------------------------------
    def list_token_accounts(self, wallet: Wallet, now: int) -> bool:
        """Once a day, find the accounts that hold something now, even if no transaction ever named
        the wallet itself. Return whether it was done.
        """
        listed_at = wallet.accounts_at
        if listed_at is not None and abs(now - listed_at) < FULL_SCAN_INTERVAL_MS:
            return False
        found: set[str] = set()
        for program in TOKEN_PROGRAMS:
            options = {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}
            params = [wallet.address, {"programId": program}, options]
            found.update(self._state.rpc.call("getTokenAccountsByOwner", params, check_accounts)[0])
        self.add_addresses(wallet, found)
        left_out = len(found - list_addresses(wallet.id))
        wallet.accounts_at, wallet.accounts_left_out = now, left_out
        Wallet.update(accounts_at=now, accounts_left_out=left_out).where(
            Wallet.id == wallet.id
        ).execute()
        return True

    def add_addresses(self, wallet: Wallet, addresses: Iterable[str], named: bool = False) -> None:
        """Watch these accounts too, as many as there is room for.

        `named`: a known transaction names them. They take the place of accounts that none does.
        """
        known = list_addresses(wallet.id)
        fresh = sorted(set(addresses) - known)
        room = MAX_ADDRESSES - len(known)
        if named and len(fresh) > room:
            room += self._drop_unnamed(wallet, len(fresh) - room)
        fresh = fresh[: max(0, room)]
        if fresh:
            storage.insert_rows(Address, [{"wallet": wallet.id, "address": a} for a in fresh])
            self._reread_ownerless(wallet, fresh)

    def _drop_unnamed(self, wallet: Wallet, max_count: int) -> int:
        """Stop watching accounts for which no transaction was ever listed; return how many."""
        unlisted = Address.select(Address.id, Address.address).where(
            Address.wallet == wallet.id,
            Address.scan_cursor.is_null(),
            Address.head_slot.is_null() | (Address.head_slot == 0),
        )
        named = self._state.apply_entries(wallet).chain.seen.keys() | {wallet.address}
        rows = unlisted.order_by(Address.id.desc()).namedtuples()
        dropped = [row.id for row in rows if row.address not in named][:max_count]
        for part in in_parts(dropped):
            Address.delete().where(Address.id.in_(part)).execute()
        if dropped:
            wallet.accounts_left_out += len(dropped)
            Wallet.update(accounts_left_out=wallet.accounts_left_out).where(
                Wallet.id == wallet.id
            ).execute()
        return len(dropped)

    def _reread_ownerless(self, wallet: Wallet, fresh: Iterable[str]) -> None:
        """Read the transactions again that name these accounts without their owner, now that it is
        known: those of 2021 hold no owners.
        """
        watch = self._state.watches[wallet.id]
        if watch.ownerless is None:
            watch.ownerless = defaultdict(set)
            for entry in list_entries(wallet.id):
                self.note_ownerless(wallet, entry)
        stale = sorted(set().union(*(watch.ownerless.get(address, ()) for address in fresh)))
        if stale:
            reread_entries(wallet, self._state.programs, stale)
            self._state.forget_wallet(wallet.id)

    def note_ownerless(self, wallet: Wallet, entry: Entry) -> None:
        """Remember which accounts of an entry have no known owner."""
        ownerless = self._state.watches[wallet.id].ownerless
        if ownerless is not None:
            for address in entry.unowned:
                ownerless[address].add(entry.signature)


def _store_scan(row: Address, cursor: ScanCursor, label: str, now: int) -> None:
    if cursor.is_finished():
        top = max(row.head_slot or 0, cursor.top)
        values = label, row.full_scans + 1, cursor.new, now, top, row.id
        storage.database.execute_sql(END_SCAN, values)
    else:
        text = orjson.dumps(asdict(cursor)).decode()
        storage.database.execute_sql(GO_ON_SCANNING, (label, text, row.id))
