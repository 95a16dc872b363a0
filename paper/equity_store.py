"""Note what accounts are worth: each ten minutes of a day, each hour of what is older."""

from collections.abc import Sequence
from typing import Any

import storage
from paper.guard import DAY_MS, HOUR_MS
from paper.load import LoadedTrader

MARK_MS = 600_000
# Marks between one day and this many days old are thinned out; a longer stop of the job leaves its
# marks as they are.
THINNED_DAYS = 3
# Those that have an earlier one in their hour; integers are cut by division in every engine. Most
# that are left begin an hour, and are looked at no further.
THIN_OUT = f"""
DELETE FROM equity_mark WHERE at < ? AND at > ? AND at / {HOUR_MS} * {HOUR_MS} <> at
AND EXISTS (SELECT 1 FROM equity_mark e WHERE e.period_id = equity_mark.period_id
            AND e.at >= equity_mark.at / {HOUR_MS} * {HOUR_MS} AND e.at < equity_mark.at)"""


def list_marks(loaded: Sequence[LoadedTrader], now: int) -> list[dict[str, Any]]:
    """Return the rows of what traders are worth at `now` (ms)."""
    return [
        {
            "period": one.row.period,
            "at": now // MARK_MS * MARK_MS,
            "equity": one.trader.account.equity,
            "held": one.trader.account.equity - one.trader.account.cash,
        }
        for one in loaded
    ]


def thin_out(now: int) -> None:
    """Delete all marks of an account in an hour but its first, a day later. In the caller's
    transaction.
    """
    storage.database.execute_sql(THIN_OUT, (now - DAY_MS, now - THINNED_DAYS * DAY_MS))
