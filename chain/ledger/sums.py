"""Running totals that can be subtracted: a window is the difference of two of them. Pure."""

from collections.abc import Iterable
from operator import attrgetter, sub
from typing import NamedTuple

from chain.ledger.reconciliation import Totals


class Sums(NamedTuple):
    """Columns of `running_total`: counts, and raw units of the money. Only SOL has `failed` to
    `overhead` and `carried`, only stablecoins `fee_lamports` and `cross_sells` (paid elsewhere).
    """

    realized: int = 0
    cost: int = 0
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

    def minus(self, before: "Sums") -> "Sums":
        return Sums._make(map(sub, self, before))


NOTHING = Sums()
_read = attrgetter(*Sums._fields)


def read_sums(totals: Totals) -> Sums:
    return Sums._make(_read(totals))


def add_up(parts: Iterable[Sums]) -> Sums:
    listed = list(parts)
    return Sums(*map(sum, zip(*listed, strict=True))) if listed else NOTHING
