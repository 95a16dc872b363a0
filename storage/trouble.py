"""Why the database isn't readable or writable, in plain words."""

import errno
import shutil
import time
from pathlib import Path

import apsw
from peewee import OperationalError

# Messages shown instead of a library's error.
TROUBLES = {
    "disk_full": "the disk of this instance is full",
    "read_only": "the database or its disk is read-only",
    "disk_error": "the disk of this instance is failing",
    "gone": "the data folder of this instance was removed or replaced",
    "locked": "another program keeps the database locked",
    "unreachable": "the database of this instance cannot be reached",
}
# Bytes: with less free space, assume writes fail; with this much, retry after a full disk.
DISK_FLOOR, DISK_ROOM = 128 * 1024, 4 * 1024 * 1024
# A lock seen repeatedly for up to this long may be an ordinary write.
LOCKED_SECONDS = 2
CAUSES = (
    (apsw.FullError, "disk_full"),
    (apsw.ReadOnlyError, "read_only"),
    ((apsw.IOError, apsw.CantOpenError), "disk_error"),
    ((apsw.BusyError, apsw.LockedError), "locked"),
)


class Unusable(OperationalError):
    """The database isn't usable now. `trouble`: a key of TROUBLES."""

    def __init__(self, trouble: str) -> None:
        super().__init__(TROUBLES[trouble])
        self.trouble = trouble


def name_trouble(error: BaseException, folder: Path) -> str:
    """Return the key of TROUBLES for a read or write error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Unusable):
            return cause.trouble
        if type(cause).__name__ in ("DiskFull", "LockNotAvailable"):
            return "disk_full" if type(cause).__name__ == "DiskFull" else "locked"
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "disk_full"
        for kinds, word in CAUSES:
            if isinstance(cause, kinds):
                return _look_at_disk(folder) if word == "disk_error" else word
        cause = cause.__cause__ or cause.__context__
    return "unreachable"


def _look_at_disk(folder: Path) -> str:
    """Distinguish a failing disk from a full one, where files next to the database can't grow, and
    from a missing folder.
    """
    free = find_free(folder)
    if free is None:
        return "gone"
    return "disk_full" if free < DISK_FLOOR else "disk_error"


def find_free(folder: Path) -> int | None:
    """Return the free bytes on `folder`'s disk; None if the folder is gone."""
    try:
        return shutil.disk_usage(folder).free
    except FileNotFoundError:
        return None


class Writes:
    """The outcome of this process's last write: a key of TROUBLES or None, and when.

    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.failed_at = self.done_at = float("-inf")

    def fail(self, trouble: str) -> None:
        """Record why writing fails."""
        self.trouble, self.failed_at = trouble, time.monotonic()

    def succeed(self) -> None:
        """Record a successful write."""
        self.trouble, self.done_at = None, time.monotonic()
