"""The risk of realized results: over everything a bot's wallets did, and over its forward
record.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from chain.amounts import show_raw
from chain.ledger.inventory import SOL
from chain.ledger.sums import HOURS_A_DAY, NOTHING, Sums
from chain.ledger.views import HOUR_MS, HOUR_SECONDS
from chain.reading.currencies import CURRENCIES
from chain.stored.attachments import OF_RECORD, OF_RESULTS, Source, read_totals
from chain.stored.derived import StoredRisk, load_risk
from chain.stored.standings import WINDOWS
from chain.stored.summary import show_rates
from storage import database, read_rows
from storage.rows import select, write_marks
from web.api.results import find_drawdowns, list_currencies
from web.api.serialize import Json
from web.api.shapes import TypedDict, Whole, described


class Risk(TypedDict):
    """The risk behind realized results in SOL."""

    maxDrawdownLamports: Whole
    medianHoldingSeconds: Annotated[
        int | None,
        described("of positions, from the first purchase to the end, to two significant digits"),
    ]
    bestLamports: Annotated[Whole | None, described("the best position with a sale")]
    worstLamports: Whole | None
    daysActive: Annotated[int, described("UTC days with a trade")]


class RiskRow(NamedTuple):
    """A wallet's row of chain.stored.tables.RiskTotal. Its columns are null without sales, and
    `realized_in_all` is null without derived data.
    """

    bot_id: int
    realized_in_all: int | None
    best: int | None
    worst: int | None
    median_holding: int | None
    holdings: str | None


DERIVED = {OF_RECORD: "a.forward_realized", OF_RESULTS: "w.forward_realized"}
RISKS = f"""
SELECT a.bot_id, {{derived}} AS realized_in_all, r.best, r.worst, r.median_holding, r.holdings
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
LEFT JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.money = '{SOL}' AND r.view = {{view}}
WHERE {{which}} AND a.bot_id IN ({{bots}}) ORDER BY a.attached_at, a.id
"""


class BotRisk(NamedTuple):
    """The risk of a bot, its max drawdown in lamports, and UTC days with a trade."""

    stored: StoredRisk
    drawdown: int
    days: int


def find_risks(source: Source, bot_ids: Sequence[int]) -> dict[int, BotRisk | None]:
    """Return {bot id: its risk}, None if damaged. Bots without derived data are left out."""
    sql = RISKS.format(**source._asdict(), derived=DERIVED[source], bots=write_marks(bot_ids))
    rows: dict[int, list[RiskRow]] = {}
    for row in select(RiskRow, sql, bot_ids):
        if row.realized_in_all is not None:
            rows.setdefault(row.bot_id, []).append(row)
    falls = find_drawdowns(source, bot_ids)
    totals = read_totals(read_rows, source, bot_ids, [SOL])
    several = [bot for bot, found in rows.items() if len(found) > 1]
    days = {bot: sums.days for (bot, _), sums in totals.items()} | _count_days(source, several)
    risks: dict[int, BotRisk | None] = {}
    for bot, found in rows.items():
        stored = load_risk([one._asdict() for one in found if one.holdings is not None])
        risks[bot] = stored and BotRisk(stored, falls.get(bot, 0), days.get(bot, 0))
    return risks


# Several wallets may trade on the same day, so count each day once.
DAYS = f"""
SELECT bot_id, COUNT(DISTINCT day) FROM (
    SELECT a.bot_id, t.hour / {HOURS_A_DAY} AS day,
           t.days - LAG(t.days, 1, 0) OVER (PARTITION BY a.id ORDER BY t.hour) AS more
    FROM attachment a JOIN running_total t ON t.wallet_id = a.wallet_id AND t.money = '{SOL}'
        AND t.view = {{view}}
    WHERE {{which}} AND a.bot_id IN ({{bots}})) by_hour
WHERE more > 0 GROUP BY bot_id"""


def _count_days(source: Source, bot_ids: Sequence[int]) -> dict[int, int]:
    """Return {bot ID: UTC days with a trade} for bots with several attachments."""
    if not bot_ids:
        return {}
    asked = DAYS.format(**source._asdict(), bots=write_marks(bot_ids))
    return dict(database.execute_sql(asked, bot_ids).fetchall())


# ---- JSON ----------------------------------------------------------------------------------------
def find_risk(source: Source, bot_id: int) -> Risk | None:
    """Make a bot's Risk; None if it is damaged, or nothing was derived."""
    told = find_risks(source, [bot_id]).get(bot_id)
    if told is None:
        return None
    return {
        "maxDrawdownLamports": str(told.drawdown),
        "medianHoldingSeconds": told.stored.median_holding,
        "bestLamports": show_raw(told.stored.best),
        "worstLamports": show_raw(told.stored.worst),
        "daysActive": told.days,
    }


def find_risk_reason(bot: Mapping[str, Any]) -> str | None:
    if bot["wallet"] is None:
        return "no_wallet"
    if bot["results"] is None:
        return bot["resultsReason"] or "not_observed"
    return None


# ---- for pages -----------------------------------------------------------------------------------
def list_windows(bot_id: int, now: int) -> list[Json]:
    """List a bot's results in each window since it connected its wallets. `now`: ms."""
    hour, last = now // HOUR_MS, _read_record(bot_id)
    return [
        _show_window(bot_id, name, hour - seconds // HOUR_SECONDS, last)
        for name, seconds in WINDOWS.items()
        if seconds
    ]


def _read_record(bot_id: int, until: int | None = None) -> dict[str, Sums]:
    totals = read_totals(read_rows, OF_RECORD, [bot_id], CURRENCIES, until)
    return {money: sums for (_, money), sums in totals.items()}


def _show_window(bot_id: int, name: str, since: int, last: Mapping[str, Sums]) -> Json:
    before = _read_record(bot_id, since)
    found = {money: sums.minus(before.get(money, NOTHING)) for money, sums in last.items()}
    fall = find_drawdowns(OF_RECORD, [bot_id], since).get(bot_id, 0)
    sums = found.get(SOL)
    return {
        "window": name,
        "record": sums
        and {
            "realizedLamports": str(sums.realized),
            "worstCaseLamports": str(sums.worst_case),
            **show_rates(sums),
            "maxDrawdownLamports": str(fall),
        },
        "byCurrency": list_currencies(found, {}),
    }
