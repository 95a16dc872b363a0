"""A custom strategy for paper traders: buy a token that fell while its liquidity stays stable, and
sell it once it has regained half of the drop. See docs/own-strategies.md.
"""

from dataclasses import dataclass

from paper.strategies import ONE, Enter, Exit, Refusal, Strategy, setting


@dataclass(frozen=True, kw_only=True)
class DipBuyer(Strategy):
    """Settings are whole numbers: default, lowest, highest."""

    lookback: int = setting(5, 2, 13)
    # Basis points: 1,000 are 10%.
    fall_bps: int = setting(1_000, 100, 9_000)
    gain_bps: int = setting(500, 50, 9_000)

    def enter(self, view):
        """Return Enter, Refusal (recorded in the diary) or None."""
        if len(view.window) <= self.lookback:
            return None
        before, last = view.window[-1 - self.lookback], view.last
        if last.price * ONE > before.price * (ONE - self.fall_bps):
            return None
        if last.liquidity is None:
            return Refusal("liquidity_unknown", "it's unknown whether liquidity holds")
        if before.liquidity and last.liquidity * 10 < before.liquidity * 9:
            return Refusal("liquidity_falling", "liquidity is falling with the price")
        return Enter("dip", f"fell over {self.lookback} snapshots while liquidity holds")

    def leave(self, view, position):
        """Return Exit or None. A `stop` or `trailing_stop` sells at any price the pool pays."""
        if view.last.price * ONE >= position.entry_price * (ONE + self.gain_bps):
            return Exit("made_up")
        # The stop and the time stop that all families share.
        return self.leave_late(view, position)


STRATEGY = DipBuyer
