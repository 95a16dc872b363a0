"""What the scout decides of quotes, snapshots and tokens. Pure; times and spans are ms."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Protocol, TypeVar

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
# a factor between neighboring quotes; beyond it the newer one is marked absurd
JUMP = 20
# a discovery stays tracked for this long, whatever its volume
PROBATION = 15 * MINUTE


class Priced(Protocol):
    """A quote, or a token's row with its last one: decimal texts."""

    @property
    def price_sol(self) -> str | None: ...

    @property
    def price_usd(self) -> str | None: ...


class Tracked(Protocol):
    """A token's row as far as it decides whether it stays tracked."""

    id: int
    held: bool
    tracked_at: int
    volume24h_usd: str | None


Row = TypeVar("Row", bound=Tracked)


def mark_absurd(quote: Priced, before: Priced) -> str | None:
    """Why not to believe a price: `not_positive`, `jump` or None. The price itself is stored as it
    came. `before` has the prices of the last quote.
    """
    prices = [
        (Decimal(now), Decimal(then or 0))
        for now, then in ((quote.price_usd, before.price_usd), (quote.price_sol, before.price_sol))
        if now
    ]
    if any(now <= 0 for now, _ in prices):
        return "not_positive"
    if any(then > 0 and not then / JUMP <= now <= then * JUMP for now, then in prices):
        return "jump"
    return None


def keep_until(taken_at: int, before: int | None, tracked_at: int) -> int:
    """When a snapshot expires: the first of an hour after 30 days, the first of five minutes after
    one, any other after two hours.

    A token on probation leaves no long history behind: most discoveries do not outlive it.
    `before`: when its last quote was taken, or None.
    """

    def is_first_of(span: int) -> bool:
        return before is None or before // span != taken_at // span

    if taken_at - tracked_at < PROBATION:
        return taken_at + 2 * HOUR
    return taken_at + (
        30 * DAY if is_first_of(HOUR) else DAY if is_first_of(5 * MINUTE) else 2 * HOUR
    )


def choose_dropped(tokens: Iterable[Row], now_ms: int, capacity: int) -> list[Row]:
    """The tracked tokens that must go so that `capacity` are left: held ones stay, then those on
    probation, then those with the highest volume.
    """

    def worth(token: Row) -> tuple[bool, bool, Decimal, int]:
        return (
            token.held,
            now_ms - token.tracked_at < PROBATION,
            Decimal(token.volume24h_usd or 0),
            token.id,
        )

    return [token for token in sorted(tokens, key=worth, reverse=True)[capacity:] if not token.held]
