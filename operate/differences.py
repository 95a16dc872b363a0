"""Compare stored rows with rebuilt ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from storage import Rows

# Raised when reading damaged rows.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError)
# Characters shown of a value, and differences kept for a table.
MAX_SHOWN, MAX_FOUND = 80, 1_000
Key = tuple[Any, ...]
Keyed = tuple[Key, Sequence[Any]]


@dataclass(frozen=True)
class Difference:
    """A difference in stored data: where (as far as each field applies) and `what`."""

    table: str
    what: str
    wallet: str | None = None
    signature: str | None = None
    field: str | None = None
    # "wrong", or "look" if nothing is lost and the difference will resolve itself.
    level: str = "wrong"

    def __str__(self) -> str:
        names = {"wallet": self.wallet, "signature": self.signature, "field": self.field}
        where = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        return f"{self.table}: {where + ': ' if where else ''}{self.what}"


class Checked(NamedTuple):
    """Rows to compare: `source` is the SQL from FROM on; `key` and `columns` are SQL, too. Keys
    aren't null.
    """

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    source: str

    def read(self, rows: Rows, **values: Any) -> Iterator[Keyed]:
        """Yield the rows in order of key. `values`: of the placeholders in `source`."""
        width, order = len(self.key), f" ORDER BY {', '.join(self.key)}" if self.key else ""
        sql = f"SELECT {', '.join((*self.key, *self.columns))} {self.source.format(**values)}"
        for row in rows(sql + order):
            yield tuple(row[:width]), row[width:]


def compare_rows(
    checked: Checked, stored: Iterable[Keyed], right: Iterable[Keyed], wallet: str | None = None
) -> Iterator[Difference]:
    """Compare a table's rows with rebuilt ones. Both must be in order of key."""
    return islice(_compare(checked, stored, right, wallet), MAX_FOUND)


def _compare(
    checked: Checked, stored: Iterable[Keyed], right: Iterable[Keyed], wallet: str | None
) -> Iterator[Difference]:
    names = [name.rpartition(".")[2] for name in checked.key]
    signed = names.index("signature") + 1 if "signature" in names else 0
    both = merge(((*one, 0) for one in stored), ((*one, 1) for one in right), key=itemgetter(0))
    for key, found in groupby(both, itemgetter(0)):
        sides = {side: values for _, values, side in found}
        for name, what in _compare_row(checked, sides.get(0), sides.get(1)):
            field = " ".join([*map(str, key[signed:]), name]).strip() or None
            signature = key[signed - 1] if signed else None
            yield Difference(checked.table, what, wallet, signature, field)


def _compare_row(
    checked: Checked, stored: Sequence[Any] | None, right: Sequence[Any] | None
) -> Iterator[tuple[str, str]]:
    """Yield the differing columns and what differs. None: no such row."""
    if stored is None or right is None:
        yield "", "the row is missing" if stored is None else "a fresh rebuild has no such row"
        return
    for column, one, other in zip(checked.columns, stored, right, strict=True):
        if one != other:
            shown = f"is {one!r:.{MAX_SHOWN}}, a fresh rebuild says {other!r:.{MAX_SHOWN}}"
            yield column.rpartition(".")[2], shown
