"""JSON of text columns, read so that a damaged one, as a fault of a disk leaves it, is the trouble
of its row alone: it reads as None, and whoever shows it says so or leaves the row out. Pure.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

# What a value has to be. A mapping: an object with at least these members; a list of one shape: an
# array of such values; a tuple: an array of exactly these; a pattern: text it matches; else a type.
Shape = Any


class Each(NamedTuple):
    """The shape of an object whose members have any names, and all this shape."""

    shape: Shape


class Nullable(NamedTuple):
    """The shape of what may be null."""

    shape: Shape


def read_stored(text: str | bytes | None, shape: Shape) -> Any:
    """Parse a stored text; None where there is none and where it is damaged: no JSON, or of another
    shape.
    """
    if text == "[]" and isinstance(shape, list):
        # Most lists of a trade are: of a page of them a third of the time is saved.
        return []
    try:
        value = orjson.loads(text or "null")
    except ValueError:
        return None
    return value if has_shape(value, shape) else None


def has_shape(value: Any, shape: Shape) -> bool:
    """Tell whether a parsed value has a shape."""
    match shape:
        case Nullable():
            return value is None or has_shape(value, shape.shape)
        case Each():
            return isinstance(value, dict) and all(
                has_shape(one, shape.shape) for one in value.values()
            )
        case Mapping():
            return isinstance(value, dict) and all(
                name in value and has_shape(value[name], inner) for name, inner in shape.items()
            )
        case list():
            return isinstance(value, list) and all(has_shape(one, shape[0]) for one in value)
        case tuple():
            is_long = isinstance(value, list) and len(value) == len(shape)
            return is_long and all(map(has_shape, value, shape))
        case re.Pattern():
            return isinstance(value, str) and shape.fullmatch(value) is not None
    # Python's bool is an int, JSON's is none.
    return isinstance(value, shape) and not isinstance(value, bool)


# ---- of wallets and trades -----------------------------------------------------------------------
# Whole numbers and exact decimals, as text.
WHOLE, EXACT = re.compile(r"-?[0-9]+"), re.compile(r"-?[0-9]+(\.[0-9]+)?")
RESULTS: Shape = {
    "realizedLamports": WHOLE,
    "realizedSol": EXACT,
    **dict.fromkeys(("matchedSells", "partialSells", "unmatchedSells", "winningSells"), int),
    "volumeLamports": WHOLE,
    "volumeSol": EXACT,
    **dict.fromkeys(("observedTrades", "failedTransactions", "openPositions"), int),
    **dict.fromkeys(("failedCostLamports", "overheadLamports", "costLeftLamports"), WHOLE),
    **dict.fromkeys(("costLeftReceipts", "carriedLots"), int),
}
POSITIONS: Shape = [
    {
        "mint": str,
        "amountRaw": WHOLE,
        "decimals": int,
        "costLamports": Nullable(WHOLE),
        "unknownBasisRaw": WHOLE,
    }
]
LINES = (
    *("opening", "closing", "realized", "unmatchedProceeds", "openCost", "costLeft", "received"),
    *("sent", "overhead", "failedCost", "other", "difference", "gap"),
)
RECONCILIATION: Shape = {**{f"{one}Lamports": WHOLE for one in LINES}, "costLeftReceipts": int}
AVERAGE_COST: Shape = {"realizedLamports": WHOLE, "matchedSells": int}
BY_QUOTE = Each(
    {"reconciliation": Nullable({**{f"{one}Raw": WHOLE for one in LINES}, "costLeftReceipts": int})}
)
QUOTE_IMBALANCE = Each(int)
WALLET_COLUMNS: dict[str, Shape] = {
    "results": RESULTS,
    "positions": POSITIONS,
    "reconciliation": RECONCILIATION,
    "average_cost": AVERAGE_COST,
    "by_quote": BY_QUOTE,
    "quote_imbalance": QUOTE_IMBALANCE,
}
# What a trade moved, [mint, raw units, decimals] each; what a sale took from, [trade, raw units,
# lamports] each.
CHANGES: Shape = [(str, WHOLE, int)]
LOTS: Shape = [(Nullable(str), int | str, Nullable(int | str))]
NAMES: Shape = [str]
# How many sales were held how long, [seconds, count] each.
HOLDINGS: Shape = [(int, int)]
TRADE_COLUMNS: dict[str, Shape] = {
    "token_changes": CHANGES,
    "beside_tokens": CHANGES,
    "lots": LOTS,
    "flags": NAMES,
    "counterparties": NAMES,
}
