"""What a trader's closes have in common: patterns, and lessons that random entries don't teach.
Pure.

All of it describes the past and forecasts nothing. Closes are grouped by what was known at entry,
never by how they ended: stops lose by definition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.amounts import sol
from paper.account import Close, cluster
from paper.diary import quote_symbol
from paper.guard import DAY_MS, HOUR_MS, LOOK_BACK_MS, is_first_within
from paper.market import percent
from paper.results import compare_ratios, count_excluded, describe_rates, find_ratio, find_return

# Closes of one kind that are worth a sentence.
MIN_PATTERN = 3
# Lessons are looked for at the first close of each week and last a week.
LOOK_MS = LESSON_LIFE_MS = 7 * DAY_MS
# By chance alone, one account in a hundred gets a lesson at a look, regardless of the number of
# keys: at most one in twenty over the five looks of thirty days.
MAX_CHANCE = 0.01
NOTE = "Descriptive. Coverage is not proof of profitability."
ALL = "all"
PART_MS = 6 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Lesson:
    """A sentence about counted closes. A pattern is one that may be chance."""

    key: str
    text: str
    n: int
    window_ms: int
    close_ids: tuple[str, ...]
    created_at: int
    expires_at: int
    # Its rates, each with its interval; see paper.results.describe_rates.
    evidence: Mapping[str, Any]
    is_pattern: bool


def list_keys(close: Close) -> tuple[str, ...]:
    """Return the kinds that a close is of: all, its token, and the part of the UTC day it was
    entered in.
    """
    part = close.opened_at % DAY_MS // PART_MS
    return ALL, f"token {close.mint}", f"hours {part}"


def find_lessons(
    closes: Sequence[Close], now: int, control: Sequence[Close] | None = None
) -> list[Lesson]:
    """Return what the eligible closes of the look-back have in common by kind, sorted by key.

    control: closes of the trader's twins; None if there are none to compare with.
    """
    groups, random = _group(closes, now), _group(control or (), now)
    tested = {
        key: chance
        for key, group in groups.items()
        if (chance := find_chance(group, random.get(key, ()))) is not None
    }
    return [
        # The chance of any of the kinds that were looked at.
        _describe(key, group, random.get(key, ()), now, tested.get(key, 1.0) * max(1, len(tested)))
        for key, group in sorted(groups.items())
        if len(group) >= MIN_PATTERN
    ]


def _group(closes: Sequence[Close], now: int) -> dict[str, list[Close]]:
    groups: dict[str, list[Close]] = {}
    for close in closes:
        if close.excluded is None and close.closed_at > now - LOOK_BACK_MS:
            for key in list_keys(close):
                groups.setdefault(key, []).append(close)
    return groups


def find_chance(own: Sequence[Close], random: Sequence[Close]) -> float | None:
    """Return how likely chance alone puts the mean return of closes this far from that of random
    entries of the same kind; None for too few days or clusters on either side.
    """
    ours, theirs = (find_ratio(cluster(side), find_return) for side in (own, random))
    return compare_ratios(ours, theirs).chance if ours and theirs else None


def _describe(
    key: str, group: Sequence[Close], random: Sequence[Close], now: int, chance: float
) -> Lesson:
    net, spent = sum(close.net for close in group), sum(close.spent for close in group)
    won = sum(close.net > 0 for close in group)
    text = (
        f"Of {len(group)} {_name(key, group)} in {LOOK_BACK_MS // DAY_MS} days, {won} won; together"
        f" {sol(net)} SOL, {percent(net, spent)}% of what was spent."
    )
    evidence = describe_rates(group) | {"randomEntry": describe_rates(random)}
    is_pattern = chance > MAX_CHANCE
    if not is_pattern:
        ours, theirs = evidence["meanReturnPct"], evidence["randomEntry"]["meanReturnPct"]
        text += f" A close made {ours}% on average, one entered at random {theirs}%."
    ids = tuple(close.id for close in group)
    return Lesson(
        key, text, len(group), LOOK_BACK_MS, ids, now, now + LESSON_LIFE_MS, evidence, is_pattern
    )


def _name(key: str, group: Sequence[Close]) -> str:
    kind, _, which = key.partition(" ")
    if kind == "token":
        return f"closes in {quote_symbol(group[-1].symbol)}"
    if kind == "hours":
        first = int(which) * PART_MS // HOUR_MS
        return f"closes entered from {first:02}:00 to {first + PART_MS // HOUR_MS:02}:00 UTC"
    return "closes"


def find_new_lessons(
    closes: Sequence[Close], now: int, control: Sequence[Close] | None = None
) -> list[Lesson]:
    """Return the lessons of a week's look, patterns aside; see find_lessons."""
    if not is_first_within(closes, LOOK_MS):
        return []
    return [one for one in find_lessons(closes, now, control) if not one.is_pattern]


def review_results(closes: Sequence[Close]) -> dict[str, Any]:
    """Add up a trader's eligible closes; wins and net are None if there are none."""
    eligible = [close for close in closes if close.excluded is None]
    return {
        "closes": len(closes),
        "eligibleCloses": len(eligible),
        "excluded": count_excluded(closes),
        "wins": sum(close.net > 0 for close in eligible) if eligible else None,
        "netLamports": str(sum(close.net for close in eligible)) if eligible else None,
    }
