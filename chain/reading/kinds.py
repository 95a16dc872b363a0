"""Classify a receipt for one wallet. The first matching rule decides (docs/results.md). Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from hashlib import sha256

from chain.addresses import NATIVE, TOKEN_PROGRAMS, WRAPPED_SOL
from chain.reading.currencies import MINTS
from chain.reading.flows import (
    Amounts,
    ByAccount,
    Effect,
    Flows,
    Split,
    add_market,
    find_calls,
    find_main_mint,
    is_fee_income,
    is_share,
    split_fill,
    split_off,
    split_trade,
    venue_tokens,
)
from chain.reading.programs import Programs, read_table
from chain.reading.receipts import Instruction, Receipt


# ---- instruction names ---------------------------------------------------------------------------
def find_discriminator(name: str) -> bytes:
    return sha256(f"global:{name}".encode()).digest()[:8]


# {program, or "" for any: {discriminator: effect}}. Effects: position (changes a position or an
# order in the program itself; most mint nothing), order_open, order_cancel and order_fill (of order
# programs), record (only notes what the wallet holds; Kamino's order program lends it to any swap).
CALLS: dict[str, dict[bytes, str]] = defaultdict(dict)
for call in read_table("calls.csv"):
    CALLS[call["program"]][find_discriminator(call["name"])] = call["effect"]


# ---- kinds ---------------------------------------------------------------------------------------
# Minimum number of lamports (0.0001 SOL) for a side of a trade.
DUST = 100_000
# A remainder below this fraction of what passed through is a residue.
RESIDUE_SHARE = 100
MOVES = ("transfer", "create", "send", "mint", "burn")
# Lenders charge less than this for a loan that is repaid immediately.
MAX_LOAN_FEE_PERCENT = 5
TRADES = frozenset(("buy", "sell", "swap", "round_trip"))


@dataclass(frozen=True)
class Kind:
    """`mint` is the main mint, if there is only one. `residues` are remainders of mints that passed
    through.

    `split` is the part outside the venue of a priced kind, a fill or an `ambiguous` swap. `flows`
    are a trade's flows, with its calls chosen.
    """

    kind: str
    venue: str | None = None
    mint: str | None = None
    flags: tuple[str, ...] = ()
    residues: tuple[str, ...] = ()
    split: Split | None = None
    flows: Flows | None = None


def decide_kind(receipt: Receipt, effect: Effect, programs: Programs) -> Kind:
    acting = _acting(receipt, effect, programs)
    venue, mint = _venue(acting, programs), find_main_mint(receipt, effect.own, effect.tokens)
    if receipt.failed:
        return Kind("failed", venue)
    families = _deciding_families(receipt, acting, effect, programs)
    if "order" in families:
        kind = Kind(_order_step(receipt, effect, acting, programs), venue, mint)
        return _fill_kind(receipt, effect, programs, kind) if kind.kind == "order_fill" else kind
    if len(families - {"nft"}) > 1:
        kind = _ambiguous(receipt, effect, venue, mint)
        return kind if "swap" in families else replace(kind, flags=(*kind.flags, "no_swap"))
    for family in ("liquidity", "lending", "stake", "bridge", "nft"):
        if family in families and not (family == "nft" and len(families) > 1):
            return Kind(family, venue, mint)
    traded = _swap_kind(receipt, effect, acting, programs, venue) if "swap" in families else None
    if traded:
        return traded
    if any(abs(change) == 1 and decimals == 0 for _, change, decimals in effect.tokens):
        return Kind("nft", venue, mint)
    return _plain_kind(receipt, effect, mint, programs)


def _ambiguous(receipt: Receipt, effect: Effect, venue: str | None, mint: str | None) -> Kind:
    signed = effect.wallet in receipt.signers
    return Kind("other", venue, mint, ("ambiguous", *(() if signed else ("not_signer",))))


def _acting(receipt: Receipt, effect: Effect, programs: Programs) -> list[Instruction]:
    return [
        one
        for top in receipt.instructions
        for one in _outermost(top, programs)
        if one.program in programs.markers or _concerns(one, effect.own)
    ]


def _outermost(instruction: Instruction, programs: Programs) -> Iterator[Instruction]:
    if programs.family(instruction.program):
        yield instruction
        return
    if instruction.program in TOKEN_PROGRAMS:
        return
    for one in instruction.inner:
        yield from _outermost(one, programs)


def _concerns(instruction: Instruction, own: Set[str]) -> bool:
    """Calls without accounts (markers) concern everyone. Balance recorders don't concern anyone."""
    if CALLS[""].get(instruction.data[:8]) == "record":
        return False
    named = instruction.named
    return not named or not named.isdisjoint(own)


