"""Parse the JSON of `getTransaction`. Pure. Amounts are in lamports or raw token units.

Rows are JSON, compressed with a dictionary trained on transactions. Retraining it makes stored rows
unreadable.
"""

import functools
import hashlib
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard

from chain.addresses import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN_PROGRAMS,
    VOTE,
    WRAPPED_SOL,
    b58decode,
    b58encode,
)


# ---- what native and token programs did ----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Operation:
    """A native program's instruction, as far as accounting needs it.

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
# The parsed form has no amount, or amounts inside a batch that the node doesn't parse.
UNREAD = ("withdrawExcessLamports", "unwrapLamports", "batch")
AUTHORITIES = (
    "authority",
    "multisigAuthority",
    "owner",
    "multisigOwner",
    "mintAuthority",
    "multisigMintAuthority",
)


def read_parsed(program: str, parsed: Any) -> Operation | None:
    """Read an instruction that the node parsed. Raises KeyError or TypeError for missing fields."""
    kind, info = parsed.get("type"), parsed.get("info") or {}
    if (program, kind) in PARSED_LAMPORTS:
        name, source, target = PARSED_LAMPORTS[program, kind]
        if name == "create" and not info.get(source):
            # The opened account is already paid for.
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
    """Raise TypeError unless it is an integer or digits, so that a float is never rounded."""
    if type(told) is int:
        return told
    if isinstance(told, str) and re.fullmatch("[0-9]{1,20}", told):
        return int(told)
    raise TypeError("an amount isn't a whole number")


class Layout(NamedTuple):
    """How to read an instruction: the Operation's fields in the order of its accounts (`_` isn't
    used), and where in the data its amount, or the 32 bytes of a new authority, begins.
    """

    name: str
    fields: str
    amount_at: int | None = None
    owner_at: int | None = None


# By the number that the data begins with, in four bytes.
LAYOUTS = {
    (SYSTEM, 0): Layout("create", "source target", 4),
    (SYSTEM, 2): Layout("transfer", "source target", 4),
    (SYSTEM, 3): Layout("create", "source target", 44),
    (SYSTEM, 5): Layout("withdraw", "source target", 4),
    (SYSTEM, 8): Layout("allocate", "target"),
    (SYSTEM, 9): Layout("allocate", "target"),
    # With a seed, the base account is in between.
    (SYSTEM, 11): Layout("transfer", "source _ target", 4),
    # The opened account may already have lamports. Without a payer, nothing moves.
    (SYSTEM, 13): Layout("create", "target source", 4),
    (STAKE, 4): Layout("withdraw", "source target", 4),
    (VOTE, 3): Layout("withdraw", "source target", 4),
}
# By the first byte of the data, or the first two.
TOKEN_LAYOUTS = {
    (1,): Layout("initialize", "target mint authority"),
    (3,): Layout("send", "source target authority", 1),
    (4,): Layout("approve", "source _ authority", 1),
    # Authority type 2 is the owner.
    (6, 2): Layout("assign", "source", owner_at=3),
    (7,): Layout("mint", "mint target authority", 1),
    (8,): Layout("burn", "source mint authority", 1),
    (9,): Layout("close", "source target authority"),
    (12,): Layout("send", "source mint target authority", 1),
    (13,): Layout("approve", "source mint _ authority", 1),
    (14,): Layout("mint", "mint target authority", 1),
    (15,): Layout("burn", "source mint authority", 1),
    (16,): Layout("initialize", "target mint", owner_at=1),
    (18,): Layout("initialize", "target mint", owner_at=1),
    # TransferCheckedWithFee (Token-2022).
    (26, 1): Layout("send", "source mint target authority", 2),
    (38,): Layout("unread", "source target"),
    (45,): Layout("unread", "source target"),
}
ASSOCIATE = Layout("associate", "source target authority mint")


def read_data(program: str, a: tuple[str, ...], data: bytes) -> Operation | None:
    """Layouts: the instruction enums of the System, Stake, Vote and SPL Token programs."""
    layout = _find_layout(program, data)
    fields = layout.fields.split() if layout else []
    if layout is None or len(a) < len(fields):
        return None
    told: dict[str, Any] = dict(zip(fields, a, strict=False))
    told.pop("_", None)
    if layout.amount_at is not None:
        # A seed comes before the amount.
        seed = read_u64(data, 36) if layout.amount_at == 44 else 0
        told["amount"] = read_u64(data, layout.amount_at + seed)
    # Nobody gets the account if the byte before the new authority is 0.
    if layout.owner_at is not None and any(data[layout.owner_at - 1 : layout.owner_at]):
        told["authority"] = b58encode(data[layout.owner_at : layout.owner_at + 32])
    return Operation(layout.name, **told)


def _find_layout(program: str, data: bytes) -> Layout | None:
    if program == ASSOCIATED:
        return ASSOCIATE
    if program in TOKEN_PROGRAMS:
        return TOKEN_LAYOUTS.get(tuple(data[:1])) or TOKEN_LAYOUTS.get(tuple(data[:2]))
    return LAYOUTS.get((program, int.from_bytes(data[:4], "little"))) if len(data) >= 12 else None


def read_batch(
    program: str, a: tuple[str, ...], data: bytes
) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield (accounts, data) of each instruction in a Token program's batch (kind 255)."""
    if program not in TOKEN_PROGRAMS or data[:1] != b"\xff":
        return
    place, at = 0, 1
    while at + 2 <= len(data):
        accounts, size = data[at], data[at + 1]
        yield a[place : place + accounts], data[at + 2 : at + 2 + size]
        place, at = place + accounts, at + 2 + size


