"""A wallet's addresses, signatures and transactions, as reported by the auditor's own node."""

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

from chain.addresses import TOKEN_PROGRAMS
from chain.reading.entries import read_entry
from chain.reading.flows import Holding, touches
from chain.reading.programs import Programs
from chain.reading.receipts import Receipt, digest_receipt
from chain.rpc import (
    BadAnswer,
    ListedSignature,
    Refused,
    Resting,
    Rpc,
    Unavailable,
    check_accounts,
    check_block,
    check_holdings,
    check_page,
    check_receipt,
)
from evidence.memory import Memory

FINALIZED = {"commitment": "finalized"}
PAGE, ACCOUNTS_A_CALL = 1_000, 100
# Nodes sometimes return incomplete lists. Repeat until a round finds nothing new, up to this often.
MAX_ROUNDS = 6
# Requests for a transaction that the node doesn't return.
MAX_ASKED = 3
# The longest wait, and the maximum number of consecutive failures.
MAX_REST_SECONDS, MAX_FAILURES = 60.0, 12
# Limits on unclaimed transactions that a node lists, and on consecutive ones that it fails to
# return.
MAX_SURPLUS, MAX_MISSING = 100_000, 2_000
MAX_ADDRESSES = 100_000
REPORT_SECONDS = 2.0


class NodeTrouble(Exception):
    """The auditor's node isn't responding. The message is for the auditor."""


class Node:
    def __init__(self, rpc: Rpc, sleep: Callable[[float], object] = time.sleep) -> None:
        self.rpc, self._sleep = rpc, sleep

    def ask(self, method: str, params: list[Any], check: Callable[[Any], Any]) -> Any:
        """Return the checked response, or None if it is unusable. Raises NodeTrouble."""
        failures = 0
        while True:
            try:
                return self.rpc.call(method, params, check)[0]
            except (BadAnswer, Refused):
                return None
            except Resting as error:
                if error.retry_in > MAX_REST_SECONDS:
                    told = f"allows no more requests for {error.retry_in:.0f} s"
                    raise NodeTrouble(f"your node {told}") from None
                self._sleep(error.retry_in)
            except Unavailable as error:
                failures += 1
                if failures >= MAX_FAILURES:
                    raise NodeTrouble(f"your node isn't responding ({error})") from None


