"""Running totals of a wallet, reconciled to the lamport. Pure.

A window is the difference between two of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import sub
from typing import NamedTuple

from chain.ledger.inventory import SOL
from chain.ledger.sales import AGAINST, INCOMPLETE, PAID_ELSEWHERE, Booked
from chain.reading.kinds import TRADES

# ---- running sums, reconciled to the lamport -----------------------------------------------------
# The kinds that receive or send SOL. Any other kind that isn't a trade counts as `other`.
TRANSFERS = frozenset(
    (
        *("native_transfer", "transfer_in", "transfer_out", "transfer_self"),
        *("account_open", "account_close"),
    )
)


class Reconciliation(NamedTuple):
    """Where a wallet's SOL went.

    All amounts are in lamports; only `cost_left_receipts` is a count. `opening` and `closing` are
    the accounts' balances before their first and after the last transaction. `open_cost` is the
    known cost of lots held, and `cost_left` that of lots that left without a sale. `other` wasn't
    moved by a trade or transfer, or moved at an unknown cost. `gaps` was moved by missing
    transactions.
    """

    opening: int
    closing: int
    realized: int
    unmatched_proceeds: int
    open_cost: int
    cost_left: int
    cost_left_receipts: int
    received: int
    sent: int
    overhead: int
    failed_cost: int
    other: int
    gaps: int

    @property
    def difference(self) -> int:
        """Return the amount that the items don't explain. It is 0 if no transaction is missing."""
        explained = (
            *(self.realized, self.unmatched_proceeds, -self.open_cost, -self.cost_left),
            *(self.received, -self.sent, -self.overhead, -self.failed_cost, self.other),
        )
        return self.closing - self.opening - sum(explained)

    @property
    def imbalance(self) -> int:
        """Return the difference minus the amount that gaps moved. Anything but 0 is a bug."""
        return self.difference - self.gaps


@dataclass
class Totals:
    """Running sums over a wallet's transactions, in raw units of a currency, and counts.

    Some are columns of `running_total` (Sums). `gaps` is the amount by which balances changed
    between two transactions that aren't continuous. The others are as in Reconciliation.
    """

    realized: int = 0
    cost: int = 0
    proceeds: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    volume: int = 0
    trades: int = 0
    carried: int = 0
    fee_lamports: int = 0
    cross_sells: int = 0
    failed: int = 0
    failed_cost: int = 0
    overhead: int = 0
    cost_left: int = 0
    cost_left_receipts: int = 0
    unmatched_proceeds: int = 0
    received: int = 0
    sent: int = 0
    other: int = 0
    opening: int = 0
    closing: int = 0
    gaps: int = 0

    def add(self, booked: Booked, money: str = SOL) -> None:
        """Add a booked entry, in this currency."""
        side = booked.side
        self.received += side.sponsored
        self._transfer(side.beside)
        self.cost_left += booked.cost_left
        self.cost_left_receipts += bool(booked.cost_left)
        self.other += booked.other
        if side.kind == "failed":
            self.failed += money == SOL
            self.failed_cost += side.fee
            self.other += side.through + side.fee
        elif side.kind in TRADES:
            self._add_trade(booked, money)
        else:
            self._add_other(booked, money)

    def _add_trade(self, booked: Booked, money: str) -> None:
        if not booked.counts:
            return
        result, status = booked.result or 0, booked.status
        is_against = booked.side.kind in AGAINST
        if is_against:
            self.volume += abs(booked.side.through)
        if money == SOL:
            self.trades += 1
            self.carried += booked.carried
        elif is_against:
            self.trades += 1
            self.fee_lamports += booked.entry.fee + booked.entry.tip
            self.cross_sells += PAID_ELSEWHERE in booked.flags
        if INCOMPLETE in booked.flags:
            return
        self.matched += status == "matched"
        self.partial += status == "partial"
        self.unmatched += status == "unmatched"
        self.realized += result
        self.cost += booked.cost or 0
        self.proceeds += booked.proceeds or 0
        self.winning += result > 0
        self.unmatched_proceeds += booked.unmatched_proceeds

    def _add_other(self, booked: Booked, money: str) -> None:
        """Add an entry that isn't a trade: its fees and tips are overhead, and the rest is counted
        by kind.
        """
        side = booked.side
        costs = side.fee + side.tip
        self.overhead += costs
        if money == SOL:
            self.carried += booked.carried
        if side.kind in TRANSFERS:
            self._transfer(side.through + costs)
        else:
            self.other += side.through + costs

    def _transfer(self, lamports: int) -> None:
        if lamports > 0:
            self.received += lamports
        else:
            self.sent -= lamports

    def reconcile(self, open_cost: int) -> Reconciliation:
        """Return the Reconciliation. `open_cost` is the known cost of the remaining lots."""
        kept = {name: getattr(self, name) for name in Reconciliation._fields if name != "open_cost"}
        return Reconciliation(open_cost=open_cost, **kept)