def read_u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


# ---- receipts ------------------------------------------------------------------------------------
U64 = 2**64

# Limits that no real receipt exceeds. They protect against lying nodes.
SIGNATURE = re.compile(r"[1-9A-HJ-NP-Za-km-z]{64,88}")
ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
# About four times the total supply. Sums still fit a signed 64-bit column.
MAX_LAMPORTS = 2**61
# One byte on the chain.
MAX_DECIMALS = 255
# The year 10000.
LATEST_TIME = 253_402_300_800
# Base58 length of 10 KiB, the most that a program may pass to another.
MAX_DATA = 14_100
DEEPEST_CALL = 64
LAMPORT_MOVES = frozenset(("transfer", "create", "withdraw"))


class BadReceipt(ValueError):
    pass


@dataclass(frozen=True)
class Instruction:
    """A program call and the calls it made.

    `nested` is False if the node didn't record which call made which. Then all inner calls count as
    direct calls.
    """

    program: str
    accounts: tuple[str, ...]
    operation: Operation | None
    data: bytes
    inner: tuple["Instruction", ...] = ()
    nested: bool = True

    def tree(self) -> "Iterator[Instruction]":
        yield self
        for one in self.inner:
            yield from one.tree()

    @property
    def named(self) -> set[str]:
        return {account for one in self.tree() for account in one.accounts}

    @property
    def operations(self) -> Iterator[Operation]:
        return (one.operation for one in self.tree() if one.operation)


@dataclass(frozen=True)
class TokenBalance:
    mint: str
    owner: str | None
    amount: int
    decimals: int


# Before and after. A side is None if it wasn't a token account.
Sides = tuple[TokenBalance | None, TokenBalance | None]


@dataclass(frozen=True)
class Receipt:
    """A finalized transaction.

    `keys` are its accounts, in the order of `before` and `after` (lamports). `tokens` are by
    address. `inner_told` is whether the node recorded inner calls. `rents` is {address: lamports}
    that the runtime collected as rent.
    """

    signature: str
    slot: int
    tx_index: int | None
    block_time: int | None
    failed: bool
    fee: int
    keys: tuple[str, ...]
    signers: frozenset[str]
    before: tuple[int, ...]
    after: tuple[int, ...]
    tokens: dict[str, Sides]
    instructions: tuple[Instruction, ...]
    writable: frozenset[str] = frozenset()
    inner_told: bool = True
    rents: Mapping[str, int] = field(default_factory=dict)

    def lamports(self, address: str) -> tuple[int, int]:
        """Return (before, after). The account may be missing."""
        return self.balances.get(address, (0, 0))

    def sides(self, address: str | None) -> Sides:
        return self.tokens.get(address or "", (None, None))

    def find_rent(self, address: str) -> int:
        """Return the lamports that an account ends with, except wrapped SOL."""
        after = self.sides(address)[1]
        wrapped = after.amount if after and after.mint == WRAPPED_SOL else 0
        return max(0, self.lamports(address)[1] - wrapped)

    @cached_property
    def balances(self) -> dict[str, tuple[int, int]]:
        rows = zip(self.keys, self.before, self.after, strict=True)
        return {address: (before, after) for address, before, after in rows}

    @cached_property
    def opened(self) -> set[str]:
        """Token accounts that weren't token accounts before."""
        return {address for address, (before, _) in self.tokens.items() if before is None}

    @cached_property
    def mints(self) -> dict[str, str]:
        """Return {token account: mint}, the earlier one if it changed."""
        told = ((address, side) for address, pair in self.tokens.items() for side in pair[::-1])
        return {address: side.mint for address, side in told if side}

    @cached_property
    def calls(self) -> tuple[Instruction, ...]:
        return tuple(one for top in self.instructions for one in top.tree())

    @cached_property
    def programs(self) -> set[str]:
        return {one.program for one in self.calls}

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(one.operation for one in self.calls if one.operation)


