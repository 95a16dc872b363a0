"""List an address's signatures and a wallet's token accounts, and measure the wallet's progress."""

import contextlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import storage
from accounts.verification import MOVABLE
from chain.addresses import TOKEN_PROGRAMS
from chain.ledger.coverage import NEAR_LIMIT_PERCENT, Progress
from chain.ledger.inventory import SOL
from chain.reading.entries import Entry
from chain.rpc import BadAnswer, ListedSignature, Refused, check_accounts, check_page
from chain.stored.derived import list_damaged
from chain.stored.store import list_entries
from chain.stored.tables import WALLET_PARTS
from models import Address, Wallet, WalletSignature
from observing.entries import reread_entries
from observing.state import (
    FINALIZED,
    FULL_SCAN_INTERVAL_MS,
    IN_WORK,
    SLICE,
    State,
    list_addresses,
    log,
    update_wallet,
)
from storage import in_parts
from storage.rows import Stored, read, select_value

HEAD_PAGE, FULL_PAGE = 100, 1000
# Per wallet: its own address and its token accounts.
MAX_ADDRESSES = 2_000
# Transactions that don't change the wallet don't count toward the limit. At most this many times
# the limit is listed in search of transactions that do.
MAX_LISTED_LIMITS = 4
# After new signatures, list this many slots below the covered head again, because a lagging node
# may have omitted some.
OVERLAP_SLOTS = 512
# Plain SQL for speed: it runs in each step.
LISTED = "SELECT COUNT(*), MIN(slot) FROM sighting WHERE wallet_id = ?"
TRADED = """
SELECT DISTINCT m.address FROM trade_mint t JOIN mint m ON m.id = t.mint_id
WHERE t.wallet_id = ? AND t.side IS NOT NULL"""
IDLE = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ? AND idle"
PENDING = "SELECT 1 FROM sighting WHERE wallet_id = ? AND state = 'pending' LIMIT 1"
SCAN_AGAIN = "UPDATE address SET scanned_at = NULL, scan_new = 1 WHERE wallet_id = ?"
KNOWN = "SELECT signature FROM sighting WHERE signature IN ({marks}) AND wallet_id = ?"
HEADS = """
SELECT id, address, head_slot FROM address
WHERE wallet_id = ? AND full_scans > 0 AND address IN ({marks})"""
UNSCANNED = "SELECT 1 FROM address WHERE wallet_id = ? AND full_scans = 0 LIMIT 1"
IS_DUE = "full_scans < 2 OR scan_new > 0 OR scanned_at IS NULL OR NOT scanned_at BETWEEN ? AND ?"
# The wallet's own address has the lowest id, so it is scanned first. This shows how far back there
# is room.
DUE_SCAN = f"""
SELECT * FROM address WHERE wallet_id = ? AND ({IS_DUE})
ORDER BY CASE WHEN full_scans < 2 THEN full_scans ELSE 2 END, id LIMIT 1"""

GO_ON_SCANNING = "UPDATE address SET scan_cursor = ? WHERE id = ?"
END_SCAN = """
UPDATE address SET scan_cursor = NULL, full_scans = ?, scan_new = ?, scanned_at = ?, head_slot = ?
WHERE id = ?"""


def count_listed(wallet: Wallet) -> tuple[int, int, int | None]:
    """Return (listed transactions that may change the wallet, all listed ones, oldest slot)."""
    ((count, oldest),) = storage.read_rows(LISTED, (wallet.id,))
    return count - _count(IDLE, wallet), count, oldest


class ScanCursor(Stored):
    """The progress of a full scan, stored as JSON so that the scan resumes after a restart."""

    before: str | None = None
    # Unknown signatures below the covered head.
    new: int = 0
    # The newest slot, the number of signatures, and consecutive empty pages.
    top: int = 0
    listed: int = 0
    empty: int = 0
    # All older transactions are too old to load.
    beyond: bool = False

    def add(self, page: Sequence[ListedSignature], new: int) -> None:
        self.new += new
        self.top = max([self.top, *(row.slot for row in page)])
        self.listed += len(page)
        self.empty = 0 if page else self.empty + 1
        if page:
            self.before = page[-1].signature

    def is_finished(self) -> bool:
        """If nothing was listed at all, it takes two empty pages."""
        return self.beyond or self.empty >= (1 if self.listed else 2)


