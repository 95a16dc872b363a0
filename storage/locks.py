"""Locks between processes that share a folder: FileLock, and the lock on DATA_DIR itself."""

import fcntl
import os
from pathlib import Path
from typing import IO

from storage.trouble import Unusable

# Locked, shared, by every process that may open the database of a DATA_DIR.
DATA_DIR_LOCK = "open.lock"
_held: int | None = None


class FileLock:
    """A lock between processes; the kernel frees it when its process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Open as long as the lock is held or waited for.
        self._file: IO[str] | None = None

    def take(self, wait: bool = False) -> bool:
        """Take the lock; return whether it is held now. Unusable where its folder is gone."""
        if self._file is None:
            self._file = self._open()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return True
        except BlockingIOError:
            return False

    def _open(self) -> IO[str]:
        try:
            return open(self._path, "w")
        except FileNotFoundError:
            raise Unusable("gone") from None

    def check(self) -> None:
        """Nothing to check: it cannot be lost."""

    def release(self) -> None:
        """Let another process take the lock; it may be taken again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


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
