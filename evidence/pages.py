"""Lines in pages of 1,000, which their digests name: SHA-256 of the bytes of a page, in hex."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from storage import read_rows

PAGE_SIZE = 1_000
Line = dict[str, Any]
Json = dict[str, Any]
LAST = """
SELECT id FROM {table} WHERE {owner_column} = {owner}
ORDER BY id LIMIT 1 OFFSET {skipped}"""


class Paged(NamedTuple):
    """What has lines that are paged, in the order of the ids of a table.

    `lines`: the statement that reads those of an `owner` with ids above `after`. It selects the id,
    then what `show` makes a line of.
    """

    kind: str
    table: str
    owner_column: str
    lines: str
    show: Callable[[list[Any]], Line]


class Page(NamedTuple):
    """A page of lines. `last`: the id of its last one."""

    kind: str
    number: int
    lines: list[Line]
    last: int

    @property
    def body(self) -> bytes:
        """The page as JSON."""
        return orjson.dumps({"page": self.number, self.kind: self.lines})

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def is_full(self) -> bool:
        return len(self.lines) == PAGE_SIZE


class Named(NamedTuple):
    """The names of full pages as a document has them, and the page that is not full."""

    pages: list[Json]
    tail: Page

    @property
    def digests(self) -> list[str]:
        return [*(one["digest"] for one in self.pages), self.tail.digest]


def read_after(paged: Paged, owner: int, number: int, after: int) -> Page:
    """Read page `number`, which begins above the id `after`; it may be empty."""
    last, lines = after, []
    sql = paged.lines.format(owner=owner, after=after, most=PAGE_SIZE)
    for line_id, *values in read_rows(sql):
        last = line_id
        lines.append(paged.show(values))
    return Page(paged.kind, number, lines, last)


def read_page(paged: Paged, owner: int, number: int) -> Page:
    """Read page `number` (from 1); one beyond the last is empty."""
    after = find_last(paged, owner, (number - 1) * PAGE_SIZE) if number > 1 else 0
    if after is None:
        return Page(paged.kind, number, [], 0)
    return read_after(paged, owner, number, after)


def find_last(paged: Paged, owner: int, count: int) -> int | None:
    """Return the id of line `count` (from 1), or None if there are fewer lines."""
    sql = LAST.format(
        table=paged.table, owner_column=paged.owner_column, owner=owner, skipped=count - 1
    )
    return next((int(number) for (number,) in read_rows(sql)), None)


def name_pages(paged: Paged, owner: int) -> Named:
    """Name the full pages. They are read one at a time."""
    named: list[Json] = []
    page = read_after(paged, owner, 1, 0)
    while page.is_full:
        named.append({"page": page.number, "digest": page.digest})
        page = read_after(paged, owner, page.number + 1, page.last)
    return Named(named, page)
