"""Outgrowing one file: an instance moves from SQLite to PostgreSQL, ids and all, in one transaction
that is committed only once everything was read back.

Nobody may use the instance meanwhile: what was written to the file after a copy would be left
behind.
"""

import contextlib
import hashlib
from dataclasses import dataclass
from itertools import zip_longest

import orjson
from peewee import BooleanField, PeeweeException

import storage
from operate import backups, instance, schema
from operate.instance import Refused

ROWS_AT_ONCE = 2_000
LEDGER = """
SELECT w.address, w.results, w.positions, w.coverage, w.realized, t.uid, t.digest
FROM wallet w LEFT JOIN trade t ON t.wallet_id = w.id
ORDER BY w.address, t.slot, t.place, t.signature"""


@dataclass(frozen=True)
class Moved:
    """What a table held: its rows, and the SHA-256 over them in order of their keys, the same on
    both sides.
    """

    table: str
    rows: int
    digest: str


def move(config, url):
    """Copy the instance of `config` into the empty database of `url`: ([Moved, ...], {wallet:
    digest of its ledger}). Refused: nothing was stored there.
    """
    if config.database_url:
        raise Refused("DATABASE_URL is set: this instance is in PostgreSQL already")
    if config.demonstration:
        raise Refused(f"{config.data_dir} is of a demonstration: it is never mixed with real data")
    if not config.database_path.exists():
        raise Refused(f"there is no database in {config.data_dir}: nothing to copy")
    target = storage.open_postgresql(url)
    with instance.alone(config.data_dir):
        holding = backups.check_database(config.database_path, foreign_ok=False)
        if holding.schema != storage.list_migrations()[-1]:
            raise Refused(
                "the database is of an older version: bring it up to date with `app.py migrate`"
                " first"
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
                f"the database could not be copied, and nothing was stored: {str(error).strip()}"
            ) from None
        finally:
            target.close_all()


def _move(source, target):
    if target.get_tables():
        raise Refused("the target holds tables already: name an empty database")
    # it waits while the file is read
    target.execute_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    storage.migrate(target)
    for table in schema.TABLES:
        _copy(source, target, table)
    target.execute_sql("ANALYZE")
    return [_compare(source, target, table) for table in schema.TABLES], _compare_ledgers(
        source, target
    )


# ---- copying -------------------------------------------------------------------------------------
def _columns(table):
    return ", ".join(f'"{field.column_name}"' for field in table._meta.sorted_fields)


def _select(table):
    """All rows in order of their key."""
    key = ", ".join(field.column_name for field in table._meta.get_primary_keys())
    return f'SELECT {_columns(table)} FROM "{table._meta.table_name}" ORDER BY {key}'


def _list_rows(source, table):
    """The rows of a SQLite table in order of their key, truths as truths."""
    truths = [
        place
        for place, field in enumerate(table._meta.sorted_fields)
        if isinstance(field, BooleanField)
    ]
    for row in source.execute(_select(table)):
        row = list(row)
        for place in truths:
            row[place] = bool(row[place])
        yield tuple(row)


def _copy(source, target, table):
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
def _compare(source, target, table):
    """Moved; Refused at the first row that came back as another."""
    name, count, digest = table._meta.table_name, 0, hashlib.sha256()
    for given, found in zip_longest(
        _list_rows(source, table), target.stream(_select(table), ROWS_AT_ONCE)
    ):
        if given != found:
            raise Refused(
                f"row {(given or found)[0]} of {name} came back as another: nothing was stored"
            )
        count += 1
        digest.update(repr(found).encode())
    return Moved(name, count, digest.hexdigest())


def _compare_ledgers(source, target):
    """{address: SHA-256 of what was derived for a wallet}, as each database puts it in order."""
    before, after = (
        _digest_ledgers(source.execute(LEDGER)),
        _digest_ledgers(target.stream(LEDGER, ROWS_AT_ONCE)),
    )
    if before != after:
        raise Refused("the ledgers differ: nothing was stored")
    return before


def _digest_ledgers(rows):
    found = {}
    for address, *rest in rows:
        found.setdefault(address, hashlib.sha256()).update(orjson.dumps(rest))
    return {address: digest.hexdigest() for address, digest in found.items()}
