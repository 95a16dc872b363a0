"""Compute a hook's state after a response: delivered, retried or paused. Pure. Times are in ms."""

from typing import NamedTuple

SECOND_MS, DAY_MS = 1_000, 86_400_000
# How long to wait after one failure, two failures, and so on. The last wait is repeated.
WAITS_SECONDS = (5, 15, 60, 300, 900, 3600)
# The longest wait that a receiver may ask for. After failing for this long, a hook is paused.
MAX_WAIT_SECONDS = 86_400
GONE = 410


class Progress(NamedTuple):
    """`delivered` is the last arrival that the hook has handled."""

    state: str
    delivered: int
    ping: bool
    failures: int
    failing_since: int | None
    due_at: int
    delivered_at: int | None
    last_error: str | None


def is_due(progress: Progress, now: int) -> bool:
    """Whether the hook may be sent something now.

    A working hook doesn't wait. If its wait is longer than the maximum, it was set before a fast
    clock was corrected.
    """
    wait_ms = progress.due_at - now
    return not progress.failures or not 0 < wait_ms <= MAX_WAIT_SECONDS * SECOND_MS


def after_success(progress: Progress, now: int, arrival: int | None) -> Progress:
    """Record an accepted message. If there is no `arrival`, it was a ping."""
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

    The message is retried for at most a day, or not at all if the receiver says that it is gone.
    `wait_seconds` is the wait that the receiver asked for. A failed ping isn't repeated, because
    the requester sees why it failed. A ping that was requested while a message was in flight is
    still sent.
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
