"""Write a trader's diary in words, and find what its closes have in common: patterns, and lessons
that random entries don't show. Pure.

This doesn't forecast anything. Closes are grouped by what was known at entry, never by how they
ended, because stops lose by definition.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.amounts import sol
from paper import results
from paper.account import Close, cluster
from paper.market import percent
from paper.results import count_excluded, describe_rates, find_ratio, find_return
from paper.rules import DAY_MS, HOUR_MS, LOOK_BACK_MS, is_first_within

# ---- the diary -----------------------------------------------------------------------------------
# Facts that the voice doesn't get.
UNPOSTED_FACTS = {
    "code",
    "marks",
    "id",
    "ends",
    "key",
    "windowMs",
    "closeIds",
    "evidence",
    "expiresAt",
    "until",
    "n",
    "side",
    "slippageSol",
    "feesSol",
}
# Subkinds of lines that are posted.
NEWS = {"bought", "reduced", "closed", "begun", "lesson", "guarded", "standard", "under_review"}

TICKER = re.compile(r"[$#]?[^\W\d_][\w$-]*")
# Replaces a symbol if a whole trader is suspended.
EVERY_TRADE = "every trade"

# About positions that were opened while the pause would have applied and have closed since.
NOT_PREVENTED = "{n} positions opened during that time have closed, for a total of {resultSol} SOL."
LINES = {
    "decision buy": "Decided to buy {symbol} for {sol} SOL: {detail}.",
    "decision sell": "Decided to sell {amount} {symbol}: {detail}.",
    "fill bought": (
        "Bought {amount} {symbol} for {sol} SOL, fees {feesSol}, slippage {slippageSol}."
    ),
    "fill reduced": "Sold {amount} {symbol} for {sol} SOL, fees {feesSol}, slippage {slippageSol}.",
    "fill closed": "Closed {symbol} for {sol} SOL ({reason}): {resultSol} SOL net, {returnPct}%.",
    "fill failed": "An attempt to trade {symbol} failed and cost {feesSol} SOL.",
    "fill slipped": (
        "An attempt to trade {symbol} would have filled far worse than quoted, so it failed"
        " and cost {feesSol} SOL."
    ),
    "fill not_filled": "The order in {symbol} was not filled: {why}.",
    "refusal": "Refused {symbol}: {detail}.",
    "pause begun": "Paused ({rule}, {effect}): {numbers}; {n} closes counted.",
    "pause begun half_size": "Halved the size of entries ({rule}): {numbers}; {n} closes counted.",
    "pause begun long_cooldown": (
        "Quadrupled the cool-down after a close ({rule}): {numbers}; {n} closes counted."
    ),
    "pause observed": "Would have paused ({rule}, {effect}): {numbers}; {n} closes counted.",
    "pause ended": (
        "The pause ({rule}, {effect}) is over; {n} positions opened during it have closed, for a"
        " total of {resultSol} SOL."
    ),
    "pause would_have pause_family": (
        "The pause that was not applied ({rule}) would have stopped all entries; " + NOT_PREVENTED
    ),
    "pause would_have pause_mint": (
        "The pause that was not applied ({rule}) would have stopped entries in one token; in it, "
        + NOT_PREVENTED
    ),
    "pause would_have half_size": (
        "The pause that was not applied ({rule}) would have halved the size of entries;"
        " at full size, " + NOT_PREVENTED
    ),
    "pause would_have long_cooldown": (
        "The pause that was not applied ({rule}) would have quadrupled the cool-down after a"
        " close; " + NOT_PREVENTED
    ),
    "lesson lesson": "{text}",
    "review under_review": "Under review: {detail}.",
    "review cleared": "The review was cleared: {detail}.",
    "review upheld": "The review was upheld: {detail}.",
    "phase guarded": "Back to Guarded Start: {why}.",
    "phase standard": "Guarded Start is over: {why}.",
    "unreadable": "An entry whose details can't be read.",
    "phase reset": "A new account period begins: {why}.",
}


def quote_symbol(symbol: str) -> str:
    """Quote a token's name unless it is a plain word, so that it can't look like a fact."""
    is_plain = TICKER.fullmatch(symbol) and symbol.upper() != "SOL"
    return symbol if is_plain else f"“{re.sub('[“”]', '', symbol)}”"


def format_line(kind: str, facts: Mapping[str, Any]) -> str:
    """Return a diary line's sentence. If its facts are damaged, the sentence only says its kind."""
    try:
        return _line_of(kind, facts).format(
            **{name: _plain(name, value) for name, value in facts.items()}
        )
    except (KeyError, IndexError):
        return f"A {kind} whose details can't be read."


