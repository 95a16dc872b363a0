"""Charts on pages, with their data: curves, sparklines, the race, the calendar.

Points are sampled from running totals, so a bot with a million trades costs the same as one with
ten.
"""

import itertools
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from flask import g

from chain.amounts import exact, sol
from chain.ledger.inventory import SOL
from chain.stored.attachments import OF_RECORD, OF_RESULTS
from chain.stored.standings import FORWARD, WINDOWS
from paper.account import Close
from paper.results import find_exposure, list_falls
from paper.rules import DAY_MS
from web.api import leaderboard
from web.api.paper_closes import AccountHistory, Point, read_history
from web.api.results import DayTotals, find_times, list_daily_totals, list_sales, sample_realized
from web.api.serialize import Json
from web.site import charts, figures, words
from web.site.charts import DAY_SECONDS, HOUR_SECONDS, find_side
from web.site.money import list_traded

MAX_RUNNERS, MAX_GAPS, MAX_MARKS, MAX_DAYS_LISTED = 8, 20, 80, 60
CURVE_POINTS, SPARK_POINTS, RACE_POINTS = 120, 24, 56
MONTH_SECONDS = 30 * DAY_SECONDS


# ---- a bot wallet's curve ------------------------------------------------------------------------
class DrawnResults(NamedTuple):
    """A curve of realized PnL, and the days of its table."""

    curve: charts.Curve
    days: list[DayTotals]


def draw_curves(bot: Json) -> dict[str, DrawnResults | None]:
    """Return {currency: a bot's curve, None without results}."""
    if not bot["wallet"]:
        return {}
    return {one["currency"]: _draw_curve(bot, one) for one in list_traded(bot["results"])}


def _draw_curve(bot: Json, results: Json) -> DrawnResults | None:
    coverage, attached_at = bot["coverage"], bot["wallet"]["attachedAt"]
    begins = parse_time(coverage["observedFrom"] or attached_at)
    times = list_times(begins, find_hour_end(), CURVE_POINTS)
    money = find_money(results)
    values = sample_realized(OF_RESULTS, money, [bot["id"]], times).get(bot["id"], [])
    curve = charts.draw_curve(
        charts.make_steps(times, values) if values else [],
        gaps=find_gaps(coverage["wallet"], coverage["gaps"][:MAX_GAPS]),
        trades=find_marks(bot["id"]) if money == SOL else (),
        connected_at=parse_time(attached_at),
        write_level=lambda raw: write_level(raw, results["decimals"]),
    )
    days = list_day_results(bot["id"], money)
    return DrawnResults(curve, days) if curve and days else None


