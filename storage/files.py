"""Files and folders that survive a power failure, and locks between processes sharing a folder."""

import contextlib
import fcntl
import logging
import os
import re
import stat
from pathlib import Path

from filelock import Timeout, UnixFileLock, lock_descriptor

from config import BadSetting, Config
from storage.trouble import Unusable

# ---- locks ---------------------------------------------------------------------------------------
# Every process that opens a database in DATA_DIR holds a shared lock on it.
DATA_DIR_LOCK = "open.lock"
_held: int | None = None


class FileLock:
    """A lock between processes. The kernel releases it when its process dies."""

    def __init__(self, path: Path) -> None:
        # Another thread may release it.
        self._path, self._lock = path, UnixFileLock(path, thread_local=False)

    def take(self, wait: bool = False) -> bool:
        """Return whether this process has the lock now. Raises Unusable if its folder is gone."""
        if not self._path.parent.is_dir():
            raise Unusable("gone")
        try:
            self._lock.acquire(blocking=wait)
        except Timeout:
            return False
        return True

    def check(self) -> None:
        """A file lock can't be lost."""

    def release(self) -> None:
        self._lock.release(force=True)


def is_locked(path: Path) -> bool:
    try:
        with open(path) as file:
            return not lock_descriptor(file.fileno(), blocking=False)
    except FileNotFoundError:
        return False


def lock_data_dir(data_dir: Path) -> None:
    """Hold a shared lock until this process ends, after waiting for `restore` or `copy`."""
    global _held
    taken = os.open(data_dir / DATA_DIR_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(taken, fcntl.LOCK_SH)
    unlock_data_dir()
    _held = taken


def unlock_data_dir() -> None:
    """The database must be closed."""
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
    """Create a folder (mode 0700) and missing parents, and sync them against power failures."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        # A user may be able to add entries to a folder without being able to read it.
        with contextlib.suppress(PermissionError):
            sync(one.parent)


# Created by commands in DATA_DIR. Other files belong to the operator.
MADE = "app.db*", "*.lock", "ratelimit.db*", "secret_key", "log_key", "backups", "backups/*"


def give_to_owner(folder: Path) -> None:
    """Give files that root created in another user's DATA_DIR to that user.

    The server couldn't use them otherwise. SQLite does this for its journal files.
    """
    if os.geteuid() != 0 or not folder.is_dir() or folder.stat().st_uid == 0:
        return
    owner = folder.stat()
    for path in (path for pattern in MADE for path in folder.glob(pattern)):
        # A file may vanish in the meantime. Hard links and symlinks may lead to files outside.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if found.st_uid == 0 and (is_plain or stat.S_ISDIR(found.st_mode)):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


# ---- secrets -------------------------------------------------------------------------------------
# Minimum length of the file secret_key. The files we create have 64 characters.
MIN_SECRET = 32
log = logging.getLogger("candor")


def secret_key(config: Config) -> str:
    """Return the signing secret, from the setting or from the file in DATA_DIR.

    The file (mode 0600) is created on first use, and again if it is empty, for example after a
    power failure. Raises BadSetting if the secret is too short.
    """
    return config.secret_key or _keep_secret(
        config.data_dir / "secret_key", MIN_SECRET, "signs everyone out"
    )


def log_key(config: Config) -> bytes:
    """Return 32 secret bytes for the log's keys, from the setting or a file as in `secret_key`."""
    path = config.data_dir / "log_key"
    kept = config.log_key or _keep_secret(path, 64, "starts a new log")
    if not is_log_key(kept):
        raise BadSetting(f"{path} must contain 64 hexadecimal digits; restore the saved file")
    return bytes.fromhex(kept)


def is_log_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _keep_secret(path: Path, least: int, effect: str) -> str:
    secret = read_secret(path) or _make_secret(path)
    if len(secret) < least:
        raise BadSetting(
            f"{path} must contain at least {least} characters; delete it and the next start"
            f" creates a new one, which {effect}"
        )
    return secret


def read_secret(path: Path) -> str:
    """Return "" if the file is missing or has only blanks or NUL bytes."""
    try:
        return path.read_text(errors="replace").strip("\0 \r\n\t")
    except FileNotFoundError:
        return ""


def _make_secret(path: Path) -> str:
    """Create the secret unless another process just created it. Return the stored secret."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        lock_descriptor(folder)
        if not read_secret(path):
            if path.exists():
                log.warning("%s was empty; creating a new one", path.name)
            _write_whole(path, os.urandom(32).hex())
            os.fsync(folder)
        return read_secret(path)
    finally:
        # Also releases the lock.
        os.close(folder)


def _write_whole(path: Path, secret: str) -> None:
    """Write the file atomically. Only its owner can read it."""
    draft = path.with_name(f"{path.name}.partial")
    with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
