"""A paper account's figures and charts, from equity at what its pools would pay; intervals over
days, and the test of closes against random entries.
"""

import re
from collections import namedtuple
from dataclasses import replace
from math import sqrt
from types import SimpleNamespace

import pytest
from service import NOW
from test_closes import order_of
from test_legacy import SOL, closed, make_trader

from accounts import traders as accounts
from bench import intervals, lessons, sales
from paper import results, store
from paper.account import STARTING_CASH, Close, cluster
from paper.results import Mark, Ratio, find_ratio, find_return, find_student, find_win
from paper.rules import DAY_MS, HOUR_MS
from paper.store import MARK_MS
from paper.tables import EquityMark, Period
from web.api.paper_closes import Point
from web.site import pictures

Trade = namedtuple("Trade", "side at sol closed_at")
MINUS = "\N{MINUS SIGN}"


def close(net, spent=100, gross=None, mint="A", reason="stop", at=1, excluded=None):
    gross = net if gross is None else gross
    return Close("c", mint, mint, at - 1, at, reason, gross, net, spent, excluded)


# ---- figures -------------------------------------------------------------------------------------
def test_closes_have_their_expected_figures():
    def describe(*closes, start=1_000):
        return results.describe_closes(list(closes), start)

    # 10 / 4 = 2 (truncated lamports); 30 / 20; 400 / 1000; costs of 15 in 400.
    assert describe(close(30, gross=40), close(-10, gross=-5), close(-10), close(0)) == {
        **{"expectancyLamports": "2", "profitFactor": 1.5, "turnover": 0.4, "feeShare": 0.0375},
        **{"bestLamports": "30", "worstLamports": "-10"},
    }
    # 2 / 3; 200 of 1,500; costs of 1 in 200 and in 150.
    shown = describe(close(2, gross=3), close(-3), start=1_500)
    assert (shown["profitFactor"], shown["turnover"], shown["feeShare"]) == (0.67, 0.13, 0.005)
    assert describe(close(2, spent=150, gross=3))["feeShare"] == 0.0067
    assert set(describe().values()) == {None, 0.0}
    assert describe(close(5))["profitFactor"] is None


def test_drawdown_starts_at_the_opening_equity():
    marks = [Mark(n, equity, 0) for n, equity in enumerate((90, 120, 60, 130, 117))]
    # 10 of 100, 60 of 120, 13 of 130.
    assert results.find_drawdown(marks, 100) == results.Drawdown(0.5, 1, 2)
    assert results.list_falls(marks, 100) == [10, 0, 60, 0, 13]
    assert results.find_drawdown([], 100) is None


