"""The fill models `amm-cp/1` and `amm-cp/1.1`: kept to make their fills again. Pure.

`amm-cp/1.1` differs from `amm-cp/1` in one rule: write-offs share the drained pool. All arithmetic
is on integers and rounds against the trader.
"""

import hashlib
from typing import Any, NamedTuple

from chain.amounts import sol
from paper.fills import (
    FAILURE_BPS,
    ONE,
    RENT,
    UNKNOWN_LIQUIDITY,
    UNKNOWN_MAX,
    Amounts,
    Fill,
    Order,
)
from paper.market import ALL_SOL, LAMPORTS, SCALE, Snapshot, value_of

MODEL = "amm-cp/1.1"
# Its write-offs did not share the pool.
FIRST_MODEL = "amm-cp/1"
POOL_FEE_BPS = 30
# Lamports for each attempt.
BASE_FEE = 5_000
PRIORITY_FEE = 50_000
NETWORK_FEE = BASE_FEE + PRIORITY_FEE
# Of the pool's SOL side, per snapshot, for all traders together.
POOL_SHARE_BPS = 200
# On the price where liquidity is unknown.
UNKNOWN_PENALTY_BPS = 500

FIRST_ASSUMPTIONS = (
    "decided on one snapshot, filled on a later one after the stated latency",
    (
        f"constant-product pool whose SOL side is half its liquidity, pool fee {POOL_FEE_BPS} basis"
        " points each way"
    ),
    (
        f"network fee of {sol(NETWORK_FEE)} SOL per attempt ({sol(BASE_FEE)} base,"
        f" {sol(PRIORITY_FEE)} priority), failed attempts included"
    ),
    f"rent of {sol(RENT)} SOL paid on the first buy and returned on the close",
    (
        f"at most {POOL_SHARE_BPS // 100}% of the pool per snapshot, shared by all simulated"
        " traders; the pool itself does not react"
    ),
    (
        f"where liquidity is unknown: a price {UNKNOWN_PENALTY_BPS // 100}% worse, one fill per"
        f" snapshot, of at most {sol(UNKNOWN_MAX)} SOL"
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
        network_fee=NETWORK_FEE,
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
