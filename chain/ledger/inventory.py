"""What a wallet holds: lots by mint, oldest first, and what lies in escrow of its orders. Pure."""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chain.ledger.average import AverageCost, Pool, Portion
from chain.ledger.lots import PAID_IN_SOL, Lot, Opening, Slice, share


class Position(NamedTuple):
    """What is held of a mint, in raw units; `cost` in lamports of the part whose cost is known,
    None where there is no such part.
    """

    mint: str
    amount: int
    decimals: int
    cost: int | None
    unknown: int


class Cut(NamedTuple):
    """What was taken out: slices of the oldest lots, and the same by the average cost."""

    slices: list[Slice]
    portion: Portion


class Carried(NamedTuple):
    """What became of slices given for another mint: lots that took their cost over; lamports spent
    on the others; known cost that was lost in a lot of unknown cost.
    """

    lots: int
    spent_unknown: int
    cost_left: int


class Released(NamedTuple):
    """What left an escrow."""

    mint: str
    slices: list[Slice]
    portion: Portion


@dataclass
class Escrow:
    """What an order holds back of a mint, oldest first; it keeps its cost."""

    mint: str
    slices: list[Slice] = field(default_factory=list)
    pool: Pool = field(default_factory=Pool)


def sum_known(slices: Iterable[Slice]) -> int:
    """Lamports that these slices are known to have cost."""
    return sum([cost or 0 for _, _, cost in slices])


