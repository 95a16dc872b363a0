"""Books that close to the lamport: what became of a wallet's money, each item summed by its own
rule, and the difference that must be zero. Pure.
"""

from dataclasses import dataclass
from typing import NamedTuple

from chain.ledger.lots import Booked
from chain.reading.kinds import TRADES

# Kinds whose SOL was received or sent; what moves in any other kind that is no trade is `other`.
TRANSFERS = frozenset(
    (
        *("native_transfer", "transfer_in", "transfer_out", "transfer_self"),
        *("account_open", "account_close"),
    )
)


class Reconciliation(NamedTuple):
    """What became of a wallet's money, in lamports, but for `cost_left_receipts`, a count.

    `opening`: own accounts before their first transaction; `closing`: after the last; `open_cost`:
    known cost of the lots that are left; `cost_left`: known cost of lots that left without a sale;
    `other`: moved by what is neither a trade nor a transfer, or has no known cost; `gaps`: moved
    where transactions are missing.
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
        """What the items leave unexplained; 0 where no transaction is missing."""
        explained = (
            *(self.realized, self.unmatched_proceeds, -self.open_cost, -self.cost_left),
            *(self.received, -self.sent, -self.overhead, -self.failed_cost, self.other),
        )
        return self.closing - self.opening - sum(explained)

    @property
    def imbalance(self) -> int:
        """The difference less what gaps moved: anything but 0 is a defect of this program."""
        return self.difference - self.gaps


@dataclass
class Totals:
    """Running sums over the transactions of a wallet: lamports and counts.

    `cost`: known cost of what sales with a result sold, round trips left out; `carried`: lots that
    took over the cost of what a swap gave for them; `gaps`: lamports by which balances moved
    between two transactions that do not join.
    """

    realized: int = 0
    cost: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    volume: int = 0
    trades: int = 0
    carried: int = 0
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

    def add(self, booked: Booked) -> None:
        """Count one booked transaction in."""
        entry = booked.entry
        self.received += entry.sponsored
        self._transfer(entry.beside_sol)
        self.cost_left += booked.cost_left
        self.cost_left_receipts += bool(booked.cost_left)
        self.other += booked.other
        if entry.kind == "failed":
            self.failed += 1
            self.failed_cost += entry.fee
            self.other += entry.venue_sol + entry.fee
        elif entry.kind in TRADES:
            self._add_trade(booked)
        else:
            self._add_other(booked)

    def _add_trade(self, booked: Booked) -> None:
        if not booked.counts:
            return
        result, status = booked.result or 0, booked.status
        self.trades += 1
        self.carried += booked.carried
        if booked.entry.kind in ("buy", "sell"):
            self.volume += abs(booked.entry.venue_sol)
        if "incomplete_history" in booked.flags:
            return
        self.matched += status == "matched"
        self.partial += status == "partial"
        self.unmatched += status == "unmatched"
        self.realized += result
        self.cost += booked.cost or 0
        self.winning += result > 0
        self.unmatched_proceeds += booked.unmatched_proceeds

    def _add_other(self, booked: Booked) -> None:
        """Fees and tips of all that is no trade are overhead; the rest is by kind."""
        entry = booked.entry
        costs = entry.fee + entry.tip
        self.overhead += costs
        self.carried += booked.carried
        if entry.kind in TRANSFERS:
            self._transfer(entry.venue_sol + costs)
        else:
            self.other += entry.venue_sol + costs

    def _transfer(self, lamports: int) -> None:
        if lamports > 0:
            self.received += lamports
        else:
            self.sent -= lamports

    def reconcile(self, open_cost: int) -> Reconciliation:
        """The sums beside the known cost of the lots that are left, in lamports."""
        return Reconciliation(
            opening=self.opening,
            closing=self.closing,
            realized=self.realized,
            unmatched_proceeds=self.unmatched_proceeds,
            open_cost=open_cost,
            cost_left=self.cost_left,
            cost_left_receipts=self.cost_left_receipts,
            received=self.received,
            sent=self.sent,
            overhead=self.overhead,
            failed_cost=self.failed_cost,
            other=self.other,
            gaps=self.gaps,
        )
