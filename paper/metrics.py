"""What a trader asks of an account: drawdown, Sharpe and Sortino, expectancy, exposure. Pure.

Drawdown, daily returns and exposure are of equity at what the pools would pay; the other figures
are of closes. Ratios are rounded for display, money stays whole lamports.
"""

from collections.abc import Sequence
from itertools import groupby
from math import exp, log, sqrt
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from paper.account import Close
from paper.guard import DAY_MS

# Fewer days tell nothing about how returns vary.
MIN_DAYS = 20
# A growth beyond it, as a logarithm of the yearly factor, says nothing.
MAX_LOG_GROWTH = 50


class Mark(NamedTuple):
    """What an account was worth. `at`: ms; `equity`, `held`: lamports of all and of positions;
    `sol_cents`: what a SOL cost then, in USD cents.
    """

    at: int
    equity: int
    held: int
    sol_cents: int | None = None


def describe_account(marks: Sequence[Mark], closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the figures of an account that began with `start` lamports; marks in order."""
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
    """Return what single closes came to, what was turned over, and what share of it costs took."""
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
    """The deepest fall of equity below its highest so far, as a share of that; dates in ms."""

    share: float
    since: int
    until: int


def find_drawdown(marks: Sequence[Mark], start: int) -> Drawdown | None:
    """Return the deepest fall of an account; None without marks."""
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
    """Return the yearly growth in percent; None under MIN_DAYS."""
    if days < MIN_DAYS or start <= 0 or marks[-1].equity <= 0:
        return None
    years = max(1, marks[-1].at - marks[0].at) / (365 * DAY_MS)
    growth = log(marks[-1].equity / start) / years
    return round(100 * (exp(growth) - 1), 2) if growth < MAX_LOG_GROWTH else None


def find_market_change(marks: Sequence[Mark]) -> float | None:
    """Return how a SOL moved against the dollar over the marks, in percent; None if unknown."""
    known = [mark.sol_cents for mark in marks if mark.sol_cents]
    return round(100 * (known[-1] - known[0]) / known[0], 2) if known else None


def describe_runs(closes: Sequence[Close]) -> dict[str, Any]:
    """Return the longest runs of closes that won and lost, and how long the median of each was
    held.
    """
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


class Fall(NamedTuple):
    """How far equity was below its highest so far, and that highest, in lamports."""

    fall: int
    peak: int


def list_falls(marks: Sequence[Mark], start: int) -> list[Fall]:
    """Return the fall at each mark."""
    falls, peak = [], start
    for mark in marks:
        peak = max(peak, mark.equity)
        falls.append(Fall(peak - mark.equity, peak))
    return falls


def list_daily_returns(marks: Sequence[Mark], start: int) -> list[float]:
    """Return the return of each UTC day with a mark, from the last mark before it."""
    ends = {mark.at // DAY_MS: mark.equity for mark in marks}
    before, returns = start, []
    for equity in ends.values():
        returns.append(equity / before - 1 if before else 0.0)
        before = equity
    return returns


def find_sharpe(returns: Sequence[float]) -> float | None:
    """Return mean over deviation of daily returns; None under MIN_DAYS or where nothing moved."""
    spread = stdev(returns) if len(returns) >= MIN_DAYS else 0.0
    return round(fmean(returns) / spread, 2) if spread else None


def find_sortino(returns: Sequence[float]) -> float | None:
    """Return mean over downside deviation of daily returns; None as for Sharpe."""
    if len(returns) < MIN_DAYS:
        return None
    downside = sqrt(fmean(min(one, 0.0) ** 2 for one in returns))
    return round(fmean(returns) / downside, 2) if downside else None


def find_exposure(marks: Sequence[Mark]) -> float | None:
    """Return the mean share of equity that was in positions."""
    shares = [mark.held / mark.equity for mark in marks if mark.equity > 0]
    return round(fmean(shares), 4) if shares else None


# ---- results by what closes share ----------------------------------------------------------------
class Group(NamedTuple):
    """Closes that share a token or a reason. `net`: lamports together."""

    key: str
    name: str
    closes: int
    wins: int
    net: int


def group_closes(closes: Sequence[Close], by: str) -> list[Group]:
    """Add up closes by their `mint` or `reason`, the largest loss or gain first."""
    found: dict[str, Group] = {}
    for close in closes:
        key = getattr(close, by)
        name = close.symbol if by == "mint" else key
        old = found.get(key, Group(key, name, 0, 0, 0))
        wins = old.wins + (close.net > 0)
        found[key] = Group(key, name, old.closes + 1, wins, old.net + close.net)
    return sorted(found.values(), key=lambda one: (-abs(one.net), one.key))
