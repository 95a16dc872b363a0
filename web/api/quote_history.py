"""Results against a stablecoin at chosen times and by the day, as web.api.history has them in SOL.
Amounts are raw units of the stablecoin.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from storage.rows import select
from web.api import history
from web.api.history import DayTotals
from web.api.quote_results import Source

DAY_SECONDS = 86_400
# {{}}: the times, then the bots.
SAMPLED = """
WITH sampled (at) AS (VALUES {{}})
SELECT b.uid AS bot, s.at, CAST(COALESCE(SUM((
    SELECT q.realized FROM quote_total q WHERE q.wallet_id = a.wallet_id AND q.span = {span}
    AND q.quote = '{mint}' AND q.time < s.at ORDER BY q.time DESC LIMIT 1)), 0) AS BIGINT)
    AS realized
FROM bot b JOIN attachment a ON a.bot_id = b.id AND {which} CROSS JOIN sampled s
WHERE b.uid IN ({{}}) GROUP BY b.uid, s.at ORDER BY b.uid, s.at
"""


def write_samples(source: Source, mint: str) -> str:
    """Return the statement for history.sample_realized. `mint`: of chain.reading.quotes."""
    return SAMPLED.format(span=source.span, which=source.which, mint=mint)


# The last totals of each of the last days, one look into the index for each day.
DAY_ENDS = """
WITH RECURSIVE day_end (time, number) AS (
    SELECT MAX(q.time), 1 FROM quote_total q WHERE {ledger}
    UNION ALL
    SELECT (SELECT MAX(q.time) FROM quote_total q
            WHERE {ledger} AND q.time < e.time / {day} * {day}), e.number + 1
    FROM day_end e WHERE e.time IS NOT NULL AND e.number <= {most})
SELECT q.time / {day} AS day, q.realized, q.volume, q.trades, q.matched + q.partial AS sells
FROM day_end e JOIN quote_total q ON {ledger} AND q.time = e.time ORDER BY q.time
"""
LEDGER = "q.wallet_id = ? AND q.span = 0 AND q.quote = ?"


class QuoteDay(NamedTuple):
    """What wallets did against a stablecoin on a day, counted from 1970. `total`: what they had
    realized up to the day's end; `sells`: with a result.
    """

    day: int
    realized: int
    total: int
    volume: int
    trades: int
    sells: int


def list_days(address: str, mint: str, most: int) -> list[QuoteDay]:
    """Return the last `most` days on which the wallet of this address, or another that its bot
    holds, traded against a stablecoin, in order.
    """
    lists = [_list_days_of(number, mint, most) for number in history.find_together(address)]
    return _add_days(lists)[-most:]


def _add_days(lists: Sequence[Sequence[QuoteDay]]) -> list[QuoteDay]:
    by_day = [{one.day: one for one in days} for days in lists]
    # What each had realized before its first day.
    totals = [days[0].total - days[0].realized if days else 0 for days in lists]
    added = []
    for day in sorted({day for days in by_day for day in days}):
        found = {place: days[day] for place, days in enumerate(by_day) if day in days}
        for place, one in found.items():
            totals[place] = one.total
        sums = QuoteDay(*(sum(column) for column in zip(*found.values(), strict=True)))
        added.append(sums._replace(day=day, total=sum(totals)))
    return added


def _list_days_of(wallet_id: int, mint: str, most: int) -> list[QuoteDay]:
    sql = DAY_ENDS.format(ledger=LEDGER, day=DAY_SECONDS, most=most)
    ends = select(DayTotals, sql, (wallet_id, mint) * 3)
    # What came before the oldest of too many is not known, so it only tells where the next began.
    before = ends.pop(0) if len(ends) > most else DayTotals(0, 0, 0, 0, 0)
    days = [
        QuoteDay(
            end.day,
            end.realized - start.realized,
            end.realized,
            end.volume - start.volume,
            end.trades - start.trades,
            end.sells - start.sells,
        )
        for start, end in itertools.pairwise([before, *ends])
    ]
    return [day for day in days if day.trades]
