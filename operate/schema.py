"""Every table, the SQL that models can't declare, and a comparison with a file's schema."""

import re
from typing import Any

import apsw
from peewee import SchemaManager

import config as settings
import models
import storage
from accounts import tables as accounts_tables
from chain.stored import tables as chain_tables
from evidence import tables as evidence_tables
from market import tables as market_tables
from paper import tables as paper_tables
from storage import SCHEMA_OBJECTS, SchemaObject, search

# Each table comes after the tables that it references.
TABLES = (
    *models.TABLES,
    *chain_tables.TABLES,
    *evidence_tables.TABLES,
    *market_tables.TABLES,
    *paper_tables.TABLES,
    *accounts_tables.TABLES,
)
# Triggers and full-text indexes, by engine.
STATEMENTS = (search.STATEMENTS, accounts_tables.STATEMENTS)


def create(db: Any) -> None:
    for model in TABLES:
        SchemaManager(model, db).create_all(safe=False)
    for statements in STATEMENTS:
        for sql in statements[db.engine]:
            db.execute_sql(sql)


# ---- foreign objects -----------------------------------------------------------------------------
# Harmless objects that no migration creates, with their exact SQL: SQLite's own (ANALYZE
# statistics, last autoincrement numbers) and Litestream's.
KNOWN = {
    ("table", "sqlite_stat1", "createtablesqlite_stat1(tbl,idx,stat)"),
    ("table", "sqlite_stat4", "createtablesqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
    ("table", "sqlite_sequence", "createtablesqlite_sequence(name,seq)"),
    ("table", "_litestream_seq", "createtable_litestream_seq(idintegerprimarykey,seqinteger)"),
    ("table", "_litestream_lock", "createtable_litestream_lock(idinteger)"),
}


def list_applied(db: apsw.Connection) -> list[str]:
    """Return a database's migrations in order, or none if it is empty or isn't Candor's."""
    # A view or virtual table with that name could have endless rows.
    if not db.execute(
        "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migration' AND type = 'table' AND"
        " rootpage > 0"
    ).fetchone():
        return []
    return [name for (name,) in db.execute("SELECT name FROM schema_migration ORDER BY name")]


def list_foreign(db: apsw.Connection) -> list[str]:
    """Return sentences about differences from this version's schema.

    It compares the SQL of all tables (with columns, checks and generated columns), indexes,
    triggers, views and virtual tables. The list is empty if the file isn't Candor's or has another
    version.
    """
    applied = list_applied(db)
    newer, pending = storage.compare_migrations(applied)
    if not newer and applied + pending != storage.list_migrations():
        return ["its list of migrations doesn't match any version of Candor"]
    if newer or pending:
        return []
    due = {_name_object(row): row for row in storage.read_fresh_schema()}
    rows = map(SchemaObject._make, db.execute(SCHEMA_OBJECTS))
    found = {
        _name_object(row): row for row in rows if (row.type, row.name, _plain(row.sql)) not in KNOWN
    }
    told = [f"{name} isn't Candor's" for name in sorted(found.keys() - due.keys())]
    told += [f"{name} is missing" for name in sorted(due.keys() - found.keys())]
    for name in sorted(due.keys() & found.keys()):
        one, other = due[name], found[name]
        if (one.table, _sort_columns(one.sql)) != (other.table, _sort_columns(other.sql)):
            told.append(f"{name} has a different definition")
    if db.pragma("application_id") not in (0, int.from_bytes(settings.DEMONSTRATION_ID)):
        told.append("its header names another program (application_id)")
    return told


def _name_object(row: SchemaObject) -> str:
    """Return `the trigger "steal" on post`, quoted and shortened: names are untrusted."""
    shown = ascii(row.name[:60])
    return (
        f"the {row.type} {shown}"
        if row.type in ("table", "view")
        else f"the {row.type} {shown} on {row.table[:60]!a}"
    )


def _sort_columns(sql: str | None) -> list[str]:
    """Sort the parts of a statement, because columns added by a migration come last."""
    head, _, rest = (_plain(sql) or "").partition("(")
    body, _, tail = rest.rpartition(")")
    return [head, *sorted(body.split(",")), tail]


def _plain(sql: str | None) -> str | None:
    """Versions of SQLite differ in quotes, whitespace and case."""
    return sql if not isinstance(sql, str) else re.sub(r'["`\s]', "", sql).lower()
