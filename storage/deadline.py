"""How long this thread waits for locks: all waits of a request share one deadline.

Threads without a request, such as jobs, have none: there each wait has its own limit alone.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

# What docs/operate.md promises of a request that cannot be stored.
REQUEST_SECONDS = 5
AT_ONCE = -math.inf
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.001, 0.05
# By time.monotonic().
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def begin(moment: float | None = None) -> None:
    """Set the deadline of a request; None: REQUEST_SECONDS from now."""
    _deadline.set(time.monotonic() + REQUEST_SECONDS if moment is None else moment)


def end() -> None:
    """Forget the deadline: the thread's request is answered."""
    _deadline.set(math.inf)


def left(most: float) -> float:
    """Return the seconds that this thread may wait now: `most`, or fewer before its deadline."""
    return max(0.0, min(most, _deadline.get() - time.monotonic()))


def is_patient() -> bool:
    """Tell whether this thread waits for locks at all."""
    return _deadline.get() != AT_ONCE


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let all waits inside end after so many seconds, or at an earlier deadline."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def impatient() -> contextlib.AbstractContextManager[None]:
    """Inside, a locked database is refused at once instead of waited for."""
    return within(AT_ONCE)


class BusyHandler:
    """SQLite's busy handler of one connection: waits at most `seconds()` for a lock, and never
    beyond the thread's deadline.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds, self._left = seconds, 0.0

    def __call__(self, tries: int) -> bool:
        """Pause before SQLite tries again; False: no more time. `tries` were made for this lock."""
        if tries == 0:
            self._left = self._seconds()
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(tries, 10), MAX_PAUSE_SECONDS, left(self._left))
        if pause <= 0:
            return False
        # As SQLite itself does it: clocks that tests stop do not matter.
        self._left -= pause
        time.sleep(pause)
        return True
