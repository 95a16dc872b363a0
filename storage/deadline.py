"""Lock timeouts of the current thread: all waits of a request share one deadline.

Threads without a request, such as jobs, have no deadline, only each wait's own timeout.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

# docs/operate.md promises this for requests that can't be stored.
REQUEST_SECONDS = 5
AT_ONCE = -math.inf
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.001, 0.05
# On the time.monotonic() clock.
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def begin(moment: float | None = None) -> None:
    """Set the deadline of a request, by default REQUEST_SECONDS from now."""
    _deadline.set(time.monotonic() + REQUEST_SECONDS if moment is None else moment)


def end() -> None:
    """Clear the deadline after the request."""
    _deadline.set(math.inf)


def left(most: float) -> float:
    """Return the seconds this thread may wait: `most`, or less if the deadline is closer."""
    return max(0.0, min(most, _deadline.get() - time.monotonic()))


def is_patient() -> bool:
    """Whether this thread waits for locks at all."""
    return _deadline.get() != AT_ONCE


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit all waits inside to `seconds` or an earlier deadline."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def impatient() -> contextlib.AbstractContextManager[None]:
    """Inside, fail immediately if the database is locked."""
    return within(AT_ONCE)


class BusyHandler:
    """SQLite's busy handler for a connection: waits up to `seconds()` for a lock, but not past the
    thread's deadline.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds, self._left = seconds, 0.0

    def __call__(self, tries: int) -> bool:
        """Sleep before SQLite's next try. Return False when time is up. `tries`: tries so far."""
        if tries == 0:
            self._left = self._seconds()
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(tries, 10), MAX_PAUSE_SECONDS, left(self._left))
        if pause <= 0:
            return False
        # Count sleep times, as SQLite does, so that a frozen clock in tests doesn't matter.
        self._left -= pause
        time.sleep(pause)
        return True
