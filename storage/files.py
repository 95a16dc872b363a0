"""Create files and folders that survive a power cut, and locks between processes that share a
folder.
"""

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from filelock import Timeout, UnixFileLock, lock_descriptor

from storage.trouble import Unusable

# ---- locks ---------------------------------------------------------------------------------------
# Every process that opens a database in DATA_DIR holds a shared lock on it.
DATA_DIR_LOCK = "open.lock"
_held: int | None = None


class FileLock:
    """A lock between processes. The kernel releases it when its process dies."""

    def __init__(self, path: Path) -> None:
        # The lock may be released by another thread.
        self._path, self._lock = path, UnixFileLock(path, thread_local=False)

    def take(self, wait: bool = False) -> bool:
        """Acquire the lock, and return whether this process has it now.

        Raises Unusable if its folder is missing, because the library would create it.
        """
        if not self._path.parent.is_dir():
            raise Unusable("gone")
        try:
            self._lock.acquire(blocking=wait)
        except Timeout:
            return False
        return True

    def check(self) -> None:
        """Do nothing, because a file lock can't be lost."""

    def release(self) -> None:
        self._lock.release(force=True)


def is_locked(path: Path) -> bool:
    """Return whether a process has this file locked, exclusively or shared."""
    try:
        with open(path) as file:
            return not lock_descriptor(file.fileno(), blocking=False)
    except FileNotFoundError:
        return False


def lock_data_dir(data_dir: Path) -> None:
    """Hold a shared lock on DATA_DIR until this process ends or connects elsewhere.

    Waits while `restore` or `copy` has an exclusive lock.
    """
    global _held
    taken = os.open(data_dir / DATA_DIR_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(taken, fcntl.LOCK_SH)
    unlock_data_dir()
    _held = taken


def unlock_data_dir() -> None:
    """Release the lock on DATA_DIR. The database must be closed first."""
    global _held
    if _held is not None:
        os.close(_held)
        _held = None


# ---- files ---------------------------------------------------------------------------------------


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder (mode 0700) and its missing parents.

    Each parent is synced, because otherwise a power cut could lose the folder and its contents.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        # A user may have permission to add entries to a folder without being able to read it.
        with contextlib.suppress(PermissionError):
            sync(one.parent)


# Files that commands create in DATA_DIR. All others belong to the operator.
MADE = (
    *("app.db*", "*.lock", "ratelimit.db*", "secret_key", "log_key"),
    *("backups", "backups/*"),
)


def give_to_owner(folder: Path) -> None:
    """Change the owner of files that root created in another user's DATA_DIR.

    Otherwise that user's server couldn't use them. SQLite does the same for its journal files.
    """
    if os.geteuid() != 0 or not folder.is_dir() or folder.stat().st_uid == 0:
        return
    owner = folder.stat()
    for path in (path for pattern in MADE for path in folder.glob(pattern)):
        # A file may be deleted at any time. Skip hard links and symlinks, because they may lead to
        # files outside.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if found.st_uid == 0 and (is_plain or stat.S_ISDIR(found.st_mode)):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
