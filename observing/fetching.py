"""Fetch transactions that are listed but not stored yet, and find their positions within a slot.

To repair gaps, scan again and query a second node.
"""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from peewee import PeeweeException

import storage
from chain.reading.entries import Entry, read_entry
from chain.reading.flows import touches
from chain.reading.receipts import Receipt as ParsedReceipt
from chain.reading.receipts import digest_receipt, pack, read_stored
from chain.rpc import (
    BadAnswer,
    ListedSignature,
    Refused,
    RpcError,
    check_block,
    check_receipt,
    check_transactions,
)
from models import Address, Receipt, Wallet, WalletSignature
from observing.entries import drop_receipts, reread_entries
from observing.listing import Listing
from observing.state import (
    FINALIZED,
    MAX_REPAIR_WAIT_MS,
    MIN_REPAIR_WAIT_MS,
    SLICE,
    State,
    list_addresses,
    log,
    update_wallet,
)

MAX_RETRY_WAIT_MS = 3_600_000
# A method of some providers that returns many transactions at once. More than MANY may exceed the
# largest accepted response. Providers charge the same as for single requests, so it isn't worth
# using for fewer than FEW.
IN_BULK, MANY, FEW = "getTransactionsForAddress", 100, 20


class Pending(NamedTuple):
    id: int
    signature: str
    slot: int
    tx_index: int | None
    tries: int
    seen_at: int


# Plain SQL for speed: these run several times a step.
COLUMNS = ", ".join(f"s.{name}" for name in Pending._fields)
LISTED = f"SELECT {COLUMNS} FROM sighting s WHERE s.wallet_id = ?"
# Uses an index, however many others are pending. A due time beyond the longest delay was set while
# the clock was wrong.
DUE = """
AND s.state = 'pending' AND (s.due_at <= ? OR s.due_at > ?)
ORDER BY s.slot, s.tx_index NULLS FIRST, s.id LIMIT """
# Signatures that posts wait for. Several posts may cite the same one.
OF_POSTS = f"""
SELECT {COLUMNS} FROM post p CROSS JOIN sighting s
WHERE p.wallet_id = ? AND p.status IN ('pending', 'not_found')
AND s.signature = p.signature AND s.wallet_id = p.wallet_id {DUE}{SLICE}"""
# New at the head, or listed by full scans, up to the size of a bulk request.
OF_HEAD_OR_SCANS = f"{LISTED} AND s.head = ? {DUE}{MANY}"
STORED_BETWEEN = """
SELECT COUNT(*) FROM sighting WHERE wallet_id = ? AND state = 'stored' AND slot BETWEEN ? AND ?"""
STORE_ENTRY = """
UPDATE sighting SET state = 'stored', entry = ?, idle = ?, tx_index = ?, slot = ?, problem = NULL
WHERE id = ?"""
UNINDEXED = """
SELECT signature FROM sighting
WHERE wallet_id = ? AND state = 'stored' AND head IN (FALSE, TRUE) AND slot = ?
    AND tx_index IS NULL ORDER BY signature"""
UNINDEXED_SLOTS = """
SELECT slot FROM sighting WHERE wallet_id = ? AND state = 'stored' AND tx_index IS NULL
GROUP BY slot HAVING COUNT(*) > 1"""
RETRY = "UPDATE sighting SET tries = ?, due_at = ?, problem = ? WHERE id = ?"


class Answer(NamedTuple):
    """A transaction and the endpoint's label. Both are None if the node doesn't have it yet."""

    raw: Any
    receipt: ParsedReceipt | None
    endpoint: str


class Taken(NamedTuple):
    row: Pending
    receipt: ParsedReceipt
    entry: Entry

    @property
    def place(self) -> int | None:
        """Position in the slot, from the transaction or from the signature list."""
        return self.row.tx_index if self.receipt.tx_index is None else self.receipt.tx_index


@dataclass
class Slice:
    """A wallet's transactions that are stored together, to sync the disk only once.

    `known`: the wallet's accounts. `bodies` are bodies that are already stored, by signature.
    `answers` were fetched in bulk. `receipts` are the rows of fetched transactions.
    """

    wallet: Wallet
    known: set[str]
    bodies: dict[str, bytes]
    answers: dict[str, Answer] = field(default_factory=dict)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)


