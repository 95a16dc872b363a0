"""A Solana node that serves the recording to the observer and the scout, with times shifted to now.

The recording contains receipts and the bots' posts about them. A real runtime (Surfpool 1.5.0)
executed the transactions of four bots that trade with one maker for twelve days, each marked by a
Memo; the other wallets' receipts are made up in the same format. Slot, block time and place in the
block are recomputed: second `at` of the demo is its start plus `at`, and slots last 0.4 s.
Everything else is unchanged.
"""

import base64
import bisect
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from chain.addresses import b58decode

RECORDING = Path(__file__).parent / "chain.json.gz"
# The wallet whose history loads slowly, in 15 minutes, and the seconds for each transaction.
SLOW, SLOW_SECONDS = 4, 0.4
# The slot at second 0.
START_SLOT = 480_000_000
SYSTEM = "11111111111111111111111111111111"
TOKEN_ACCOUNT_BYTES, STATE_AT, INITIALIZED = 165, 108, 1
MAX_SIGNATURES = 1000
JsonObject: TypeAlias = dict[str, Any]


class BadCall(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class RecordedTransaction:
    at: int
    # The wallet's number in the recording.
    wallet: int
    kind: str
    signature: str
    slot: int
    keys: tuple[str, ...]
    receipt: JsonObject


def load_recording() -> JsonObject:
    with gzip.open(RECORDING) as file:
        recording: JsonObject = json.load(file)
    return recording


def slot_of(at: int) -> int:
    return START_SLOT + at * 5 // 2


def read_transactions(recording: JsonObject, start: int) -> list[RecordedTransaction]:
    """Return the recorded transactions in order. `start`: the Unix time of second 0."""
    rows = sorted(recording["transactions"], key=lambda row: row["at"])
    return [_read_transaction(row, start) for row in rows]


def _read_transaction(row: JsonObject, start: int) -> RecordedTransaction:
    receipt = {
        **row["receipt"],
        "slot": slot_of(row["at"]),
        "blockTime": start + row["at"],
        "transactionIndex": 0,
    }
    keys = tuple(key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"])
    return RecordedTransaction(
        row["at"],
        row["who"],
        row["kind"],
        receipt["transaction"]["signatures"][0],
        receipt["slot"],
        keys,
        receipt,
    )


class Node:
    """A node that answers JSON-RPC calls from the recording. A transaction is unknown before its
    time, and finalized from then on.

    Methods receive `seen`, the number of transactions so far, and `at`, the second of the demo,
    before a call's parameters.
    """

    def __init__(self, recording: JsonObject, start: int) -> None:
        self.start, self.transactions = start, read_transactions(recording, start)
        self.mints: dict[str, JsonObject] = recording["accounts"]
        self.times = [row.at for row in self.transactions]
        # Indexes in `transactions`.
        self.by_signature: dict[str, int] = {}
        self.by_address: dict[str, list[int]] = {}
        for number, row in enumerate(self.transactions):
            self.by_signature[row.signature] = number
            for key in row.keys:
                self.by_address.setdefault(key, []).append(number)

    def answer(self, method: object, params: Sequence[Any], at: float) -> object:
        found = METHODS.get(method) if isinstance(method, str) else None
        if found is None:
            raise BadCall(-32601, "Method not found")
        try:
            return found(self, bisect.bisect_right(self.times, at), at, *params)
        except (TypeError, KeyError, IndexError, ValueError) as error:
            # A call may have any parameters. A real node refuses wrong ones like this.
            raise BadCall(-32602, f"Invalid params: {type(error).__name__}") from error

    def find_pause(self, method: object, params: Sequence[Any]) -> float:
        """Return the seconds to wait before responding, because one wallet's history is slow."""
        signature = params[0] if method == "getTransaction" and params else None
        number = self.by_signature.get(signature) if isinstance(signature, str) else None
        is_slow = number is not None and self.transactions[number].wallet == SLOW
        return SLOW_SECONDS if is_slow else 0.0

    # ---- receipts --------------------------------------------------------------------------------
    def get_signatures(
        self, seen: int, at: float, address: str, options: JsonObject | None = None
    ) -> list[JsonObject]:
        options = options or {}
        before = self.by_signature[options["before"]] if options.get("before") else seen
        numbers = [
            number for number in self.by_address.get(address, ()) if number < min(seen, before)
        ]
        newest = [self.transactions[number] for number in reversed(numbers)][
            : min(MAX_SIGNATURES, options.get("limit", MAX_SIGNATURES))
        ]
        return [
            {
                "signature": row.signature,
                "slot": row.slot,
                "transactionIndex": 0,
                "blockTime": self.start + row.at,
                "err": row.receipt["meta"]["err"],
                "memo": None,
                "confirmationStatus": "finalized",
            }
            for row in newest
        ]

    def get_transaction(
        self, seen: int, at: float, signature: str, options: JsonObject | None = None
    ) -> JsonObject | None:
        """Respond to getTransaction with null before the transaction happens."""
        number = self.by_signature.get(signature, seen)
        return self.transactions[number].receipt if number < seen else None

    def get_block(
        self, seen: int, at: float, slot: int, options: JsonObject | None = None
    ) -> JsonObject:
        found = [row for row in self.transactions[:seen] if row.slot == slot]
        return {
            "blockTime": self._time_of(slot),
            "signatures": [row.signature for row in found],
            "parentSlot": slot - 1,
        }

    def get_block_time(self, seen: int, at: float, slot: int) -> int:
        return self._time_of(slot)

    def get_slot(self, seen: int, at: float, options: JsonObject | None = None) -> int:
        return slot_of(int(at))

    def _time_of(self, slot: int) -> int:
        return self.start + (slot - START_SLOT) * 2 // 5

    # ---- accounts --------------------------------------------------------------------------------
    def get_accounts(
        self, seen: int, at: float, addresses: Sequence[str], options: JsonObject | None = None
    ) -> JsonObject:
        return self._in_context(
            at, [_cut(self._find_account(address, seen), options or {}) for address in addresses]
        )

    def get_token_accounts(
        self,
        seen: int,
        at: float,
        owner: str,
        wanted: Mapping[str, str],
        options: JsonObject | None = None,
    ) -> JsonObject:
        named = {
            key
            for number in self.by_address.get(owner, ())
            if number < seen
            for key in self.transactions[number].keys
        }
        found = [(address, self._find_account(address, seen)) for address in sorted(named)]
        return self._in_context(
            at,
            [
                {"pubkey": address, "account": _cut(account, options or {})}
                for address, account in found
                if account
                and account["owner"] == wanted["programId"]
                and base64.b64decode(account["data"][0])[32:64] == b58decode(owner)
            ],
        )

    def _in_context(self, at: float, value: object) -> JsonObject:
        return {"context": {"slot": slot_of(int(at))}, "value": value}

    def _find_account(self, address: str, seen: int) -> JsonObject | None:
        """Return an account after its last transaction or before its first; None if empty."""
        if address in self.mints:
            return self.mints[address]
        numbers = self.by_address.get(address, [])
        place = bisect.bisect_left(numbers, seen)
        if not numbers:
            return None
        row, side = (
            (self.transactions[numbers[place - 1]], "post")
            if place
            else (self.transactions[numbers[0]], "pre")
        )
        return _account_in(row, row.keys.index(address), side)


def _account_in(row: RecordedTransaction, index: int, side: str) -> JsonObject | None:
    meta = row.receipt["meta"]
    lamports = meta[f"{side}Balances"][index]
    token = next(
        (one for one in meta[f"{side}TokenBalances"] if one["accountIndex"] == index), None
    )
    if not lamports:
        return None
    return {
        "lamports": lamports,
        "owner": token["programId"] if token else SYSTEM,
        "data": [_token_data(token) if token else "", "base64"],
        "executable": False,
        "rentEpoch": 0,
    }


def _token_data(token: JsonObject) -> str:
    """Encode a token account (mint, owner, amount and state) as in spl-token's `state::Account`."""
    raw = bytearray(TOKEN_ACCOUNT_BYTES)
    raw[:72] = (
        b58decode(token["mint"])
        + b58decode(token["owner"])
        + int(token["uiTokenAmount"]["amount"]).to_bytes(8, "little")
    )
    raw[STATE_AT] = INITIALIZED
    return base64.b64encode(raw).decode()


def _cut(account: JsonObject | None, options: JsonObject) -> JsonObject | None:
    part = options.get("dataSlice")
    if account is None or part is None:
        return account
    raw = base64.b64decode(account["data"][0])[part["offset"] : part["offset"] + part["length"]]
    return {**account, "data": [base64.b64encode(raw).decode(), "base64"]}


METHODS: dict[str, Callable[..., object]] = {
    "getSignaturesForAddress": Node.get_signatures,
    "getTransaction": Node.get_transaction,
    "getBlock": Node.get_block,
    "getBlockTime": Node.get_block_time,
    "getSlot": Node.get_slot,
    "getMultipleAccounts": Node.get_accounts,
    "getTokenAccountsByOwner": Node.get_token_accounts,
    "getGenesisHash": lambda node, seen, at: "demonstration",
}
