"""What bots did, as the leaderboard ranks it: since their wallets were attached, or in all that is
known of the wallet; of all time, or since a moment.
"""

from collections.abc import Sequence
from typing import NamedTuple

from web.api.statements import IS_EXPLAINED, PRICED_KINDS
from web.server.rows import select

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
LEFT JOIN wallet w ON w.id = a.wallet_id ORDER BY b.id
"""


class Totals(NamedTuple):
    """What a bot did: lamports and counts. `winning`: sales with a result above 0; `cost_left`:
    known cost of what left without a sale.
    """

    realized: int = 0
    volume: int = 0
    trades: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    cost_left: int = 0


def list_competitors() -> list[CompetitorRow]:
    """Return all bots, the oldest first."""
    return select(CompetitorRow, COMPETITORS)


# ---- since attachment ----------------------------------------------------------------------------
class Record(NamedTuple):
    """What a bot did since its wallets were attached; was each of them proven by it?"""

    is_proven: bool
    totals: Totals


class RecordRow(NamedTuple):
    """The forward record of a bot over all its spans, as in Totals. `is_claimed`: 1 where something
    happened in a wallet that it never proved.
    """

    bot_id: int
    is_claimed: int
    realized: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int


def _sum(name: str) -> str:
    return f"SUM(COALESCE(e.{name}, 0) - COALESCE(s.{name}, 0))"


# The last running totals of each span, less the last ones before a Unix second. What was still held
# when a wallet was given up is cost that left then.
RECORDS = f"""
SELECT a.bot_id,
       MAX(CASE WHEN e.trades > 0 AND NOT EXISTS (
           SELECT 1 FROM attachment p WHERE p.bot_id = a.bot_id AND p.wallet_id = a.wallet_id
           AND p.ownership = 'proven') THEN 1 ELSE 0 END) AS is_claimed,
       {", ".join(f"CAST({_sum(name)} AS BIGINT) AS {name}" for name in Totals._fields[:-1])},
       CAST({_sum("cost_left")} + SUM(CASE WHEN a.detached_at >= ? THEN a.open_cost ELSE 0 END)
            AS BIGINT) AS cost_left
FROM attachment a
LEFT JOIN forward_total e ON e.attachment_id = a.id AND e.time = (
    SELECT MAX(l.time) FROM forward_total l WHERE l.attachment_id = a.id)
LEFT JOIN forward_total s ON s.attachment_id = a.id AND s.time = (
    SELECT MAX(l.time) FROM forward_total l WHERE l.attachment_id = a.id AND l.time < ?)
WHERE a.open_cost IS NOT NULL GROUP BY a.bot_id
"""


def find_records(since: int | None) -> dict[int, Record]:
    """Return {bot id: its forward record} since a Unix second, None for all of it; bots of which
    nothing was derived yet are left out.
    """
    begin = since or 0
    records = {}
    for row in select(RecordRow, RECORDS, (begin * 1000, begin)):
        bot_id, is_claimed, *totals = row
        records[bot_id] = Record(not is_claimed, Totals(*totals))
    return records


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
