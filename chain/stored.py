"""JSON of text columns, read so that a damaged one, as a fault of a disk leaves it, is the trouble
of its row alone: it reads as None, and whoever shows it says so or leaves the row out. Pure.
"""

from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, create_model

# Whole numbers and exact decimals, as text.
Whole = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+$")]
Exact = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
Shape = TypeAdapter[Any]


class Stored(BaseModel):
    """A JSON object with at least these members."""

    model_config = ConfigDict(strict=True, defer_build=True)


def make_object(**kinds: Any) -> Any:
    """Return a Stored with members of these types."""
    members: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Object", __base__=Stored, **members)


def make_shape(kind: Any) -> Shape:
    """Return what a stored text has to be: JSON of a Stored, or of another type."""
    if isinstance(kind, type) and issubclass(kind, Stored):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True, defer_build=True))


def read_stored(text: str | bytes | None, shape: Shape) -> Any:
    """Parse a stored text; None where there is none and where it is damaged: no JSON, or of another
    shape.
    """
    try:
        shape.validate_json(text or "null")
        return orjson.loads(text or "null")
    except ValueError:
        return None


# ---- of wallets and trades -----------------------------------------------------------------------
class Results(Stored):
    realizedLamports: Whole
    realizedSol: Exact
    matchedSells: int
    partialSells: int
    unmatchedSells: int
    winningSells: int
    volumeLamports: Whole
    volumeSol: Exact
    observedTrades: int
    failedTransactions: int
    openPositions: int
    failedCostLamports: Whole
    overheadLamports: Whole
    costLeftLamports: Whole
    costLeftReceipts: int
    carriedLots: int


class Position(Stored):
    mint: str
    amountRaw: Whole
    decimals: int
    costLamports: Whole | None
    unknownBasisRaw: Whole


LINES = (
    *("opening", "closing", "realized", "unmatchedProceeds", "openCost", "costLeft", "received"),
    *("sent", "overhead", "failedCost", "other", "difference", "gap"),
)


def _make_books(unit: str) -> Any:
    return make_object(**{f"{one}{unit}": Whole for one in LINES}, costLeftReceipts=int)


RESULTS = make_shape(Results)
AVERAGE_COST = make_shape(make_object(realizedLamports=Whole, matchedSells=int))
POSITIONS = make_shape(list[Position])
RECONCILIATION = make_shape(_make_books("Lamports"))
QUOTE_BOOKS: Any = make_object(reconciliation=_make_books("Raw") | None)
BY_QUOTE = make_shape(dict[str, QUOTE_BOOKS])
QUOTE_IMBALANCE = make_shape(dict[str, int])
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
CHANGES = make_shape(list[tuple[str, Whole, int]])
LOTS = make_shape(list[tuple[str | None, int | str, int | str | None]])
NAMES = make_shape(list[str])
# How many sales were held how long, [seconds, count] each.
HOLDINGS = make_shape(list[tuple[int, int]])
OBJECT = make_shape(dict[str, Any])
TRADE_COLUMNS: dict[str, Shape] = {
    "token_changes": CHANGES,
    "beside_tokens": CHANGES,
    "lots": LOTS,
    "flags": NAMES,
    "counterparties": NAMES,
}
