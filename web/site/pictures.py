"""Pictures of pages, with what they are drawn from: curves, sparklines, the race, how sales went.

All are bounded: points are sampled from running totals, so a bot with a million trades costs what
one with ten does.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from flask import current_app, g

from chain.amounts import exact
from chain.ledger.inventory import SOL
from chain.stored.attachments import OF_RECORD, OF_RESULTS
from chain.stored.standings import FORWARD, WINDOWS
from web.api import history, leaderboard
from web.api.serialize import Json
from web.api.standings import CompetitorRow
from web.site import charts, figures, words
from web.site.axes import BOTTOM, DAY_SECONDS, HOUR_SECONDS, write_gain
from web.site.charts import find_side
from web.site.quote_words import list_traded

MAX_RUNNERS, MAX_GAPS, MAX_MARKS, MAX_DAYS_LISTED = 8, 20, 80, 60
CURVE_POINTS, SPARK_POINTS, RACE_DAYS, RACE_STEP = 120, 24, 7, 3 * HOUR_SECONDS


def _macros() -> Any:
    return current_app.jinja_env.get_template("pictures.html").module


# ---- the curve of a bot's wallet -----------------------------------------------------------------
def draw_bot_curve(bot: Json) -> str:
    """Return the HTML of the curve of a bot's wallet and its table, empty without results."""
    if not (bot["wallet"] and bot["results"]):
        return ""
    curve = _draw_realized(bot, SOL, find_marks(bot["id"]), write_gain)
    days, loading = list_day_results(bot["id"], SOL), bot["coverage"]["state"] == "backfilling"
    return cast(str, _macros().curve(curve, days, loading)) if curve and days else ""


def _draw_realized(
    bot: Json,
    money: str,
    marks: Sequence[charts.TimedTrade],
    write_level: Callable[[int], str],
) -> charts.Curve | None:
    """Draw what the wallets of a bot realized."""
    coverage, attached_at = bot["coverage"], bot["wallet"]["attachedAt"]
    begins = parse_time(coverage["observedFrom"] or attached_at)
    times = list_times(begins, find_hour_end(), CURVE_POINTS)
    values = history.sample_realized(OF_RESULTS, money, [bot["id"]], times).get(bot["id"], [])
    return charts.draw_curve(
        charts.make_steps(times, values) if values else [],
        gaps=find_gaps(coverage["wallet"], coverage["gaps"][:MAX_GAPS]),
        trades=marks,
        connected_at=parse_time(attached_at),
        write_level=write_level,
    )


# ---- its curves in stablecoins -------------------------------------------------------------------
def draw_quote_curves(bot: Json) -> dict[str, str]:
    """Return {symbol: the HTML of the curve of results in a stablecoin and its table}; empty where
    it was never traded with.
    """
    if not (bot["wallet"] and bot["results"]):
        return {}
    return {one["currency"]: _draw_quote_curve(bot, one) for one in list_traded(bot["results"])}


def _draw_quote_curve(bot: Json, quote: Json) -> str:
    curve = _draw_realized(
        bot,
        quote["mint"],
        (),
        lambda raw: figures.write_tokens(exact(raw, quote["decimals"]), sign=True),
    )
    loading = bot["coverage"]["state"] == "backfilling"
    days = list_day_results(bot["id"], quote["mint"])
    if not (curve and days):
        return ""
    return cast(str, _macros().curve(curve, days, loading, quote["currency"], quote["decimals"]))


