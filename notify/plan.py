"""What becomes of a hook after an answer: delivered, tried again, paused. Pure; times in ms."""

from typing import NamedTuple

SECOND_MS, DAY_MS = 1_000, 86_400_000
# Waits after one failure, two, and so on; the last one is kept.
WAITS_SECONDS = (5, 15, 60, 300, 900, 3600)
# The longest that a receiver may ask to be left alone: after that a hook that fails is paused.
MAX_WAIT_SECONDS = 86_400
GONE = 410


class Progress(NamedTuple):
    """How far a hook is. `delivered`: the arrival up to which it was told everything."""

    state: str
    delivered: int
    ping: bool
    failures: int
    failing_since: int | None
    due_at: int
    delivered_at: int | None
    last_error: str | None


def is_due(progress: Progress, now: int) -> bool:
    """Tell whether a hook may be sent something.

    One that works waits for nothing, and a wait longer than any was begun by a clock that ran
    ahead and was set back since.
    """
    wait_ms = progress.due_at - now
    return not progress.failures or not 0 < wait_ms <= MAX_WAIT_SECONDS * SECOND_MS


def after_success(progress: Progress, now: int, arrival: int | None) -> Progress:
    """Note an accepted message; without an `arrival` it was a ping."""
    return progress._replace(
        state="active",
        delivered=progress.delivered if arrival is None else arrival,
        ping=False if arrival is None else progress.ping,
        failures=0,
        failing_since=None,
        due_at=now,
        delivered_at=now,
        last_error=None,
    )


def after_failure(
    progress: Progress,
    now: int,
    status: int | None,
    error: str,
    wait_seconds: int = 0,
    is_ping: bool = False,
) -> Progress:
    """Note a refused message: it is tried again later, and no more after a day, or at once where
    the receiver says that it is gone. `wait_seconds`: it asked to be left alone for so long.

    A ping that fails is not repeated: who asked for it sees why. One that was asked for while a
    message was under way is still to come.
    """
    since = now if progress.failing_since is None else progress.failing_since
    noted = progress._replace(failures=progress.failures + 1, failing_since=since, last_error=error)
    if is_ping:
        due_at = max(progress.due_at, now + wait_seconds * SECOND_MS)
        return noted._replace(ping=False, due_at=due_at)
    if status == GONE or now - since >= DAY_MS:
        return noted._replace(state="paused")
    wait = WAITS_SECONDS[min(progress.failures, len(WAITS_SECONDS) - 1)]
    return noted._replace(due_at=now + max(wait, wait_seconds) * SECOND_MS)
