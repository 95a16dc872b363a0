"""The story that is recorded: four bots trading for twelve days and, while somebody looks, for two
and a half hours more. Pure and seeded.

`plan` gives the steps in their order; what each does on the chain is record.py's. Prices are the
invented market's at that moment, so that the results come out as they come out: nobody is made to
win.
"""

import random
from dataclasses import dataclass

from demo.market import BY_SYMBOL, price

SEED = "candor/1"
# Seconds of the demonstration.
BEGINS, ENDS = -12 * 86_400, 9_000
# From here on the bots are as busy as while somebody looks.
AWAKE = -3_000
# Basis points the maker takes.
SPREAD = 40
LAMPORTS = 10**9


@dataclass(frozen=True)
class Step:
    """One transaction. `raw` are units of `symbol`, `lamports` what is paid or received; `other`,
    `other_raw`: what a swap gives for it.
    """

    at: int
    who: int
    kind: str
    symbol: str | None = None
    raw: int = 0
    lamports: int = 0
    other: str | None = None
    other_raw: int = 0
    # Priority fee, micro-lamports a compute unit.
    hurry: int = 0
    # Lamports
    tip: int = 0


@dataclass(frozen=True)
class Temper:
    """How a bot trades. `gap`: mean seconds between its doings, asleep and awake; sizes in SOL."""

    name: str
    likes: tuple
    gap: tuple
    size: tuple
    # kind -> weight.
    habits: dict
    # It sells below this part of what it paid ...
    stop: float
    # ... and above this.
    take: float
    # Does it buy what rises, or what fell?
    trend: bool


TEMPERS = (
    Temper(
        "Nell",
        ("FERN", "MOTH", "EMBER", "PLUM"),
        (11_000, 35),
        (0.4, 2.2),
        {"trade": 90, "failed": 3, "gift": 2, "pay": 2, "close": 3},
        0.93,
        1.12,
        True,
    ),
    Temper(
        "Otto",
        ("KELP", "TARN", "FERN"),
        (21_000, 80),
        (3.0, 9.0),
        {"trade": 70, "swap": 18, "send": 4, "gift": 3, "wrap": 3, "pay": 2},
        0.85,
        1.25,
        False,
    ),
    Temper(
        "Pia",
        ("MOTH", "EMBER", "RUST", "WICK"),
        (9_000, 30),
        (0.2, 1.4),
        {"trade": 74, "failed": 18, "swap": 3, "close": 3, "pay": 2},
        0.97,
        1.05,
        True,
    ),
    Temper(
        "Quincy",
        ("FERN", "KELP", "PLUM", "TARN"),
        (16_000, 60),
        (1.0, 4.0),
        {"trade": 76, "swap": 6, "gift": 10, "send": 4, "pay": 4},
        0.9,
        1.18,
        False,
    ),
)
# Traded before the recording begins: what it held then has no known cost.
OLD_HAND = 3
INVENTORY = {"KELP": 2_500 * 10**9, "PLUM": 180_000 * 10**6}


class Purse:
    """What a bot holds as far as its decisions go: raw units by symbol with their cost, and whether
    its account is open.
    """

    def __init__(self):
        self.held, self.cost, self.open = {}, {}, set()
        self.wrapped = False

    def take(self, symbol, raw, lamports):
        self.held[symbol] = self.held.get(symbol, 0) + raw
        self.cost[symbol] = self.cost.get(symbol, 0) + lamports
        self.open.add(symbol)

    def give(self, symbol, raw):
        self.cost[symbol] = (
            self.cost.get(symbol, 0) * (self.held[symbol] - raw) // self.held[symbol]
        )
        self.held[symbol] -= raw


