"""What closes add up to: rates with their intervals, results at other costs, and the test against
random entries. Pure.

Closes are not independent. Those of one token that were entered within an hour are one cluster, and
clusters that began on one UTC day share the market of that day. So the error of a ratio is taken
over days: Student's t on the linearized ratio of day sums. Under MIN_DAYS days or MIN_CLUSTERS
clusters there is no interval, and `intervalReason` says so. Nothing here is money: ratios are exact
until they are rounded for display.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from math import atan, pi, sqrt
from operator import sub, truediv
from statistics import median
from typing import Any, NamedTuple

from paper.account import Close, cluster
from paper.guard import DAY_MS

COMPARED_DAYS = 30
MIN_DAYS, MIN_CLUSTERS = 5, 10
LEVEL = 95
# Names of sample sizes, each for up to this many clusters of eligible closes.
SAMPLES = ((0, "none"), (9, "thin"), (29, "some"))
# How many times each cost counts where results are shown at other costs.
COST_FACTORS = (1, 2, 3)


class Interval(NamedTuple):
    """Where a ratio lies; both bounds belong to it."""

    low: float
    high: float


class Share(NamedTuple):
    """What a cluster or a day adds to both sides of a ratio."""

    part: float
    whole: float

    def plus(self, other: "Share") -> "Share":
        """Return the sum of both."""
        return Share(self.part + other.part, self.whole + other.whole)


PSEUDO = (Share(0.0, 1.0), Share(1.0, 1.0))


class Ratio(NamedTuple):
    """A ratio of sums over closes, its standard error over days, and how many days those are."""

    value: float
    error: float
    days: int

    def interval(self, level: float = LEVEL / 100) -> Interval:
        """Return the two-sided interval of this level."""
        reach = find_student(1 - (1 - level) / 2, self.days - 1) * self.error
        return Interval(self.value - reach, self.value + reach)


def describe(closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the figures of eligible closes. start: lamports in the accounts they were made in,
    which their drawdown is measured by.
    """
    eligible = [close for close in closes if close.excluded is None]
    return {
        **describe_rates(eligible),
        "maxDrawdownPct": describe_drawdown(eligible, start),
        "atCosts": compare_costs(eligible),
    }


def describe_rates(eligible: Sequence[Close]) -> dict[str, Any]:
    """Return win rate and mean return of closes that count, each with its interval."""
    groups = cluster(eligible)
    wins = sum(close.net > 0 for close in eligible)
    days = count_days(groups)
    return {
        "eligibleCloses": len(eligible),
        "clusters": len(groups),
        "days": days,
        "sample": name_sample(len(groups)),
        "intervalReason": explain_missing(len(groups), days),
        "meanReturnPct": find_mean(list_returns(eligible)),
        "meanReturnInterval": _show(find_ratio(groups, find_return), 100, 2),
        "winRate": _round(Decimal(wins) / len(eligible), 4) if eligible else None,
        "winRateInterval": find_win_interval(groups),
    }


def find_win_interval(groups: Sequence[Sequence[Close]]) -> list[float] | None:
    """The interval of the win rate over clusters, 0 to 1; None for too few."""
    ratio = find_ratio(groups, find_win, pseudo=True)
    return ratio and [round(min(1.0, max(0.0, bound)), 4) for bound in ratio.interval()]


def explain_missing(clusters: int, days: int) -> str | None:
    """Return why closes have no interval; None where they have one."""
    if days < MIN_DAYS:
        return f"{days} of the {MIN_DAYS} days an interval needs"
    if clusters < MIN_CLUSTERS:
        return f"{clusters} of the {MIN_CLUSTERS} clusters an interval needs"
    return None


