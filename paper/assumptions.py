"""What the fill model assumes, in sentences that each close shows. Pure."""

from chain.amounts import sol
from paper.fills import FAILURE_BPS, ONE, RENT, SLIPPAGE_LIMIT_BPS, WIDE_BPS

ASSUMPTIONS = (
    "decided on one snapshot, filled on the first one after the stated latency that brings another"
    " quote; an order whose quote never changes expires",
    "pool fee by venue and market capitalization, from a dated table; of an unknown venue 1%",
    "launch curves priced from the price alone, constant product from the pool's side in SOL; any"
    f" other pool is filled {WIDE_BPS // 100}% wide and does not count",
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
)
