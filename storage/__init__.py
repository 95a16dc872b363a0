"""The database of this process: bound once by `connect`, written and read by every room.

What only one engine can do stands in `storage.sqlite` and `storage.postgresql`, which have the
same verbs.
"""

import contextlib
import datetime
import functools
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from peewee import DatabaseProxy, PeeweeException, chunked
from playhouse.migrations import Runner

from config import BadSetting, Config
from storage.locks import lock_data_dir
from storage.sqlite import SQLite

MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"
ROWS_A_STATEMENT = 200
database = DatabaseProxy()


def connect(config: Config) -> Any:
    """Bind the models to this process's database and return it; connections open on first use, one
    a thread. BadSetting where DATABASE_URL cannot be used.
    """
    made = make_database(config)
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock_data_dir(config.data_dir)
    if database.obj is not None:
        database.close_idle()
    database.initialize(made)
    return database.obj


def make_database(config: Config) -> Any:
    """The database of these settings, bound to nothing."""
    return (
        open_postgresql(config.database_url)
        if config.database_url
        else SQLite(config.database_path)
    )


def open_postgresql(url: str) -> Any:
    """The database of a URL. Its driver is imported only where there is one."""
    try:
        from storage.postgresql import PostgreSQL
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "psycopg":
            raise
        raise BadSetting(
            "DATABASE_URL needs a package that is not installed: .venv/bin/pip install"
            " --editable '.[postgres]'"
        ) from None
    return PostgreSQL(url)


def list_migrations() -> list[str]:
    """Names of the migrations this version knows, in order."""
    return sorted(path.stem for path in MIGRATIONS.glob("[0-9]*.py"))


def list_applied(db: Any) -> list[str]:
    """Names of the migrations this open database has seen, in order."""
    return (
        sorted(name for (name,) in db.execute_sql("SELECT name FROM schema_migration"))
        if db.table_exists("schema_migration")
        else []
    )


def migrate(db: Any = None) -> list[str]:
    """Apply what is missing of migrations/, in order and all or nothing; the names of those
    applied. Who else wants to waits, and finds nothing to do.
    """
    db = db or database.obj
    with db.connection_context(), db.atomic():
        return list(Runner(db, str(MIGRATIONS), table_name="schema_migration").up())


class SchemaObject(NamedTuple):
    """A row of SQLite's own table of tables, indexes, triggers and views."""

    type: str
    name: str
    table: str
    sql: str | None


SCHEMA_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema"


class _Only(Runner):  # type: ignore[misc]
    """A Runner that knows some of the migrations only."""

    names: tuple[str, ...] = ()

    def migrations(self) -> list[Any]:
        return [one for one in super().migrations() if one.name in self.names]


@functools.cache
def read_fresh_schema(names: tuple[str, ...]) -> list[SchemaObject] | None:
    """The schema that exactly these migrations make; None where they cannot stand alone."""
    fresh = SQLite(":memory:")
    try:
        with fresh.connection_context(), fresh.atomic():
            runner = _Only(fresh, str(MIGRATIONS), table_name="schema_migration")
            runner.names = names
            runner.up()
            return list(map(SchemaObject._make, fresh.execute_sql(SCHEMA_OBJECTS)))
    except PeeweeException:
        return None
    finally:
        fresh.close_all()


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """One short transaction, alone among the writers. Nothing slow belongs inside: no network, no
    rendering.
    """
    with database.atomic():
        yield


@contextlib.contextmanager
def erasing() -> Iterator[None]:
    """As `writing`, for what must not be found in the database's files any more."""
    with database.erasing(), writing():
        yield


def is_busy(error: object) -> bool:
    """Could the database not be reached or written just now? Then nothing was stored and the caller
    may retry.
    """
    return bool(database.is_busy(error))


def new_uid(prefix: str) -> str:
    """An opaque public id such as `bot_4fK...`: 96 random bits, never the database's integer."""
    return f"{prefix}_{secrets.token_hex(12)}"


def in_parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    """The values in lists that one statement can bind, however many there are."""
    return chunked(values, ROWS_A_STATEMENT)


def insert_rows(model: Any, rows: Iterable[Any]) -> None:
    """Insert rows of equal shape that are not there yet, in as many statements as it takes."""
    for part in in_parts(rows):
        model.insert_many(part).on_conflict_ignore().execute()


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def store_row(model: Any, columns: dict[str, Any]) -> int:
    """Insert one row, {field: value}, and give its id. The SQL is made once: peewee takes ten times
    as long to make it as SQLite to carry it out.
    """
    values = {**model._meta.get_default_dict(), **columns}
    fields = model._meta.fields
    row = database.execute_sql(
        _insertion(model, tuple(values)),
        [fields[name].db_value(value) for name, value in values.items()],
    ).fetchone()
    return int(row[0])


@functools.cache
def _insertion(model: Any, names: tuple[str, ...]) -> str:
    columns = ", ".join(f'"{model._meta.fields[name].column_name}"' for name in names)
    return (
        f'INSERT INTO "{model._meta.table_name}" ({columns}) VALUES ({", ".join("?" * len(names))})'
        " RETURNING id"
    )
