"""What a venue takes, and how its pools are priced: the table behind the fill model. Pure.

Basis points, read on 2026-11-22. Pump: solana.pump.fun/docs/fees, whose steps from 44,210 to 98,240
SOL were not read: the fee before them stands. Raydium: docs.raydium.io/reference/fee-comparison;
of its CPMM pools nobody tells which of three fees they take: the highest.
"""

from typing import NamedTuple

LAMPORTS = 10**9
# A pool of which nobody knows what it takes.
UNKNOWN_FEE_BPS = 100


class Step(NamedTuple):
    """A fee in basis points, from a market capitalization in SOL on."""

    cap_sol: int
    fee_bps: int


class Venue(NamedTuple):
    """How pools of a venue pay. `kind`: curve | product | uncalibrated; fees by rising cap."""

    kind: str
    steps: tuple[Step, ...]
    # Whether its pools are priced as if their vault held more SOL than it does.
    has_virtual: bool = False

    def fee_bps(self, market_cap: int | None) -> int:
        """Return the fee at a market capitalization in lamports; the highest without one."""
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
# By the provider's id.
VENUES = {
    "pumpfun": Venue("curve", (Step(0, 125),)),
    "pumpswap": Venue("product", PUMP_STEPS, has_virtual=True),
    "raydium": Venue("product", (Step(0, 25),)),
    "raydium/cpmm": Venue("product", (Step(0, 100),)),
}
# Concentrated and dynamic pools, and whatever else is not in the table.
UNCALIBRATED = Venue("uncalibrated", (Step(0, UNKNOWN_FEE_BPS),))


def find_venue(name: str | None) -> Venue:
    """Return what is known of a venue; UNCALIBRATED where that is nothing."""
    return VENUES.get(name or "", UNCALIBRATED)
