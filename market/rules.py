"""The scout's rules for quotes, snapshots and tokens. Pure. Times and durations are in ms."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
# A price is marked absurd if it is this many times the previous price, or this fraction of it.
MAX_JUMP = 20
# Track a discovery for at least this long, regardless of its volume.
PROBATION_MS = 15 * MINUTE_MS


class Retention(NamedTuple):
    """How long to keep the first snapshot of each interval."""

    age_ms: int
    interval_ms: int


# How long to keep all other snapshots.
SHORTEST_MS = 30 * MINUTE_MS
KEPT_ON_PROBATION = (Retention(2 * HOUR_MS, MINUTE_MS),)
KEPT = (Retention(30 * DAY_MS, HOUR_MS), Retention(DAY_MS, 5 * MINUTE_MS), *KEPT_ON_PROBATION)


# A quote, or a token with its latest quote. Prices are exact decimal text.
Quoted: TypeAlias = Any


def mark_absurd(quote: Quoted, before: Quoted) -> str | None:
    """Return why a price is implausible: `not_positive` or `jump`. `before`: the previous quote."""
    prices = [
        (Decimal(now), Decimal(then or 0))
        for now, then in ((quote.price_usd, before.price_usd), (quote.price_sol, before.price_sol))
        if now
    ]
    if any(now <= 0 for now, _ in prices):
        return "not_positive"
    if any(then > 0 and not then / MAX_JUMP <= now <= then * MAX_JUMP for now, then in prices):
        return "jump"
    return None


class Fall(NamedTuple):
    """A price that fell beyond the limit in the pool `pair`.

    `before` is the previous quote, in SOL per token, as exact decimal text.
    """

    mint: str
    pair: str
    before: str


class FallCheck(NamedTuple):
    """A second provider's view of a fall.

    It has the price in SOL before the fall, from the first provider, and the price now, from the
    second provider. If the second provider has no price, that is None, with the reason.
    """

    before: str
    price_sol: str | None
    problem: str | None


def find_fall(quote: Quoted, before: Quoted) -> Fall | None:
    """Return how far a token's price fell in one pool since its last quote, if it did."""
    if not quote.price_sol or not before.price_sol or not quote.pair:
        return None
    now, then = Decimal(quote.price_sol), Decimal(before.price_sol)
    if quote.pair != before.pair or not 0 < now * MAX_JUMP < then:
        return None
    return Fall(quote.mint, quote.pair, before.price_sol)


def keep_until(taken_at: int, before: int | None, tracked_at: int) -> int:
    """Return when a snapshot expires.

    The first snapshot in an hour is kept for 30 days, the first in five minutes for one day, the
    first in a minute for two hours, and all others for half an hour (held tokens are priced every
    six seconds). A token on probation doesn't get a long history, because most discoveries don't
    survive probation. `before` is the time of the token's previous quote, or None.
    """

    def is_first_of(interval: int) -> bool:
        return before is None or before // interval != taken_at // interval

    kept = KEPT_ON_PROBATION if taken_at - tracked_at < PROBATION_MS else KEPT
    return taken_at + next((age for age, interval in kept if is_first_of(interval)), SHORTEST_MS)


def choose_dropped(tokens: Iterable[Quoted], now_ms: int, capacity: int) -> list[Quoted]:
    """Return the tokens to stop tracking so that `capacity` remain.

    Tokens in open paper positions have priority, then tokens on probation, then those with the
    highest volume.
    """

    def worth(token: Quoted) -> tuple[bool, bool, Decimal, int]:
        return (
            token.held,
            now_ms - token.tracked_at < PROBATION_MS,
            Decimal(token.volume24h_usd or 0),
            token.id,
        )

    return [token for token in sorted(tokens, key=worth, reverse=True)[capacity:] if not token.held]
