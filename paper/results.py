"""Summarize closes and equity: rates with intervals, the test against random entries, and an
account's figures. Pure.

Closes aren't independent. Those of one token whose positions were opened within an hour are one
cluster, and clusters that began on one UTC day share that day's market. A ratio's error is
therefore computed over days: Student's t on the linearized ratio of daily sums. With fewer than
MIN_DAYS days or MIN_CLUSTERS clusters, there is no interval, and `intervalReason` says why. Ratios
are exact until they are rounded for display. Money stays in whole lamports.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, groupby, islice
from math import atan, exp, log, pi, sqrt
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from paper.account import Close, cluster
from paper.rules import DAY_MS

# ---- rates ---------------------------------------------------------------------------------------
COMPARED_DAYS = 30
MIN_DAYS, MIN_CLUSTERS = 5, 10
LEVEL = 0.95
# Names of sample sizes, up to this many clusters of eligible closes.
SAMPLES = ((0, "none"), (9, "thin"), (29, "some"))
COST_FACTORS = (1, 2, 3)


# A cluster's or day's contribution to a ratio, as (part, whole).
Share = tuple[float, float]
PSEUDO = ((0.0, 1.0), (1.0, 1.0))


class Ratio(NamedTuple):
    """A ratio of sums over closes, its standard error over days, and the number of days."""

    value: float
    error: float
    days: int

    def interval(self) -> tuple[float, float]:
        reach = find_student(1 - (1 - LEVEL) / 2, self.days - 1) * self.error
        return self.value - reach, self.value + reach


def describe(closes: Sequence[Close], start: int) -> dict[str, Any]:
    eligible = [close for close in closes if close.excluded is None]
    return {
        **describe_rates(eligible),
        "maxDrawdownPct": describe_drawdown(eligible, start),
        "atCosts": compare_costs(eligible),
    }


def describe_rates(eligible: Sequence[Close]) -> dict[str, Any]:
    groups = cluster(eligible)
    wins = sum(close.net > 0 for close in eligible)
    days, mean = count_days(groups), find_ratio(groups, find_return)
    return {
        "eligibleCloses": len(eligible),
        "clusters": len(groups),
        "days": days,
        "sample": name_sample(len(groups)),
        "intervalReason": explain_missing(len(groups), days),
        "meanReturnPct": find_mean(list_returns(eligible)),
        "meanReturnInterval": mean and [round(100 * bound, 2) for bound in mean.interval()],
        "winRate": _round(Decimal(wins) / len(eligible), 4) if eligible else None,
        "winRateInterval": find_win_interval(groups),
    }


def find_win_interval(groups: Sequence[Sequence[Close]]) -> list[float] | None:
    ratio = find_ratio(groups, find_win, pseudo=True)
    return ratio and [round(min(1.0, max(0.0, bound)), 4) for bound in ratio.interval()]


def explain_missing(clusters: int, days: int) -> str | None:
    if days < MIN_DAYS:
        return f"{days} of the {MIN_DAYS} days required for an interval"
    if clusters < MIN_CLUSTERS:
        return f"{clusters} of the {MIN_CLUSTERS} clusters required for an interval"
    return None


def count_days(groups: Sequence[Sequence[Close]]) -> int:
    return len({group[0].opened_at // DAY_MS for group in groups})


def find_return(close: Close) -> float:
    return close.net / max(1, close.spent)


def find_win(close: Close) -> float:
    return float(close.net > 0)


def find_ratio(
    groups: Sequence[Sequence[Close]], measure: Callable[[Close], float], *, pseudo: bool = False
) -> Ratio | None:
    """Return a measure's mean over clustered closes, with its error over days.

    None if there are too few days or clusters. `pseudo` adds one close at 0 and one at 1, each on
    its own day; otherwise closes that all won would have no error (Agresti and Coull 1998).
    """
    days = count_days(groups)
    if explain_missing(len(groups), days):
        return None
    clusters = [(sum(map(measure, group)), float(len(group))) for group in groups]
    by_day: dict[int, Share] = {}
    for group, (part, whole) in zip(groups, clusters, strict=True):
        day = group[0].opened_at // DAY_MS
        parts, wholes = by_day.get(day, (0.0, 0.0))
        by_day[day] = parts + part, wholes + whole
    found = [
        sum_up([*shares, *(PSEUDO if pseudo else ())]) for shares in (clusters, by_day.values())
    ]
    (value, of_clusters), (_, of_days) = found
    # With few days, their own variance is a rough estimate, so use at least half of the sum.
    variance = max(of_days, (of_clusters + of_days) / 2)
    return Ratio(value, sqrt(variance), days)


def sum_up(shares: Sequence[Share]) -> tuple[float, float]:
    """Return the ratio of the sums, and its variance by linearization."""
    total = sum(whole for _, whole in shares)
    value = sum(part for part, _ in shares) / total
    squares = sum((part - value * whole) ** 2 for part, whole in shares)
    return value, squares * len(shares) / (len(shares) - 1) / total**2


@lru_cache(maxsize=256)
def find_student(p: float, freedom: int) -> float:
    """Return the quantile of Student's t for p > 0.5, by bisection of its distribution."""
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > 1 - p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 1 - p else (low, middle)
    return high


