"""Transactions that are listed and not stored yet, and their places inside a slot."""

import contextlib
import functools
from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

from peewee import PeeweeException

import storage
from chain.answers import ListedSignature, check_block, check_receipt
from chain.digests import digest_receipt
from chain.effects import touches
from chain.entries import read_entry
from chain.receipts import Receipt as ParsedReceipt
from chain.receipts import parse_receipt
from chain.rpc import BadAnswer, Refused, RpcError
from chain.store import pack, unpack
from models import Receipt, Wallet, WalletSignature
from observing.entries import list_addresses
from observing.listing import Listing
from observing.state import FINALIZED, SLICE, State, log

MAX_RETRY_WAIT_MS = 3_600_000
# As text: it is asked several times a step, and building it would take longer than the answer.
PENDING = f"""
SELECT * FROM sighting s
WHERE wallet_id = ? AND state = 'pending' AND (due_at <= ? OR due_at > ?) {{which}}
ORDER BY slot, tx_index NULLS FIRST, id LIMIT {SLICE}"""
# What arrived at a head, and what posts wait for.
AT_HEAD = "AND head"
OF_POSTS = """AND signature IN (
    SELECT signature FROM post WHERE wallet_id = s.wallet_id
    AND status IN ('pending', 'not_found') AND signature IS NOT NULL)"""


class Answer(NamedTuple):
    """A transaction as a node gave it, and the endpoint's label; both None where the node does not
    have it yet.
    """

    raw: Any
    receipt: ParsedReceipt | None
    endpoint: str