class Fetching:
    """Fetches transactions in slices, and retries missing ones with backoff."""

    def __init__(self, state: State, listing: Listing) -> None:
        self._state, self._listing = state, listing

    def fetch_urgent(self, wallet: Wallet, now: int) -> int:
        """Fetch a slice that posts wait for, or else new ones. Return the number requested."""
        cited = _list_pending(wallet, now, OF_POSTS)
        return self._fetch_slice(wallet, cited, now) or self._fetch_listed(wallet, now, True)

    def fetch_backlog(self, wallet: Wallet, now: int) -> int:
        """Fetch a slice that full scans listed, oldest first. Return the number requested."""
        return self._fetch_listed(wallet, now, False)

    def _fetch_listed(self, wallet: Wallet, now: int, head: bool) -> int:
        rows = _list_pending(wallet, now, OF_HEAD_OR_SCANS, head)
        return self._fetch_in_bulk(wallet, rows, now) or self._fetch_slice(
            wallet, rows[:SLICE], now
        )

    def _fetch_slice(self, wallet: Wallet, rows: list[Pending], now: int) -> int:
        if not rows:
            return 0
        rows = end_with_slot(rows)
        part = Slice(wallet, list_addresses(wallet.id), _find_bodies(rows))
        return self._fetch_rows(part, rows, now)

    def _fetch_in_bulk(self, wallet: Wallet, rows: list[Pending], now: int) -> int:
        """Fetch many transactions with one request, if a node supports that. Return their number.

        A node can't hide anything, because the signature lists are complete and transactions
        missing from the response are fetched one by one.
        """
        rows = _leave_sparse(wallet, end_with_slot(rows, MANY)) if len(rows) >= FEW else []
        bodies = _find_bodies(rows) if rows else {}
        wanted = {
            row.signature: ListedSignature(row.signature, row.slot, row.tx_index)
            for row in rows
            if row.signature not in bodies
        }
        if len(wanted) < FEW:
            return 0
        answers = self._ask_in_bulk(wallet.address, rows[0].slot, rows[-1].slot, wanted)
        if not answers:
            return 0
        part = Slice(wallet, list_addresses(wallet.id), bodies, answers)
        # A response that reached its limit doesn't cover later slots.
        last = max(row.slot for row in rows if row.signature in answers)
        return self._fetch_rows(part, [row for row in rows if row.slot <= last], now)

    def _ask_in_bulk(
        self, address: str, first: int, last: int, wanted: Mapping[str, ListedSignature]
    ) -> dict[str, Answer]:
        """Return {} if no node supports bulk requests."""
        options = {
            **FINALIZED,
            "transactionDetails": "full",
            "encoding": "jsonParsed",
            "maxSupportedTransactionVersion": 1,
            "sortOrder": "asc",
            "limit": MANY,
            "filters": {"slot": {"gte": first, "lte": last}, "tokenAccounts": "all"},
        }
        check = functools.partial(check_transactions, wanted=wanted)
        answered = self._state.rpc.call_optional(IN_BULK, [address, options], check)
        if answered is None:
            return {}
        found, label = answered
        return {one: Answer(raw, receipt, label) for one, (raw, receipt) in found.items()}

    def _fetch_rows(self, part: Slice, rows: Sequence[Pending], now: int) -> int:
        count = 0
        try:
            for row in rows:
                if count and self._state.clock() >= self._state.work_until:
                    break
                self._fetch_safely(part, row, now)
                count += 1
        finally:
            self._store(part)
        return count

    def _fetch_safely(self, part: Slice, row: Pending, now: int) -> None:
        try:
            self._fetch(part, row, now)
        except (RpcError, PeeweeException):
            raise
        except Exception as error:
            # A bug in Candor, so log the stack trace. The transaction stays pending and is retried.
            log.exception("wallet %s: receipt %s failed", part.wallet.address, row.signature)
            _retry_later(row, now, f"internal error: {type(error).__name__}")

    def _fetch(self, part: Slice, row: Pending, now: int) -> None:
        body = part.bodies.get(row.signature)
        receipt = None if body is None else _read_or_drop(body, row.signature)
        try:
            if receipt is None:
                receipt = self._fetch_receipt(part, row.signature)
        except (BadAnswer, Refused) as error:
            return _retry_later(row, now, str(error))
        if receipt is None:
            return _retry_later(row, now, None)
        if not touches(receipt, part.wallet.address, part.known):
            return _retry_later(
                row, now, ("the transaction doesn't involve any of the wallet's accounts")
            )
        entry = read_entry(receipt, part.wallet.address, self._state.programs, part.known)
        part.taken.append(Taken(row, receipt, entry))
        return None

    def _store(self, part: Slice) -> None:
        if part.receipts or part.taken:
            with storage.writing():
                storage.write_rows(Receipt, part.receipts)
                for one in part.taken:
                    values = one.entry.dump(), one.entry.is_idle, one.place, one.receipt.slot
                    storage.database.execute_sql(STORE_ENTRY, (*values, one.row.id))
            self._note_stored(part.wallet, part.taken)

    def _note_stored(self, wallet: Wallet, taken: Sequence[Taken]) -> None:
        watch, named = self._state.watches[wallet.id], set()
        for one in taken:
            entry = one.entry._replace(tx_index=one.place, seen_at=one.row.seen_at)
            watch.new_entries.append(entry)
            if one.place is None:
                watch.unindexed_slots.add(entry.slot)
            self._listing.note_ownerless(wallet, one.entry)
            named |= {balance.address for balance in entry.balances}
        self._listing.add_addresses(wallet, named, named=True)

    def _fetch_receipt(self, part: Slice, signature: str) -> ParsedReceipt | None:
        """Return a transaction from the bulk response, or request it from up to two nodes."""
        answer = part.answers.get(signature) or self.ask(signature)
        if answer.receipt is None and len(self._state.rpc.endpoints) > 1:
            answer = self.ask(signature, avoid=answer.endpoint)
        if answer.receipt is not None:
            part.receipts.append(_make_row(answer.receipt, answer))
        return answer.receipt

    def ask(self, signature: str, avoid: str | None = None) -> Answer:
        """`avoid` is the label of an endpoint to skip if there is another one."""
        options = {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 1}
        check = functools.partial(check_receipt, signature=signature)
        (raw, receipt), label = self._state.rpc.call(
            "getTransaction", [signature, options], check, avoid=avoid
        )
        return Answer(raw, receipt, label)

    # ---- places inside a slot --------------------------------------------------------------------
    def index_slots(self, wallet: Wallet) -> None:
        """Find the order of transactions in slots that have several without a position."""
        watch = self._state.watches[wallet.id]
        if not watch.is_indexed:
            slots = storage.read_rows(UNINDEXED_SLOTS, (wallet.id,))
            watch.unindexed_slots, watch.is_indexed = {slot for (slot,) in slots}, True
        while watch.unindexed_slots:
            slot = min(watch.unindexed_slots)
            signatures = [one for (one,) in storage.read_rows(UNINDEXED, (wallet.id, slot))]
            # If no node has the block, the chain of balances must show the order. If no endpoint is
            # available, the slot stays and is requested again.
            if len(signatures) > 1:
                with contextlib.suppress(BadAnswer, Refused):
                    self._index_slot(wallet, slot, signatures)
            watch.unindexed_slots.remove(slot)

    def _index_slot(self, wallet: Wallet, slot: int, signatures: list[str]) -> None:
        options = {
            **FINALIZED,
            "transactionDetails": "signatures",
            "rewards": False,
            "maxSupportedTransactionVersion": 1,
        }
        places, _ = self._state.rpc.call("getBlock", [slot, options], check_block)
        with storage.writing():
            for signature in signatures:
                WalletSignature.update(tx_index=places.get(signature)).where(
                    WalletSignature.wallet == wallet.id, WalletSignature.signature == signature
                ).execute()
        self._state.forget_wallet(wallet.id)


