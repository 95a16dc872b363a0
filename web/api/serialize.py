"""Convert values to JSON: amounts as decimal strings, times as RFC 3339 in UTC, no floats."""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from chain.amounts import exact, sol
from storage.rows import Damaged

# An object of the API, for code that only reads it.
Json = Mapping[str, Any]


@overload
def show_time(ms: int) -> str: ...
@overload
def show_time(ms: int | None) -> str | None: ...
def show_time(ms: int | None) -> str | None:
    """Write UTC milliseconds as `2026-11-20T12:00:00.123Z`. Whole seconds have no fraction."""
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    # Four times as fast as strftime.
    text = datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


@overload
def show_sol(lamports: int) -> str: ...
@overload
def show_sol(lamports: int | None) -> str | None: ...
def show_sol(lamports: int | None) -> str | None:
    return None if lamports is None else sol(lamports)


def show_share(percent: int | None) -> str | None:
    return None if percent is None else f"{percent // 100}.{percent % 100:02}"


def show_percentage(result: int | None, cost: int | None) -> str | None:
    """Return a result as a percentage of its cost (-4.13), halves away from zero, or None."""
    if result is None or not cost:
        return None
    hundredths = (abs(result) * 20_000 + cost) // (2 * cost)
    return exact(-hundredths if result < 0 else hundredths, 2)


def show_seconds(seconds: int | None) -> str | None:
    return None if seconds is None else show_time(seconds * 1000)


def count_seconds(at: int | None, now: int) -> int | None:
    """Return whole seconds since a time (ms), or 0 if it is in the future."""
    return None if at is None else max(0, now - at) // 1000


# ---- objects -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Written:
    """Marks the type of a shape's member with the function that writes a stored value."""

    write: Callable[[Any], Any] | None


class Always(Written):
    """Marks a type with the only value that such members have, like a Literal with one value."""

    def __init__(self, value: Any) -> None:
        super().__init__(lambda _: value)


AS_STORED = Written(None)
# Suffixes that a member's name has and its column's name doesn't: the unit or the kind of text.
SUFFIXES = ("_lamports", "_raw", "_sol", "_sells", "_share", "_id")
Shape = TypeVar("Shape")


def fill(shape: Callable[..., Shape], row: Any, **told: Any) -> Shape:
    """Return an object of this shape.

    Its members are from `told`, or else from the row's column with the same name (`createdAt`:
    created_at) or the same name without the unit (`costLamports`: cost). An optional member without
    a column is left out.
    """
    return {  # type: ignore[return-value]
        name: told[name]
        if column is None
        else getattr(row, column)
        if write is None
        else write(getattr(row, column))
        for name, column, write in _plan(shape, row.__class__, *told)
    }


@functools.cache
def _plan(shape: Any, row: Any, *told: str) -> list[tuple[str, str | None, Any]]:
    """List a shape's members: the name, the column (None if it is in `told`), and the function that
    writes it (None if it is shown as stored).
    """
    plan: list[tuple[str, str | None, Any]] = []
    for name, hint in get_type_hints(shape, include_extras=True).items():
        if name in told:
            plan.append((name, None, None))
        elif isinstance(mark := _find_mark(hint), Always):
            plan.append((name, "__class__", mark.write))
        elif column := _find_column(name, row):
            is_sol = name.endswith("Sol") and not column.endswith("sol")
            plan.append((name, column, show_sol if is_sol else mark.write))
        elif name in shape.__required_keys__:
            raise TypeError(f"{row.__name__} has no column for {shape.__name__}.{name}")
    return plan


def _find_column(name: str, row: type) -> str | None:
    whole = re.sub("([A-Z])", r"_\1", name).lower()
    shorter = (whole.removesuffix(one) for one in SUFFIXES if whole.endswith(one))
    # A public ID, not a row number.
    wanted = ("uid",) if name == "id" else (whole, *shorter)
    return next((one for one in wanted if hasattr(row, one)), None)


def _find_mark(hint: Any) -> Written:
    if hint is bool:
        return Written(bool)
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Written):
            return mark
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Literal:
        return Always(parts[0]) if len(parts) == 1 else AS_STORED
    if kind in (list, dict):
        return AS_STORED
    marks = [one for one in map(_find_mark, parts) if one is not AS_STORED]
    # In a union, one part isn't the only possible value.
    if kind in (Union, UnionType):
        marks = [one for one in marks if not isinstance(one, Always)]
    return next(iter(marks), AS_STORED)


# ---- reasons -------------------------------------------------------------------------------------
# If a bot with a claimed wallet has no results: the wallet's totals include those of the bot that
# had it before, and results since the claim aren't totaled separately.
HELD_BY_ANOTHER = "held_by_another"
# A part whose stored text is damaged. The next poll rebuilds it.
DAMAGED = "damaged"


def show_part(value: Any) -> tuple[Any, str | None]:
    return (None, DAMAGED) if isinstance(value, Damaged) else (value, None)
