"""What a trader's closes have in common: patterns and lessons. Pure.

All of it describes the past and forecasts nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.amounts import sol
from paper.account import Close
from paper.diary import quote_symbol
from paper.guard import DAY_MS, LOOK_BACK_MS, MIN_CLOSES
from paper.market import percent
from paper.results import describe_rates

# Closes of one kind that are worth a sentence.
MIN_PATTERN = 3
LESSON_LIFE_MS = 7 * DAY_MS
# The key of all closes together, beside those by reason and by token.
ALL = "all"
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
    # Whether it is no lesson: it counts too few closes, or random entries show it, too.
    is_pattern: bool


def find_lessons(
    closes: Sequence[Close], now: int, control: Sequence[Close] | None = None
) -> list[Lesson]:
    """Return a lesson for each closing reason and each token with enough eligible closes in the
    look-back, sorted by key.

    control: closes of the trader's twin; None where nothing is compared.
    """
    random = None if control is None else _group(control, now)
    return [
        _lesson(key, group, now, random)
        for key, group in sorted(_group(closes, now).items())
        if len(group) >= MIN_PATTERN and key != ALL
    ]


def _group(closes: Sequence[Close], now: int) -> dict[str, list[Close]]:
    groups: defaultdict[str, list[Close]] = defaultdict(list)
    for close in closes:
        if close.excluded is None and close.closed_at > now - LOOK_BACK_MS:
            for key in (ALL, "reason " + close.reason, "token " + close.mint):
                groups[key].append(close)
    return groups


def _lesson(
    key: str, group: Sequence[Close], now: int, random: Mapping[str, list[Close]] | None
) -> Lesson:
    about = (
        f"closes in {quote_symbol(group[-1].symbol)}"
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
    evidence = describe_rates(group)
    if random is not None:
        evidence["randomEntry"] = _find_control(key, random)
    return Lesson(
        key,
        text,
        len(group),
        LOOK_BACK_MS,
        tuple(close.id for close in group),
        now,
        now + LESSON_LIFE_MS,
        evidence,
        len(group) < MIN_CLOSES or (random is not None and not is_apart(evidence)),
    )


def _find_control(key: str, random: Mapping[str, Sequence[Close]]) -> dict[str, Any]:
    """Return what a twin's closes of the same kind show; all of them where those are too few."""
    same = random.get(key, ())
    found = same if len(same) >= MIN_CLOSES else random.get(ALL, ())
    of = "the same kind" if found is same and same else "all"
    return {"of": of, **describe_rates(found)}


def is_apart(evidence: Mapping[str, Any]) -> bool:
    """Tell whether closes show what random entries don't: the interval of their mean return leaves
    out the mean of those, of which there are enough.
    """
    interval, random = evidence["meanReturnInterval"], evidence["randomEntry"]
    if interval is None or random["eligibleCloses"] < MIN_CLOSES:
        return False
    low, high = interval
    return not low <= random["meanReturnPct"] <= high


def find_new_lessons(
    closes: Sequence[Close],
    known: Mapping[str, int],
    now: int,
    control: Sequence[Close] | None = None,
) -> list[Lesson]:
    """Return the lessons, patterns apart, that are not in force already. `known`: {key:
    expires_at}; `control`: see find_lessons.
    """
    return [
        lesson
        for lesson in find_lessons(closes, now, control)
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