class Listing:
    def __init__(self, state: State) -> None:
        self._state = state

    def _fetch_page(self, address: str, before: str | None, limit: int) -> list[ListedSignature]:
        """Return signatures, newest first."""
        options = {**FINALIZED, "limit": limit, **({"before": before} if before else {})}
        page: list[ListedSignature]
        page, _ = self._state.rpc.call("getSignaturesForAddress", [address, options], check_page)
        return page

    # ---- heads -----------------------------------------------------------------------------------
    def list_heads(self, wallet: Wallet, addresses: Collection[str], now: int) -> None:
        """List new signatures of the addresses that weren't listed for the longest time."""
        listed_at = self._state.watches[wallet.id].listed_at
        waiting = [a for a in addresses if listed_at.get(a, -math.inf) < self._state.begun_at]
        chosen = sorted(waiting, key=lambda a: (listed_at.get(a, -math.inf), a))[:SLICE]
        if not chosen:
            return
        sql = HEADS.format(marks=storage.mark(chosen))
        # A query left open during network calls makes the next write fail.
        for row in list(Address.raw(sql, wallet.id, *chosen)):
            if self._state.clock() >= self._state.work_until:
                break
            self._state.spare_requests -= row.address == wallet.address
            listed_at[row.address] = self._state.clock()
            self._list_head(wallet, row, now)

    def _list_head(self, wallet: Wallet, row: Address, now: int) -> None:
        before, head = None, row.head_slot or 0
        top = head
        while True:
            page = self._fetch_page(row.address, before, HEAD_PAGE)
            if before is None and row.address == wallet.address:
                self._state.watches[wallet.id].answered_at = self._state.clock()
            new = self.store_new(wallet, page, now, head=True)
            if new and row.head_slot:
                self._state.notices.note_found(wallet.id, self._state.clock())
            top = max([top, *(one.slot for one in page)])
            # After a notice, one page is enough if it contains a known signature.
            if not page or (self._state.notices.is_noticed(wallet.id) and len(new) < len(page)):
                break
            covered = len(page) < HEAD_PAGE or page[-1].slot <= head - OVERLAP_SLOTS
            if not new and (before is None or covered):
                break
            before = page[-1].signature
        if top != row.head_slot:
            Address.update(head_slot=top).where(Address.id == row.id).execute()

    def store_new(
        self, wallet: Wallet, page: Sequence[ListedSignature], now: int, head: bool
    ) -> list[ListedSignature]:
        """Insert a page's unknown signatures, and return them. The limit excludes old ones."""
        found = storage.read_parts(KNOWN, (row.signature for row in page), (wallet.id,))
        known = {signature for (signature,) in found}
        new = [row for row in page if row.signature not in known]
        if not new:
            return []
        with storage.writing():
            if not wallet.history_from:
                self._limit_history(wallet, new)
            new = [row for row in new if row.slot >= (wallet.history_from or 0)]
            common = {"wallet": wallet.id, "head": head, "seen_at": now}
            # Oldest first, in fetching order, because inserting in key order fills database pages.
            rows = [row._asdict() | common for row in reversed(new)]
            storage.write_rows(WalletSignature, rows)
        self._state.watches[wallet.id].quiet = False
        return new

    def _limit_history(self, wallet: Wallet, new: Sequence[ListedSignature]) -> None:
        """If these signatures (newest first) don't all fit, store the first slot to load."""
        counted, _, oldest = count_listed(wallet)
        older = [row.slot for row in new if oldest is None or row.slot < oldest]
        room = self._state.config.max_receipts_per_wallet - counted - (len(new) - len(older))
        if len(older) > max(0, room):
            first = older[room - 1] if room > 0 else oldest
            update_wallet(wallet, history_from=first)

    def load_deeper(self, wallet: Wallet, now: int) -> bool:
        """Start a deeper scan if many listed transactions didn't change the wallet.

        Return whether it started.
        """
        scanning = Address.select().where(Address.wallet == wallet.id, Address.scan_new > 0)
        if wallet.history_from == 0 and not scanning.exists():
            update_wallet(wallet, history_from=None)
        if not wallet.history_from or not wallet.backfilled:
            return False
        limit = self._state.config.max_receipts_per_wallet
        counted, listed, _ = count_listed(wallet)
        is_full = 10 * counted >= 9 * limit or listed >= MAX_LISTED_LIMITS * limit
        if is_full or has_pending(wallet):
            return False
        with storage.writing():
            update_wallet(wallet, history_from=0)
            storage.database.execute_sql(SCAN_AGAIN, (wallet.id,))
        return True

    # ---- full scans ------------------------------------------------------------------------------
    def scan_page(self, wallet: Wallet, now: int) -> bool:
        """List one page of the full scan that is due. Return whether there was one."""
        row = self._find_due_scan(wallet, now)
        if row is None:
            return False
        cursor = _read_cursor(row)
        try:
            page = self._fetch_page(row.address, cursor.before, FULL_PAGE)
        except (BadAnswer, Refused):
            # The node may no longer know the signature at the cursor.
            Address.update(scan_cursor=None).where(Address.id == row.id).execute()
            raise
        new = self.store_new(wallet, page, now, head=False)
        cursor.add(page, sum(one.slot <= (row.head_slot or one.slot) for one in new))
        cursor.beyond = bool(page) and page[-1].slot < (wallet.history_from or 0)
        _store_scan(row, cursor, now)
        return True

    def _find_due_scan(self, wallet: Wallet, now: int) -> Address | None:
        """First scans come first, then second scans, then the nightly round."""
        values = wallet.id, now - FULL_SCAN_INTERVAL_MS, now
        return next(iter(Address.raw(DUE_SCAN, *values)), None)

    def mark_backfilled(self, wallet: Wallet) -> None:
        if not wallet.backfilled and not storage.read_rows(UNSCANNED, (wallet.id,)):
            update_wallet(wallet, backfilled=True)

    # ---- accounts --------------------------------------------------------------------------------
    def list_token_accounts(self, wallet: Wallet, now: int) -> bool:
        """Find the wallet's accounts with a balance, once a day. Return whether this ran.

        It finds accounts even if no transaction ever mentioned the wallet itself.
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
        update_wallet(wallet, accounts_at=now, accounts_left_out=left_out)
        return True

    def add_addresses(self, wallet: Wallet, addresses: Iterable[str], named: bool = False) -> None:
        """Watch more accounts, up to the limit.

        With `named`, a new transaction mentions them. They replace accounts that no transaction
        mentions, then spam (tokens that the wallet never traded), oldest first.
        """
        known = list_addresses(wallet.id)
        fresh = sorted(set(addresses) - known)
        excess = len(known) + len(fresh) - MAX_ADDRESSES
        if named and excess > 0:
            dropped = self._rank_accounts(wallet, {*known, *fresh})[:excess]
            self._stop_watching(wallet, known.intersection(dropped))
            fresh = [one for one in fresh if one not in dropped]
        elif excess > 0:
            fresh = fresh[: max(0, MAX_ADDRESSES - len(known))]
        if fresh:
            storage.write_rows(Address, [{"wallet": wallet.id, "address": a} for a in fresh])
            self._reread_ownerless(wallet, fresh)

    def _rank_accounts(self, wallet: Wallet, addresses: Iterable[str]) -> list[str]:
        ledger = self._state.apply_entries(wallet)
        seen = ledger.chain.seen
        traded = {mint for (mint,) in storage.read_rows(TRADED, (wallet.id,))}
        for mint, lots in ledger.inventories[SOL].lots.items():
            traded.update(mint for lot in lots if lot.cost is not None)

        def rank(address: str) -> tuple[bool, bool, int, str]:
            last = seen.get(address)
            if last is None:
                return False, False, 0, address
            return True, last.mint in traded, last.slot, address

        return sorted({*addresses} - {wallet.address}, key=rank)

    def _stop_watching(self, wallet: Wallet, addresses: Collection[str]) -> None:
        if not addresses:
            return
        for part in in_parts(addresses):
            Address.delete().where(Address.wallet == wallet.id, Address.address.in_(part)).execute()
        left_out = wallet.accounts_left_out + len(addresses)
        update_wallet(wallet, accounts_left_out=left_out)

    def _reread_ownerless(self, wallet: Wallet, fresh: Iterable[str]) -> None:
        """Reread transactions without owners, from 2021, that mention these accounts."""
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
        ownerless = self._state.watches[wallet.id].ownerless
        if ownerless is not None:
            for address in entry.unowned:
                ownerless[address].add(entry.signature)


def has_pending(wallet: Wallet) -> bool:
    """Whether a listed transaction isn't stored yet."""
    return bool(storage.read_rows(PENDING, (wallet.id,)))


