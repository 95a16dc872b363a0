"""The fill model `amm-cp/3`, which computes exactly what an order gets from its pool. Pure.

All arithmetic uses integers and rounds against the trader. A pool remembers simulated trades. Their
flow (lamports put in minus taken out) moves the price along the pool's curve and fades as observed
volume passes. The token side rounds up for sales and down for purchases, so no fill gets more than
the exact formula pays.

Fees are in basis points, as published on 2026-11-22. Pump's are at solana.pump.fun/docs/fees; its
steps from 44,210 to 98,240 SOL are missing, so the preceding fee applies. Raydium's are at
docs.raydium.io/reference/fee-comparison; CPMM pools don't show which of three fees they charge, so
the highest applies.
"""

import hashlib
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, NamedTuple

from chain.amounts import sol
from chain.reading.pools import PoolReading, State, find_fee
from paper.market import ALL_SOL, LAMPORTS, SCALE, Snapshot, value_of

# ---- venues --------------------------------------------------------------------------------------
UNKNOWN_FEE_BPS = 100


class Step(NamedTuple):
    """A fee in basis points, from a market cap in SOL."""

    cap_sol: int
    fee_bps: int


class Venue(NamedTuple):
    """How a venue's pools pay, by rising market cap. `kind`: curve | product | uncalibrated."""

    kind: str
    steps: tuple[Step, ...]
    has_virtual: bool = False

    def fee_bps(self, market_cap: int | None) -> int:
        """Return the fee at a market cap in lamports; the highest if it is unknown."""
        if market_cap is None:
            return max(step.fee_bps for step in self.steps)
        return next(
            step.fee_bps for step in reversed(self.steps) if market_cap >= step.cap_sol * LAMPORTS
        )


PUMP_STEPS = (
    Step(0, 125),
    Step(420, 120),
    Step(1_470, 115),
    Step(2_460, 110),
    Step(3_440, 105),
    Step(4_420, 100),
    Step(9_820, 95),
    Step(14_740, 90),
    Step(19_650, 85),
    Step(24_560, 80),
    Step(29_470, 75),
    Step(34_380, 70),
    Step(39_300, 65),
    Step(98_240, 30),
)
# Venues by the provider's ID.
VENUES = {
    "pumpfun": Venue("curve", (Step(0, 125),)),
    "pumpswap": Venue("product", PUMP_STEPS, has_virtual=True),
    "raydium": Venue("product", (Step(0, 25),)),
    "raydium/cpmm": Venue("product", (Step(0, 100),)),
}
# The provider's IDs by the venue's name in our table of programs.
VENUE_IDS = {
    "pump.fun": "pumpfun",
    "PumpSwap": "pumpswap",
    "Raydium v4": "raydium",
    "Raydium CPMM": "raydium/cpmm",
}
# Concentrated and dynamic pools, and unlisted venues.
OTHER_VENUE = Venue("uncalibrated", (Step(0, UNKNOWN_FEE_BPS),))


def find_venue(name: str | None) -> Venue:
    return VENUES.get(name or "", OTHER_VENUE)


# ---- pools ---------------------------------------------------------------------------------------
# Launch curves are priced from this product of virtual lamports and virtual raw units.
CURVE = 30 * LAMPORTS * 1_073_000_000 * 10**6
# Initial virtual lamports, which can't be withdrawn.
CURVE_VIRTUAL_SOL = 30 * LAMPORTS
# Raw units that are never for sale.
CURVE_KEPT_RAW = 279_900_000 * 10**6
CURVE_DECIMALS = 6
MINUTE_MS = 60_000
# A minute counts as passed from its 31st second on. Polls rarely happen then, so a few milliseconds
# between polls don't change a fill.
EARLY_MS = 29_000
FIVE_MINUTES_MS, HOUR_MS, DAY_MS = 300_000, 3_600_000, 86_400_000


class Memory(NamedTuple):
    """The effect of simulated trades on a pool, up to the last one."""

    # Net lamports put in; negative if more was taken out.
    flow: int = 0
    # The last trade's.
    last: Snapshot | None = None
    turns: int = 0
    # The ID of the last snapshot with unknown liquidity that was traded on.
    blind: int | None = None


