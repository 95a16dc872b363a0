"""List a receipt's movements in order, and the call that made each. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from chain.reading.instructions import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN_PROGRAMS,
    VOTE,
    WRAPPED_SOL,
    Operation,
)
from chain.reading.receipts import Instruction, Receipt

# Programs whose lamport movements are all read; others may change balances invisibly.
READ_PROGRAMS = frozenset(
    (
        SYSTEM,
        STAKE,
        VOTE,
        ASSOCIATED,
        *TOKEN_PROGRAMS,
        "ComputeBudget111111111111111111111111111111",
        "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
        "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
    )
)
LAMPORT_MOVES = frozenset(("transfer", "create", "withdraw"))
TOKEN_MOVES = frozenset(("send", "mint", "burn"))


class Placed(NamedTuple):
    """`call`: its index in the list of calls, None outside all calls."""

    instruction: Instruction
    call: int | None


class Move(NamedTuple):
    """`mint`: wrapped SOL for lamports. `amount`: lamports or raw units. `source` None: minted;
    `target` None: burned. `call` as in Placed. `opens`: it pays for opening `target`.
    """

    mint: str
    source: str | None
    target: str | None
    amount: int
    authority: str | None
    call: int | None
    opens: bool = False


def place_calls(receipt: Receipt, calls: Sequence[Instruction]) -> list[Placed]:
    """Return instructions in order. Transfer hooks are outside every call: the token's issuer chose
    them.
    """
    places = {id(one): place for place, one in enumerate(calls)}

    def walk(one: Instruction, call: int | None, hook: bool) -> Iterator[Placed]:
        call = None if hook else places.get(id(one), call)
        yield Placed(one, call)
        of_token = one.program in TOKEN_PROGRAMS
        for inner in one.inner:
            foreign = of_token and inner.program not in TOKEN_PROGRAMS
            yield from walk(inner, call, hook or foreign)

    return [placed for top in receipt.instructions for placed in walk(top, None, False)]


def is_read(instruction: Instruction) -> bool:
    """Whether the decoded native operations show everything this instruction can have moved."""
    operation = instruction.operation
    return instruction.program in READ_PROGRAMS and not (operation and operation.name == "unread")


def list_moves(receipt: Receipt, placed: Sequence[Placed]) -> list[Move]:
    """Return movements in order. Closing an account moves all lamports it has at that point."""
    mints = _mints(receipt)
    held: dict[str | None, int] = defaultdict(int)
    for address, (before, _) in receipt.balances.items():
        held[address] = before
    opened = {one.target for one in receipt.operations if one.name == "allocate"}
    moves = []
    for instruction, call in placed:
        operation = instruction.operation
        move = operation and _move(operation, call, mints, held)
        if not move:
            continue
        if move.target in opened and move.mint == WRAPPED_SOL:
            move = move._replace(opens=True)
        moves.append(move)
        if move.mint == WRAPPED_SOL:
            held[move.source] -= move.amount
            held[move.target] += move.amount
    return moves


def _move(
    one: Operation, call: int | None, mints: Mapping[str, str], held: Mapping[str | None, int]
) -> Move | None:
    if one.name in LAMPORT_MOVES:
        opens = one.name == "create"
        return Move(WRAPPED_SOL, one.source, one.target, one.amount, one.source, call, opens)
    if one.name == "close":
        amount = max(0, held[one.source])
        return Move(WRAPPED_SOL, one.source, one.target, amount, one.authority, call)
    if one.name in TOKEN_MOVES:
        mint = one.mint or mints.get(one.source or "") or mints.get(one.target or "")
        return Move(mint, one.source, one.target, one.amount, one.authority, call) if mint else None
    return None


def _mints(receipt: Receipt) -> dict[str, str]:
    """Return mints by token account, including accounts in no token balance."""
    mints = {
        one.target: one.mint
        for one in receipt.operations
        if one.name in ("initialize", "associate") and one.target and one.mint
    }
    # An account that had another mint before counts as one of that mint.
    told = ((address, side) for address, sides in receipt.tokens.items() for side in sides[::-1])
    return mints | {address: side.mint for address, side in told if side}
