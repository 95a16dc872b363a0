"""Find a receipt's effect on a wallet. Pure. Amounts are in lamports and raw token units."""

import hashlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

from chain.addresses import is_on_curve
from chain.base58 import b58decode, b58encode
from chain.reading.instructions import ASSOCIATED, TOKEN, WRAPPED_SOL, Operation
from chain.reading.receipts import Receipt

T = TypeVar("T")


class Balance(NamedTuple):
    """One of the wallet's accounts in a receipt: its raw token amounts (including wrapped SOL) and
    lamports, before and after.

    On a side where it isn't the wallet's, they are 0. For the wallet itself, `mint` is None and the
    amounts are 0. An account that was closed and reopened for another mint has two consecutive
    balances: down to 0, and up from 0.
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
    """A receipt's effect on one wallet, in lamports and raw units (docs/results.md).

    `lamports` (L), `wrapped` (S, of wrapped SOL) and `rent` (R, in own token accounts) are changes.
    `sol` is L + S + R minus `sponsored`, the rent that others put into own accounts. `fee` is 0
    unless the wallet paid it. `tokens` is ((mint, raw change, decimals), ...), sorted by mint,
    without zeros and wrapped SOL. `own` are the wallet and its token accounts. `sponsors` splits
    `sponsored` into ((who, lamports), ...). `who` is None if the lamports were already at the
    address. `unowned` are token accounts whose owner is neither in the receipt nor inferable.
    `inferred` means that an owner is missing, as in 2021.
    """

    wallet: str
    lamports: int
    fee: int
    wrapped: int
    rent: int
    sponsored: int
    sol: int
    tip: int
    tokens: tuple[tuple[str, int, int], ...]
    balances: tuple[Balance, ...]
    unowned: tuple[str, ...] = ()
    inferred: bool = False
    own: frozenset[str] = frozenset()
    sponsors: tuple[tuple[str | None, int], ...] = ()


@lru_cache(4096)
def associated_address(wallet: str, mint: str, program: str = TOKEN) -> str:
    """Return the program-derived address with the highest bump that is off the curve."""
    seeds = b58decode(wallet) + b58decode(program) + b58decode(mint)
    end = b58decode(ASSOCIATED) + b"ProgramDerivedAddress"
    derived = (hashlib.sha256(seeds + bytes([bump]) + end).digest() for bump in range(255, -1, -1))
    return b58encode(next(address for address in derived if not is_on_curve(address)))


def _named_as_own(receipt: Receipt, wallet: str) -> Iterator[str | None]:
    """Return the accounts that an instruction ties to the wallet, for receipts without owners."""
    for one in receipt.operations:
        if one.authority != wallet:
            continue
        if one.name in ("initialize", "associate"):
            yield one.target
        elif one.name in ("send", "approve", "close", "burn"):
            yield one.source


def own_accounts(
    receipt: Receipt, wallet: str, known: Set[str] = frozenset()
) -> tuple[dict[str, tuple[bool, bool]], tuple[str, ...]]:
    """Return ({address: (is the wallet's before, is the wallet's after)}, unowned).

    Missing owners are inferred.
    """
    own: dict[str, tuple[bool, bool]] = {}
    unowned: set[str] = set()
    named: set[str | None] | None = None
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
                unowned.add(address)
        if any(mine):
            own[address] = (mine[0], mine[1])
    return own, tuple(sorted(unowned))


def touches(receipt: Receipt, wallet: str, known: Set[str] = frozenset()) -> bool:
    return (
        wallet in receipt.keys
        or bool(known & set(receipt.keys))
        or bool(own_accounts(receipt, wallet)[0])
    )


def read_effect(
    receipt: Receipt,
    wallet: str,
    tip_accounts: Container[str | None],
    known: Set[str] = frozenset(),
) -> Effect:
    """Return a receipt's Effect. `known` are own token accounts seen in other receipts."""
    own, unowned = own_accounts(receipt, wallet, known)
    balances = list[Balance]()
    for address, mine in sorted(own.items()):
        balances += _list_balances(receipt, address, mine)
    told, held = receipt.tokens.values(), receipt.lamports(wallet)
    lamports = held[1] - held[0]
    wrapped = sum(b.after - b.before for b in balances if b.mint == WRAPPED_SOL)
    rent = sum(b.lamports_after - b.lamports_before for b in balances) - wrapped
    sponsors = _sponsors(receipt, wallet, own, balances)
    sponsored = sum(sponsors.values())
    if wallet in receipt.keys:
        balances.insert(0, Balance(wallet, None, 9, 0, 0, *held))
    return Effect(
        wallet=wallet,
        lamports=lamports,
        fee=receipt.fee if receipt.keys[0] == wallet else 0,
        wrapped=wrapped,
        rent=rent,
        sponsored=sponsored,
        sol=lamports + wrapped + rent - sponsored,
        tip=0 if receipt.failed else _tips(receipt, wallet, tip_accounts),
        tokens=_changes(balances),
        balances=tuple(balances),
        unowned=unowned,
        inferred=any(side and side.owner is None for pair in told for side in pair),
        own=frozenset((*own, wallet)),
        sponsors=tuple(sponsors.items()),
    )


