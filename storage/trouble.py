"""Why the database cannot be read or written just now, in words for people."""

import errno
import shutil
import time
from pathlib import Path

import apsw
from peewee import OperationalError

# What people are told instead of a library's error.
TROUBLES = {
    "disk_full": "the disk of this instance is full",
    "read_only": "the database or its disk is read-only",
    "disk_error": "the disk of this instance fails",
    "locked": "another program keeps the database locked",
    "unreachable": "what this instance keeps its data in cannot be reached",
}
# Bytes: with less free no write is expected to succeed; with this many free, a full disk is tried
# again.
DISK_FLOOR, DISK_ROOM = 128 * 1024, 4 * 1024 * 1024
# A lock that is met again and again for up to this long may be an ordinary write.
LOCKED_SECONDS = 2
CAUSES = (
    (apsw.FullError, "disk_full"),
    (apsw.ReadOnlyError, "read_only"),
    ((apsw.IOError, apsw.CantOpenError), "disk_error"),
    ((apsw.BusyError, apsw.LockedError), "locked"),
)


class TurnMissed(OperationalError):
    """Other writers of this process took longer than the busy timeout."""


def name_trouble(error: BaseException, folder: Path) -> str:
    """Return the key of TROUBLES for an error of reading or writing."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TurnMissed):
            return "locked"
        if type(cause).__name__ in ("DiskFull", "LockNotAvailable"):
            return "disk_full" if type(cause).__name__ == "DiskFull" else "locked"
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "disk_full"
        for kinds, word in CAUSES:
            if isinstance(cause, kinds):
                # A full disk looks like a failing one where a file beside the database cannot grow.
                return (
                    "disk_full" if word == "disk_error" and find_free(folder) < DISK_FLOOR else word
                )
        cause = cause.__cause__ or cause.__context__
    return "unreachable"


def find_free(folder: Path) -> int:
    """Bytes that this process may still write on the disk of `folder`."""
    return shutil.disk_usage(folder).free


class Writes:
    """The outcome of this process's last write: a key of TROUBLES or None, and when.

    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.failed_at = self.done_at = float("-inf")

    def fail(self, trouble: str) -> None:
        """Note why nothing can be written just now."""
        self.trouble, self.failed_at = trouble, time.monotonic()

    def succeed(self) -> None:
        """Note that something was written."""
        self.trouble, self.done_at = None, time.monotonic()