def find_hour_end() -> int:
    """Return the Unix seconds at which the present hour ends."""
    return int((g.now // 1000 // HOUR_SECONDS + 1) * HOUR_SECONDS)


def list_times(begins: int, ends: int, points: int) -> list[int]:
    """List at most `points` + 1 Unix seconds from the hour of `begins` on, full hours equally far
    apart, up to `ends`, which is a full hour.
    """
    first = begins // HOUR_SECONDS * HOUR_SECONDS
    size = max(1, -(-(ends - first) // HOUR_SECONDS // points)) * HOUR_SECONDS
    count = max(1, -(-(ends - first) // size))
    return [ends - n * size for n in range(count, -1, -1)]


def parse_time(text: str) -> int:
    """Return the Unix seconds of a time as the API writes it."""
    return int(datetime.fromisoformat(text).timestamp())


def find_gaps(address: str, gaps: Sequence[Json]) -> list[tuple[int, int]]:
    """Return the Unix seconds of a wallet's gaps, from the transaction before to the one after."""
    found = (history.find_times(address, one["fromSlot"], one["toSlot"]) for one in gaps)
    return [(begins, ends) for begins, ends in found if begins is not None and ends is not None]


def find_marks(bot: str) -> list[charts.TimedTrade]:
    """Return the newest purchases and sales, as marks of a curve."""
    rows = [row for row in history.list_sales(bot) if row.at is not None]
    return [
        charts.TimedTrade(row.at or 0, name_mark(row), row.result or 0) for row in rows[:MAX_MARKS]
    ]


def name_mark(row: history.SaleRow) -> str:
    """Return the kind of charts.Mark of a trade."""
    if row.result is None:
        return "buy" if row.kind == "buy" else "unknown"
    return "loss" if row.result < 0 else "gain"


def list_day_results(bot: str, money: str) -> list[history.DayTotals]:
    """Return the last days with trades, in order."""
    return history.list_days(bot, money)[-MAX_DAYS_LISTED:]


# ---- how single sales and days went --------------------------------------------------------------
def draw_bot_sales(bot: Json) -> str:
    """Return the HTML of a bot's histogram, and of a calendar that ends today; empty without
    results.
    """
    if not (bot["wallet"] and bot["results"]):
        return ""
    found = history.list_sales(bot["id"])
    sales = [
        (row.result, row.cost) for row in found if row.result is not None and row.cost is not None
    ]
    # They have no cost of their own to set a result against.
    trips = sum(row.kind == "round_trip" and row.result is not None for row in found)
    days = {one.day: (one.realized, one.trades) for one in history.list_days(bot["id"], SOL)}
    calendar = draw_calendar(days, g.now // 1000 // DAY_SECONDS)
    return cast(str, _macros().sales(group_returns(sales), calendar, len(sales), trips))


# ---- sparklines ----------------------------------------------------------------------------------
def draw_sparks(board: leaderboard.Board, rows: Sequence[Json]) -> dict[str, charts.Spark]:
    """Return {bot: how its realized PnL went in the board's window, 30 days for all time} of rows
    of a board.
    """
    name = "realizedRaw" if board.quote else "realizedLamports"
    bots = [row["botId"] for row in rows if row[name] is not None]
    seconds = WINDOWS[board.window] or 30 * DAY_SECONDS
    begins = find_hour_end() - seconds
    times = [begins + n * seconds // SPARK_POINTS for n in range(SPARK_POINTS + 1)]
    source = OF_RECORD if board.record == FORWARD else OF_RESULTS
    money = board.quote.mint if board.quote else SOL
    sampled = history.sample_realized(source, money, bots, times)
    drawn = {bot: charts.draw_spark(values) for bot, values in sampled.items()}
    return {bot: spark for bot, spark in drawn.items() if spark}


# ---- the race ------------------------------------------------------------------------------------
def draw_race() -> str:
    """Return the HTML of the race: realized PnL of the best ranked bots over RACE_DAYS days, empty
    where nobody is ranked.
    """
    board = leaderboard.Board(window=f"{RACE_DAYS}d")
    entries = leaderboard.list_entries(board, g.now, MAX_RUNNERS)
    entries.sort(key=lambda one: -(leaderboard.score(one, board.sort) or 0))
    best = {one.row.uid: one.row for one in entries if not one.reason}
    runners, ends = list(best)[:MAX_RUNNERS], find_hour_end()
    begins = ends - RACE_DAYS * DAY_SECONDS
    # Midnights are among them: the table has a row a day.
    between = range(begins // RACE_STEP * RACE_STEP + RACE_STEP, ends, RACE_STEP)
    times = [begins, *between, ends]
    lanes = [
        _make_runner(best[bot], values)
        for bot, values in history.sample_realized(OF_RECORD, SOL, runners, times).items()
    ]
    race = charts.draw_race(times, lanes)
    return cast(str, _macros().race(race)) if race else ""


def _make_runner(row: CompetitorRow, values: Sequence[int]) -> charts.Runner:
    is_partial = row.coverage["state"] != "complete"
    return charts.Runner(row.uid, words.plain(row.name), values, is_partial)


# ---- the trades of a token -----------------------------------------------------------------------
def draw_timeline(trades: Sequence[charts.TimedTrade]) -> str:
    """Return the HTML of the timeline of a token's trades, empty without trades."""
    timeline = charts.draw_timeline(trades)
    return cast(str, _macros().timeline(timeline)) if timeline else ""


# ---- how single sales went -----------------------------------------------------------------------
class Bucket(NamedTuple):
    """Sales whose return lies in a range, and their bar; `middle` is of its width."""

    label: str
    side: str
    sales: int
    x: float
    middle: float
    y: float
    height: float


BUCKET_WIDTH, BUCKET_GAP, TALLEST = 11.1, 1.2, 78.0


# Upper edges in percent of the cost, and what is said of what lies below them.
RETURNS = (
    (-50, "lost over 50%"),
    (-25, "lost 25% to 50%"),
    (-10, "lost 10% to 25%"),
    (0, "lost up to 10%"),
    (10, "gained up to 10%"),
    (25, "gained 10% to 25%"),
    (50, "gained 25% to 50%"),
    (100, "gained 50% to 100%"),
    (None, "gained over 100%"),
)
# The place of the first that is no loss.
FIRST_GAIN = 4


def group_returns(sales: Sequence[tuple[int, int]]) -> list[Bucket]:
    """Count sales by their return. `sales`: result and cost of each, in lamports."""
    counts = [0] * len(RETURNS)
    for result, cost in sales:
        counts[_find_bucket(result, cost)] += 1
    most = max(counts) or 1
    return [
        _draw_bucket(n, label, counts[n], TALLEST * counts[n] / most)
        for n, (_, label) in enumerate(RETURNS)
    ]


def _draw_bucket(n: int, label: str, count: int, height: float) -> Bucket:
    x, middle = round(n * BUCKET_WIDTH + BUCKET_GAP / 2, 2), round((n + 0.5) * BUCKET_WIDTH, 2)
    side = "down" if n < FIRST_GAIN else "up"
    return Bucket(label, side, count, x, middle, round(BOTTOM - height, 2), round(height, 2))


def _find_bucket(result: int, cost: int) -> int:
    """Return the place in RETURNS; what was neither won nor lost counts as a gain of nothing."""
    for n, (edge, _) in enumerate(RETURNS):
        is_below = edge is not None and 100 * result < edge * cost
        if edge is None or is_below or (edge == 0 and result < 0):
            return n
    raise AssertionError("the last bucket has no edge")


# ---- the calendar --------------------------------------------------------------------------------
class CalendarDay(NamedTuple):
    """A day of the calendar: weeks from left to right, weekdays from Monday down. `x`, `y`: the
    middle of its square; `strength`: 0 for nothing, to 3 for the most.
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


def draw_calendar(results: dict[int, tuple[int, int]], today: int) -> list[CalendarDay]:
    """Lay out the last CALENDAR_DAYS days. `results`: {day: (lamports, trades)}, with days since
    1970; `today`: the last of them.
    """
    days = range(today - CALENDAR_DAYS + 1, today + 1)
    most = max((abs(results.get(day, (0, 0))[0]) for day in days), default=0) or 1
    # 1970 began on a Thursday.
    first_week = (days[0] + 3) // 7
    return [
        _draw_day(day, (day + 3) // 7 - first_week, *results.get(day, (0, 0)), most) for day in days
    ]


def _draw_day(day: int, column: int, realized: int, trades: int, most: int) -> CalendarDay:
    x = column * CALENDAR_COLUMN + CALENDAR_COLUMN // 2
    y = (day + 3) % 7 * CALENDAR_ROW + CALENDAR_ROW // 2
    strength = -(-3 * abs(realized) // most)
    return CalendarDay(day * DAY_SECONDS, x, y, find_side(realized), strength, realized, trades)
