"""From numbers to coordinates: nothing is lost, higher values are higher, and losses aren't drawn
as gains.
"""

import itertools
import re
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.api.paper_closes import Point
from web.site import charts, pictures
from web.site.charts import Axis, Runner, Scale, Step, TimedTrade

HOUR = charts.HOUR_SECONDS
Day = namedtuple("Day", "day realized trades")


def read_path(path):
    """The heights of a path's level parts, with the end of each."""
    return [(float(x), float(y)) for y, x in re.findall(r"V([\d.]+)H([\d.]+)", path)]


def test_a_curve_changes_color_where_it_crosses_zero():
    steps = [Step(0, HOUR, 50), Step(HOUR, 2 * HOUR, 50), Step(2 * HOUR, 4 * HOUR, -30)]
    curve = charts.draw_curve(steps)
    # From 5 at the top to 88 at the bottom are 80 lamports.
    zero = 5 + 83 * 50 / 80
    assert curve.zero == round(zero, 2) and curve.total == -30
    drawn = [(run.side, read_path(run.line)) for run in curve.runs]
    assert drawn == [("up", [(50, 5)]), ("down", [(100, 88)])]
    # Areas end at zero, and so does the line where it crosses it; it ends at the result.
    assert all(run.area.endswith(f"V{curve.zero:g}") for run in curve.runs)
    assert curve.runs[0].line == curve.runs[0].area and curve.runs[1].line.endswith("H100")


def test_too_little_data_draws_nothing():
    assert charts.draw_curve([]) is charts.draw_timeline([]) is charts.draw_spark((7,)) is None
    assert pictures.draw_equity([Point(1, 1)], 9) is charts.draw_race([1, 2], []) is None


steps = st.lists(st.integers(-(10**18), 10**18), min_size=1, max_size=130).map(
    lambda values: [Step(n * HOUR, (n + 1) * HOUR, value) for n, value in enumerate(values)]
)


@given(steps)
def test_no_loss_is_drawn_as_a_gain(given_steps):
    curve = charts.draw_curve(given_steps)
    for run in curve.runs:
        heights = [y for _, y in read_path(run.line)]
        assert all(charts.TOP <= y <= charts.BOTTOM for y in heights)
        assert run.side != "up" or all(y <= curve.zero for y in heights)
        assert run.side != "down" or all(y >= curve.zero for y in heights)
    sides = [charts.find_side(step.value) for step in given_steps]
    assert [run.side for run in curve.runs] == [side for side, _ in itertools.groupby(sides)]
    places = [tick.at for tick in curve.levels]
    assert 1 <= len(places) <= 6 and any(tick.label == "0" for tick in curve.levels)


def test_gaps_marks_and_the_connection_are_at_their_time():
    curve = charts.draw_curve(
        [Step(0, 100, 10), Step(100, 200, 40)],
        gaps=[(50, 100), (500, 600)],
        trades=[TimedTrade(150, "gain", 0), TimedTrade(-5, "buy", 0)],
        connected_at=40,
    )
    assert curve.gaps == [(25, 25)] and curve.connected == 20
    # Nothing is drawn before the curve begins; 40 is the highest.
    assert curve.marks == [(75, 5, "gain")]


@pytest.mark.parametrize(
    "begins, ends, labels",
    [
        (0, 4 * HOUR, ["Jan 1", "01:00", "02:00", "03:00", "04:00"]),
        # The first time includes its date, for which the next one makes room, as the last does for
        # its predecessor; a new day has its own date, and a nearby one shows the first one's.
        (2 * HOUR, 7 * HOUR, ["Jan 1 02:00", "04:00", "05:00", "06:00"]),
        (23 * HOUR, 27 * HOUR, ["23:00", "Jan 2", "01:00", "02:00", "03:00"]),
        (20 * HOUR, 28 * HOUR, ["Jan 1 20:00", "Jan 2", "02:00", "04:00"]),
        (HOUR, 4 * 86_400, ["Jan 2", "Jan 3", "Jan 4", "Jan 5"]),
        (0, 20 * 86_400, ["Jan 1", "Jan 8", "Jan 15"]),
    ],
)
def test_an_axis_has_full_hours_or_days(begins, ends, labels):
    ticks = charts.list_dates(Axis(begins, ends))
    assert [tick.label for tick in ticks] == labels
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)


@given(st.integers(1_700_000_000, 1_900_000_000), st.integers(120, 400 * 86_400))
def test_dates_are_spaced_on_a_phone_and_times_show_their_day(begins, duration):
    """On a 320-pixel screen, a drawing has 254 pixels, a character at most 6.6."""
    ticks = charts.list_dates(Axis(begins, begins + duration))
    edges = []
    for tick in ticks:
        width = len(tick.label) * 6.6
        shift = {"start": 0, "middle": width / 2, "end": width}[tick.anchor]
        edges.append((tick.at * 2.54 - shift, tick.at * 2.54 - shift + width))
    assert ticks and edges[0][0] >= -6 and edges[-1][1] <= 260
    assert all(right[0] - left[1] >= 7 for left, right in itertools.pairwise(edges))
    assert any(" " in tick.label for tick in ticks)


