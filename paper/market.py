"""The simulation's view of the market: tokens, snapshots, and whether they are plausible. Pure.

Times are UTC milliseconds. A price is SOL per whole token times 10**24, rounded down (providers
write at most 18 decimals). `reserve` is the pool's SOL reserve in lamports. USD amounts are in
cents.
"""

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from chain.amounts import exact
from chain.reading.pools import PoolReading, unpack_pool

PRICE_DECIMALS = 24
SCALE = 10**PRICE_DECIMALS
LAMPORTS = 10**9
# Maximum number of usable snapshots kept per token for strategies.
WINDOW = 14
# In scout intervals. Older snapshots aren't shown, so that a return over N snapshots can't span a
# night.
WINDOW_INTERVALS = 28
# Scout intervals for which a held token may lack a usable price.
MISSING_INTERVALS = 3
# Without a snapshot of any token for this long, the scout counts as paused.
SILENCE_MS = 60_000
# The largest factor by which a price may rise or fall between adjacent snapshots.
JUMP_BOUND = 20
# Flaws with which a snapshot is still compared with the next one.
MOVES = ("price_jump", "price_fall", "pair_changed")
# Lamports; more than the total supply of SOL.
ALL_SOL = 6 * 10**8 * 10**9
# Liquidity or volume above this counts as unknown.
MAX_CENTS = 10**17
# If snapshots are further ahead of the clock, the clock was set back.
SKEW_MS = 60_000


class Check(NamedTuple):
    """A structural check of a mint. `status`: pass | warn | fail | unknown."""

    key: str
    status: str


@dataclass(frozen=True, slots=True)
class Token:
    mint: str
    symbol: str
    # None until the mint account is read.
    decimals: int | None = None
    pair_created_at: int | None = None
    discovered_at: int = 0
    checks: tuple[Check, ...] = ()
    transfer_fee_bps: int = 0

    def age_ms(self, now: int) -> int:
        return now - (self.discovered_at if self.pair_created_at is None else self.pair_created_at)

    def has_check(self, status: str) -> bool:
        return any(check.status == status for check in self.checks)


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: int
    mint: str
    at: int
    # None if the provider gave no price; 0 if it wasn't a finite positive number.
    price: int | None
    reserve: int | None = None
    # Both reserves, in USD cents.
    liquidity: int | None = None
    # In 24 hours, in USD cents.
    volume: int | None = None
    # In five minutes and in an hour, in USD cents.
    volume5m: int | None = None
    volume1h: int | None = None
    # The provider's ID of the exchange, and the first characters of the pool's address.
    venue: str | None = None
    pair: str | None = None
    # In lamports.
    market_cap: int | None = None
    sol_cents: int | None = None
    # If a held token's price fell sharply: the provider's previous price, and a second provider's
    # current price if it has one.
    fell_from: int | None = None
    second_price: int | None = None
    # Set if an observed transaction showed the pool and no price was cached.
    pool: PoolReading | None = None

    @property
    def is_confirmed(self) -> bool:
        before, second = self.fell_from or 0, self.second_price or 0
        return 0 < second * JUMP_BOUND < before

    @property
    def quote(self) -> tuple[int | None, int | None, int | None]:
        """The parts that change with each new quote, because providers don't send a time."""
        return self.price, self.liquidity, self.volume

    @property
    def known_price(self) -> int:
        """The price of a snapshot without a flaw."""
        assert self.price is not None
        return self.price


class CheckedSnapshot(NamedTuple):
    """A snapshot and its flaw, which is None if it is plausible (find_flaw)."""

    snapshot: Snapshot
    flaw: str | None


@dataclass(frozen=True, slots=True)
class Flow:
    """A purchase or sale by an observed wallet."""

    owner: int
    wallet: str
    # buy | sell
    side: str
    at: int
    # The ID of the first snapshot at which it was visible.
    first_snapshot: int = 0
    # The bot's public ID.
    bot: str = ""
    # The share of the wallet's holdings that a sale sold, in basis points.
    share_bps: int = 10_000


