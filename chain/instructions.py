"""What an instruction of the System, Token and Associated-Token programs does: decoded by the node,
or read from its bytes. Pure.
"""

from dataclasses import dataclass
from typing import Any

from chain.base58 import b58encode

SYSTEM = "11111111111111111111111111111111"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
TOKEN_PROGRAMS = (TOKEN, TOKEN_2022)


@dataclass(frozen=True)
class Operation:
    """What a System, Token or Associated-Token instruction does, as far as accounting needs it.

    `name`: transfer, create (system) · send, mint, burn, close, initialize, approve (token) ·
    associate.
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


def read_parsed(program: str, parsed: Any) -> Operation | None:
    """The Operation of an instruction that the node decoded, or None."""
    kind, info = parsed.get("type"), parsed.get("info") or {}
    if program == SYSTEM:
        if kind == "transfer":
            return Operation(
                "transfer", info["source"], info["destination"], amount=int(info["lamports"])
            )
        if kind in ("createAccount", "createAccountWithSeed"):
            return Operation(
                "create", info["source"], info["newAccount"], amount=int(info["lamports"])
            )
    if program == ASSOCIATED and kind in ("create", "createIdempotent"):
        return Operation(
            "associate", info["source"], info["account"], info["wallet"], mint=info.get("mint")
        )
    if program not in TOKEN_PROGRAMS or kind not in PARSED_TOKEN:
        return None
    name = PARSED_TOKEN[kind]
    authority = (
        info.get("authority")
        or info.get("multisigAuthority")
        or info.get("owner")
        or info.get("multisigOwner")
    )
    amount = int(info.get("amount") or (info.get("tokenAmount") or {}).get("amount") or 0)
    source = info.get("source") or (info.get("account") if name in ("burn", "close") else None)
    target = info.get("destination") or (
        info.get("account") if name in ("mint", "initialize") else None
    )
    return Operation(name, source, target, authority, amount, info.get("mint"))


def read_data(program: str, a: tuple[str, ...], data: bytes) -> Operation | None:
    """The Operation of an instruction given as bytes (layouts: the System and SPL Token programs'
    instruction enums), or None.
    """
    try:
        if program == SYSTEM:
            return _read_system(a, data)
        if program in TOKEN_PROGRAMS:
            return _read_token(a, data)
        if program == ASSOCIATED:
            payer, account, wallet, mint, *_ = a
            return Operation("associate", payer, account, wallet, mint=mint)
    except (IndexError, ValueError):
        # too short for what it claims: nothing can be read from it
        pass
    return None


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _read_system(a: tuple[str, ...], data: bytes) -> Operation | None:
    kind = int.from_bytes(data[:4], "little") if len(data) >= 12 else None
    if kind == 2:
        return Operation("transfer", a[0], a[1], amount=_u64(data, 4))
    if kind == 0:
        return Operation("create", a[0], a[1], amount=_u64(data, 4))
    if kind == 3:
        return Operation("create", a[0], a[1], amount=_u64(data, 44 + _u64(data, 36)))
    return None


def _read_token(a: tuple[str, ...], data: bytes) -> Operation | None:
    kind = data[0]
    if kind == 3:
        source, target, authority, *_ = a
        return Operation("send", source, target, authority, _u64(data, 1))
    # Token-2022 has a transfer with a stated fee: a second byte, then the same amount
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
    """Who owns an account, and who may spend from it."""
    if kind == 1:
        account, mint, owner, *_ = a
        return Operation("initialize", None, account, owner, mint=mint)
    if kind in (16, 18):
        account, mint, *_ = a
        return Operation("initialize", None, account, b58encode(data[1:33]), mint=mint)
    if kind == 4:
        source, _, authority, *_ = a
        return Operation("approve", source, None, authority)
    if kind == 13:
        source, _, _, authority, *_ = a
        return Operation("approve", source, None, authority)
    return None