def _read_cursor(row: Address) -> ScanCursor:
    """A damaged cursor starts the scan over."""
    with contextlib.suppress(ValueError):
        return ScanCursor.model_validate_json(row.scan_cursor or "{}")
    return ScanCursor()


def _store_scan(row: Address, cursor: ScanCursor, now: int) -> None:
    if cursor.is_finished():
        top = max(row.head_slot or 0, cursor.top)
        values = row.full_scans + 1, cursor.new, now, top, row.id
        storage.database.execute_sql(END_SCAN, values)
    else:
        storage.database.execute_sql(GO_ON_SCANNING, (cursor.model_dump_json(), row.id))


# ---- progress ------------------------------------------------------------------------------------
# Refused transactions listed in coverage, at most.
MAX_NAMED = 50
# After this many tries, a pending transaction no longer delays a wallet's state.
STUCK_AFTER_TRIES = 5


# Plain SQL for speed: it runs after each step of a poll.
SCANNED = "SELECT address, full_scans, scan_cursor, scan_new FROM address WHERE wallet_id = ?"
COUNT_PENDING = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ? AND state = 'pending'"
STUCK = f"{COUNT_PENDING} AND (tries >= {STUCK_AFTER_TRIES} OR problem IS NOT NULL)"
REFUSED = f"""
SELECT slot, problem FROM sighting
WHERE wallet_id = ? AND state = 'pending' AND problem IS NOT NULL ORDER BY slot LIMIT {MAX_NAMED}"""

