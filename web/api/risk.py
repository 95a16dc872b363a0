"""The risk of realized results: of all that a bot's wallet did, and of its forward record."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from chain.amounts import show_lamports
from chain.ledger.inventory import SOL
from chain.ledger.risk import HOURS_A_DAY, find_drawdown
from chain.ledger.sums import NOTHING, Sums
from chain.ledger.views import HOUR_SECONDS
from chain.stored.attachments import (
    OF_RECORD,
    OF_RESULTS,
    Source,
    read_totals,
    write_last,
)
from chain.stored.risk import StoredRisk, load_risk
from chain.stored.standings import WINDOWS
from chain.stored.summary import show_rates
from storage import database, read_rows
from storage.rows import select, write_marks
from web.api import quote_results
from web.api.serialize import DAMAGED, Json, show_time

HOUR_MS = HOUR_SECONDS * 1000


class RiskRow(NamedTuple):
    """A row of chain.stored.tables.RiskTotal of a wallet; its columns are null where nothing was
    sold, and `realized_in_all` where nothing was derived yet.
    """

    bot_id: int
    realized_in_all: int | None
    best: int | None
    worst: int | None
    median_holding: int | None
    holdings: str | None


# Whether a ledger was derived, by its view.
DERIVED = {OF_RECORD: "a.forward_realized", OF_RESULTS: "w.forward_realized"}
RISKS = f"""
SELECT a.bot_id, {{derived}} AS realized_in_all, r.best, r.worst, r.median_holding, r.holdings
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
LEFT JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.money = '{SOL}' AND r.view = {{view}}
WHERE {{which}} AND a.bot_id IN ({{bots}}) ORDER BY a.attached_at, a.id
"""


class Risk(NamedTuple):
    """The risk of a bot, its max drawdown in lamports, and UTC days with a trade."""

    stored: StoredRisk
    drawdown: int
    days: int


def find_risks(source: Source, bot_ids: Sequence[int]) -> dict[int, Risk | None]:
    """Return {bot id: its risk}. A bot of which nothing was derived yet is left out; None: it is
    damaged.
    """
    sql = RISKS.format(**source._asdict(), derived=DERIVED[source], bots=write_marks(bot_ids))
    rows: dict[int, list[RiskRow]] = {}
    for row in select(RiskRow, sql, bot_ids):
        if row.realized_in_all is not None:
            rows.setdefault(row.bot_id, []).append(row)
    falls, totals = find_drawdowns(source, bot_ids), read_totals(read_rows, source, bot_ids)
    several = [bot for bot, found in rows.items() if len(found) > 1]
    days = {bot: sums.days for bot, sums in totals.items()} | _count_days(source, several)
    risks: dict[int, Risk | None] = {}
    for bot, found in rows.items():
        stored = load_risk([one._asdict() for one in found if one.holdings is not None])
        risks[bot] = stored and Risk(stored, falls.get(bot, 0), days.get(bot, 0))
    return risks


# Several wallets may trade on the same day: the days on which any of them counted one more.
DAYS = f"""
SELECT bot_id, COUNT(DISTINCT day) FROM (
    SELECT a.bot_id, t.hour / {HOURS_A_DAY} AS day,
           t.days - LAG(t.days, 1, 0) OVER (PARTITION BY a.id ORDER BY t.hour) AS more
    FROM attachment a JOIN running_total t ON t.wallet_id = a.wallet_id AND t.money = '{SOL}'
        AND t.view = {{view}}
    WHERE {{which}} AND a.bot_id IN ({{bots}})) by_hour
WHERE more > 0 GROUP BY bot_id"""


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
        bot["activeDays"] = risk.days if risk and not reason else None
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
    return {
        "maxDrawdownLamports": str(risk.drawdown),
        "bestLamports": show_lamports(risk.stored.best),
        "worstLamports": show_lamports(risk.stored.worst),
        "medianHoldingSeconds": risk.stored.median_holding,
        "daysActive": risk.days,
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
    return {
        "window": name,
        "since": show_time(since * HOUR_MS),
        "risk": None if bot["riskReason"] else _show_figures(OF_RESULTS, bot_id, since),
        "record": _show_figures(OF_RECORD, bot_id, since),
        "byQuote": quote_results.show_window(bot, bot_id, since),
    }


def _show_figures(source: Source, bot_id: int, since: int) -> Json | None:
    """Make the WindowFigures; None if nothing was derived."""
    sums = find_since(source, bot_id, since)
    if sums is None:
        return None
    fall = find_drawdowns(source, [bot_id], since).get(bot_id, 0)
    return {
        "realizedLamports": str(sums.realized),
        "worstCaseLamports": str(sums.worst_case),
        **show_rates(sums),
        "maxDrawdownLamports": str(fall),
    }


def find_since(source: Source, bot_id: int, since: int) -> Sums | None:
    """What a bot did in SOL from this hour on; None if nothing was derived."""
    sums = read_totals(read_rows, source, [bot_id]).get(bot_id)
    before = read_totals(read_rows, source, [bot_id], until=since).get(bot_id, NOTHING)
    return sums and sums.minus(before)
