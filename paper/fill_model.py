"""What the fill model assumes, and a digest of its constants. Pure."""

import hashlib

from chain.amounts import sol
from paper import fills, pools, venues
from paper.fills import FAILURE_BPS, ONE, RENT, SLIPPAGE_LIMIT_BPS, WIDE_BPS

# Numbers that decide what a fill pays, by module.
OF_FILLS = (
    *("ONE", "RENT", "WIDE_BPS", "UNKNOWN_MAX", "MAX_ATTEMPTS", "WAIT_INTERVALS"),
    *("SLIPPAGE_LIMIT_BPS", "GONE_SHARE", "GONE_USD_CENTS", "MAX_NETWORK_FEE"),
)
OF_POOLS = ("CURVE", "CURVE_VIRTUAL_SOL", "CURVE_KEPT_RAW", "CURVE_DECIMALS")


def list_constants() -> list[tuple[object, ...]]:
    """List all constants that decide what a fill pays, the table of venues among them."""
    table = {**venues.VENUES, "": venues.UNCALIBRATED}
    return [
        *((name, getattr(fills, name)) for name in OF_FILLS),
        ("costs", tuple(fills.RECORDED_COSTS)),
        ("failing", fills.FAILURE_BPS),
        *((name, getattr(pools, name)) for name in OF_POOLS),
        *(
            (name, one.kind, [tuple(step) for step in one.steps], one.has_virtual)
            for name, one in table.items()
        ),
    ]


# Sixteen digits of SHA-256.
MODEL_HASH = hashlib.sha256(repr(list_constants()).encode()).hexdigest()[:16]


ASSUMPTIONS = (
    "decided on one snapshot, filled on the first one after the stated latency that brings another"
    " quote; an order whose quote never changes expires",
    "pool fee by venue and market capitalization, from a dated table; of an unknown venue 1%",
    "launch curves priced from the price alone, constant product from the pool's side in SOL, on"
    f" PumpSwap with its virtual reserves; any other pool is filled {WIDE_BPS // 100}% wide and"
    " does not count",
    "the pool remembers what simulated traders put in and took out, all of them together, and"
    " forgets it as observed volume passes through; it never pays more than it holds",
    "network fee and tip of each attempt drawn from what real swaps paid, 50th to 90th percentile;"
    f" one attempt in {ONE // FAILURE_BPS} fails and pays it all the same",
    f"an attempt that would fill more than {SLIPPAGE_LIMIT_BPS // 100}% (or what the strategy"
    " allows) worse than quoted at the decision fails",
    "a token's own transfer fee is taken on the way in and on the way out",
    f"rent of {sol(RENT)} SOL paid on the first buy and returned on the close",
    "a price under a twentieth of the last one is believed where a second provider, or the next"
    " snapshot, says so",
    "open positions are valued at what the pool would pay for them",
    "every token can be sold: a token that blocks its sellers is bought and sold like any other",
    "nobody sandwiches an order or trades ahead of it",
)