def _tips(receipt: Receipt, wallet: str, tip_accounts: Container[str | None]) -> int:
    return sum(
        one.amount
        for one in receipt.operations
        if one.name == "transfer" and one.source == wallet and one.target in tip_accounts
    )


def _list_balances(receipt: Receipt, address: str, mine: tuple[bool, bool]) -> Iterator[Balance]:
    before, after = (
        side if is_mine else None for side, is_mine in _pairs(receipt.tokens[address], mine)
    )
    held = [amount if is_mine else 0 for amount, is_mine in _pairs(receipt.lamports(address), mine)]
    if before and after and before.mint == after.mint:
        yield Balance(address, after.mint, after.decimals, before.amount, after.amount, *held)
        return
    if before:
        yield Balance(address, before.mint, before.decimals, before.amount, 0, held[0], 0)
    if after:
        yield Balance(address, after.mint, after.decimals, 0, after.amount, 0, held[1])


def _pairs(sides: tuple[T, T], mine: tuple[bool, bool]) -> Iterator[tuple[T, bool]]:
    return zip(sides, mine, strict=True)


def _changes(balances: list[Balance]) -> tuple[tuple[str, int, int], ...]:
    """Return raw changes by mint over own accounts.

    Wrapped SOL counts as SOL, not as a token.
    """
    changes: dict[str, int] = defaultdict(int)
    decimals = {}
    for one in balances:
        if one.mint is not None and one.mint != WRAPPED_SOL:
            changes[one.mint] += one.after - one.before
            decimals[one.mint] = one.decimals
    return tuple(
        (mint, change, decimals[mint]) for mint, change in sorted(changes.items()) if change
    )


def _sponsors(
    receipt: Receipt, wallet: str, own: Container[str | None], balances: list[Balance]
) -> dict[str | None, int]:
    """Return {who: lamports} of rent that others paid for own accounts opened in this receipt.

    Amounts that the wallet repaid in the same receipt are subtracted. Lamports that were already at
    the address are under None.
    """
    paid_back: dict[str | None, int] = defaultdict(int)
    for one in receipt.operations:
        if one.name == "transfer" and one.source == wallet:
            paid_back[one.target] += one.amount
    total: dict[str | None, int] = defaultdict(int)
    for balance in balances:
        deposit = balance.lamports_after - (balance.after if balance.mint == WRAPPED_SOL else 0)
        if receipt.tokens[balance.address][0] is not None or deposit <= 0:
            continue
        for funder, amount in _funders(receipt, wallet, own, balance.address).items():
            given = min(amount, deposit)
            returned = min(given, paid_back[funder]) if funder else 0
            paid_back[funder] -= returned
            deposit -= given
            total[funder] += given - returned
    return total


def _funders(
    receipt: Receipt, wallet: str, own: Container[str | None], address: str
) -> dict[str | None, int]:
    """Return {who: lamports} that others sent to an account.

    The first key, None, has the lamports that were already there.
    """
    funded: dict[str | None, int] = defaultdict(int, {None: receipt.lamports(address)[0]})
    for one in receipt.operations:
        if one.name not in ("transfer", "create") or one.target != address:
            continue
        if one.source not in own and one.source != wallet:
            funded[one.source] += one.amount
    return funded


def find_main_mint(
    receipt: Receipt, own: Set[str], changes: Iterable[tuple[str, int, int]]
) -> str | None:
    """Return the only mint that changed or, in an exchange, the only one that increased.

    Shares and position NFTs minted or burned for `own` accounts don't count. `changes` is ((mint,
    raw change, decimals), ...).
    """
    shares = {
        _mint_of(receipt, o)
        for o in receipt.operations
        if (o.name == "mint" and o.target in own) or (o.name == "burn" and o.source in own)
    }
    moved = [(m, change) for m, change, _ in changes if m not in shares]
    risen = [m for m, change in moved if change > 0]
    if len(moved) == 1:
        return moved[0][0]
    return risen[0] if len(moved) == 2 and len(risen) == 1 else None


def _mint_of(receipt: Receipt, operation: Operation) -> str | None:
    sides = receipt.tokens.get(operation.target or operation.source or "", (None, None))
    return operation.mint or next((side.mint for side in sides if side), None)