def test_axis_amounts_are_round():
    # 7 SOL in at most four parts: steps of 2 SOL.
    ticks = charts.list_levels(Scale(5 * 10**9, -2 * 10**9))
    assert [tick.label for tick in ticks] == ["−2", "0", "+2", "+4"]
    assert ticks[0].at == charts.BOTTOM and ticks[1].at == round(5 + 83 * 5 / 7, 2)
    # 3 SOL: steps of 1 SOL. A level has no sign, and a drop has one.
    points = [Point(n * 10_000, sol * 10**9) for n, sol in enumerate((10, 12, 9))]
    equity, falls = (draw(points, 30_000) for draw in (pictures.draw_equity, pictures.draw_falls))
    assert [tick.label for tick in equity.levels] == ["9", "10", "11", "12"]
    assert [tick.label for tick in falls.levels] == ["−3", "−2", "−1", "0"]


def test_a_sparkline_shows_the_change_since_its_beginning():
    spark = charts.draw_spark((100, 100, 70, 130))
    assert spark.change == 30 and [run.side for run in spark.runs] == ["flat", "down", "up"]


def test_in_a_race_the_best_is_first_and_labels_do_not_overlap():
    race = charts.draw_race(
        [0, HOUR, 2 * HOUR],
        [Runner("b", [500, 500, 490], False), Runner("a", [0, 5, 20], True)]
        + [Runner(f"c{n}", [0, 0, 0], False) for n in range(6)],
    )
    lanes = [(one.place, one.name, one.changes[-1]) for one in race.lanes]
    assert [*lanes[:2], lanes[-1]] == [(1, "a", 20), (2, "c0", 0), (8, "b", -10)]
    # The table begins after the start.
    assert race.lanes[0].changes == [0, 5, 20] and race.listed == [1, 2]
    heights = [one.label_y for one in race.lanes]
    assert all(b - a >= charts.LABEL_HEIGHT - 0.01 for a, b in itertools.pairwise(heights))
    assert heights[-1] <= charts.BOTTOM


def test_a_calendar_has_a_row_for_each_weekday():
    # 20,762 days after Thursday, 1 January 1970: a Thursday again, 20,762 = 7 * 2966.
    days = [Day(20_762, -90, 4), Day(20_755, 30, 1), Day(20_761, 0, 2)]
    calendar = pictures.draw_calendar(days, 20_762)
    assert len(calendar) == 30
    last, before, week = calendar[-1], calendar[-2], calendar[-8]
    assert (last.side, last.strength, last.y) == ("down", 3, 3 * 24 + 12)
    assert (week.side, week.strength, week.y, week.x) == ("up", 1, last.y, last.x - 28)
    assert (before.side, before.strength, before.trades) == ("flat", 0, 2)


def test_purchases_are_above_the_line_and_sales_below():
    """A swap has a minimal bar, because its value is unknown."""
    trades = [TimedTrade(200, "sell", 500), TimedTrade(100, "buy", -1000)]
    trades += [TimedTrade(300, "gave", 0), TimedTrade(400, "got", 0)]
    timeline = charts.draw_timeline(trades)
    assert (timeline.begins, timeline.ends) == (100, 400)
    buy, sell, gave, got = timeline.bars
    middle = charts.BOTTOM / 2
    assert [bar.side for bar in timeline.bars[:2]] == ["buy", "sell"]
    assert buy.y + buy.height == got.y + got.height == middle == sell.y == gave.y
    assert buy.x < sell.x and buy.height > sell.height > gave.height == got.height == 4


def test_a_paper_account_starts_at_its_opening():
    points = [Point(0, 100), Point(10_000, 80), Point(20_000, 180)]
    line = pictures.draw_equity(points, 30_000)
    # It was 100 until 10 s, 80 until 20 s, then 180.
    assert [run.side for run in line.runs] == ["flat", "down", "up"]
    assert line.total == 180 and line.zero == round(5 + 83 * 80 / 100, 2)


def test_exposure_is_a_share_on_the_equity_axis():
    points = [Point(0, 0), Point(600_000, 2_500), Point(1_200_000, 0)]
    curve = pictures.draw_exposure(points, 1_800_000)
    assert (curve.begins, curve.ends, curve.total) == (0, 1_800, 0)
    # There is no data before the second point.
    assert curve.gaps == [(0, 33.33)]
    assert [run.side for run in curve.runs] == ["flat", "held", "flat"]
    # A quarter in at most four parts of 10%; the highest is at the top.
    assert [tick.label for tick in curve.levels] == ["0%", "10%", "20%"]
    assert [y for _, y in read_path(curve.runs[1].line)] == [charts.TOP]
