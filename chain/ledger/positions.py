"""Positions in tokens, from the first purchase until they are closed. Pure.

Only units with a known cost belong to a position: tokens from strangers don't open it, keep it
open, or raise its peak.
"""

from dataclasses import dataclass, field

from chain.ledger.inventory import KnownCost
from chain.ledger.risk import round_down
from chain.ledger.sales import INCOMPLETE, Booked

# A position is closed when less than this share of its peak is left.
MIN_LEFT_PERCENT = 1


@dataclass(slots=True)
class OpenPosition:
    """Amounts in raw units of a money.

    `began`: Unix seconds; `cost`: all of its known cost; `proceeds`: of its sales so far, without
    units of unknown cost; `result`: of its sales, less the known cost that left without one;
    `peak`: the most units of known cost that it held.
    """

    began: int | None
    cost: int
    proceeds: int = 0
    result: int = 0
    peak: int = 0
    is_sold: bool = False

    @property
    def is_won(self) -> bool:
        return self.is_sold and self.proceeds > self.cost


@dataclass(slots=True)
class Positions:
    """Counts of positions in a view of a money. `ended`: closed ones that had a sale; `held`: open
    ones; `..._sold`, `..._won`: those of them with a sale, and with a gain. `holdings`: ended
    positions by seconds held (round_down).
    """

    ended: int = 0
    ended_won: int = 0
    held: int = 0
    held_sold: int = 0
    held_won: int = 0
    holdings: dict[int, int] = field(default_factory=dict)
    # by mint
    open: dict[str, OpenPosition] = field(default_factory=dict)
    # best and worst results of closed positions
    _ends: tuple[int, ...] = ()
    # Whether there are unwritten changes.
    is_changed: bool = False

    def follow(self, booked: Booked | None, known: KnownCost, time: int | None) -> None:
        """Apply an entry after its lots moved. `booked`: None if it doesn't count in this view;
        `time`: Unix seconds.
        """
        if booked and booked.side.kind == "round_trip" and booked.result is not None:
            # Bought and sold in one transaction; other units of the token don't matter.
            self._end(OpenPosition(time, 0, booked.result, booked.result, is_sold=True), time)
        sold = booked.sold if booked and INCOMPLETE not in booked.flags else None
        for mint in known.touched if sold is None else {*known.touched, sold}:
            self._follow_mint(mint, known, time, booked if mint == sold else None)
        if booked:
            for mint, cost in booked.left:
                if position := self.open.get(mint):
                    position.result -= cost
                    self.is_changed = self.is_changed or position.is_sold
        for mint in known.touched:
            self._settle(mint, known, time)

    def _follow_mint(
        self, mint: str, known: KnownCost, time: int | None, sale: Booked | None
    ) -> None:
        """Apply a purchase or sale of one mint."""
        position, arrived = self.open.get(mint), known.arrived.get(mint)
        if position is None:
            if arrived is None:
                return
            # The previous position's remainder belongs to this one.
            held = known.held.get(mint)
            position = OpenPosition(time, max(arrived, held.cost if held else 0))
            self.open[mint] = position
        else:
            self._count(position, -1)
            position.cost += arrived or 0
        if sale and sale.side.kind != "round_trip":
            position.is_sold = self.is_changed = True
            position.proceeds += sale.proceeds or 0
            position.result += sale.result or 0
        self._count(position, 1)

    def _settle(self, mint: str, known: KnownCost, time: int | None) -> None:
        """Close the position in a mint if nearly nothing is left of it."""
        position = self.open.get(mint)
        if position is None:
            return
        held = known.held.get(mint)
        units = held.units if held else 0
        position.peak = max(position.peak, units)
        if units * 100 < position.peak * MIN_LEFT_PERCENT:
            self._count(position, -1)
            del self.open[mint]
            self._end(position, time)

    def _count(self, position: OpenPosition, by: int) -> None:
        self.held += by
        self.held_sold += by * position.is_sold
        self.held_won += by * position.is_won

    def _end(self, position: OpenPosition, time: int | None) -> None:
        if not position.is_sold:
            return
        self.is_changed = True
        self.ended += 1
        self.ended_won += position.is_won
        results = (*self._ends, position.result)
        self._ends = (max(results), min(results))
        if time is not None and position.began is not None:
            seconds = round_down(max(0, time - position.began))
            self.holdings[seconds] = self.holdings.get(seconds, 0) + 1

    def find_ends(self) -> tuple[int, int] | None:
        """Return the best and worst result so far of positions with a sale, or None."""
        results = [*self._ends, *(one.result for one in self.open.values() if one.is_sold)]
        return (max(results), min(results)) if results else None