def _deciding_families(
    receipt: Receipt, acting: list[Instruction], effect: Effect, programs: Programs
) -> set[str]:
    by_family: dict[str | None, list[Instruction]] = defaultdict(list)
    pools = {
        one.program
        for one in acting
        if one.program in programs.pools and any(is_share(o, effect.own) for o in one.operations)
    }
    for one in acting:
        liquidity = one.program in pools or _moves_position(one)
        by_family["liquidity" if liquidity else programs.family(one.program)].append(one)
    moving = {
        family
        for family, calls in by_family.items()
        if any(_moves_value(one, effect.own) for one in calls)
    }
    if {"lending", "swap"} <= moving and _is_repaid(
        receipt, effect, by_family["lending"], programs
    ):
        moving.remove("lending")
    orders = by_family.get("order", [])
    # A fill may only take from the order's escrow. A call without effect doesn't hide others.
    if orders and (not moving or any(_moves_anything(receipt, one) for one in orders)):
        moving.add("order")
    # Ignore swap calls that didn't move anything if another call did.
    return {family or "" for family in moving or by_family.keys() - {"swap"} or by_family}


def _is_repaid(
    receipt: Receipt, effect: Effect, lending: list[Instruction], programs: Programs
) -> bool:
    """Whether these calls only lent, and were repaid. Shares or collateral aren't a loan."""
    flows = Flows(receipt, effect, lending, programs)
    taken, paid = flows.crossed_calls()
    lent, returned = _by_mint(taken), _by_mint(paid)
    return (
        bool(lent)
        and lent.keys() == returned.keys()
        and all(amount <= paid[key] for key, amount in taken.items())
        and all(
            (returned[mint] - amount) * 100 <= MAX_LOAN_FEE_PERCENT * amount
            for mint, amount in lent.items()
        )
    )


def _by_mint(amounts: ByAccount) -> Amounts:
    total: Amounts = Counter()
    for (mint, _), amount in amounts.items():
        total[mint] += amount
    return total


def _moves_position(instruction: Instruction) -> bool:
    """An existing position can change without a mint or burn."""
    return any(
        one.data[:8] in CALLS[one.program] for one in instruction.tree() if one.program in CALLS
    )


def _moves_value(instruction: Instruction, own: Set[str]) -> bool:
    return any(
        o.name in MOVES and (o.source in own or o.target in own or o.authority in own)
        for o in instruction.operations
    )


def _moves_anything(receipt: Receipt, instruction: Instruction) -> bool:
    moves = any(one.name in (*MOVES, "close") for one in instruction.operations)
    return moves or not receipt.inner_told


def _venue(acting: list[Instruction], programs: Programs) -> str | None:
    """`A > B, C; D` means that A calls the known programs B and C, and D runs next to it."""
    parts = []
    for one in acting:
        called = dict.fromkeys(
            programs.name(i.program) for i in list(one.tree())[1:] if programs.family(i.program)
        )
        called.pop(programs.name(one.program), None)
        parts.append(programs.name(one.program) + (" > " + ", ".join(called) if called else ""))
    return "; ".join(dict.fromkeys(parts)) or None


def _fill_kind(receipt: Receipt, effect: Effect, programs: Programs, kind: Kind) -> Kind:
    known = [one for top in receipt.instructions for one in _outermost(top, programs)]
    flows = Flows(receipt, effect, known, programs)
    flows.choose_fill()
    split = split_fill(flows)
    swaps = list(find_calls(receipt, lambda one: programs.family(one.program) == "swap"))
    if split.explained and swaps:
        side = replace(effect, own=_list_side(receipt, effect, programs))
        split = add_market(split, Flows(receipt, side, swaps, programs))
    taken = [mint for mint, raw in split.market if raw < 0 and mint != WRAPPED_SOL]
    is_sale = all(mint in MINTS for mint, _, _ in effect.tokens)
    if len(taken) == 1 and is_sale and taken[0] not in MINTS:
        kind = replace(kind, mint=taken[0])
    return _with_split(kind, split)


