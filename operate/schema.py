"""The schema: every table, and the SQL that models can't declare."""

from typing import Any

from peewee import SchemaManager

import models
from accounts import tables as accounts_tables
from chain.stored import tables as chain_tables
from evidence import tables as evidence_tables
from market import tables as market_tables
from paper import tables as paper_tables
from storage import search

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
