"""The risk of realized results: of all that a bot's wallet did, and of its forward record."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from chain.amounts import show_lamports
from chain.ledger.inventory import SOL
from chain.ledger.risk import HOURS_A_DAY, find_drawdown
from chain.ledger.views import HOUR_SECONDS
from chain.stored.attachments import OF_RECORD, OF_RESULTS, Source, write_last
from chain.stored.risk import StoredRisk, load_risk
from chain.stored.standings import WINDOWS
from storage import database
from storage.rows import select, write_marks
from web.api import quote_results
from web.api.serialize import DAMAGED, Json, show_time

HOUR_MS = HOUR_SECONDS * 1000


class RiskRow(NamedTuple):
    """A stretch of an attachment or its whole wallet, as ledger.risk.Stretch; its columns are null
    where nothing happened, and `realized_in_all` where nothing was derived yet.
    """

    bot_id: int
    realized_in_all: int | None
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


COLUMNS = ", ".join(f"r.{name}" for name in RiskRow._fields[2:])
ALL_OF_IT = "r.hours = 0"
# From an hour on: to the end of its day by the hour, then by the day.
SINCE = "(r.hours = 1 AND r.begins >= ? AND r.begins < ? OR r.hours = 24 AND r.begins >= ?)"
# Whether a ledger was derived, by its view.
DERIVED = {OF_RECORD: "a.forward_realized", OF_RESULTS: "w.forward_realized"}
RISKS = f"""
SELECT a.bot_id, {{derived}} AS realized_in_all, {COLUMNS}
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
LEFT JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.view = {{view}} AND {{stretch}}
WHERE {{which}} AND a.bot_id IN ({{bots}}) ORDER BY r.begins, a.attached_at, a.id
"""


class Risk(NamedTuple):
    """The risk of a bot, and its max drawdown in lamports."""

    stored: StoredRisk
    drawdown: int


def find_risks(
    source: Source, bot_ids: Sequence[int], since: int | None = None
) -> dict[int, Risk | None]:
    """Return {bot id: its risk}, in all or from an hour on that is counted from 1970. A bot of
    which nothing was derived yet is left out; None: it is damaged.
    """
    values: list[int] = []
    if since is not None:
        next_day = -(-since // HOURS_A_DAY) * HOURS_A_DAY
        values = [since, next_day, next_day]
    sql = RISKS.format(
        **source._asdict(),
        derived=DERIVED[source],
        stretch=ALL_OF_IT if since is None else SINCE,
        bots=write_marks(bot_ids),
    )
    rows: dict[int, list[RiskRow]] = {}
    for row in select(RiskRow, sql, [*values, *bot_ids]):
        if row.realized_in_all is not None:
            rows.setdefault(row.bot_id, []).append(row)
    falls = find_drawdowns(source, bot_ids, since)
    risks = {bot: _load_risk(found, falls.get(bot, 0)) for bot, found in rows.items()}
    if since is None:
        several = [bot for bot, found in rows.items() if len(found) > 1]
        for bot, days in _count_days(source, several).items():
            risk = risks[bot]
            if risk:
                risk.stored.stretch.days = days
    return risks


def _load_risk(rows: Sequence[RiskRow], drawdown: int) -> Risk | None:
    stored = load_risk([row._asdict() for row in rows if row.sales is not None])
    return stored and Risk(stored, drawdown)


# Several wallets may trade on the same day.
DAYS = f"""
SELECT a.bot_id, COUNT(DISTINCT r.begins) FROM attachment a
JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.view = {{view}}
    AND r.hours = {HOURS_A_DAY} AND r.days > 0
WHERE {{which}} AND a.bot_id IN ({{bots}}) GROUP BY a.bot_id"""


def _count_days(source: Source, bot_ids: Sequence[int]) -> dict[int, int]:
    """Return {bot id: UTC days with a trade} of bots with several attachments."""
    if not bot_ids:
        return {}
    asked = DAYS.format(**source._asdict(), bots=write_marks(bot_ids))
    return dict(database.execute_sql(asked, bot_ids).fetchall())


# ---- drawdown ------------------------------------------------------------------------------------
# {last}: of write_last.
LAST = """
SELECT a.bot_id, a.id, t.realized, t.drawdown FROM attachment a JOIN running_total t ON {last}
WHERE {which} AND a.bot_id IN ({bots})"""
HOURS = f"""
SELECT a.bot_id, a.id, t.hour, t.realized
FROM attachment a JOIN running_total t ON t.wallet_id = a.wallet_id AND t.money = '{SOL}'
    AND t.view = {{view}} AND t.hour >= {{since}}
