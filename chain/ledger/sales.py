"""Price a transaction: a sale consumes lots, first in, first out. Pure.

Units move once per currency. Then each view prices them, ignoring costs from before its start.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.addresses import WRAPPED_SOL
from chain.ledger.inventory import NOTHING, SOL, Carried, Cut, Inventory, Slice, is_dust, share
from chain.reading.currencies import MINTS
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES

# Flags a trade whose value may not come from the venue, so it has no price.
UNEXPLAINED = "value_unexplained"
# Flags a sale, for a stablecoin, of units paid for in another currency.
PAID_ELSEWHERE = "paid_elsewhere"
# Flags a sale after a gap in the history, so it has no result.
INCOMPLETE = "incomplete_history"
AGAINST = frozenset(("buy", "sell"))


class Fill(NamedTuple):
    """An order's market price.

    `kind` is buy or sell for SOL, or order_fill for one token against another. `returned`: the
    raw units by mint that left the order, including rent.
    """

    kind: str
    returned: Counter[str]


class Side(NamedTuple):
    """An entry from the point of view of one currency, in signed raw units.

    `through` is the part through the venue, `beside` the part outside it. Only SOL has fees, tips
    and sponsored rent. `returned`: the amounts that left a priced fill's order.
    """

    kind: str
    through: int
    beside: int
    fee: int = 0
    tip: int = 0
    sponsored: int = 0
    returned: int = 0


def see_side(entry: Entry, money: str, fill: Fill | None = None) -> Side:
    """An exchange for the stablecoin `money` is a purchase or sale. A trade for SOL isn't."""
    returned = fill.returned[money or WRAPPED_SOL] if fill else 0
    kind = fill.kind if fill else entry.kind
    if money == SOL:
        costs = entry.fee, entry.tip, entry.sponsored
        return Side(kind, entry.venue_sol - returned, entry.beside_sol, *costs, returned)
    whole = sum([change for mint, change, _ in entry.tokens if mint == money])
    beside = sum([change for mint, change, _ in entry.beside_tokens if mint == money])
    if money in entry.residues:
        # It passed through the venue, but isn't part of a price.
        beside = whole
    through = whole - beside - returned
    if kind == "swap" or (fill and kind == "order_fill"):
        if through and not is_between_moneys(entry, fill):
            kind = "buy" if through < 0 else "sell"
    elif kind in TRADES:
        kind = "other"
    return Side(kind, through, beside, returned=returned)


def is_between_moneys(entry: Entry, fill: Fill | None) -> bool:
    """Whether it exchanges two stablecoins, which has no result in either."""
    moved = [mint for mint, _, _ in entry.venue_tokens if mint not in entry.residues]
    moved += [mint for mint in fill.returned if mint != WRAPPED_SOL] if fill else []
    return all([mint in MINTS for mint in moved])


@dataclass(slots=True)
class Moved:
    """An entry's movements in one inventory, before costs are applied.

    `side` is the entry in the inventory's currency. `left`: the units that left without a sale, by
    mint. `cut` was exchanged for the currency or for another mint, `got`. The lots that inherited
    its cost follow.
    """

    entry: Entry
    side: Side
    inventory: Inventory
    left: list[tuple[str, list[Slice]]] = field(default_factory=list)
    cut: Cut = NOTHING
    got: str | None = None
    carried: Carried = field(default_factory=list)


class Booked(NamedTuple):
    """The ledger's result for one entry in a currency.

    Amounts are raw units of the currency or of a token, or None if unknown. `status`: matched |
    partial | unmatched | not_applicable. `lots`: a sale's ((origin signature or None, raw amount,
    cost or None), ...). `unmatched_proceeds`: the proceeds of lots of unknown cost. `cost_left`:
    the known cost of lots that left without a sale (by mint in `left`). `other`: an amount of the
    currency that isn't in a cost, proceeds or result. `carried`: the lots that inherited a cost.
    `sold`: the mint of a sale or round trip.
    """

    entry: Entry
    side: Side
    flags: tuple[str, ...] = ()
    status: str = "not_applicable"
    result: int | None = None
    proceeds: int | None = None
    cost: int | None = None
    matched: int = 0
    unmatched: int = 0
    lots: tuple[tuple[str | None, int, int | None], ...] = ()
    unmatched_proceeds: int = 0
    cost_left: int = 0
    other: int = 0
    carried: int = 0
    sold: str | None = None
    left: tuple[tuple[str, int], ...] = ()

    @property
    def counts(self) -> bool:
        """A trade with an unexplained value doesn't count in totals."""
        return UNEXPLAINED not in self.flags


