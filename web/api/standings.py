"""Totals of bots for the leaderboard: since their wallets were attached, or over the wallet's whole
known history; of all time, or since a given time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chain.amounts import show_raw
from chain.stored.attachments import COUNT_HELD, LAST_LEAD
from chain.stored.standings import (
    COUNT,
    HIDDEN,
    RESULT,
    RETURN,
    Board,
    StandingRow,
    list_forgotten,
    work_out,
)
from storage import read_rows
from storage.rows import select, select_value, write_marks
from web.api.serialize import Json
from web.api.shapes import Sort
from web.api.wallets import Coverage, Wallet, find_least, list_held, show_coverage


class CompetitorRow(NamedTuple):
    """A bot with its primary wallet, or the last one before it retired (`retired_at`, ms).
    `coverages`: the Coverage of each of its wallets.

    `claimed_since`: if another bot had the wallet before and it is only claimed, when that claim
    begins (ms); else None.
    """

    id: int
    uid: str
    name: str
    handle: str
    retired_at: int | None
    wallet_id: int | None
    address: str | None
    coverages: Any
    ownership: Any
    claimed_since: int | None

    @property
    def is_claim(self) -> bool:
        return self.claimed_since is not None

    @property
    def coverage(self) -> Coverage:
        return find_least(self.coverages)

    @property
    def has_gap(self) -> bool:
        return any(one["gaps"] for one in self.coverages)


COMPETITORS = f"""
SELECT b.id, b.uid, b.name, b.handle, b.retired_at, w.id AS wallet_id, w.address,
       w.coverage AS coverages, a.ownership,
       CASE WHEN w.bot_id = b.id THEN w.bot_since END AS claimed_since
FROM bot b
LEFT JOIN attachment a ON a.id = {LAST_LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id
"""


class Order(NamedTuple):
    """How a list is sorted: a column of a standing, and the condition for having a rank."""

    column: str
    by: str

    @property
    def tier(self) -> str:
        return f"{self.by}_tier"


ORDERS: dict[Sort, Order] = {
    "pnl": Order("realized", RESULT),
    "return": Order("return_points", RETURN),
    "win_rate": Order("win_points", RESULT),
    "volume": Order("volume", COUNT),
    "trades": Order("trades", COUNT),
    "pnl_floor": Order("worst_case", RESULT),
}


def find_competitors(bots: Sequence[int]) -> dict[int, CompetitorRow]:
    sql = f"{COMPETITORS}WHERE b.id IN ({write_marks(bots)})"
    held = list_held(bots)
    return {row.id: _add_coverages(row, held) for row in select(CompetitorRow, sql, bots)}


def _add_coverages(row: CompetitorRow, held: Mapping[int, Sequence[Wallet]]) -> CompetitorRow:
    coverages = [one["coverage"] for one in held.get(row.id, ())]
    return row._replace(coverages=coverages or [show_coverage(row.address, row.coverages)])


LISTED = f"""
SELECT {", ".join(StandingRow._fields).replace("bot,", "bot_id AS bot,", 1)} FROM standing_total
WHERE record = ? AND money = ? AND seconds = ? AND {{tier}} = ?
ORDER BY {{column}} DESC, bot_id LIMIT ?
"""


def list_standings(board: Board, order: Order, now: int, limit: int) -> list[list[StandingRow]]:
    """List the best `limit` bots of each tier (chain.stored.standings). `now`: Unix seconds. Stored
    standings are used, except those that have to be recomputed.
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


class ConnectedRow(NamedTuple):
    """Counts of wallets: ever connected, currently connected, and with a forward record."""

    ever: int
    held: int
    observed: int


# Each count reads only an index.
CONNECTED = f"""
SELECT (SELECT COUNT(*) FROM wallet) AS ever,
       {COUNT_HELD} AS held,
       (SELECT COUNT(*) FROM wallet WHERE forward_realized IS NOT NULL) AS observed
"""
NTH = """
SELECT forward_realized FROM wallet WHERE forward_realized IS NOT NULL
ORDER BY forward_realized LIMIT 1 OFFSET ?
"""


def show_connected() -> Json:
    """Make the Connected: counts, and the median realized PnL of all observed wallets while they
    were connected. For an even number of wallets, the lower of the middle two.
    """
    (row,) = select(ConnectedRow, CONNECTED)
    median = select_value(NTH, [(row.observed - 1) // 2]) if row.observed else None
    return {
        "walletsEver": row.ever,
        "walletsHeld": row.held,
        "walletsObserved": row.observed,
        "medianRealizedLamports": show_raw(median),
    }