# The pending signatures of some wallets.
WAITING = (
    "SELECT wallet_id FROM sighting WHERE wallet_id IN ({marks}) AND state <> 'stored'",
    f"""SELECT wallet_id FROM post p
    WHERE wallet_id IN ({{marks}}) AND signature IS NOT NULL AND ({MOVABLE})""",
)
SCANS_DUE = f"SELECT wallet_id FROM address WHERE wallet_id IN ({{marks}}) AND ({IS_DUE})"
STORED = """
SELECT wallet_id, COUNT(*) FROM sighting WHERE wallet_id IN ({marks}) AND state = 'stored'
GROUP BY wallet_id"""


def wake(state: State, wallets: Sequence[Wallet], now: int) -> None:
    quiet = [wallet for wallet in wallets if state.watches[wallet.id].quiet]
    times = now - FULL_SCAN_INTERVAL_MS, now
    ids = [wallet.id for wallet in quiet]
    waiting = {number for sql in WAITING for (number,) in storage.read_parts(sql, ids)}
    waiting |= {number for (number,) in storage.read_parts(SCANS_DUE, ids, times)}
    stored = count_stored(quiet)
    for wallet in quiet:
        known = state.ledger_store.find(wallet.id).chain.count
        is_same = wallet.id not in waiting and stored.get(wallet.id, 0) == known
        state.watches[wallet.id].quiet = is_same and not _is_due(state, wallet, now)


