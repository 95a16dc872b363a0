"""From the JSON of `getTransaction` to frozen values. Both encodings, legacy, v0 with lookup
tables, v1, and 2021 receipts without owners.

Rules: accounting.md section 1. All amounts are integers: lamports, or raw token units. Nothing here
touches disk or network.
"""

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache

from base58 import b58decode, b58encode

SYSTEM = "11111111111111111111111111111111"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
TOKEN_PROGRAMS = (TOKEN, TOKEN_2022)
U64 = 2**64

# Beyond these no real receipt goes; what a lying node makes up must not get further than here.
SIGNATURE = re.compile(r"[1-9A-HJ-NP-Za-km-z]{64,88}")
ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
# some four times all there are, and sums of it still fit a signed 64-bit column
MAX_LAMPORTS = 2**61
# a byte on the chain
MAX_DECIMALS = 255
# the year 10000, in seconds
LATEST_TIME = 253_402_300_800
# base58 of 10 KiB, the most that one program may hand to another
MAX_DATA = 14_100
DEEPEST_CALL = 64


class BadReceipt(ValueError):
    """A receipt nothing may be derived from; the message says what is wrong with it."""


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


@dataclass(frozen=True)
class Instruction:
    program: str
    accounts: tuple
    operation: Operation | None
    data: bytes
    inner: tuple = ()

    def tree(self):
        """This instruction and all it calls, outermost first."""
        yield self
        for one in self.inner:
            yield from one.tree()


@dataclass(frozen=True)
class TokenBalance:
    mint: str
    owner: str | None
    amount: int
    decimals: int


@dataclass(frozen=True)
class Receipt:
    """A finalized transaction. `tokens`: address -> (before, after), each a TokenBalance or None."""

    signature: str
    slot: int
    tx_index: int | None
    block_time: int | None
    failed: bool
    fee: int
    keys: tuple
    signers: frozenset
    before: tuple
    after: tuple
    tokens: dict
    instructions: tuple

    def lamports(self, address):
        """(before, after) of any account of the receipt."""
        if address not in self.keys:
            return 0, 0
        place = self.keys.index(address)
        return self.before[place], self.after[place]

    def operations(self):
        for top in self.instructions:
            for one in top.tree():
                if one.operation:
                    yield one.operation


@dataclass(frozen=True)
class Balance:
    """One own account in one receipt: raw token amounts (wrapped SOL included) and lamports; 0
    where the side is not the wallet's.

    For the wallet itself `mint` is None and the amounts are 0.
    """

    address: str
    mint: str | None
    decimals: int
    before: int
    after: int
    lamports_before: int
    lamports_after: int


@dataclass(frozen=True)
class Effect:
    """What one receipt did to one wallet: L, f, S, R and solChange of accounting.md section 1, in
    lamports.
    """

    wallet: str
    lamports: int
    fee: int
    wrapped: int
    rent: int
    sponsored: int
    sol: int
    tip: int
    tokens: (
        # ((mint, raw change, decimals), ...) non-zero, sorted by mint, wrapped SOL left out
        tuple
    )
    balances: tuple
    # token accounts whose owner the receipt does not tell and nothing lets infer
    unowned: tuple = ()
    # some owner is missing (2021)
    inferred: bool = False
    own: frozenset = field(default=frozenset())


# ---- parsing -------------------------------------------------------------------------------------
def parse_receipt(raw, signature=None):
    """Receipt from a `getTransaction` result.

    Raises BadReceipt where it is not whole, does not conserve lamports, or is not the one asked for
    (`signature`).
    """
    try:
        return _parse(raw, signature)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        if isinstance(error, BadReceipt):
            raise
        raise BadReceipt(f"malformed: {type(error).__name__}") from error


def _parse(raw, signature):
    meta, transaction = raw["meta"], raw["transaction"]
    if not isinstance(meta, dict):
        raise BadReceipt("no meta")
    message, found = transaction["message"], transaction["signatures"][0]
    if not SIGNATURE.fullmatch(found) or signature not in (None, found):
        raise BadReceipt("another transaction's receipt")
    keys, signers = _keys(message, meta)
    before, after = _amounts(meta["preBalances"]), _amounts(meta["postBalances"])
    if not len(keys) == len(before) == len(after):
        raise BadReceipt("unequal lengths of accounts and balances")
    fee, slot = _integer(meta["fee"]), _within(raw["slot"], 2**63, "a slot")
    if sum(before) - sum(after) != fee:
        raise BadReceipt("lamports are not conserved")
    _within(sum(before), MAX_LAMPORTS, "a sum of lamports")
    receipt = Receipt(
        signature=found,
        slot=slot,
        tx_index=_optional(raw.get("transactionIndex"), 2**31, "a transaction's place"),
        block_time=_optional(raw.get("blockTime"), LATEST_TIME, "a block time"),
        failed=meta["err"] is not None,
        fee=fee,
        keys=keys,
        signers=signers,
        before=before,
        after=after,
        tokens=_tokens(meta, keys),
        instructions=_instructions(message, meta, keys),
    )
    _check_amounts(receipt)
    return receipt


