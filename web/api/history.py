"""Realized PnL at chosen times and by day, for curves. Each point is one look-up in running totals,
however many trades there are.
"""

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from chain.ledger.views import HOUR_SECONDS
from chain.stored.attachments import OF_RESULTS, Source
from storage import database
from storage.rows import select, select_value, write_marks

DAY_SECONDS = 86_400
SAMPLED = f"""
WITH sampled (at) AS (VALUES {{times}})
SELECT b.uid AS bot, s.at, CAST(COALESCE(SUM((
    SELECT t.realized FROM running_total t WHERE t.wallet_id = a.wallet_id
    AND t.money = ? AND t.view = {{view}} AND t.hour < s.at / {HOUR_SECONDS}
    ORDER BY t.hour DESC LIMIT 1)), 0) AS BIGINT) AS realized
FROM bot b JOIN attachment a ON a.bot_id = b.id AND {{which}} CROSS JOIN sampled s
WHERE b.uid IN ({{bots}}) GROUP BY b.uid, s.at ORDER BY b.uid, s.at
"""


def sample_realized(
    source: Source, money: str, bots: Sequence[str], times: Sequence[int]
) -> dict[str, list[int]]:
    """Return {bot: its realized PnL at the full hour before each of these Unix seconds}, in order,
    in raw units of the currency. `bots`: public IDs.
    """
    found: dict[str, list[int]] = {}
    if not bots or not times:
        return found
    asked = SAMPLED.format(
        **source._asdict(), times=", ".join(["(?)"] * len(times)), bots=write_marks(bots)
    )
    for bot, _, realized in database.execute_sql(asked, [*times, money, *bots]).fetchall():
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


# Only the newest transactions: a wallet may have a million.
SALES = """
SELECT n.block_time AS at, n.kind, n.realized AS status, n.result, n.cost FROM (
    SELECT t.block_time, t.kind, t.realized, t.result, t.cost FROM trade t
    WHERE t.wallet_id = ? AND t.currency = ''
    ORDER BY t.slot DESC, t.place DESC, t.id DESC LIMIT ?) n
WHERE n.result IS NOT NULL OR n.kind IN ('buy', 'sell')
"""
HELD = """
SELECT a.wallet_id FROM attachment a JOIN bot b ON b.id = a.bot_id
WHERE b.uid = ? AND a.detached_at IS NULL"""
MAX_READ = 1_000


def list_sales(bot: str) -> list[SaleRow]:
    """List purchases and sales among the newest MAX_READ transactions of each of a bot's current
    wallets, newest first.
    """
    wallets = select(int, HELD, (bot,))
    found = [select(SaleRow, SALES, (number, MAX_READ)) for number in wallets]
    # Within a second, each list is already in order.
    return list(heapq.merge(*found, key=lambda row: row.at or 0, reverse=True))


# ---- days ----------------------------------------------------------------------------------------
class DayTotals(NamedTuple):
    """One day of a bot's wallets: raw units of a currency, and counts. `day`: days since 1970;
    `total`: realized by the end of the day; `sells`: sales with a result.
    """

    day: int
    realized: int
    total: int
    volume: int
    trades: int
    sells: int

    @property
    def at(self) -> int:
        return self.day * DAY_SECONDS


class HourRow(NamedTuple):
    """The running totals of an attachment at the end of an hour (hours since 1970)."""

    attachment: int
    hour: int
    realized: int
    volume: int
    trades: int
    sells: int


HOURS = f"""
SELECT a.id AS attachment, t.hour, t.realized, t.volume, t.trades, t.matched + t.partial AS sells
FROM attachment a JOIN bot b ON b.id = a.bot_id JOIN running_total t ON t.wallet_id = a.wallet_id
    AND t.money = ? AND t.view = {OF_RESULTS.view}
WHERE b.uid = ? AND {OF_RESULTS.which} ORDER BY a.id, t.hour
"""


def list_days(bot: str, money: str) -> list[DayTotals]:
    """List the days on which a bot's current wallets traded in a currency, in order."""
    # The last hour of each day.
    ends = {(row.attachment, row.hour // 24): row for row in select(HourRow, HOURS, (money, bot))}
    changes: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 4)
    before = HourRow(0, 0, 0, 0, 0, 0)
    for (attachment, day), end in ends.items():
        start = before if before.attachment == attachment else HourRow(attachment, 0, 0, 0, 0, 0)
        for place, (now, then) in enumerate(zip(end[2:], start[2:], strict=True)):
            changes[day][place] += now - then
        before = end
    total, days = 0, []
    for day, (realized, *counts) in sorted(changes.items()):
        total += realized
        days.append(DayTotals(day, realized, total, *counts))
    return [day for day in days if day.trades]
