"""What bots did, as the leaderboard ranks it: since their wallets were attached, or in all that is
known of the wallet; of all time, or since a moment.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chain.stored.holdings import LAST_LEAD
from chain.stored.ranks import HIDDEN, IN_SOL, StandingRow
from chain.stored.standing_store import list_forgotten, read_rows, work_out
from chain.stored.trade_store import to_json
from storage.rows import select, write_marks
from web.api.held_wallets import find_coverages, join_coverages


class CompetitorRow(NamedTuple):
    """A bot with the wallet that leads, or led when it was retired (`retired_at`, ms). `coverage`
    is JSON of all its wallets.

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


COMPETITORS = f"""
SELECT b.id, b.uid, b.name, b.handle, b.retired_at, w.id AS wallet_id, w.address, w.coverage,
       a.ownership, CASE WHEN w.bot_id = b.id THEN w.bot_since END AS claimed_since
FROM bot b
LEFT JOIN attachment a ON a.id = {LAST_LEAD}
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
    rows, others = select(CompetitorRow, sql, bots), find_coverages(bots)
    return {row.id: _add_coverages(row, others.get(row.id)) for row in rows}


def _add_coverages(row: CompetitorRow, others: Mapping[str, str | None] | None) -> CompetitorRow:
    if not others or row.address is None:
        return row
    told = join_coverages({row.address: row.coverage, **others})
    return row._replace(coverage=to_json(told))


LISTED = f"""
SELECT {", ".join(StandingRow._fields).replace("bot,", "bot_id AS bot,", 1)} FROM standing_total
WHERE record = ? AND quote = ? AND seconds = ? AND {{tier}} = ?
ORDER BY {{column}} DESC, bot_id LIMIT ?
"""


def list_standings(
    record: str, order: Order, seconds: int, now: int, limit: int, quote: str = IN_SOL
) -> list[list[StandingRow]]:
    """Return the best of each tier (chain.stored.ranks) in a window, `limit` of each; `now` in Unix
    seconds; `quote`: the mint of the stablecoin that is ranked by. Stored ones but for those that
    are to be worked out anew.
    """
    forgotten = list_forgotten(read_rows, record, seconds, now, quote)
    tiers: list[list[StandingRow]] = [[] for _ in range(HIDDEN)]
    sql = LISTED.format(tier=order.tier, column=order.column)
    for number, tier in enumerate(tiers):
        found = select(StandingRow, sql, (record, quote, seconds, number, limit + len(forgotten)))
        tier += [row for row in found if row.bot not in forgotten]
    for row in work_out(read_rows, record, seconds, now, forgotten, quote):
        number = getattr(row, order.tier)
        if number != HIDDEN:
            tiers[number].append(row)
    for tier in tiers:
        tier.sort(key=lambda row: (-getattr(row, order.column), row.bot))
    return [tier[:limit] for tier in tiers]
