"""Results against a stablecoin at chosen times and by the day, as web.api.history has them in SOL.
Amounts are raw units of the stablecoin.
"""

import itertools
from typing import NamedTuple

from storage.rows import select
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
LEDGER = """q.wallet_id = (SELECT id FROM wallet WHERE address = ?) AND q.span = 0
    AND q.quote = ?"""


class QuoteDay(NamedTuple):
    """What a wallet did against a stablecoin on a day, which is counted from 1970. `total`: what it
    had realized up to the day's end; `sells`: with a result.
    """

    day: int
    realized: int
    total: int
    volume: int
    trades: int
    sells: int


def list_days(address: str, mint: str, most: int) -> list[QuoteDay]:
    """Return the last `most` days on which a wallet traded against a stablecoin, in order."""
    sql = DAY_ENDS.format(ledger=LEDGER, day=DAY_SECONDS, most=most)
    ends = select(DayTotals, sql, (address, mint) * 3)
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
