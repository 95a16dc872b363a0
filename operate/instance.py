"""Check whether a DATA_DIR is in use, and lock it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor
from peewee import OperationalError

import storage
from storage import files, trouble
from storage.files import make_folder

# The files of a SQLite database.
SIDE_FILES = ("", "-wal", "-shm", "-journal")


def list_files(path: Path) -> list[Path]:
    """Return the paths of a SQLite database's files, the database itself first."""
    return [path.with_name(path.name + side) for side in SIDE_FILES]


class Refused(Exception):
    """A command can't run. The text is a sentence for the operator. Nothing was changed."""


@contextlib.contextmanager
def refusing_trouble(data_dir: Path, effect: str) -> Iterator[None]:
    """Raise Refused if the database is locked or unreachable, or if its disk is full or failing."""
    try:
        yield
    except OperationalError as error:
        # A full disk ends the transaction, which makes the rollback fail.
        known = trouble.name_trouble(error, data_dir)
        if known == "unreachable" and not storage.is_busy(error):
            raise
        path = data_dir / "app.db"
        if path.exists() and not os.access(path, os.R_OK):
            cause = f"this user can't read {path}; run `app.py doctor` to see who owns it"
        else:
            cause = trouble.TROUBLES[known]
        raise Refused(f"{cause}: {effect}") from None


@contextlib.contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Lock DATA_DIR. Raises Refused if another process has its database open."""
    make_folder(data_dir)
    with open(data_dir / files.DATA_DIR_LOCK, "a") as file:
        if not lock_descriptor(file.fileno(), blocking=False):
            raise Refused(f"a server or a command is using {data_dir}; stop it first")
        yield


def is_in_use(data_dir: Path) -> bool:
    return files.is_locked(data_dir / files.DATA_DIR_LOCK)
