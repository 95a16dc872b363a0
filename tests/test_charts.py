"""Numbers to points: nothing is lost on the way, and what is higher stands higher."""

from hypothesis import given
from hypothesis import strategies as st

from web.site import charts


def test_days_become_a_step_line_and_bars():
    stretches = charts.book_stretches([(100, 50, 200, 3, 1), (102, -80, 100, 1, 1)])
    assert [(s.begins // charts.DAY, s.realized, s.total, s.volume) for s in stretches] == [
        (100, 50, 50, 200),
        (101, 0, 50, 0),
        (102, -80, -30, 100),
    ]
    curve = charts.draw_curve(stretches)
    assert (curve.top, curve.bottom) == (50, -30)
    assert curve.zero == 2 + 156 * 50 / 80  # five eighths down, two units inside the box
    assert (
        curve.line
        == "0.00,99.50 0.00,99.50 0.00,2.00 200.00,2.00 200.00,2.00 400.00,2.00 400.00,158.00"
        " 600.00,158.00"
    )
    assert [height for *_, height in curve.bars] == [48, 0, 24]


def test_nothing_observed_draws_nothing():
    assert (
        charts.draw_curve(charts.book_stretches([])) is None
        and charts.draw_marks([]) == []
        and charts.draw_line([(1, 1)]) is None
    )


days = st.lists(
    st.tuples(
        st.integers(0, 4000),
        st.integers(-(10**18), 10**18),
        st.integers(0, 10**18),
        st.integers(1, 99),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=50,
    unique_by=lambda d: d[0],
)


@given(days.map(sorted))
def test_stretches_add_up_to_the_days_however_many_there_are(rows):
    stretches = charts.book_stretches(rows)
    assert len(stretches) <= charts.MAX_POINTS
    assert [
        sum(getattr(s, name) for s in stretches)
        for name in ("realized", "volume", "trades", "sells")
    ] == [sum(column) for column in list(zip(*rows, strict=False))[1:]]
    assert stretches[-1].total == sum(row[1] for row in rows)
    assert (
        stretches[0].begins == rows[0][0] * charts.DAY
        and stretches[-1].ends > rows[-1][0] * charts.DAY
    )
    curve = charts.draw_curve(stretches)
    points = [tuple(map(float, point.split(","))) for point in curve.line.split()]
    assert all(
        0 <= x <= charts.WIDTH and 2 <= y <= charts.HEIGHT - 2 for x, y in points
    ) and points == sorted(points, key=lambda point: point[0])


def test_purchases_stand_above_the_line_and_sales_below():
    buy, sell = charts.draw_marks([(200, "sell", 500), (100, "buy", -1000)])
    middle = charts.STRIP / 2
    assert (buy.side, buy.y + buy.height) == ("buy", middle) and (sell.side, sell.y) == (
        "sell",
        middle,
    )
    assert buy.x < sell.x and buy.height > sell.height


def test_a_line_begins_where_the_account_began():
    line = charts.draw_line([(0, 100), (10, 80), (20, 180)])
    assert (line.top, line.bottom) == (180, 80) and line.zero == round(2 + 156 * 80 / 100, 2)
    assert line.line == "0.00,126.80 300.00,158.00 600.00,2.00"
