"""What closes add up to, with clustered intervals and at other costs. Pure.

Ratios are exact until they are rounded for display. An interval that too few clusters have is None,
and `intervalReason` says so.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from statistics import median
from typing import Any

from paper import clusters
from paper.account import Close
from paper.clusters import Interval, Share
from paper.guard import DAY_MS

COMPARED_DAYS = 30
# Names of sample sizes, each for up to this many clusters of eligible closes.
SAMPLES = ((0, "none"), (9, "thin"), (29, "some"))
# How many times each cost counts where results are shown at other costs.
COST_FACTORS = (1, 2, 3)
MILLION = 10**6


def describe(closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the figures of eligible closes, each with its interval. start: lamports in the
    accounts they were made in, which their drawdown is measured by.
    """
    eligible = [close for close in closes if close.excluded is None]
    return {
        **describe_rates(eligible),
        **describe_drawdown(eligible, start),
        "atCosts": compare_costs(eligible),
    }


def describe_rates(eligible: Sequence[Close]) -> dict[str, Any]:
    """Return win rate and mean return of closes that count, each with its interval."""
    wins = sum(close.net > 0 for close in eligible)
    groups = clusters.cluster(eligible)
    return {
        "eligibleCloses": len(eligible),
        "clusters": len(groups),
        "sample": name_sample(len(groups)),
        "interval": clusters.LEVEL,
        "intervalReason": clusters.explain_missing(len(groups)),
        "meanReturnPct": find_mean(list_returns(eligible)),
        "meanReturnInterval": find_return_interval(groups),
        "winRate": _round(Decimal(wins) / len(eligible), 4) if eligible else None,
        "winRateInterval": find_win_interval(groups),
    }


def describe_drawdown(eligible: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the largest fall of what closes add up to, in percent of its highest."""
    if not eligible or start <= 0:
        return {"maxDrawdownPct": None, "maxDrawdownInterval": None}
    moves = [close.net for close in sorted(eligible, key=lambda one: one.closed_at)]
    nets = [sum(close.net for close in group) for group in clusters.cluster(eligible)]
    return {
        "maxDrawdownPct": round(100 * clusters.find_drawdown(moves, start), 2),
        "maxDrawdownInterval": _show(clusters.find_drawdown_interval(nets, start), 100, 2),
    }


def compare(closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the figures of one family from its closes of the last COMPARED_DAYS. start: lamports
    in all accounts of the family together.
    """
    eligible = [close for close in closes if close.excluded is None]
    returns = list_returns(eligible)
    excluded = Counter(close.excluded for close in closes if close.excluded)
    return {
        **describe(closes, start),
        "excluded": dict(sorted(excluded.items())),
        "daysCovered": min(COMPARED_DAYS, len({close.closed_at // DAY_MS for close in eligible})),
        "medianReturnPct": _round(median(returns), 2) if returns else None,
        "worstCloseReturnPct": _round(min(returns), 2) if returns else None,
        "costShare": cost_share(eligible),
    }


def list_returns(closes: Sequence[Close]) -> list[Decimal]:
    """Return what each close earned, in percent of what was spent on it."""
    return [Decimal(close.net) * 100 / close.spent for close in closes if close.spent]


def find_mean(returns: Sequence[Decimal]) -> float | None:
    """Return the mean of percentages with two decimals; None without any."""
    return _round(sum(returns, Decimal(0)) / len(returns), 2) if returns else None


def find_win_interval(groups: Sequence[Sequence[Close]]) -> list[float] | None:
    """Return the interval of a win rate over clusters of closes."""
    shares = [Share(sum(one.net > 0 for one in group), len(group)) for group in groups]
    return _show(clusters.find_rate_interval(shares), 1, 4)


def find_return_interval(groups: Sequence[Sequence[Close]]) -> list[float] | None:
    """Return the interval of a mean return in percent, over clusters of closes."""
    shares = [
        Share(
            sum(one.net * MILLION // one.spent for one in group if one.spent),
            sum(one.spent > 0 for one in group),
        )
        for group in groups
    ]
    return _show(clusters.find_interval(shares), 100 / MILLION, 2)


def _show(found: Interval | None, times: float, digits: int) -> list[float] | None:
    return found and [round(bound * times, digits) for bound in found]


def compare_costs(eligible: Sequence[Close]) -> list[dict[str, Any]]:
    """Return the mean return and the win rate if every cost had been one, two and three times what
    it was. Prices moved as they did: nobody traded less.
    """
    spent = [close for close in eligible if close.spent]
    found = []
    for times in COST_FACTORS:
        nets = [close.gross - times * (close.gross - close.net) for close in spent]
        returns = [Decimal(net) * 100 / close.spent for net, close in zip(nets, spent, strict=True)]
        found.append(
            {
                "costs": times,
                "meanReturnPct": _round(sum(returns, Decimal(0)) / len(returns), 2)
                if returns
                else None,
                "winRate": _round(Decimal(sum(net > 0 for net in nets)) / len(nets), 4)
                if nets
                else None,
            }
        )
    return found


def cost_share(closes: Sequence[Close]) -> float | None:
    """Return costs as a share of the price moves, up or down; None where no price moved."""
    moved = sum(abs(close.gross) for close in closes)
    return (
        _round(Decimal(sum(close.gross - close.net for close in closes)) / moved, 4)
        if moved
        else None
    )


def name_sample(count: int) -> str:
    """Name how much a number of closes can tell: the first of SAMPLES that holds it."""
    return next((name for limit, name in SAMPLES if count <= limit), "enough")


def _round(number: Decimal, digits: int) -> float:
    return float(round(number, digits))