@dataclass
class Inventory:
    """What is held. `lots`: mint -> lots with something left, oldest first; `escrows` by token
    account; `moved`: mints of which something was booked; `taken`: mint -> slot in which lots of it
    left last.
    """

    lots: dict[str, list[Lot]] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)
    escrows: dict[str, Escrow] = field(default_factory=dict)
    average: AverageCost = field(default_factory=AverageCost)
    moved: set[str] = field(default_factory=set)
    taken: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    # ---- in ----------------------------------------------------------------------------------
    def lay(self, opening: Opening) -> None:
        """Put what was there from the beginning before all that was booked."""
        self.decimals[opening.mint] = opening.decimals
        insort(
            self.lots.setdefault(opening.mint, []),
            Lot(opening.rank, None, opening.amount, None, opening.amount, None),
        )
        self.average.add(opening.mint, opening.amount, None)

    def put(
        self,
        mint: str,
        origin: str | None,
        amount: int,
        cost: int | None,
        time: int | None = None,
        paid_in: str = "",
    ) -> None:
        """Add a lot, of known or unknown (None) cost in lamports. `time`: Unix seconds."""
        self._append(mint, origin, amount, cost, time, paid_in)
        self.average.add(mint, amount, cost)

    def _append(
        self,
        mint: str,
        origin: str | None,
        amount: int,
        cost: int | None,
        time: int | None,
        paid_in: str = "",
    ) -> None:
        self.moved.add(mint)
        if amount:
            self._count += 1
            number = (1, self._count)
            lot = Lot(number, origin, amount, cost, amount, cost, time, paid_in)
            self.lots.setdefault(mint, []).append(lot)

    def turn_costs(self, quote: str) -> None:
        """Continue in the raw units of a quote, of which nothing was held before: what has a known
        cost was paid for in something else, and the quote itself has no lots.
        """
        for lot in (lot for lots in self.lots.values() for lot in lots):
            lot.paid_in = lot.paid_in or (PAID_IN_SOL if lot.cost is not None else "")
        for one in (one for escrow in self.escrows.values() for one in escrow.slices):
            one.lot.paid_in = one.lot.paid_in or (PAID_IN_SOL if one.cost is not None else "")
        self.forget_costs()
        self.lots.pop(quote, None)
        self.average.forget()
        for escrow in self.escrows.values():
            escrow.pool.forget()

    def forget_costs(self, origin: str | None = None) -> None:
        """Make the cost of all lots unknown, or of those that a receipt (its signature) brought."""
        for lot in (lot for lots in self.lots.values() for lot in lots):
            if origin in (None, lot.origin):
                lot.cost = lot.left_cost = None
        for escrow in self.escrows.values():
            escrow.slices = [
                one._replace(cost=None) if origin in (None, one.lot.origin) else one
                for one in escrow.slices
            ]

    def has_known_cost(self) -> bool:
        """Is the cost of anything that is held known, in escrows too?"""
        held = any(lot.cost is not None for lots in self.lots.values() for lot in lots)
        return held or any(
            one.cost is not None for escrow in self.escrows.values() for one in escrow.slices
        )

    # ---- out ---------------------------------------------------------------------------------
    def cut(self, mint: str, amount: int, slot: int) -> Cut:
        """Take the oldest lots. More than there is cannot happen where the chain holds; elsewhere
        it is of unknown origin.
        """
        lots, slices, missing = self.lots.get(mint, []), [], amount
        self.moved.add(mint)
        self.taken[mint] = slot
        while missing and lots:
            lot = lots[0]
            part = min(lot.left, missing)
            slices.append(lot.cut(part))
            missing -= part
            if not lot.left:
                lots.pop(0)
        if missing:
            slices.append(Slice(Lot((0,), None, missing, None, 0, None), missing, None))
        return Cut(slices, self.average.take(mint, amount))

    # ---- from one mint to another ------------------------------------------------------------
    def carry(
        self,
        cut: Cut,
        mint: str,
        origin: str,
        amount: int,
        spent: int,
        time: int | None = None,
        paid_in: str = "",
    ) -> Carried:
        """Add lots of `mint` that take over the cost of the slices given for them, and their share
        of the lamports spent. `paid_in`: the mint given, where it is a quote.
        """
        groups = _group_slices(cut.slices, amount)
        sizes = [sum(one.amount for one in group) for group in groups]
        lots = spent_unknown = cost_left = 0
        for group, got, part in zip(groups, share(amount, sizes), share(spent, sizes), strict=True):
            known = sum_known(group)
            if any(one.cost is None for one in group):
                before = next((one.lot.paid_in for one in group if one.lot.paid_in), "")
                self._append(mint, origin, got, None, time, paid_in or before)
                spent_unknown, cost_left = spent_unknown + part, cost_left + known
            else:
                self._append(mint, origin, got, known + part, time)
                lots += 1
        self.average.carry(cut.portion, mint, amount, spent)
        return Carried(lots, spent_unknown, cost_left)

    # ---- orders ------------------------------------------------------------------------------
    def hold(self, address: str, mint: str, cut: Cut) -> None:
        """Move what was cut of a mint into the escrow of an order."""
        escrow = self.escrows.setdefault(address, Escrow(mint))
        escrow.slices.extend(cut.slices)
        escrow.pool.add(cut.portion)

    def release(self, address: str, mint: str, quantity: int, slot: int) -> Released:
        """Take slices out of an escrow, oldest first."""
        escrow, kept = self.escrows[address], []
        out: list[Slice] = []
        missing = max(0, quantity)
        for one in escrow.slices:
            part = min(one.amount, missing)
            missing -= part
            first = None if one.cost is None else one.cost * part // one.amount
            if part:
                out.append(Slice(one.lot, part, first))
            if part < one.amount:
                rest = None if one.cost is None or first is None else one.cost - first
                kept.append(Slice(one.lot, one.amount - part, rest))
        escrow.slices = kept
        if not kept:
            del self.escrows[address]
        if out:
            self.taken[mint] = slot
        return Released(mint, out, escrow.pool.take(sum(one.amount for one in out)))

    def withdraw(self, address: str, theirs: Escrow, slot: int) -> list[Slice]:
        """Take out of an escrow what another wallet has in it, first what came from its own lots;
        others may have put theirs at the same address.
        """
        escrow = self.escrows.get(address)
        if escrow is None:
            return []
        origins = {one.lot.origin for one in theirs.slices}
        escrow.slices.sort(key=lambda one: one.lot.origin not in origins)
        return self.release(address, theirs.mint, sum(s.amount for s in theirs.slices), slot).slices

    def put_back(self, released: Released, room: int) -> int:
        """Put at most `room` raw units back at their cost and their place in the queue; return
        the known cost of what did not fit (a withheld transfer fee does not come back).
        """
        lost, left = 0, room
        for one in released.slices:
            amount = min(one.amount, left)
            cost = None if one.cost is None else one.cost * amount // one.amount
            lost += (one.cost or 0) - (cost or 0)
            left -= amount
            if amount:
                back = replace(one.lot, amount=amount, cost=cost, left=amount, left_cost=cost)
                insort(self.lots.setdefault(released.mint, []), back)
        pool = Pool(*released.portion)
        self.average.put_back(released.mint, pool.take(room - left))
        return lost

    # ---- what is there -----------------------------------------------------------------------
    def is_held(self, mint: str) -> bool:
        """Is anything left of a mint, in escrows too?"""
        if self.lots.get(mint):
            return True
        return any([escrow.mint == mint for escrow in self.escrows.values()])

    def sum_open_cost(self) -> int:
        """Known cost in lamports of all that is left, in escrows too."""
        held = (lot.left_cost or 0 for lots in self.lots.values() for lot in lots)
        kept = (sum_known(escrow.slices) for escrow in self.escrows.values())
        return sum(held) + sum(kept)

    def list_positions(self) -> list[Position]:
        """Positions by mint."""
        return [self._position(mint, lots) for mint, lots in sorted(self.lots.items()) if lots]

    def _position(self, mint: str, lots: Sequence[Lot]) -> Position:
        known = [lot for lot in lots if lot.left_cost is not None]
        amount = sum(lot.left for lot in lots)
        return Position(
            mint,
            amount,
            self.decimals[mint],
            sum(lot.left_cost or 0 for lot in known) if known else None,
            amount - sum(lot.left for lot in known),
        )


def join_released(released: Sequence[Released]) -> Cut:
    """What left several escrows, as one."""
    pool = Pool()
    for one in released:
        pool.add(one.portion)
    return Cut(
        [one for part in released for one in part.slices],
        Portion(pool.known, pool.cost, pool.unknown),
    )


def _group_slices(slices: Sequence[Slice], amount: int) -> list[list[Slice]]:
    """Slices that become one lot each: one that is too small for a unit of `amount` joins the
    next, the last one that before.
    """
    whole, groups = sum(one.amount for one in slices), [[slices[0]]]

    def is_enough(group: list[Slice]) -> bool:
        return amount * sum(one.amount for one in group) // whole > 0

    for one in slices[1:]:
        if is_enough(groups[-1]):
            groups.append([one])
        else:
            groups[-1].append(one)
    if len(groups) > 1 and not is_enough(groups[-1]):
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups
