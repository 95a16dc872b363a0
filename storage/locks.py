"""Locks between processes that share a folder: FileLock, and the lock on DATA_DIR itself."""

import fcntl
import os
from pathlib import Path

from filelock import Timeout, UnixFileLock

from storage.trouble import Unusable

# Locked, shared, by every process that may open the database of a DATA_DIR.
DATA_DIR_LOCK = "open.lock"
_held: int | None = None


class FileLock:
    """A lock between processes; the kernel frees it when its process dies."""

    def __init__(self, path: Path) -> None:
        # One thread may take it and another release it.
        self._path, self._lock = path, UnixFileLock(path, thread_local=False)

    def take(self, wait: bool = False) -> bool:
        """Take the lock; return whether it is held now. Unusable if its folder is gone, which the
        library would create again.
        """
        if not self._path.parent.is_dir():
            raise Unusable("gone")
        try:
            self._lock.acquire(blocking=wait)
        except Timeout:
            return False
        return True

    def check(self) -> None:
        """Nothing to check: it cannot be lost."""

    def release(self) -> None:
        """Let another process take the lock; it may be taken again."""
        self._lock.release(force=True)


def lock_data_dir(data_dir: Path) -> None:
    """Hold the lock of DATA_DIR, shared, until this process ends or connects elsewhere.

    Waits while `restore` or `copy` holds it alone.
    """
    global _held
    taken = os.open(data_dir / DATA_DIR_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(taken, fcntl.LOCK_SH)
    unlock_data_dir()
    _held = taken


def unlock_data_dir() -> None:
    """Free the lock of DATA_DIR; the database must be closed."""
    global _held
    if _held is not None:
        os.close(_held)
        _held = None