# ---- drawdown ------------------------------------------------------------------------------------
HOURS_A_DAY = 24


def find_drawdown(changes: Iterable[int]) -> int:
    """Return the deepest fall from a peak of a sum that starts at 0."""
    realized = high = drawdown = 0
    for change in changes:
        realized += change
        if realized > high:
            high = realized
        elif high - realized > drawdown:
            drawdown = high - realized
    return drawdown


@dataclass(slots=True)
class Fall:
    """The deepest fall of a sum by the hour. `high` and `drawdown` are from before the latest
    hour.
    """

    hour: int = 0
    realized: int = 0
    high: int = 0
    drawdown: int = 0

    def follow(self, realized: int, hour: int) -> tuple[int, int]:
        """Update with the sum in an hour, and return (peak, deepest fall). Hours never decrease."""
        if hour != self.hour:
            self.high, self.drawdown = self._measure()
            self.hour = hour
        self.realized = realized
        return self._measure()

    def _measure(self) -> tuple[int, int]:
        return max(self.high, self.realized), max(self.drawdown, self.high - self.realized)


def round_down(seconds: int) -> int:
    """Round down to two significant digits. For example, 3,725 s become 3,700 s."""
    if seconds < 100:
        return seconds
    unit = int(f"1{'0' * (len(str(seconds)) - 2)}")
    return seconds - seconds % unit


# ---- sums of a window ----------------------------------------------------------------------------
# A result comes mostly from one token if that token's result exceeds four fifths of it.
ONE_TOKEN, FLAT_ROUND_TRIPS = "one_token", "flat_round_trips"
MIN_FLAT_PAIRS = 10


class Sums(NamedTuple):
    """The columns of `running_total`: counts, and raw units of a currency.

    Only SOL has `failed` to `overhead` and `carried`. Only stablecoins have `fee_lamports` and
    `cross_sells` (paid elsewhere). `cost` and `proceeds` are totals for sold units of known cost.
    `open_cost` is the known cost of current holdings. `days` is the number of UTC days with a
    trade. `flat_pairs` is explained at ledger.views.Churn. `ended` and `ended_won` count closed
    positions. `held`, `held_sold` and `held_won` count open positions (ledger.views).
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
        """Return the change since `before`. Currently open positions count in every window."""
        changed = Sums._make(map(sub, self, before))
        return changed._replace(held=self.held, held_sold=self.held_sold, held_won=self.held_won)

    def give_up(self) -> "Sums":
        """Return the sums after a disconnect, when everything still held counts as moved out
        unsold.
        """
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
        """Return the number of positions with a sale."""
        return self.ended + self.held_sold

    @property
    def positions_won(self) -> int:
        return self.ended_won + self.held_won

    @property
    def worst_case(self) -> int:
        """Return the result if unsold tokens are worthless.

        In a window, only an increase in the cost of holdings counts.
        """
        return self.realized - self.cost_left - max(0, self.open_cost)

    @property
    def return_points(self) -> int | None:
        """Return the return on the cost of sold units, in hundredths of a percent, or None without
        a cost.
        """
        return divide(10_000 * (self.proceeds - self.cost), self.cost) if self.cost > 0 else None

    @property
    def win_points(self) -> int | None:
        """Return the win rate in hundredths of a percent, or None if no position had a sale."""
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
    """Return warning signs about a result. They don't affect the rank.

    `best_token` is the best token's result.
    """
    signs = []
    if sums.realized > 0 and best_token * 5 > sums.realized * 4:
        signs.append(ONE_TOKEN)
    if sums.flat_pairs >= MIN_FLAT_PAIRS:
        signs.append(FLAT_ROUND_TRIPS)
    return signs
