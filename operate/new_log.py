"""A new log after a restore: what was lost is named, not hidden."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from peewee import PeeweeException

from evidence import log, openings
from storage.sqlite import SQLite


def open_after_restore(restored: Path, replaced: Path, now: int) -> str:
    """Open a new log in the database `restored`, which names the last checkpoint of the one it
    takes the place of, or else its own; return its uid. `now` in ms.
    """
    last = _read_last(replaced) if replaced.exists() else None
    with _open(restored) as database:
        return openings.renew_log("restore", now, last, database)


def _read_last(replaced: Path) -> dict[str, Any] | None:
    """The last checkpoint of a database that may be damaged: perhaps the reason for restoring."""
    try:
        with _open(replaced) as database:
            return openings.describe_last(database)
    except (apsw.Error, PeeweeException, log.Damaged, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def _open(path: Path) -> Iterator[SQLite]:
    """Open another database file than the process's own; afterwards it is one file again."""
    database = SQLite(path)
    try:
        with database.connection_context():
            yield database
    finally:
        database.close_all()
