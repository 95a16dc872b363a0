"""The fill model `amm-cp/1.1`: what an order would get from a constant-product pool, to the
lamport. Pure.

It differs from `amm-cp/1` in one rule: write-offs share the drained pool. Fills of `amm-cp/1` keep
that name, and `paper.refill` can still make them: a function that depends on the model takes it as
an argument. All arithmetic is on integers and rounds against the trader. ASSUMPTIONS lists what the
model assumes; each close shows it.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from paper.market import ALL_SOL, LAMPORTS, SCALE, Snapshot, value_of

MODEL = "amm-cp/1.1"
# Its write-offs did not share the pool.
FIRST_MODEL = "amm-cp/1"
# Basis points in a whole.
ONE = 10_000
POOL_FEE_BPS = 30
# Lamports for each attempt.
BASE_FEE = 5_000
PRIORITY_FEE = 50_000
NETWORK_FEE = BASE_FEE + PRIORITY_FEE
# Lamports that a token account holds, returned when it is closed.
RENT = 2_039_280
# Seeded chance that an attempt fails and pays its network fee only.
FAILURE_BPS = 500
# Of the pool's SOL side, per snapshot, for all traders together.
POOL_SHARE_BPS = 200
# On the price where liquidity is unknown.
UNKNOWN_PENALTY_BPS = 500
# Lamports that may move there per snapshot, in one fill.
UNKNOWN_MAX = 10**9
# Of one order, partial fills included.
MAX_ATTEMPTS = 8
# Scout intervals after the latency in which an order may fill.
WAIT_INTERVALS = 3
# Liquidity is gone below a twentieth of what it was at entry,
GONE_SHARE = 20
# ... and below so much.
GONE_USD_CENTS = 100_00

FIRST_ASSUMPTIONS = (
    "decided on one snapshot, filled on a later one after the stated latency",
    (
        f"constant-product pool whose SOL side is half its liquidity, pool fee {POOL_FEE_BPS} basis"
        " points each way"
    ),
    (
        f"network fee {NETWORK_FEE} lamports per attempt ({BASE_FEE} base, {PRIORITY_FEE}"
        " priority), failed attempts included"
    ),
    f"rent {RENT} lamports paid on the first buy and returned on the close",
    (
        f"at most {POOL_SHARE_BPS // 100}% of the pool per snapshot, shared by all simulated"
        " traders; the pool itself does not react"
    ),
    (
        f"where liquidity is unknown: a price {UNKNOWN_PENALTY_BPS // 100}% worse, one fill per"
        f" snapshot, of at most {UNKNOWN_MAX} lamports"
    ),
)
ASSUMPTIONS = (
    *FIRST_ASSUMPTIONS,
    (
        "positions that are written off on one snapshot share what is left in the pool, the first"
        " one first"
    ),
)
ASSUMPTIONS_OF = {FIRST_MODEL: FIRST_ASSUMPTIONS, MODEL: ASSUMPTIONS}
# Closing reasons that book a whole position at once, beyond the share of a snapshot.
WRITE_OFFS = ("liquidity_gone", "price_gone")
UNKNOWN_LIQUIDITY = "liquidity_unknown"
STALE_PRICE = "stale_price"


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
    slippage: int = 0
    pool_fee: int = 0
    network_fee: int = NETWORK_FEE
    # Negative where it is returned.
    rent: int = 0
    failed: bool = False
    reason: str = ""
    # liquidity_unknown
    marks: tuple[str, ...] = ()

    @property
    def fees(self) -> int:
        """Lamports paid to the pool and the network."""
        return self.pool_fee + self.network_fee

    @property
    def gross(self) -> int:
        """What it takes of the order's amount: lamports of a buy, raw units of a sale."""
        return self.mid + self.slippage + self.pool_fee if self.side == "buy" else self.raw

    @property
    def cash(self) -> int:
        """What it does to the cash, in lamports."""
        value = self.mid - self.slippage if self.side == "sell" else -self.mid - self.slippage
        return value - self.fees - self.rent


class PoolUsage:
    """What simulated orders have taken from one pool at one snapshot. Each side moves its own
    price, so that no trader profits from another's impact.
    """

    def __init__(self) -> None:
        self.sol_in = self.raw_out = self.sol_out = self.raw_in = 0
        # One fill was made where liquidity is unknown; nobody knows what is left.
        self.blind = False

    def add(self, fill: Fill) -> None:
        """Count what a fill took; a failed one took nothing."""
        if fill.failed:
            return
        if UNKNOWN_LIQUIDITY in fill.marks:
            self.blind = True
        elif fill.side == "buy":
            self.sol_in += fill.mid + fill.slippage
            self.raw_out += fill.raw
        else:
            self.sol_out += fill.mid - fill.slippage
            self.raw_in += fill.raw


class Amounts(NamedTuple):
    """What an attempt moves: raw units; their value, slippage and the pool's fee in lamports."""

    raw: int
    mid: int
    slippage: int
    pool_fee: int


def fill(
    order: Order,
    snapshot: Snapshot,
    usage: PoolUsage,
    *,
    first: bool = False,
    last_raw: int | None = None,
    model: str = MODEL,
) -> Fill | None:
    """Return the fill of an order on a snapshot, or None where the pool has nothing left for it.

    first: there is no position yet, so rent is due. last_raw: the position's raw amount; selling
    all of it returns the rent. The caller has checked that the order is due and the snapshot
    believable.
    """
    taken = (
        _buy(order.remaining, snapshot, order.decimals, usage)
        if order.side == "buy"
        else _sell(order.remaining, snapshot, order.decimals, usage)
    )
    if taken is None:
        return None
    if is_failing(order, model):
        return _attempt(order, snapshot, failed=True)
    rent = RENT if first else -RENT if order.side == "sell" and taken.raw == last_raw else 0
    return _attempt(order, snapshot, **taken._asdict(), rent=rent)