def count_stored(wallets: Iterable[Wallet]) -> dict[int, int]:
    return dict(storage.read_parts(STORED, (wallet.id for wallet in wallets)))


def _is_due(state: State, wallet: Wallet, now: int) -> bool:
    damaged = list_damaged(wallet.coverage, (getattr(wallet, name) for name in WALLET_PARTS))
    if damaged:
        names = ", ".join(damaged)
        log.warning("%s of wallet %s can't be read; rebuilding it", names, wallet.address)
    return (
        bool(damaged)
        or wallet.due_at <= IN_WORK
        or wallet.rules != state.rules
        or abs(now - (wallet.accounts_at or 0)) >= FULL_SCAN_INTERVAL_MS
        or state.is_check_due(wallet.id)
    )


def list_awake(state: State, wallets: Iterable[Wallet]) -> list[Wallet]:
    return [wallet for wallet in wallets if not state.watches[wallet.id].quiet]


def is_quiet(state: State, wallet: Wallet, progress: Progress) -> bool:
    """Whether a poll left nothing to do, so that the next ones only query nodes."""
    watch = state.watches[wallet.id]
    whole = wallet.backfilled and progress.confirmed and progress.closed
    undone = progress.pending or progress.unexplained or watch.unindexed_slots or watch.postponed
    wrong = wallet.trouble or wallet.id in state.troubled or state.apply_entries(wallet).chain.gaps
    return bool(whole and not undone and not wrong and wallet.closing_at is None)


def read_progress(state: State, wallet: Wallet) -> Progress:
    addresses = read(SCANNED, (wallet.id,))
    ledger, checked = state.apply_entries(wallet), state.check_balances(wallet)
    pending = _count(COUNT_PENDING, wallet)
    left_out = ledger.chain.seen.keys() - {row.address for row in addresses}
    accounts_capped = bool(wallet.accounts_left_out or left_out)
    return Progress(
        polled=any(row.full_scans or row.scan_cursor for row in addresses),
        listed=wallet.backfilled and all(row.full_scans for row in addresses),
        confirmed=wallet.accounts_at is not None
        and all(row.full_scans > 1 and row.scan_new == 0 for row in addresses),
        closed=all(checked.get(row.address) for row in addresses),
        pending=pending,
        refused=tuple(storage.read_rows(REFUSED, (wallet.id,))) if pending else (),
        stuck=_count(STUCK, wallet) if pending else 0,
        unexplained=_list_unexplained(state, wallet),
        capped=wallet.history_from is not None,
        accounts_capped=accounts_capped,
        filled=100
        if wallet.history_from is not None or accounts_capped
        else _find_filled(state, wallet, ledger.chain.count + pending, len(addresses)),
        given_up=wallet.closing_at is not None,
        trouble=wallet.trouble,
    )


def _find_filled(state: State, wallet: Wallet, most: int, accounts: int) -> int:
    """Return a percentage. `most` also counts transactions that don't count toward the limit."""
    limit = state.config.max_receipts_per_wallet
    used = 100 * most // limit
    if used >= NEAR_LIMIT_PERCENT:
        counted, _, _ = count_listed(wallet)
        used = 100 * counted // limit
    return max(used, 100 * accounts // MAX_ADDRESSES)


def _count(sql: str, wallet: Wallet) -> int:
    return int(select_value(sql, (wallet.id,)))


def _list_unexplained(state: State, wallet: Wallet) -> tuple[tuple[str, int, int], ...]:
    """Return (address, last slot in the ledger, slot of the node's answer) of each balance."""
    addresses = state.list_unexplained(wallet)
    if not addresses:
        return ()
    seen, holdings = state.apply_entries(wallet).chain.seen, state.watches[wallet.id].holdings
    return tuple(
        (address, seen[address].slot if address in seen else 0, holdings[address].slot)
        for address in addresses
    )
