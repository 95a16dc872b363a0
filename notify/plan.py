"""A hook's state after a response: delivered, retried, paused. Pure; times in ms."""

from typing import NamedTuple

SECOND_MS, DAY_MS = 1_000, 86_400_000
# Waits after one failure, after two, and so on. The last one is repeated.
WAITS_SECONDS = (5, 15, 60, 300, 900, 3600)
# The longest wait that a receiver may request. After it, a failing hook is paused.
MAX_WAIT_SECONDS = 86_400
GONE = 410


class Progress(NamedTuple):
    """A hook's progress. `delivered`: the last arrival that it has handled."""

    state: str
    delivered: int
    ping: bool
    failures: int
    failing_since: int | None
    due_at: int
    delivered_at: int | None
    last_error: str | None


def is_due(progress: Progress, now: int) -> bool:
    """Return whether the hook may be sent something.

    A working hook doesn't wait. A wait longer than the maximum was set by a fast clock that was
    corrected since.
    """
    wait_ms = progress.due_at - now
    return not progress.failures or not 0 < wait_ms <= MAX_WAIT_SECONDS * SECOND_MS


def after_success(progress: Progress, now: int, arrival: int | None) -> Progress:
    """Record an accepted message. Without an `arrival`, it was a ping."""
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
    """Record a rejected message.

    It is retried later, for at most a day, or not at all if the receiver says that it is gone.
    `wait_seconds`: the requested wait. A failed ping isn't repeated, because its requester sees the
    reason. A ping requested while a message was in flight is still sent.
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
