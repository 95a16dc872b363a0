"""The risk of realized results: of all that a bot's wallet did, and of its forward record."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from chain.amounts import show_lamports
from chain.ledger.risk import HOURS_A_DAY, Curve, join_curves
from chain.stored.risk_store import StoredRisk, load_risk
from storage.rows import select, write_marks
from web.api import quote_results
from web.api.serialize import DAMAGED, Json, show_time

HOUR_MS, HOUR_SECONDS = 3_600_000, 3_600
# hours
WINDOWS = {"24h": 24, "7d": 168, "30d": 720}


class RiskRow(NamedTuple):
    """A stretch of an attachment or its whole wallet, as ledger.risk.Stretch; its columns are null
    where nothing happened, and `realized_in_all` where nothing was derived yet.
    """

    bot_id: int
    realized_in_all: int | None
    realized: int | None
    high: int | None
    low: int | None
    drawdown: int | None
    sales: int | None
    winning: int | None
    best: int | None
    worst: int | None
    closed: int | None
    won: int | None
    uncounted: int | None
    days: int | None
    first_day: int | None
    last_day: int | None
    median_holding: int | None
    holdings: str | None


class CurveRow(NamedTuple):
    """The curve of a stretch, as of RiskRow."""

    bot_id: int
    realized_in_all: int | None
    realized: int | None
    high: int | None
    low: int | None
    drawdown: int | None

    @property
    def curve(self) -> Curve:
        return Curve(self.realized or 0, self.high or 0, self.low or 0, self.drawdown or 0)


COLUMNS, CURVE = (", ".join(f"r.{name}" for name in row._fields[2:]) for row in (RiskRow, CurveRow))
ALL_OF_IT = "r.hours = 0"
# From an hour on: to the end of its day by the hour, then by the day.
SINCE = "(r.hours = 1 AND r.begins >= ? AND r.begins < ? OR r.hours = 24 AND r.begins >= ?)"
# Of all attachments of a bot, or of the wallets that it holds now: which columns, stretches, bots.
OF_RECORD = """
SELECT a.bot_id, a.forward_realized AS realized_in_all, {}
FROM attachment a
LEFT JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.span = a.id AND {}
WHERE a.bot_id IN ({}) ORDER BY a.attached_at, a.id, r.begins
"""
OF_RESULTS = """
SELECT a.bot_id, w.forward_realized AS realized_in_all, {}
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
LEFT JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.span = 0 AND {}
WHERE a.detached_at IS NULL AND a.bot_id IN ({}) ORDER BY a.attached_at, a.id, r.begins
"""
Row = TypeVar("Row", RiskRow, CurveRow)


def _read_rows(
    row_type: type[Row], columns: str, sql: str, bot_ids: Sequence[int], since: int | None
) -> dict[int, list[Row]]:
    """Return {bot id: rows} of OF_RECORD or OF_RESULTS, without what was not derived yet."""
    values: list[int] = []
    if since is not None:
        next_day = -(-since // HOURS_A_DAY) * HOURS_A_DAY
        values = [since, next_day, next_day]
    asked = sql.format(columns, ALL_OF_IT if since is None else SINCE, write_marks(bot_ids))
    rows: dict[int, list[Row]] = {}
    for row in select(row_type, asked, [*values, *bot_ids]):
        if row.realized_in_all is not None:
            rows.setdefault(row.bot_id, []).append(row)
    return rows


def find_drawdowns(sql: str, bot_ids: Sequence[int], since: int | None) -> dict[int, int]:
    """Return {bot id: max drawdown in lamports}, as find_risks: for lists."""
    rows = _read_rows(CurveRow, CURVE, sql, bot_ids, since)
    return {
        bot: join_curves(row.curve for row in found if row.realized is not None).drawdown
        for bot, found in rows.items()
    }


def find_risks(
    sql: str, bot_ids: Sequence[int], since: int | None = None
) -> dict[int, StoredRisk | None]:
    """Return {bot id: the risk} of OF_RECORD or OF_RESULTS, in all or from an hour on that is
    counted from 1970. A bot of which nothing was derived yet is left out; None: it is damaged.
    """
    rows = _read_rows(RiskRow, COLUMNS, sql, bot_ids, since)
    return {
        bot: load_risk([row._asdict() for row in found if row.realized is not None])
        for bot, found in rows.items()
    }


def add_risks(bots: Sequence[Json], bot_ids: Sequence[int]) -> None:
    """Add `risk` and `riskReason` to Bots, and `risk` to their records."""
    results, records = (find_risks(sql, bot_ids) for sql in (OF_RESULTS, OF_RECORD))
    for bot, number in zip(bots, bot_ids, strict=True):
        risk, reason = results.get(number), find_reason(bot)
        if reason is None and risk is None:
            reason = DAMAGED
        bot["risk"] = None if reason else show_risk(risk)
        bot["riskReason"] = reason
        bot["activeDays"] = risk.stretch.days if risk and not reason else None
        if bot["record"]:
            bot["record"]["risk"] = show_risk(records.get(number))


def find_reason(bot: Json) -> str | None:
    """Tell why a Bot has no risk of its results, or None."""
    if bot["wallet"] is None:
        return "no_wallet"
    if bot["results"] is None:
        return bot["resultsReason"] or "not_observed"
    return None


def show_risk(risk: StoredRisk | None) -> Json | None:
    """Make the Risk."""
    if risk is None:
        return None
    stretch = risk.stretch
    return {
        "maxDrawdownLamports": str(stretch.drawdown),
        "bestLamports": show_lamports(stretch.best),
        "worstLamports": show_lamports(stretch.worst),
        "medianHoldingSeconds": risk.median_holding,
        "sells": stretch.sales,
        "winningSells": stretch.winning,
        "positionsClosed": stretch.closed,
        "positionsWon": stretch.won,
        "positionsUncounted": stretch.uncounted,
        "daysActive": stretch.days,
    }


def list_windows(bot: Json, bot_id: int, now: int) -> list[Json]:
    """List the RiskWindows of a Bot. `now` in ms."""
    hour = now // HOUR_MS
    return [_show_window(bot, bot_id, name, hour - hours) for name, hours in WINDOWS.items()]


def _show_window(bot: Json, bot_id: int, name: str, since: int) -> Json:
    results, record = (find_risks(sql, [bot_id], since) for sql in (OF_RESULTS, OF_RECORD))
    return {
        "window": name,
        "since": show_time(since * HOUR_MS),
        "risk": None if bot["riskReason"] else show_risk(results.get(bot_id)),
        "record": show_risk(record.get(bot_id)),
        "byQuote": quote_results.show_window(bot, bot_id, since * HOUR_SECONDS),
    }
