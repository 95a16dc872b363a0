"""Files and folders that a power cut must not take."""

import contextlib
import os
from pathlib import Path


def sync(path: Path) -> None:
    """Bring to the disk what a file holds, or the names that a folder holds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
