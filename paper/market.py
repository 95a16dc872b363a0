"""What the simulation sees of the market: tokens, their snapshots, and whether a snapshot can be
believed.

Units: times are UTC milliseconds; a price is SOL per whole token times 10**24, floored there (what
a provider writes has at most 18 decimals; the rest of an exact decimal beyond 24 is given up);
`reserve` is the SOL side of the pool in lamports; USD are cents.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from chain.amounts import exact

# of prices
SCALE = 10**24
# in a SOL
LAMPORTS = 10**9
# usable snapshots of a token kept for the strategies
WINDOW = 14
# ... none older than this many scout intervals: a return over N snapshots is not one over a night's
# gap
WINDOW_INTERVALS = 28
# scout intervals without a usable price, or without any snapshot, that raise no question
MISSING_INTERVALS = 3
# without a snapshot of any token: a pause of the scout, however short its interval
SILENCE_MS = 60_000
# between neighbouring snapshots
JUMP_BOUND = 20
# lamports: more than there is
ALL_SOL = 6 * 10**8 * 10**9
# a liquidity or volume beyond it is no information
MAX_CENTS = 10**17
# a snapshot this far ahead of our clock was not taken by it
SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class Token:
    mint: str
    symbol: str
    # None until the mint account was read
    decimals: int | None = None
    # creation of its pair, where the provider tells it
    born_at: int | None = None
    discovered_at: int = 0
    # ((key, "pass" | "warn" | "fail" | "unknown"), ...)
    checks: tuple[tuple[str, str], ...] = ()

    def age(self, now: int) -> int:
        """ms since its pair was created, else since it was discovered."""
        return now - (self.discovered_at if self.born_at is None else self.born_at)

    def has(self, status: str) -> bool:
        return any(found == status for _, found in self.checks)


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: int
    mint: str
    at: int
    # None: the provider gave none; 0: what it gave is no finite positive number
    price: int | None
    # None: liquidity unknown
    reserve: int | None = None
    # both sides, USD cents
    liquidity: int | None = None
    # of 24 hours, USD cents
    volume: int | None = None

    @property
    def known_price(self) -> int:
        """The price of a snapshot that has one, as those without a flaw do."""
        assert self.price is not None
        return self.price


# a snapshot with its flaw, None where it can be believed; see find_flaw
Judged = tuple[Snapshot, str | None]


@dataclass(frozen=True, slots=True)
class Flow:
    """A buy or sell by an observed wallet of this instance."""

    owner: int
    wallet: str
    # buy | sell
    side: str
    at: int


@dataclass(frozen=True, slots=True)
class Past:
    """Snapshots in figures: sums, and how many of them know a volume or a liquidity."""

    count: int
    # price of the newest
    last: int | None
    # highest price
    top: int | None
    prices: int
    squares: int
    volume: int
    volumes: int
    liquidity: int
    liquidities: int


def count_past(snapshots: Sequence[Snapshot]) -> Past:
    prices = [one.known_price for one in snapshots]
    volumes = [one.volume for one in snapshots if one.volume is not None]
    liquidities = [one.liquidity for one in snapshots if one.liquidity is not None]
    return Past(
        len(prices),
        prices[-1] if prices else None,
        max(prices, default=None),
        sum(prices),
        sum(price * price for price in prices),
        sum(volumes),
        len(volumes),
        sum(liquidities),
        len(liquidities),
    )


@dataclass(frozen=True, slots=True)
class View:
    """One token as a strategy sees it: its usable snapshots, oldest first, and what observed
    wallets did with it.
    """

    token: Token
    window: tuple[Snapshot, ...]
    flows: tuple[Flow, ...] = ()
    # by span
    counted: dict[int, Past] = field(default_factory=dict, init=False, compare=False)

    @property
    def last(self) -> Snapshot:
        return self.window[-1]

    def past(self, span: int) -> Past:
        """The Past of the `span` snapshots before the last, fewer where there are no more; counted
        once for all who ask.
        """
        if span not in self.counted:
            self.counted[span] = count_past(self.window[-1 - span : -1])
        return self.counted[span]


def parse_snapshot(
    ident: int,
    mint: str,
    at: int,
    price_sol: str | None,
    pool_sol: str | None,
    liquidity_usd: str | None,
    volume_usd: str | None,
) -> Snapshot:
    """A Snapshot of decimal texts (or None) as the market cache keeps them; `pool_sol` is the SOL
    side of the pool.
    """
    return Snapshot(
        ident,
        mint,
        at,
        None if price_sol is None else _scaled(price_sol, SCALE, ALL_SOL * SCALE) or 0,
        _scaled(pool_sol, LAMPORTS, ALL_SOL),
        _scaled(liquidity_usd, 100, MAX_CENTS),
        _scaled(volume_usd, 100, MAX_CENTS),
    )


def _scaled(text: str | None, scale: int, maximum: int) -> int | None:
    """A decimal text as a whole number of 1/scale, floored; None where it is none, negative, not
    finite or beyond `maximum`.
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
    """Lamports of `raw` units at a price, floored."""
    value: int = raw * price * LAMPORTS // (10**decimals * SCALE)
    return value


