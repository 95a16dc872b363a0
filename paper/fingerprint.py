"""The constants of the fill model, in one digest that stands beside its id. Pure."""

import hashlib

from paper import fills, pools, venues

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
        *((name, one.kind, [tuple(step) for step in one.steps]) for name, one in table.items()),
    ]


# Sixteen digits of SHA-256.
MODEL_HASH = hashlib.sha256(repr(list_constants()).encode()).hexdigest()[:16]
