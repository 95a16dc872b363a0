"""Books that balance to the lamport: each item is summed by its own rule. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from chain.ledger.inventory import SOL
from chain.ledger.sales import AGAINST, INCOMPLETE, PAID_ELSEWHERE, Booked
from chain.reading.kinds import TRADES

# Kinds that receive or send SOL. Any other kind that isn't a trade counts as `other`.
TRANSFERS = frozenset(
    (
        *("native_transfer", "transfer_in", "transfer_out", "transfer_self"),
        *("account_open", "account_close"),
    )
)


class Reconciliation(NamedTuple):
    """What became of a wallet's SOL, in lamports, except `cost_left_receipts`, a count.

    `opening`, `closing`: own accounts before their first and after the last transaction;
    `open_cost`, `cost_left`: known cost of lots held, and of lots that left without a sale;
    `other`: not moved by a trade or transfer, or at unknown cost; `gaps`: moved by missing
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
        """The amount the items don't explain; 0 if no transaction is missing."""
        explained = (
            *(self.realized, self.unmatched_proceeds, -self.open_cost, -self.cost_left),
            *(self.received, -self.sent, -self.overhead, -self.failed_cost, self.other),
        )
        return self.closing - self.opening - sum(explained)

    @property
    def imbalance(self) -> int:
        """The difference minus what gaps moved. Anything but 0 is a bug."""
        return self.difference - self.gaps


@dataclass
class Totals:
    """Running sums over the transactions of a wallet, in raw units of a money, and counts. Some
    are the columns of `running_total` (ledger.sums); `gaps`: money by which balances moved between
    two transactions that do not join; the rest as in a Reconciliation.
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
        """Add what was booked in this currency."""
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
        """Add a non-trade entry: its fees and tips are overhead; the rest goes by kind."""
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
        """Reconcile. `open_cost`: known cost of the remaining lots."""
        kept = {name: getattr(self, name) for name in Reconciliation._fields if name != "open_cost"}
        return Reconciliation(open_cost=open_cost, **kept)
