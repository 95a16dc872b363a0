"""The job that works out the digests that evidence.kept keeps, a few at a time."""

import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple

from chain.risk_store import WHOLE
from chain.standing_store import read_rows
from evidence import kept, totals
from evidence.kept import Part
from evidence.pages import Paged, list_unkept, read_after
from evidence.posts import POSTS
from evidence.receipts import RECEIPTS
from storage import database, writing

# One tick looks at so many wallets in turn, and works out so many of their parts, until it has
# taken so many seconds of the processor; and of bots likewise. A page takes some 7 ms.
MAX_OWNERS, MAX_PARTS, MAX_SECONDS = 50, 50, 0.3
NEXT = f"SELECT id FROM {{table}} WHERE id > ? ORDER BY id LIMIT {MAX_OWNERS}"
SPANS = "SELECT id FROM attachment WHERE wallet_id = ? ORDER BY id"
PAGED = {paged.kind: paged for paged in (RECEIPTS, POSTS)}


class Total(NamedTuple):
    """Stored totals, as kept digests name them."""

    kind: str
    owner: int
    place: int = 0


class Keeper:
    """Goes through wallets and bots in turn, and keeps the digests that are missing."""

    def __init__(self) -> None:
        # Of each table, the number of the owner that was looked at last.
        self._reached = {"wallet": 0, "bot": 0}

    def run_tick(self, now: int) -> tuple[None, None]:
        """Work out some of what is missing. `now`, which each job is given, is not used."""
        for table in self._reached:
            left, ends = MAX_PARTS, time.thread_time() + MAX_SECONDS
            for owner in self._list_next(table):
                left -= keep_some(table, owner, left)
                self._reached[table] = owner
                if left <= 0 or time.thread_time() > ends:
                    break
        return None, None

    def _list_next(self, table: str) -> list[int]:
        """List the owners to look at now; after the last one the first one follows again."""
        sql = NEXT.format(table=table)
        found = database.execute_sql(sql, (self._reached[table],)).fetchall()
        if len(found) < MAX_OWNERS:
            found += database.execute_sql(sql, (0,)).fetchall()
        return list(dict.fromkeys(number for (number,) in found))[:MAX_OWNERS]


def keep_some(table: str, owner: int, most: int) -> int:
    """Keep at most so many digests of a wallet or bot that are missing; return of how many parts
    that was tried.
    """
    if next(list_missing(table, owner), None) is None:
        return 0
    with writing():
        # Found anew: nothing may have changed between finding and claiming.
        claims = kept.claim(itertools.islice(list_missing(table, owner), most))
    worked_out = [(one, digest) for one in claims if (digest := work_out(one.part))]
    with writing():
        kept.confirm(worked_out)
    return len(claims)


def list_missing(table: str, owner: int) -> Iterator[Part]:
    """Yield the parts of a wallet or bot of which no digest is kept."""
    yield from list_unkept(read_rows, POSTS if table == "bot" else RECEIPTS, owner)
    if table == "wallet":
        for total in list_totals(owner):
            if kept.find_digest(read_rows, *total) is None:
                yield Part(total.kind, total.owner, total.place)


def list_totals(wallet_id: int) -> Iterator[Total]:
    """Yield all totals of a wallet of which a document has a digest."""
    yield Total("hours", wallet_id)
    for (span,) in [(WHOLE,), *database.execute_sql(SPANS, (wallet_id,)).fetchall()]:
        yield Total("risk", wallet_id, span)
        yield Total("tokens", wallet_id, span)
        if span != WHOLE:
            yield Total("seconds", span)


def work_out(part: Part) -> str | None:
    """Work out the digest of a claimed part; None where it may not be kept."""
    paged: Paged | None = PAGED.get(part.kind)
    if paged is None:
        return totals.digest_stored(totals.read_each, part.kind, part.owner, part.place)
    page = read_after(read_rows, paged, part.owner, part.number, part.after)
    # What changes the page afterwards drops the claim; what a change could not be told by does not.
    is_same = page.is_full and page.last == part.place and page.is_settled
    return page.digest if is_same else None
