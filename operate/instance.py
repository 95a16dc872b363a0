"""The folder of an instance: who uses it now, and being alone in it."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from storage import locks

# of one SQLite database
SIDE_FILES = ("", "-wal", "-shm")


class Refused(Exception):
    """A sentence for the operator: what is in the way and what to do. Nothing was changed."""


@contextlib.contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Nobody else may open the database of `data_dir` inside; Refused where somebody already may
    (storage.locks).
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(data_dir / locks.DATA_DIR_LOCK, "a") as file:
        if not lock_alone(file):
            raise Refused(f"a server or a command is using {data_dir}: stop it first")
        yield


def is_in_use(data_dir: Path) -> bool:
    """Is a server or a command at work there?"""
    try:
        with open(data_dir / locks.DATA_DIR_LOCK) as file:
            return not lock_alone(file)
    except FileNotFoundError:
        return False


def lock_alone(file: IO[str]) -> bool:
    """Take the lock of an open file, if nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