def _attempt(order: Order, snapshot: Snapshot, **amounts: Any) -> Fill:
    marks = (UNKNOWN_LIQUIDITY,) if snapshot.reserve is None else ()
    return Fill(
        order.number,
        order.mint,
        order.side,
        snapshot.id,
        snapshot.at,
        order.decided_on,
        order.decided_at,
        reason=order.reason,
        marks=marks,
        **amounts,
    )


def is_failing(order: Order, model: str = MODEL) -> bool:
    """Tell whether this attempt of the order fails. The chance is seeded by handle, order number,
    model and attempt, so that it is the same in every replay.
    """
    digest = hashlib.sha256(
        f"{order.handle}|{order.number}|{model}|{order.attempts}".encode()
    ).digest()
    return int.from_bytes(digest[:8]) % ONE < FAILURE_BPS


class Pool(NamedTuple):
    """The two sides of a pool, in lamports and in raw units."""

    sol: int
    tokens: int


def _pool(snapshot: Snapshot, decimals: int) -> Pool:
    """Return the pool of a snapshot whose reserve and price are known."""
    sol = snapshot.reserve or 0
    return Pool(sol, sol * 10**decimals * SCALE // (snapshot.known_price * LAMPORTS))


def _room(snapshot: Snapshot, usage: PoolUsage) -> int:
    """Return the lamports that may still move on this snapshot."""
    if snapshot.reserve is None:
        return 0 if usage.blind else UNKNOWN_MAX
    return snapshot.reserve * POOL_SHARE_BPS // ONE - usage.sol_in - usage.sol_out


def _buy(lamports: int, snapshot: Snapshot, decimals: int, usage: PoolUsage) -> Amounts | None:
    """Return what at most `lamports` buy, fee included; None where nothing is left to buy."""
    net = lamports - _fee(lamports)
    paid = min(net, _room(snapshot, usage))
    if paid <= 0:
        return None
    if snapshot.reserve is None:
        raw = (
            paid
            * ONE
            * 10**decimals
            * SCALE
            // (snapshot.known_price * LAMPORTS * (ONE + UNKNOWN_PENALTY_BPS))
        )
    else:
        sol, tokens = _pool(snapshot, decimals)
        raw = (tokens - usage.raw_out) * paid // (sol + usage.sol_in + paid)
    fee = _fee(lamports) if paid == net else -(-paid * POOL_FEE_BPS // (ONE - POOL_FEE_BPS))
    return _bought(paid, raw, fee, snapshot.known_price, decimals)


def _bought(paid: int, raw: int, fee: int, price: int, decimals: int) -> Amounts | None:
    mid = value_of(raw, price, decimals)
    # Worth less than a lamport, the purchase would have no price.
    return Amounts(raw, mid, paid - mid, fee) if mid > 0 else None


def _sell(raw: int, snapshot: Snapshot, decimals: int, usage: PoolUsage) -> Amounts | None:
    """Return what a sale of at most `raw` units moves; None where the pool pays nothing more."""
    room = _room(snapshot, usage)
    if room <= 0:
        return None
    if snapshot.reserve is None:
        raw = min(raw, room * 10**decimals * SCALE // (snapshot.known_price * LAMPORTS))
        received = (
            value_of(raw, snapshot.known_price, decimals) * (ONE - UNKNOWN_PENALTY_BPS) // ONE
        )
    else:
        sol, tokens = _pool(snapshot, decimals)
        sol, tokens = sol - usage.sol_out, tokens + usage.raw_in
        raw = min(raw, room * tokens // (sol - room))
        received = _pay(sol, tokens, raw)
    return _sold(raw, received, snapshot.known_price, decimals) if raw > 0 else None


def _pay(sol: int, tokens: int, raw: int) -> int:
    """Return the lamports that a pool of `sol` and `tokens` pays for `raw` units, before its fee; 0
    where either side is empty.

    The token side is 0 where one unit is worth more than the pool holds (few decimals, a high
    price).
    """
    return sol * raw // (tokens + raw) if sol > 0 and tokens > 0 else 0


def _sold(raw: int, received: int, price: int, decimals: int) -> Amounts:
    # The value of a position that rose beyond all SOL there is would not fit its column.
    mid = min(ALL_SOL, value_of(raw, price, decimals))
    received = min(received, mid)
    return Amounts(raw, mid, mid - received, _fee(received))


def _fee(lamports: int) -> int:
    return -(-lamports * POOL_FEE_BPS // ONE)


def is_gone(snapshot: Snapshot, liquidity_at_entry: int | None) -> bool:
    """Tell whether the pool's known liquidity is next to nothing, or next to nothing of what it
    was.
    """
    liquidity = snapshot.liquidity
    return snapshot.reserve == 0 or (
        liquidity is not None
        and (liquidity < GONE_USD_CENTS or liquidity * GONE_SHARE < (liquidity_at_entry or 0))
    )


def write_off(order: Order, snapshot: Snapshot, mark: int, usage: PoolUsage) -> Fill:
    """Return the fill that closes a position whose liquidity or price is gone: all of it, at once,
    at what the pool would pay, possibly nothing.

    mark: the last believable price; what is gone is worth no more. usage: what others took on this
    snapshot; the pool pays from what is left.
    """
    raw, price, received = order.amount, min(snapshot.price or 0, mark), 0
    if snapshot.reserve and price:
        sol, tokens = _pool(snapshot, order.decimals)
        received = _pay(sol - usage.sol_out, tokens + usage.raw_in, raw)
    sold = _sold(raw, received, price, order.decimals)
    return _attempt(order, snapshot, **sold._asdict(), rent=-RENT)
