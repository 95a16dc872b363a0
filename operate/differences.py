"""Compare stored rows with rebuilt ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


class Comparison:
    """Compares a table's rows with rebuilt ones passed to `add`. Both must be in order of key.
    `stored`: (key, values of `columns`); `signed`: whether keys end in a signature.
    """

    def __init__(
        self,
        table: str,
        columns: Sequence[str],
        stored: Iterable[Keyed],
        wallet: str | None = None,
        signed: bool = False,
    ) -> None:
        self.found: list[Difference] = []
        self._table, self._columns, self._wallet, self._signed = table, columns, wallet, signed
        self._stored = iter(stored)
        self._next = next(self._stored, None)

    def add(self, key: Key, values: Sequence[Any]) -> None:
        while self._next and self._next[0] < key:
            self._note(self._next[0], "a fresh rebuild has no such row")
            self._next = next(self._stored, None)
        if self._next is None or self._next[0] != key:
            self._note(key, "the row is missing")
            return
        for name, one, other in zip(self._columns, self._next[1], values, strict=True):
            if one != other:
                shown = f"is {one!r:.{MAX_SHOWN}}; a fresh rebuild says {other!r:.{MAX_SHOWN}}"
                self._note(key, shown, name)
        self._next = next(self._stored, None)

    def end(self) -> list[Difference]:
        """Return the differences, after all rebuilt rows were added."""
        for key, _ in ([self._next] if self._next else []) + list(self._stored):
            self._note(key, "a fresh rebuild has no such row")
        return self.found

    def _note(self, key: Key, what: str, name: str = "") -> None:
        signature = key[-1] if self._signed else None
        field = " ".join([*([] if self._signed else map(str, key)), name]).strip() or None
        if len(self.found) < MAX_FOUND:
            self.found.append(Difference(self._table, what, self._wallet, signature, field))


def compare_rows(
    table: str,
    columns: Sequence[str],
    stored: Mapping[Key, Sequence[Any]],
    right: Mapping[Key, Sequence[Any]],
    wallet: str | None = None,
) -> Iterator[Difference]:
    """Compare rows by key. A single row has the key ()."""
    made = Comparison(table, columns, sorted(stored.items()), wallet)
    for key, values in sorted(right.items()):
        made.add(key, values)
    yield from made.end()