def test_ratios_need_twenty_days():
    """Days of +1% and -0.5% in turn; each day's last mark counts."""

    def describe(days):
        marks, equity = [], 10**12
        for day in range(days):
            equity = equity * (10_100 if day % 2 == 0 else 9_950) // 10_000
            marks += [Mark(day * DAY_MS, 7, 0), Mark(day * DAY_MS + HOUR_MS, equity, equity // 4)]
        shown = results.describe_account(marks, [], 10**12)
        return shown["days"], shown["sharpePerDay"], shown["sortinoPerDay"]

    assert describe(19) == (19, None, None)
    # Mean 0.25%; each day is 0.75% away from it; downside sqrt(0.5^2 / 2) = 0.354%.
    sharpe, sortino = 0.25 / (0.75 * sqrt(20 / 19)), 0.25 / sqrt(0.125)
    assert describe(20) == (20, round(sharpe, 2), round(sortino, 2))
    assert results.find_sharpe([0.0] * 30) is results.find_sortino([0.01] * 30) is None


def test_exposure_is_the_mean_share_of_equity_in_positions():
    assert results.find_exposure([Mark(0, 100, 50), Mark(1, 200, 0), Mark(2, 0, 0)]) == 0.25
    assert results.find_exposure([]) is None


def test_results_are_grouped_by_token_and_by_reason():
    closes = [close(5, mint="A"), close(-9, mint="B"), close(2, mint="A", reason="time_stop")]
    assert results.group_closes(closes, "mint") == [("B", "B", 1, 0, -9), ("A", "A", 2, 2, 7)]
    assert results.group_closes(closes, "reason") == [
        ("stop", "stop", 2, 1, -4),
        ("time_stop", "time_stop", 1, 1, 2),
    ]
    named = [replace(one, symbol=f"{one.mint}'s") for one in closes]
    assert [one.name for one in results.group_closes(named, "mint")] == ["B's", "A's"]


# ---- the comparison of families ------------------------------------------------------------------
def compare(closes):
    return results.compare(closes, 10 * SOL)


def test_the_comparison_sums_eligible_closes():
    """Returns 10, -5, 1 and 4%; gross 0.12, -0.04, 0.02 and 0.05 SOL, so costs took 0.05
    of 0.23.
    """
    cent = SOL // 100
    history = [
        close(10 * cent, SOL, 12 * cent),
        close(-5 * cent, SOL, -4 * cent, at=DAY_MS),
        close(cent, SOL, 2 * cent),
        close(8 * cent, 2 * SOL, 10 * cent),
        close(SOL, excluded="old_pipeline"),
        close(SOL, excluded="under_review"),
    ]
    shown = compare(history)
    expected = {"eligibleCloses": 4, "excluded": {"old_pipeline": 1, "under_review": 1}}
    expected |= {"daysCovered": 2, "meanReturnPct": 2.5, "medianReturnPct": 2.5}
    expected |= {"worstCloseReturnPct": -5.0, "winRate": 0.75}
    expected["costShare"] = round((2 + 1 + 1 + 2) / (12 + 4 + 2 + 10), 4)
    assert expected.items() <= shown.items()
    # Additional costs of 2, 1, 1 and 2 hundredths: 8, -6, 0 and 3%; twice: 6, -7, -1 and 2.
    at_costs = [(at["costs"], at["meanReturnPct"], at["winRate"]) for at in shown["atCosts"]]
    assert at_costs == [(1, 2.5, 0.75), (2, 1.25, 0.5), (3, 0.0, 0.5)]


UNKNOWN = "meanReturnPct medianReturnPct worstCloseReturnPct winRateInterval meanReturnInterval"


@pytest.mark.parametrize(
    "history, more",
    [
        ([close(1, excluded="stale_price")], "winRate costShare maxDrawdownPct"),
        # Nothing was spent, so it has no return.
        ([close(5, spent=0)], ""),
    ],
    ids=["none", "free"],
)
def test_an_empty_comparison_claims_nothing(history, more):
    shown = compare(history)
    assert {name for name, value in shown.items() if value is None} == {
        *UNKNOWN.split(),
        *more.split(),
    }
    assert {one["meanReturnPct"] for one in shown["atCosts"]} == {None}
    assert shown["intervalReason"].endswith("of the 5 days required for an interval")
    assert results.cost_share([close(-3, gross=0)]) is None
    assert results.describe_drawdown(history, 0) is None


@pytest.mark.parametrize("days, covered", [(29, 29), (30, 30), (31, 30)])
def test_a_comparison_covers_thirty_days_at_most(days, covered):
    """One close a day; two on one day count as one."""
    history = [close(1, at=DAY_MS * n) for n in range(1, days + 1)]
    assert compare([*history, close(1, at=DAY_MS)])["daysCovered"] == covered


@pytest.mark.parametrize(
    "count, sample",
    [(0, "none"), (1, "thin"), (9, "thin"), (10, "some"), (29, "some"), (30, "enough")],
)
def test_the_sample_counts_clusters(count, sample):
    """Any two are a day apart; five traders with the same trade add nothing."""
    shown = compare([close(1, at=n // 5 * DAY_MS) for n in range(5 * count)])
    assert (shown["sample"], shown["clusters"]) == (sample, count)


def test_returns_have_two_decimals():
    """A third of the amount spent on each of twelve, on six days."""
    shown = compare([close(SOL, 3 * SOL, at=n * DAY_MS // 2) for n in range(12)])
    means = shown["meanReturnPct"], shown["medianReturnPct"], shown["worstCloseReturnPct"]
    assert (*means, *shown["meanReturnInterval"]) == (33.33,) * 5


# ---- intervals -----------------------------------------------------------------------------------
def close_at(day, hour, share):
    """A close of 1 SOL that brought this share of it."""
    at = day * DAY_MS + hour * HOUR_MS
    return replace(close(round(share * SOL), SOL), opened_at=at, closed_at=at + 1)


# Two clusters a day that share their market: the days add up to 0.2, 0, -0.2, 0.1 and -0.1.
FIVE_DAYS = [
    close_at(day, hour, share)
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
    even = [close_at(day, hour, 0.1 * sign) for day in range(5) for hour, sign in ((1, 1), (5, -1))]
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
    won = [close_at(day, hour, 0.1) for day in range(5) for hour in (1, 5)]
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


# ---- what is stored ------------------------------------------------------------------------------
def test_marks_are_thinned_to_the_first_of_each_hour_for_three_days(db):
    """At twenty past the hour: marks exactly a day old stay, and those that the job missed for 3
    days. Two days ago, Ada's account ran for a whole hour, and Bo's from twenty past on.
    """
    now, step = NOW // HOUR_MS * HOUR_MS + 2 * MARK_MS, MARK_MS
    hour = now - 2 * step - 2 * DAY_MS
    ada, bo = (
        accounts.create_trader(name, "momentum", NOW).trader.periods.get().id
        for name in ("Ada", "Bo")
    )
    ages = (5 * DAY_MS, 3 * DAY_MS + step, 3 * DAY_MS, DAY_MS + 2 * step, DAY_MS, step)
    stays = {(ada, hour), (bo, hour + 2 * step), *((ada, now - age) for age in ages)}
    goes = {(ada, hour + n * step) for n in range(1, 6)}
    goes |= {(bo, hour + 3 * step), (bo, hour + 4 * step)}
    goes |= {(ada, now - age) for age in (3 * DAY_MS - step, DAY_MS + step)}
    for period, at in stays | goes:
        EquityMark.create(period=period, at=at, equity=1, held=0)
    store.thin_out(now)
    assert {(one.period_id, one.at) for one in EquityMark.select()} == stays


def test_growth_dates_streaks_and_durations_are_expected():
    """Thirty days from 100 to 110: 1.1 ** (365 / 29) - 1. Won, won, lost, won; held 10 and 20 s."""
    marks = [Mark(day * DAY_MS, 100 * SOL, 0, 200_00) for day in range(29)]
    marks.append(Mark(29 * DAY_MS, 110 * SOL, 0, 230_00))
    history = [
        replace(close(net), opened_at=n * 100_000, closed_at=n * 100_000 + held)
        for n, (net, held) in enumerate(((5, 10_000), (6, 10_000), (-3, 20_000), (1, 10_000)))
    ]
    expected = {"calmar": None, "maxDrawdownPct": 0.0, "solUsdChangePct": 15.0}
    expected |= {"longestWinStreak": 2, "longestLossStreak": 1}
    expected |= {"medianWinnerSeconds": 10, "medianLoserSeconds": 20}
    expected["cagrPct"] = round(100 * (1.1 ** (365 / 29) - 1), 2)
    assert expected.items() <= results.describe_account(marks, history, 100 * SOL).items()
    assert results.describe_account(marks[:19], [], 100 * SOL)["cagrPct"] is None


# ---- the page ------------------------------------------------------------------------------------
@pytest.fixture
def account(service):
    """10 SOL, then 11 with 2 in positions, then 9.5."""
    trader = make_trader(service)
    period = Period.get(Period.trader == trader)
    Period.update(opened_at=NOW - 3 * HOUR_MS).execute()
    assert period.starting_cash == STARTING_CASH == 10 * SOL
    for ago, equity, held in ((2, 11 * SOL, 2 * SOL), (1, 95 * SOL // 10, 0)):
        EquityMark.create(period=period, at=NOW - ago * HOUR_MS, equity=equity, held=held)
    position = closed(trader, 1, -SOL // 2, opened_at=NOW - 2 * HOUR_MS, closed_at=NOW - HOUR_MS)
    snapshot = SimpleNamespace(id=1)
    for number, (side, hours) in enumerate((("buy", 2), ("sell", 1.5), ("sell", 1)), 1):
        order_of(position, number, side, snapshot, snapshot, NOW - int(hours * HOUR_MS), mid=SOL)
    return trader


def record_of(service, trader):
    tabs = ("", "?tab=trades", "?tab=record")
    return " ".join(service.get(f"/traders/{trader.uid}{tab}").text for tab in tabs)


def test_a_trader_shows_equity_drawdown_and_figures(service, account):
    page = record_of(service, account)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert f"Equity is 9.500 SOL: {MINUS}0.5000 SOL compared with holding its starting SOL." in text
    # 1.5 of 11 SOL.
    assert f"Below its peak: at most 13.64%, now {MINUS}1.500 SOL." in text
    assert page.count('class="picture') == 3 and "Results by token" in text
    marks = [page.count(one) for one in ('class="bought"', "circle class=", 'class="part"')]
    # A purchase, and the closing sale separate from an earlier partial sale.
    assert marks == [1, 2, 1] and '<circle class="loss"' in page
    assert "ringed ones partial sales" in text and "Results by exit reason" in text
    assert re.search(r"virtual SOL, Nov 5,( 2026,)? 9:00 AM UTC to", text)
    # 2 of 11 SOL two hours ago, nothing since then.
    assert "0% of the equity is in open positions; 9% on average." in text
    assert f"Nov 5, 2026 9.500 {MINUS}1.500 0 0% 1 {MINUS}0.5000" in text
    shown = service.get(f"/api/traders/{account.uid}").json["metrics"]
    assert (shown["maxDrawdownPct"], shown["exposure"]) == (13.64, 0.0909)


def test_figures_under_review_are_withheld(service, account):
    accounts.open_review(account, "a jump", NOW)
    assert service.get(f"/api/traders/{account.uid}").json["metrics"] is None
    page = record_of(service, account)
    assert "compared with holding" not in page and "Profit factor" not in page


def test_marks_include_open_positions_and_each_close_once():
    trades = [Trade("sell", 9_000, 5, 9_000), Trade("buy", 8_000, 5, None)]
    trades += [Trade("sell", 4_000, 5, 9_000), Trade("sell", 3_000, 5, None)]
    marks = pictures.list_marks(trades, [replace(close(7), closed_at=9_000)])
    found = [(one.at, one.side) for one in marks]
    assert found == [(3, "part"), (4, "part"), (8, "buy"), (9, "gain")]


def test_drops_are_measured_from_the_peak():
    points = [Point(0, 100), Point(10_000, 80), Point(20_000, 180)]
    curve = pictures.draw_falls(points, 30_000)
    assert curve.total == 0 and [run.side for run in curve.runs] == ["flat", "down", "flat"]


# ---- the benches, in short -----------------------------------------------------------------------
@pytest.mark.parametrize("world", intervals.WORLDS)
def test_intervals_have_their_nominal_coverage(world):
    """95 of 100 histories, within three and a half standard deviations."""
    assert all(0.87 <= one <= 1 for one in intervals.measure(world, 10, 6, 100))


def test_prices_without_signal_teach_nothing():
    assert lessons.measure("lopsided", 3, 10) == 0


def test_sales_never_exceed_the_formula():
    assert sales.try_sales(1_000)[0] == 0
