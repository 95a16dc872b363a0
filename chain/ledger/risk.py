"""How far realized results fell, by the hour. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

HOURS_A_DAY = 24


def find_drawdown(changes: Iterable[int]) -> int:
    """The deepest fall of a sum that begins at 0, from its highest."""
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
    """The deepest fall of a sum by the hour. `high`, `drawdown`: before the latest hour."""

    hour: int = 0
    realized: int = 0
    high: int = 0
    drawdown: int = 0

    def follow(self, realized: int, hour: int) -> tuple[int, int]:
        """Take the sum so far in an hour, which never falls; return (highest, deepest fall)."""
        if hour != self.hour:
            self.high, self.drawdown = self._measure()
            self.hour = hour
        self.realized = realized
        return self._measure()

    def _measure(self) -> tuple[int, int]:
        return max(self.high, self.realized), max(self.drawdown, self.high - self.realized)


def round_down(seconds: int) -> int:
    """Round down to two significant digits: 3,725 s are 3,700 s."""
    if seconds < 100:
        return seconds
    unit = int(f"1{'0' * (len(str(seconds)) - 2)}")
    return seconds - seconds % unit
