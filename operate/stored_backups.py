"""Backups requested on the page /admin: made in DATA_DIR/backups by the running server, one at a
time.
"""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from filelock import lock_descriptor

from config import Config
from operate import backups
from operate.instance import Refused
from storage.files import is_locked, make_folder

# Bytes to keep free, in addition to the copies being made.
LEAST_FREE = 200_000_000
FOLDER, LOCK = "backups", ".lock"
MAX_LISTED = 20


class StoredBackup(NamedTuple):
    name: str
    bytes: int
    made_at: int


def list_backups(config: Config) -> list[StoredBackup]:
    paths = sorted(find_folder(config).glob("candor-*.db"), reverse=True)[:MAX_LISTED]
    found = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            known = path.stat()
            found.append(StoredBackup(path.name, known.st_size, known.st_mtime_ns // 1_000_000))
    return found


def find_folder(config: Config) -> Path:
    return config.data_dir / FOLDER


def is_at_work(config: Config) -> bool:
    return is_locked(find_folder(config) / LOCK)


def begin_backup(config: Config, now: int, tell: Callable[[str, str | None], None]) -> str:
    """Start a backup and return its future name.

    Another thread calls `tell(name, problem)` when it is done (None) or failed. Raises Refused if a
    backup is running, there is no room, or the data is on PostgreSQL.
    """
    backups.need_file(config, backups.PG_DUMP)
    _check_room(config)
    folder = find_folder(config)
    make_folder(folder)
    held = os.open(folder / LOCK, os.O_CREAT | os.O_WRONLY, 0o600)
    if not lock_descriptor(held, blocking=False):
        os.close(held)
        raise Refused("a backup is already running")
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1000))
    name = f"candor-{moment}.{now % 1000:03}Z.db"
    # An exiting process need not wait: the next one removes the leftovers.
    arguments = (config, name, held, tell)
    threading.Thread(target=_make, args=arguments, name="backup", daemon=True).start()
    return name


def _check_room(config: Config) -> None:
    size = sum(path.stat().st_size for path in config.data_dir.glob("app.db*"))
    free = shutil.disk_usage(config.data_dir).free
    if free < LEAST_FREE + size:
        raise Refused(f"{free / 1e9:.1f} GB free, too little for a backup of {size / 1e9:.1f} GB")


def _make(config: Config, name: str, held: int, tell: Callable[[str, str | None], None]) -> None:
    problem: str | None = "it was interrupted"
    try:
        backups.remove_partials(find_folder(config))
        backups.store_backup(config, find_folder(config) / name)
        problem = None
    except Refused as refusal:
        problem = str(refusal)
    finally:
        os.close(held)
        tell(name, problem)
