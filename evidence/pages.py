"""Lines in pages of 1,000, which their digests name: SHA-256 of the bytes of a page, in hex.

Whatever is read comes through `rows`, which runs a statement of this or of another database.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from chain.ranks import Rows
from evidence import kept

PAGE_SIZE = 1_000
Line = dict[str, Any]
Json = dict[str, Any]
LAST = """
SELECT id FROM {table} WHERE {owner_column} = {owner} AND id > {after}
ORDER BY id LIMIT 1 OFFSET {skipped}"""


class Paged(NamedTuple):
    """What has lines that are paged, in the order of the ids of a table.

    `lines`: the statement that reads those of an `owner` with ids above `after`: of each its id,
    whether what it depends on is all there, and what `show` makes a line of.
    """

    kind: str
    table: str
    owner_column: str
    lines: str
    show: Callable[[list[Any]], Line]


class Page(NamedTuple):
    """A page of lines. `last`: the id of its last one; `is_settled`: its digest may be kept, as
    whatever changes it will be noticed.
    """

    kind: str
    number: int
    lines: list[Line]
    last: int
    is_settled: bool

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


def read_after(rows: Rows, paged: Paged, owner: int, number: int, after: int) -> Page:
    """Read page `number`, which begins above the id `after`; it may be empty."""
    last, is_settled, lines = after, True, []
    for line_id, is_whole, *values in rows(
        paged.lines.format(owner=owner, after=after, most=PAGE_SIZE)
    ):
        last, is_settled = line_id, is_settled and bool(is_whole)
        lines.append(paged.show(values))
    return Page(paged.kind, number, lines, last, is_settled)


def read_page(rows: Rows, paged: Paged, owner: int, number: int) -> Page:
    """Read page `number` (from 1); one beyond the last is empty."""
    before = kept.find_page_before(rows, paged.kind, owner, number)
    skipped = (number - 1 - before.number) * PAGE_SIZE
    after = find_last(rows, paged, owner, before.place, skipped) if skipped else before.place
    if after is None:
        return Page(paged.kind, number, [], 0, False)
    return read_after(rows, paged, owner, number, after)


def find_last(rows: Rows, paged: Paged, owner: int, after: int, count: int) -> int | None:
    """Return the id of the line `count` lines (from 1) above the id `after`; None without it."""
    sql = LAST.format(
        table=paged.table,
        owner_column=paged.owner_column,
        owner=owner,
        after=after,
        skipped=count - 1,
    )
    return next((int(number) for (number,) in rows(sql)), None)


def name_pages(rows: Rows, paged: Paged, owner: int, work: kept.Work) -> Named:
    """Name the full pages; those whose digest is not kept are read, one at a time in memory, and
    counted in `work`.
    """
    stored = {one.number: one for one in kept.list_kept(rows, paged.kind, owner)}
    named: list[Json] = []
    after = 0
    while True:
        number = len(named) + 1
        one = stored.get(number)
        if one and one.digest:
            named.append({"page": number, "digest": one.digest})
            after = one.place
            continue
        page = read_after(rows, paged, owner, number, after)
        if not page.is_full:
            return Named(named, page)
        named.append({"page": number, "digest": page.digest})
        after = page.last
        work.pages += 1


def list_unkept(rows: Rows, paged: Paged, owner: int) -> Iterator[kept.Part]:
    """Yield the full pages of which no digest is kept."""
    stored = {one.number: one for one in kept.list_kept(rows, paged.kind, owner)}
    number, after = 1, 0
    while True:
        one = stored.get(number)
        last = one.place if one else find_last(rows, paged, owner, after, PAGE_SIZE)
        if last is None:
            return
        if one is None or not one.digest:
            yield kept.Part(paged.kind, owner, last, number, after)
        number, after = number + 1, last