def student_tail(t: float, freedom: int) -> float:
    """Return the probability that Student's t exceeds t >= 0.

    Exact for integer degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
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


def find_chance(one: Ratio, other: Ratio) -> float:
    """Return the chance that two ratios differ at least this much by luck, in either direction.

    This is Welch's t. The degrees of freedom are one less than the smaller number of days, because
    both sides share each day's market.
    """
    error = sqrt(one.error**2 + other.error**2)
    if not error:
        return 1.0
    freedom = min(one.days, other.days) - 1
    return 2 * student_tail(abs(one.value - other.value) / error, freedom)


def describe_drawdown(eligible: Sequence[Close], start: int) -> float | None:
    if not eligible or start <= 0:
        return None
    ordered = sorted(eligible, key=lambda one: one.closed_at)
    totals = accumulate((close.net for close in ordered), initial=start)
    drawdown = find_drawdown([Mark(0, total, 0) for total in totals], start)
    return drawdown and round(100 * drawdown.share, 2)


def compare(closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return a family's figures. `start`: its accounts' combined starting lamports."""
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
    return dict(sorted(Counter(close.excluded for close in closes if close.excluded).items()))


def list_returns(closes: Sequence[Close]) -> list[Decimal]:
    return [Decimal(close.net) * 100 / close.spent for close in closes if close.spent]


def find_mean(returns: Sequence[Decimal]) -> float | None:
    return _round(sum(returns, Decimal(0)) / len(returns), 2) if returns else None


def compare_costs(eligible: Sequence[Close]) -> list[dict[str, Any]]:
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
    moved = sum(abs(close.gross) for close in closes)
    costs = sum(close.gross - close.net for close in closes)
    return _round(Decimal(costs) / moved, 4) if moved else None


def name_sample(count: int) -> str:
    return next((name for limit, name in SAMPLES if count <= limit), "enough")


def _round(number: Decimal, digits: int) -> float:
    return float(round(number, digits))


# ---- figures of an account -----------------------------------------------------------------------
# With fewer days, it isn't known how returns vary.
MIN_RATIO_DAYS = 20
# The log of the yearly factor. Beyond it, growth is meaningless.
MAX_LOG_GROWTH = 50


class Mark(NamedTuple):
    """An account's lamports at `at` (ms), in total and in positions, and USD cents per SOL."""

    at: int
    equity: int
    held: int
    sol_cents: int | None = None