def _list_pending(wallet: Wallet, now: int, which: str, *head: bool) -> list[Pending]:
    values = wallet.id, *head, now, now + MAX_RETRY_WAIT_MS
    return list(dict.fromkeys(map(Pending._make, storage.read_rows(which, values))))


def _leave_sparse(wallet: Wallet, rows: list[Pending]) -> list[Pending]:
    """Leave out sparse older rows: a bulk response contains everything in its slots."""
    while len(rows) >= FEW:
        values = wallet.id, rows[0].slot, rows[-1].slot
        ((stored,),) = storage.read_rows(STORED_BETWEEN, values)
        if 4 * stored <= len(rows):
            return rows
        rows = rows[len(rows) // 2 :]
    return []


def end_with_slot(rows: list[Pending], full: int = SLICE) -> list[Pending]:
    """Leave the last slot of a full slice to the next slice, which will have the whole slot.

    If a ledger had applied half of a slot, it would have to be rebuilt for the other half.
    """
    last = rows[-1].slot
    if len(rows) < full or rows[0].slot == last:
        return rows
    return [row for row in rows if row.slot != last]


def _make_row(receipt: ParsedReceipt, answer: Answer) -> dict[str, Any]:
    return {
        "signature": receipt.signature,
        "slot": receipt.slot,
        "tx_index": receipt.tx_index,
        "block_time": receipt.block_time,
        "body": pack(answer.raw),
        "endpoint": answer.endpoint,
        "digest": digest_receipt(receipt),
    }


def _find_bodies(rows: Sequence[Pending]) -> dict[str, bytes]:
    sql = f"SELECT signature, body FROM receipt WHERE signature IN ({storage.mark(rows)})"
    return dict(storage.read_rows(sql, [row.signature for row in rows]))


def _read_or_drop(body: bytes, signature: str) -> ParsedReceipt | None:
    """Return the stored transaction, or delete a damaged one so that it is fetched again."""
    receipt = read_stored(body, signature)
    if receipt is None:
        with storage.writing():
            drop_receipts([signature])
    return receipt


def _retry_later(row: Pending, now: int, problem: str | None) -> None:
    """Schedule a retry with a delay that grows to an hour."""
    pause_ms = min(MAX_RETRY_WAIT_MS, 1000 * 2 ** min(row.tries, 12))
    storage.database.execute_sql(RETRY, (row.tries + 1, now + pause_ms, problem, row.id))


# ---- repair of gaps ------------------------------------------------------------------------------
class Repair:
    def __init__(self, state: State, fetching: Fetching) -> None:
        self._state, self._fetching = state, fetching

    def repair(self, wallet: Wallet, now: int) -> bool:
        """Start a scan and recheck transactions around a gap. Return whether that was done."""
        watch, ledger = self._state.watches[wallet.id], self._state.apply_entries(wallet)
        unexplained = self._state.list_unexplained(wallet)
        wrong = len(ledger.chain.gaps) + len(unexplained)
        if not wrong:
            watch.repair_wait_ms = MIN_REPAIR_WAIT_MS // 2
            return False
        # A due time beyond the longest delay was set while the clock was wrong.
        if now < wallet.repair_at <= now + MAX_REPAIR_WAIT_MS:
            return False
        self._state.report(f"{wallet.address}: scanning again, {wrong} gaps")
        Address.update(scanned_at=None).where(Address.wallet == wallet.id).execute()
        slots = [(gap.from_slot, gap.to_slot) for gap in ledger.chain.gaps]
        slots += [(ledger.chain.seen[a].slot,) * 2 for a in unexplained if a in ledger.chain.seen]
        for around in slots[:SLICE]:
            self._recheck(wallet, around)
        watch.repair_wait_ms = min(MAX_REPAIR_WAIT_MS, 2 * watch.repair_wait_ms)
        update_wallet(wallet, repair_at=now + watch.repair_wait_ms)
        return True

    def _recheck(self, wallet: Wallet, slots: tuple[int, int]) -> None:
        """Request two slots from another node. Keep its answer if the ledger balances better."""
        rows = (
            Receipt.select()
            .join(WalletSignature, on=Receipt.signature == WalletSignature.signature)
            .where(WalletSignature.wallet == wallet.id, Receipt.slot.in_(slots))
        )
        for row in list(rows):
            try:
                answer = self._fetching.ask(row.signature, avoid=row.endpoint)
            except (BadAnswer, Refused):
                # The gap remains, and will be rechecked.
                continue
            if answer.receipt and answer.receipt != read_stored(row.body, row.signature):
                before, new = self._count_wrong(wallet), digest_receipt(answer.receipt)
                self._replace_receipt(wallet, row, pack(answer.raw), answer.endpoint, new)
                if self._count_wrong(wallet) >= before:
                    self._replace_receipt(wallet, row, row.body, row.endpoint, row.digest)

    def _count_wrong(self, wallet: Wallet) -> int:
        gaps = self._state.apply_entries(wallet).chain.gaps
        checked = self._state.check_balances(wallet).values()
        return len(gaps) + sum(explained is False for explained in checked)

    def _replace_receipt(
        self, wallet: Wallet, row: Receipt, body: bytes, endpoint: str, digest: str
    ) -> None:
        Receipt.update(body=body, endpoint=endpoint, digest=digest).where(
            Receipt.id == row.id
        ).execute()
        reread_entries(wallet, self._state.programs, [row.signature])
        self._state.forget_wallet(wallet.id)
        others = WalletSignature.select(WalletSignature.wallet).where(
            WalletSignature.signature == row.signature,
            WalletSignature.state == "stored",
            WalletSignature.wallet != wallet.id,
        )
        # The observer rereads their entries.
        Wallet.update(rules="").where(Wallet.id.in_(others)).execute()
