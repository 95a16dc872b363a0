"""Statistics of closes: patterns and lessons of a trader, and the comparison of the families. Pure.

All of it describes the past and forecasts nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Any

from chain.amounts import sol
from paper import clusters
from paper.account import Close
from paper.clusters import Share
from paper.guard import DAY_MS, LOOK_BACK_MS, MIN_CLOSES
from paper.market import percent

# Closes of one kind that are worth a sentence.
MIN_PATTERN = 3
LESSON_LIFE_MS = 7 * DAY_MS
COMPARED_DAYS = 30
# Names of sample sizes, each for up to so many clusters of eligible closes.
SAMPLES = ((0, "none"), (9, "thin"), (29, "some"))
# How many times each cost counts where results are shown at other costs.
COST_FACTORS = (1, 2, 3)
MILLION = 10**6
NOTE = "Descriptive. Coverage is not proof of profitability."


@dataclass(frozen=True, slots=True)
class Lesson:
    """A sentence about counted closes. With fewer than MIN_CLOSES it is a pattern."""

    key: str
    text: str
    n: int
    window_ms: int
    close_ids: tuple[str, ...]
    created_at: int
    expires_at: int

    @property
    def is_pattern(self) -> bool:
        """Whether it counts too few closes to be a lesson yet."""
        return self.n < MIN_CLOSES


def find_lessons(closes: Sequence[Close], now: int) -> list[Lesson]:
    """Return a lesson for each closing reason and each token with enough eligible closes in the
    look-back, sorted by key.
    """
    recent = [
        close for close in closes if close.excluded is None and close.closed_at > now - LOOK_BACK_MS
    ]
    groups: defaultdict[str, list[Close]] = defaultdict(list)
    for close in recent:
        groups["reason " + close.reason].append(close)
        groups["token " + close.mint].append(close)
    return [
        _lesson(key, group, now)
        for key, group in sorted(groups.items())
        if len(group) >= MIN_PATTERN
    ]


def _lesson(key: str, group: Sequence[Close], now: int) -> Lesson:
    about = (
        f"closes in {group[-1].symbol}"
        if key.startswith("token ")
        else f"closes by {group[-1].reason.replace('_', ' ')}"
    )
    net = sum(close.net for close in group)
    spent = sum(close.spent for close in group)
    won = sum(close.net > 0 for close in group)
    text = (
        f"Of {len(group)} {about} in {LOOK_BACK_MS // DAY_MS} days, {won} won; together"
        f" {sol(net)} SOL, {percent(net, spent)}% of what was spent."
    )
    return Lesson(
        key,
        text,
        len(group),
        LOOK_BACK_MS,
        tuple(close.id for close in group),
        now,
        now + LESSON_LIFE_MS,
    )


def find_new_lessons(closes: Sequence[Close], known: Mapping[str, int], now: int) -> list[Lesson]:
    """Return the lessons, patterns apart, that are not in force already. `known`: {key:
    expires_at}.
    """
    return [
        lesson
        for lesson in find_lessons(closes, now)
        if not lesson.is_pattern and known.get(lesson.key, 0) <= now
    ]


def review_results(closes: Sequence[Close]) -> dict[str, Any]:
    """Add up a trader's eligible closes; where there are none, wins and net are None."""
    eligible = [close for close in closes if close.excluded is None]
    excluded = Counter(close.excluded for close in closes if close.excluded)
    return {
        "closes": len(closes),
        "eligibleCloses": len(eligible),
        "excluded": dict(sorted(excluded.items())),
        "wins": sum(close.net > 0 for close in eligible) if eligible else None,
        "netLamports": str(sum(close.net for close in eligible)) if eligible else None,
    }


def compare(closes: Sequence[Close]) -> dict[str, Any]:
    """Return the figures of one family from its closes of the last COMPARED_DAYS; they are exact
    until rounded for display.
    """
    eligible = [close for close in closes if close.excluded is None]
    returns = [Decimal(close.net) * 100 / close.spent for close in eligible if close.spent]
    wins = sum(close.net > 0 for close in eligible)
    groups = clusters.cluster(eligible)
    return {
        "eligibleCloses": len(eligible),
        "clusters": len(groups),
        "interval": clusters.LEVEL,
        "excluded": dict(
            sorted(Counter(close.excluded for close in closes if close.excluded).items())
        ),
        "daysCovered": min(COMPARED_DAYS, len({close.closed_at // DAY_MS for close in eligible})),
        "meanReturnPct": _round(sum(returns, Decimal(0)) / len(returns), 2) if returns else None,
        "medianReturnPct": _round(median(returns), 2) if returns else None,
        "winRate": _round(Decimal(wins) / len(eligible), 4) if eligible else None,
        "winRateInterval": find_win_interval(groups),
        "meanReturnInterval": find_return_interval(groups),
        "worstCloseReturnPct": _round(min(returns), 2) if returns else None,
        "costShare": cost_share(eligible),
        "sample": name_sample(len(groups)),
        "atCosts": compare_costs(eligible),
    }


def find_win_interval(groups: Sequence[Sequence[Close]]) -> list[float] | None:
    """Return the 95 % interval of a win rate over clusters of closes; None for fewer than two."""
    shares = [Share(sum(one.net > 0 for one in group), len(group)) for group in groups]
    found = clusters.find_rate_interval(shares)
    return found and [round(found.low, 4), round(found.high, 4)]


def find_return_interval(groups: Sequence[Sequence[Close]]) -> list[float] | None:
    """Return the 95 % interval of a mean return in percent, over clusters of closes."""
    shares = [
        Share(sum(one.net * MILLION // one.spent for one in group if one.spent), len(group))
        for group in groups
    ]
    found = clusters.find_interval(shares)
    return found and [round(bound * 100 / MILLION, 2) for bound in found]


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
