"""What a sale earned: its proceeds shared over the lots that it took. Pure."""

from chain.average import is_dust
from chain.inventory import sum_known
from chain.lots import Booked, Slice, share


def price_sale(rest: Booked, slices: list[Slice], amount: int) -> Booked:
    """Price a sale: proceeds are shared by quantity, and only lots of known cost have a result."""
    proceeds = rest.entry.venue_sol
    shares = share(proceeds, [one.amount for one in slices])
    known = [(one, part) for one, part in zip(slices, shares, strict=True) if one.cost is not None]
    if not known:
        return rest._replace(status="unmatched", unmatched=amount, unmatched_proceeds=proceeds)
    matched, gross = sum(one.amount for one, _ in known), sum(part for _, part in known)
    cost = sum_known(one for one, _ in known)
    return rest._replace(
        status="matched" if is_dust(amount - matched, amount) else "partial",
        result=gross - cost,
        proceeds=gross,
        cost=cost,
        matched=matched,
        unmatched=amount - matched,
        unmatched_proceeds=proceeds - gross,
    )
