"""What a trader's closes have in common: patterns and lessons. Pure.

All of it describes the past and forecasts nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.amounts import sol
from paper.account import Close
from paper.guard import DAY_MS, LOOK_BACK_MS, MIN_CLOSES
from paper.market import percent
from paper.results import describe_rates

# Closes of one kind that are worth a sentence.
MIN_PATTERN = 3
LESSON_LIFE_MS = 7 * DAY_MS
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
    # Its rates, each with its interval; see paper.results.describe_rates.
    evidence: Mapping[str, Any]

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
        describe_rates(group),
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
