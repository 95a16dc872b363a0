"""Guarded Start and the adaptive pauses, which only reduce what a trader may do. Pure.

Guarded Start ends after enough activity, regardless of profit. A pause stops entries, never exits,
and no rule raises a limit above its base. Times are in ms, money in lamports, shares in basis
points.
"""

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from chain.amounts import sol
from paper.account import Close, cluster
from paper.fills import ONE

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
CLOSES_NEEDED, DAYS_NEEDED = 20, 14
# The share of the base size.
GUARDED_SIZE_BPS = 2_500
GUARDED_POSITIONS = 2
# Entries stop for the rest of the UTC day after losing this share of the day's first equity.
DAILY_LOSS_BPS = 500
# A drawdown of this share returns a trader to Guarded Start.
DRAWDOWN_LOCK_BPS = 2_000

# How far back rules look, and the longest pause.
LOOK_BACK_MS = 7 * DAY_MS
STOPS = ("stop", "trailing_stop", "liquidity_gone", "price_gone")
MIN_CLOSES = 8
# If results were coin flips, each rule may be triggered in one of ACCOUNTS accounts within thirty
# days. Rules check at most once in six hours, so one in ACCOUNTS * LOOKS checks may be wrong.
ACCOUNTS = 5
LOOK_MS = 6 * HOUR_MS
LOOKS = 30 * DAY_MS // LOOK_MS + 1
# 2 * log(2 * ACCOUNTS * LOOKS) is 14.2.
CHANCE_SQUARES = 15


def is_another_day(day: int, now: int) -> bool:
    """Return whether `now` (ms) is on another day than `day`, counted from 1970.

    The previous day counts as the same, so that a clock set back over midnight doesn't start a day
    twice.
    """
    return now // DAY_MS not in (day - 1, day)