WHERE {{which}} AND a.bot_id IN ({{bots}}) ORDER BY a.bot_id, a.id, t.hour"""


def find_drawdowns(
    source: Source, bot_ids: Sequence[int], since: int | None = None
) -> dict[int, int]:
    """Return {bot id: max drawdown in lamports} by the hour, as find_risks. What several wallets
    realized in an hour is added up first. A bot without results is left out.
    """
    last = _read_last(source, bot_ids, since)
    if since is not None:
        before = {attachment: realized for _, attachment, realized, _ in last}
        return _add_up_hours(source, bot_ids, since, before)
    bots = Counter(bot for bot, *_ in last)
    falls: dict[int, int] = {bot: fall for bot, _, _, fall in last if bots[bot] == 1}
    several = sorted(bots.keys() - falls.keys())
    return falls | (_add_up_hours(source, several, 0, {}) if several else {})


def _read_last(
    source: Source, bot_ids: Sequence[int], until: int | None
) -> list[tuple[int, int, int, int]]:
    """(bot, attachment, realized, drawdown) of all of it, or of what was before an hour."""
    last = write_last("t", source.view, until=until)
    asked = LAST.format(last=last, which=source.which, bots=write_marks(bot_ids))
    found: list[tuple[int, int, int, int]] = database.execute_sql(asked, bot_ids).fetchall()
    return found


def _add_up_hours(
    source: Source, bot_ids: Sequence[int], since: int, before: dict[int, int]
) -> dict[int, int]:
    changes: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    asked = HOURS.format(**source._asdict(), since=since, bots=write_marks(bot_ids))
    for bot, attachment, hour, realized in database.execute_sql(asked, bot_ids).fetchall():
        changes[bot][hour] += realized - before.get(attachment, 0)
        before[attachment] = realized
    return {
        bot: find_drawdown(change for _, change in sorted(hours.items()))
        for bot, hours in changes.items()
    }


# ---- JSON ----------------------------------------------------------------------------------------
def add_risks(bots: Sequence[Json], bot_ids: Sequence[int]) -> None:
    """Add `risk` and `riskReason` to Bots, and `risk` to their records."""
    results, records = (find_risks(source, bot_ids) for source in (OF_RESULTS, OF_RECORD))
    for bot, number in zip(bots, bot_ids, strict=True):
        risk, reason = results.get(number), find_reason(bot)
        if reason is None and risk is None:
            reason = DAMAGED
        bot["risk"] = None if reason else show_risk(risk)
        bot["riskReason"] = reason
        bot["activeDays"] = risk.stored.stretch.days if risk and not reason else None
        if bot["record"]:
            bot["record"]["risk"] = show_risk(records.get(number))


def find_reason(bot: Json) -> str | None:
    """Tell why a Bot has no risk of its results, or None."""
    if bot["wallet"] is None:
        return "no_wallet"
    if bot["results"] is None:
        return bot["resultsReason"] or "not_observed"
    return None


def show_risk(risk: Risk | None) -> Json | None:
    """Make the Risk."""
    if risk is None:
        return None
    stretch = risk.stored.stretch
    return {
        "maxDrawdownLamports": str(risk.drawdown),
        "bestLamports": show_lamports(stretch.best),
        "worstLamports": show_lamports(stretch.worst),
        "medianHoldingSeconds": risk.stored.median_holding,
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
    return [
        _show_window(bot, bot_id, name, hour - seconds // HOUR_SECONDS)
        for name, seconds in WINDOWS.items()
        if seconds
    ]


def _show_window(bot: Json, bot_id: int, name: str, since: int) -> Json:
    results, record = (find_risks(source, [bot_id], since) for source in (OF_RESULTS, OF_RECORD))
    return {
        "window": name,
        "since": show_time(since * HOUR_MS),
        "risk": None if bot["riskReason"] else show_risk(results.get(bot_id)),
        "record": show_risk(record.get(bot_id)),
        "byQuote": quote_results.show_window(bot, bot_id, since),
    }