def _check_amounts(receipt):
    """What conservation of lamports does not catch: wrapped SOL without lamports behind it,
    transfers of more than there is.
    """
    for address, sides in receipt.tokens.items():
        for side, lamports in zip(sides, receipt.lamports(address)):
            if side and side.mint == WRAPPED_SOL and side.amount > lamports:
                raise BadReceipt("an account holds more wrapped SOL than lamports")
    # a failed one may have tried to send any amount
    if not receipt.failed:
        _within(
            sum(o.amount for o in receipt.operations() if o.name in ("transfer", "create")),
            2**63,
            "a sum of transfers",
        )


def _integer(value):
    if type(value) is not int or not 0 <= value < U64:
        raise BadReceipt("an amount is not an unsigned 64-bit integer")
    return value


def _within(value, limit, what):
    if _integer(value) >= limit:
        raise BadReceipt(f"{what} is larger than any there is")
    return value


def _optional(value, limit, what):
    return None if value is None else _within(value, limit, what)


def _amounts(values):
    return tuple(_integer(value) for value in values)


def _address(value):
    if not isinstance(value, str) or not ADDRESS.fullmatch(value):
        raise BadReceipt("an address is not base58 of 32 bytes")
    return value


def _keys(message, meta):
    """(addresses in the order of the balances, loaded ones last; signers)."""
    keys = message["accountKeys"]
    if not keys:
        raise BadReceipt("a receipt of nobody")
    if isinstance(keys[0], dict):
        return tuple(_address(key["pubkey"]) for key in keys), frozenset(
            key["pubkey"] for key in keys if key["signer"]
        )
    loaded = meta.get("loadedAddresses") or {}
    signers = frozenset(keys[: message["header"]["numRequiredSignatures"]])
    return (
        tuple(
            map(_address, (*keys, *(loaded.get("writable") or ()), *(loaded.get("readonly") or ())))
        ),
        signers,
    )


def _tokens(meta, keys):
    tokens = defaultdict(lambda: [None, None])
    for side, name in enumerate(("preTokenBalances", "postTokenBalances")):
        for row in meta.get(name) or ():
            ui, owner = row["uiTokenAmount"], row.get("owner")
            if not isinstance(ui["amount"], str) or not re.fullmatch("[0-9]{1,20}", ui["amount"]):
                raise BadReceipt("a token amount is not a whole number")
            amount, decimals = (
                _integer(int(ui["amount"])),
                _within(ui["decimals"], MAX_DECIMALS + 1, "a number of decimals"),
            )
            balance = TokenBalance(
                _address(row["mint"]), None if owner is None else _address(owner), amount, decimals
            )
            tokens[keys[_integer(row["accountIndex"])]][side] = balance
    return {address: tuple(sides) for address, sides in tokens.items()}


def _instructions(message, meta, keys):
    groups = {
        group["index"]: group["instructions"] for group in meta.get("innerInstructions") or ()
    }
    return tuple(
        _nest([row, *groups.get(place, ())], keys)
        for place, row in enumerate(message["instructions"])
    )


def _nest(rows, keys):
    """One top-level row and its inner rows as a tree. Without stackHeight (before 2022) the inner
    ones are taken as called directly.
    """
    stack = [(1, rows[0], [])]

    def close():
        _, row, inner = stack.pop()
        done = _instruction(row, keys, tuple(inner))
        if stack:
            stack[-1][2].append(done)
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


