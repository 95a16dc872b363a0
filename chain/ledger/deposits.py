"""What a wallet deposited at venues and got back, and which order fills have a price. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from chain.ledger.inventory import Escrow
from chain.ledger.sales import UNEXPLAINED, Fill
from chain.reading.entries import Entry
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.kinds import TRADES
from chain.reading.quotes import MONEY


@dataclass
class Deposits:
    """Raw units by (venue's account, mint), lamports under wrapped SOL: any mint at order books,
    SOL and stablecoins in orders and at lenders.
    """

    held: dict[tuple[str, str], int] = field(default_factory=dict)
    # By mint, the sum of positive amounts.
    parked: Counter[str] = field(default_factory=Counter)

    def follow(self, entry: Entry) -> Entry:
        """Book an entry. Return it without a price if it is a trade at an order book that still has
        some of the wallet's deposits: the venue may have paid those out.
        """
        is_priced = entry.kind in TRADES and UNEXPLAINED not in entry.flags
        if is_priced and any([self.held.get(row[:2], 0) > 0 for row in entry.others]):
            entry = entry._replace(flags=tuple(sorted({*entry.flags, UNEXPLAINED})))
            is_priced = False
        if not is_priced:
            self._follow_others(entry)
        for address, mint, raw in entry.parked:
            self._change((address, mint), raw, entry.kind == "lending")
        return entry

    def _follow_others(self, entry: Entry) -> None:
        is_order = entry.kind.startswith("order_")
        for address, mint, before, after in entry.others:
            if not is_order or (mint in MONEY and (entry.kind == "order_open" or after < before)):
                self._change((address, mint), after - before)

    def _change(self, key: tuple[str, str], amount: int, borrowed: bool = False) -> None:
        """`borrowed`: the amount may fall below 0, since a loan is repaid later."""
        held = self.held.get(key, 0)
        left = held + amount
        self.parked[key[1]] += max(0, left) - max(0, held)
        if left > 0 or (left and borrowed):
            self.held[key] = left
        else:
            self.held.pop(key, None)

    def read_fill(self, entry: Entry, escrows: Mapping[str, Escrow]) -> Fill | None:
        """Return a fill's price; None if a third party may have paid, or the order's opening wasn't
        observed.
        """
        if entry.kind != "order_fill" or UNEXPLAINED in entry.flags:
            return None
        returned: Counter[str] = Counter()
        for address, mint, before, after in entry.others:
            escrow = escrows.get(address)
            is_ours = (address, mint) in self.held or (escrow and escrow.mint == mint)
            if before > after and is_ours:
                returned[mint] += before - after
            elif mint == WRAPPED_SOL and not after:
                return None
        gains = {mint: change for mint, change, _ in entry.venue_tokens}
        gains[WRAPPED_SOL] = entry.venue_sol - returned[WRAPPED_SOL]
        return _price_fill(gains, returned, dict(entry.market))


def _price_fill(
    gains: Mapping[str, int], returned: Counter[str], market: Mapping[str, int]
) -> Fill | None:
    """Whether swaps paid everything that was gained, and used only what left the order."""
    tokens = [mint for mint in gains if mint != WRAPPED_SOL]
    given = [mint for mint in returned if mint != WRAPPED_SOL]
    is_paid = all(gain <= max(0, market.get(mint, 0)) for mint, gain in gains.items())
    is_gain = all(gains[mint] > 0 for mint in tokens) and len(tokens) <= 1 and len(given) <= 1
    took = {mint: -raw for mint, raw in market.items() if raw < 0}
    is_ours = bool(took) and all(raw <= returned[mint] for mint, raw in took.items())
    if not (is_paid and is_gain and is_ours):
        return None
    if tokens and given:
        return Fill("order_fill", returned)
    if tokens and gains[WRAPPED_SOL] < 0:
        return Fill("buy", returned)
    return Fill("sell", returned) if given and gains[WRAPPED_SOL] > 0 else None