def describe_account(marks: Sequence[Mark], closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return figures for an account that started with `start` lamports. The marks are in order."""
    returns = list_daily_returns(marks, start)
    drawdown, growth = find_drawdown(marks, start), find_growth(marks, start, len(returns))
    percentage = drawdown and round(100 * drawdown.share, 2)
    return {
        "maxDrawdownPct": percentage,
        "drawdownFrom": drawdown and drawdown.since,
        "drawdownTo": drawdown and drawdown.until,
        "days": len(returns),
        "cagrPct": growth,
        "calmar": round(growth / percentage, 2) if growth is not None and percentage else None,
        "sharpePerDay": find_sharpe(returns),
        "sortinoPerDay": find_sortino(returns),
        "exposure": find_exposure(marks),
        "solUsdChangePct": find_market_change(marks),
        **describe_closes(closes, start),
        **describe_runs(closes),
    }


def describe_closes(closes: Sequence[Close], start: int) -> dict[str, Any]:
    nets = [close.net for close in closes]
    gains, losses = sum(n for n in nets if n > 0), -sum(n for n in nets if n < 0)
    spent = sum(close.spent for close in closes)
    costs = sum(close.gross - close.net for close in closes)
    return {
        "expectancyLamports": str(sum(nets) // len(nets)) if nets else None,
        "profitFactor": round(gains / losses, 2) if losses else None,
        "turnover": round(spent / start, 2) if start else None,
        "feeShare": round(costs / spent, 4) if spent else None,
        "bestLamports": str(max(nets)) if nets else None,
        "worstLamports": str(min(nets)) if nets else None,
    }


class Drawdown(NamedTuple):
    """The largest drop of equity below its previous high, as a share of that high. Dates: ms."""

    share: float
    since: int
    until: int


def find_drawdown(marks: Sequence[Mark], start: int) -> Drawdown | None:
    if not marks:
        return None
    peak, peak_at = start, marks[0].at
    worst = Drawdown(0.0, peak_at, peak_at)
    for mark in marks:
        if mark.equity >= peak:
            peak, peak_at = mark.equity, mark.at
        elif (peak - mark.equity) / peak > worst.share:
            worst = Drawdown((peak - mark.equity) / peak, peak_at, mark.at)
    return worst


def find_growth(marks: Sequence[Mark], start: int, days: int) -> float | None:
    """Return the yearly growth as a percentage, or None with fewer than MIN_RATIO_DAYS days."""
    if days < MIN_RATIO_DAYS or start <= 0 or marks[-1].equity <= 0:
        return None
    years = max(1, marks[-1].at - marks[0].at) / (365 * DAY_MS)
    growth = log(marks[-1].equity / start) / years
    return round(100 * (exp(growth) - 1), 2) if growth < MAX_LOG_GROWTH else None


def find_market_change(marks: Sequence[Mark]) -> float | None:
    known = [mark.sol_cents for mark in marks if mark.sol_cents]
    return round(100 * (known[-1] - known[0]) / known[0], 2) if known else None


def describe_runs(closes: Sequence[Close]) -> dict[str, Any]:
    ordered = sorted(closes, key=lambda one: one.closed_at)
    runs = {True: 0, False: 0}
    for won, group in groupby(ordered, lambda one: one.net > 0):
        runs[won] = max(runs[won], len(list(group)))
    held = {
        won: [(one.closed_at - one.opened_at) // 1000 for one in closes if (one.net > 0) == won]
        for won in runs
    }
    return {
        "longestWinStreak": runs[True],
        "longestLossStreak": runs[False],
        "medianWinnerSeconds": int(median(held[True])) if held[True] else None,
        "medianLoserSeconds": int(median(held[False])) if held[False] else None,
    }


def list_falls(marks: Sequence[Mark], start: int) -> list[int]:
    """Return how far equity is below its previous high at each mark, in lamports."""
    peaks = accumulate((mark.equity for mark in marks), max, initial=start)
    return [peak - mark.equity for peak, mark in zip(islice(peaks, 1, None), marks, strict=True)]


def list_daily_returns(marks: Sequence[Mark], start: int) -> list[float]:
    """Return the return on each UTC day that has a mark, relative to the preceding mark."""
    ends = {mark.at // DAY_MS: mark.equity for mark in marks}
    before, returns = start, []
    for equity in ends.values():
        returns.append(equity / before - 1 if before else 0.0)
        before = equity
    return returns


def find_sharpe(returns: Sequence[float]) -> float | None:
    spread = stdev(returns) if len(returns) >= MIN_RATIO_DAYS else 0.0
    return round(fmean(returns) / spread, 2) if spread else None


def find_sortino(returns: Sequence[float]) -> float | None:
    """Return the mean divided by the downside deviation of daily returns, or None as for Sharpe."""
    if len(returns) < MIN_RATIO_DAYS:
        return None
    downside = sqrt(fmean(min(one, 0.0) ** 2 for one in returns))
    return round(fmean(returns) / downside, 2) if downside else None


def find_exposure(marks: Sequence[Mark]) -> float | None:
    shares = [mark.held / mark.equity for mark in marks if mark.equity > 0]
    return round(fmean(shares), 4) if shares else None


# ---- results by what closes share ----------------------------------------------------------------
class Group(NamedTuple):
    """Closes that share a token or a reason. `net`: total lamports."""

    key: str
    name: str
    closes: int
    wins: int
    net: int


def group_closes(closes: Sequence[Close], by: str) -> list[Group]:
    found: dict[str, Group] = {}
    for close in closes:
        key = getattr(close, by)
        name = close.symbol if by == "mint" else key
        old = found.get(key, Group(key, name, 0, 0, 0))
        wins = old.wins + (close.net > 0)
        found[key] = Group(key, name, old.closes + 1, wins, old.net + close.net)
    return sorted(found.values(), key=lambda one: (-abs(one.net), one.key))
