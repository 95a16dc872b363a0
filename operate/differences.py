"""A Difference: one sentence about stored data that is not as it should be."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError)


@dataclass(frozen=True)
class Difference:
    """Where stored data differs, as far as each field applies, and how (`what`)."""

    table: str
    what: str
    wallet: str | None = None
    signature: str | None = None
    field: str | None = None
    # "wrong", or "look" where nothing is lost and the difference goes away by itself.
    level: str = "wrong"

    def __str__(self) -> str:
        names = {"wallet": self.wallet, "signature": self.signature, "field": self.field}
        where = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        return f"{self.table}: {where + ': ' if where else ''}{self.what}"


# So much of a value is shown.
MAX_SHOWN = 80


def compare_rows(
    table: str,
    wallet: str | None,
    columns: Sequence[str],
    stored: Mapping[Any, Sequence[Any]],
    right: Mapping[Any, Sequence[Any]],
) -> Iterator[Difference]:
    """Compare stored rows of a table with those that a fresh rebuild makes: each {key: values of
    `columns`}. A single row of the wallet itself has the key ().
    """
    for key in sorted(stored.keys() | right.keys()):
        where = " ".join(map(str, key))
        if key not in right:
            yield Difference(table, "a fresh rebuild has no such row", wallet, field=where)
        elif key not in stored:
            yield Difference(table, "the row is missing", wallet, field=where)
        else:
            for name, one, other in zip(columns, stored[key], right[key], strict=True):
                if one != other:
                    what = f"is {one!r:.{MAX_SHOWN}}, a fresh rebuild says {other!r:.{MAX_SHOWN}}"
                    yield Difference(table, what, wallet, field=f"{where} {name}".strip())
