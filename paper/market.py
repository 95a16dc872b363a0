"""The market as the simulation sees it: tokens, snapshots, and whether they are plausible. Pure.

Units: times are UTC milliseconds; a price is SOL per whole token times 10**24, rounded down
(providers write at most 18 decimals); `reserve` is the pool's SOL reserve in lamports; USD amounts
are in cents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from chain.amounts import exact
from chain.reading.pools import PoolReading

PRICE_DECIMALS = 24
# Of prices.
SCALE = 10**PRICE_DECIMALS
# In a SOL.
LAMPORTS = 10**9
# Number of a token's usable snapshots kept for strategies,
WINDOW = 14
# ... none older than this many scout intervals: a return over N snapshots must not span a night.
WINDOW_INTERVALS = 28
# Scout intervals that a held token may lack a usable price.
MISSING_INTERVALS = 3
# After this long without a snapshot of any token, the scout counts as paused.
SILENCE_MS = 60_000
# The maximum factor by which a price may rise or fall between adjacent snapshots.
JUMP_BOUND = 20
# Flawed snapshots with one of these are still compared with the next one.
MOVES = ("price_jump", "price_fall", "pair_changed")
# In lamports, more than exists.
ALL_SOL = 6 * 10**8 * 10**9
# Liquidity or volume above this counts as unknown.
MAX_CENTS = 10**17
# Snapshots further ahead of the clock are a sign that it was set back.
SKEW_MS = 60_000


class Check(NamedTuple):
    """A structural check of a mint. `status`: pass | warn | fail | unknown."""

    key: str
    status: str


@dataclass(frozen=True, slots=True)
class Token:
    """A tracked or held token."""

    mint: str
    symbol: str
    # None until the mint account was read.
    decimals: int | None = None
    # When its pair was created, if the provider says.
    pair_created_at: int | None = None
    discovered_at: int = 0
    checks: tuple[Check, ...] = ()
    # The token's transfer fee.
    transfer_fee_bps: int = 0

    def age_ms(self, now: int) -> int:
        """Time since its pair was created, else since it was discovered."""
        return now - (self.discovered_at if self.pair_created_at is None else self.pair_created_at)

    def has_check(self, status: str) -> bool:
        return any(check.status == status for check in self.checks)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A token's price and pool at one time."""

    id: int
    mint: str
    at: int
    # None if the provider gave none, 0 if it wasn't a finite positive number.
    price: int | None
    # None if unknown.
    reserve: int | None = None
    # Total of both reserves, in USD cents.
    liquidity: int | None = None
    # Over 24 hours, in USD cents.
    volume: int | None = None
    # Over the last five minutes and the last hour, in USD cents.
    volume5m: int | None = None
    volume1h: int | None = None
    # The provider's id of the exchange; the first characters of the pool's address.
    venue: str | None = None
    pair: str | None = None
    # Market cap: all tokens at this price, in lamports.
    market_cap: int | None = None
    # The SOL price in USD cents.
    sol_cents: int | None = None
    # If the price of a held token fell sharply: the provider's previous price, and a second
    # provider's current price, if any.
    fell_from: int | None = None
    second_price: int | None = None
    # The pool itself, if an observed transaction showed it and no price was cached.
    pool: PoolReading | None = None

    @property
    def is_confirmed(self) -> bool:
        before, second = self.fell_from or 0, self.second_price or 0
        return 0 < second * JUMP_BOUND < before

    @property
    def quote(self) -> tuple[int | None, int | None, int | None]:
        """The parts of a quote that change with each new one. Providers send no time, so equal
        price, liquidity and volume are the same quote.
        """
        return self.price, self.liquidity, self.volume

    @property
    def known_price(self) -> int:
        """The price of a snapshot without a flaw."""
        assert self.price is not None
        return self.price


class CheckedSnapshot(NamedTuple):
    """A snapshot and its flaw, None if it is plausible; see find_flaw."""

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
    # Id of the first snapshot at which it was visible.
    first_snapshot: int = 0
    # Public id of its bot.
    bot: str = ""
    # For a sale: the sold share of the wallet's holdings, in basis points.
    share_bps: int = 10_000


class KnownSum(NamedTuple):
    """A sum of known values and their number."""

    total: int
    known: int


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Sums over a window of `count` snapshots."""

    count: int
    # The newest price, and the highest.
    last_price: int | None
    top_price: int | None
    price_sum: int
    price_square_sum: int
    # Each sum counts the snapshots that know the value.
    volume5m: "KnownSum"
    volume1h: "KnownSum"
    liquidity_sum: int
    liquidity_count: int


def sum_window(snapshots: Sequence[Snapshot]) -> WindowSums:
    """Sum up snapshots of one token, oldest first."""
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
        return self.window[-1]

    def sums(self, span: int) -> WindowSums:
        """Return the sums of up to `span` snapshots before the last, computed once for all
        strategies.
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
    pool: PoolReading | None = None,
) -> Snapshot:
    """Parse a stored snapshot's decimal texts (or None). `pool_sol` is the pool's SOL reserve;
    `fell_from_sol` and `second_price_sol` describe a fall that a second provider was asked about.
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
        pool,
    )


def _divide(cents: int | None, price_sol: str | None) -> int | None:
    """Return the SOL price in USD cents from a token's price in USD cents (times SCALE) and in SOL;
    None without either.
    """
    price = _scaled(price_sol, SCALE, ALL_SOL * SCALE)
    return cents // price if cents is not None and price else None


def _scaled(text: str | None, scale: int, maximum: int) -> int | None:
    """Parse a decimal text as a whole number of 1/scale, rounded down; None if it isn't a finite
    number from 0 to `maximum`.
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
    """Return the value of `raw` units at a price in lamports, rounded down."""
    value: int = raw * price * LAMPORTS // (10**decimals * SCALE)
    return value


def price_of(lamports: int, raw: int, decimals: int) -> int:
    """Return the price at which `raw` units are worth this many lamports."""
    price: int = lamports * 10**decimals * SCALE // (raw * LAMPORTS)
    return price


def find_flaw(before: Snapshot | None, snapshot: Snapshot, now: int, horizon_ms: int) -> str | None:
    """Return why a snapshot isn't plausible, or None. `before`: the token's last snapshot with a
    price, plausible or not.

    A fall is accepted if a second provider or the next snapshot confirms it; if the next snapshot
    reverses it, it is a jump. Another pair is another market, so its first snapshot isn't compared.
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
    """Format 100 * part / whole with two decimals, rounded toward zero."""
    hundredths = abs(part) * 10_000 // abs(whole)
    shown: str = exact(hundredths if (part < 0) == (whole < 0) else -hundredths, 2)
    return shown