class Story:
    def __init__(self, seed=SEED):
        self.rng = random.Random(seed)
        self.purses = [Purse() for _ in TEMPERS]
        for symbol, raw in INVENTORY.items():
            self.purses[OLD_HAND].take(symbol, raw, 0)
        self.clock = BEGINS

    def plan(self):
        """Every Step, in order, each at a second of its own."""
        due = [BEGINS + self.rng.randrange(1, 40_000) for _ in TEMPERS]
        while min(due) < ENDS:
            who = due.index(min(due))
            self.clock = max(self.clock + 1, due[who])
            step = self.act(who)
            if step:
                yield step
            due[who] = self.clock + max(
                2, int(self.rng.expovariate(1 / TEMPERS[who].gap[self.clock >= AWAKE]))
            )
            if due[who] >= AWAKE > self.clock:
                # Nobody sleeps through the start.
                due[who] = AWAKE + self.rng.randrange(3, 40)

    def act(self, who):
        """The next doing of a bot, or None where it cannot or will not."""
        temper = TEMPERS[who]
        kind = self.rng.choices(list(temper.habits), temper.habits.values())[0]
        return getattr(self, f"_{kind}")(who, temper, self.purses[who])

    def _step(self, who, kind, **more):
        eager = TEMPERS[who].name == "Pia"
        hurry = (
            self.rng.choice([0, 0, 20_000, 150_000])
            if not eager
            else self.rng.choice([150_000, 400_000, 900_000])
        )
        return Step(
            self.clock,
            who,
            kind,
            hurry=hurry,
            tip=self.rng.randrange(10_000, 400_000) if eager and kind in ("buy", "sell") else 0,
            **more,
        )

    # ---- trading ---------------------------------------------------------------------------------
    def _trade(self, who, temper, purse):
        ripe = [
            symbol
            for symbol, raw in purse.held.items()
            if raw and self._is_ripe(temper, purse, symbol)
        ]
        if ripe:
            return self._sell(who, purse, self.rng.choice(ripe))
        open_positions = sum(raw > 0 for raw in purse.held.values())
        symbol = self.rng.choice(temper.likes)
        if open_positions < 3 and self._is_tempting(temper, symbol):
            return self._buy(who, temper, purse, symbol)
        held = [symbol for symbol, raw in purse.held.items() if raw]
        return (
            self._sell(who, purse, self.rng.choice(held))
            if held and self.rng.random() < 0.25
            else None
        )

    def _is_ripe(self, temper, purse, symbol):
        cost = purse.cost.get(symbol, 0)
        worth = self._value(symbol, purse.held[symbol])
        return (cost == 0 and self.rng.random() < 0.2) or (
            cost and not temper.stop < worth / cost < temper.take
        )

    def _is_tempting(self, temper, symbol):
        token, span = BY_SYMBOL[symbol], 240 if self.clock >= AWAKE else 5_400
        rising = price(token, self.clock) > price(token, self.clock - span)
        return rising == temper.trend or self.rng.random() < 0.2

    def _value(self, symbol, raw):
        """Lamports that units of a token are worth at the market's price."""
        token = BY_SYMBOL[symbol]
        return int(raw * price(token, self.clock) * LAMPORTS / 10**token.decimals)

    def _units(self, symbol, lamports):
        token = BY_SYMBOL[symbol]
        return int(lamports * 10**token.decimals / (price(token, self.clock) * LAMPORTS))

    def _buy(self, who, temper, purse, symbol):
        lamports = int(self.rng.uniform(*temper.size) * LAMPORTS) // 10_000 * 10_000
        raw = self._units(symbol, lamports * (10_000 - SPREAD) // 10_000)
        purse.take(symbol, raw, lamports)
        return self._step(who, "buy", symbol=symbol, raw=raw, lamports=lamports)

    def _sell(self, who, purse, symbol):
        raw = (
            purse.held[symbol]
            if self.rng.random() < 0.6
            else max(1, purse.held[symbol] * self.rng.choice([25, 50, 75]) // 100)
        )
        purse.give(symbol, raw)
        return self._step(
            who,
            "sell",
            symbol=symbol,
            raw=raw,
            lamports=max(1, self._value(symbol, raw) * (10_000 - SPREAD) // 10_000),
        )

    def _swap(self, who, temper, purse):
        held = [symbol for symbol, raw in purse.held.items() if raw]
        if not held:
            return None
        other = self.rng.choice(held)
        symbol = self.rng.choice([one for one in temper.likes if one != other])
        other_raw = purse.held[other]
        raw = self._units(symbol, self._value(other, other_raw) * (10_000 - SPREAD) // 10_000)
        if not raw:
            return None
        cost = purse.cost.get(other, 0)
        purse.give(other, other_raw)
        purse.take(symbol, raw, cost)
        return self._step(who, "swap", symbol=symbol, raw=raw, other=other, other_raw=other_raw)

    def _failed(self, who, temper, purse):
        """It asks for more than the maker lets go: the chain says no and keeps the fee."""
        symbol = self.rng.choice(temper.likes)
        return (
            self._step(who, "failed", symbol=symbol, lamports=10**8)
            if symbol in purse.open
            else None
        )

    # ---- what is no trade ------------------------------------------------------------------------
    def _gift(self, who, temper, purse):
        """A stranger sends tokens: their cost is nobody's business, and unknown."""
        symbol = self.rng.choice(temper.likes)
        raw = self._units(symbol, self.rng.randrange(10**7, 8 * 10**8))
        purse.take(symbol, raw, 0)
        return self._step(who, "gift", symbol=symbol, raw=raw)

    def _send(self, who, temper, purse):
        held = [symbol for symbol, raw in purse.held.items() if raw > 10]
        if not held:
            return None
        symbol = self.rng.choice(held)
        raw = purse.held[symbol] // 10
        purse.give(symbol, raw)
        return self._step(who, "send", symbol=symbol, raw=raw)

    def _pay(self, who, temper, purse):
        return self._step(
            who, self.rng.choice(["pay_out", "income"]), lamports=self.rng.randrange(10**6, 10**9)
        )

    def _wrap(self, who, temper, purse):
        purse.wrapped = not purse.wrapped
        return self._step(
            who, "wrap" if purse.wrapped else "unwrap", lamports=self.rng.randrange(10**8, 10**9)
        )

    def _close(self, who, temper, purse):
        """An empty token account is closed, its rent comes back."""
        empty = [symbol for symbol in purse.open if not purse.held.get(symbol)]
        if not empty:
            return None
        symbol = sorted(empty)[0]
        purse.open.discard(symbol)
        return self._step(who, "close", symbol=symbol)