NEVER_TRADED = Memory()


def pool_key(snapshot: Snapshot) -> str:
    return snapshot.pair or snapshot.mint


def is_exact(snapshot: Snapshot) -> bool:
    return bool(snapshot.pool) or find_venue(snapshot.venue).kind != "uncalibrated"


def find_pool(snapshot: Snapshot, decimals: int, side: str = "buy") -> State | None:
    if snapshot.pool:
        return snapshot.pool.after
    venue = find_venue(snapshot.venue)
    if venue.kind == "curve":
        return _find_curve(snapshot, decimals, side)
    if snapshot.reserve is None:
        return None
    sol = snapshot.reserve + (find_virtual(snapshot) if venue.has_virtual else 0)
    tokens = _divide(sol * 10**decimals * SCALE, snapshot.known_price * LAMPORTS, side)
    return State(sol, tokens, snapshot.reserve, tokens)


def find_virtual(snapshot: Snapshot) -> int:
    """Return the lamports that PumpSwap prices in addition to the vault.

    They are the value of the tokens beyond the vault, but at most the vault itself.
    """
    if snapshot.liquidity is None or not snapshot.sol_cents or snapshot.reserve is None:
        return 0
    both_sides = snapshot.liquidity * LAMPORTS // snapshot.sol_cents
    return max(0, min(snapshot.reserve, both_sides - 2 * snapshot.reserve))


