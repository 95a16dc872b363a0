"""Files and folders that a power cut must not take."""

import contextlib
import os
import stat
from pathlib import Path

# Device and inode.
Identity = tuple[int, int]


def sync(path: Path) -> None:
    """Bring to the disk what a file holds, or the names that a folder holds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def identify(path: Path | str) -> Identity | None:
    """Return what tells a file from another one that takes its place, None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_folder(path: Path) -> None:
    """Make a folder for this user alone (mode 0700) where there is none, with those above it.

    Without a sync of what is above it, a power cut takes the folder with all that is in it.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        # Who may add to a folder may not always read it.
        with contextlib.suppress(PermissionError):
            sync(one.parent)


# What commands make in DATA_DIR; what else lies there is the operator's own.
MADE = (
    *("app.db*", "*.lock", "ratelimit.db*", "secret_key", "log_key"),
    *("backups", "backups/*"),
)


def give_to_owner(folder: Path) -> None:
    """As root, give what root made in a DATA_DIR of another user to that user: the server could not
    use it. SQLite does so with the files beside a database.
    """
    if os.geteuid() != 0 or not folder.is_dir() or folder.stat().st_uid == 0:
        return
    owner = folder.stat()
    for path in (path for pattern in MADE for path in folder.glob(pattern)):
        # One may go meanwhile. A file of two names may be anybody's, and a link leads anywhere.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if found.st_uid == 0 and (is_plain or stat.S_ISDIR(found.st_mode)):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
