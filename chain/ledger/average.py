"""Results by average cost, for comparison with tools that use it. Pure."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Portion(NamedTuple):
    """Raw units with a known cost, their cost in lamports, and raw units with an unknown cost."""

    known: int
    cost: int
    unknown: int


@dataclass(slots=True)
class Pool:
    """All holdings of a mint. Units with a known cost share one average."""

    known: int = 0
    cost: int = 0
    unknown: int = 0

    def add(self, portion: Portion) -> None:
        self.known += portion.known
        self.cost += portion.cost
        self.unknown += portion.unknown

    def take(self, amount: int) -> Portion:
        """Take from both parts in proportion. Units beyond the pool have an unknown cost."""
        held = self.known + self.unknown
        here = min(amount, held)
        unknown = here * self.unknown // held if held else 0
        known = here - unknown
        cost = self.cost * known // self.known if known < self.known else self.cost
        self.known -= known
        self.cost -= cost
        self.unknown -= unknown
        return Portion(known, cost, unknown + amount - here)


@dataclass
class AverageCost:
    """`realized` in lamports; `matched`: sales with a known cost, ignoring dust."""

    realized: int = 0
    matched: int = 0
    pools: defaultdict[str, Pool] = field(default_factory=lambda: defaultdict(Pool))

    def add(self, mint: str, amount: int, cost: int | None) -> None:
        """Add raw units at a cost, or at an unknown one (None)."""
        pool = self.pools[mint]
        if cost is None:
            pool.unknown += amount
        else:
            pool.known += amount
            pool.cost += cost

    def take(self, mint: str, amount: int) -> Portion:
        return self.pools[mint].take(amount)

    def sell(self, sold: Portion, proceeds: int) -> None:
        """Book a sale. Its proceeds (lamports) are split by quantity."""
        if sold.known:
            self.realized += proceeds * sold.known // (sold.known + sold.unknown) - sold.cost
            self.matched += is_dust(sold.unknown, sold.known + sold.unknown)

    def count(self, result: int) -> None:
        """Book a sale whose result (lamports) needs no pool."""
        self.realized += result
        self.matched += 1

    def carry(self, given: Portion, mint: str, amount: int, spent: int) -> None:
        """Exchange a portion for another mint, which inherits its cost and known spending."""
        whole = given.known + given.unknown
        unknown = amount * given.unknown // whole
        cost = given.cost + spent * given.known // whole
        self.pools[mint].add(Portion(amount - unknown, cost, unknown))


def is_dust(unknown: int, amount: int) -> bool:
    """Whether unknown units are dust (below a thousandth of a sale), which doesn't make the sale
    unmatched.
    """
    return unknown * 1000 < amount
