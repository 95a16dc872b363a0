"""A wallet's holdings with their cost in one currency: lots by mint, and escrows. Pure.

A lot records a purchase: its time, its cost, and how much of it is left. A slice is part of a lot.
Results by average cost allow comparison with other tools.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

# ---- lots ----------------------------------------------------------------------------------------
# The `since` of a cost without a date, which is earlier than every attachment.
UNDATED = -1
# Ranks accounts that never appeared in a transaction above every slot.
UNSEEN_SLOT = 2**63


@dataclass(slots=True)
class Lot:
    """Inventory that arrived in one transaction.

    `cost` is in raw units of the inventory's currency, or None if unknown. `origin` is the
    signature of the transaction, or None if it wasn't observed. `number` sorts a mint's lots: (0,
    ...) is opening inventory in the order of `Opening.rank`, and (1, n) is the n-th lot that was
    booked. `since` (UTC ms) is when the cost began: the earliest purchase in the chain of swaps
    that carried it to this lot.
    """

    number: tuple[int | str, ...]
    origin: str | None
    amount: int
    cost: int | None
    left: int
    left_cost: int | None
    since: int = UNDATED

    def __lt__(self, other: "Lot") -> bool:
        return self.number < other.number

    def cut(self, quantity: int) -> "Slice":
        """The slice costs `cost * quantity // amount`. The last slice gets the rest."""
        self.left -= quantity
        if self.cost is None or self.left_cost is None:
            return Slice(self, quantity, None, UNDATED)
        cost = self.cost * quantity // self.amount if self.left else self.left_cost
        self.left_cost -= cost
        return Slice(self, quantity, cost, self.since)

    def see_cost(self, begins: int) -> int | None:
        """Return the remaining cost, or None if it is unknown or older than `begins` (UTC ms)."""
        return self.left_cost if self.since >= begins else None


class Slice(NamedTuple):
    """Raw units taken from a lot, their cost (or None if unknown), and since when it is known."""

    lot: Lot
    amount: int
    cost: int | None
    since: int

    def see_cost(self, begins: int) -> int | None:
        return self.cost if self.since >= begins else None


@dataclass(frozen=True, slots=True)
class Opening:
    """An account's balance when it was first seen, at an unknown cost.

    `rank` is (0, slot, place of the transaction in the slot, address). Accounts never seen in a
    transaction come last.
    """

    rank: tuple[int | str, ...]
    mint: str
    amount: int
    decimals: int

    @classmethod
    def untouched(cls, address: str, mint: str, amount: int, decimals: int) -> "Opening":
        return cls((0, UNSEEN_SLOT, 0, address), mint, amount, decimals)


def share(total: int, parts: Sequence[int]) -> list[int]:
    """Split `total` in proportion, rounding down, also below zero. The last part gets the rest."""
    if len(parts) == 1:
        return [total]
    whole = sum(parts)
    given = [total * part // whole for part in parts[:-1]]
    return [*given, total - sum(given)]


def count_units(slices: Iterable[Slice]) -> int:
    return sum(one.amount for one in slices)


def group_slices(slices: Sequence[Slice], amount: int) -> list[list[Slice]]:
    """Group by lot. A slice too small for a single unit joins a neighbor."""
    whole, groups = count_units(slices), [[slices[0]]]

    def is_enough(group: list[Slice]) -> bool:
        return amount * count_units(group) // whole > 0

    for one in slices[1:]:
        if is_enough(groups[-1]):
            groups.append([one])
        else:
            groups[-1].append(one)
    if len(groups) > 1 and not is_enough(groups[-1]):
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def find_lower_median(counted: Sequence[tuple[int, int]]) -> int | None:
    """Return the median of sorted (value, count) pairs, or the lower of two middle ones."""
    half, passed = (sum(count for _, count in counted) + 1) // 2, 0
    for value, count in counted:
        passed += count
        if passed >= half:
            return value
    return None


# ---- average cost --------------------------------------------------------------------------------
@dataclass(slots=True)
class Pool:
    """Raw units of a mint. Those of known cost share one average."""

    known: int = 0
    cost: int = 0
    unknown: int = 0

    @property
    def amount(self) -> int:
        return self.known + self.unknown

    def add(self, other: "Pool") -> None:
        self.known += other.known
        self.cost += other.cost
        self.unknown += other.unknown

    def take(self, amount: int) -> "Pool":
        """Take from both parts in proportion. Units that the pool lacks have an unknown cost."""
        held = self.amount
        here = min(amount, held)
        unknown = here * self.unknown // held if held else 0
        known = here - unknown
        cost = self.cost * known // self.known if known < self.known else self.cost
        self.known -= known
        self.cost -= cost
        self.unknown -= unknown
        return Pool(known, cost, unknown + amount - here)


@dataclass
class AverageCost:
    """`realized` is in lamports. `matched` counts sales of known cost, ignoring dust."""

    realized: int = 0
    matched: int = 0
    pools: defaultdict[str, Pool] = field(default_factory=lambda: defaultdict(Pool))

    def add(self, mint: str, amount: int, cost: int | None) -> None:
        self.pools[mint].add(Pool(unknown=amount) if cost is None else Pool(amount, cost))

    def sell(self, sold: Pool, proceeds: int) -> None:
        """Split the proceeds (lamports) by quantity."""
        if sold.known:
            self.realized += proceeds * sold.known // sold.amount - sold.cost
            self.matched += is_dust(sold.unknown, sold.amount)

    def count(self, result: int) -> None:
        """Book a sale whose result (lamports) doesn't depend on a pool."""
        self.realized += result
        self.matched += 1

    def carry(self, given: Pool, mint: str, amount: int, spent: int) -> None:
        """Exchange units for another mint, which inherits their cost and known spending."""
        unknown = amount * given.unknown // given.amount
        cost = given.cost + spent * given.known // given.amount
        self.pools[mint].add(Pool(amount - unknown, cost, unknown))


def is_dust(unknown: int, amount: int) -> bool:
    """Dust is below a thousandth of a sale. It doesn't make a sale unmatched."""
    return unknown * 1000 < amount


# ---- inventory -----------------------------------------------------------------------------------
# The currency of an inventory in lamports. All other currencies are stablecoins' mints.
SOL = ""


class Position(NamedTuple):
    """Raw units of a mint. `cost` covers the units for which it is known, or is None."""

    mint: str
    amount: int
    decimals: int
    cost: int | None
    unknown: int


# Groups of slices whose cost a swap carried over, each with its part of the money spent.
Carried = list[tuple[list[Slice], int]]


class Cut(NamedTuple):
    """Units of a mint that left the lots or an escrow, with their cost by both methods."""

    mint: str
    slices: list[Slice]
    pool: Pool

    @property
    def amount(self) -> int:
        return count_units(self.slices)


@dataclass
class Escrow:
    """A mint's lots in an order, oldest first, with their cost."""

    mint: str
    slices: list[Slice] = field(default_factory=list)
    pool: Pool = field(default_factory=Pool)

    @property
    def amount(self) -> int:
        return count_units(self.slices)


NOTHING = Cut("", [], Pool())


@dataclass(slots=True)
class Held:
    units: int = 0
    cost: int = 0


@dataclass(slots=True)
class KnownCost:
    """Holdings, including escrows, whose cost dates from `begins` (UTC ms) or later.

    For the latest entry, `arrived` is the cost of new lots by mint, and `touched` contains all
    mints that moved.
    """

    begins: int = UNDATED
    cost: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def begin(self) -> None:
        if self.touched:
            self.arrived, self.touched = {}, set()

    def arrive(self, mint: str, amount: int, cost: int | None, since: int) -> None:
        if cost is not None and since >= self.begins:
            self._change(mint, amount, cost)
            self.arrived[mint] = self.arrived.get(mint, 0) + cost

    def take(self, mint: str, slices: Iterable[Slice], sign: int = -1) -> None:
        for one in slices:
            if (cost := one.see_cost(self.begins)) is not None:
                self._change(mint, sign * one.amount, sign * cost)

    def _change(self, mint: str, units: int, cost: int) -> None:
        self.touched.add(mint)
        held = self.held.setdefault(mint, Held())
        held.units += units
        held.cost += cost
        self.cost += cost
        if not held.units:
            del self.held[mint]


