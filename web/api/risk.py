"""The risk of realized results: of all that a bot's wallet did, and of its forward record."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from chain.amounts import show_lamports
from chain.ledger.risk import HOURS_A_DAY
from chain.ledger.views import HOUR_SECONDS
from chain.stored.attachments import OF_RECORD, OF_RESULTS, Source
from chain.stored.risk import StoredRisk, load_risk
from chain.stored.standings import WINDOWS
from storage import database
from storage.rows import select, write_marks
from web.api.results import find_drawdowns, find_since, list_currencies
from web.api.serialize import Json
from web.api.shapes import TypedDict, Whole, described

HOUR_MS = HOUR_SECONDS * 1000


class Risk(TypedDict):
    """What realized results in SOL risked."""

    maxDrawdownLamports: Whole
    medianHoldingSeconds: Annotated[int | None, described("to two significant digits")]
    bestLamports: Annotated[Whole | None, described("the best result of a sale")]
    worstLamports: Whole | None
    daysActive: Annotated[int, described("UTC days with a trade")]


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


class BotRisk(NamedTuple):
    """The risk of a bot, and its max drawdown in lamports."""

    stored: StoredRisk
    drawdown: int


def find_risks(
    source: Source, bot_ids: Sequence[int], since: int | None = None
) -> dict[int, BotRisk | None]:
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


def _load_risk(rows: Sequence[RiskRow], drawdown: int) -> BotRisk | None:
    stored = load_risk([row._asdict() for row in rows if row.sales is not None])
    return stored and BotRisk(stored, drawdown)


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


# ---- JSON ----------------------------------------------------------------------------------------
def find_risk(bot_id: int) -> Risk | None:
    """Make the Risk of all that a bot's wallets did; None if it is damaged."""
    told = find_risks(OF_RESULTS, [bot_id]).get(bot_id)
    return told and show_risk(told)


def find_risk_reason(bot: Mapping[str, Any]) -> str | None:
    """Tell why a Bot has no risk of its results, or None."""
    if bot["wallet"] is None:
        return "no_wallet"
    if bot["results"] is None:
        return bot["resultsReason"] or "not_observed"
    return None


def show_risk(told: BotRisk) -> Risk:
    """Make the Risk."""
    stretch = told.stored.stretch
    return {
        "maxDrawdownLamports": str(told.drawdown),
        "medianHoldingSeconds": told.stored.median_holding,
        "bestLamports": show_lamports(stretch.best),
        "worstLamports": show_lamports(stretch.worst),
        "daysActive": stretch.days,
    }


# ---- for pages -----------------------------------------------------------------------------------
def show_positions(told: BotRisk | None) -> Json | None:
    """Make the risk that a page shows: with how many positions were won."""
    if told is None:
        return None
    stretch = told.stored.stretch
    return {
        **show_risk(told),
        "positionsClosed": stretch.closed,
        "positionsWon": stretch.won,
    }


def find_both(bot_id: int) -> tuple[Json | None, Json | None]:
    """Return what a page shows of all history, and since the bot connected its wallets."""
    results, record = (
        show_positions(find_risks(source, [bot_id]).get(bot_id))
        for source in (OF_RESULTS, OF_RECORD)
    )
    return results, record


def list_windows(bot_id: int, now: int) -> list[Json]:
    """List what a bot did since it connected its wallets in each window. `now` in ms."""
    hour = now // HOUR_MS
    return [
        _show_window(bot_id, name, hour - seconds // HOUR_SECONDS)
        for name, seconds in WINDOWS.items()
        if seconds
    ]


def _show_window(bot_id: int, name: str, since: int) -> Json:
    record = find_risks(OF_RECORD, [bot_id], since).get(bot_id)
    return {
        "window": name,
        "record": show_positions(record),
        "byCurrency": list_currencies(find_since(OF_RECORD, bot_id, since), {}),
    }