def parse_receipt(raw: Any, signature: str | None = None) -> Receipt:
    """Raise BadReceipt if it is incomplete, creates lamports, or has another `signature`."""
    try:
        return _parse(raw, signature)
    except BadReceipt:
        raise
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise BadReceipt(f"malformed: {type(error).__name__}") from error


def _parse(raw: Any, signature: str | None) -> Receipt:
    meta, transaction = raw["meta"], raw["transaction"]
    if not isinstance(meta, dict):
        raise BadReceipt("no meta")
    message, found = transaction["message"], transaction["signatures"][0]
    if not SIGNATURE.fullmatch(found) or signature not in (None, found):
        raise BadReceipt("another transaction's receipt")
    keys, signers = _keys(message, meta)
    before, after = (tuple(map(_integer, meta[f"{name}Balances"])) for name in ("pre", "post"))
    if not len(keys) == len(before) == len(after):
        raise BadReceipt("unequal lengths of accounts and balances")
    fee, slot = _integer(meta["fee"]), _within(raw["slot"], 2**63, "a slot")
    failed, rents = meta["err"] is not None, _rents(meta, keys)
    _check_conservation(sum(before) - sum(after) - fee, sum(rents.values()), failed)
    _within(sum(before), MAX_LAMPORTS, "a sum of lamports")
    receipt = Receipt(
        signature=found,
        slot=slot,
        tx_index=_optional(raw.get("transactionIndex"), 2**31, "a transaction's place"),
        block_time=_optional(raw.get("blockTime"), LATEST_TIME, "a block time"),
        failed=failed,
        fee=fee,
        keys=keys,
        signers=signers,
        before=before,
        after=after,
        tokens=_tokens(meta, keys),
        instructions=_instructions(message, meta, keys),
        writable=_writable(message, meta, keys),
        inner_told=meta.get("innerInstructions") is not None,
        rents=rents,
    )
    _check_amounts(receipt)
    return receipt


def _check_conservation(lost: int, rent: int, failed: bool) -> None:
    """`lost`: the lamports missing beyond the fee."""
    # The runtime lists a failed transaction's rent, but stores only some of the accounts.
    if lost != rent and not (failed and 0 <= lost < rent):
        raise BadReceipt("lamports are not conserved")


def _rents(meta: Any, keys: tuple[str, ...]) -> dict[str, int]:
    """Return the rent that older runtimes collected. It is listed as negative rewards."""
    rents: dict[str, int] = defaultdict(int)
    for row in meta.get("rewards") or ():
        if row.get("rewardType") == "Rent":
            rents[keys[keys.index(_address(row["pubkey"]))]] += _integer(-row["lamports"])
    return dict(rents)


def _check_amounts(receipt: Receipt) -> None:
    """Check amounts that the conservation of lamports doesn't cover."""
    for address, sides in receipt.tokens.items():
        for side, lamports in zip(sides, receipt.lamports(address), strict=False):
            if side and side.mint == WRAPPED_SOL and side.amount > lamports:
                raise BadReceipt("an account holds more wrapped SOL than lamports")
    # A failed transaction may have tried to send any amount.
    if not receipt.failed:
        _within(
            sum(o.amount for o in receipt.operations if o.name in LAMPORT_MOVES),
            2**63,
            "a sum of transfers",
        )


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value < U64:
        raise BadReceipt("an amount is not an unsigned 64-bit integer")
    return int(value)


def _within(value: Any, limit: int, what: str) -> int:
    number = _integer(value)
    if number >= limit:
        raise BadReceipt(f"{what} is too large")
    return number


