"""Read a snapshot of a database, a few rows at a time, while others write."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import storage
from config import Config
from operate import backups
from storage import trouble

ROWS_AT_ONCE = 200


class Reader(Protocol):
    """A separate connection to either engine. Inside `snapshot` it sees one snapshot."""

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]: ...

    def snapshot(self) -> contextlib.AbstractContextManager[None]: ...

    def close(self) -> None: ...


def open_reader(config: Config) -> Reader:
    return ServerReader(config) if config.database_url else FileReader(config)


class FileReader:
    """A Reader of a SQLite file."""

    def __init__(self, config: Config) -> None:
        self._db = backups.open_reading(config.database_path)
        self.close = self._db.close

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        return iter(self._db.execute(sql))

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        return trouble.hold_snapshot(self._db.execute, trouble.BEGIN_SQLITE)


class ServerReader:
    """A Reader of a PostgreSQL server."""

    def __init__(self, config: Config) -> None:
        self._connection, self._names = storage.make_database(config).open(), itertools.count()
        self.close = self._connection.close

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor(name=f"rows{next(self._names)}") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            yield from cursor.execute(sql)

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        return trouble.hold_snapshot(self._connection.execute, trouble.BEGIN_POSTGRESQL)
