"""Intervals over days, and the test of closes against random entries."""

import pytest

from bench import intervals, lessons, sales
from paper import results
from paper.account import Close, cluster
from paper.results import Ratio, find_ratio, find_return, find_student, find_win

DAY, SPENT = 86_400_000, 10**9


def close(day, hour, share, mint="A"):
    at, net = day * DAY + hour * 3_600_000, round(share * SPENT)
    return Close("", mint, "T", at, at + 1, "stop", net, net, SPENT)


# Two clusters a day that share their market: the days add up to 0.2, 0, -0.2, 0.1 and -0.1.
FIVE_DAYS = [
    close(day, hour, share)
    for day, share in enumerate((0.1, 0.0, -0.1, 0.05, -0.05))
    for hour in (1, 5)
]


@pytest.mark.parametrize(
    "p, freedom, t",
    [
        *((0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 4, 2.776), (0.975, 9, 2.262)),
        *((0.975, 29, 2.045), (0.995, 6, 3.707), (0.9995, 5, 6.869)),
    ],
)
def test_student_t_quantiles_match_the_tables(p, freedom, t):
    assert find_student(p, freedom) == pytest.approx(t, abs=0.0005)


def test_a_ratios_error_is_computed_over_days():
    """Residuals 0.04 + 0 + 0.04 + 0.01 + 0.01, times 5 / 4, over 10 closes squared."""
    found = find_ratio(cluster(FIVE_DAYS), find_return)
    assert (found.value, found.days) == (0, 5)
    assert found.error == pytest.approx(0.00125**0.5)
    assert found.interval() == pytest.approx((-2.7764 * 0.0353553, 2.7764 * 0.0353553), abs=1e-5)


def test_identical_days_keep_half_of_the_cluster_error():
    """Up and down a tenth on each of five days: clusters vary by 0.1 * 10 / 9 / 100."""
    even = [close(day, hour, 0.1 * sign) for day in range(5) for hour, sign in ((1, 1), (5, -1))]
    found = find_ratio(cluster(even), find_return)
    assert found.error == pytest.approx((0.1 * 10 / 9 / 100 / 2) ** 0.5)


def test_under_five_days_or_ten_clusters_there_is_no_interval():
    assert find_ratio(cluster(FIVE_DAYS[:8]), find_return) is None
    assert find_ratio(cluster(FIVE_DAYS[1:]), find_return) is None
    told = results.describe_rates(FIVE_DAYS[1:])
    assert told["intervalReason"] == "9 of the 10 clusters required for an interval"
    assert told["winRateInterval"] is told["meanReturnInterval"] is None
    assert results.describe_rates(FIVE_DAYS)["intervalReason"] is None


def test_an_all_win_rate_still_has_an_error():
    won = [close(day, hour, 0.1) for day in range(5) for hour in (1, 5)]
    found = find_ratio(cluster(won), find_win, pseudo=True)
    # 11 of 12.
    assert found.value == pytest.approx(11 / 12) and found.error > 0
    low, high = results.describe_rates(won)["winRateInterval"]
    assert low < 11 / 12 < high == 1


def test_a_difference_combines_both_errors():
    """0.02776 apart with a combined error of 0.01 and 4 degrees of freedom: once in twenty."""
    one, other = Ratio(0.02776, 0.006, 5), Ratio(0.0, 0.008, 9)
    chance = results.find_chance(one, other)
    assert chance == pytest.approx(0.05, abs=0.0001)
    assert results.find_chance(other, one) == chance
    assert results.find_chance(Ratio(1, 0, 5), Ratio(0, 0, 5)) == 1


# ---- the benches, in short -----------------------------------------------------------------------
@pytest.mark.parametrize("world", intervals.WORLDS)
def test_intervals_have_their_nominal_coverage(world):
    """95 of 100 histories, within three and a half standard deviations."""
    assert all(0.87 <= one <= 1 for one in intervals.measure(world, 10, 6, 100))


def test_prices_without_signal_teach_nothing():
    assert lessons.measure("lopsided", 3, 10) == 0


def test_sales_never_exceed_the_formula():
    assert sales.try_sales(1_000)[0] == 0
