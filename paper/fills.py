"""The fill model `amm-cp/3`: what an order would get from the pool it names, to the lamport. Pure.

All arithmetic is on integers and rounds against the trader. `paper.pools` says what a pool is and
what it remembers, `paper.venues` what each venue takes; `paper.fill_model` says what the model
assumes.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from paper import pools
from paper.market import ALL_SOL, LAMPORTS, SCALE, Snapshot, value_of
from paper.pools import NEVER_TRADED, Memory, Pool

MODEL = "amm-cp/3"
# Basis points in a whole.
ONE = 10_000
# Lamports that a token account holds, returned when it is closed.
RENT = 2_039_280
# Seeded chance that an attempt fails and pays its network fee only.
FAILURE_BPS = 500
# On top of the price, where nobody knows how the pool pays.
WIDE_BPS = 500
# Lamports that may move there per snapshot, in one fill, where liquidity is unknown, too.
UNKNOWN_MAX = 10**9
# Of one order, partial fills included.
MAX_ATTEMPTS = 8
# Scout intervals after the latency in which an order may fill.
WAIT_INTERVALS = 3
# How much worse than quoted at the decision an order may fill, where its strategy says nothing.
SLIPPAGE_LIMIT_BPS = 500
# Liquidity is gone below a twentieth of what it was at entry,
GONE_SHARE = 20
# ... and below this much.
GONE_USD_CENTS = 100_00


class NetworkCosts(NamedTuple):
    """What swaps paid in network fee and tip, in lamports: the quantiles fees are drawn from."""

    p50: int
    p75: int
    p90: int


# Of 102 recorded transactions, 2026-11.
RECORDED_COSTS = NetworkCosts(25_000, 776_831, 3_047_000)
# No draw is above it.
MAX_NETWORK_FEE = 5_000_000
# Closing reasons that book a whole position at once.
WRITE_OFFS = ("liquidity_gone", "price_gone")
UNKNOWN_LIQUIDITY = "liquidity_unknown"
UNCALIBRATED = "uncalibrated"
STALE_PRICE = "stale_price"
SLIPPED = "slippage_exceeded"
# Of a fill on a fall that a second provider saw, too.
SEEN_TWICE = "fall_seen_twice"


@dataclass(frozen=True, slots=True)
class Order:
    """An order. `amount` is lamports to spend or raw units to sell; `done` is the part of it that
    was filled.
    """

    handle: str
    # Of this trader, over all its account periods.
    number: int
    mint: str
    symbol: str
    decimals: int
    # buy | sell
    side: str
    amount: int
    reason: str
    # Id of a snapshot.
    decided_on: int
    decided_at: int
    # Its earliest fill.
    due_at: int
    expires_at: int
    # The least that all of `amount` must bring: raw units of a buy, lamports of a sale.
    least: int = 0
    # What the token itself keeps of a transfer.
    transfer_bps: int = 0
    # Why it was decided, in words.
    detail: str = ""
    done: int = 0
    attempts: int = 0
    # Fees of failed attempts while there was no position, in lamports.
    lost: int = 0
    # open | filled | part_filled | expired | refused | restart | failed | cancelled
    state: str = "open"

    @property
    def remaining(self) -> int:
        """What is still to be filled: lamports of a buy, raw units of a sale."""
        return self.amount - self.done


@dataclass(frozen=True, slots=True)
class Fill:
    """An attempt to fill an order on a snapshot. Amounts but `raw` are lamports; `mid` is the value
    at the snapshot's own price.
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
    # Negative where a pool that simulated trades had moved paid more than the snapshot's price.
    slippage: int = 0
    pool_fee: int = 0
    network_fee: int = 0
    # Negative where it is returned.
    rent: int = 0
    failed: bool = False
    reason: str = ""
    # liquidity_unknown | uncalibrated | slippage_exceeded | fall_seen_twice
    marks: tuple[str, ...] = ()
    # What the pool remembered: the flow before it in lamports, and how many trades came before.
    flow: int = 0
    turn: int = 0
    # What its network fee was drawn from; None if no fee was drawn.
    costs: NetworkCosts | None = None

    @property
    def fees(self) -> int:
        """Lamports paid to the pool and the network."""
        return self.pool_fee + self.network_fee

    @property
    def gross(self) -> int:
        """What it takes of the order's amount: lamports of a buy, raw units of a sale."""
        return self.mid + self.slippage + self.pool_fee if self.side == "buy" else self.raw

    @property
    def moved(self) -> int:
        """Lamports it put into the pool, negative where it took them out; without fees."""
        return self.mid + self.slippage if self.side == "buy" else self.slippage - self.mid

    @property
    def cash(self) -> int:
        """What it does to the cash, in lamports."""
        value = self.mid - self.slippage if self.side == "sell" else -self.mid - self.slippage
        return value - self.fees - self.rent


