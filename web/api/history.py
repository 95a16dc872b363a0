"""Realized PnL at chosen times, for curves: however many trades there are, each point is one look
into running totals.
"""

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from storage import database
from storage.rows import select, select_value, write_marks
from web.api.statements import HOURS, HourRow

# {}: the times, then the bots. Everything that is known of the wallets a bot holds now.
OF_WALLET = """
WITH sampled (at) AS (VALUES {})
SELECT b.uid AS bot, s.at, CAST(COALESCE(SUM((
    SELECT h.realized FROM hour_total h WHERE h.wallet_id = a.wallet_id AND h.hour < s.at / 3600
    ORDER BY h.hour DESC LIMIT 1)), 0) AS BIGINT) AS realized
FROM bot b JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL CROSS JOIN sampled s
WHERE b.uid IN ({}) GROUP BY b.uid, s.at ORDER BY b.uid, s.at
"""
# Since its wallets were attached, of all it ever had.
OF_RECORD = """
WITH sampled (at) AS (VALUES {})
SELECT b.uid AS bot, s.at, CAST(COALESCE(SUM((
    SELECT f.realized FROM forward_total f WHERE f.attachment_id = a.id AND f.time < s.at
    ORDER BY f.time DESC LIMIT 1)), 0) AS BIGINT) AS realized
FROM bot b JOIN attachment a ON a.bot_id = b.id CROSS JOIN sampled s
WHERE b.uid IN ({}) GROUP BY b.uid, s.at ORDER BY b.uid, s.at
"""


def sample_realized(sql: str, bots: Sequence[str], times: Sequence[int]) -> dict[str, list[int]]:
    """Return {bot: realized PnL in lamports before each of these Unix seconds}, in order.

    `sql`: OF_WALLET, whose times count by full hours, or OF_RECORD; `bots`: public ids.
    """
    found: dict[str, list[int]] = {}
    if not bots or not times:
        return found
    asked = sql.format(", ".join(["(?)"] * len(times)), write_marks(bots))
    for bot, _, realized in database.execute_sql(asked, [*times, *bots]).fetchall():
        found.setdefault(bot, []).append(realized)
    return found


TIME_BEFORE = """
SELECT t.block_time FROM trade t WHERE t.wallet_id = (SELECT id FROM wallet WHERE address = ?)
AND t.slot <= ? ORDER BY t.slot DESC, t.place DESC, t.id DESC LIMIT 1
"""
TIME_AFTER = """
SELECT t.block_time FROM trade t WHERE t.wallet_id = (SELECT id FROM wallet WHERE address = ?)
AND t.slot >= ? ORDER BY t.slot, t.place, t.id LIMIT 1
"""


def find_times(address: str, first_slot: int, last_slot: int) -> tuple[int | None, int | None]:
    """Return the Unix seconds of a wallet's transactions around these slots, None where unknown."""
    before = select_value(TIME_BEFORE, (address, first_slot))
    return before, select_value(TIME_AFTER, (address, last_slot))


class SaleRow(NamedTuple):
    """A purchase or a sale of a wallet. `at`: Unix seconds; `status`: matched | partial | unmatched
    | not_applicable; `result`, `cost`: lamports.
    """

    at: int | None
    kind: str
    status: str
    result: int | None
    cost: int | None


# The newest transactions alone: a wallet may have a million.
SALES = """
SELECT n.block_time AS at, n.kind, n.realized AS status, n.result, n.cost FROM (
    SELECT t.block_time, t.kind, t.realized, t.result, t.cost FROM trade t
    WHERE t.wallet_id = ? AND t.currency = ''
    ORDER BY t.slot DESC, t.place DESC, t.id DESC LIMIT ?) n
WHERE n.result IS NOT NULL OR n.kind IN ('buy', 'sell')
"""
# The wallet of an address, and the others that its bot holds.
HELD_TOGETHER = """
SELECT id FROM wallet WHERE address = ? UNION
SELECT o.wallet_id FROM wallet w
JOIN attachment a ON a.wallet_id = w.id AND a.detached_at IS NULL
JOIN attachment o ON o.bot_id = a.bot_id AND o.detached_at IS NULL WHERE w.address = ?"""
MAX_READ = 1_000


def find_together(address: str) -> list[int]:
    """Return the number of the wallet of this address, and of the others that its bot holds."""
    return select(int, HELD_TOGETHER, (address, address))


def list_sales(address: str) -> list[SaleRow]:
    """Return purchases and sales among the newest MAX_READ transactions of the wallet of this
    address and of each other that its bot holds, newest first.
    """
    found = [select(SaleRow, SALES, (number, MAX_READ)) for number in find_together(address)]
    # Each list has its order already, by more than the second.
    return list(heapq.merge(*found, key=lambda row: row.at or 0, reverse=True))


# ---- days ----------------------------------------------------------------------------------------
class DayTotals(NamedTuple):
    """What wallets did on a day: lamports and counts. `day`: days since 1970; `sells`: with a
    result.
    """

    day: int
    realized: int
    volume: int
    trades: int
    sells: int


def list_days(address: str) -> list[DayTotals]:
    """Return the days on which the wallet of this address, or another that its bot holds, traded,
    in order.
    """
    found: dict[int, list[DayTotals]] = defaultdict(list)
    for one in (one for number in find_together(address) for one in _list_days_of(number)):
        found[one.day].append(one)
    return [
        DayTotals(day, *(sum(column) for column in list(zip(*parts, strict=True))[1:]))
        for day, parts in sorted(found.items())
    ]


def _list_days_of(wallet_id: int) -> list[DayTotals]:
    # The last hour of each day.
    ends = {row.hour // 24: row for row in select(HourRow, HOURS, (wallet_id,))}
    days, before = [], HourRow(0, 0, 0, 0, 0)
    for day, end in ends.items():
        days.append(
            DayTotals(
                day,
                end.realized - before.realized,
                end.volume - before.volume,
                end.trades - before.trades,
                end.sells - before.sells,
            )
        )
        before = end
    return [day for day in days if day.trades]
