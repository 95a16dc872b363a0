"""Who owns DATA_DIR and what lies in it, and whether this user can read and write it."""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from config import Config
from operate.findings import Finding, fine, look, wrong
from operate.instance import SIDE_FILES
from storage import locks

ROOT = 0
# What the server reads alone; it writes the other files of its own.
READ_ALONE = {"secret_key", "log_key", "programs.csv", "about.txt"}
WRITTEN = "app.db", "ratelimit.db", "jobs.lock", "work.lock", locks.DATA_DIR_LOCK


def check_access(config: Config) -> Iterator[Finding]:
    """Check that this user can use DATA_DIR and the files in it, and that nobody else looks into
    it. Root can use everything, so then the owner of the folder is asked about.
    """
    folder, user = config.data_dir, os.geteuid()
    owner = folder.stat().st_uid
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK) and owner == user:
        yield wrong(
            f"{folder} cannot be written",
            f"chmod 700 {folder}; check that its disk is mounted for writing",
        )
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield wrong(
            f"{folder} belongs to {name_user(owner)}, this is {name_user(user)}: nothing can be"
            " written",
            advise_owner(folder, owner),
        )
    elif is_open(folder):
        yield look(f"other users of this machine can look into {folder}", f"chmod 700 {folder}")
    else:
        yield fine(f"{folder} is writable, and closed to others")
    if user == ROOT != owner:
        yield look(
            f"this is root, and {folder} belongs to {name_user(owner)}",
            f"run commands as {name_user(owner)}: docs/operate.md shows how",
        )
    if os.access(folder, os.X_OK):
        yield from _check_files(folder, owner if user == ROOT else user)


def _check_files(folder: Path, user: int) -> Iterator[Finding]:
    """Name the files that a user cannot use as the server has to."""
    written = {name + side for name in WRITTEN for side in SIDE_FILES}
    paths = [folder / name for name in sorted(written | READ_ALONE) if (folder / name).is_file()]
    closed = [path for path in paths if not _can_use(path, path.name in written, user)]
    for path in (path for path in closed if path.stat().st_uid == user):
        what = "is read-only: nothing can be stored" if _is_readable(path) else "cannot be read"
        yield wrong(
            f"{path} {what}",
            f"chmod 600 {path}; check that its disk is mounted for writing. Nothing is damaged",
        )
    foreign = [path for path in closed if path.stat().st_uid != user]
    if foreign:
        names = ", ".join(path.name for path in foreign)
        owners = " and ".join({name_user(path.stat().st_uid): None for path in foreign})
        yield wrong(
            f"in {folder}, {names} belong to {owners}: {name_user(user)} cannot use them",
            advise_owner(folder, folder.stat().st_uid),
        )


def _is_readable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IRUSR)


def _can_use(path: Path, is_written: bool, user: int) -> bool:
    """Whether a user can read, and write if `is_written`, as far as this process can tell."""
    needed, known = os.R_OK | (os.W_OK if is_written else 0), path.stat()
    # Root can do what no mode allows, and nobody can write where the disk is read-only.
    if known.st_uid == user:
        is_allowed = known.st_mode >> 6 & needed == needed
    else:
        is_allowed = user == os.geteuid() or known.st_mode & needed == needed
    return is_allowed and os.access(path, needed)


def can_look(config: Config) -> bool:
    """Whether this user can read what an examination of DATA_DIR and its database reads."""
    folder = config.data_dir
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    names = [name + side for name in ("app.db", locks.DATA_DIR_LOCK) for side in SIDE_FILES]
    paths = [folder / name for name in names]
    return all(os.access(path, os.R_OK) for path in paths if path.exists())


def advise_owner(folder: Path, owner: int) -> str:
    """Tell how to come to the files of another user."""
    server = "USER" if owner == ROOT else str(owner)
    named = (
        "where USER is the server's" if owner == ROOT else f"if the server is {name_user(owner)}"
    )
    return f"as root: chown -R {server}: {folder} ({named}). Nothing is damaged: restore no backup"


def name_user(number: int) -> str:
    """Return a user's name, and its number where it has none."""
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def is_open(path: Path) -> bool:
    """Whether users other than its owner may read or write a file or folder."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