class Amounts(NamedTuple):
    """What an attempt moves: raw units; their value, slippage and the pool's fee in lamports."""

    raw: int
    mid: int
    slippage: int
    pool_fee: int

    def brings(self, side: str) -> int:
        """Return raw units of a buy, or lamports of a sale after the pool's fee."""
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
    """Return the fill of an order on a snapshot, or None where the pool has nothing left for it.

    memory: what the order's pool remembers. first: there is no position yet, so rent is due.
    last_raw: the position's raw amount; selling all of it returns the rent. The caller has checked
    that the order is due and the snapshot believable.
    """
    flow = pools.carry(memory, snapshot, order.decimals)
    taken = quote(order.side, order.remaining, snapshot, order, memory, flow)
    if taken is None:
        return None
    slipped = taken.brings(order.side) * order.amount < order.least * _share(order, taken)
    if slipped or is_failing(order):
        marks = (SLIPPED,) if slipped else ()
        return _attempt(order, snapshot, memory, flow, costs, failed=True, marks=marks)
    rent = RENT if first else -RENT if order.side == "sell" and taken.raw == last_raw else 0
    return _attempt(order, snapshot, memory, flow, costs, **taken._asdict(), rent=rent)


def _share(order: Order, taken: Amounts) -> int:
    if order.side == "sell":
        return taken.raw
    return taken.mid + taken.slippage + taken.pool_fee


def quote(
    side: str,
    amount: int,
    snapshot: Snapshot,
    order: "Order | Terms",
    memory: Memory,
    flow: int,
) -> Amounts | None:
    """Return what a pool would give now for at most `amount`; None where it has nothing."""
    pool = pools.find_pool(snapshot, order.decimals, side)
    fee_bps = pools.venue_of(snapshot).fee_bps(snapshot.market_cap)
    if pool is None and memory.blind == snapshot.id:
        return None
    shifted = pool and pools.shift(pool, _felt(side, flow), side)
    return quote_pool(side, amount, snapshot, order, shifted, fee_bps)


def quote_pool(
    side: str,
    amount: int,
    snapshot: Snapshot,
    order: "Order | Terms",
    pool: Pool | None,
    fee_bps: int,
) -> Amounts | None:
    """The same for a pool whose sides are known. `snapshot`: for its price."""
    trade = _buy if side == "buy" else _sell
    return trade(amount, snapshot, order, pool, fee_bps)


class Terms(NamedTuple):
    """What a quote depends on beside the pool."""

    decimals: int
    # Basis points that the token keeps of a transfer.
    transfer_bps: int


def _felt(side: str, flow: int) -> int:
    """Return the flow that a trade is priced with. What others sold makes nobody's purchase
    cheaper than the market.
    """
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
    """Return what a fill rests on: why it does not count (nobody knows how much is in the pool, or
    how it pays), and whether a second provider saw the fall it was made on.
    """
    if not snapshot.price:
        return ()
    twice = (SEEN_TWICE,) if snapshot.is_confirmed else ()
    pool = pools.find_pool(snapshot, order.decimals)
    if pool is None:
        return (UNKNOWN_LIQUIDITY, *twice)
    return twice if pool.fits else (UNCALIBRATED, *twice)


def remember(memory: Memory, fill: Fill, snapshot: Snapshot) -> Memory:
    """Return what a pool remembers after a fill; a failed one moved nothing, and neither did one
    for which there was no pool any more.
    """
    if not fill.turn:
        return memory
    moved = 0 if fill.failed or UNKNOWN_LIQUIDITY in fill.marks else fill.moved
    last = snapshot if snapshot.price else memory.last
    blind = not fill.failed and UNKNOWN_LIQUIDITY in fill.marks
    return Memory(fill.flow + moved, last, fill.turn, snapshot.id if blind else memory.blind)


def is_failing(order: Order) -> bool:
    """Tell whether this attempt of the order fails. The chance is seeded by handle, order number,
    model and attempt, so that it is the same in every replay.
    """
    return _chance(order, "") % ONE < FAILURE_BPS