@dataclass(frozen=True, slots=True)
class View:
    """A strategy's view of a token: usable snapshots, oldest first, and observed trades."""

    token: Token
    window: tuple[Snapshot, ...]
    flows: tuple[Flow, ...] = ()

    @property
    def last(self) -> Snapshot:
        return self.window[-1]

    def list_before(self, count: int) -> tuple[Snapshot, ...]:
        return self.window[-1 - count : -1]


class SnapshotRow(NamedTuple):
    """A stored snapshot. `taken_at` is in ms. Prices and sums are decimal text, as stored."""

    id: int
    mint: str
    taken_at: int
    price_sol: str | None
    pool_sol: str | None
    liquidity_usd: str | None
    volume24h_usd: str | None
    volume5m_usd: str | None = None
    volume1h_usd: str | None = None
    venue: str | None = None
    pair: str | None = None
    market_cap_usd: str | None = None
    price_usd: str | None = None
    # JSON of market.rules.FallCheck.
    fall_check: str | None = None
    # JSON of chain.reading.pools.PoolReading.
    reserves: str | None = None


def parse_snapshot(row: SnapshotRow) -> Snapshot:
    price = _scaled(row.price_sol, SCALE, ALL_SOL * SCALE)
    usd = _scaled(row.price_usd, 100 * SCALE, MAX_CENTS * SCALE)
    sol_cents = usd // price if usd is not None and price else None
    cap = _scaled(row.market_cap_usd, 100, MAX_CENTS)
    fall = json.loads(row.fall_check) if row.fall_check else {}
    pool = unpack_pool(json.loads(row.reserves)) if row.reserves else None
    return Snapshot(
        row.id,
        row.mint,
        row.taken_at,
        None if row.price_sol is None else price or 0,
        _scaled(row.pool_sol, LAMPORTS, ALL_SOL),
        _scaled(row.liquidity_usd, 100, MAX_CENTS),
        _scaled(row.volume24h_usd, 100, MAX_CENTS),
        _scaled(row.volume5m_usd, 100, MAX_CENTS),
        _scaled(row.volume1h_usd, 100, MAX_CENTS),
        row.venue,
        row.pair,
        cap * LAMPORTS // sol_cents if cap is not None and sol_cents else None,
        sol_cents,
        _scaled(fall.get("before"), SCALE, ALL_SOL * SCALE),
        _scaled(fall.get("price_sol"), SCALE, ALL_SOL * SCALE),
        pool if isinstance(pool, PoolReading) else None,
    )


def _scaled(text: str | None, scale: int, maximum: int) -> int | None:
    """Parse decimal text as whole 1/scale, rounded down. None outside 0 to `maximum`."""
    try:
        # None raises TypeError.
        number = Decimal(text)  # type: ignore[arg-type]
    except (InvalidOperation, TypeError):
        return None
    if not number.is_finite() or number < 0 or number.adjusted() > 40:
        return None
    top, bottom = number.as_integer_ratio() if number.adjusted() > -60 else (0, 1)
    scaled = top * scale // bottom
    return scaled if scaled <= maximum else None


def value_of(raw: int, price: int, decimals: int) -> int:
    """Return lamports, rounded down."""
    value: int = raw * price * LAMPORTS // (10**decimals * SCALE)
    return value


def price_of(lamports: int, raw: int, decimals: int) -> int:
    price: int = lamports * 10**decimals * SCALE // (raw * LAMPORTS)
    return price


def find_flaw(before: Snapshot | None, snapshot: Snapshot, now: int, horizon_ms: int) -> str | None:
    """Return why a snapshot isn't plausible, or None.

    `before` is the token's last snapshot with a price, plausible or not. A fall is accepted if a
    second provider or the next snapshot confirms it; if that reverses it, it is a jump. Another
    pair is another market, so its first snapshot isn't compared.
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
