"""What the simulation sees of the market: tokens, their snapshots, and whether a snapshot is
believable. Pure.

Units: times are UTC milliseconds; a price is SOL per whole token times 10**24, floored (providers
write at most 18 decimals); `reserve` is the SOL side of the pool in lamports; USD are cents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from chain.amounts import exact

# Of prices.
SCALE = 10**24
# In a SOL.
LAMPORTS = 10**9
# Usable snapshots of a token kept for the strategies,
WINDOW = 14
# ... none older than this many scout intervals: a return over N snapshots must not span a night.
WINDOW_INTERVALS = 28
# Scout intervals without a usable price, or without any snapshot, that open no review.
MISSING_INTERVALS = 3
# Without a snapshot of any token the scout pauses, however short its interval.
SILENCE_MS = 60_000
# The most that a price may rise or fall between neighboring snapshots, as a factor.
JUMP_BOUND = 20
# Flaws of a snapshot whose price the next one is compared with.
MOVES = ("price_jump", "price_fall", "pair_changed")
# In lamports: more than exists.
ALL_SOL = 6 * 10**8 * 10**9
# A liquidity or volume beyond it counts as unknown.
MAX_CENTS = 10**17
# A snapshot further ahead of our clock was not taken by it.
SKEW_MS = 60_000


class Check(NamedTuple):
    """A structural check of a mint. `status`: pass | warn | fail | unknown."""

    key: str
    status: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token that the scout tracks, or that somebody holds."""

    mint: str
    symbol: str
    # None until the mint account was read.
    decimals: int | None = None
    # When its pair was created, where the provider tells it.
    pair_created_at: int | None = None
    discovered_at: int = 0
    checks: tuple[Check, ...] = ()
    # Basis points that the token itself keeps of every transfer.
    transfer_fee_bps: int = 0

    def age_ms(self, now: int) -> int:
        """Time since its pair was created, else since it was discovered."""
        return now - (self.discovered_at if self.pair_created_at is None else self.pair_created_at)

    def has_check(self, status: str) -> bool:
        """Tell whether one of its checks has this status."""
        return any(check.status == status for check in self.checks)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the scout saw of a token at a moment."""

    id: int
    mint: str
    at: int
    # None where the provider gave none, 0 where it gave no finite positive number.
    price: int | None
    # None where liquidity is unknown.
    reserve: int | None = None
    # Of both sides, in USD cents.
    liquidity: int | None = None
    # Of 24 hours, in USD cents.
    volume: int | None = None
    # Of the last five minutes and of the last hour, in USD cents.
    volume5m: int | None = None
    volume1h: int | None = None
    # The provider's id of the exchange; the first characters of the pool's address.
    venue: str | None = None
    pair: str | None = None
    # All of its tokens at this price, in lamports.
    market_cap: int | None = None
    # What a SOL costs, in USD cents.
    sol_cents: int | None = None
    # Where the price of a held token fell far: the one before, as the provider told it, and what a
    # second provider said at the same time, None where it told none.
    fell_from: int | None = None
    second_price: int | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether a second provider saw the same fall."""
        before, second = self.fell_from or 0, self.second_price or 0
        return 0 < second * JUMP_BOUND < before

    @property
    def quote(self) -> tuple[int | None, int | None, int | None]:
        """What changes with a new quote: providers send no time, so one with the same price,
        liquidity and volume is the same quote again.
        """
        return self.price, self.liquidity, self.volume

    @property
    def known_price(self) -> int:
        """The price of a snapshot that has one, as each without a flaw does."""
        assert self.price is not None
        return self.price


class CheckedSnapshot(NamedTuple):
    """A snapshot and its flaw, None where it is believable; see find_flaw."""

    snapshot: Snapshot
    flaw: str | None


@dataclass(frozen=True, slots=True)
class Flow:
    """A buy or sell by an observed wallet of this instance."""

    owner: int
    wallet: str
    # buy | sell
    side: str
    at: int
    # Id of the snapshot with which it could be seen first.
    first_snapshot: int = 0
    # Public id of its bot.
    bot: str = ""
    # Of a sale: how much of what the wallet held was sold, in basis points.
    share_bps: int = 10_000


