"""Rows as named tuples, without model instances. The only place where stored JSON is decoded for
readers.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from storage import database
from storage.stored import Column, Damaged, Part, decode

Row = TypeVar("Row")
log = logging.getLogger("candor")


class Place(NamedTuple):
    """A JSON field of a row type. `key`: index of the id or name to show in logs."""

    at: int
    key: int
    name: str
    column: Column


def select(row: Callable[..., Row], sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """Return a statement's rows as `row`, a NamedTuple of its columns in order. Fields marked as a
    Column are decoded.
    """
    return make_rows(row, database.execute_sql(sql, values).fetchall())


def select_many(row: Any, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Like `select`, for hundreds of rows of integers, text and NULLs: fetched in one step, so a
    CPU-bound job in another thread doesn't slow it down. `row`: a NamedTuple.
    """
    return make_rows(row, database.fetch_at_once(sql, row._fields, values))


def select_one(row: Callable[..., Row], sql: str, values: Sequence[Any] = ()) -> Row | None:
    found = database.execute_sql(sql, values).fetchone()
    return None if found is None else next(iter(make_rows(row, [found])), None)


def select_value(sql: str, values: Sequence[Any] = ()) -> Any:
    """Return the only column of the first row, or None if there is no row."""
    found = database.execute_sql(sql, values).fetchone()
    return None if found is None else found[0]


def write_marks(values: Sequence[Any]) -> str:
    """Return placeholders for `IN (...)`: a `?` per value, or NULL if there are none."""
    return ", ".join("?" * len(values)) or "NULL"


# ---- JSON ----------------------------------------------------------------------------------------
def make_rows(row: Callable[..., Row], found: Iterable[Sequence[Any]]) -> list[Row]:
    """Make rows. Rows with a damaged Column are logged and skipped."""
    places = find_places(row)
    if not places:
        return [row(*values) for values in found]
    decoded = (_decode(row, places, [*values]) for values in found)
    return [row(*values) for values in decoded if values is not None]


def is_damaged(row: tuple[Any, ...]) -> bool:
    """Whether a Part of the row is damaged. Paginated lists skip such rows."""
    # A list is faster than a generator, and this runs for each row of a page.
    return any([isinstance(row[place.at], Damaged) for place in find_places(type(row))])


@functools.cache
def find_places(row: Callable[..., Any]) -> list[Place]:
    """List the JSON fields of a row type."""
    hints = get_type_hints(row, include_extras=True) if hasattr(row, "_fields") else {}
    key = [*hints].index("id") if "id" in hints else 0
    return [
        Place(at, key, name, mark)
        for at, (name, hint) in enumerate(hints.items())
        # `X | None` is a union whose first member is marked.
        for one in (hint, *get_args(hint))
        for mark in getattr(one, "__metadata__", ())
        if isinstance(mark, Column)
    ]


def _decode(
    row: Callable[..., Any], places: Sequence[Place], values: list[Any]
) -> list[Any] | None:
    for at, key, name, column in places:
        try:
            values[at] = decode(values[at], column.shape)
        except Damaged as damaged:
            # Logged on every read until repaired; web.server.logs drops repeated lines.
            log.warning("%s of %s %s can't be read", name, row.__name__, values[key])
            if not isinstance(column, Part):
                return None
            values[at] = damaged
    return values
