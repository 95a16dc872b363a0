"""Numbers to points: nothing is lost on the way, and what is higher stands higher."""

from hypothesis import given
from hypothesis import strategies as st

from web.api.paper import EquityPoint
from web.api.queries import DayTotals
from web.site import charts
from web.site.charts import TimedTrade


def test_days_become_a_step_line_and_bars():
    intervals = charts.group_days([DayTotals(100, 50, 200, 3, 1), DayTotals(102, -80, 100, 1, 1)])
    assert [
        (one.begins // charts.DAY_SECONDS, one.realized, one.total, one.volume) for one in intervals
    ] == [
        (100, 50, 50, 200),
        (101, 0, 50, 0),
        (102, -80, -30, 100),
    ]
    curve = charts.draw_curve(intervals)
    assert (curve.top, curve.bottom) == (50, -30)
    # Five eighths down, two units inside the box.
    assert curve.zero == 2 + 156 * 50 / 80
    assert (
        curve.line
        == "0.00,99.50 0.00,99.50 0.00,2.00 200.00,2.00 200.00,2.00 400.00,2.00 400.00,158.00"
        " 600.00,158.00"
    )
    assert [bar.height for bar in curve.bars] == [48, 0, 24]


def test_too_few_points_draw_no_chart():
    assert (
        charts.draw_curve(charts.group_days([])) is None
        and charts.draw_timeline([]) is None
        and charts.draw_equity([EquityPoint(1, 1)]) is None
    )


days = st.lists(
    st.builds(
        DayTotals,
        st.integers(0, 4000),
        st.integers(-(10**18), 10**18),
        st.integers(0, 10**18),
        st.integers(1, 99),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=50,
    unique_by=lambda one: one.day,
)


@given(days.map(sorted))
def test_intervals_add_up_to_the_days_however_many_there_are(rows):
    intervals = charts.group_days(rows)
    assert len(intervals) <= charts.MAX_INTERVALS
    assert [
        sum(getattr(one, name) for one in intervals)
        for name in ("realized", "volume", "trades", "sells")
    ] == [
        sum(getattr(row, name) for row in rows)
        for name in ("realized", "volume", "trades", "sells")
    ]
    assert intervals[-1].total == sum(row.realized for row in rows)
    assert (
        intervals[0].begins == rows[0].day * charts.DAY_SECONDS
        and intervals[-1].ends > rows[-1].day * charts.DAY_SECONDS
    )
    curve = charts.draw_curve(intervals)
    points = [tuple(map(float, point.split(","))) for point in curve.line.split()]
    assert all(
        0 <= x <= charts.WIDTH and 2 <= y <= charts.LINE_HEIGHT - 2 for x, y in points
    ) and points == sorted(points, key=lambda point: point[0])


def test_purchases_stand_above_the_line_and_sales_below():
    timeline = charts.draw_timeline([TimedTrade(200, "sell", 500), TimedTrade(100, "buy", -1000)])
    buy, sell = timeline.marks
    assert (timeline.begins, timeline.ends) == (100, 200)
    middle = charts.STRIP_HEIGHT / 2
    assert (buy.side, buy.y + buy.height) == ("buy", middle) and (sell.side, sell.y) == (
        "sell",
        middle,
    )
    assert buy.x < sell.x and buy.height > sell.height


def test_a_line_begins_where_the_account_began():
    line = charts.draw_equity([EquityPoint(0, 100), EquityPoint(10, 80), EquityPoint(20, 180)])
    assert (line.top, line.bottom) == (180, 80) and line.zero == round(2 + 156 * 80 / 100, 2)
    assert line.line == "0.00,126.80 300.00,158.00 600.00,2.00"
