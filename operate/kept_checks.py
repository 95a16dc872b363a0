"""Compare the digests that are kept for documents of evidence with what they are of."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import orjson

from config import VERSION
from evidence import totals
from evidence.keeper import PAGED
from evidence.pages import Paged, read_after
from operate.differences import UNREADABLE, Difference
from operate.readers import Reader

KEPT = f"""
SELECT kind, owner, place, number, digest FROM kept_digest
WHERE digest IS NOT NULL AND version = '{VERSION}' ORDER BY kind, owner, place"""
WALLET = "SELECT address FROM wallet WHERE id = {owner}"
NAMES = {
    "posts": "SELECT uid FROM bot WHERE id = {owner}",
    "seconds": """SELECT w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
                  WHERE a.id = {owner}""",
}
LOGGED = """
SELECT w.address, g.leaf_id FROM wallet w LEFT JOIN logged_wallet g ON g.wallet_id = w.id
ORDER BY w.id"""
LEAVES = """SELECT id, data FROM log_leaf WHERE data LIKE '%"kind":"evidence"%' ORDER BY id"""


class KeptPart(NamedTuple):
    """A row of kept_digest."""

    kind: str
    owner: int
    place: int
    number: int
    digest: str

    @property
    def name(self) -> str:
        """What it is of, in words."""
        return f"page {self.number} of {self.kind}" if self.number else self.kind


def check_kept(reader: Reader) -> Iterator[Difference]:
    """Differences of digests that are kept, and of the leaf noted as a wallet's last."""
    stored = list(map(KeptPart._make, reader.rows(KEPT)))
    for _, parts in groupby(stored, lambda one: (one.kind, one.owner)):
        try:
            for one in _list_wrong(reader, list(parts)):
                yield _name(reader, one)
        except UNREADABLE:
            # What is unreadable is reported where it stands.
            continue
    yield from _check_logged(reader)


def _list_wrong(reader: Reader, parts: list[KeptPart]) -> Iterator[KeptPart]:
    """List the parts of one kind of an owner whose digest is not the one that is kept."""
    paged = PAGED.get(parts[0].kind)
    if paged:
        yield from _list_wrong_pages(reader, paged, parts)
        return
    for one in parts:
        if one.digest != totals.digest_stored(reader.rows, one.kind, one.owner, one.place):
            yield one


def _list_wrong_pages(reader: Reader, paged: Paged, parts: list[KeptPart]) -> Iterator[KeptPart]:
    """Like _list_wrong, for pages, which are read from the first on."""
    kept = {one.number: one for one in parts}
    number = after = 0
    while kept:
        number += 1
        page = read_after(reader.rows, paged, parts[0].owner, number, after)
        one, after = kept.pop(number, None), page.last
        if one and (one.place, one.digest, True) != (page.last, page.digest, page.is_full):
            yield one
        if not page.is_full:
            break
    yield from kept.values()


def _name(reader: Reader, one: KeptPart) -> Difference:
    found = reader.rows(NAMES.get(one.kind, WALLET).format(owner=one.owner))
    owner = next((name for (name,) in found), str(one.owner))
    what = f"the digest that is kept is not that of {one.name}"
    if one.kind == "posts":
        return Difference("kept_digest", what, field=f"bot {owner}")
    return Difference("kept_digest", what, wallet=owner)


def _check_logged(reader: Reader) -> Iterator[Difference]:
    """The leaf that last held a digest of each wallet."""
    last = {}
    for number, data in reader.rows(LEAVES):
        try:
            leaf = orjson.loads(data)
            if leaf["kind"] == "evidence":
                last[leaf["wallet"]] = number
        except UNREADABLE:
            continue
    for address, leaf_id in reader.rows(LOGGED):
        if leaf_id != last.get(address):
            what = f"is leaf {leaf_id}, the last of the log is {last.get(address)}"
            yield Difference("logged_wallet", what, wallet=address)