def _instruction(row, keys, inner):
    program = _address(row["programId"]) if "programId" in row else keys[row["programIdIndex"]]
    if "parsed" in row:
        parsed = row["parsed"]
        operation = (
            _check_operation(_read_parsed(program, parsed)) if isinstance(parsed, dict) else None
        )
        accounts = (
            tuple(v for v in (parsed.get("info") or {}).values() if isinstance(v, str))
            if isinstance(parsed, dict)
            else ()
        )
        return Instruction(program, accounts, operation, b"", inner)
    accounts, text = (
        tuple(keys[a] if isinstance(a, int) else _address(a) for a in row.get("accounts") or ()),
        row.get("data") or "",
    )
    if len(text) > MAX_DATA:
        raise BadReceipt("an instruction's data is too long")
    data = b58decode(text)
    return Instruction(program, accounts, _read_data(program, accounts, data), data, inner)


def _check_operation(operation):
    if operation:
        _integer(operation.amount)
        for name in (operation.source, operation.target, operation.authority, operation.mint):
            if name is not None:
                _address(name)
    return operation


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


def _read_parsed(program, parsed):
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


def _read_data(program, a, data):
    """The Operation of an instruction given as bytes (layouts: the System and SPL Token programs'
    instruction enums), or None.
    """
    try:
        if program == SYSTEM:
            return _read_system(a, data)
        if program in TOKEN_PROGRAMS:
            return _read_token(a, data)
        if program == ASSOCIATED:
            return Operation("associate", a[0], a[1], a[2], mint=a[3])
    except IndexError:
        # too short for what it claims: nothing can be read from it
        pass
    return None


