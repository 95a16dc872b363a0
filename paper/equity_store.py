"""Note what accounts are worth: each ten minutes of a day, each hour of what is older."""

from collections.abc import Sequence
from typing import Any

from paper.equity_tables import EquityMark
from paper.guard import DAY_MS, HOUR_MS
from paper.load import LoadedTrader

MARK_MS = 600_000
# Marks older than a day are looked through for so long; what a stop of the job left stays.
THINNED_DAYS = 3


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
    """Delete all marks of an hour but its first, a day later. In the caller's transaction."""
    EquityMark.delete().where(
        EquityMark.at < now - DAY_MS,
        EquityMark.at > now - THINNED_DAYS * DAY_MS,
        # Integers are cut by division in every engine.
        EquityMark.at / HOUR_MS * HOUR_MS != EquityMark.at,
    ).execute()
