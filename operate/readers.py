"""Read one moment of a database, a few rows at a time, while others write."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import storage
from config import Config
from operate import backups
from storage import snapshots

ROWS_AT_ONCE = 200


class Reader(Protocol):
    """A connection of its own to either engine."""

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Show one state of the database to all queries inside."""

    def close(self) -> None:
        """Close the connection."""


def open_reader(config: Config) -> Reader:
    """Open a Reader of the instance's database."""
    return ServerReader(config) if config.database_url else FileReader(config)


class FileReader:
    """A Reader of a SQLite file; inside `snapshot` it sees one moment."""

    def __init__(self, config: Config) -> None:
        self._db = backups.open_reading(config.database_path)

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        return iter(self._db.execute(sql))

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Show one state of the database to all queries inside."""
        return snapshots.hold(self._db.execute, snapshots.BEGIN_SQLITE)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class ServerReader:
    """A Reader of a PostgreSQL server, whose rows come a few at a time."""

    def __init__(self, config: Config) -> None:
        self._connection, self._names = storage.make_database(config).open(), itertools.count()

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, fetched ROWS_AT_ONCE at a time."""
        with self._connection.cursor(name=f"rows{next(self._names)}") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            yield from cursor.execute(sql)

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Show one state of the database to all queries inside."""
        return snapshots.hold(self._connection.execute, snapshots.BEGIN_POSTGRESQL)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
