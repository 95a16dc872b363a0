"""The scout's rules for quotes, snapshots and tokens. Pure; times and durations are ms."""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeVar

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
# A price is absurd if it is this many times the previous one, or that fraction of it.
MAX_JUMP = 20
# A discovery stays tracked for this long, regardless of its volume.
PROBATION_MS = 15 * MINUTE_MS


class Retention(NamedTuple):
    """How long to keep the first snapshot of each interval."""

    age_ms: int
    interval_ms: int


# All other snapshots are kept for the shortest time.
SHORTEST_MS = 30 * MINUTE_MS
KEPT_ON_PROBATION = (Retention(2 * HOUR_MS, MINUTE_MS),)
KEPT = (Retention(30 * DAY_MS, HOUR_MS), Retention(DAY_MS, 5 * MINUTE_MS), *KEPT_ON_PROBATION)


class Priced(Protocol):
    """A quote, or a token with its latest one. Prices are exact decimal text."""

    @property
    def price_sol(self) -> str | None:
        """Return SOL for one token, as decimal text."""

    @property
    def price_usd(self) -> str | None:
        """US dollars for one token, as decimal text."""


class Located(Protocol):
    """A quote, or a token with its latest one, in the pool at an address."""

    @property
    def mint(self) -> str:
        """Address of the mint."""

    @property
    def price_sol(self) -> str | None:
        """Return SOL for one token, as decimal text."""

    @property
    def pair(self) -> str | None:
        """Address of the pool."""


class Tracked(Protocol):
    """The columns that decide whether a token stays tracked."""

    id: int
    held: bool
    tracked_at: int
    volume24h_usd: str | None


Row = TypeVar("Row", bound=Tracked)


def mark_absurd(quote: Priced, before: Priced) -> str | None:
    """Return why a price is implausible: `not_positive`, `jump` or None.

    `before`: the previous quote.
    """
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
    """A price fall beyond the limit, in the pool at `pair`. `before`: SOL per token at the previous
    quote, as exact decimal text.
    """

    mint: str
    pair: str
    before: str


class FallCheck(NamedTuple):
    """A second provider's view of a fall: the price in SOL before (first provider) and now (second
    provider). Without a price, it is None and there is a reason.
    """

    before: str
    price_sol: str | None
    problem: str | None


def find_fall(quote: Located, before: Located) -> Fall | None:
    """Return how far a token's price fell in one pool since its last quote, or None if it didn't
    fall or the pool changed.
    """
    if not quote.price_sol or not before.price_sol or not quote.pair:
        return None
    now, then = Decimal(quote.price_sol), Decimal(before.price_sol)
    if quote.pair != before.pair or not 0 < now * MAX_JUMP < then:
        return None
    return Fall(quote.mint, quote.pair, before.price_sol)


def keep_until(taken_at: int, before: int | None, tracked_at: int) -> int:
    """Return when a snapshot expires: the first of an hour after 30 days, the first of five minutes
    after one day, the first of a minute after two hours, all others after half an hour (held tokens
    are priced every six seconds).

    A token on probation has no long history: most discoveries don't survive it. `before`: the time
    of its previous quote, or None.
    """

    def is_first_of(interval: int) -> bool:
        return before is None or before // interval != taken_at // interval

    kept = KEPT_ON_PROBATION if taken_at - tracked_at < PROBATION_MS else KEPT
    return taken_at + next((age for age, interval in kept if is_first_of(interval)), SHORTEST_MS)


def choose_dropped(tokens: Iterable[Row], now_ms: int, capacity: int) -> list[Row]:
    """Return the tokens to stop tracking so that `capacity` remain.

    Tokens in open paper positions stay first, then those on probation, then those with the highest
    volume.
    """

    def worth(token: Row) -> tuple[bool, bool, Decimal, int]:
        return (
            token.held,
            now_ms - token.tracked_at < PROBATION_MS,
            Decimal(token.volume24h_usd or 0),
            token.id,
        )

    return [token for token in sorted(tokens, key=worth, reverse=True)[capacity:] if not token.held]