def _list_side(receipt: Receipt, effect: Effect, programs: Programs) -> frozenset[str]:
    """Return the accounts of the wallet, of order programs' calls and of signers.

    Signers are included because keepers pass on what a pool paid.
    """
    calls = find_calls(receipt, lambda one: programs.family(one.program) == "order")
    named = {account for call in calls for account in call.named}
    for address, sides in receipt.tokens.items():
        if any(side and side.owner in receipt.signers for side in sides):
            named.add(address)
    for one in receipt.operations:
        if one.name in ("initialize", "associate") and one.authority in receipt.signers:
            named.add(one.target or "")
    return effect.own | named | receipt.signers


def _order_step(
    receipt: Receipt, effect: Effect, acting: list[Instruction], programs: Programs
) -> str:
    """Decide by the instruction's name or, without its data, by who signed and what moved."""
    for one in acting:
        if programs.family(one.program) == "order":
            step = CALLS[""].get(one.data[:8], "")
            if step.startswith("order_"):
                return step
    swapped = any(programs.family(one) == "swap" for one in receipt.programs)
    if effect.wallet not in receipt.signers or swapped:
        return "order_fill"
    gave = any(change < 0 for _, change, _ in effect.tokens) or (
        not effect.tokens and _paid(receipt, effect, effect.sol) < 0
    )
    return "order_open" if gave else "order_cancel"


def _with_split(kind: Kind, split: Split) -> Kind:
    if split.explained_percent is None:
        return kind
    told = {
        "value_unexplained": not split.explained,
        "fed_market": split.fed,
        "counterparty_signed": split.signed,
    }
    more = tuple(flag for flag, holds in told.items() if holds)
    return replace(kind, flags=(*kind.flags, *more), split=split)


def _swap_kind(
    receipt: Receipt,
    effect: Effect,
    acting: list[Instruction],
    programs: Programs,
    venue: str | None,
) -> Kind | None:
    flows = _read_flows(receipt, effect, acting, programs)
    if flows.whole or not receipt.inner_told:
        flows.choose_all()
    elif not flows.choose_trading():
        return _no_trade(flows, Kind("other", venue))
    changes = venue_tokens(flows)
    x = _paid(receipt, effect, effect.sol - flows.beside[WRAPPED_SOL] - _known_rest(flows))
    kind = _trade(flows, changes, x)
    if kind:
        return replace(kind, venue=venue, flows=flows)
    if effect.tokens or _paid(receipt, effect, effect.sol):
        kind = _ambiguous(receipt, effect, venue, find_main_mint(receipt, effect.own, changes))
        return replace(kind, split=split_off(flows))
    if effect.rent:
        return Kind("account_open" if effect.rent > 0 else "account_close", venue)
    return Kind("other", venue, None, ("fee_only",))


def _read_flows(
    receipt: Receipt, effect: Effect, acting: list[Instruction], programs: Programs
) -> Flows:
    """With a marker, the whole transaction is one call."""
    if any(one.program in programs.markers for one in receipt.instructions):
        everything = Instruction("", (), None, b"", receipt.instructions)
        whole = replace(receipt, instructions=(everything,))
        return Flows(whole, effect, [everything], programs, whole=True)
    calls = {id(one) for one in acting if programs.family(one.program) == "swap"}
    bodies = list(_bodies(receipt, calls))
    return Flows(receipt, effect, bodies, programs)


def _bodies(receipt: Receipt, calls: Set[int]) -> Iterator[Instruction]:
    for top in receipt.instructions:
        mine = [one for one in top.tree() if id(one) in calls]
        if mine:
            yield from (mine if top.nested else [top])


def _known_rest(flows: Flows) -> int:
    if flows.unshown_in <= 0 or flows.unshown_foreign():
        return 0
    return flows.unshown_in - flows.unshown_explained()


def _trade(flows: Flows, changes: tuple[tuple[str, int, int], ...], x: int) -> Kind | None:
    """Classify the changes as a priced trade, first without residues, then with them."""
    up = [mint for mint, change, _ in changes if change > 0]
    down = [mint for mint, change, _ in changes if change < 0]
    residues = _residues(flows, changes)
    legs = [mint for mint in up if mint not in residues]
    for rose, left in ((legs, residues), (up, ())):
        if not rose and not down and not all(flows.came_first(mint) for mint in left):
            continue
        kind = _shape(flows, rose, down, x)
        if kind:
            sol = {"sell": "got", "round_trip": "both"}.get(kind.kind, "")
            kind = replace(kind, flags=("residue",) if left else (), residues=tuple(left))
            return _with_split(kind, split_trade(flows, changes, sol, left))
    return None