def count_days(groups: Sequence[Sequence[Close]]) -> int:
    """Count the UTC days on which clusters began."""
    return len({group[0].opened_at // DAY_MS for group in groups})


def find_return(close: Close) -> float:
    """Return what a close earned, as a share of what was spent on it."""
    return close.net / max(1, close.spent)


def find_win(close: Close) -> float:
    """Return 1 for a close that won, else 0."""
    return float(close.net > 0)


def find_ratio(
    groups: Sequence[Sequence[Close]], measure: Callable[[Close], float], *, pseudo: bool = False
) -> Ratio | None:
    """Return the mean of a measure over the closes of these clusters with its error over days; None
    for too few days or clusters.

    pseudo: count one more close at 0 and one at 1, each on a day of its own, since closes that all
    won would have no error (Agresti and Coull 1998).
    """
    days = count_days(groups)
    if explain_missing(len(groups), days):
        return None
    clusters, by_day = list[Share](), dict[int, Share]()
    for group in groups:
        share = Share(sum(map(measure, group)), len(group))
        day = group[0].opened_at // DAY_MS
        clusters.append(share)
        by_day[day] = by_day.get(day, Share(0.0, 0.0)).plus(share)
    found = [
        sum_up([*shares, *(PSEUDO if pseudo else ())]) for shares in (clusters, by_day.values())
    ]
    (value, of_clusters), (_, of_days) = found
    # Days are few, so their own variance is rough: it is never taken for less than half of both.
    variance = max(of_days, (of_clusters + of_days) / 2)
    return Ratio(value, sqrt(variance), days)


def sum_up(shares: Sequence[Share]) -> tuple[float, float]:
    """Return the ratio of sums of shares, and its variance by linearization."""
    whole = sum(share.whole for share in shares)
    value = sum(share.part for share in shares) / whole
    squares = sum((share.part - value * share.whole) ** 2 for share in shares)
    return value, squares * len(shares) / (len(shares) - 1) / whole**2


@lru_cache(maxsize=256)
def find_student(p: float, freedom: int) -> float:
    """Return the quantile of Student's t for p over a half, by bisection of its distribution."""
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > 1 - p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 1 - p else (low, middle)
    return high


def student_tail(t: float, freedom: int) -> float:
    """Return how likely Student's t is above t >= 0: exact for a whole number of degrees of
    freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    theta = atan(t / sqrt(freedom))
    cosine, sine = sqrt(freedom / (freedom + t * t)), t / sqrt(freedom + t * t)
    if freedom % 2:
        term = total = cosine if freedom > 1 else 0.0
        for k in range(3, freedom - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        inside = (theta + sine * total) * 2 / pi
    else:
        term = total = 1.0
        for k in range(2, freedom - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        inside = sine * total
    return (1 - inside) / 2


class Difference(NamedTuple):
    """The difference of two ratios, and the chance of a larger one by luck, in either direction."""

    value: float
    chance: float


def compare_ratios(one: Ratio, other: Ratio) -> Difference:
    """Test whether two ratios differ, by Welch's t with the error of both. The degrees of freedom
    are the fewer days less one, since both sides share the market of a day.
    """
    value, error = one.value - other.value, sqrt(one.error**2 + other.error**2)
    if not error:
        return Difference(value, 1.0)
    freedom = min(one.days, other.days) - 1
    return Difference(value, 2 * student_tail(abs(value) / error, freedom))


def describe_drawdown(eligible: Sequence[Close], start: int) -> float | None:
    """Return the largest fall of what closes add up to, in percent of its highest so far."""
    if not eligible or start <= 0:
        return None
    moves = [close.net for close in sorted(eligible, key=lambda one: one.closed_at)]
    totals = list(accumulate(moves, initial=start))
    tops = list(accumulate(totals, max))
    worst: float = max(map(truediv, map(sub, tops, totals), tops))
    return round(100 * worst, 2)


def compare(closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the figures of one family from its closes of the last COMPARED_DAYS. start: lamports
    in all accounts of the family together.
    """
    eligible = [close for close in closes if close.excluded is None]
    returns = list_returns(eligible)
    return {
        **describe(closes, start),
        "excluded": count_excluded(closes),
        "daysCovered": min(COMPARED_DAYS, len({close.closed_at // DAY_MS for close in eligible})),
        "medianReturnPct": _round(median(returns), 2) if returns else None,
        "worstCloseReturnPct": _round(min(returns), 2) if returns else None,
        "costShare": cost_share(eligible),
    }


def count_excluded(closes: Sequence[Close]) -> dict[str, int]:
    """Count the closes that are not eligible, by reason."""
    return dict(sorted(Counter(close.excluded for close in closes if close.excluded).items()))


def list_returns(closes: Sequence[Close]) -> list[Decimal]:
    """Return what each close earned, in percent of what was spent on it."""
    return [Decimal(close.net) * 100 / close.spent for close in closes if close.spent]


def find_mean(returns: Sequence[Decimal]) -> float | None:
    """Return the mean of percentages with two decimals; None without any."""
    return _round(sum(returns, Decimal(0)) / len(returns), 2) if returns else None


def _show(ratio: Ratio | None, times: float, digits: int) -> list[float] | None:
    return ratio and [round(bound * times, digits) for bound in ratio.interval()]


def compare_costs(eligible: Sequence[Close]) -> list[dict[str, Any]]:
    """Return the mean return and the win rate with every cost one, two and three times as high, for
    the same trades at the same prices.
    """
    spent = [close for close in eligible if close.spent]
    found = []
    for times in COST_FACTORS:
        nets = [close.gross - times * (close.gross - close.net) for close in spent]
        returns = [Decimal(net) * 100 / close.spent for net, close in zip(nets, spent, strict=True)]
        wins = Decimal(sum(net > 0 for net in nets))
        rate = _round(wins / len(nets), 4) if nets else None
        found.append({"costs": times, "meanReturnPct": find_mean(returns), "winRate": rate})
    return found


def cost_share(closes: Sequence[Close]) -> float | None:
    """Return costs as a share of the price moves, up or down; None where no price moved."""
    moved = sum(abs(close.gross) for close in closes)
    costs = sum(close.gross - close.net for close in closes)
    return _round(Decimal(costs) / moved, 4) if moved else None


def name_sample(count: int) -> str:
    """Name how meaningful a number of clusters is: the first of SAMPLES whose limit it fits."""
    return next((name for limit, name in SAMPLES if count <= limit), "enough")


def _round(number: Decimal, digits: int) -> float:
    return float(round(number, digits))
