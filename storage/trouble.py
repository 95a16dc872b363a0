"""Shared by both engines: snapshots, deadlines, and why the database isn't usable."""

import contextlib
import errno
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import apsw
from peewee import OperationalError

# ---- snapshots -----------------------------------------------------------------------------------
BEGIN_SNAPSHOT = {
    "sqlite": "BEGIN DEFERRED",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


@contextlib.contextmanager
def hold_snapshot(execute: Callable[[str], Any], engine: str) -> Iterator[None]:
    execute(BEGIN_SNAPSHOT[engine])
    try:
        yield
    finally:
        execute("ROLLBACK")


# ---- deadlines -----------------------------------------------------------------------------------
# All waits of a request share one deadline. In threads without a request, such as jobs, each wait
# has only its own timeout.

# docs/operate.md promises this limit for requests that can't be stored.
REQUEST_SECONDS = 5
# How long a write waits for other writers.
BUSY_MS = 5_000
AT_ONCE = -math.inf
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.001, 0.05
# In seconds of time.monotonic().
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def begin_deadline(moment: float | None = None) -> None:
    """By default, the deadline is REQUEST_SECONDS from now."""
    _deadline.set(time.monotonic() + REQUEST_SECONDS if moment is None else moment)


def end_deadline() -> None:
    _deadline.set(math.inf)


def find_left(most: float) -> float:
    """Return how long this thread may wait: `most`, or less if the deadline is sooner."""
    return max(0.0, min(most, _deadline.get() - time.monotonic()))


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit all waits inside to `seconds`, or to an earlier deadline."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def impatient() -> contextlib.AbstractContextManager[None]:
    return within(AT_ONCE)


class BusyHandler:
    """SQLite's busy handler. It waits up to `seconds()`, but not past the thread's deadline."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds, self._left = seconds, 0.0

    def __call__(self, tries: int) -> bool:
        """Sleep before SQLite's next try, or return False when time is up. `tries`: so far."""
        if tries == 0:
            self._left = self._seconds()
        pause = min(
            FIRST_PAUSE_SECONDS * 2 ** min(tries, 10), MAX_PAUSE_SECONDS, find_left(self._left)
        )
        if pause <= 0:
            return False
        # Count sleep times, as SQLite does, so that tests can freeze the clock.
        self._left -= pause
        time.sleep(pause)
        return True


# ---- why it isn't usable -------------------------------------------------------------------------
# Shown instead of a library's error.
TROUBLES = {
    "disk_full": "the server disk is full",
    "read_only": "the database or its disk is read-only",
    "disk_error": "the server disk is failing",
    "gone": "the data folder was removed or replaced",
    "locked": "another program keeps the database locked",
    "unreachable": "the database can't be reached",
}
# Free bytes. With less than DISK_FLOOR, assume that writes fail. After a full disk, retry once
# there is DISK_ROOM.
DISK_FLOOR, DISK_ROOM = 128 * 1024, 4 * 1024 * 1024
# A lock that is seen repeatedly for up to this long may be an ordinary write.
LOCKED_SECONDS = 2
CAUSES = (
    (apsw.FullError, "disk_full"),
    (apsw.ReadOnlyError, "read_only"),
    ((apsw.IOError, apsw.CantOpenError), "disk_error"),
    ((apsw.BusyError, apsw.LockedError), "locked"),
)
# By name, because psycopg is optional.
PSYCOPG_TROUBLES = {"DiskFull": "disk_full", "LockNotAvailable": "locked"}


class Unusable(OperationalError):
    """The database isn't usable now. `trouble` is a key of TROUBLES."""

    def __init__(self, trouble: str) -> None:
        super().__init__(TROUBLES[trouble])
        self.trouble = trouble


def name_trouble(error: BaseException, folder: Path) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Unusable):
            return cause.trouble
        if word := PSYCOPG_TROUBLES.get(type(cause).__name__):
            return word
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "disk_full"
        for kinds, word in CAUSES:
            if isinstance(cause, kinds):
                return _look_at_disk(folder) if word == "disk_error" else word
        cause = cause.__cause__ or cause.__context__
    return "unreachable"


def _look_at_disk(folder: Path) -> str:
    """Tell a failing disk from a full one, on which files can't grow, and a missing folder."""
    free = find_free(folder)
    if free is None:
        return "gone"
    return "disk_full" if free < DISK_FLOOR else "disk_error"


def find_free(folder: Path) -> int | None:
    """Return the free bytes on a folder's disk, or None if the folder is missing."""
    try:
        return shutil.disk_usage(folder).free
    except FileNotFoundError:
        return None


# Device and inode.
Identity = tuple[int, int]


def identify(path: Path | str) -> Identity | None:
    """Distinguish a file from its replacement. Return None if it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Writes:
    """This process's last write: a key of TROUBLES or None, and its time.monotonic()."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.failed_at = self.done_at = float("-inf")

    def fail(self, trouble: str) -> None:
        # If the caller doesn't wait, a lock isn't a failure.
        if trouble != "locked" or _deadline.get() != AT_ONCE:
            self.trouble, self.failed_at = trouble, time.monotonic()

    def succeed(self) -> None:
        self.trouble, self.done_at = None, time.monotonic()
