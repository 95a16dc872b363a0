"""A wallet's running totals at the end of each hour: a window is the difference of two rows."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from peewee import chunked

import storage
from chain.ledger.reconciliation import Totals
from chain.stored.tables import HourTotal


class RunningTotals(NamedTuple):
    """What a wallet did up to an instant, by the columns of `hour_total`: lamports and counts."""

    realized: int = 0
    volume: int = 0
    trades: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    failed: int = 0
    failed_cost: int = 0
    overhead: int = 0
    cost_left: int = 0
    cost_left_receipts: int = 0


RUNNING = RunningTotals._fields
HOURS = f"SELECT hour, {', '.join(RUNNING)} FROM hour_total WHERE wallet_id = ?"


def read_running(totals: Totals) -> RunningTotals:
    """Return what is stored of these sums at the end of an hour."""
    return RunningTotals._make(_read_columns(totals))


_read_columns = attrgetter(*RUNNING)


def read_hours(wallet_id: int) -> Iterator[tuple[int, RunningTotals]]:
    """Yield a wallet's stored running totals, each with its hour."""
    for hour, *totals in storage.database.execute_sql(HOURS, (wallet_id,)):
        yield hour, RunningTotals._make(totals)


def replace_hours(wallet_id: int, hours: Mapping[int, RunningTotals | None]) -> None:
    """Write the running totals by hour, and drop those that are None."""
    rows = [
        {"wallet": wallet_id, "hour": hour, **totals._asdict()}
        for hour, totals in hours.items()
        if totals is not None
    ]
    storage.write_rows(HourTotal, rows, ("wallet", "hour"))
    for gone in chunked(
        sorted(hour for hour, totals in hours.items() if totals is None), storage.ROWS_A_STATEMENT
    ):
        HourTotal.delete().where(HourTotal.wallet == wallet_id, HourTotal.hour.in_(gone)).execute()