def _divide(above: int, below: int, side: str) -> int:
    return -(-above // below) if side == "sell" else above // below


def _find_curve(snapshot: Snapshot, decimals: int, side: str) -> State | None:
    """Return the launch curve at a snapshot's price, or None if no curve has this price."""
    if decimals != CURVE_DECIMALS or not snapshot.price:
        return None
    tokens = isqrt(CURVE * 10**CURVE_DECIMALS * SCALE // (snapshot.price * LAMPORTS))
    tokens += side == "sell"
    # A rounded price may be just outside either end.
    if not CURVE_KEPT_RAW * 99 // 100 <= tokens <= CURVE // CURVE_VIRTUAL_SOL * 101 // 100:
        return None
    sol = CURVE // tokens
    return State(sol, tokens, max(0, sol - CURVE_VIRTUAL_SOL), max(0, tokens - CURVE_KEPT_RAW))


def shift(pool: State, flow: int, side: str = "sell") -> State:
    sol = pool.sol + flow
    if sol <= 0:
        return State(0, 0, 0, 0)
    raw = _divide(pool.sol * pool.raw, sol, side)
    return State(sol, raw, max(0, pool.payable + flow), max(0, pool.buyable + raw - pool.raw))


def carry(memory: Memory, snapshot: Snapshot, decimals: int) -> int:
    """Return the remaining flow of a pool at a snapshot.

    It fades with the share of the pool that observed volume turned over, and shrinks with a drained
    pool.
    """
    last = memory.last
    if last is None or last.id == snapshot.id or not memory.flow:
        return memory.flow
    flow = _drain(memory.flow, last, snapshot, decimals)
    turned = turnover(last, snapshot)
    if turned is None:
        return flow
    whole, volume = turned
    return _shrink(flow, whole, whole + volume)


def _drain(flow: int, last: Snapshot, snapshot: Snapshot, decimals: int) -> int:
    before, now = find_pool(last, decimals), find_pool(snapshot, decimals)
    if before is None or now is None or now.sol >= before.sol or not before.sol:
        return flow
    return _shrink(flow, now.sol, before.sol)


def _shrink(flow: int, part: int, whole: int) -> int:
    left = abs(flow) * part // whole
    return left if flow > 0 else -left


def turnover(last: Snapshot, snapshot: Snapshot) -> tuple[int, int] | None:
    """Return a pool's SOL reserve and the volume between two snapshots in USD cents, or None.

    The volume is from the provider's shortest window that covers the time: 5m, 1h or 24h.
    """
    side = find_side_cents(snapshot)
    if not side:
        return None
    passed = max(0, snapshot.at - last.at + EARLY_MS) // MINUTE_MS * MINUTE_MS
    windows = (
        (snapshot.volume5m, FIVE_MINUTES_MS),
        (snapshot.volume1h, HOUR_MS),
        (snapshot.volume, DAY_MS),
    )
    known = [(volume, length) for volume, length in windows if volume is not None]
    if not known:
        return None
    volume, length = next((one for one in known if passed <= one[1]), known[-1])
    return side, volume * passed // length


def find_side_cents(snapshot: Snapshot) -> int | None:
    if snapshot.liquidity is not None:
        return snapshot.liquidity // 2
    if find_venue(snapshot.venue).kind == "curve" and snapshot.sol_cents is not None:
        curve = _find_curve(snapshot, CURVE_DECIMALS, "buy")
        return curve and curve.sol * snapshot.sol_cents // LAMPORTS
    return None


# ---- fills ---------------------------------------------------------------------------------------
MODEL = "amm-cp/3"
ONE = 10_000
# Lamports in a token account, which are returned when it is closed.
RENT = 2_039_280
# The (seeded) probability that an attempt fails and pays only its network fee.
FAILURE_BPS = 500
# Added to the price if the pool's pricing is unknown.
WIDE_BPS = 500
# Maximum lamports that one fill per snapshot may move if liquidity is also unknown.
UNKNOWN_MAX = 10**9
# Maximum per order, including partial fills.
MAX_ATTEMPTS = 8
# How many scout intervals after the latency an order may fill.
WAIT_INTERVALS = 3
# Relative to the quote.
SLIPPAGE_LIMIT_BPS = 500
# Liquidity below 1/GONE_SHARE of the liquidity at entry counts as gone.
GONE_SHARE = 20
# Liquidity below this always counts as gone.
GONE_USD_CENTS = 100_00


class NetworkCosts(NamedTuple):
    """Quantiles of swaps' network fees and tips, in lamports. Fees are drawn between them."""

    p50: int
    p75: int
    p90: int


# From 102 transactions recorded in 2026-11.
RECORDED_COSTS = NetworkCosts(25_000, 776_831, 3_047_000)
MAX_NETWORK_FEE = 5_000_000
# Closing reasons that book a whole position at once.
WRITE_OFFS = ("liquidity_gone", "price_gone")
UNKNOWN_LIQUIDITY = "liquidity_unknown"
UNCALIBRATED = "uncalibrated"
STALE_PRICE = "stale_price"
SLIPPED = "slippage_exceeded"
# A fill on a fall that a second provider confirmed.
SEEN_TWICE = "fall_seen_twice"
# A fill on the reserves in an observed transaction.
OBSERVED = "observed_reserves"


@dataclass(frozen=True, slots=True)
class Order:
    """An order. `amount`: lamports to spend or raw units to sell. `done`: the filled part of it."""

    handle: str
    # Numbers continue across a trader's account periods.
    number: int
    mint: str
    symbol: str
    decimals: int
    # buy | sell
    side: str
    amount: int
    reason: str
    decided_on: int
    decided_at: int
    due_at: int
    expires_at: int
    # The minimum for all of `amount`: raw units of a purchase, lamports of a sale.
    least: int = 0
    transfer_bps: int = 0
    detail: str = ""
    done: int = 0
    attempts: int = 0
    # Lamports of failed attempts while there was no position.
    lost: int = 0
    # open | filled | part_filled | expired | refused | restart | failed | cancelled
    state: str = "open"

    @property
    def remaining(self) -> int:
        return self.amount - self.done


@dataclass(frozen=True, slots=True)
class Fill:
    """An attempt to fill an order, in lamports except `raw`. `mid`: value at the
    snapshot's price.
    """

    order: int
    mint: str
    side: str
    snapshot: int
    at: int
    decided_on: int
    decided_at: int
    raw: int = 0
    mid: int = 0
    # Negative if simulated trades had moved the pool in the trader's favor.
    slippage: int = 0
    pool_fee: int = 0
    network_fee: int = 0
    # Negative if it is returned.
    rent: int = 0
    failed: bool = False
    reason: str = ""
    # liquidity_unknown | uncalibrated | slippage_exceeded | fall_seen_twice |
    # observed_reserves
    marks: tuple[str, ...] = ()
    # The pool's memory: the flow in lamports before this fill, and the fill's number.
    flow: int = 0
    turn: int = 0
    # The quantiles from which its network fee was drawn, or None if none was drawn.
    costs: NetworkCosts | None = None

    @property
    def fees(self) -> int:
        return self.pool_fee + self.network_fee

    @property
    def gross(self) -> int:
        """The used part of the order's amount: lamports of a buy, raw units of a sale."""
        return self.mid + self.slippage + self.pool_fee if self.side == "buy" else self.raw

    @property
    def moved(self) -> int:
        """The lamports that it put into the pool, without fees. Negative if it took them out."""
        return self.mid + self.slippage if self.side == "buy" else self.slippage - self.mid

    @property
    def cash(self) -> int:
        value = self.mid - self.slippage if self.side == "sell" else -self.mid - self.slippage
        return value - self.fees - self.rent


class Amounts(NamedTuple):
    """An attempt's raw units, and their value, slippage and pool fee in lamports."""

    raw: int
    mid: int
    slippage: int
    pool_fee: int

    def uses(self, side: str) -> int:
        """Return the used part of an order's amount: lamports of a buy, raw units of a sale."""
        return self.mid + self.slippage + self.pool_fee if side == "buy" else self.raw

    def brings(self, side: str) -> int:
        """Return the raw units of a buy, or the lamports of a sale after the pool's fee."""
        return self.raw if side == "buy" else self.mid - self.slippage - self.pool_fee


def fill(
    order: Order,
    snapshot: Snapshot,
    memory: Memory,
    *,
    first: bool = False,
    last_raw: int | None = None,
    costs: NetworkCosts = RECORDED_COSTS,
) -> Fill | None:
    """Return an order's fill on a snapshot, or None if the pool has nothing left for it.

    `first`: there is no position yet, so rent is due. `last_raw`: the position's raw amount;
    selling all of it returns the rent. The caller checks that the order is due and the snapshot
    plausible.
    """
    flow = carry(memory, snapshot, order.decimals)
    taken = quote(order.side, order.remaining, snapshot, order, memory, flow)
    if taken is None:
        return None
    slipped = taken.brings(order.side) * order.amount < order.least * taken.uses(order.side)
    if slipped or is_failing(order):
        marks = (SLIPPED,) if slipped else ()
        return _attempt(order, snapshot, memory, flow, costs, failed=True, marks=marks)
    rent = RENT if first else -RENT if order.side == "sell" and taken.raw == last_raw else 0
    return _attempt(order, snapshot, memory, flow, costs, **taken._asdict(), rent=rent)


def quote(
    side: str, amount: int, snapshot: Snapshot, order: "Order | Terms", memory: Memory, flow: int
) -> Amounts | None:
    """Return what a pool would give now for at most `amount`, or None if it has nothing left."""
    if snapshot.pool:
        return _quote_observed(side, amount, snapshot, snapshot.pool, order.decimals, flow)
    pool = find_pool(snapshot, order.decimals, side)
    if pool is None and memory.blind == snapshot.id:
        return None
    shifted = pool and shift(pool, _felt(side, flow), side)
    return quote_pool(side, amount, snapshot, order, shifted)


def quote_pool(
    side: str, amount: int, snapshot: Snapshot, order: "Order | Terms", pool: State | None
) -> Amounts | None:
    trade = _buy if side == "buy" else _sell
    fee_bps = find_venue(snapshot.venue).fee_bps(snapshot.market_cap)
    return trade(amount, snapshot, order, pool, fee_bps)


def _quote_observed(
    side: str, amount: int, snapshot: Snapshot, pool: PoolReading, decimals: int, flow: int
) -> Amounts | None:
    state = shift(pool.after, _felt(side, flow), side)
    if side == "buy":
        bought = buy(pool, state, amount)
        if bought is None:
            return None
        mid = value_of(bought.raw, snapshot.known_price, decimals)
        return Amounts(bought.raw, mid, bought.net - mid, amount - bought.net) if mid else None
    if state.sol <= 0 or state.raw <= 0:
        return None
    sold = sell(pool, state, amount)
    mid = min(ALL_SOL, value_of(amount, snapshot.known_price, decimals))
    return Amounts(amount, mid, mid - sold.left, sold.left - sold.received)


class Terms(NamedTuple):
    decimals: int
    # In basis points.
    transfer_bps: int


def _felt(side: str, flow: int) -> int:
    """Ignore other traders' sales for a purchase: they don't make it cheaper than the market."""
    return max(0, flow) if side == "buy" else flow


def _attempt(
    order: Order,
    snapshot: Snapshot,
    memory: Memory,
    flow: int,
    costs: NetworkCosts,
    marks: tuple[str, ...] = (),
    **amounts: Any,
) -> Fill:
    return Fill(
        order.number,
        order.mint,
        order.side,
        snapshot.id,
        snapshot.at,
        order.decided_on,
        order.decided_at,
        reason=order.reason,
        marks=(*_find_marks(order, snapshot), *marks),
        network_fee=draw_network_fee(order, costs),
        flow=flow,
        turn=memory.turns + 1,
        costs=costs,
        **amounts,
    )


def _find_marks(order: Order, snapshot: Snapshot) -> tuple[str, ...]:
    """Return a fill's caveats. Unknown reserves or pricing exclude the fill."""
    if not snapshot.price:
        return ()
    if snapshot.pool:
        return (OBSERVED,)
    twice = (SEEN_TWICE,) if snapshot.is_confirmed else ()
    if find_pool(snapshot, order.decimals) is None:
        return (UNKNOWN_LIQUIDITY, *twice)
    return twice if is_exact(snapshot) else (UNCALIBRATED, *twice)


def remember(memory: Memory, fill: Fill, snapshot: Snapshot) -> Memory:
    """Return a pool's memory after a fill. Failed attempts and write-offs don't move it."""
    if not fill.turn:
        return memory
    moved = 0 if fill.failed or UNKNOWN_LIQUIDITY in fill.marks else fill.moved
    last = snapshot if snapshot.price else memory.last
    blind = not fill.failed and UNKNOWN_LIQUIDITY in fill.marks
    return Memory(fill.flow + moved, last, fill.turn, snapshot.id if blind else memory.blind)


def is_failing(order: Order) -> bool:
    """Decide by chance, seeded so that every replay agrees."""
    return _chance(order, "") % ONE < FAILURE_BPS


def draw_network_fee(order: Order, costs: NetworkCosts) -> int:
    """Return lamports, interpolated between the 50th and 90th percentile of real swaps."""
    place = 5_000 + _chance(order, "|fee") % 4_001
    low, high, start, width = (
        (costs.p50, costs.p75, 5_000, 2_500)
        if place < 7_500
        else (costs.p75, costs.p90, 7_500, 1_500)
    )
    return min(MAX_NETWORK_FEE, low + (high - low) * (place - start) // width)


def _chance(order: Order, about: str) -> int:
    text = f"{order.handle}|{order.number}|{MODEL}|{order.attempts}{about}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


# ---- one side of a pool --------------------------------------------------------------------------
def _buy(
    lamports: int, snapshot: Snapshot, terms: "Order | Terms", pool: State | None, fee_bps: int
) -> Amounts | None:
    """Return what at most `lamports` (with fees) buy, or None if nothing is left to buy."""
    net = lamports - find_fee(lamports, fee_bps)
    if pool is None:
        paid = min(net, UNKNOWN_MAX)
        raw = paid * 10**terms.decimals * SCALE // (snapshot.known_price * LAMPORTS)
    else:
        paid = min(net, _room(pool))
        raw = pool.raw * paid // (pool.sol + paid) if paid > 0 else 0
        raw = min(raw, pool.buyable)
    if paid <= 0:
        return None
    raw = _keep(_widen(raw, snapshot, pool), terms.transfer_bps)
    fee = lamports - net if paid == net else -(-paid * fee_bps // (ONE - fee_bps))
    mid = value_of(raw, snapshot.known_price, terms.decimals)
    # A purchase worth less than a lamport has no price.
    return Amounts(raw, mid, paid - mid, fee) if mid > 0 else None


def _room(pool: State) -> int:
    if pool.buyable >= pool.raw:
        return ALL_SOL
    return pool.sol * pool.buyable // (pool.raw - pool.buyable)


def _sell(
    raw: int, snapshot: Snapshot, terms: "Order | Terms", pool: State | None, fee_bps: int
) -> Amounts | None:
    """Return what a sale of at most `raw` units moves, or None if the pool is empty."""
    price = snapshot.known_price
    if pool is None:
        raw = min(raw, UNKNOWN_MAX * 10**terms.decimals * SCALE // (price * LAMPORTS))
        received = value_of(_keep(raw, terms.transfer_bps), price, terms.decimals)
    elif pool.sol <= 0 or pool.raw <= 0:
        return None
    else:
        received = _pay(pool, _keep(raw, terms.transfer_bps))
    received = _widen(received, snapshot, pool)
    return _sold(raw, received, price, terms.decimals, fee_bps) if raw > 0 else None


def _keep(raw: int, bps: int) -> int:
    return raw - find_fee(raw, bps)


def _widen(got: int, snapshot: Snapshot, pool: State | None) -> int:
    return got if pool is not None and is_exact(snapshot) else got * (ONE - WIDE_BPS) // ONE


def _pay(pool: State, raw: int) -> int:
    if pool.sol <= 0 or pool.raw <= 0:
        return 0
    return min(pool.payable, pool.sol * raw // (pool.raw + raw))


def _sold(raw: int, received: int, price: int, decimals: int, fee_bps: int) -> Amounts:
    # A value beyond all existing SOL doesn't fit its column.
    mid = min(ALL_SOL, value_of(raw, price, decimals))
    return Amounts(raw, mid, mid - received, find_fee(received, fee_bps))


# ---- what is held --------------------------------------------------------------------------------
def liquidate(raw: int, snapshot: Snapshot, terms: Terms, memory: Memory) -> int:
    """Return the lamports that a pool would pay now for a whole position, after its fee."""
    if raw <= 0 or not snapshot.price:
        return 0
    flow = carry(memory, snapshot, terms.decimals)
    seen = memory._replace(blind=None)
    found = quote("sell", raw, snapshot, terms, seen, flow)
    if found is None:
        return 0
    paid = found.brings("sell")
    # If liquidity is unknown, the quote covers a part. The rest isn't worth more.
    return paid * raw // found.raw if found.raw < raw else paid


def is_gone(snapshot: Snapshot, liquidity_at_entry: int | None) -> bool:
    """Return whether liquidity is almost zero, in USD or relative to the entry's."""
    liquidity = snapshot.liquidity
    return snapshot.reserve == 0 or (
        liquidity is not None
        and (liquidity < GONE_USD_CENTS or liquidity * GONE_SHARE < (liquidity_at_entry or 0))
    )


def write_off(
    order: Order,
    snapshot: Snapshot,
    mark: int,
    memory: Memory,
    costs: NetworkCosts = RECORDED_COSTS,
) -> Fill:
    """Return the fill that closes a whole position without liquidity, for what the pool would pay.

    `mark` is the last plausible price, an upper limit.
    """
    flow = carry(memory, snapshot, order.decimals) if snapshot.price else memory.flow
    price, received = min(snapshot.price or 0, mark), 0
    pool = price and find_pool(replace(snapshot, price=price), order.decimals, "sell")
    if pool:
        received = _pay(shift(pool, flow), _keep(order.amount, order.transfer_bps))
    fee_bps = find_venue(snapshot.venue).fee_bps(snapshot.market_cap)
    sold = _sold(order.amount, received, price, order.decimals, fee_bps)
    return _attempt(order, snapshot, memory, flow, costs, **sold._asdict(), rent=-RENT)


def close_at_nothing(
    order: Order, snapshot: Snapshot, mark: int, costs: NetworkCosts = RECORDED_COSTS
) -> Fill:
    """Return the fill that closes a position after a day without a price."""
    sold = _sold(order.amount, 0, mark, order.decimals, 0)
    done = _attempt(order, snapshot, NEVER_TRADED, 0, costs, **sold._asdict(), rent=-RENT)
    return replace(done, turn=0, marks=())


# ---- observed pools ------------------------------------------------------------------------------
class Bought(NamedTuple):
    """A purchase. `net`: the lamports that reached the pool."""

    raw: int
    net: int


class Sold(NamedTuple):
    """A sale: lamports that the follower received, and lamports that left the pool."""

    received: int
    left: int


def buy(pool: PoolReading, state: State, lamports: int) -> Bought | None:
    """Return what `lamports` buy, or None if the pool has too little left."""
    if pool.fee_kind == "on_top":
        net = lamports * ONE // (ONE + pool.fee_bps)
    else:
        net = lamports - find_fee(lamports, pool.fee_bps)
    paid = net - pool.is_curve
    raw = paid * state.raw // (state.sol + paid) if paid > 0 else 0
    return Bought(raw, net) if 0 < raw <= state.buyable else None


def sell(pool: PoolReading, state: State, raw: int) -> Sold:
    if pool.fee_kind == "input":
        raw -= find_fee(raw, pool.fee_bps)
    gross = min(state.payable, raw * state.sol // (state.raw + raw)) if raw > 0 else 0
    fee = 0 if pool.fee_kind == "input" else find_fee(gross, pool.fee_bps)
    return Sold(gross - fee, gross)


def add_raw(state: State, more: int) -> State:
    """Return the pool after this many raw units arrived (negative: left)."""
    raw = state.raw + more
    if raw <= 0:
        return State(0, 0, 0, 0)
    sol = state.sol * state.raw // raw
    payable = max(0, state.payable - state.sol + sol)
    return State(sol, raw, payable, max(0, state.buyable + more))


# ---- assumptions ---------------------------------------------------------------------------------
# Numbers that decide what a fill pays.
OF_FILLS = (
    *("ONE", "RENT", "WIDE_BPS", "UNKNOWN_MAX", "MAX_ATTEMPTS", "WAIT_INTERVALS"),
    *("SLIPPAGE_LIMIT_BPS", "GONE_SHARE", "GONE_USD_CENTS", "MAX_NETWORK_FEE"),
)
OF_POOLS = ("CURVE", "CURVE_VIRTUAL_SOL", "CURVE_KEPT_RAW", "CURVE_DECIMALS")


def list_constants() -> list[tuple[object, ...]]:
    table = {**VENUES, "": OTHER_VENUE}
    return [
        *((name, globals()[name]) for name in OF_FILLS),
        ("costs", tuple(RECORDED_COSTS)),
        ("failing", FAILURE_BPS),
        *((name, globals()[name]) for name in OF_POOLS),
        *(
            (name, one.kind, [tuple(step) for step in one.steps], one.has_virtual)
            for name, one in table.items()
        ),
    ]


# The first sixteen digits of the SHA-256.
MODEL_HASH = hashlib.sha256(repr(list_constants()).encode()).hexdigest()[:16]


ASSUMPTIONS = (
    "an order is decided on one snapshot and filled on the first one after the stated latency"
    " that has a new quote; if the quote never changes, the order expires",
    "pool fee by venue and market cap, from a dated table; 1% for an unknown venue",
    "launch curves priced from the price only, constant product from the pool's SOL reserve,"
    f" including virtual reserves on PumpSwap; fills in any other pool are {WIDE_BPS // 100}%"
    " worse and don't count",
    "simulated trades move the pool's price for all paper traders, and the effect fades as"
    " observed volume passes through; the pool never pays more than it has",
    "the network fee and tip of each attempt are drawn from what real swaps paid, from the"
    f" 50th to the 90th percentile; one attempt in {ONE // FAILURE_BPS} fails and still pays",
    f"an attempt that would fill more than {SLIPPAGE_LIMIT_BPS // 100}% (or what the strategy"
    " allows) worse than quoted at the decision fails",
    "a token's own transfer fee is deducted from purchases and sales",
    f"rent of {sol(RENT)} SOL paid on the first buy and returned on the close",
    "a price more than 95% below the last one is accepted only if a second "
    "provider or the next snapshot confirms it",
    "open positions are valued at their pools' payouts",
    "every token can be sold: tokens that block sellers are treated like any other",
    "orders are never sandwiched or front-run",
)
