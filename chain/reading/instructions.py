"""Decode the movements in instructions of native and token programs, from the node's parsed form or
from bytes. Pure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chain.base58 import b58encode

SYSTEM = "11111111111111111111111111111111"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
STAKE = "Stake11111111111111111111111111111111111111"
VOTE = "Vote111111111111111111111111111111111111111"
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
TOKEN_PROGRAMS = (TOKEN, TOKEN_2022)


@dataclass(frozen=True, slots=True)
class Operation:
    """The effect of a native program's instruction, as far as accounting needs it.

    `name` is one of: transfer, create (a System account sends lamports, or pays them to open
    another account); allocate (an account that was already paid for is opened); withdraw (lamports
    leave a nonce, stake or vote account); send, mint, burn, close, initialize, approve, assign
    (tokens; assign hands an account over to `authority`); associate; unread (it moves lamports, but
    the receipt doesn't say how many).
    """

    name: str
    source: str | None = None
    target: str | None = None
    authority: str | None = None
    amount: int = 0
    mint: str | None = None


PARSED_TOKEN = {
    "transfer": "send",
    "transferChecked": "send",
    "transferCheckedWithFee": "send",
    "mintTo": "mint",
    "mintToChecked": "mint",
    "burn": "burn",
    "burnChecked": "burn",
    "closeAccount": "close",
    "initializeAccount": "initialize",
    "initializeAccount2": "initialize",
    "initializeAccount3": "initialize",
    "approve": "approve",
    "approveChecked": "approve",
}
# (program, type) -> (name, source field, target field)
PARSED_LAMPORTS = {
    (SYSTEM, "transfer"): ("transfer", "source", "destination"),
    (SYSTEM, "transferWithSeed"): ("transfer", "source", "destination"),
    (SYSTEM, "createAccount"): ("create", "source", "newAccount"),
    (SYSTEM, "createAccountWithSeed"): ("create", "source", "newAccount"),
    (SYSTEM, "createAccountAllowPrefund"): ("create", "source", "newAccount"),
    (SYSTEM, "withdrawFromNonce"): ("withdraw", "nonceAccount", "destination"),
    (STAKE, "withdraw"): ("withdraw", "stakeAccount", "destination"),
    (VOTE, "withdraw"): ("withdraw", "voteAccount", "destination"),
}
# Instructions without an amount in the node's parsed form, or with amounts inside a batch that the
# node doesn't parse.
UNREAD = ("withdrawExcessLamports", "unwrapLamports", "batch")
UNREAD_KINDS = (38, 45)
AUTHORITIES = (
    "authority",
    "multisigAuthority",
    "owner",
    "multisigOwner",
    "mintAuthority",
    "multisigMintAuthority",
)


def read_parsed(program: str, parsed: Any) -> Operation | None:
    """Read an instruction that the node parsed. Raises KeyError or TypeError if a field is
    missing.
    """
    kind, info = parsed.get("type"), parsed.get("info") or {}
    if (program, kind) in PARSED_LAMPORTS:
        name, source, target = PARSED_LAMPORTS[program, kind]
        if name == "create" and not info.get(source):
            # Opening an account that is already paid for doesn't have a payer.
            return None
        return Operation(name, info[source], info[target], amount=_read_amount(info["lamports"]))
    if program == SYSTEM and kind in ("allocate", "allocateWithSeed"):
        return Operation("allocate", target=info["account"])
    if program == ASSOCIATED and kind in ("create", "createIdempotent"):
        return Operation(
            "associate", info["source"], info["account"], info["wallet"], mint=info.get("mint")
        )
    if program not in TOKEN_PROGRAMS:
        return None
    if kind in UNREAD:
        return Operation("unread", info.get("source"), info.get("destination"))
    if kind == "setAuthority" and info.get("authorityType") == "accountOwner":
        return Operation("assign", info["account"], authority=info.get("newAuthority"))
    return _read_parsed_token(PARSED_TOKEN[kind], info) if kind in PARSED_TOKEN else None


def _read_parsed_token(name: str, info: Any) -> Operation:
    authority = next((info[field] for field in AUTHORITIES if info.get(field)), None)
    told = info.get("amount") or (info.get("tokenAmount") or {}).get("amount") or 0
    source = info.get("source") or (info.get("account") if name in ("burn", "close") else None)
    target = info.get("destination") or (
        info.get("account") if name in ("mint", "initialize") else None
    )
    return Operation(name, source, target, authority, _read_amount(told), info.get("mint"))


def _read_amount(told: Any) -> int:
    """Read an amount.

    Raises TypeError unless it is an integer or digits, so that a float is never rounded.
    """
    if type(told) is int:
        return told
    if isinstance(told, str) and re.fullmatch("[0-9]{1,20}", told):
        return int(told)
    raise TypeError("an amount isn't a whole number")


def read_data(program: str, a: tuple[str, ...], data: bytes) -> Operation | None:
    """Read an instruction's bytes.

    The layouts are the instruction enums of the System, Stake, Vote and SPL Token programs.
    """
    try:
        if program == SYSTEM:
            return _read_system(a, data)
        if program in (STAKE, VOTE):
            return _read_withdrawal(program, a, data)
        if program in TOKEN_PROGRAMS:
            return _read_token(a, data)
        if program == ASSOCIATED:
            payer, account, wallet, mint, *_ = a
            return Operation("associate", payer, account, wallet, mint=mint)
    except (IndexError, ValueError):
        # The data is shorter than its layout, so it can't be read.
        pass
    return None


def read_batch(
    program: str, a: tuple[str, ...], data: bytes
) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Return (accounts, data) for each instruction in a Token program's batch (kind 255)."""
    if program not in TOKEN_PROGRAMS or data[:1] != b"\xff":
        return
    place, at = 0, 1
    while at + 2 <= len(data):
        accounts, size = data[at], data[at + 1]
        yield a[place : place + accounts], data[at + 2 : at + 2 + size]
        place, at = place + accounts, at + 2 + size


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _read_system(a: tuple[str, ...], data: bytes) -> Operation | None:
    kind = int.from_bytes(data[:4], "little") if len(data) >= 12 else None
    if kind == 2:
        return Operation("transfer", a[0], a[1], amount=_u64(data, 4))
    # With a seed, the base account comes in between.
    if kind == 11:
        return Operation("transfer", a[0], a[2], amount=_u64(data, 4))
    if kind == 0:
        return Operation("create", a[0], a[1], amount=_u64(data, 4))
    if kind == 3:
        return Operation("create", a[0], a[1], amount=_u64(data, 44 + _u64(data, 36)))
    # This instruction opens an account that may already have lamports. The new account comes first.
    # If there is no payer, nothing moves.
    if kind == 13:
        return Operation("create", a[1], a[0], amount=_u64(data, 4))
    if kind == 5:
        return Operation("withdraw", a[0], a[1], amount=_u64(data, 4))
    if kind in (8, 9):
        return Operation("allocate", target=a[0])
    return None


def _read_withdrawal(program: str, a: tuple[str, ...], data: bytes) -> Operation | None:
    kind = int.from_bytes(data[:4], "little") if len(data) >= 12 else None
    if kind == (4 if program == STAKE else 3):
        return Operation("withdraw", a[0], a[1], amount=_u64(data, 4))
    return None


def _read_token(a: tuple[str, ...], data: bytes) -> Operation | None:
    kind = data[0]
    if kind == 3:
        source, target, authority, *_ = a
        return Operation("send", source, target, authority, _u64(data, 1))
    # Token-2022 has a transfer with an explicit fee: a second byte, then the same amount.
    if kind == 12 or (kind == 26 and data[1] == 1):
        source, mint, target, authority, *_ = a
        amount = _u64(data, 1 if kind == 12 else 2)
        return Operation("send", source, target, authority, amount, mint)
    if kind in (7, 14):
        mint, target, authority, *_ = a
        return Operation("mint", None, target, authority, _u64(data, 1), mint)
    if kind in (8, 15):
        source, mint, authority, *_ = a
        return Operation("burn", source, None, authority, _u64(data, 1), mint)
    if kind == 9:
        source, target, authority, *_ = a
        return Operation("close", source, target, authority)
    return _read_rights(kind, a, data)


def _read_rights(kind: int, a: tuple[str, ...], data: bytes) -> Operation | None:
    if kind == 1:
        account, mint, owner, *_ = a
        return Operation("initialize", None, account, owner, mint=mint)
    if kind in (16, 18):
        account, mint, *_ = a
        return Operation("initialize", None, account, b58encode(data[1:33]), mint=mint)
    if kind == 4:
        source, _, authority, *_ = a
        return Operation("approve", source, None, authority, _u64(data, 1))
    if kind == 13:
        source, mint, _, authority, *_ = a
        return Operation("approve", source, None, authority, _u64(data, 1), mint)
    if kind in UNREAD_KINDS:
        return Operation("unread", a[0], a[1])
    # Authority type 2 is the account's owner.
    if kind == 6 and data[1] == 2:
        return Operation("assign", a[0], authority=b58encode(data[3:35]) if data[2] else None)
    return None
