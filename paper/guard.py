"""What only ever reduces: Guarded Start and the adaptive pauses. Pure; times are ms, money is
lamports, shares are basis points.

Guarded Start ends with evidence of volume, never of profit. A pause stops entries, never exits, and
nothing here lifts anything above its base.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paper.book import Close

ONE = 10_000
HOUR, DAY = 3_600_000, 86_400_000

CLOSES_NEEDED, DAYS_NEEDED = 20, 14
# of the base size
GUARDED_SIZE_BPS = 2_500
GUARDED_POSITIONS = 2
# of the day's first equity: no entries for the rest of the UTC day
DAILY_LOSS_BPS = 500
# under the highest equity: back to Guarded Start
DRAWDOWN_LOCK_BPS = 2_000

# nothing older is looked at, and no pause lasts longer
LOOK_BACK = 7 * DAY
STOPS = ("stop", "trailing_stop", "liquidity_gone", "price_gone")
# of the last MIN_CLOSES
STOPS_NEEDED = 5
# eligible closes in its bucket, below which no rule speaks
MIN_CLOSES = 8


@dataclass(frozen=True, slots=True)
class Phase:
    # guarded | standard
    name: str = "guarded"
    since: int = 0
    # eligible ones since then
    closes: int = 0
    # UTC days since then on which the engine had a heartbeat
    days: int = 0
    # the last such day, counted from 1970
    last_day: int = -1

    def on_day(self, now: int) -> "Phase":
        return (
            self
            if now // DAY == self.last_day
            else replace(self, days=self.days + 1, last_day=now // DAY)
        )

    @property
    def is_over(self) -> bool:
        return self.name == "guarded" and self.closes >= CLOSES_NEEDED and self.days >= DAYS_NEEDED


@dataclass(frozen=True, slots=True)
class Pause:
    """`effect`: pause_family | pause_mint | half_size | long_cooldown. In `observe` it is not
    applied.
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
    # what the rule counted, in words
    numbers: str

    def covers(self, mint: str, at: int) -> bool:
        return self.since <= at < self.until and self.mint in (None, mint)


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    effect: str
    look_back: int
    minimum: int
    duration: int
    # closes -> the numbers that speak for it, in words, or None
    count: Callable[[Sequence["Close"]], str | None]
    by_mint: bool = False


def _losing_streak(closes: Sequence["Close"]) -> str | None:
    lost = sum(close.net < 0 for close in closes)
    return (
        f"{lost} of {len(closes)} closes lost"
        if closes[-1].net < 0 and lost * 10 >= len(closes) * 6
        else None
    )


def _stop_cluster(closes: Sequence["Close"]) -> str | None:
    """A trailing stop that won did what it is for; only stops that lost are counted."""
    stops = sum(close.net < 0 and close.reason in STOPS for close in closes[-MIN_CLOSES:])
    return (
        f"{stops} of the last {MIN_CLOSES} closes were stops that lost"
        if stops >= STOPS_NEEDED
        else None
    )


def _drawdown(closes: Sequence["Close"]) -> str | None:
    """The fall of the running total from its highest point, against the lamports spent on an
    average position.
    """
    total = top = 0
    for close in closes:
        total += close.net
        top = max(top, total)
    spent = sum(close.spent for close in closes) // len(closes)
    return (
        f"{top - total} lamports under the best of {len(closes)} closes"
        if (top - total) * 2 >= spent
        else None
    )


def _poor_mint(closes: Sequence["Close"]) -> str | None:
    won = sum(close.net > 0 for close in closes)
    return (
        f"{won} of {len(closes)} closes in this token won"
        if sum(close.net for close in closes) < 0 and won * 10 < len(closes) * 3
        else None
    )


RULES = (
    Rule("cool_down", "long_cooldown", DAY, MIN_CLOSES, 12 * HOUR, _losing_streak),
    Rule("stop_cluster", "pause_family", DAY, MIN_CLOSES, 6 * HOUR, _stop_cluster),
    Rule("drawdown", "half_size", LOOK_BACK, MIN_CLOSES, DAY, _drawdown),
    Rule("poor_mint", "pause_mint", LOOK_BACK, MIN_CLOSES, 3 * DAY, _poor_mint, by_mint=True),
)
COOLDOWN_FACTOR = 4


def find_pauses(
    closes: Sequence["Close"],
    pauses: Sequence[Pause],
    at: int,
    *,
    applied: bool,
    ident: Callable[[str], str],
) -> list[Pause]:
    """The pauses that the newest of `closes` (oldest first) gives reason to, beside those in force.
    `ident(rule)` names a new one.
    """
    newest, found = closes[-1], []
    for rule in RULES:
        bucket = [
            close
            for close in closes
            if close.excluded is None
            and close.closed_at > at - rule.look_back
            and (not rule.by_mint or close.mint == newest.mint)
        ]
        running = any(pause.rule == rule.name and pause.covers(newest.mint, at) for pause in pauses)
        numbers = rule.count(bucket) if len(bucket) >= rule.minimum and not running else None
        if numbers:
            found.append(
                Pause(
                    ident(rule.name),
                    rule.name,
                    rule.effect,
                    newest.mint if rule.by_mint else None,
                    at,
                    at + rule.duration,
                    applied,
                    len(bucket),
                    rule.look_back,
                    numbers,
                )
            )
    return found


def in_force(pauses: Iterable[Pause], effect: str, mint: str, at: int) -> bool:
    return any(
        pause.applied and pause.effect == effect and pause.covers(mint, at) for pause in pauses
    )


def size_for(base_bps: int, phase: Phase, pauses: Iterable[Pause], mint: str, at: int) -> int:
    """Basis points of the equity for a position: the base, reduced."""
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


def look_back_on(pause: Pause, closes: Sequence["Close"]) -> list["Close"]:
    """How the entries that a pause covered, or would have covered, ended: the closes of positions
    opened in it.
    """
    return [close for close in closes if pause.covers(close.mint, close.opened_at)]