class Fetching:
    """Fetches transactions in slices; one that no node gives is asked for ever more rarely."""

    def __init__(self, state: State, listing: Listing) -> None:
        self._state, self._listing = state, listing

    def fetch_urgent(self, wallet: Wallet, now: int) -> int:
        """Fetch a slice of what posts wait for, else of what arrived at the head; return how many
        were asked for.
        """
        return self._fetch_slice(wallet, now, OF_POSTS) or self._fetch_slice(wallet, now, AT_HEAD)

    def fetch_backlog(self, wallet: Wallet, now: int) -> int:
        """Fetch a slice of what is pending, oldest first; return how many were asked for."""
        return self._fetch_slice(wallet, now)

    def _fetch_slice(self, wallet: Wallet, now: int, which: str = "") -> int:
        # What is due later than any pause was put off by a clock that ran wrong.
        values = wallet.id, now, now + MAX_RETRY_WAIT_MS
        count = 0
        for row in list(WalletSignature.raw(PENDING.format(which=which), *values)):
            if count and self._state.clock() >= self._state.work_until:
                break
            self._fetch_safely(wallet, row, now)
            count += 1
        return count

    def _fetch_safely(self, wallet: Wallet, row: WalletSignature, now: int) -> None:
        """Fetch a transaction; one that our own code stumbles over does not stop the others."""
        try:
            self._fetch(wallet, row, now)
        except (RpcError, PeeweeException):
            raise
        except Exception as error:
            # A fault of ours: logged with its stack; the transaction stays pending, tried again.
            log.exception("wallet %s: receipt %s failed", wallet.address, row.signature)
            _retry_later(row, now, f"internal error: {type(error).__name__}")

    def _fetch(self, wallet: Wallet, row: WalletSignature, now: int) -> None:
        """Store the transaction of a signature and its Entry; ask again later where the node does
        not give it or what it gives is refused.
        """
        known = list_addresses(wallet.id)
        try:
            receipt = _find_receipt(row.signature) or self._fetch_receipt(row, now)
        except (BadAnswer, Refused) as error:
            return _retry_later(row, now, str(error))
        if receipt is None:
            return _retry_later(row, now, None)
        if not touches(receipt, wallet.address, known):
            return _retry_later(row, now, "it names none of the wallet's accounts")
        return self._store_entry(wallet, row, receipt, known)

    def _store_entry(
        self, wallet: Wallet, row: WalletSignature, receipt: ParsedReceipt, known: set[str]
    ) -> None:
        entry = read_entry(receipt, wallet.address, self._state.programs, known)
        index = receipt.tx_index if receipt.tx_index is not None else row.tx_index
        WalletSignature.update(
            state="stored", entry=entry.dump(), tx_index=index, slot=receipt.slot, problem=None
        ).where(WalletSignature.id == row.id).execute()
        self._state.watches[wallet.id].new_entries.append(
            replace(entry, tx_index=index, seen_at=row.seen_at)
        )
        self._note_unindexed(wallet, receipt.slot, index, row.signature)
        self._listing.note_ownerless(wallet, entry)
        named = {balance.address for balance in entry.balances} - known
        self._listing.add_addresses(wallet, named, named=True)

    def _fetch_receipt(self, row: WalletSignature, now: int) -> ParsedReceipt | None:
        """Ask for a transaction and store it; None where no node has it yet."""
        answer = self._ask_twice(row.signature)
        if answer.receipt is not None:
            _store_receipt(answer.receipt, answer, now)
        return answer.receipt

    def _ask_twice(self, signature: str) -> Answer:
        """Ask a node for a transaction, and another where it does not have it yet."""
        answer = self.ask(signature)
        if answer.receipt is None and len(self._state.rpc.endpoints) > 1:
            answer = self.ask(signature, avoid=answer.endpoint)
        return answer

    def fetch_announced(self, wallet: Wallet, signature: str, now: int) -> bool | None:
        """Take in a transaction that was announced and is not listed yet. Return whether it names
        the wallet, None where no node has it yet; nothing is stored then.
        """
        receipt, answer = _find_receipt(signature), None
        if receipt is None:
            answer = self._ask_twice(signature)
            receipt = answer.receipt
        if receipt is None:
            return None
        known = list_addresses(wallet.id)
        if not touches(receipt, wallet.address, known):
            return False
        with storage.writing():
            if answer is not None:
                _store_receipt(receipt, answer, now)
            listed = [ListedSignature(signature, receipt.slot, receipt.tx_index)]
            self._listing.store_new(wallet, listed, now, head=True)
        row = WalletSignature.get_or_none(
            WalletSignature.wallet == wallet.id, WalletSignature.signature == signature
        )
        if row is not None:
            self._store_entry(wallet, row, receipt, known)
        return True

    def ask(self, signature: str, avoid: str | None = None) -> Answer:
        """Ask for a transaction. `avoid`: label of an endpoint not to ask, if there is another."""
        options = {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 1}
        check = functools.partial(check_receipt, signature=signature)
        (raw, receipt), label = self._state.rpc.call(
            "getTransaction", [signature, options], check, avoid=avoid
        )
        return Answer(raw, receipt, label)

    # ---- places inside a slot --------------------------------------------------------------------
    def _note_unindexed(self, wallet: Wallet, slot: int, index: int | None, signature: str) -> None:
        watch = self._state.watches[wallet.id]
        if index is None and watch.unindexed is not None:
            watch.unindexed[slot].add(signature)
            if len(watch.unindexed[slot]) > 1:
                watch.ambiguous_slots.add(slot)

    def _read_unindexed(self, wallet: Wallet) -> dict[int, set[str]]:
        """By slot, the stored signatures whose place in it is unknown; read once."""
        watch = self._state.watches[wallet.id]
        if watch.unindexed is None:
            watch.unindexed = defaultdict(set)
            stored = WalletSignature.select(WalletSignature.slot, WalletSignature.signature).where(
                WalletSignature.wallet == wallet.id,
                WalletSignature.state == "stored",
                WalletSignature.tx_index.is_null(),
            )
            for row in list(stored.namedtuples()):
                self._note_unindexed(wallet, row.slot, None, row.signature)
        return watch.unindexed

    def index_slots(self, wallet: Wallet) -> None:
        """Ask for the block where several transactions of a slot lack their place in it."""
        unindexed, watch = self._read_unindexed(wallet), self._state.watches[wallet.id]
        for slot in sorted(watch.ambiguous_slots):
            # Where no node gives the block, the chain of balances has to show the order. Where no
            # endpoint can be asked (raised), the slot stays and is asked for again.
            with contextlib.suppress(BadAnswer, Refused):
                self._index_slot(wallet, slot, sorted(unindexed[slot]))
            watch.ambiguous_slots.discard(slot)

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


def _store_receipt(receipt: ParsedReceipt, answer: Answer, now: int) -> None:
    Receipt.insert(
        signature=receipt.signature,
        slot=receipt.slot,
        tx_index=receipt.tx_index,
        block_time=receipt.block_time,
        body=pack(answer.raw),
        endpoint=answer.endpoint,
        stored_at=now,
        digest=digest_receipt(receipt),
    ).on_conflict_ignore().execute()


def _find_receipt(signature: str) -> ParsedReceipt | None:
    """The stored transaction, or None."""
    body = Receipt.select(Receipt.body).where(Receipt.signature == signature).scalar()
    return None if body is None else parse_receipt(unpack(body), signature)


def _retry_later(row: WalletSignature, now: int, problem: str | None) -> None:
    """Ask for it again after a pause that grows to an hour; `problem`: why it was refused."""
    pause_ms = min(MAX_RETRY_WAIT_MS, 1000 * 2 ** min(row.tries, 12))
    WalletSignature.update(tries=row.tries + 1, due_at=now + pause_ms, problem=problem).where(
        WalletSignature.id == row.id
    ).execute()