@dataclass
class Inventory:
    """Holdings with their cost in `money`, which itself has no lots.

    All inventories of a wallet have the same units in the same order. Only the costs differ.
    """

    money: str = SOL
    # The lots by mint, oldest first. Empty lots are removed.
    lots: dict[str, list[Lot]] = field(default_factory=dict)
    # By token account.
    escrows: dict[str, Escrow] = field(default_factory=dict)
    average: AverageCost = field(default_factory=AverageCost)
    # Over all history, and since the current attachment.
    known_costs: list[KnownCost] = field(default_factory=lambda: [KnownCost()])
    _count: int = 0

    def convert(self, money: str) -> "Inventory":
        """Return the same lots at unknown cost, because nothing was paid in this currency yet."""
        other = Inventory(money, _count=self._count)
        other.known_costs = [KnownCost(one.begins) for one in self.known_costs]
        for mint, pool in self.average.pools.items():
            if mint != money:
                other.average.add(mint, pool.amount, None)
        for mint, lots in self.lots.items():
            if mint != money:
                other.lots[mint] = [
                    Lot(one.number, one.origin, one.amount, None, one.left, None) for one in lots
                ]
        for address, escrow in self.escrows.items():
            slices = [one._replace(cost=None, since=UNDATED) for one in escrow.slices]
            other.escrows[address] = Escrow(escrow.mint, slices, Pool(unknown=escrow.amount))
        return other

    def lay(self, opening: Opening) -> None:
        if opening.mint == self.money:
            return
        lot = Lot(opening.rank, None, opening.amount, None, opening.amount, None)
        insort(self.lots.setdefault(opening.mint, []), lot)
        self.average.add(opening.mint, opening.amount, None)

    def put(
        self,
        mint: str,
        origin: str | None,
        amount: int,
        cost: int | None = None,
        since: int = UNDATED,
    ) -> None:
        """Add a lot. `since`: UTC ms."""
        if mint != self.money:
            self._append(mint, origin, amount, cost, since)
            self.average.add(mint, amount, cost)

    def _append(
        self, mint: str, origin: str | None, amount: int, cost: int | None, since: int
    ) -> None:
        if amount:
            self._count += 1
            lot = Lot((1, self._count), origin, amount, cost, amount, cost, since)
            self.lots.setdefault(mint, []).append(lot)
            for known in self.known_costs:
                known.arrive(mint, amount, cost, since)

    def watch(self, begins: int | None) -> None:
        """Track holdings whose cost dates from `begins` (UTC ms) or later separately."""
        del self.known_costs[1:]
        if begins is not None:
            self.known_costs.append(self.count_held(begins))

    def count_held(self, begins: int = UNDATED) -> KnownCost:
        known = KnownCost(begins)
        for mint, lots in self.lots.items():
            known.take(mint, [Slice(lot, lot.left, lot.left_cost, lot.since) for lot in lots], 1)
        for escrow in self.escrows.values():
            known.take(escrow.mint, escrow.slices, 1)
        known.begin()
        return known

    def _follow(self, mint: str, slices: Iterable[Slice], sign: int = -1) -> None:
        for known in self.known_costs:
            known.take(mint, slices, sign)

    def cut(self, mint: str, amount: int) -> Cut:
        """Take the oldest lots. Units that the lots lack have an unknown origin."""
        if mint == self.money:
            return NOTHING
        lots, slices, missing = self.lots.get(mint, []), [], amount
        while missing and lots:
            lot = lots[0]
            part = min(lot.left, missing)
            slices.append(lot.cut(part))
            missing -= part
            if not lot.left:
                lots.pop(0)
        self._follow(mint, slices)
        if missing:
            slices.append(_make_unknown(missing))
        return Cut(mint, slices, self.average.pools[mint].take(amount))

    def carry(
        self, cut: Cut, mint: str, origin: str, amount: int, when: int, spent: int
    ) -> Carried:
        """Add lots that inherit the slices' cost and part of the money spent. `when`: UTC ms."""
        groups = group_slices(cut.slices, amount)
        sizes = [count_units(group) for group in groups]
        carried = list(zip(groups, share(spent, sizes), strict=True))
        for (group, part), got in zip(carried, share(amount, sizes), strict=True):
            costs = [one.cost for one in group if one.cost is not None]
            if len(costs) < len(group):
                self._append(mint, origin, got, None, UNDATED)
            else:
                since = min(when, *[one.since for one in group])
                self._append(mint, origin, got, sum(costs) + part, since)
        self.average.carry(cut.pool, mint, amount, spent)
        return carried

    def hold(self, address: str, cut: Cut) -> None:
        escrow = self.escrows.setdefault(address, Escrow(cut.mint))
        escrow.slices.extend(cut.slices)
        escrow.pool.add(cut.pool)
        self._follow(cut.mint, cut.slices, 1)

    def release(self, address: str, quantity: int) -> Cut:
        """Take slices out of an escrow, oldest first.

        Anyone can send tokens to an escrow, so units missing from the books come last, at an
        unknown cost.
        """
        escrow, missing = self.escrows[address], max(0, quantity)
        out: list[Slice] = []
        kept: list[Slice] = []
        for one in escrow.slices:
            part = min(one.amount, missing)
            missing -= part
            first, rest = _split(one, part)
            out += [first] if part else []
            kept += [rest] if part < one.amount else []
        escrow.slices = kept
        if not kept:
            del self.escrows[address]
        self._follow(escrow.mint, out)
        if missing:
            out.append(_make_unknown(missing))
        return Cut(escrow.mint, out, escrow.pool.take(count_units(out)))

    def put_back(self, released: Cut, room: int) -> list[Slice]:
        """Put up to `room` raw units back in their place. Return the rest: transfer fees."""
        lost, left = [], room
        for one in released.slices:
            back, rest = _split(one, min(one.amount, left))
            lost.append(rest)
            left -= back.amount
            if back.amount:
                self._follow(released.mint, [back], 1)
                lot = replace(
                    back.lot,
                    amount=back.amount,
                    cost=back.cost,
                    left=back.amount,
                    left_cost=back.cost,
                    since=back.since,
                )
                insort(self.lots.setdefault(released.mint, []), lot)
        self.average.pools[released.mint].add(released.pool.take(room - left))
        return lost

    def list_positions(self, decimals: Mapping[str, int], begins: int = UNDATED) -> list[Position]:
        """List positions, without escrows. `decimals` is by mint; `begins` as in KnownCost."""
        return [
            _make_position(mint, lots, decimals[mint], begins)
            for mint, lots in sorted(self.lots.items())
            if lots
        ]


def _make_position(mint: str, lots: Iterable[Lot], decimals: int, begins: int) -> Position:
    amount = unknown = 0
    costs = []
    for lot in lots:
        cost = lot.see_cost(begins)
        amount += lot.left
        if cost is None:
            unknown += lot.left
        else:
            costs.append(cost)
    return Position(mint, amount, decimals, sum(costs) if costs else None, unknown)


def _make_unknown(amount: int) -> Slice:
    return Slice(Lot((0,), None, amount, None, 0, None), amount, None, UNDATED)


def _split(one: Slice, amount: int) -> tuple[Slice, Slice]:
    if one.cost is None:
        first = rest = None
    else:
        first = one.cost * amount // one.amount
        rest = one.cost - first
    return (
        one._replace(amount=amount, cost=first),
        one._replace(amount=one.amount - amount, cost=rest),
    )


def join_cuts(cuts: Sequence[Cut]) -> Cut:
    pool = Pool()
    for one in cuts:
        pool.add(one.pool)
    return Cut(cuts[0].mint, [part for one in cuts for part in one.slices], pool)
