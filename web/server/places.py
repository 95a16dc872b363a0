"""Slots for slow responses (CSV files and evidence), so that they can't starve other requests."""

import threading
from collections import Counter
from collections.abc import Callable

from accounts.problem import Problem

# Per process.
MAX_PLACES, MAX_OF_ADDRESS = 6, 2
RETRY_SECONDS = 5


class Places:
    def __init__(self) -> None:
        self._lock, self._held = threading.Lock(), dict[object, str]()

    def take(self, network: str) -> Callable[[], None]:
        """Take a slot, and return a function that releases it. Raises Problem `busy`."""
        place = object()
        with self._lock:
            taken = Counter(self._held.values())
            if taken[network] >= MAX_OF_ADDRESS or len(self._held) >= MAX_PLACES:
                raise Problem(
                    "busy",
                    f"at most {MAX_OF_ADDRESS} large downloads can run at once per address, and"
                    f" {MAX_PLACES} in all; try again when one finishes",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                )
            self._held[place] = network

        def leave() -> None:
            self._held.pop(place, None)

        return leave
