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
from paper.account import Close
from paper.guard import DAY_MS, LOOK_BACK_MS, MIN_CLOSES
from paper.market import percent

# Closes of one kind that are worth a sentence.
MIN_PATTERN = 3
LESSON_LIFE_MS = 7 * DAY_MS
COMPARED_DAYS = 30
# Names of sample sizes, each for up to so many eligible closes.
SAMPLES = ((0, "none"), (9, "thin"), (29, "some"))
# Of the normal distribution, for 95 %.
Z = Decimal("1.959963984540054")
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
    return {
        "eligibleCloses": len(eligible),
        "excluded": dict(
            sorted(Counter(close.excluded for close in closes if close.excluded).items())
        ),
        "daysCovered": min(COMPARED_DAYS, len({close.closed_at // DAY_MS for close in eligible})),
        "meanReturnPct": _round(sum(returns, Decimal(0)) / len(returns), 2) if returns else None,
        "medianReturnPct": _round(median(returns), 2) if returns else None,
        "winRate": _round(Decimal(wins) / len(eligible), 4) if eligible else None,
        "winRateInterval": wilson(wins, len(eligible)),
        "worstCloseReturnPct": _round(min(returns), 2) if returns else None,
        "costShare": cost_share(eligible),
        "sample": name_sample(len(eligible)),
    }


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


def wilson(wins: int, count: int) -> list[float] | None:
    """Return the 95 % Wilson score interval of a rate (Wilson 1927) as [low, high]; None without
    observations.
    """
    if not count:
        return None
    n, z2 = Decimal(count), Z * Z
    middle = (wins + z2 / 2) / (n + z2)
    spread = Z * (Decimal(wins) * (count - wins) / n + z2 / 4).sqrt() / (n + z2)
    return [
        _round(max(Decimal(0), middle - spread), 4),
        _round(min(Decimal(1), middle + spread), 4),
    ]


def _round(number: Decimal, digits: int) -> float:
    return float(round(number, digits))
