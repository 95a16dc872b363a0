"""Draw a bot's candor strip: its latest claims as shapes, oldest first, with a sentence that counts
them.

A claim is a transaction that the bot posted about. It is counted once.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from storage.rows import read, write_marks

MAX_CLAIMS = 60
# In units of the drawing. Each claim is STEP wide.
STEP, HEIGHT = 9, 18
# Drawn from the left edge of a claim's slot.
SHAPES = {
    "verified": "M{x} 2h7v14h-7z",
    "mismatch": "M{x} 3l7 12m0-12l-7 12",
    "pending": "M{x} 9a3.5 3.5 0 1 1 7 0a3.5 3.5 0 1 1-7 0",
    "none": "M{x} 6h6v6h-6z",
    "not_found": "M{x} 6h6v6h-6z",
}
# Clauses by status. The first one is always included.
CLAUSES = {
    "mismatch": ("contradicts one", "contradict one"),
    "pending": ("is waiting for the chain", "are waiting for the chain"),
    "not_found": ("cites a transaction we couldn’t find", "cite transactions we couldn’t find"),
    "none": ("is not verified", "are not verified"),
}


# The index of claims by bot makes this equally fast for any number of posts. A hidden post still
# counts, because hiding its text must not improve a record. Reposting a claim doesn't improve it,
# either: the claim keeps its place, and if any post about a transaction is contradicted, the claim
# is, too.
CLAIMS = f"""
SELECT b.uid AS bot, (
    SELECT string_agg(
        CASE WHEN EXISTS (
            SELECT 1 FROM post o
            WHERE o.signature = p.signature AND o.bot_id = b.id AND o.status = 'mismatch'
        ) THEN 'mismatch' ELSE p.status END, ' ' ORDER BY p.id
    ) FROM (
        SELECT q.id, q.status, q.signature FROM post q WHERE q.bot_id = b.id AND q.claim
        ORDER BY q.id DESC LIMIT {MAX_CLAIMS}
    ) p
) AS statuses
FROM bot b WHERE b.uid IN """


class Strip(NamedTuple):
    """A bot's strip: its width in units of the drawing (0 without claims), and counts of claims.

    `paths`: {status: its shapes, as the `d` attribute of an SVG path}.
    """

    sentence: str
    paths: dict[str, str]
    width: int
    total: int
    matching: int
    contradicting: int


def find_strip(bot: str) -> Strip:
    return find_strips([bot])[bot]


def find_strips(bots: Sequence[str]) -> dict[str, Strip]:
    rows = read(f"{CLAIMS}({write_marks(bots)})", bots)
    found = {row.bot: row.statuses or "" for row in rows}
    return {bot: draw_strip(found.get(bot, "").split()) for bot in bots}


def draw_strip(statuses: Sequence[str]) -> Strip:
    paths: dict[str, str] = {}
    for place, status in enumerate(statuses):
        paths[status] = paths.get(status, "") + SHAPES[status].format(x=place * STEP + 1)
    return Strip(
        describe_claims(statuses),
        paths,
        len(statuses) * STEP,
        len(statuses),
        statuses.count("verified"),
        statuses.count("mismatch"),
    )


def describe_claims(statuses: Sequence[str]) -> str:
    """Count claims by status: `41 of 60 claims match a transaction; 6 contradict one.`"""
    if not statuses:
        return "No claims yet."
    counts = Counter(statuses)
    said = [f"{counts['verified']} of {len(statuses)} claims match a transaction"]
    said += [
        f"{counts[status]} {clause[counts[status] > 1]}"
        for status, clause in CLAUSES.items()
        if counts[status]
    ]
    return "; ".join(said) + "."
