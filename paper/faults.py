"""Isolate exceptions, so that a fault of one trader or token does not stop the others. Pure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from paper.trader import Trader


class OwnFault(Exception):
    """A strategy file of the operator failed; the message is a sentence for a diary."""


class FaultKey(NamedTuple):
    """Whom a fault concerns: a trader, a token, or a token for one trader only."""

    trader: int | None
    mint: str | None


class Faults:
    """The exceptions of one pass, by the trader and the token they happened with.

    A trader with a fault is skipped for the rest of the pass. What the pass did to it is in doubt,
    and so is what it took from pools: the caller discards the pass and plays it again without the
    trader, or without the token for the trader. With `raising`, exceptions are raised instead.
    """

    def __init__(self, raising: bool = False) -> None:
        self.found: dict[FaultKey, Exception] = {}
        # The token being worked on.
        self.mint: str | None = None
        self._raising = raising

    @contextmanager
    def isolate(self, trader: int | None = None) -> Iterator[None]:
        """Keep an exception raised inside as a fault of the trader and of the token in `mint`."""
        self.mint = None
        try:
            yield
        except Exception as error:
            # The caller logs it with its stack and names it in the diary and in health.
            if self._raising:
                raise
            self.found[FaultKey(trader, self.mint)] = error

    def has(self, trader: int) -> bool:
        """Whether something went wrong with this trader."""
        return any(key.trader == trader for key in self.found)

    def skip_faulty(self, traders: Sequence["Trader"]) -> Sequence["Trader"]:
        """Return the traders that have no fault."""
        return [trader for trader in traders if not self.has(trader.id)] if self.found else traders
