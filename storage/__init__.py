"""The database of this process. `connect` binds it once."""

import contextlib
import functools
import itertools
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

from peewee import DatabaseProxy
from playhouse.migrations import Runner

from config import BadSetting, Config
from storage.files import lock_data_dir, make_folder
from storage.sqlite import SQLite
from storage.trouble import hold_snapshot

MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"
ROWS_A_STATEMENT = 200
# One cached SQL statement for each number of rows in an insert.
MAX_STATEMENTS = 100
Names = tuple[str, ...]
# Runs a read-only statement and returns its rows.
Rows = Callable[[str], Iterable[tuple[Any, ...]]]
database = DatabaseProxy()


def connect(config: Config) -> Any:
    """Bind the models to the database. Raises BadSetting if DATABASE_URL is unusable."""
    made = make_database(config)
    make_folder(config.data_dir)
    lock_data_dir(config.data_dir)
    if database.obj is not None:
        database.close_idle()
    database.initialize(made)
    return database.obj


def make_database(config: Config) -> Any:
    return (
        open_postgresql(config.database_url)
        if config.database_url
        else SQLite(config.database_path)
    )


def open_postgresql(url: str) -> Any:
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
    return sorted(path.stem for path in MIGRATIONS.glob("[0-9]*.py"))


def list_applied(db: Any) -> list[str]:
    return (
        sorted(name for (name,) in db.execute_sql("SELECT name FROM schema_migration"))
        if db.table_exists("schema_migration")
        else []
    )


def compare_migrations(applied: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the names that only a newer version knows, and those that aren't applied yet."""
    known = list_migrations()
    return sorted(set(applied) - set(known)), [name for name in known if name not in applied]


def migrate(db: Any = None) -> list[str]:
    """Apply the missing migrations in order, either all or none. Return their names.

    In an empty database, the first one creates the current schema, and the others are skipped. A
    second process that migrates at the same time waits, then finds nothing to do.
    """
    db = db or database.obj
    with db.connection_context(), db.atomic():
        applied, known = list_applied(db), list_migrations()
        if applied == known:
            return []
        runner = Runner(db, str(MIGRATIONS), table_name="schema_migration")
        if applied:
            names: list[str] = runner.up()
            return names
        return [*runner.up(known[0]), *runner.fake()]


class SchemaObject(NamedTuple):
    type: str
    name: str
    table: str
    sql: str | None


SCHEMA_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema"


@functools.cache
def read_fresh_schema() -> list[SchemaObject]:
    """Return the schema of an empty SQLite database of this version."""
    fresh = SQLite(":memory:")
    try:
        migrate(fresh)
        return list(map(SchemaObject._make, fresh.execute_sql(SCHEMA_OBJECTS)))
    finally:
        fresh.close_all()


def read_rows(sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = database.execute_sql(sql, values).fetchall()
    return found


def read_parts(
    sql: str, keys: Iterable[Any], values: Sequence[object] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield a query's rows for any number of keys, a part of them at a time.

    The keys fill `{marks}`. `values` are the parameters after it.
    """
    for part in in_parts(keys):
        yield from read_rows(sql.format(marks=mark(part)), (*part, *values))


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Run a short write transaction. Other writers wait, so don't do anything slow in it."""
    with database.atomic():
        yield


@contextlib.contextmanager
def snapshot() -> Iterator[None]:
    """Show a consistent snapshot inside, where the caller must not write."""
    # A write transaction is already consistent, because there are no other writers.
    if database.in_transaction():
        yield
    else:
        with hold_snapshot(database.execute_sql, database.engine):
            yield


@contextlib.contextmanager
def erasing() -> Iterator[None]:
    """Begin a write transaction for deleting content that must not remain in the database files."""
    with database.erasing(), writing():
        yield


def is_busy(error: object) -> bool:
    """Whether the database is temporarily unusable. Nothing was stored, and callers may retry."""
    return bool(database.is_busy(error))


def new_uid(prefix: str) -> str:
    """Return a public ID such as `bot_4f1c...`: 96 random bits, not derived from a database ID."""
    return f"{prefix}_{secrets.token_hex(12)}"


def in_parts(values: Iterable[Any], size: int = ROWS_A_STATEMENT) -> Iterator[list[Any]]:
    """Split values into lists that fit into one statement's parameters."""
    rest = iter(values)
    while part := list(itertools.islice(rest, size)):
        yield part


def mark(values: Sized) -> str:
    return ", ".join("?" * len(values))


def write_rows(
    model: Any, rows: Iterable[Mapping[str, Any]], key: Names = (), returned: Names = ()
) -> list[Any]:
    """Insert rows, and return the `returned` columns of the written rows.

    Each row is {field: plain value}, and all rows have the same fields. With a `key`, a conflicting
    row is updated. Without a `key`, it stays unchanged. The SQL is cached, as in store_row.
    """
    defaults = model._meta.get_default_dict()
    written: list[Any] = []
    for part in in_parts({**defaults, **row} for row in rows):
        names = tuple(part[0])
        values = [row[name] for row in part for name in names]
        sql = _write_insertion(model, names, len(part), key, returned)
        found = database.execute_sql(sql, values)
        written += found.fetchall() if returned else []
    return written


def store_row(model: Any, columns: dict[str, Any]) -> int:
    """Insert one row, {field: value}, and return its id.

    The SQL is cached, because peewee takes ten times as long to build it as SQLite takes to run it.
    """
    values = {**model._meta.get_default_dict(), **columns}
    fields = model._meta.fields
    ((row_id,),) = database.execute_sql(
        _write_insertion(model, tuple(values), returned=("id",)),
        [fields[name].db_value(value) for name, value in values.items()],
    ).fetchall()
    return int(row_id)


def store_arrival(kind: str, **what: Any) -> None:
    """`kind`: post | trade | verification | coverage.

    `what` is the row it refers to: `post=`, `trade=` or `wallet=`, as a model or an id.
    """
    columns = ["kind", *(f"{name}_id" for name in what)]
    values = [kind, *(getattr(row, "id", row) for row in what.values())]
    marks = ", ".join("?" * len(columns))
    database.execute_sql(f"INSERT INTO arrival ({', '.join(columns)}) VALUES ({marks})", values)


def store_trade_arrivals(ids: Iterable[int]) -> None:
    for part in in_parts(ids):
        marks = ", ".join(["('trade', ?)"] * len(part))
        database.execute_sql(f"INSERT INTO arrival (kind, trade_id) VALUES {marks}", part)


@functools.lru_cache(MAX_STATEMENTS)
def _write_insertion(
    model: Any, names: Names, count: int = 1, key: Names | None = None, returned: Names = ()
) -> str:
    """`key` is explained at write_rows. If it is None, this is a plain insert."""
    columns = {name: f'"{model._meta.fields[name].column_name}"' for name in names}
    marks = f"({mark(names)})"
    sql = f'INSERT INTO "{model._meta.table_name}" ({", ".join(columns.values())}) VALUES '
    sql += ", ".join([marks] * count)
    others = [f"{c} = EXCLUDED.{c}" for name, c in columns.items() if name not in (key or ())]
    if key:
        keys = ", ".join(columns[name] for name in key)
        sql += f" ON CONFLICT ({keys}) DO UPDATE SET {', '.join(others)}"
    elif key is not None:
        sql += " ON CONFLICT DO NOTHING"
    return sql + (f" RETURNING {', '.join(returned)}" if returned else "")
