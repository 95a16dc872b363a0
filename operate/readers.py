"""Read one moment of a database, a few rows at a time, while others write."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import storage
from config import Config
from operate import backups

ROWS_AT_ONCE = 200


class Reader(Protocol):
    """A connection of its own to either engine."""

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]: ...

    def snapshot(self) -> contextlib.AbstractContextManager[None]: ...

    def close(self) -> None: ...


def open_reader(config: Config) -> Reader:
    """Open a Reader of the instance's database."""
    return ServerReader(config) if config.database_url else FileReader(config)


class FileReader:
    """A Reader of a SQLite file; inside `snapshot` it sees one moment."""

    def __init__(self, config: Config) -> None:
        self._db = backups.open_reading(config.database_path)

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        return iter(self._db.execute(sql))

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()


class ServerReader:
    """A Reader of a PostgreSQL server, whose rows come a few at a time."""

    def __init__(self, config: Config) -> None:
        self._connection, self._names = storage.make_database(config).open(), itertools.count()

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor(name=f"rows{next(self._names)}") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            yield from cursor.execute(sql)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()
