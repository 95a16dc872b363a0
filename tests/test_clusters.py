"""Intervals over clusters of closes, and how often they hold the truth."""

import math
import random
import tracemalloc
from statistics import NormalDist

import pytest

from bench.intervals import measure, wilson
from paper import clusters
from paper.account import Close
from paper.clusters import Share

HOUR_MS = 3_600_000


def entered(mint, at):
    return Close(f"{mint}{at}", mint, mint, at, at + 1, "told", 1, 1, 1)


def test_closes_of_one_token_entered_within_an_hour_are_one_cluster():
    told = [("A", 0), ("A", HOUR_MS), ("A", HOUR_MS + 1), ("B", 5), ("A", 1), ("A", 3 * HOUR_MS)]
    found = clusters.cluster([entered(mint, at) for mint, at in told])
    assert [[(one.mint, one.opened_at) for one in group] for group in found] == [
        [("A", 0), ("A", 1), ("A", HOUR_MS)],
        [("B", 5)],
        [("A", HOUR_MS + 1)],
        [("A", 3 * HOUR_MS)],
    ]
    assert clusters.cluster([]) == []


@pytest.mark.parametrize("count, student", [(8, 2.365), (31, 2.042), (32, 1.96), (200, 1.96)])
def test_the_tails_are_those_of_students_t_widened(count, student):
    """Of 1,001 figures, by the published quantile for one degree of freedom less than clusters."""
    tail = NormalDist().cdf(-student * math.sqrt(count / (count - 1)))
    figures = list(range(1000, -1, -1))
    assert clusters._cut(figures, count) == (
        math.floor(1000 * tail),
        math.ceil(1000 * (1 - tail)),
    )


def test_copies_of_a_trade_narrow_nothing():
    """Five traders that make the same twelve trades know as much as one."""
    alone = [Share(n % 2, 1) for n in range(12)]
    five = [Share(5 * one.part, 5) for one in alone]
    one, many = clusters.find_interval(alone), clusters.find_interval(five)
    assert one.high - one.low > 0.4 and abs((many.high - many.low) - (one.high - one.low)) < 0.15


def test_an_interval_is_the_same_in_every_process_and_holds_its_ratio(monkeypatch):
    shares = [Share(n * 7 % 5 - 1, 2) for n in range(20)]
    found = clusters.find_interval(shares)
    monkeypatch.setattr(clusters, "_intervals", clusters.Intervals())
    assert clusters.find_interval(shares) == found
    ratio = sum(one.part for one in shares) / sum(one.whole for one in shares)
    assert found.low < ratio < found.high


# ---- drawn again by an oracle --------------------------------------------------------------------
def draw_slowly(count, measure):
    """The bounds of 1,000 draws of so many places, drawn one after the other by the seed."""
    chance, found = random.Random("clusters"), []
    for _ in range(1_000):
        figure = measure([int(chance.random() * count) for _ in range(count)])
        if figure is not None:
            found.append(figure)
    # 2.365 and 2.262 for 8 and 10 clusters; 1.984 of 101 is near enough to the normal 1.96.
    student = {8: 2.365, 10: 2.262}.get(count, 1.96)
    tail = NormalDist().cdf(-student * math.sqrt(count / (count - 1)))
    found.sort()
    last = len(found) - 1
    return found[math.floor(last * tail)], found[math.ceil(last * (1 - tail))]


def divide(parts, wholes):
    """Of drawn places the ratio of the sums; None where there is nothing."""

    def measure(drawn):
        whole = sum(wholes[place] for place in drawn)
        return sum(parts[place] for place in drawn) / whole if whole else None

    return measure


def test_an_interval_of_a_ratio_is_that_of_a_slow_bootstrap():
    parts, wholes = (3, -1, 4, 1, -5, 9, 2, 6), (1, 2, 0, 1, 3, 1, 0, 2)
    shares = [Share(*pair) for pair in zip(parts, wholes, strict=True)]
    assert clusters.find_interval(shares) == draw_slowly(8, divide(parts, wholes))


def test_a_rate_has_one_win_and_one_loss_more_of_the_mean_size():
    """Of 20 closes in 8 clusters the mean is 2.5, and 2 is the even number."""
    wins = [Share(part, whole) for part, whole in zip((1, 0, 2) * 3, (1, 3, 4) * 3, strict=True)]
    parts, wholes = zip(*wins[:8], (2, 2), (0, 2), strict=True)
    assert sum(wholes[:8]) == 20
    assert clusters.find_rate_interval(wins[:8]) == draw_slowly(10, divide(parts, wholes))
    nothing = clusters.find_rate_interval([Share(0, 0)] * 8)
    assert nothing == draw_slowly(10, divide((0,) * 8 + (1, 0), (0,) * 8 + (1, 1)))


