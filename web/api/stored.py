"""Stored values, read so that one odd value spoils no page."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import orjson

log = logging.getLogger("candor.paper")
Row = TypeVar("Row")
Shown = TypeVar("Shown")
Document = TypeVar("Document", dict[str, Any], list[Any])


def parse_stored(text: str | None, empty: Document) -> Document:
    """Parse a stored JSON document; `empty` where there is none, or one of another type."""
    try:
        value = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return empty
    return value if type(value) is type(empty) else empty


def show_each(rows: Iterable[Row], show: Callable[[Row], Shown]) -> list[Shown]:
    """Return what `show` makes of each row; a row that cannot be read is left out and logged."""
    shown = []
    for row in rows:
        try:
            shown.append(show(row))
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            log.warning("a row of paper mode cannot be shown: %s", type(error).__name__)
    return shown
