"""Checks of a node's answers: from JSON to plain values, or ValueError. Pure; a node may answer
anything. Numbers are bounded to signed 64-bit columns.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from chain.addresses import is_address
from chain.base58 import b58encode
from chain.reading.instructions import TOKEN_PROGRAMS
from chain.reading.receipts import LATEST_TIME, SIGNATURE, Receipt, parse_receipt

# Above every number that a signed 64-bit column holds.
MAX_BIGINT = 2**63


class ListedSignature(NamedTuple):
    """A finalized transaction that names an address. `tx_index`: its place in the slot, if told."""

    signature: str
    slot: int
    tx_index: int | None


@dataclass(frozen=True, slots=True)
class Holding:
    """The balance of a wallet's account at a slot: raw token amount and lamports, zeros where the
    account is closed or another's. `mint`: None where the amount is 0.
    """

    slot: int
    amount: int
    lamports: int
    mint: str | None = None
    # Only of a wallet itself: whether the address is a program.
    executable: bool = False


def check_page(result: Any) -> list[ListedSignature]:
    """getSignaturesForAddress: newest first, each once, whatever order they came in."""
    if not isinstance(result, list):
        raise ValueError("no list of signatures")
    rows = {row.signature: row for row in map(_check_listed, result)}
    return sorted(rows.values(), key=lambda row: (-row.slot, -(row.tx_index or 0)))


def _check_listed(one: Any) -> ListedSignature:
    if not isinstance(one, dict):
        raise ValueError("a malformed signature entry")
    signature, slot, index = (one.get(n) for n in ("signature", "slot", "transactionIndex"))
    if not (
        isinstance(signature, str)
        and SIGNATURE.fullmatch(signature)
        and is_number(slot)
        and (index is None or is_number(index, 2**31))
    ):
        raise ValueError("a malformed signature entry")
    return ListedSignature(signature, slot, index)


def is_number(value: Any, limit: int = MAX_BIGINT) -> TypeGuard[int]:
    """Is this a whole number from 0 to below the limit, and not a bool?"""
    return type(value) is int and 0 <= value < limit


def check_receipt(result: Any, signature: str) -> tuple[Any, Receipt | None]:
    """getTransaction: (raw JSON, Receipt), or (None, None) for one that the node lacks."""
    return (None, None) if result is None else (result, parse_receipt(result, signature))


def check_accounts(result: Any) -> list[str]:
    """getTokenAccountsByOwner: the addresses."""
    try:
        addresses = [row["pubkey"] for row in result["value"]]
    except (TypeError, KeyError) as error:
        raise ValueError("no list of token accounts") from error
    if not all(map(is_address, addresses)):
        raise ValueError("a malformed address")
    return addresses


def check_holdings(result: Any, owned: Sequence[tuple[str, str]]) -> tuple[int, list[Holding]]:
    """getMultipleAccounts, base64, 72 bytes of each. `owned`: (wallet, address) in order."""
    try:
        slot, accounts = result["context"]["slot"], result["value"]
        if not is_number(slot) or len(accounts) != len(owned):
            raise ValueError("not one answer for each account")
        return slot, [
            _read_holding(account, *pair, slot)
            for pair, account in zip(owned, accounts, strict=False)
        ]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("no list of accounts") from error


def _read_holding(account: Any, wallet: str, address: str, slot: int) -> Holding:
    """The first 72 bytes of a token account are mint, owner and amount."""
    if account is None:
        return Holding(slot, 0, 0)
    if not is_number(account["lamports"], 2**64):
        raise ValueError("no lamports")
    if address == wallet:
        return Holding(slot, 0, account["lamports"], executable=account.get("executable") is True)
    data = base64.b64decode(account["data"][0])
    if account["owner"] not in TOKEN_PROGRAMS or len(data) < 72 or b58encode(data[32:64]) != wallet:
        return Holding(slot, 0, 0)
    amount = int.from_bytes(data[64:72], "little")
    mint = b58encode(data[:32]) if amount else None
    return Holding(slot, amount, account["lamports"], mint)


def check_decimals(result: Any, mints: list[str]) -> dict[str, int]:
    """getMultipleAccounts of `mints`, byte 44 of each: {mint: decimals} of what is a mint."""
    try:
        if len(result["value"]) != len(mints):
            raise ValueError("not one answer for each account")
        read = [_read_decimals(account) for account in result["value"]]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("no list of accounts") from error
    return {
        mint: decimals for mint, decimals in zip(mints, read, strict=False) if decimals is not None
    }


def _read_decimals(account: Any) -> int | None:
    if account is None or account["owner"] not in TOKEN_PROGRAMS:
        return None
    data = base64.b64decode(account["data"][0])
    return data[0] if len(data) == 1 else None


def check_block(result: Any) -> dict[str, int]:
    """getBlock with transactionDetails `signatures`: {signature: place}."""
    try:
        return {signature: place for place, signature in enumerate(result["signatures"])}
    except (TypeError, KeyError) as error:
        raise ValueError("no list of signatures") from error


def check_time(result: Any) -> int | None:
    """getBlockTime: Unix seconds, or None."""
    if result is None or is_number(result, LATEST_TIME):
        return result
    raise ValueError("no block time")
