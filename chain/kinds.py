"""What a receipt was for a wallet: buy, sell, swap, transfer... The rules of accounting.md section
2, asked in its order. Pure.
"""

from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from hashlib import sha256

from chain.effects import Effect
from chain.instructions import WRAPPED_SOL, Operation
from chain.programs import Programs
from chain.receipts import Instruction, Receipt

# lamports: below 0.0001 SOL a SOL leg is no leg
DUST = 100_000
RESIDUE_SHARE = (
    # a mint that left less than one part in this of what passed through is a residue
    100
)
TRADES = frozenset(("buy", "sell", "swap"))


@dataclass(frozen=True)
class Kind:
    """`mint`: the main one, where there is a single one. `residues`: mints whose change is left
    over from passing through.
    """

    kind: str
    venue: str | None = None
    mint: str | None = None
    flags: tuple = ()
    residues: tuple = ()


def decide_kind(receipt: Receipt, effect: Effect, programs: Programs) -> Kind:
    """Kind of a receipt for the wallet of `effect` under this program table."""
    if receipt.failed:
        return Kind("failed", _venue(_acting(receipt, effect, programs), programs))
    acting = _acting(receipt, effect, programs)
    venue, mint = _venue(acting, programs), _main_mint(receipt, effect)
    families = _deciding_families(acting, effect, programs)
    if "order" in families:
        return Kind(_order_kind(receipt, effect, acting, programs), venue, mint)
    if len(families - {"nft"}) > 1:
        return Kind("other", venue, mint, ("ambiguous",))
    for family in ("liquidity", "lending", "stake", "bridge", "nft"):
        if family in families and not (family == "nft" and len(families) > 1):
            return Kind(family, venue, mint)
    if not families and any(
        abs(change) == 1 and decimals == 0 for _, change, decimals in effect.tokens
    ):
        return Kind("nft", venue, mint)
    if "swap" in families:
        return _swap_kind(receipt, effect, venue, mint)
    return _plain_kind(receipt, effect, mint)


# ---- who acts ------------------------------------------------------------------------------------
def _acting(receipt: Receipt, effect: Effect, programs: Programs) -> list[Instruction]:
    """The outermost known program calls that concern the wallet, in order. What an unknown wrapper
    calls stands for it.
    """
    return [
        one
        for top in receipt.instructions
        for one in _outermost(top, programs)
        if _concerns(one, effect.own)
    ]


def _outermost(instruction: Instruction, programs: Programs) -> Iterator[Instruction]:
    if programs.family(instruction.program):
        yield instruction
        return
    for one in instruction.inner:
        yield from _outermost(one, programs)


# Kamino's limit-order program lends these to any swap: they stand around it and write down what the
# wallet holds.
RECORD_CALLS = frozenset(
    sha256(f"global:{name}".encode()).digest()[:8]
    for name in (
        "log_user_swap_balances",
        "log_user_swap_balances_start",
        "log_user_swap_balances_end",
        "assert_user_swap_balances_start",
        "assert_user_swap_balances_end",
    )
)


def _concerns(instruction: Instruction, own: Set[str]) -> bool:
    """A call that names no account at all (a marker) speaks of the whole transaction. One that
    only records balances acts for nobody.
    """
    if instruction.data[:8] in RECORD_CALLS:
        return False
    accounts = [account for one in instruction.tree() for account in one.accounts]
    return not accounts or any(account in own for account in accounts)


def _deciding_families(acting: list[Instruction], effect: Effect, programs: Programs) -> set[str]:
    """Families of the acting programs. Several side by side count only where each moves value of
    the wallet.
    """
    by_family = defaultdict(list)
    pools = {
        one.program
        for one in acting
        if programs.is_pool(one.program) and _moves_shares(one, effect.own)
    }
    for one in acting:
        by_family["liquidity" if one.program in pools else programs.family(one.program)].append(one)
    if len(by_family) == 1:
        return set(by_family)
    moving = {
        family
        for family, calls in by_family.items()
        if family == "order" or any(_moves_value(one, effect.own) for one in calls)
    }
    return moving or set(by_family)