def _line_of(kind: str, facts: Mapping[str, Any]) -> str:
    what = f"{kind} {facts.get('what')}"
    keys = f"{what} {facts.get('effect')}", what, kind
    return next(LINES[key] for key in (*keys, "unreadable") if key in LINES)


def _plain(name: str, value: Any) -> Any:
    if name == "symbol" and isinstance(value, str) and value != EVERY_TRADE:
        return quote_symbol(value)
    return (
        value.replace("_", " ")
        if name in ("reason", "rule", "effect", "why") and isinstance(value, str)
        else value
    )


def find_news(kind: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a line's facts for the voice, or None if it isn't posted."""
    if facts.get("what") not in NEWS:
        return None
    posted = {name: value for name, value in facts.items() if name not in UNPOSTED_FACTS}
    return {**posted, "kind": "close" if facts["what"] == "closed" else kind}


# ---- lessons -------------------------------------------------------------------------------------
# Closes that make a pattern.
MIN_PATTERN = 3
# Lessons are looked for at the first close of each week, and last for a week.
LOOK_MS = LESSON_LIFE_MS = 7 * DAY_MS
# Per check, one account in a hundred gets a lesson by chance, for any number of keys. Over the five
# checks in thirty days, that is at most one in twenty.
MAX_CHANCE = 0.01
NOTE = "Descriptive. Coverage is not proof of profitability."
ALL = "all"
PART_MS = 6 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Lesson:
    key: str
    text: str
    n: int
    window_ms: int
    close_ids: tuple[str, ...]
    created_at: int
    expires_at: int
    # Its rates, each with its interval (paper.results.describe_rates).
    evidence: Mapping[str, Any]
    is_pattern: bool


def list_keys(close: Close) -> tuple[str, ...]:
    """Return a close's groups: all closes, its token, and the part of the UTC day of its entry."""
    part = close.opened_at % DAY_MS // PART_MS
    return ALL, f"token {close.mint}", f"hours {part}"


def find_lessons(
    closes: Sequence[Close], now: int, control: Sequence[Close] | None = None
) -> list[Lesson]:
    """Return what eligible closes have in common, sorted by key. `control`: the twins' closes."""
    groups, random = _group(closes, now), _group(control or (), now)
    tested = {
        key: chance
        for key, group in groups.items()
        if (chance := find_chance(group, random.get(key, ()))) is not None
    }
    return [
        # Correct for the number of keys.
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
    """Return how likely it is that the mean returns differ this much by chance, or None."""
    ours, theirs = (find_ratio(cluster(side), find_return) for side in (own, random))
    return results.find_chance(ours, theirs) if ours and theirs else None


def _describe(
    key: str, group: Sequence[Close], random: Sequence[Close], now: int, chance: float
) -> Lesson:
    net, spent = sum(close.net for close in group), sum(close.spent for close in group)
    won = sum(close.net > 0 for close in group)
    text = (
        f"Of {len(group)} {_name(key, group)} in {LOOK_BACK_MS // DAY_MS} days, {won} won; the"
        f" total was {sol(net)} SOL, {percent(net, spent)}% of the amount spent."
    )
    evidence = describe_rates(group) | {"randomEntry": describe_rates(random)}
    is_pattern = chance > MAX_CHANCE
    if not is_pattern:
        ours, theirs = evidence["meanReturnPct"], evidence["randomEntry"]["meanReturnPct"]
        text += f" The mean close made {ours}%, and the mean random entry {theirs}%."
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
    if not is_first_within(closes, LOOK_MS):
        return []
    return [one for one in find_lessons(closes, now, control) if not one.is_pattern]


def review_results(closes: Sequence[Close]) -> dict[str, Any]:
    """Sum a trader's eligible closes. Wins and net are None without any."""
    eligible = [close for close in closes if close.excluded is None]
    return {
        "closes": len(closes),
        "eligibleCloses": len(eligible),
        "excluded": count_excluded(closes),
        "wins": sum(close.net > 0 for close in eligible) if eligible else None,
        "netLamports": str(sum(close.net for close in eligible)) if eligible else None,
    }
