"""Digests of parts of documents that are kept, so that nobody has to read those parts again.

What is kept holds because triggers (migration 0077) drop it in the transaction of whatever changes
the part, whoever writes. So it is stored in two steps: first a claim, then, read and worked out
without holding up anybody, its digest, if the claim is still there: no trigger has dropped it.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import storage
from chain.ranks import Rows
from config import VERSION
from evidence.tables import KeptDigest

# What another version made may have been made in another way.
KEPT = f"""
SELECT place, number, digest FROM kept_digest
WHERE kind = '{{kind}}' AND owner = {{owner}} AND version = '{VERSION}'"""
BEFORE = f"{KEPT} AND number < {{number}} ORDER BY place DESC LIMIT 1"
CONFIRM = """
UPDATE kept_digest SET digest = ? WHERE kind = ? AND owner = ? AND place = ? AND claim = ?"""


# This many rows of totals take as long as a page.
TOTALS_A_PAGE = 10_000
Row = tuple[Any, ...]


class KeptRow(NamedTuple):
    """A stored row; see KeptDigest."""

    place: int
    number: int
    digest: str | None


class Part(NamedTuple):
    """A part of a document; `place` and `number` as in KeptDigest, `after`: of a page, the id of
    the last line before it.
    """

    kind: str
    owner: int
    place: int = 0
    number: int = 0
    after: int = 0


class Claim(NamedTuple):
    """A part whose digest is being worked out, and the text that tells this attempt from others."""

    part: Part
    text: str


@dataclass
class Work:
    """What was read for a document, as its digests were not kept: full pages, rows of totals."""

    pages: int = 0
    totals: int = 0

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows of totals, and count them."""
        for row in rows:
            self.totals += 1
            yield row

    @property
    def cost(self) -> int:
        """In pages."""
        return self.pages + self.totals // TOTALS_A_PAGE


NO_PAGE = KeptRow(0, 0, None)


def list_kept(rows: Rows, kind: str, owner: int) -> list[KeptRow]:
    """List all that is kept of one kind of an owner, in the order of places."""
    return [KeptRow(*row) for row in rows(f"{KEPT.format(kind=kind, owner=owner)} ORDER BY place")]


def find_page_before(rows: Rows, kind: str, owner: int, number: int) -> KeptRow:
    """The last page before page `number` whose place is known; NO_PAGE without one."""
    found = rows(BEFORE.format(kind=kind, owner=owner, number=number))
    return next((KeptRow(*row) for row in found), NO_PAGE)


def find_digest(rows: Rows, kind: str, owner: int, place: int) -> str | None:
    """The digest that is kept of a part, or None."""
    sql = f"{KEPT.format(kind=kind, owner=owner)} AND place = {place}"
    return next((KeptRow(*row).digest for row in rows(sql)), None)


def claim(parts: Iterable[Part]) -> list[Claim]:
    """Claim parts, in the transaction in which they were found."""
    claims = [Claim(one, secrets.token_hex(8)) for one in parts]
    storage.write_rows(
        KeptDigest,
        [
            {
                "kind": part.kind,
                "owner": part.owner,
                "place": part.place,
                "number": part.number,
                "claim": text,
                "digest": None,
                "version": VERSION,
            }
            for part, text in claims
        ],
        ("kind", "owner", "place"),
    )
    return claims


def forget_all() -> None:
    """Forget what is kept: it is worked out anew."""
    with storage.writing():
        storage.database.execute_sql("DELETE FROM kept_digest")


def confirm(worked_out: Sequence[tuple[Claim, str]]) -> None:
    """Store the digests of claimed parts, in the caller's transaction: of those that nobody changed
    since.
    """
    for (part, text), digest in worked_out:
        storage.database.execute_sql(CONFIRM, (digest, part.kind, part.owner, part.place, text))
