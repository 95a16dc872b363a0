"""Simulate a follower right behind a bot, to see whether copying would have worked. Pure. All
amounts are integers.

The follower trades with the same pools. It spends the same amount after each of the bot's purchases
and sells its share after each of the bot's sales, without delay and without other trades in
between. The result depends on what happens to its SOL in the pool, so there are two cases. In the
best case, the SOL stays until the follower sells. In the worst case, others took it out first, so
the pool is as observed.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.ledger.inventory import share
from chain.reading.pools import ONE, PoolReading, State
from paper.fills import add_raw, buy, sell, shift

MODEL = "copy/1"
# The follower's sizes, in lamports per purchase.
SIZES = (10**8, 10**9, 10**10)
SHOWN_SIZE = 10**9
# The lamports assumed if another account paid the fee: the median of recorded swaps (paper.fills).
NETWORK_COST = 25_000
# Below these numbers, a return isn't shown.
MIN_SALES, MIN_TOKENS, MIN_COVERED_PERCENT = 10, 3, 50


# ---- a bot's trades ------------------------------------------------------------------------------
class CopiedTrade(NamedTuple):
    """A bot's purchase or sale for SOL.

    `raw` are the units bought, `proceeds` the lamports of a sale, and `network` its fee and tip.
    `pool` is the pool's reading, or the reason if there isn't one. `slices` are a sale's ((id of
    the purchase or None, raw units, cost or None), ...), first in, first out.
    """

    id: str
    mint: str
    is_buy: bool
    raw: int
    proceeds: int
    network: int
    pool: PoolReading | str
    slices: tuple[tuple[str | None, int, int | None], ...] = ()


@dataclass(slots=True)
class _Lot:
    """The follower's holdings from one purchase. `bot` are the raw units that the bot still has of
    it.
    """

    bot: int
    raw: int
    spent: int
    pool: str

    def take(self, amount: int) -> tuple[int, int]:
        """Remove the share for this many of the bot's units. Return (raw units, lamports spent).

        The last removal gets the remainder.
        """
        raw, spent = self.raw, self.spent
        if amount < self.bot:
            raw = raw * amount // self.bot
            # If a sale is less than one unit, its cost stays with the remaining units.
            spent = spent * raw // self.raw
        self.bot, self.raw, self.spent = (
            max(0, self.bot - amount),
            self.raw - raw,
            self.spent - spent,
        )
        return raw, spent


@dataclass
class _Part:
    """A follower's part of one sale.

    `at_bot` is the amount that `spent` would have returned at the bot's prices. `cost` is the bot's
    cost of the same slices.
    """

    raw: int = 0
    spent: int = 0
    at_bot: int = 0
    cost: int = 0
    # Pairs (raw units, the pool in which they were bought).
    gone: list[tuple[int, str]] = field(default_factory=list)


class Outcome(NamedTuple):
    lamports: int | None
    reason: str | None


class Follower:
    """A follower with `size` lamports per purchase.

    `stays` means that its SOL stays in the pool until it sells (the best case).
    """

    def __init__(self, size: int, stays: bool) -> None:
        self.size, self.stays = size, stays
        self.spent = self.received = self.at_bot = self.cost = self.all_cost = 0
        self.sales = self.used = 0
        self.gains: Counter[str] = Counter()
        self.excluded: Counter[str] = Counter()
        self._lots: dict[str, _Lot] = {}
        self._unread: dict[str, str] = {}
        # The lamports in addition to the observed ones, and the units that the follower has, by
        # pool.
        self._more: defaultdict[str, int] = defaultdict(int)
        self._held: defaultdict[str, int] = defaultdict(int)

    def follow(self, trade: CopiedTrade) -> Outcome:
        return self._buy(trade) if trade.is_buy else self._sell(trade)

    def _buy(self, trade: CopiedTrade) -> Outcome:
        pool = trade.pool
        if isinstance(pool, str):
            return self._miss(trade, pool)
        state = shift(pool.after, self._more[pool.pool], "buy") if self.stays else pool.after
        got = buy(pool, state, self.size)
        if got is None:
            return self._miss(trade, "nothing_left_to_buy")
        self._lots[trade.id] = _Lot(trade.raw, got.raw, self.size + trade.network, pool.pool)
        self._more[pool.pool] += got.net
        self._held[pool.pool] += got.raw
        return Outcome(None, None)

    def _miss(self, trade: CopiedTrade, reason: str) -> Outcome:
        self._unread[trade.id] = reason
        return Outcome(None, reason)

    def _sell(self, trade: CopiedTrade) -> Outcome:
        self.sales += 1
        pool, reasons = trade.pool, Counter[str]()
        part = self._cut(trade, reasons)
        self.excluded += reasons
        state = None if isinstance(pool, str) else self._see_sale(pool)
        for raw, bought_in in part.gone:
            self._let_go(raw, bought_in)
        if isinstance(pool, str) or state is None or not part.raw:
            return Outcome(None, next(iter(reasons), "not_a_purchase"))
        sold = sell(pool, state, part.raw)
        if self._held[pool.pool]:
            self._more[pool.pool] = state.sol - sold.left - pool.after.sol
        received = sold.received - trade.network
        self.used += 1
        self.spent += part.spent
        self.received += received
        self.at_bot += part.at_bot
        self.cost += part.cost
        self.gains[trade.mint] += received - part.spent
        return Outcome(received, None)

    def _cut(self, trade: CopiedTrade, reasons: Counter[str]) -> _Part:
        part = _Part()
        proceeds = share(trade.proceeds, [amount for _, amount, _ in trade.slices])
        for (origin, amount, cost), got in zip(trade.slices, proceeds, strict=True):
            if cost is None:
                reasons["unknown_cost"] += 1
                continue
            self.all_cost += cost
            lot = self._lots.get(origin or "")
            if lot is None:
                reasons[self._unread.get(origin or "", "not_a_purchase")] += 1
                continue
            raw, spent = lot.take(amount)
            part.gone.append((raw, lot.pool))
            if not lot.bot:
                del self._lots[origin or ""]
            if isinstance(trade.pool, str):
                reasons[trade.pool] += 1
                continue
            if not raw:
                reasons["too_small"] += 1
                continue
            part.raw, part.spent, part.cost = part.raw + raw, part.spent + spent, part.cost + cost
            part.at_bot += spent * got // cost if cost else spent
        return part

    def _see_sale(self, pool: PoolReading) -> State:
        """Return the pool after the bot's sale. The bot sells first, so it receives the follower's
        SOL.
        """
        more = self._more[pool.pool]
        if not self.stays or not more:
            return pool.after
        return add_raw(shift(pool.before, more, "sell"), pool.after.raw - pool.before.raw)

    def _let_go(self, raw: int, pool: str) -> None:
        self._held[pool] -= raw
        if not self._held[pool]:
            self._more[pool] = 0

    # ---- results ---------------------------------------------------------------------------------
    @property
    def return_bps(self) -> int | None:
        return (self.received - self.spent) * ONE // self.spent if self.spent else None

    @property
    def bot_bps(self) -> int | None:
        """Return the bot's return, with each purchase counted as the same size."""
        return (self.at_bot - self.spent) * ONE // self.spent if self.spent else None

    @property
    def kept_percent(self) -> int | None:
        """Return the follower's share of the bot's gain as a percentage, or None if the bot gained
        nothing.
        """
        gain = self.at_bot - self.spent
        return (self.received - self.spent) * 100 // gain if gain > 0 else None

    @property
    def covered_percent(self) -> int:
        return self.cost * 100 // self.all_cost if self.all_cost else 0

    @property
    def top_token_percent(self) -> int | None:
        gains = [gain for gain in self.gains.values() if gain > 0]
        return max(gains) * 100 // sum(gains) if gains else None

    @property
    def missing(self) -> str | None:
        if self.used < MIN_SALES:
            return "too_few_sales"
        if len(self.gains) < MIN_TOKENS:
            return "too_few_tokens"
        return "not_representative" if self.covered_percent < MIN_COVERED_PERCENT else None


class Followers:
    """Followers of all sizes in both cases. They see a bot's trades once, in order."""

    def __init__(self) -> None:
        self.best = {size: Follower(size, stays=True) for size in SIZES}
        self.worst = {size: Follower(size, stays=False) for size in SIZES}

    def follow(self, trade: CopiedTrade) -> Outcome:
        """Follow a trade, and return the best-case outcome of SHOWN_SIZE."""
        for one in self.worst.values():
            one.follow(trade)
        outcomes = {size: one.follow(trade) for size, one in self.best.items()}
        return outcomes[SHOWN_SIZE]
