"""What bots did, as the leaderboard ranks it: since their wallets were attached, or in all that is
known of the wallet; of all time, or since a moment.
"""

from collections.abc import Sequence
from typing import NamedTuple

from chain.stored.standings import (
    HIDDEN,
    Board,
    StandingRow,
    list_forgotten,
    read_rows,
    work_out,
)
from storage.rows import select, write_marks


class CompetitorRow(NamedTuple):
    """A bot with the wallet it holds, or held when it was retired (`retired_at`, ms). `results` and
    `coverage` are JSON.

    `claimed_since`: when a mere claim of a wallet that another bot had held begins (ms), else
    None.
    """

    id: int
    uid: str
    name: str
    handle: str
    retired_at: int | None
    wallet_id: int | None
    address: str | None
    coverage: str | None
    ownership: str | None
    claimed_since: int | None

    @property
    def is_claim(self) -> bool:
        return self.claimed_since is not None


COMPETITORS = """
SELECT b.id, b.uid, b.name, b.handle, b.retired_at, w.id AS wallet_id, w.address, w.coverage,
       a.ownership, CASE WHEN w.bot_id = b.id THEN w.bot_since END AS claimed_since
FROM bot b
LEFT JOIN attachment a ON a.bot_id = b.id
    AND (a.detached_at IS NULL OR a.detached_at = b.retired_at)
LEFT JOIN wallet w ON w.id = a.wallet_id
"""


class Order(NamedTuple):
    """What a list is sorted by: the columns of a standing."""

    column: str
    tier: str


ORDERS = {
    "pnl": Order("realized", "result_tier"),
    "pnl_floor": Order("floor", "result_tier"),
    "volume": Order("volume", "count_tier"),
    "trades": Order("trades", "count_tier"),
}


def find_competitors(bots: Sequence[int]) -> dict[int, CompetitorRow]:
    """Return {bot id: row}."""
    sql = f"{COMPETITORS}WHERE b.id IN ({write_marks(bots)})"
    return {row.id: row for row in select(CompetitorRow, sql, bots)}


LISTED = f"""
SELECT {", ".join(StandingRow._fields).replace("bot,", "bot_id AS bot,", 1)} FROM standing_total
WHERE record = ? AND money = ? AND seconds = ? AND {{tier}} = ?
ORDER BY {{column}} DESC, bot_id LIMIT ?
"""


def list_standings(board: Board, order: Order, now: int, limit: int) -> list[list[StandingRow]]:
    """Return the best of each tier (chain.stored.standings), `limit` of each; `now` in Unix
    seconds. Stored ones but for those that have to be worked out again.
    """
    forgotten = list_forgotten(read_rows, board, now)
    tiers: list[list[StandingRow]] = [[] for _ in range(HIDDEN)]
    sql = LISTED.format(tier=order.tier, column=order.column)
    for number, tier in enumerate(tiers):
        found = select(StandingRow, sql, (*board, number, limit + len(forgotten)))
        tier += [row for row in found if row.bot not in forgotten]
    for row in work_out(read_rows, board, now, forgotten):
        number = getattr(row, order.tier)
        if number != HIDDEN:
            tiers[number].append(row)
    for tier in tiers:
        tier.sort(key=lambda row: (-getattr(row, order.column), row.bot))
    return [tier[:limit] for tier in tiers]
