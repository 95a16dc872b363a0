"""Copy an instance from SQLite to PostgreSQL, including ids.

This is one transaction, which is committed only after everything was read back. The instance must
not be in use, because later writes to the file would be lost.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import apsw
from peewee import BooleanField, PeeweeException

import storage
from config import Config
from operate import backups, instance, schema
from operate.instance import Refused

ROWS_AT_ONCE = 2_000


class CopiedTable(NamedTuple):
    """A table with the same rows on both sides. `digest` is their SHA-256 in order of keys."""

    table: str
    rows: int
    digest: str


def move(config: Config, url: str) -> list[CopiedTable]:
    """Copy the instance of `config` into the empty database at `url`.

    If Refused is raised, nothing was stored there.
    """
    if config.database_url:
        raise Refused("DATABASE_URL is set: this instance already uses PostgreSQL")
    if config.demonstration:
        raise Refused(f"{config.data_dir} belongs to a demo, which can't be mixed with real data")
    if not config.database_path.exists():
        raise Refused(f"there is no database in {config.data_dir}, so there is nothing to copy")
    target = storage.open_postgresql(url)
    with instance.alone(config.data_dir):
        holding = backups.check_database(config.database_path, foreign_ok=False)
        if holding.schema != storage.list_migrations()[-1]:
            raise Refused(
                "the database is of an older version: upgrade it with `app.py migrate` first"
            )
        try:
            with (
                contextlib.closing(backups.open_reading(config.database_path)) as source,
                target.connection_context(),
                target.atomic(),
            ):
                return _move(source, target)
        except PeeweeException as error:
            raise Refused(
                f"the database could not be copied, so nothing was stored: {str(error).strip()}"
            ) from None
        finally:
            target.close_all()


def _move(source: apsw.Connection, target: Any) -> list[CopiedTable]:
    if target.get_tables():
        raise Refused("the target already has tables: name an empty database")
    # The transaction is idle while the file is read.
    target.execute_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    storage.migrate(target)
    for table in schema.TABLES:
        _copy(source, target, table)
    target.execute_sql("ANALYZE")
    return [_compare(source, target, table) for table in schema.TABLES]


# ---- copying -------------------------------------------------------------------------------------
def _columns(table: Any) -> str:
    return ", ".join(f'"{field.column_name}"' for field in table._meta.sorted_fields)


def _select(table: Any) -> str:
    key = ", ".join(field.column_name for field in table._meta.get_primary_keys())
    return f'SELECT {_columns(table)} FROM "{table._meta.table_name}" ORDER BY {key}'


def _list_rows(source: apsw.Connection, table: Any) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a SQLite table in key order. Booleans are converted, because SQLite has
    integers.
    """
    kinds = [isinstance(field, BooleanField) for field in table._meta.sorted_fields]
    for row in source.execute(_select(table)):
        yield tuple(
            bool(value) if is_boolean else value
            for value, is_boolean in zip(row, kinds, strict=True)
        )


def _copy(source: apsw.Connection, target: Any, table: Any) -> None:
    name = table._meta.table_name
    with target.filling(f'COPY "{name}" ({_columns(table)}) FROM STDIN') as write:
        for row in _list_rows(source, table):
            write(row)
    if table._meta.auto_increment:
        target.execute_sql(
            f"""SELECT setval(pg_get_serial_sequence('"{name}"', 'id'), COALESCE(MAX(id), 1),
            MAX(id) IS NOT NULL) FROM "{name}" """
        )


# ---- verifying -----------------------------------------------------------------------------------
def _compare(source: apsw.Connection, target: Any, table: Any) -> CopiedTable:
    name, count, digest = table._meta.table_name, 0, hashlib.sha256()
    copied = target.stream(_select(table), ROWS_AT_ONCE)
    for given, found in zip_longest(_list_rows(source, table), copied):
        if given != found:
            key, *_ = given or found
            raise Refused(f"row {key} of {name} differs in the copy, so nothing was stored")
        count += 1
        digest.update(repr(found).encode())
    return CopiedTable(name, count, digest.hexdigest())