def _optional(value: Any, limit: int, what: str) -> int | None:
    return None if value is None else _within(value, limit, what)


def _address(value: Any) -> str:
    if not isinstance(value, str) or not ADDRESS.fullmatch(value):
        raise BadReceipt("an address is not base58 of 32 bytes")
    return value


def _keys(message: Any, meta: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return addresses in the order of the balances (loaded ones last), and the signers."""
    keys = message["accountKeys"]
    if not keys:
        raise BadReceipt("a receipt without an account")
    if isinstance(keys[0], dict):
        signers = frozenset(key["pubkey"] for key in keys if key["signer"])
        return tuple(_address(key["pubkey"]) for key in keys), signers
    tables = meta.get("loadedAddresses") or {}
    loaded = (*(tables.get("writable") or ()), *(tables.get("readonly") or ()))
    signers = frozenset(keys[: message["header"]["numRequiredSignatures"]])
    return tuple(map(_address, (*keys, *loaded))), signers


def _writable(message: Any, meta: Any, keys: tuple[str, ...]) -> frozenset[str]:
    rows = message["accountKeys"]
    if isinstance(rows[0], dict):
        return frozenset(row["pubkey"] for row in rows if row.get("writable", True))
    header, static = message["header"], len(rows)
    signing = _integer(header["numRequiredSignatures"])
    free_signers = signing - _integer(header.get("numReadonlySignedAccounts", 0))
    free = static - _integer(header.get("numReadonlyUnsignedAccounts", 0))
    loaded = (meta.get("loadedAddresses") or {}).get("writable") or ()
    return frozenset((*keys[: max(0, free_signers)], *keys[signing : max(signing, free)], *loaded))


def _tokens(meta: Any, keys: tuple[str, ...]) -> dict[str, Sides]:
    tokens: dict[str, list[TokenBalance | None]] = defaultdict(lambda: [None, None])
    for side, name in enumerate(("preTokenBalances", "postTokenBalances")):
        for row in meta.get(name) or ():
            ui, owner = row["uiTokenAmount"], row.get("owner")
            if not isinstance(ui["amount"], str) or not re.fullmatch("[0-9]{1,20}", ui["amount"]):
                raise BadReceipt("a token amount is not a whole number")
            amount = _integer(int(ui["amount"]))
            decimals = _within(ui["decimals"], MAX_DECIMALS + 1, "a number of decimals")
            owner = None if owner is None else _address(owner)
            balance = TokenBalance(_address(row["mint"]), owner, amount, decimals)
            tokens[keys[_integer(row["accountIndex"])]][side] = balance
    return {address: (before, after) for address, (before, after) in tokens.items()}


def _instructions(message: Any, meta: Any, keys: tuple[str, ...]) -> tuple[Instruction, ...]:
    groups = {
        group["index"]: group["instructions"] for group in meta.get("innerInstructions") or ()
    }
    return tuple(
        _nest([row, *groups.get(place, ())], keys)
        for place, row in enumerate(message["instructions"])
    )


def _nest(rows: list[Any], keys: tuple[str, ...]) -> Instruction:
    """Without stackHeight (before 2022), the tree is flat."""
    stack: list[tuple[int, Any, list[Instruction]]] = [(1, rows[0], [])]
    nested = all(row.get("stackHeight") for row in rows[1:])

    def close() -> Instruction:
        _, row, inner = stack.pop()
        done = _instruction(row, keys, tuple(inner), nested)
        if stack:
            _, _, called = stack[-1]
            called.append(done)
        return done

    for row in rows[1:]:
        height = row.get("stackHeight") or 2
        if height > DEEPEST_CALL:
            raise BadReceipt("instructions nest too deep")
        while len(stack) > 1 and stack[-1][0] >= height:
            close()
        stack.append((height, row, []))
    while len(stack) > 1:
        close()
    return close()


def _instruction(
    row: Any, keys: tuple[str, ...], inner: tuple[Instruction, ...], nested: bool
) -> Instruction:
    program = _address(row["programId"]) if "programId" in row else keys[row["programIdIndex"]]
    if "parsed" in row:
        # A memo is parsed as text.
        parsed = row["parsed"] if isinstance(row["parsed"], dict) else {}
        operation = _check_operation(read_parsed(program, parsed))
        told = (parsed.get("info") or {}).values()
        accounts = tuple(one for one in told if isinstance(one, str))
        return Instruction(program, accounts, operation, b"", inner, nested)
    named, text = row.get("accounts") or (), row.get("data") or ""
    accounts = tuple(keys[one] if isinstance(one, int) else _address(one) for one in named)
    if len(text) > MAX_DATA:
        raise BadReceipt("an instruction's data is too long")
    data = b58decode(text)
    bundled = tuple(
        Instruction(program, part, read_data(program, part, one), one)
        for part, one in read_batch(program, accounts, data)
    )
    operation = None if bundled else read_data(program, accounts, data)
    return Instruction(program, accounts, operation, data, (*bundled, *inner), nested)


def _check_operation(operation: Operation | None) -> Operation | None:
    if operation:
        _integer(operation.amount)
        for name in (operation.source, operation.target, operation.authority, operation.mint):
            if name is not None:
                _address(name)
    return operation


# ---- a digest that is equal for all honest nodes -------------------------------------------------
def digest_receipt(receipt: Receipt) -> str:
    """Return the SHA-256 of everything that affects a number, equal for all honest nodes."""
    told = {
        "signature": receipt.signature,
        "slot": receipt.slot,
        "failed": receipt.failed,
        "fee": receipt.fee,
        "accounts": list(zip(receipt.keys, receipt.before, receipt.after, strict=True)),
        "tokens": [
            [address, _show_side(before), _show_side(after)]
            for address, (before, after) in sorted(receipt.tokens.items())
        ],
    }
    return hashlib.sha256(orjson.dumps(told)).hexdigest()


def _show_side(side: TokenBalance | None) -> list[str | int | None] | None:
    return None if side is None else [side.mint, side.owner, str(side.amount), side.decimals]


# ---- the stored form -----------------------------------------------------------------------------
DICTIONARY = Path(__file__).resolve().parent / "zstd.dictionary"
# 10% smaller than level 3, for 30 µs per transaction. Higher levels gain another 2%, slowly.
LEVEL = 9
# Characters of a signature, enough to match it with its row. Saves 60 bytes.
KEPT = 8
# Larger rows are damaged.
MAX_BYTES = 64 * 2**20


class Tools(threading.local):
    """A compressor and a decompressor, which threads must not share."""

    def __init__(self) -> None:
        words = read_dictionary()
        self.compressor = zstandard.ZstdCompressor(LEVEL, words, write_checksum=True)
        self.decompressor = zstandard.ZstdDecompressor(words)


@functools.cache
def read_dictionary() -> zstandard.ZstdCompressionDict:
    words = zstandard.ZstdCompressionDict(DICTIONARY.read_bytes())
    words.precompute_compress(level=LEVEL)
    return words


_tools = Tools()


def pack(raw: Mapping[str, Any]) -> bytes:
    """Compress a transaction's JSON, with a truncated signature."""
    transaction = raw["transaction"]
    signature, *others = transaction["signatures"]
    named = {**transaction, "signatures": [signature[:KEPT], *others]}
    return _tools.compressor.compress(orjson.dumps({**raw, "transaction": named}))


def pack_text(text: str) -> bytes:
    return _tools.compressor.compress(text.encode())


def unpack_text(body: bytes) -> str:
    """Raises ValueError if `body` is damaged."""
    try:
        return _decompress(body).decode()
    except zstandard.ZstdError as error:
        raise ValueError("a damaged entry") from error


def unpack(body: bytes, signature: str) -> Any:
    """Raises ValueError if `body` is damaged or belongs to another signature."""
    try:
        raw = orjson.loads(_decompress(body))
        signatures = raw["transaction"]["signatures"]
        is_its_own = signature.startswith(signatures[0] or " ")
    except (zstandard.ZstdError, TypeError, KeyError, IndexError) as error:
        raise ValueError("a damaged transaction") from error
    if not is_its_own:
        raise ValueError("another transaction")
    signatures[0] = signature
    return raw


def parse_stored(body: bytes, signature: str) -> Receipt:
    """Raises ValueError like `unpack`."""
    return parse_receipt(unpack(body, signature), signature)


def read_stored(body: bytes, signature: str) -> Receipt | None:
    """Return None if `body` is damaged."""
    try:
        return parse_stored(body, signature)
    except ValueError:
        return None


def _decompress(body: bytes) -> bytes:
    if zstandard.frame_content_size(body) > MAX_BYTES:
        raise ValueError("a damaged transaction")
    return _tools.decompressor.decompress(body)