def test_more_than_two_hundred_are_drawn_in_pairs():
    """201 in 100 pairs and one that is alone."""
    parts = [n * 7 % 11 - 4 for n in range(201)]
    shares = [Share(part, 1 + n % 3) for n, part in enumerate(parts)]
    pairs = [shares[first : first + 2] for first in range(0, 201, 2)]
    summed = zip(
        *[[sum(column) for column in zip(*pair, strict=True)] for pair in pairs], strict=True
    )
    assert clusters.find_interval(shares) == draw_slowly(101, divide(*summed))
    assert len(clusters._join(shares[:200])) == 200 and len(clusters._join(parts)) == 101


def test_the_interval_of_a_drawdown_is_that_of_a_slow_bootstrap():
    moves = [5, -7, 2, -3, 8, -6, 1, -2]

    def fall(drawn):
        total = top = 20
        worst = 0.0
        for place in drawn:
            total += moves[place]
            top = max(top, total)
            worst = max(worst, (top - total) / top)
        return worst

    assert clusters.find_drawdown_interval(moves, 20) == draw_slowly(8, fall)


def test_what_is_remembered_of_figures_is_small_and_has_an_end():
    """Of 1,500 accounts of 200 clusters the last 1,024 are known, in less than 400 bytes each; 400
    integers alone would take 12,800.
    """
    remembered, interval = clusters.Intervals(), clusters.Interval(0.25, 0.75)
    tracemalloc.start()
    try:
        for n in range(1_500):
            figures = tuple(range(n, n + 200)), tuple(range(10**9, 10**9 + 200))
            assert remembered.find(figures, lambda: interval) is interval
        figures = None
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 400 * clusters.MAX_REMEMBERED
    drawn = []
    for n in (476, 1_499, 475):
        figures = tuple(range(n, n + 200)), tuple(range(10**9, 10**9 + 200))
        remembered.find(figures, lambda: drawn.append(n) or interval)
    assert drawn == [475]


def test_too_few_clusters_have_no_interval_and_all_that_won_prove_nothing():
    """Of five clusters one in ten intervals missed, and of two nearly half (bench intervals)."""
    seven = [Share(n % 2, 1) for n in range(7)]
    assert clusters.find_interval(seven) is None is clusters.find_rate_interval(seven)
    assert clusters.find_drawdown_interval([1] * 7, 10) is None is clusters.find_rate_interval([])
    assert clusters.explain_missing(7) == "too few clusters: 7 of the 8 an interval needs"
    assert clusters.explain_missing(8) is None is not clusters.find_interval([*seven, Share(1, 1)])
    won = clusters.find_rate_interval([Share(1, 1)] * 10)
    assert won.low < 0.85 and won.high == 1


def test_the_interval_covers_what_it_says():
    """Sixty invented worlds of twenty trades that five traders share nine times of ten. Of a true
    coverage of 95 % fewer than 52 of 60 come once in 200 times; independent ones cover 65 %.
    """
    clustered, independent = measure(20, 0.5, 60)
    assert clustered >= 52 / 60 and independent < 52 / 60


@pytest.mark.parametrize(
    "wins, count, low, high",
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_what_it_is_compared_with_is_the_published_interval(wins, count, low, high):
    """81 of 263: the worked example of Newcombe, Statistics in Medicine 17 (1998), method 3; the
    others follow from the formula by hand.
    """
    assert wilson(wins, count) == pytest.approx((low, high), abs=0.00005)


def test_the_interval_of_a_drawdown_holds_that_of_worlds_drawn_from_the_same_trades():
    """Trades of -1 and +1 SOL, as many of each: of 100 shuffles at least 90 fall inside, since the
    draws shuffle, too, and vary the trades besides.
    """
    moves = [10**9, -(10**9)] * 10
    found = clusters.find_drawdown_interval(moves, 10 * 10**9)
    chance = random.Random(5)
    falls = [
        clusters.find_drawdown(chance.sample(moves, len(moves)), 10 * 10**9) for _ in range(100)
    ]
    assert sum(found.low <= fall <= found.high for fall in falls) >= 90
    assert clusters.find_drawdown([], 5) == 0 == clusters.find_drawdown([1, 2], 5)


def test_thousands_of_clusters_are_drawn_by_their_neighbors_and_give_nearly_the_same():
    """Of 5,000 coins a rate lies within 1.96 * 0.5 / sqrt(5000) = 1.4 % of a half."""
    chance = random.Random(3)
    shares = [Share(chance.random() < 0.5, 1) for _ in range(5_000)]
    rate = sum(one.part for one in shares) / 5_000
    low, high = clusters.find_interval(shares)
    assert len(clusters._join(shares)) == 200
    assert rate - 0.018 < low < rate - 0.010 and rate + 0.010 < high < rate + 0.018


def test_a_draw_of_clusters_without_any_trade_has_no_ratio():
    """One cluster of eight has trades, all won: each draw that meets it is 1, and others, a third
    of all ((7/8) ** 8), say nothing.
    """
    assert clusters.find_interval([Share(3, 3), *[Share(0, 0)] * 7]) == (1.0, 1.0)
