"""Locks between processes that share a folder: FileLock, and the lock on DATA_DIR itself."""

import fcntl
import os
from pathlib import Path

from filelock import Timeout, UnixFileLock

from storage.trouble import Unusable

# Every process that opens a database in DATA_DIR holds a shared lock on it.
DATA_DIR_LOCK = "open.lock"
_held: int | None = None


class FileLock:
    """A lock between processes. The kernel releases it when the process dies."""

    def __init__(self, path: Path) -> None:
        # Another thread may release it.
        self._path, self._lock = path, UnixFileLock(path, thread_local=False)

    def take(self, wait: bool = False) -> bool:
        """Acquire the lock; return whether it is held now. Raises Unusable if its folder is gone,
        which the library would otherwise create.
        """
        if not self._path.parent.is_dir():
            raise Unusable("gone")
        try:
            self._lock.acquire(blocking=wait)
        except Timeout:
            return False
        return True

    def check(self) -> None:
        """Do nothing: a file lock can't be lost."""

    def release(self) -> None:
        """Release the lock; it can be acquired again."""
        self._lock.release(force=True)


def lock_data_dir(data_dir: Path) -> None:
    """Hold a shared lock on DATA_DIR until this process ends or connects elsewhere.

    Waits while `restore` or `copy` holds it exclusively.
    """
    global _held
    taken = os.open(data_dir / DATA_DIR_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(taken, fcntl.LOCK_SH)
    unlock_data_dir()
    _held = taken


def unlock_data_dir() -> None:
    """Release the lock on DATA_DIR. The database must be closed."""
    global _held
    if _held is not None:
        os.close(_held)
        _held = None