def find_hour_end() -> int:
    """Return the end of the current hour in Unix seconds."""
    return int((g.now // 1000 // HOUR_SECONDS + 1) * HOUR_SECONDS)


def list_times(begins: int, ends: int, points: int) -> list[int]:
    """List up to `points` + 1 full hours at equal intervals. `ends` is a full hour."""
    first = begins // HOUR_SECONDS * HOUR_SECONDS
    size = max(1, -(-(ends - first) // HOUR_SECONDS // points)) * HOUR_SECONDS
    count = max(1, -(-(ends - first) // size))
    return [ends - n * size for n in range(count, -1, -1)]


def parse_time(text: str) -> int:
    """Parse a time in the API's format into Unix seconds."""
    return int(datetime.fromisoformat(text).timestamp())


def find_gaps(address: str, gaps: Sequence[Json]) -> list[tuple[int, int]]:
    """Return a wallet's gaps in Unix seconds, between the transactions before and after each."""
    found = (find_times(address, one["fromSlot"], one["toSlot"]) for one in gaps)
    return [(begins, ends) for begins, ends in found if begins is not None and ends is not None]


def find_marks(bot: str) -> list[charts.TimedTrade]:
    rows = [row for row in list_sales(bot) if row.at is not None]
    return [
        charts.TimedTrade(row.at or 0, name_mark(row), row.result or 0) for row in rows[:MAX_MARKS]
    ]


def name_mark(row: Any) -> str:
    if row.result is None:
        return "buy" if row.kind == "buy" else "unknown"
    return "loss" if row.result < 0 else "gain"


def list_day_results(bot: str, money: str) -> list[DayTotals]:
    return list_daily_totals(bot, money)[-MAX_DAYS_LISTED:]


# ---- results by day ------------------------------------------------------------------------------
def list_days_of(bot: Json) -> dict[str, tuple[list[DayTotals], int]]:
    return {
        one["currency"]: (list_day_results(bot["id"], find_money(one)), one["decimals"])
        for one in list_traded(bot["results"])
    }


def find_money(results: Json) -> str:
    return SOL if results["currency"] == "SOL" else str(results["mint"])


# ---- the leaderboard -----------------------------------------------------------------------------
class Sampled(NamedTuple):
    """The realized PnL of bots in raw units, at equal intervals (Unix seconds) over a window."""

    times: list[int]
    values: dict[str, list[int]]


def draw_sparks(board: leaderboard.Board, rows: Sequence[Json]) -> dict[str, charts.Spark]:
    drawn = {
        bot: charts.draw_spark(values) for bot, values in sample_board(board, rows).values.items()
    }
    return {bot: spark for bot, spark in drawn.items() if spark}


def draw_race(board: leaderboard.Board, rows: Sequence[Json]) -> charts.Race | None:
    runners = [row for row in rows if row["ranked"]][:MAX_RUNNERS]
    times, values = sample_board(board, runners, RACE_POINTS)
    lanes = [
        charts.Runner(
            words.plain(row["name"]),
            values[row["botId"]],
            row["coverage"]["state"] != "complete",
        )
        for row in runners
        if row["botId"] in values
    ]
    decimals = board.stablecoin.decimals if board.stablecoin else figures.SOL_DECIMALS
    return charts.draw_race(times, lanes, lambda raw: write_level(raw, decimals))


def sample_board(
    board: leaderboard.Board, rows: Sequence[Json], points: int = SPARK_POINTS
) -> Sampled:
    """Sample a board's realized PnL in its window. All time begins with the first result."""
    name = "realizedRaw" if board.stablecoin else "realizedLamports"
    bots = [row["botId"] for row in rows if row[name] is not None]
    seconds = WINDOWS[board.window]
    if seconds:
        return _sample(board, bots, (g.now // 1000 - seconds) // HOUR_SECONDS, points)
    since = [row["coverage"]["observedFrom"] for row in rows if row["coverage"]["observedFrom"]]
    first = min(map(parse_time, since), default=g.now // 1000 - MONTH_SECONDS)
    sampled = _sample(board, bots, first // HOUR_SECONDS, points)
    by_time = zip(*sampled.values.values(), strict=True)
    flat = sum(1 for _ in itertools.takewhile(lambda realized: not any(realized), by_time))
    if not 1 < flat < len(sampled.times):
        return sampled
    return _sample(board, bots, sampled.times[flat - 1] // HOUR_SECONDS, points)


def _sample(board: leaderboard.Board, bots: Sequence[str], first_hour: int, points: int) -> Sampled:
    begins, ends = first_hour * HOUR_SECONDS, find_hour_end()
    times = [begins + n * (ends - begins) // points for n in range(points + 1)]
    source = OF_RECORD if board.record == FORWARD else OF_RESULTS
    return Sampled(times, sample_realized(source, board.money, bots, times))


def write_level(raw: int, decimals: int) -> str:
    return figures.write_tokens(exact(raw, decimals), sign=True)


# ---- the calendar --------------------------------------------------------------------------------
class CalendarDay(NamedTuple):
    """A day in the calendar, with weeks from left to right and weekdays from Monday down.

    `x` and `y` are the center of its square. `strength`: 0 (nothing) to 3 (the most).
    """

    at: int
    x: int
    y: int
    side: str
    strength: int
    realized: int
    trades: int


CALENDAR_DAYS = 30
CALENDAR_COLUMN, CALENDAR_ROW = 28, 24


def draw_calendar(days: Sequence[DayTotals], today: int) -> list[CalendarDay]:
    """Lay out the last CALENDAR_DAYS days. `today`: days since 1970, the last of them."""
    results = {one.day: one for one in days}
    shown = range(today - CALENDAR_DAYS + 1, today + 1)
    most = max((abs(results[day].realized) for day in shown if day in results), default=0) or 1
    # January 1, 1970 was a Thursday.
    first_week = (shown[0] + 3) // 7
    drawn = []
    for day in shown:
        found = results.get(day)
        realized, trades = (found.realized, found.trades) if found else (0, 0)
        x = ((day + 3) // 7 - first_week) * CALENDAR_COLUMN + CALENDAR_COLUMN // 2
        y = (day + 3) % 7 * CALENDAR_ROW + CALENDAR_ROW // 2
        strength = -(-3 * abs(realized) // most)
        drawn.append(
            CalendarDay(day * DAY_SECONDS, x, y, find_side(realized), strength, realized, trades)
        )
    return drawn


# ---- paper accounts ------------------------------------------------------------------------------
# If there are more points than this, draw every nth. If there are more marks, draw the newest ones.
MAX_DRAWN = MAX_MARKED = 400
MAX_GROUPS = 12
# In basis points.
FULL_SHARE = 10_000


def draw_account(uid: str, until: int) -> Json | None:
    """Draw a trader's open account up to `until` (ms): its curves, the share `held` in positions,
    and the lamports `over` holding its initial SOL. None for an unknown trader.
    """
    history = read_history(uid)
    if history is None:
        return None
    points = charts.thin_out(history.list_points(until), MAX_DRAWN)
    exposure = draw_exposure(charts.thin_out(history.list_shares(until), MAX_DRAWN), until)
    return {
        "equity": draw_equity(points, until, list_marks(history.list_trades(), history.closes)),
        "falls": draw_falls(points, until),
        "exposure": exposure,
        "held": exposure and exposure.total / FULL_SHARE,
        "over": points[-1].value - history.start,
        "days": list_days(history),
        "tokens": history.group("mint")[:MAX_GROUPS],
        "reasons": history.group("reason"),
    }


def list_marks(trades: Sequence[Any], closes: Sequence[Close]) -> list[charts.TimedTrade]:
    """`trades`: see paper_closes.TRADES."""
    filled = [
        charts.TimedTrade(one.at // 1000, "buy" if one.side == "buy" else "part", one.sol)
        for one in trades
        # If a sale closes a position, the close is the mark.
        if one.side == "buy" or one.closed_at is None or one.at < one.closed_at
    ]
    closed = [
        charts.TimedTrade(one.closed_at // 1000, "gain" if one.net > 0 else "loss", one.net)
        for one in closes
    ]
    return sorted([*filled, *closed])[-MAX_MARKED:]


def list_days(history: AccountHistory) -> list[Json]:
    """List the days with a mark or a close, newest first: lamports at their end, below the previous
    high (`fall`) and in positions (`held`), and the closes with their `net`.
    """
    falls = list_falls(history.marks, history.start)
    days: dict[int, Json] = {}
    for mark, fall in zip(history.marks, falls, strict=True):
        marked = {"equity": mark.equity, "fall": -fall, "held": mark.held}
        days[mark.at // DAY_MS] = {**marked, "exposure": find_exposure([mark])}
    unmarked = dict.fromkeys(("equity", "fall", "held", "exposure"))
    nets: dict[int, list[int]] = {}
    for close in history.closes:
        nets.setdefault(close.closed_at // DAY_MS, []).append(close.net)
    return [
        {
            **days.get(day, unmarked),
            "at": day * DAY_MS // 1000,
            "closes": len(nets.get(day, ())),
            "net": sum(nets.get(day, ())),
        }
        for day in sorted({*days, *nets}, reverse=True)
    ]


def draw_equity(
    points: Sequence[Point], until: int, trades: Sequence[charts.TimedTrade] = ()
) -> charts.Curve | None:
    """Draw points, in order, up to `until` (ms), with trades as marks. None for fewer than two."""
    if len(points) < 2:
        return None
    steps = _hold(points, until)
    return charts.draw_curve(steps, points[0].value, trades=trades, write_level=write_worth)


def draw_falls(points: Sequence[Point], until: int) -> charts.Curve | None:
    if len(points) < 2:
        return None
    peaks = itertools.accumulate((one.value for one in points), max)
    falls = [one._replace(value=one.value - peak) for one, peak in zip(points, peaks, strict=True)]
    return charts.draw_curve(_hold(falls, until))


def draw_exposure(points: Sequence[Point], until: int) -> charts.Curve | None:
    """Draw the share of the equity in positions up to `until` (ms). None for fewer than two points.

    The first point is the account's opening. Between it and the second, there is no data.
    """
    if len(points) < 2:
        return None
    steps = _hold(points, until)
    unseen = [(steps[0].begins, steps[0].ends)]
    curve = charts.draw_curve(steps, gaps=unseen, write_level=write_share)
    # The exposure is neither good nor bad.
    return curve and curve._replace(
        runs=[run if run.side == "flat" else run._replace(side="held") for run in curve.runs]
    )


def _hold(points: Sequence[Point], until: int) -> list[charts.Step]:
    ends = [*(one.at for one in points[1:]), max(until, points[-1].at)]
    return [
        charts.Step(one.at // 1000, end // 1000, one.value)
        for one, end in zip(points, ends, strict=True)
    ]


def write_worth(lamports: int) -> str:
    """Write an account's value. It isn't a gain, so it has no sign."""
    return figures.write_tokens(sol(lamports))


def write_share(basis_points: int) -> str:
    return f"{figures.write_tokens(str(Decimal(basis_points) / 100))}%"