def _moves_shares(instruction: Instruction, own: Set[str]) -> bool:
    """Are pool shares or a position NFT minted into, or burned from, the wallet's own accounts?"""
    operations = (one.operation for one in instruction.tree() if one.operation)
    return any(
        (o.name == "mint" and o.target in own) or (o.name == "burn" and o.source in own)
        for o in operations
    )


def _moves_value(instruction: Instruction, own: Set[str]) -> bool:
    operations = (one.operation for one in instruction.tree() if one.operation)
    return any(
        o.name in ("transfer", "create", "send", "mint", "burn")
        and (o.source in own or o.target in own or o.authority in own)
        for o in operations
    )


def _venue(acting: list[Instruction], programs: Programs) -> str | None:
    """`A > B, C; D`: A calls the known B and C; D beside it. None where no known program acts."""
    parts = []
    for one in acting:
        called = dict.fromkeys(
            programs.name(i.program) for i in list(one.tree())[1:] if programs.family(i.program)
        )
        called.pop(programs.name(one.program), None)
        parts.append(programs.name(one.program) + (" > " + ", ".join(called) if called else ""))
    return "; ".join(dict.fromkeys(parts)) or None


# ---- orders --------------------------------------------------------------------------------------
def _discriminators(*names: str) -> set[bytes]:
    return {sha256(f"global:{name}".encode()).digest()[:8] for name in names}


# Anchor's instruction discriminators: the first 8 bytes of sha256("global:<name>").
ORDER_CALLS = {
    "order_open": _discriminators(
        "initialize_order", "open_dca", "open_dca_v2", "open_value_average"
    ),
    "order_cancel": _discriminators(
        "cancel_order",
        "cancel_expired_order",
        "cancel_dust_order",
        "close_dca",
        "end_and_close",
        "close",
    ),
    "order_fill": _discriminators(
        "fill_order",
        "flash_fill_order",
        "pre_flash_fill_order",
        "initiate_flash_fill",
        "fulfill_flash_fill",
        "transfer",
    ),
}


def _order_kind(
    receipt: Receipt, effect: Effect, acting: list[Instruction], programs: Programs
) -> str:
    """By the instruction's name; where its data is not there, by what the wallet signed and what
    moved.
    """
    for one in acting:
        if programs.family(one.program) == "order":
            for kind, calls in ORDER_CALLS.items():
                if one.data[:8] in calls:
                    return kind
    swapped = any(
        programs.family(one.program) == "swap" for top in receipt.instructions for one in top.tree()
    )
    if effect.wallet not in receipt.signers or swapped:
        return "order_fill"
    gave = any(change < 0 for _, change, _ in effect.tokens) or (
        not effect.tokens and _traded_sol(receipt, effect) < 0
    )
    return "order_open" if gave else "order_cancel"


# ---- swaps and what has no family ----------------------------------------------------------------
def _rent_for_others(receipt: Receipt, effect: Effect) -> int:
    """Lamports the wallet put into accounts created here, still there afterwards and not its own:
    rent, not price.
    """
    created = {o.target for o in receipt.operations() if o.name == "create"} | {
        a for a, sides in receipt.tokens.items() if sides[0] is None
    }
    total = 0
    for address in created - effect.own:
        held = receipt.tokens.get(address, (None, None))[1]
        deposit = receipt.lamports(address)[1] - (
            held.amount if held and held.mint == WRAPPED_SOL else 0
        )
        given = sum(
            o.amount
            for o in receipt.operations()
            if o.name in ("create", "transfer")
            and o.source == effect.wallet
            and o.target == address
        )
        total += max(0, min(given, deposit))
    return total


def _traded_sol(receipt: Receipt, effect: Effect) -> int:
    """x of accounting.md: the SOL leg without fee, tip and rent. It only tells the shape; what was
    paid stays in the cost.
    """
    return effect.sol + effect.fee + effect.tip + _rent_for_others(receipt, effect)


