"""A Solana node out of the recording: what the observer and the scout ask for, as of a moment, with
the time shifted to now. Pure.

The recording (`chain.json.gz`, made by record/) holds receipts of a real runtime. Slot, block time
and place in the block are set anew: the second `at` of the demonstration is its start plus `at`,
and slots last 0.4 s. Everything else is as it was executed.
"""

import base64
import bisect
import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from chain.base58 import b58decode

RECORDING = Path(__file__).parent / "chain.json.gz"
START_SLOT = 480_000_000  # at second 0
SYSTEM = "11111111111111111111111111111111"
TOKEN_ACCOUNT_BYTES, STATE_AT, INITIALIZED = 165, 108, 1
MAX_SIGNATURES = 1000


class BadCall(Exception):
    """A JSON-RPC error: its code and message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Row:
    """One recorded transaction: when, which bot (its number in the cast), what it did, and the
    receipt as the node gives it.
    """

    at: int
    who: int
    kind: str
    signature: str
    slot: int
    keys: tuple
    receipt: dict


def load_recording(path=RECORDING):
    with gzip.open(path) as file:
        return json.load(file)


def slot_of(at):
    return START_SLOT + at * 5 // 2


def read_rows(recording, start):
    """The recorded transactions in order, shifted: `start` is the Unix second of the
    demonstration's 0.
    """
    return [_read_row(row, start) for row in recording["transactions"]]


def _read_row(row, start):
    receipt = {
        **row["receipt"],
        "slot": slot_of(row["at"]),
        "blockTime": start + row["at"],
        "transactionIndex": 0,
    }
    keys = tuple(key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"])
    return Row(
        row["at"],
        row["who"],
        row["kind"],
        receipt["transaction"]["signatures"][0],
        receipt["slot"],
        keys,
        receipt,
    )


class Node:
    """Answers JSON-RPC calls. All are `finalized`: a transaction is seen whole, or not yet."""

    def __init__(self, recording, start):
        self.start, self.rows = start, read_rows(recording, start)
        self.mints = recording["accounts"]
        self.places, self.by_signature, self.by_address = [row.at for row in self.rows], {}, {}
        for number, row in enumerate(self.rows):
            self.by_signature[row.signature] = number
            for key in row.keys:
                self.by_address.setdefault(key, []).append(number)

    def answer(self, method, params, at):
        """The result of a call at a second of the demonstration. Raises BadCall."""
        found = METHODS.get(method)
        if found is None:
            raise BadCall(-32601, "Method not found")
        try:
            return found(self, bisect.bisect_right(self.places, at), at, *params)
        except (TypeError, KeyError, IndexError, ValueError) as error:
            raise BadCall(-32602, f"Invalid params: {type(error).__name__}") from error

    # ---- receipts --------------------------------------------------------------------------------
    def get_signatures(self, seen, at, address, options=None):
        options = options or {}
        before = self.by_signature[options["before"]] if options.get("before") else seen
        numbers = [
            number for number in self.by_address.get(address, ()) if number < min(seen, before)
        ]
        newest = [self.rows[number] for number in reversed(numbers)][
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

    def get_transaction(self, seen, at, signature, options=None):
        number = self.by_signature.get(signature, seen)
        return self.rows[number].receipt if number < seen else None

    def get_block(self, seen, at, slot, options=None):
        found = [row for row in self.rows[:seen] if row.slot == slot]
        return {
            "blockTime": self._time_of(slot),
            "signatures": [row.signature for row in found],
            "parentSlot": slot - 1,
        }

    def get_block_time(self, seen, at, slot):
        return self._time_of(slot)

    def get_slot(self, seen, at, options=None):
        return slot_of(int(at))

    def _time_of(self, slot):
        return self.start + (slot - START_SLOT) * 2 // 5

    # ---- accounts --------------------------------------------------------------------------------
    def get_balance(self, seen, at, address, options=None):
        account = self._find_account(address, seen)
        return self._in_context(at, account["lamports"] if account else 0)

    def get_accounts(self, seen, at, addresses, options=None):
        return self._in_context(
            at, [_cut(self._find_account(address, seen), options or {}) for address in addresses]
        )

    def get_token_accounts(self, seen, at, owner, wanted, options=None):
        named = {
            key
            for number in self.by_address.get(owner, ())
            if number < seen
            for key in self.rows[number].keys
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

    def _in_context(self, at, value):
        return {"context": {"slot": slot_of(int(at))}, "value": value}

    def _find_account(self, address, seen):
        """An account after the last transaction that names it, before the first one where none does
        yet; None where it holds nothing.
        """
        if address in self.mints:
            return self.mints[address]
        numbers = self.by_address.get(address, [])
        place = bisect.bisect_left(numbers, seen)
        if not numbers:
            return None
        row, side = (
            (self.rows[numbers[place - 1]], "post") if place else (self.rows[numbers[0]], "pre")
        )
        return _account_in(row, row.keys.index(address), side)


def _account_in(row, index, side):
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


def _token_data(token):
    """A token account's bytes as far as the recording knows them: mint, owner, amount, state
    (spl-token `state::Account`).
    """
    raw = bytearray(TOKEN_ACCOUNT_BYTES)
    raw[:72] = (
        b58decode(token["mint"])
        + b58decode(token["owner"])
        + int(token["uiTokenAmount"]["amount"]).to_bytes(8, "little")
    )
    raw[STATE_AT] = INITIALIZED
    return base64.b64encode(raw).decode()


def _cut(account, options):
    part = options.get("dataSlice")
    if account is None or part is None:
        return account
    raw = base64.b64decode(account["data"][0])[part["offset"] : part["offset"] + part["length"]]
    return {**account, "data": [base64.b64encode(raw).decode(), "base64"]}


METHODS = {
    "getSignaturesForAddress": Node.get_signatures,
    "getTransaction": Node.get_transaction,
    "getBlock": Node.get_block,
    "getBlockTime": Node.get_block_time,
    "getSlot": Node.get_slot,
    "getBalance": Node.get_balance,
    "getMultipleAccounts": Node.get_accounts,
    "getTokenAccountsByOwner": Node.get_token_accounts,
    "getGenesisHash": lambda node, seen, at: "demonstration",
}