class View:
    """Everything the node reports about one wallet, read into a Memory.

    `missing`: listed or claimed transactions that the node didn't return, as signature -> slot.
    `foreign`: the signatures of transactions that don't involve the wallet's accounts.
    `report` is called with the progress.
    """

    def __init__(
        self,
        node: Node,
        memory: Memory,
        programs: Programs,
        wallet: str,
        report: Callable[[str], None],
    ) -> None:
        self.node, self.memory, self.programs, self.wallet = node, memory, programs, wallet
        self.addresses = {wallet}
        self.missing: dict[str, int] = {}
        self.foreign: set[str] = set()
        self._report, self._reported_at = report, 0.0
        self._ownerless: dict[str, set[str]] = {}
        self._asked: dict[str, int] = {}

    # ---- all of it -------------------------------------------------------------------------------
    def read(self, claimed: int, more_addresses: Iterable[str]) -> None:
        """List and fetch until a round finds nothing new.

        `claimed` is the number of transactions that the instance claims. `more_addresses` are
        addresses that it attributes to the wallet.
        """
        self.addresses |= set(more_addresses)
        self._find_accounts()
        limit = 2 * claimed + MAX_SURPLUS
        for number in range(1, MAX_ROUNDS + 1):
            # A foreign transaction may belong to an address that was found since.
            self.foreign.clear()
            known, before = len(self.addresses), self.memory.listed
            for count, address in enumerate(sorted(self.addresses), 1):
                self._tell(f"listing, round {number}: {count} of {len(self.addresses)} addresses")
                self._list(address, limit)
            self._fetch_unread()
            if number > 1 and (known, before) == (len(self.addresses), self.memory.listed):
                break
        self._place()

    def _find_accounts(self) -> None:
        for program in TOKEN_PROGRAMS:
            options = {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}
            params = [self.wallet, {"programId": program}, options]
            found = self.node.ask("getTokenAccountsByOwner", params, check_accounts)
            # Without a response, it still finds every address that a transaction mentions.
            self.addresses |= set((found or [])[:MAX_ADDRESSES])

    def _tell(self, text: str) -> None:
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._report(f"{self.wallet}: {text}")

    # ---- lists -----------------------------------------------------------------------------------
    def _list(self, address: str, limit: int) -> None:
        before: str | None = None
        seen: set[str] = set()
        while self.memory.listed <= limit:
            options = {**FINALIZED, "limit": PAGE, **({"before": before} if before else {})}
            page: list[ListedSignature] | None = self.node.ask(
                "getSignaturesForAddress", [address, options], check_page
            )
            fresh = [row for row in page or () if row.signature not in seen]
            if not page or not fresh:
                return
            self.memory.add_listed(fresh)
            seen.update(row.signature for row in fresh)
            before = page[-1].signature
        raise NodeTrouble(f"your node lists more than {limit} transactions of {self.wallet}")

    # ---- transactions ----------------------------------------------------------------------------
    def _fetch_unread(self) -> None:
        in_a_row = 0
        rows = [row for row in self.memory.list_unread() if row[0] not in self.foreign]
        for count, (signature, slot, place) in enumerate(rows, 1):
            self._tell(f"transactions: {count} of {len(rows)}")
            if self._asked.get(signature, 0) >= MAX_ASKED:
                continue
            receipt = self.memory.find_receipt(signature) or self.fetch(signature)
            if receipt is None:
                self.missing[signature] = slot
                in_a_row += 1
                if in_a_row > MAX_MISSING:
                    told = f"your node returned none of {in_a_row} transactions in a row"
                    raise NodeTrouble(told)
                continue
            in_a_row = 0
            self.take(receipt, place)

    def fetch(self, signature: str) -> Receipt | None:
        """Request the transaction, with retries. Return None if the node doesn't return it."""
        options = {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 1}
        check = functools.partial(check_receipt, signature=signature)
        while self._asked.get(signature, 0) < MAX_ASKED:
            self._asked[signature] = self._asked.get(signature, 0) + 1
            answer: tuple[Any, Receipt | None] | None = self.node.ask(
                "getTransaction", [signature, options], check
            )
            if answer is None:
                # The request was already retried, and the next round tries again.
                return None
            raw, receipt = answer
            if receipt is not None:
                self.memory.keep_receipt(signature, raw)
                return receipt
        return None

    def fetch_again(self, signature: str) -> None:
        self._asked.pop(signature, None)
        receipt = self.fetch(signature)
        if receipt is not None:
            kept = self.memory.find_entry(signature)
            self.take(receipt, kept.entry.tx_index if kept else None)

    def take(self, receipt: Receipt, place: int | None) -> None:
        self.missing.pop(receipt.signature, None)
        if not touches(receipt, self.wallet, self.addresses):
            self.foreign.add(receipt.signature)
            return
        entry = read_entry(receipt, self.wallet, self.programs, self.addresses)
        self.memory.store_entry(entry, digest_receipt(receipt), receipt.inner_told)
        if entry.tx_index is None and place is not None:
            self.memory.store_places({entry.signature: place})
        for address in entry.unowned:
            self._ownerless.setdefault(address, set()).add(entry.signature)
        fresh = {balance.address for balance in entry.balances} - self.addresses
        if fresh and len(self.addresses) < MAX_ADDRESSES:
            self.addresses |= fresh
            self._reread(fresh)

    def _reread(self, fresh: set[str]) -> None:
        """Reread transactions from 2021 that mention these accounts without their owner."""
        for signature in sorted(set().union(*(self._ownerless.pop(a, ()) for a in fresh))):
            receipt, kept = self.memory.find_receipt(signature), self.memory.find_entry(signature)
            if receipt is not None and kept is not None:
                self.take(receipt, kept.entry.tx_index)

    def _place(self) -> None:
        for slot, signatures in self.memory.list_unplaced().items():
            options = {
                **FINALIZED,
                "transactionDetails": "signatures",
                "rewards": False,
                "maxSupportedTransactionVersion": 1,
            }
            # Without a response, only the chain of balances shows the order.
            places = self.node.ask("getBlock", [slot, options], check_block) or {}
            self.memory.store_places({s: places[s] for s in signatures if s in places})

    # ---- balances --------------------------------------------------------------------------------
    def ask_holdings(self) -> dict[str, Holding] | None:
        options = {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 72}}
        addresses, found = sorted(self.addresses), dict[str, Holding]()
        for start in range(0, len(addresses), ACCOUNTS_A_CALL):
            part = addresses[start : start + ACCOUNTS_A_CALL]
            check = functools.partial(check_holdings, owned=[(self.wallet, a) for a in part])
            answer = self.node.ask("getMultipleAccounts", [part, options], check)
            if answer is None:
                return None
            found |= dict(zip(part, answer[1], strict=True))
        return found