def _passed_on(receipt: Receipt, effect: Effect) -> dict[str, int]:
    """Raw amounts per mint that instructions sent out of own accounts (temporary ones included)."""
    passed, mints = (
        defaultdict(int),
        {address: (sides[0] or sides[1]).mint for address, sides in receipt.tokens.items()},
    )
    for one in receipt.operations():
        mint = one.mint or mints.get(one.source) or mints.get(one.target)
        if (
            one.name == "send"
            and mint
            and (one.source in effect.own or one.authority == effect.wallet)
            and one.target not in effect.own
        ):
            passed[mint] += one.amount
    return passed


def _swap_kind(receipt: Receipt, effect: Effect, venue: str | None, mint: str | None) -> Kind:
    """Rule 5: the net changes have to have the shape of one trade, else nothing is priced."""
    up, down, residues = _legs(receipt, effect)
    x = _traded_sol(receipt, effect)
    flags = ("residue",) if residues else ()
    if len(up) == 1 and not down and x < 0:
        return Kind("buy", venue, up[0], flags, residues)
    if len(down) == 1 and not up and x > 0:
        return Kind("sell", venue, down[0], flags, residues)
    if len(up) == len(down) == 1 and abs(x) < DUST:
        return Kind("swap", venue, up[0], flags, residues)
    if not effect.tokens and x == 0:
        if effect.rent:
            return Kind("account_open" if effect.rent > 0 else "account_close", venue)
        return Kind("other", venue, None, ("fee_only",))
    return Kind("other", venue, mint, ("ambiguous",))


def _legs(receipt: Receipt, effect: Effect) -> tuple[list[str], list[str], tuple[str, ...]]:
    """(mints that rose, mints that fell, residues). A residue is a small rest of what passed
    through; a lone mint is none.
    """
    up = [m for m, change, _ in effect.tokens if change > 0]
    down = [m for m, change, _ in effect.tokens if change < 0]
    passed, changes = _passed_on(receipt, effect), {m: change for m, change, _ in effect.tokens}
    residues = tuple(m for m in up if changes[m] * RESIDUE_SHARE < passed[m])
    if len(residues) == len(up):
        residues = ()
    return [m for m in up if m not in residues], down, residues


def _plain_kind(receipt: Receipt, effect: Effect, mint: str | None) -> Kind:
    """Rule 6: no known program acted for the wallet."""
    up, down = any(c > 0 for _, c, _ in effect.tokens), any(c < 0 for _, c, _ in effect.tokens)
    rent_for_others = _rent_for_others(receipt, effect)
    x = effect.sol + effect.fee + effect.tip + rent_for_others
    if (up and down) or (up and x < 0) or (down and x > 0):
        return Kind("other", None, mint, ("unrecognised_program",))
    if up or down:
        return Kind("transfer_in" if up else "transfer_out", None, mint)
    if x or effect.tip:
        return Kind("native_transfer")
    if effect.rent or rent_for_others:
        return Kind("account_open" if effect.rent > 0 or rent_for_others else "account_close")
    if effect.wrapped or any(
        o.name in ("transfer", "send") and o.source in effect.own and o.target in effect.own
        for o in receipt.operations()
    ):
        return Kind("transfer_self")
    return Kind("other", flags=("fee_only",) if effect.fee else ())


def _main_mint(receipt: Receipt, effect: Effect) -> str | None:
    """The one mint that moved, shares and position NFTs minted or burned for the wallet left aside;
    of a two-way move the one that rose.
    """
    shares = {
        _mint_of(receipt, o)
        for o in receipt.operations()
        if (o.name == "mint" and o.target in effect.own)
        or (o.name == "burn" and o.source in effect.own)
    }
    moved = [(m, change) for m, change, _ in effect.tokens if m not in shares]
    risen = [m for m, change in moved if change > 0]
    if len(moved) == 1:
        return moved[0][0]
    return risen[0] if len(moved) == 2 and len(risen) == 1 else None


def _mint_of(receipt: Receipt, operation: Operation) -> str | None:
    sides = receipt.tokens.get(operation.target or operation.source, (None, None))
    return operation.mint or next((side.mint for side in sides if side), None)
