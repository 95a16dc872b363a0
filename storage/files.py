"""Files and folders that survive a power cut."""

import contextlib
import os
import stat
from pathlib import Path

# Device and inode.
Identity = tuple[int, int]


def sync(path: Path) -> None:
    """fsync a file's content, or a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def identify(path: Path | str) -> Identity | None:
    """Return what distinguishes a file from its replacement; None if it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_folder(path: Path) -> None:
    """Create a folder (mode 0700) and missing parents.

    Sync each parent, or a power cut could lose the folder with its contents.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        # A user may be able to add entries to a folder without being able to read it.
        with contextlib.suppress(PermissionError):
            sync(one.parent)


# Files that commands create in DATA_DIR. Others belong to the operator.
MADE = (
    *("app.db*", "*.lock", "ratelimit.db*", "secret_key", "log_key"),
    *("backups", "backups/*"),
)


def give_to_owner(folder: Path) -> None:
    """As root, hand files that root created in another user's DATA_DIR to that user, because the
    server couldn't use them. SQLite does this for its journal files.
    """
    if os.geteuid() != 0 or not folder.is_dir() or folder.stat().st_uid == 0:
        return
    owner = folder.stat()
    for path in (path for pattern in MADE for path in folder.glob(pattern)):
        # A file may vanish in the meantime. Skip hard links and symlinks, which may lead to files
        # outside.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if found.st_uid == 0 and (is_plain or stat.S_ISDIR(found.st_mode)):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
