"""The shapes of JSON columns of wallets and trades."""

from typing import Annotated, Any

from storage.stored import (
    Damaged,
    Exact,
    Part,
    Shape,
    Stored,
    Whole,
    decode,
    make_object,
    make_shape,
)


def read_stored(text: str | bytes | None, shape: Shape) -> Any:
    """Parse a stored text; None where there is none and where it is damaged."""
    try:
        return decode(text, shape)
    except Damaged:
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
Changes = Annotated[list[list[Any]], Part(list[tuple[str, Whole, int]])]
Lots = Annotated[list[list[Any]], Part(list[tuple[str | None, int | str, int | str | None]])]
Names = Annotated[list[str], Part(list[str])]
NAMES = make_shape(list[str])
# How many sales were held how long, [seconds, count] each.
HOLDINGS = make_shape(list[tuple[int, int]])
OBJECT = make_shape(dict[str, Any])
