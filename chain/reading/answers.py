"""Turn a node's JSON responses into plain values, or raise ValueError. Pure.

A node may return anything. Numbers must fit signed 64-bit columns.
"""

import base64
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from chain.addresses import is_address
from chain.base58 import b58encode
from chain.reading.instructions import TOKEN_PROGRAMS
from chain.reading.receipts import LATEST_TIME, SIGNATURE, BadReceipt, Receipt, parse_receipt

# One more than the largest signed 64-bit integer.
MAX_BIGINT = 2**63


class ListedSignature(NamedTuple):
    """A finalized transaction that mentions an address. `tx_index` is its position in the slot, if
    the node provides it.
    """

    signature: str
    slot: int
    tx_index: int | None


@dataclass(frozen=True, slots=True)
class Holding:
    """The balance of a wallet's account at a slot, as a raw token amount and lamports.

    Both are 0 if the account is closed or belongs to someone else. `mint` is None if the amount is
    0.
    """

    slot: int
    amount: int
    lamports: int
    mint: str | None = None
    # Whether it is a program. Set only for a wallet's own address.
    executable: bool = False


def check_page(result: Any) -> list[ListedSignature]:
    """Check a response of getSignaturesForAddress. Return the unique signatures, newest first."""
    if not isinstance(result, list):
        raise ValueError("the response is not a list of signatures")
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
    """Return whether this is an integer from 0 to below the limit. A bool isn't."""
    return type(value) is int and 0 <= value < limit


def check_receipt(result: Any, signature: str) -> tuple[Any, Receipt | None]:
    """Check a response of getTransaction. Return (raw JSON, Receipt), or (None, None) if the node
    doesn't have it.
    """
    return (None, None) if result is None else (result, parse_receipt(result, signature))


def check_transactions(
    result: Any, wanted: Mapping[str, ListedSignature]
) -> dict[str, tuple[Any, Receipt]]:
    """Check a response of getTransactionsForAddress with full details. Return {signature: (raw
    JSON, Receipt)}.

    Only wanted and valid transactions are returned, and only if they are in the listed slot. The
    caller fetches the others one by one. Raises ValueError if that is more than half.
    """
    found = {}
    for raw in result["data"]:
        signature = raw["transaction"]["signatures"][0]
        if signature in wanted and signature not in found:
            with contextlib.suppress(BadReceipt):
                receipt = parse_receipt(raw, signature)
                if _is_where_listed(receipt, wanted[signature]):
                    found[signature] = raw, receipt
    if 2 * len(found) < len(wanted):
        raise ValueError("most of the requested transactions are missing")
    return found


def _is_where_listed(receipt: Receipt, listed: ListedSignature) -> bool:
    indexes = {receipt.tx_index, listed.tx_index} - {None}
    return receipt.slot == listed.slot and len(indexes) <= 1


def check_accounts(result: Any) -> list[str]:
    """Check a response of getTokenAccountsByOwner. Return the addresses."""
    try:
        addresses = [row["pubkey"] for row in result["value"]]
    except (TypeError, KeyError) as error:
        raise ValueError("the response is not a list of token accounts") from error
    if not all(map(is_address, addresses)):
        raise ValueError("a malformed address")
    return addresses


def check_holdings(result: Any, owned: Sequence[tuple[str, str]]) -> tuple[int, list[Holding]]:
    """Check a response of getMultipleAccounts in base64, with 72 bytes of each account.

    `owned` is (wallet, address) in the same order.
    """
    try:
        slot, accounts = result["context"]["slot"], result["value"]
        if not is_number(slot) or len(accounts) != len(owned):
            raise ValueError("the number of results doesn't match the number of accounts")
        return slot, [
            _read_holding(account, *pair, slot)
            for pair, account in zip(owned, accounts, strict=False)
        ]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("the response is not a list of accounts") from error


def _read_holding(account: Any, wallet: str, address: str, slot: int) -> Holding:
    """Read a token account. Its first 72 bytes are mint, owner and amount."""
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
    """Check a response of getMultipleAccounts for byte 44 of each of `mints`. Return {mint:
    decimals} for valid mints.
    """
    try:
        if len(result["value"]) != len(mints):
            raise ValueError("the number of results doesn't match the number of accounts")
        read = [_read_decimals(account) for account in result["value"]]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("the response is not a list of accounts") from error
    return {
        mint: decimals for mint, decimals in zip(mints, read, strict=False) if decimals is not None
    }


def _read_decimals(account: Any) -> int | None:
    if account is None or account["owner"] not in TOKEN_PROGRAMS:
        return None
    data = base64.b64decode(account["data"][0])
    return data[0] if len(data) == 1 else None


def check_block(result: Any) -> dict[str, int]:
    """Check a response of getBlock with transactionDetails `signatures`. Return {signature:
    position}.
    """
    try:
        return {signature: place for place, signature in enumerate(result["signatures"])}
    except (TypeError, KeyError) as error:
        raise ValueError("the response is not a list of signatures") from error


def check_time(result: Any) -> int | None:
    """Check a response of getBlockTime. Return Unix seconds, or None."""
    if result is None or is_number(result, LATEST_TIME):
        return result
    raise ValueError("no block time")