def _u64(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def _read_system(a, data):
    kind = int.from_bytes(data[:4], "little") if len(data) >= 12 else None
    if kind == 2:
        return Operation("transfer", a[0], a[1], amount=_u64(data, 4))
    if kind == 0:
        return Operation("create", a[0], a[1], amount=_u64(data, 4))
    if kind == 3:
        return Operation("create", a[0], a[1], amount=_u64(data, 44 + _u64(data, 36)))
    return None


def _read_token(a, data):
    kind = data[0]
    if kind == 3:
        return Operation("send", a[0], a[1], a[2], _u64(data, 1))
    if kind == 12:
        return Operation("send", a[0], a[2], a[3], _u64(data, 1), a[1])
    # Token-2022: transfer with a stated fee
    if kind == 26 and data[1] == 1:
        return Operation("send", a[0], a[2], a[3], _u64(data, 2), a[1])
    if kind in (7, 14):
        return Operation("mint", None, a[1], a[2], _u64(data, 1), a[0])
    if kind in (8, 15):
        return Operation("burn", a[0], None, a[2], _u64(data, 1), a[1])
    if kind == 9:
        return Operation("close", a[0], a[1], a[2])
    if kind == 1:
        return Operation("initialize", None, a[0], a[2], mint=a[1])
    if kind in (16, 18):
        return Operation("initialize", None, a[0], b58encode(data[1:33]).decode(), mint=a[1])
    if kind in (4, 13):
        return Operation("approve", a[0], None, a[2] if kind == 4 else a[3])
    return None


# ---- whose is what -------------------------------------------------------------------------------
FIELD = 2**255 - 19
EDWARDS_D = -121665 * pow(121666, FIELD - 2, FIELD) % FIELD


def _on_curve(point):
    """Is this a point of edwards25519 (RFC 8032, 5.1.3)? A program-derived address never is."""
    y = int.from_bytes(point, "little") & (2**255 - 1)
    if y >= FIELD:
        return False
    x2 = (y * y - 1) * pow(EDWARDS_D * y * y + 1, FIELD - 2, FIELD) % FIELD
    return x2 == 0 or pow(x2, (FIELD - 1) // 2, FIELD) == 1


@lru_cache(4096)
def associated_address(wallet, mint, program=TOKEN):
    """The associated token account of a wallet and a mint: the derived address with the highest
    bump off the curve.
    """
    seeds = b58decode(wallet) + b58decode(program) + b58decode(mint)
    for bump in range(255, -1, -1):
        address = hashlib.sha256(
            seeds + bytes([bump]) + b58decode(ASSOCIATED) + b"ProgramDerivedAddress"
        ).digest()
        if not _on_curve(address):
            return b58encode(address).decode()
    raise ValueError("no bump gives an address off the curve")


def _named_as_own(receipt, wallet):
    """Accounts that an instruction ties to the wallet, for receipts that do not tell owners."""
    for one in receipt.operations():
        if one.authority != wallet:
            continue
        if one.name in ("initialize", "associate"):
            yield one.target
        elif one.name in ("send", "approve", "close", "burn"):
            yield one.source


def own_accounts(receipt, wallet, known=frozenset()):
    """(own sides, unowned): own sides maps address -> (is the wallet's before, after).

    An owner that the receipt leaves out is inferred from `known` accounts, the associated address
    and the instructions.
    """
    own, unowned, named = {}, [], None
    for address, sides in receipt.tokens.items():
        mine = []
        for side in sides:
            if side is None or side.owner is not None:
                mine.append(side is not None and side.owner == wallet)
                continue
            named = set(_named_as_own(receipt, wallet)) if named is None else named
            mine.append(
                address in known
                or address in named
                or address == associated_address(wallet, side.mint)
            )
            if not mine[-1]:
                unowned.append(address)
        if any(mine):
            own[address] = tuple(mine)
    return own, tuple(sorted(set(unowned)))


def touches(receipt, wallet, known=frozenset()):
    """Does the receipt name the wallet or an account of its own?"""
    return (
        wallet in receipt.keys
        or bool(known & set(receipt.keys))
        or bool(own_accounts(receipt, wallet, known)[0])
    )


def read_effect(receipt, wallet, tip_accounts, known=frozenset()):
    """Effect of a receipt on a wallet (accounting.md section 1). `known`: own token accounts seen
    in other receipts.
    """
    own, unowned = own_accounts(receipt, wallet, known)
    balances = [_balance(receipt, address, mine) for address, mine in sorted(own.items())]
    before, after = receipt.lamports(wallet)
    lamports = after - before
    wrapped = sum(b.after - b.before for b in balances if b.mint == WRAPPED_SOL)
    rent = sum(b.lamports_after - b.lamports_before for b in balances) - wrapped
    sponsored = _sponsored(receipt, wallet, own, balances)
    if wallet in receipt.keys:
        balances.insert(0, Balance(wallet, None, 9, 0, 0, before, after))
    tips = sum(
        one.amount
        for one in receipt.operations()
        if one.name == "transfer" and one.source == wallet and one.target in tip_accounts
    )
    return Effect(
        wallet=wallet,
        lamports=lamports,
        fee=receipt.fee if receipt.keys[0] == wallet else 0,
        wrapped=wrapped,
        rent=rent,
        sponsored=sponsored,
        sol=lamports + wrapped + rent - sponsored,
        tip=0 if receipt.failed else tips,
        tokens=_changes(balances),
        balances=tuple(balances),
        unowned=unowned,
        inferred=any(
            side is not None and side.owner is None
            for sides in receipt.tokens.values()
            for side in sides
        ),
        own=frozenset(own) | {wallet},
    )


def _balance(receipt, address, mine):
    sides, lamports = receipt.tokens[address], receipt.lamports(address)
    some = sides[1] or sides[0]
    amounts = [side.amount if side and is_mine else 0 for side, is_mine in zip(sides, mine)]
    held = [amount if is_mine else 0 for amount, is_mine in zip(lamports, mine)]
    return Balance(address, some.mint, some.decimals, *amounts, *held)


def _changes(balances):
    """Raw changes per mint over the own accounts; wrapped SOL is SOL, not a token."""
    changes, decimals = defaultdict(int), {}
    for one in balances:
        if one.mint not in (None, WRAPPED_SOL):
            changes[one.mint] += one.after - one.before
            decimals[one.mint] = one.decimals
    return tuple(
        (mint, change, decimals[mint]) for mint, change in sorted(changes.items()) if change
    )


def _sponsored(receipt, wallet, own, balances):
    """Rent that others put into own accounts opened here, less what the wallet paid them back in
    the same receipt.

    Lamports that lay at the address before it was opened were put there by somebody else too, in an
    earlier receipt.
    """
    paid_back = defaultdict(int)
    for one in receipt.operations():
        if one.name == "transfer" and one.source == wallet:
            paid_back[one.target] += one.amount
    total = 0
    for balance in balances:
        deposit = balance.lamports_after - (balance.after if balance.mint == WRAPPED_SOL else 0)
        if receipt.tokens[balance.address][0] is not None or deposit <= 0:
            continue
        funded = defaultdict(int, {None: receipt.lamports(balance.address)[0]})
        for one in receipt.operations():
            if (
                one.name in ("transfer", "create")
                and one.target == balance.address
                and one.source not in own
                and one.source != wallet
            ):
                funded[one.source] += one.amount
        for funder, amount in funded.items():
            given = min(amount, deposit)
            returned = min(given, paid_back[funder]) if funder else 0
            if funder:
                paid_back[funder] -= returned
            deposit -= given
            total += given - returned
    return total