@dataclass(frozen=True, slots=True)
class Phase:
    # guarded | standard
    name: str = "guarded"
    since: int = 0
    # Eligible closes since then.
    closes: int = 0
    # UTC days since then with a heartbeat.
    days: int = 0
    # The last such day, counted from 1970.
    last_day: int = -1

    def on_day(self, now: int) -> "Phase":
        if not is_another_day(self.last_day, now):
            return self
        return replace(self, days=self.days + 1, last_day=now // DAY_MS)

    @property
    def is_over(self) -> bool:
        return self.name == "guarded" and self.closes >= CLOSES_NEEDED and self.days >= DAYS_NEEDED


@dataclass(frozen=True, slots=True)
class Pause:
    """The temporary effect of an adaptive rule. In `observe` mode, it is only recorded (`applied`).

    `effect`: pause_family | pause_mint | half_size | long_cooldown.
    """

    id: str
    rule: str
    effect: str
    mint: str | None
    since: int
    until: int
    applied: bool
    n: int
    window_ms: int
    numbers: str

    def covers(self, mint: str, at: int) -> bool:
        return self.since <= at < self.until and self.mint in (None, mint)


@dataclass(frozen=True, slots=True)
class Rule:
    """An adaptive rule: what it counts over what time, its effect, and how long that lasts."""

    name: str
    effect: str
    look_back: int
    duration: int
    # Returns the count in words if it justifies a pause.
    count: Callable[[Sequence[Close]], str | None]
    by_mint: bool = False


def is_rare(hits: int, of: int) -> bool:
    """Return whether a fair coin shows `hits` or more heads in `of` throws rarely enough.

    This means that sum(comb(of, i) for i >= hits) / 2**of <= 1 / (ACCOUNTS * LOOKS).
    """
    tail = sum(math.comb(of, heads) for heads in range(hits, of + 1))
    return tail * ACCOUNTS * LOOKS <= 1 << of


def _count_losses(
    closes: Sequence[Close], reasons: Container[str] | None = None, how: str = ""
) -> str | None:
    """Return the number of losing clusters, in words, if a fair coin would rarely lose as many.

    With `reasons`, only clusters with such a close count. `how` is added to the words.
    """
    groups = cluster(closes)
    lost = sum(
        sum(close.net for close in group) < 0
        and (reasons is None or any(close.reason in reasons for close in group))
        for group in groups
    )
    words = f"{lost} of {len(groups)} separate closes lost{how}"
    return words if is_rare(lost, len(groups)) else None


def _drawdown(closes: Sequence[Close]) -> str | None:
    """Compare the drawdown of the running total with the mean cost of a position and with chance.

    If a coin flip decides whether each cluster wins or loses its amount, the drawdown reaches `a`
    with a probability of at most 2 * exp(-a**2 / (2 * the sum of the squared amounts)) (Levy's and
    Hoeffding's bounds). If a**2 is CHANCE_SQUARES times that sum, less than one check in ACCOUNTS *
    LOOKS is wrong.
    """
    total = top = squares = 0
    for group in cluster(closes):
        net = sum(close.net for close in group)
        total += net
        top = max(top, total)
        squares += net * net
    spent = sum(close.spent for close in closes) // len(closes)
    fall = top - total
    return (
        f"{sol(fall)} SOL below the peak of {len(closes)} closes"
        if fall * 2 >= spent and fall * fall >= CHANCE_SQUARES * squares > 0
        else None
    )


# A losing cluster counts only if a stop closed it: a trailing stop that won did its job.
_count_stops = partial(_count_losses, reasons=STOPS, how=" by a stop")
_count_in_mint = partial(_count_losses, how=" in this token")
RULES = (
    Rule("cool_down", "long_cooldown", DAY_MS, 12 * HOUR_MS, _count_losses),
    Rule("stop_cluster", "pause_family", DAY_MS, 6 * HOUR_MS, _count_stops),
    Rule("drawdown", "half_size", LOOK_BACK_MS, DAY_MS, _drawdown),
    Rule("poor_mint", "pause_mint", LOOK_BACK_MS, 3 * DAY_MS, _count_in_mint, by_mint=True),
)
COOLDOWN_FACTOR = 4


def is_first_within(closes: Sequence[Close], span_ms: int) -> bool:
    """Return whether the newest close is the first in its period of this length."""
    return len(closes) < 2 or closes[-2].closed_at // span_ms != closes[-1].closed_at // span_ms


def find_pauses(
    closes: Sequence[Close],
    pauses: Sequence[Pause],
    at: int,
    *,
    applied: bool,
    ident: Callable[[str], str],
) -> list[Pause]:
    """Return the new pauses that the newest of `closes` (oldest first) triggers.

    `ident(rule)` returns the ID. Rules check once per LOOK_MS, at its first close: checking at
    every close would eventually find a reason by chance.
    """
    newest, found = closes[-1], list[Pause]()
    if not is_first_within(closes, LOOK_MS):
        return found
    for rule in RULES:
        bucket = _list_counted(rule, closes, at)
        running = any(pause.rule == rule.name and pause.covers(newest.mint, at) for pause in pauses)
        numbers = rule.count(bucket) if len(bucket) >= MIN_CLOSES and not running else None
        if numbers:
            mint, ends = newest.mint if rule.by_mint else None, at + rule.duration
            counted = (len(bucket), rule.look_back, numbers)
            found.append(
                Pause(ident(rule.name), rule.name, rule.effect, mint, at, ends, applied, *counted)
            )
    return found


def _list_counted(rule: Rule, closes: Sequence[Close], at: int) -> list[Close]:
    return [
        close
        for close in closes
        if close.excluded is None
        and close.closed_at > at - rule.look_back
        and (not rule.by_mint or close.mint == closes[-1].mint)
    ]


def in_force(pauses: Iterable[Pause], effect: str, mint: str, at: int) -> bool:
    return any(
        pause.applied and pause.effect == effect and pause.covers(mint, at) for pause in pauses
    )


def size_for(base_bps: int, phase: Phase, pauses: Iterable[Pause], mint: str, at: int) -> int:
    size = base_bps * (GUARDED_SIZE_BPS if phase.name == "guarded" else ONE) // ONE
    return size // 2 if in_force(pauses, "half_size", mint, at) else size


def positions_for(base: int, phase: Phase) -> int:
    return min(base, GUARDED_POSITIONS) if phase.name == "guarded" else base


def cooldown_for(base_ms: int, pauses: Iterable[Pause], mint: str, at: int) -> int:
    return base_ms * COOLDOWN_FACTOR if in_force(pauses, "long_cooldown", mint, at) else base_ms


def lost_too_much(equity: int, day_equity: int, phase: Phase) -> bool:
    return phase.name == "guarded" and equity * ONE <= day_equity * (ONE - DAILY_LOSS_BPS)


def is_locked(equity: int, peak: int, phase: Phase) -> bool:
    return (
        phase.name == "standard" and peak > 0 and equity * ONE <= peak * (ONE - DRAWDOWN_LOCK_BPS)
    )
