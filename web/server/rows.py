"""Rows as named tuples: a statement is executed once, and no model instance is made."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from storage import database

Row = TypeVar("Row")


def select(row: Callable[..., Row], sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """Return all rows of a statement as `row`: a NamedTuple of its columns in order."""
    return [row(*found) for found in database.execute_sql(sql, values).fetchall()]


def select_many(row: Any, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """As `select`, for a query that gives hundreds of rows of integers, text and nulls: they come
    in one step, which a job that computes beside it does not slow down. `row`: a NamedTuple.
    """
    return [row(*found) for found in database.fetch_at_once(sql, row._fields, values)]


def select_one(row: Callable[..., Row], sql: str, values: Sequence[Any] = ()) -> Row | None:
    """Return the first row of a statement, or None."""
    found = database.execute_sql(sql, values).fetchone()
    return None if found is None else row(*found)


def select_value(sql: str, values: Sequence[Any] = ()) -> Any:
    """Return the only column of the first row, None without a row."""
    found = database.execute_sql(sql, values).fetchone()
    return None if found is None else found[0]


def write_marks(values: Sequence[Any]) -> str:
    """Write the parameters of `IN (...)`: a `?` for each value, NULL for none."""
    return ", ".join("?" * len(values)) or "NULL"