class KnownSum(NamedTuple):
    """A sum of what is known, and of how many snapshots."""

    total: int
    known: int


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Sums over the snapshots of a window, whose `count` is how many there are."""

    count: int
    # The newest price, and the highest.
    last_price: int | None
    top_price: int | None
    price_sum: int
    price_square_sum: int
    # How many snapshots know a volume or a liquidity is counted beside the sums.
    volume5m: "KnownSum"
    volume1h: "KnownSum"
    liquidity_sum: int
    liquidity_count: int


def sum_window(snapshots: Sequence[Snapshot]) -> WindowSums:
    """Sum up snapshots of one token, oldest first, as strategies compare with."""
    prices = [one.known_price for one in snapshots]
    liquidities = [one.liquidity for one in snapshots if one.liquidity is not None]
    return WindowSums(
        len(prices),
        prices[-1] if prices else None,
        max(prices, default=None),
        sum(prices),
        sum(price * price for price in prices),
        _sum_known([one.volume5m for one in snapshots]),
        _sum_known([one.volume1h for one in snapshots]),
        sum(liquidities),
        len(liquidities),
    )


def _sum_known(volumes: Sequence[int | None]) -> KnownSum:
    known = [one for one in volumes if one is not None]
    return KnownSum(sum(known), len(known))


@dataclass(frozen=True, slots=True)
class View:
    """One token as a strategy sees it: its usable snapshots, oldest first, and what observed
    wallets did with it.
    """

    token: Token
    window: tuple[Snapshot, ...]
    flows: tuple[Flow, ...] = ()
    # By span.
    summed: dict[int, WindowSums] = field(default_factory=dict, init=False, compare=False)

    @property
    def last(self) -> Snapshot:
        """The newest snapshot of the token."""
        return self.window[-1]

    def sums(self, span: int) -> WindowSums:
        """Return the sums of the `span` snapshots before the last, fewer where there are no more.

        Computed once for all strategies that ask.
        """
        if span not in self.summed:
            self.summed[span] = sum_window(self.window[-1 - span : -1])
        return self.summed[span]


def parse_snapshot(
    ident: int,
    mint: str,
    at: int,
    price_sol: str | None,
    pool_sol: str | None,
    liquidity_usd: str | None,
    volume_usd: str | None,
    volume5m_usd: str | None = None,
    volume1h_usd: str | None = None,
    venue: str | None = None,
    pair: str | None = None,
    market_cap_usd: str | None = None,
    price_usd: str | None = None,
    fell_from_sol: str | None = None,
    second_price_sol: str | None = None,
) -> Snapshot:
    """Read a snapshot from the decimal texts (or None) that the scout stored. `pool_sol` is the SOL
    side of the pool; the last two are of a fall that a second provider was asked about.
    """
    sol_cents = _divide(_scaled(price_usd, 100 * SCALE, MAX_CENTS * SCALE), price_sol)
    cap = _scaled(market_cap_usd, 100, MAX_CENTS)
    return Snapshot(
        ident,
        mint,
        at,
        None if price_sol is None else _scaled(price_sol, SCALE, ALL_SOL * SCALE) or 0,
        _scaled(pool_sol, LAMPORTS, ALL_SOL),
        _scaled(liquidity_usd, 100, MAX_CENTS),
        _scaled(volume_usd, 100, MAX_CENTS),
        _scaled(volume5m_usd, 100, MAX_CENTS),
        _scaled(volume1h_usd, 100, MAX_CENTS),
        venue,
        pair,
        cap * LAMPORTS // sol_cents if cap is not None and sol_cents else None,
        sol_cents,
        _scaled(fell_from_sol, SCALE, ALL_SOL * SCALE),
        _scaled(second_price_sol, SCALE, ALL_SOL * SCALE),
    )


def _divide(cents: int | None, price_sol: str | None) -> int | None:
    """Return a price in USD cents (times SCALE) by the same one in SOL; None without either."""
    price = _scaled(price_sol, SCALE, ALL_SOL * SCALE)
    return cents // price if cents is not None and price else None


def _scaled(text: str | None, scale: int, maximum: int) -> int | None:
    """Read a decimal text as a whole number of 1/scale, floored; None for any other text, and for
    what is negative, not finite or beyond `maximum`.
    """
    try:
        # None is a TypeError here.
        number = Decimal(text)  # type: ignore[arg-type]
    except (InvalidOperation, TypeError):
        return None
    if not number.is_finite() or number < 0 or number.adjusted() > 40:
        return None
    top, bottom = number.as_integer_ratio() if number.adjusted() > -60 else (0, 1)
    scaled = top * scale // bottom
    return scaled if scaled <= maximum else None


def value_of(raw: int, price: int, decimals: int) -> int:
    """Return the lamports that `raw` units are worth at a price, floored."""
    value: int = raw * price * LAMPORTS // (10**decimals * SCALE)
    return value


def price_of(lamports: int, raw: int, decimals: int) -> int:
    """Return the price at which `raw` units are worth so many lamports."""
    price: int = lamports * 10**decimals * SCALE // (raw * LAMPORTS)
    return price


def find_flaw(before: Snapshot | None, snapshot: Snapshot, now: int, horizon_ms: int) -> str | None:
    """Return why a snapshot is not believable, or None. `before` is the token's last one that had a
    price, believable or not.

    A fall is believed where a second provider saw it, too, else once the next snapshot confirms it;
    if that takes it back, it is a jump. Another pair is another market: the snapshot that brings it
    is not compared with the last.
    """
    if snapshot.at > now + SKEW_MS or (before and snapshot.at < before.at):
        return "clock_skew"
    if snapshot.price is None:
        return "missing_price"
    if snapshot.price <= 0:
        return "non_positive_price"
    if before is None or before.price is None or snapshot.at - before.at > horizon_ms:
        return None
    if before.pair and snapshot.pair and before.pair != snapshot.pair:
        return "pair_changed"
    if snapshot.price > before.price * JUMP_BOUND:
        return "price_jump"
    fell = snapshot.price * JUMP_BOUND < before.price
    return "price_fall" if fell and not snapshot.is_confirmed else None


def percent(part: int, whole: int) -> str:
    """Format 100 * part / whole with two decimals, cut toward zero."""
    hundredths = abs(part) * 10_000 // abs(whole)
    shown: str = exact(hundredths if (part < 0) == (whole < 0) else -hundredths, 2)
    return shown
