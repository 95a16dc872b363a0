"""What a trader asks of an account: drawdown, Sharpe and Sortino, expectancy, exposure. Pure.

Drawdown, daily returns and exposure are of equity at what the pools would pay; the other figures
are of closes. Ratios are rounded for display, money stays whole lamports.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from paper.account import Close
from paper.guard import DAY_MS

# Fewer days tell nothing about how returns vary.
MIN_DAYS = 20


class Mark(NamedTuple):
    """What an account was worth. `at`: ms; `equity`, `held`: lamports of all and of positions."""

    at: int
    equity: int
    held: int


def describe_account(marks: Sequence[Mark], closes: Sequence[Close], start: int) -> dict[str, Any]:
    """Return the figures of an account that began with `start` lamports; marks in order."""
    returns = list_daily_returns(marks, start)
    return {
        "maxDrawdownPct": find_max_drawdown(marks, start),
        "days": len(returns),
        "sharpePerDay": find_sharpe(returns),
        "sortinoPerDay": find_sortino(returns),
        "exposure": find_exposure(marks),
        **describe_closes(closes, start),
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


def find_max_drawdown(marks: Sequence[Mark], start: int) -> float | None:
    """Return the deepest fall of equity below its peak so far, in percent; None without marks."""
    if not marks:
        return None
    return round(max(100 * fall / peak for fall, peak in list_falls(marks, start) if peak), 2)


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
