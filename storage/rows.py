"""Select rows as named tuples instead of models, and decode JSON in text columns.

JSON is validated, because a disk fault may have damaged it.
"""

import functools
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, create_model

from storage import database

# ---- stored JSON ---------------------------------------------------------------------------------
# An integer or an exact decimal, as text.
Whole = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+$")]
Exact = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
# RFC 3339 in whole seconds, in UTC.
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
Shape = TypeAdapter[Any]


class Damaged(ValueError):
    """Stored JSON is unreadable. Also the value of a damaged Part of a row."""

    def __bool__(self) -> bool:
        return False


class Column:
    """Marks a field of a row type as JSON. If the JSON is damaged, the row is skipped."""

    def __init__(self, kind: Any) -> None:
        self.shape = make_shape(kind)


class Part(Column):
    """Marks a field as JSON whose value is Damaged if it can't be read. The row stays."""


class Stored(BaseModel):
    """A JSON object with at least these members."""

    model_config = ConfigDict(strict=True, defer_build=True)


def make_object(**kinds: Any) -> Any:
    members: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Object", __base__=Stored, **members)


def make_shape(kind: Any) -> Shape:
    if isinstance(kind, type) and issubclass(kind, Stored):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True, defer_build=True))


def decode(text: str | bytes | None, shape: Shape) -> Any:
    """Parse stored JSON, or return None for NULL. Raises Damaged."""
    if text is None:
        return None
    try:
        shape.validate_json(text)
        return orjson.loads(text)
    except ValueError:
        raise Damaged("stored JSON can't be read") from None


def read_stored(text: str | bytes | None, shape: Shape) -> Any:
    """Parse stored JSON that will be rewritten later. Return None if it is damaged."""
    try:
        return decode(text, shape)
    except Damaged:
        return None


# ---- rows ----------------------------------------------------------------------------------------
Row = TypeVar("Row")
log = logging.getLogger("candor")
# A name, or a single other character.
WORDS = re.compile(r"\w+|\S")


class Place(NamedTuple):
    """A JSON field of a row type. `key` is the index of the ID or name that logs show."""

    at: int
    key: int
    name: str
    column: Column


def select(row: Callable[..., Row], sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """Return rows as `row`, a NamedTuple of the statement's columns. Decode each Column."""
    return make_rows(row, database.execute_sql(sql, values).fetchall())


def read(sql: str, values: Sequence[Any] = (), **columns: Column) -> list[Any]:
    """Return rows as named tuples. `columns` are those with stored JSON."""
    return select(make_row_type(sql, **columns), sql, values)


def read_one(sql: str, values: Sequence[Any] = (), **columns: Column) -> Any:
    return select_one(make_row_type(sql, **columns), sql, values)


def make_row_type(sql: str, **columns: Column) -> Any:
    """Return a NamedTuple type named after the table. `columns` are those with stored JSON."""
    return _make_type(*find_columns(sql), **columns)


@functools.cache
def _make_type(table: str, *names: str, **columns: Column) -> Any:
    kinds = [(one, Annotated[Any, columns[one]] if one in columns else Any) for one in names]
    return NamedTuple(table, kinds)


@functools.lru_cache(512)
def find_columns(sql: str) -> tuple[str, ...]:
    """Return a statement's first table, and the names of the columns it selects."""
    depth, listed, names, words = 0, False, [""], iter(WORDS.findall(sql))
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth:
            continue
        if word == "FROM":
            break
        if word == ",":
            names.append("")
        elif listed and word.isidentifier():
            names[-1] = word
        listed = listed or word == "SELECT"
    table = next(words, "")
    return table if table.isidentifier() else "Row", *names


def select_one(row: Callable[..., Row], sql: str, values: Sequence[Any] = ()) -> Row | None:
    found = database.execute_sql(sql, values).fetchone()
    return None if found is None else next(iter(make_rows(row, [found])), None)


def select_value(sql: str, values: Sequence[Any] = ()) -> Any:
    found = database.execute_sql(sql, values).fetchone()
    return None if found is None else found[0]


def write_marks(values: Sequence[Any]) -> str:
    """Return placeholders for `IN (...)`: a `?` for each value, or NULL without values."""
    return ", ".join("?" * len(values)) or "NULL"


# ---- JSON ----------------------------------------------------------------------------------------
def make_rows(row: Callable[..., Row], found: Iterable[Sequence[Any]]) -> list[Row]:
    """Rows with a damaged Column are logged and skipped."""
    places = find_places(row)
    if not places:
        return [row(*values) for values in found]
    decoded = (_decode(row, places, [*values]) for values in found)
    return [row(*values) for values in decoded if values is not None]


def is_damaged(row: tuple[Any, ...]) -> bool:
    """Whether a Part of the row is damaged. Paginated lists skip such rows."""
    # A list is faster than a generator here, and this runs for each row of a page.
    return any([isinstance(row[place.at], Damaged) for place in find_places(type(row))])


@functools.cache
def find_places(row: Callable[..., Any]) -> list[Place]:
    hints = get_type_hints(row, include_extras=True) if hasattr(row, "_fields") else {}
    key = [*hints].index("id") if "id" in hints else 0
    return [
        Place(at, key, name, mark)
        for at, (name, hint) in enumerate(hints.items())
        # In `X | None`, the first member is marked.
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
            # Logged on every read until the row is repaired. web.server.logs drops repeated lines.
            log.warning("%s of %s %s can't be read", name, row.__name__, values[key])
            if not isinstance(column, Part):
                return None
            values[at] = damaged
    return values