def draw_network_fee(order: Order, costs: NetworkCosts) -> int:
    """Return the lamports that this attempt pays the network, between the 50th and the 90th
    percentile of what swaps paid, on straight lines between the known ones.
    """
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
def _fee(lamports: int, bps: int) -> int:
    return -(-lamports * bps // ONE)


def _buy(
    lamports: int, snapshot: Snapshot, terms: "Order | Terms", pool: Pool | None, fee_bps: int
) -> Amounts | None:
    """Return what at most `lamports` buy, fees included; None where nothing is left to buy."""
    net = lamports - _fee(lamports, fee_bps)
    if pool is None:
        paid = min(net, UNKNOWN_MAX)
        raw = paid * 10**terms.decimals * SCALE // (snapshot.known_price * LAMPORTS)
    else:
        paid = min(net, _room(pool))
        raw = pool.tokens * paid // (pool.sol + paid) if paid > 0 else 0
        raw = min(raw, pool.buyable)
    if paid <= 0:
        return None
    raw = _keep(_widen(raw, pool), terms.transfer_bps)
    fee = _fee(lamports, fee_bps) if paid == net else -(-paid * fee_bps // (ONE - fee_bps))
    mid = value_of(raw, snapshot.known_price, terms.decimals)
    # Worth less than a lamport, the purchase would have no price.
    return Amounts(raw, mid, paid - mid, fee) if mid > 0 else None


def _room(pool: Pool) -> int:
    """Return the lamports that buy all a pool can give; an ordinary pool's end is never reached."""
    if pool.buyable >= pool.tokens:
        return ALL_SOL
    return pool.sol * pool.buyable // (pool.tokens - pool.buyable)


def _sell(
    raw: int, snapshot: Snapshot, terms: "Order | Terms", pool: Pool | None, fee_bps: int
) -> Amounts | None:
    """Return what a sale of at most `raw` units moves; None where there is nobody to sell to."""
    price = snapshot.known_price
    if pool is None:
        raw = min(raw, UNKNOWN_MAX * 10**terms.decimals * SCALE // (price * LAMPORTS))
        received = value_of(_keep(raw, terms.transfer_bps), price, terms.decimals)
    elif pool.sol <= 0 or pool.tokens <= 0:
        return None
    else:
        received = _pay(pool, _keep(raw, terms.transfer_bps))
    return _sold(raw, _widen(received, pool), price, terms.decimals, fee_bps) if raw > 0 else None


def _keep(raw: int, bps: int) -> int:
    """Return what arrives of raw units after the token's own fee."""
    return raw - _fee(raw, bps)


def _widen(got: int, pool: Pool | None) -> int:
    """Make what is got worse where nobody knows how the pool pays."""
    return got if pool is not None and pool.fits else got * (ONE - WIDE_BPS) // ONE


def _pay(pool: Pool, raw: int) -> int:
    if pool.sol <= 0 or pool.tokens <= 0:
        return 0
    return min(pool.payable, pool.sol * raw // (pool.tokens + raw))


def _sold(raw: int, received: int, price: int, decimals: int, fee_bps: int) -> Amounts:
    # The value of a position that rose beyond all SOL there is would not fit its column.
    mid = min(ALL_SOL, value_of(raw, price, decimals))
    return Amounts(raw, mid, mid - received, _fee(received, fee_bps))


# ---- what is held --------------------------------------------------------------------------------
def liquidate(raw: int, snapshot: Snapshot, terms: Terms, memory: Memory) -> int:
    """Return the lamports that a pool would pay now for all of a position, after its fee."""
    if raw <= 0 or not snapshot.price:
        return 0
    flow = pools.carry(memory, snapshot, terms.decimals)
    seen = memory._replace(blind=None)
    found = quote("sell", raw, snapshot, terms, seen, flow)
    if found is None:
        return 0
    paid = found.brings("sell")
    # Where liquidity is unknown a quote covers a part: the rest is worth no more.
    return paid * raw // found.raw if found.raw < raw else paid


def is_gone(snapshot: Snapshot, liquidity_at_entry: int | None) -> bool:
    """Tell whether the pool's known liquidity is next to nothing, or next to nothing of what it
    was.
    """
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
    """Return the fill that closes a position whose liquidity is gone: all of it, at once, at what
    the pool would pay, possibly nothing.

    mark: the last believable price; what is gone is worth no more. memory: what the pool remembers;
    it pays from what is left.
    """
    flow = pools.carry(memory, snapshot, order.decimals) if snapshot.price else memory.flow
    price, received = min(snapshot.price or 0, mark), 0
    pool = price and pools.find_pool(replace(snapshot, price=price), order.decimals, "sell")
    if pool:
        received = _pay(pools.shift(pool, flow), _keep(order.amount, order.transfer_bps))
    fee_bps = pools.venue_of(snapshot).fee_bps(snapshot.market_cap)
    sold = _sold(order.amount, received, price, order.decimals, fee_bps)
    return _attempt(order, snapshot, memory, flow, costs, **sold._asdict(), rent=-RENT)


def close_at_nothing(
    order: Order, snapshot: Snapshot, mark: int, costs: NetworkCosts = RECORDED_COSTS
) -> Fill:
    """Return the fill that closes a position without a price for a day. `snapshot`: of the mark,
    with the time of the close; no pool is asked.
    """
    sold = _sold(order.amount, 0, mark, order.decimals, 0)
    done = _attempt(order, snapshot, NEVER_TRADED, 0, costs, **sold._asdict(), rent=-RENT)
    return replace(done, turn=0, marks=())
