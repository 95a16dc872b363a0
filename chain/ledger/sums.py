"""Running totals that can be subtracted: a window is the difference between two. Pure."""

from collections.abc import Iterable
from operator import sub
from typing import NamedTuple

# A result comes mostly from one token if this exceeds four fifths of it.
ONE_TOKEN, FLAT_ROUND_TRIPS = "one_token", "flat_round_trips"
MIN_FLAT_PAIRS = 10


class Sums(NamedTuple):
    """Columns of `running_total`: counts, and raw units of the money. Only SOL has `failed` to
    `overhead` and `carried`, only stablecoins `fee_lamports` and `cross_sells` (paid elsewhere).

    `cost`, `proceeds`: of the units of known cost that were sold; `open_cost`: known cost of what
    is held; `days`: UTC days with a trade; `flat_pairs`: ledger.views.Churn. `ended` and
    `ended_won` count positions that are over; `held`, `held_sold` and `held_won` those that are
    open now (ledger.positions).
    """

    realized: int = 0
    cost: int = 0
    proceeds: int = 0
    volume: int = 0
    trades: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    failed: int = 0
    failed_cost: int = 0
    overhead: int = 0
    cost_left: int = 0
    cost_left_receipts: int = 0
    carried: int = 0
    fee_lamports: int = 0
    cross_sells: int = 0
    open_cost: int = 0
    days: int = 0
    flat_pairs: int = 0
    ended: int = 0
    ended_won: int = 0
    held: int = 0
    held_sold: int = 0
    held_won: int = 0

    def minus(self, before: "Sums") -> "Sums":
        """Return the change since `before`; currently open positions count in every window."""
        changed = Sums._make(map(sub, self, before))
        return changed._replace(held=self.held, held_sold=self.held_sold, held_won=self.held_won)

    def give_up(self) -> "Sums":
        """Return the sums after a disconnect: everything still held counts as moved out unsold."""
        return self._replace(
            cost_left=self.cost_left + self.open_cost,
            open_cost=0,
            ended=self.positions,
            ended_won=self.positions_won,
            held=0,
            held_sold=0,
            held_won=0,
        )

    @property
    def positions(self) -> int:
        """Positions with a sale."""
        return self.ended + self.held_sold

    @property
    def positions_won(self) -> int:
        return self.ended_won + self.held_won

    @property
    def worst_case(self) -> int:
        """Return the result if unsold tokens are worthless. In a window, only an increase in the
        cost of holdings counts.
        """
        return self.realized - self.cost_left - max(0, self.open_cost)

    @property
    def return_points(self) -> int | None:
        """Return on cost of sold units, in hundredths of a percent; None without a cost."""
        return divide(10_000 * (self.proceeds - self.cost), self.cost) if self.cost > 0 else None

    @property
    def win_points(self) -> int | None:
        """Win rate in hundredths of a percent; None without a position that had a sale."""
        return divide(10_000 * self.positions_won, self.positions) if self.positions else None


NOTHING = Sums()


def add_up(parts: Iterable[Sums]) -> Sums:
    listed = list(parts)
    return Sums(*map(sum, zip(*listed, strict=True))) if listed else NOTHING


def divide(number: int, by: int) -> int:
    """Divide, rounding to nearest and halves away from zero. `by` is positive."""
    quotient = (2 * abs(number) + by) // (2 * by)
    return quotient if number >= 0 else -quotient


def list_signs(sums: Sums, best_token: int) -> list[str]:
    """Return warning signs about a result; they don't affect the rank. `best_token`: the best
    token's result.
    """
    signs = []
    if sums.realized > 0 and best_token * 5 > sums.realized * 4:
        signs.append(ONE_TOKEN)
    if sums.flat_pairs >= MIN_FLAT_PAIRS:
        signs.append(FLAT_ROUND_TRIPS)
    return signs
