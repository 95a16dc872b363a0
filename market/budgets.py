"""What price services are asked in a day, beside what their published limits allow. Pure."""

from dataclasses import dataclass
from typing import Any

from market.rules import DAY_MS

MINUTES_OF_DAY = 1_440
USED_UP = "the requests it allows in a day are used up, and it is asked again from 00:00 UTC on"


@dataclass
class Budget:
    """What a provider was asked on a UTC day, which is counted from 1970.

    `held_back`: how often its limits made requests wait for a later pass on that day, the last time
    at `held_back_at` (ms).
    """

    requests_per_minute: int
    day: int = 0
    requests: int = 0
    held_back: int = 0
    held_back_at: int | None = None

    @property
    def allowed(self) -> int:
        """The requests that its published limits allow in a day."""
        return self.requests_per_minute * MINUTES_OF_DAY

    def count(self, now_ms: int) -> None:
        """Count a request."""
        self._turn(now_ms)
        self.requests += 1

    def hold_back(self, now_ms: int) -> None:
        """Note that requests have to wait."""
        self._turn(now_ms)
        self.held_back, self.held_back_at = self.held_back + 1, now_ms

    def is_used_up(self, now_ms: int) -> bool:
        """Tell whether nothing is left of the day."""
        self._turn(now_ms)
        return self.requests >= self.allowed

    def _turn(self, now_ms: int) -> None:
        """Begin at 0 where a new day has begun."""
        if self.day != now_ms // DAY_MS:
            self.day, self.requests = now_ms // DAY_MS, 0
            self.held_back, self.held_back_at = 0, None

    def show(self, now_ms: int) -> dict[str, int | None]:
        """Make the health of the budget as it stands on the day of `now_ms`."""
        self._turn(now_ms)
        return {
            "day": self.day,
            "requests": self.requests,
            "allowed": self.allowed,
            "heldBack": self.held_back,
            "heldBackAt": self.held_back_at,
        }

    def restore(self, shown: dict[str, Any]) -> None:
        """Take over what was shown before a restart."""
        self.day, self.requests = shown.get("day", 0), shown.get("requests", 0)
        self.held_back, self.held_back_at = shown.get("heldBack", 0), shown.get("heldBackAt")
