"""Places for answers that take long, tables and evidence: there are few, for everybody's sake."""

import threading
from collections import Counter
from collections.abc import Callable

from accounts.problem import Problem

# Of one process.
MAX_PLACES, MAX_OF_ADDRESS = 6, 2
RETRY_SECONDS = 5


class Places:
    """Who holds a place, by address."""

    def __init__(self) -> None:
        self._lock, self._held = threading.Lock(), dict[object, str]()

    def take(self, network: str) -> Callable[[], None]:
        """Take a place for an address, and return what gives it back, however often it is called.
        Problem `busy` if none is free.
        """
        place = object()
        with self._lock:
            taken = Counter(self._held.values())
            if taken[network] >= MAX_OF_ADDRESS or len(self._held) >= MAX_PLACES:
                raise Problem(
                    "busy",
                    f"at most {MAX_OF_ADDRESS} large downloads run at once for an address, and"
                    f" {MAX_PLACES} in all; try again when one is done",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                )
            self._held[place] = network

        def leave() -> None:
            self._held.pop(place, None)

        return leave