def price_of(lamports: int, raw: int, decimals: int) -> int:
    """The price at which `raw` units are worth so many lamports."""
    price: int = lamports * 10**decimals * SCALE // (raw * LAMPORTS)
    return price


def find_flaw(before: Snapshot | None, snapshot: Snapshot, now: int, horizon_ms: int) -> str | None:
    """Why a snapshot can't be believed, or None: `before` is the last one that had a price,
    whatever was thought of it.
    """
    if snapshot.at > now + SKEW_MS or (before and snapshot.at < before.at):
        return "clock_skew"
    if snapshot.price is None:
        return "missing_price"
    if snapshot.price <= 0:
        return "non_positive_price"
    if (
        before
        and before.price is not None
        and snapshot.at - before.at <= horizon_ms
        and (
            snapshot.price > before.price * JUMP_BOUND or snapshot.price * JUMP_BOUND < before.price
        )
    ):
        return "price_jump"
    return None


class Market:
    """The recent past of every token. `push` takes the next snapshot in; `view` shows a token's
    usable window.

    `awake_since`: when the snapshots of all tokens together last began to come without a pause.
    What nobody took a snapshot of while the scout was silent is not missing.
    """

    def __init__(
        self,
        interval_ms: int,
        tokens: Iterable[Token] = (),
        flows: Mapping[str, tuple[Flow, ...]] | None = None,
    ) -> None:
        self.interval_ms, self.horizon_ms = interval_ms, WINDOW_INTERVALS * interval_ms
        self.windows: dict[str, tuple[Snapshot, ...]] = {}
        # by mint: the last snapshot that had a price
        self.before: dict[str, Snapshot] = {}
        self.awake_since = self.newest_at = 0
        self.follow(tokens, flows or {})

    def follow(self, tokens: Iterable[Token], flows: Mapping[str, tuple[Flow, ...]]) -> None:
        """Look at these tokens from now on, with what observed wallets did: {mint: tuple of Flow}.
        What is known of others is forgotten.
        """
        self.tokens, self.flows = {token.mint: token for token in tokens}, flows
        self.windows = {
            mint: window for mint, window in self.windows.items() if mint in self.tokens
        }
        self.before = {
            mint: snapshot for mint, snapshot in self.before.items() if mint in self.tokens
        }

    def copy(self) -> "Market":
        """A market that can be played without changing this one."""
        other = Market(self.interval_ms, self.tokens.values(), self.flows)
        other.windows, other.before = dict(self.windows), dict(self.before)
        other.awake_since, other.newest_at = self.awake_since, self.newest_at
        return other

    def push(self, snapshot: Snapshot, now: int) -> Judged:
        """(the snapshot, its flaw or None). Only a flawless one enters its token's window."""
        flaw = find_flaw(self.before.get(snapshot.mint), snapshot, now, self.horizon_ms)
        if flaw != "clock_skew":
            self._note_time(snapshot.at)
        if flaw in (None, "price_jump"):
            self.before[snapshot.mint] = snapshot
        if flaw is None:
            kept = [
                one
                for one in self.windows.get(snapshot.mint, ())[1 - WINDOW :]
                if one.at >= snapshot.at - self.horizon_ms
            ]
            self.windows[snapshot.mint] = (*kept, snapshot)
        return snapshot, flaw

    def _note_time(self, at: int) -> None:
        if at - self.newest_at > max(self.patience_ms, SILENCE_MS):
            self.awake_since = at
        self.newest_at = max(self.newest_at, at)

    @property
    def patience_ms(self) -> int:
        """How long a held token may be without a usable price before a review opens."""
        return MISSING_INTERVALS * self.interval_ms

    def view(self, mint: str) -> View:
        return View(self.tokens[mint], self.windows[mint], self.flows.get(mint, ()))


def percent(part: int, whole: int) -> str:
    """100 * part / whole with two decimals, cut toward zero, as display text."""
    hundredths = abs(part) * 10_000 // abs(whole)
    shown: str = exact(hundredths if (part < 0) == (whole < 0) else -hundredths, 2)
    return shown