def _shape(flows: Flows, up: list[str], down: list[str], x: int) -> Kind | None:
    passed = flows.passed_mints()
    if not up and not down and passed and flows.sol_both_ways():
        return Kind("round_trip", mint=passed[0] if len(passed) == 1 else None)
    if len(up) == 1 and not down and x < 0:
        return Kind("buy", mint=up[0])
    if len(down) == 1 and not up and x > 0:
        return Kind("sell", mint=down[0])
    if len(up) == len(down) == 1 and abs(x) < DUST:
        return Kind("swap", mint=up[0])
    return None


def _residues(flows: Flows, changes: tuple[tuple[str, int, int], ...]) -> list[str]:
    passed = _passed_on(flows)
    return [mint for mint, change, _ in changes if 0 < change * RESIDUE_SHARE < passed[mint]]


def _no_trade(flows: Flows, kind: Kind) -> Kind | None:
    """Return `other` for rent payments, or fee income. None means that it may be a trade."""
    effect = flows.effect
    kept = effect.tokens or effect.rent or any(call.gave for call in flows.calls)
    if not kept and effect.sol + effect.fee + effect.tip < 0:
        return kind
    if not is_fee_income(flows):
        return None
    mint = find_main_mint(flows.receipt, effect.own, effect.tokens)
    return replace(kind, mint=mint, flags=("fee_income",))


def _rent_for_others(receipt: Receipt, effect: Effect) -> int:
    """Sum the lamports put into foreign accounts created here: rent, not part of a price."""
    created = {o.target for o in receipt.operations if o.name in ("create", "allocate")}
    created |= receipt.opened
    return sum(_rent_of(receipt, effect, one) for one in created - effect.own if one)


def _rent_of(receipt: Receipt, effect: Effect, address: str) -> int:
    given = sum(
        one.amount
        for one in receipt.operations
        if one.name in ("create", "transfer")
        and one.source == effect.wallet
        and one.target == address
    )
    return min(given, receipt.find_rent(address))


def _paid(receipt: Receipt, effect: Effect, sol: int) -> int:
    """Return the SOL change without fee, tip, collected rent and rent for others."""
    collected = _collected(receipt, effect.own)
    return sol + effect.fee + effect.tip + collected + _rent_for_others(receipt, effect)


def _collected(receipt: Receipt, accounts: Set[str]) -> int:
    return sum(rent for address, rent in receipt.rents.items() if address in accounts)


def _passed_on(flows: Flows) -> Counter[str]:
    own, wallet = flows.effect.own, flows.effect.wallet
    passed: Counter[str] = Counter()
    for move in flows.moves:
        is_sent = move.source and move.target and move.target not in own
        if is_sent and (move.source in own or move.authority == wallet):
            passed[move.mint] += move.amount
    return passed


def _plain_kind(receipt: Receipt, effect: Effect, mint: str | None, programs: Programs) -> Kind:
    up, down = any(c > 0 for _, c, _ in effect.tokens), any(c < 0 for _, c, _ in effect.tokens)
    rent_for_others = _rent_for_others(receipt, effect)
    x = _paid(receipt, effect, effect.sol)
    unknown = ("unrecognised_program",) if _unknown_ran(receipt, effect, programs) else ()
    if (up and down) or (up and x < 0) or (down and x > 0):
        return Kind("other", None, mint, ("unrecognised_program",))
    if up or down:
        return Kind("transfer_in" if up else "transfer_out", None, mint, unknown)
    if effect.tip and not x and not any(map(programs.family, receipt.programs)):
        return Kind("other", flags=("tip_only",))
    if x or effect.tip:
        return Kind("native_transfer", flags=unknown)
    rent = effect.rent + _collected(receipt, effect.own - {effect.wallet})
    within = effect.wrapped or any(
        o.name in ("transfer", "send") and o.source in effect.own and o.target in effect.own
        for o in receipt.operations
    )
    # Unsynced lamports sent to an existing wrapped SOL account count as rent.
    if rent_for_others or (rent and not (within and _keeps_accounts(effect))):
        return Kind("account_open" if rent > 0 or rent_for_others else "account_close")
    if within:
        return Kind("transfer_self")
    return Kind("other", flags=("fee_only",) if effect.fee else ())


def _keeps_accounts(effect: Effect) -> bool:
    return all(one.lamports_before and one.lamports_after for one in effect.balances if one.mint)


def _unknown_ran(receipt: Receipt, effect: Effect, programs: Programs) -> bool:
    own = effect.own & receipt.writable
    return any(
        one.program not in programs.names
        and one.program not in NATIVE
        and any(account in own for account in one.accounts)
        for one in receipt.calls
    )