def book(moved: Moved, begins: int, doubt: bool) -> Booked:
    """Price an entry in a view from `begins` (UTC ms). With `doubt`, the history is incomplete."""
    entry, side, money = moved.entry, moved.side, moved.inventory.money
    flags = entry.flags
    if money != SOL and entry.kind in TRADES and entry.kind != "swap":
        # A trade for SOL doesn't move this currency.
        flags = tuple([flag for flag in flags if flag != UNEXPLAINED])
    booked = Booked(entry, side, flags)
    left = [(mint, _sum_cost(slices, begins)) for mint, slices in moved.left]
    if side.kind in TRADES and UNEXPLAINED in flags:
        booked = booked._replace(other=side.through)
    elif side.kind == "round_trip":
        booked = booked._replace(status="matched", result=side.through, sold=entry.mint)
    elif side.kind == "sell":
        booked = _book_sale(booked, moved, begins, doubt)
    elif moved.carried:
        booked, lost = _book_carried(booked, moved, begins)
        left.append(lost)
    else:
        left.append((moved.cut.mint, _sum_cost(moved.cut.slices, begins)))
    if money != SOL and side.kind == "swap":
        # Two stablecoins, or neither side in this currency.
        booked = booked._replace(other=side.through)
    if side.returned:
        # This part was counted as `other` when the order was opened.
        booked = booked._replace(other=booked.other + side.returned)
    return _leave(booked, left)


def _leave(booked: Booked, left: Iterable[tuple[str, int]]) -> Booked:
    costs: dict[str, int] = {}
    for mint, cost in left:
        if cost:
            costs[mint] = costs.get(mint, 0) + cost
    if not costs:
        return booked
    return booked._replace(left=tuple(costs.items()), cost_left=sum(costs.values()))


def _book_carried(booked: Booked, moved: Moved, begins: int) -> tuple[Booked, tuple[str, int]]:
    """Book an exchange without a result. Return the (mint, cost) lost in lots of unknown cost."""
    carried = spent = lost = 0
    for slices, part in moved.carried:
        if all([one.see_cost(begins) is not None for one in slices]):
            carried += 1
        else:
            lost += _sum_cost(slices, begins)
            spent += part
    flags = add_flags(booked.flags, "basis_carried") if carried else booked.flags
    return booked._replace(flags=flags, carried=carried, other=-spent), (moved.cut.mint, lost)


def _book_sale(booked: Booked, moved: Moved, begins: int, doubt: bool) -> Booked:
    slices = moved.cut.slices
    if doubt:
        return booked._replace(
            flags=add_flags(booked.flags, INCOMPLETE),
            status="unmatched",
            unmatched=moved.cut.amount,
            other=booked.side.through - _sum_cost(slices, begins),
            sold=moved.cut.mint,
        )
    lots = tuple([(one.lot.origin, one.amount, one.see_cost(begins)) for one in slices])
    told = ["opening_inventory_unknown"] if any([lot[0] is None for lot in lots]) else []
    booked = booked._replace(flags=add_flags(booked.flags, *told), lots=lots, sold=moved.cut.mint)
    return _price_sale(booked, moved.cut.amount)


def _price_sale(booked: Booked, amount: int) -> Booked:
    """Split proceeds by quantity. Only lots of known cost have a result."""
    proceeds = booked.side.through
    matched = gross = cost = 0
    shares = share(proceeds, [quantity for _, quantity, _ in booked.lots])
    for (_, quantity, spent), part in zip(booked.lots, shares, strict=True):
        if spent is not None:
            matched, gross, cost = matched + quantity, gross + part, cost + spent
    if not matched:
        return booked._replace(status="unmatched", unmatched=amount, unmatched_proceeds=proceeds)
    unmatched = amount - matched
    return booked._replace(
        status="matched" if is_dust(unmatched, amount) else "partial",
        result=gross - cost,
        proceeds=gross,
        cost=cost,
        matched=matched,
        unmatched=unmatched,
        unmatched_proceeds=proceeds - gross,
    )


def mark_paid_elsewhere(
    booked: Booked, moved: Moved, others: Iterable[Moved], begins: int
) -> Booked:
    """Flag a sale of units whose cost is known only in another currency."""
    if booked.status not in ("partial", "unmatched") or INCOMPLETE in booked.flags:
        return booked
    unknown = _list_units(moved, begins, known=False)
    known = [units for other in others for units in _list_units(other, begins, known=True)]
    if any(a < d and c < b for a, b in unknown for c, d in known):
        return booked._replace(flags=(*booked.flags, PAID_ELSEWHERE))
    return booked


def _list_units(moved: Moved, begins: int, known: bool) -> list[tuple[int, int]]:
    """Return the ranges (first, end) of units sold whose cost is known, or of the others."""
    found, at = [], 0
    for one in moved.cut.slices:
        if (one.see_cost(begins) is not None) == known:
            found.append((at, at + one.amount))
        at += one.amount
    return found


def add_flags(flags: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return tuple(sorted({*flags, *more}))


def _sum_cost(slices: Iterable[Slice], begins: int) -> int:
    return sum([one.see_cost(begins) or 0 for one in slices])
