"""What bots did, as the leaderboard ranks it: since their wallets were attached, or in all that is
known of the wallet; of all time, or since a moment.
"""

from collections.abc import Sequence
from typing import NamedTuple

from chain.ranks import HIDDEN, Totals
from chain.standing_store import StandingRow, list_forgotten, read_rows, work_out
from web.api.statements import IS_EXPLAINED, PRICED_KINDS
from web.server.rows import select, write_marks

END_OF_TIME = 2**31


class CompetitorRow(NamedTuple):
    """A bot with the wallet it holds, or held when it was retired (`retired_at`, ms). `results` and
    `coverage` are JSON.

    `since`: when a mere claim of a wallet that another bot had proven begins (ms), else None.
    `holder`: own, prover (it had proven the wallet that another one claims now), or None where the
    wallet's past went to another.
    """

    id: int
    uid: str
    name: str
    handle: str
    retired_at: int | None
    wallet_id: int | None
    address: str | None
    results: str | None
    coverage: str | None
    ownership: str | None
    since: int | None
    holder: str | None


COMPETITORS = """
SELECT b.id, b.uid, b.name, b.handle, b.retired_at, w.id AS wallet_id, w.address, w.results,
       w.coverage, a.ownership, CASE WHEN w.bot_id = b.id THEN w.bot_since END AS since,
       CASE WHEN w.bot_id = b.id THEN 'own' WHEN w.prover_id = b.id THEN 'prover' END AS holder
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


def list_competitors() -> list[CompetitorRow]:
    """Return all bots, the oldest first."""
    return select(CompetitorRow, f"{COMPETITORS}ORDER BY b.id")


def find_competitors(bots: Sequence[int]) -> dict[int, CompetitorRow]:
    """Return {bot id: row}."""
    sql = f"{COMPETITORS}WHERE b.id IN ({write_marks(bots)})"
    return {row.id: row for row in select(CompetitorRow, sql, bots)}


# ---- since attachment ----------------------------------------------------------------------------
LISTED = f"""
SELECT {", ".join(StandingRow._fields).replace("bot,", "bot_id,", 1)} FROM standing_total
WHERE seconds = {{seconds}} AND {{tier}} = {{number}}
ORDER BY {{column}} DESC, bot_id LIMIT {{limit}}
"""


def list_standings(order: Order, seconds: int, now: int, limit: int) -> list[list[StandingRow]]:
    """Return the best of each tier (chain.ranks) in a window, `limit` of each; `now` in Unix
    seconds. Stored ones but for those that are to be worked out anew.
    """
    forgotten = list_forgotten(read_rows, seconds, now)
    tiers: list[list[StandingRow]] = [[] for _ in range(HIDDEN)]
    for number, tier in enumerate(tiers):
        found = read_rows(
            LISTED.format(
                seconds=seconds,
                tier=order.tier,
                number=number,
                column=order.column,
                limit=limit + len(forgotten),
            )
        )
        tier += [row for row in map(StandingRow._make, found) if row.bot not in forgotten]
    for row in work_out(read_rows, seconds, now, forgotten):
        number = getattr(row, order.tier)
        if number != HIDDEN:
            tiers[number].append(row)
    for tier in tiers:
        tier.sort(key=lambda row: (-getattr(row, order.column), row.bot))
    return [tier[:limit] for tier in tiers]


# ---- all that is known of a wallet ---------------------------------------------------------------
class TotalsRow(NamedTuple):
    """The totals of a wallet."""

    wallet_id: int
    realized: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int


RUNNING_TOTALS = """
SELECT h.wallet_id, h.realized, h.volume, h.trades, h.matched, h.partial, h.unmatched, h.winning,
       h.cost_left
FROM attachment a JOIN bot b ON b.id = a.bot_id JOIN hour_total h ON h.wallet_id = a.wallet_id
AND h.hour = (SELECT MAX(l.hour) FROM hour_total l WHERE l.wallet_id = a.wallet_id AND l.hour < ?)
WHERE a.detached_at IS NULL OR a.detached_at = b.retired_at
"""
# Every kind can hold a cost that left, also a failed transaction that shows a gap before it. Each
# is named, so that the index by kind and time is used.
ALL_KINDS = """('buy', 'sell', 'swap', 'round_trip', 'transfer_in', 'transfer_out',
    'transfer_self', 'native_transfer', 'order_open', 'order_fill', 'order_cancel', 'liquidity',
    'lending', 'stake', 'bridge', 'nft', 'account_open', 'account_close', 'other', 'failed')"""
TOTALS_BETWEEN = f"""
SELECT t.wallet_id, COALESCE(SUM(t.result), 0) AS realized,
       COALESCE(SUM(CASE WHEN t.kind IN ('buy', 'sell') AND {IS_EXPLAINED}
                    THEN ABS(t.sol_change - t.beside_sol) END), 0) AS volume,
       COUNT(CASE WHEN t.kind IN {PRICED_KINDS} AND {IS_EXPLAINED} THEN 1 END) AS trades,
       COUNT(CASE WHEN t.realized = 'matched' THEN 1 END) AS matched,
       COUNT(CASE WHEN t.realized = 'partial' THEN 1 END) AS partial,
       COUNT(CASE WHEN t.realized = 'unmatched' AND {IS_EXPLAINED}
             AND t.flags NOT LIKE '%"incomplete_history"%' THEN 1 END) AS unmatched,
       COUNT(CASE WHEN t.result > 0 THEN 1 END) AS winning,
       COALESCE(SUM(t.cost_left), 0) AS cost_left
FROM trade t WHERE t.kind IN {ALL_KINDS} AND t.block_time >= ? AND t.block_time < ?
GROUP BY t.wallet_id
"""


def find_totals_since(block_time: int) -> dict[int, Totals]:
    """Return {wallet id: totals} of what happened since this Unix second, for wallets held now or
    when their bot was retired.
    """
    now, before = find_running(END_OF_TIME), find_totals_until(block_time)
    return {wallet: subtract(totals, before.get(wallet)) for wallet, totals in now.items()}


def find_totals_until(block_time: int) -> dict[int, Totals]:
    """Return {wallet id: totals} of what happened before this Unix second.

    Running totals at the full hour that is nearest, and what lies between: no more than half an
    hour's trades are added up.
    """
    hour = (block_time + 1_800) // 3_600
    first, end = sorted((block_time, hour * 3_600))
    running, between = find_running(hour), _find_totals(TOTALS_BETWEEN, (first, end))
    sign = -1 if first == block_time else 1
    return {
        wallet: Totals._make(
            total + sign * part
            for total, part in zip(
                running.get(wallet, Totals()), between.get(wallet, Totals()), strict=True
            )
        )
        for wallet in running.keys() | between.keys()
    }


def subtract(totals: Totals, before: Totals | None) -> Totals:
    """Return what was added since `before`."""
    if before is None:
        return totals
    return Totals._make(one - other for one, other in zip(totals, before, strict=True))


def find_running(hour: int) -> dict[int, Totals]:
    """Return {wallet id: totals} at the end of the last hour before this one."""
    return _find_totals(RUNNING_TOTALS, (hour,))


def _find_totals(sql: str, values: Sequence[int]) -> dict[int, Totals]:
    found = {}
    for row in select(TotalsRow, sql, values):
        wallet_id, *totals = row
        found[wallet_id] = Totals(*totals)
    return found
