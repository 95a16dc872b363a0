"""Transactions that are listed and not stored yet, and their places inside a slot."""

import contextlib
import functools
from collections import defaultdict
from dataclasses import replace

from peewee import PeeweeException

import storage
from chain.answers import (
    check_block,
    check_receipt,
)
from chain.effects import touches
from chain.entries import read_entry
from chain.receipts import parse_receipt
from chain.rpc import BadAnswer, Refused, RpcError
from chain.store import (
    pack,
    unpack,
)
from models import Post, Receipt, WalletSignature
from observing.entries import list_addresses
from observing.listing import Listing
from observing.state import FINALIZED, SLICE, log

# ms
MAX_PUT_OFF = 3_600_000


class Fetching(Listing):
    """Fetches transactions in slices; one that no node gives is put off for longer and longer."""

    def _fetch_urgent(self, wallet, now):
        """A slice of what a post waits for, else of what arrived at the head; how many were asked
        for.
        """
        waiting = Post.select(Post.signature).where(
            Post.wallet == wallet.id,
            Post.status.in_(["pending", "not_found"]),
            Post.signature.is_null(False),
        )
        return self._fetch_slice(
            wallet, now, WalletSignature.signature.in_(waiting)
        ) or self._fetch_slice(wallet, now, WalletSignature.head)

    def _fetch_backlog(self, wallet, now):
        return self._fetch_slice(wallet, now)

    def _fetch_slice(self, wallet, now, *which):
        # the latter: put off by a clock that ran wrong
        due = (WalletSignature.due_at <= now) | (WalletSignature.due_at > now + MAX_PUT_OFF)
        pending = WalletSignature.select().where(
            WalletSignature.wallet == wallet.id, WalletSignature.state == "pending", due, *which
        )
        rows = list(
            pending.order_by(
                WalletSignature.slot,
                WalletSignature.tx_index.asc(nulls="first"),
                WalletSignature.id,
            ).limit(SLICE)
        )
        for count, row in enumerate(rows):
            if count and self.clock() >= self._end:
                return count
            self._fetch_safely(wallet, row, now)
        return len(rows)

    def _fetch_safely(self, wallet, row, now):
        """A receipt that we stumble over is put off like one that is refused: the others go on."""
        try:
            self._fetch(wallet, row, now)
        except (RpcError, PeeweeException):
            raise
        except Exception as error:
            log.exception("wallet %s: receipt %s failed", wallet.address, row.signature)
            self._put_off(row, now, f"internal error: {type(error).__name__}")

    def _fetch(self, wallet, row, now):
        """Store the receipt of one sighting and its Entry, or put it off where the node does not
        give it or what it gives is refused.
        """
        known = list_addresses(wallet.id)
        try:
            receipt = self._find_receipt(row.signature) or self._fetch_receipt(row, now)
        except (BadAnswer, Refused) as error:
            return self._put_off(row, now, str(error))
        if receipt is None:
            return self._put_off(row, now, None)
        if not touches(receipt, wallet.address, known):
            return self._put_off(row, now, "it names none of the wallet's accounts")
        entry = read_entry(receipt, wallet.address, self.programs, known)
        index = receipt.tx_index if receipt.tx_index is not None else row.tx_index
        WalletSignature.update(
            state="stored", entry=entry.dump(), tx_index=index, slot=receipt.slot, problem=None
        ).where(WalletSignature.id == row.id).execute()
        self._watches[wallet.id].new.append(replace(entry, tx_index=index))
        self._note_unplaced(wallet, receipt.slot, index, row.signature)
        self._note_nameless(wallet, entry)
        self._add_addresses(wallet, {b.address for b in entry.balances} - known, named=True)

    def _find_receipt(self, signature):
        body = Receipt.select(Receipt.body).where(Receipt.signature == signature).scalar()
        return None if body is None else parse_receipt(unpack(body), signature)

    def _fetch_receipt(self, row, now):
        """Ask a node for a receipt, and another where it does not have it yet, and store it; None
        where neither does.
        """
        raw, receipt, label = self._ask_receipt(row.signature)
        if receipt is None and len(self.rpc.endpoints) > 1:
            raw, receipt, label = self._ask_receipt(row.signature, avoid=label)
        if receipt is None:
            return None
        values = {
            "slot": receipt.slot,
            "tx_index": receipt.tx_index,
            "block_time": receipt.block_time,
            "body": pack(raw),
            "endpoint": label,
            "stored_at": now,
        }
        Receipt.insert(signature=row.signature, **values).on_conflict_ignore().execute()
        return receipt

    def _ask_receipt(self, signature, avoid=None):
        """(raw JSON, Receipt, endpoint); the first two None for one the node does not have yet."""
        params = [
            signature,
            {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 1},
        ]
        (raw, receipt), label = self.rpc.call(
            "getTransaction",
            params,
            functools.partial(check_receipt, signature=signature),
            avoid=avoid,
        )
        return raw, receipt, label

    def _put_off(self, row, now, problem):
        """Keep it pending, to be asked for again after a pause that grows to an hour."""
        pause = min(MAX_PUT_OFF, 1000 * 2 ** min(row.tries, 12))
        WalletSignature.update(tries=row.tries + 1, due_at=now + pause, problem=problem).where(
            WalletSignature.id == row.id
        ).execute()

    def _note_unplaced(self, wallet, slot, index, signature):
        watch = self._watches[wallet.id]
        if index is None and watch.unplaced is not None:
            watch.unplaced[slot].add(signature)
            if len(watch.unplaced[slot]) > 1:
                watch.crowded.add(slot)

    def _index_slots(self, wallet):
        """Ask for the block where several receipts of a slot lack their place in it."""
        watch = self._watches[wallet.id]
        if watch.unplaced is None:
            watch.unplaced = defaultdict(set)
            stored = WalletSignature.select(WalletSignature.slot, WalletSignature.signature).where(
                WalletSignature.wallet == wallet.id,
                WalletSignature.state == "stored",
                WalletSignature.tx_index.is_null(),
            )
            for slot, signature in list(stored.tuples()):
                self._note_unplaced(wallet, slot, None, signature)
        for slot in sorted(watch.crowded):
            # Where no node gives the block, the chain of balances has to tell.
            with contextlib.suppress(BadAnswer, Refused):
                self._index_slot(wallet, slot, sorted(watch.unplaced[slot]))
            # no endpoint available: it stays and is asked for again
            watch.crowded.discard(slot)

    def _index_slot(self, wallet, slot, signatures):
        """Where no node gives the block, the chain of balances has to tell the order."""
        config = {
            **FINALIZED,
            "transactionDetails": "signatures",
            "rewards": False,
            "maxSupportedTransactionVersion": 1,
        }
        places, _ = self.rpc.call("getBlock", [slot, config], check_block)
        with storage.writing():
            for signature in signatures:
                WalletSignature.update(tx_index=places.get(signature)).where(
                    WalletSignature.wallet == wallet.id, WalletSignature.signature == signature
                ).execute()
        self._forget_wallet(wallet.id)
