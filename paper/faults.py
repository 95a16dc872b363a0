"""What could not be played: one trader's or token's trouble is kept beside its name, and the others
go on. Pure.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paper.trader import Trader


class Faults:
    """{(trader id or None, mint or None): the exception}. A trader with a fault is left alone for
    the rest of the pass.

    What such a pass did to the trader is in doubt, and so is what it took from pools: who plays it
    throws the pass away and plays again without the trader, or without the token for the trader.
    `raising` keeps nothing and raises.
    """

    def __init__(self, raising: bool = False) -> None:
        self.found: dict[tuple[int | None, str | None], Exception] = {}
        # the token that is being looked at
        self.mint: str | None = None
        self._raising = raising

    @contextmanager
    def of(self, trader: int | None = None) -> Iterator[None]:
        """Work for a trader: an exception in it is the trader's, and of the token in `mint`."""
        self.mint = None
        try:
            yield
        except Exception as error:
            # Not hidden: who plays logs it with its stack and names it in the diary and in health.
            if self._raising:
                raise
            self.found[trader, self.mint] = error

    def has(self, trader: int) -> bool:
        return any(ident == trader for ident, _ in self.found)

    def spare(self, traders: Sequence["Trader"]) -> Sequence["Trader"]:
        """The traders that have no fault."""
        return [trader for trader in traders if not self.has(trader.id)] if self.found else traders
