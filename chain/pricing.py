"""What a sale earned: its proceeds shared over the lots that it took. Pure."""

from typing import NamedTuple

from chain.average import is_dust
from chain.lots import Slice, share


class Price(NamedTuple):
    """What a sale earned, in lamports and raw units, as a Booked has it."""

    status: str
    result: int | None
    proceeds: int | None
    cost: int | None
    matched: int
    unmatched: int
    unmatched_proceeds: int


def price_sale(slices: list[Slice], amount: int, proceeds: int) -> Price:
    """Price a sale: proceeds are shared by quantity, and only lots of known cost have a result."""
    matched = gross = cost = 0
    shares = share(proceeds, [one.amount for one in slices])
    for (_, quantity, spent), part in zip(slices, shares, strict=True):
        if spent is not None:
            matched, gross, cost = matched + quantity, gross + part, cost + spent
    if not matched:
        return Price("unmatched", None, None, None, 0, amount, proceeds)
    status, rest = "matched" if is_dust(amount - matched, amount) else "partial", amount - matched
    return Price(status, gross - cost, gross, cost, matched, rest, proceeds - gross)
