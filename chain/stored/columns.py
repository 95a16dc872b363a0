"""Schemas of JSON columns of wallets and trades."""

from typing import Annotated, Any, Literal

from storage.stored import Exact, Moment, Part, Stored, Whole, make_object, make_shape


class Results(Stored):
    realizedLamports: Whole
    realizedSol: Exact
    worstCaseLamports: Whole
    worstCaseSol: Exact
    returnPct: Exact | None
    winRate: Exact | None
    positions: int
    positionsWon: int
    positionsOpen: int
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


COVERAGE = make_shape(
    make_object(
        **dict.fromkeys(("observedFrom", "observedTo", "checkedAt"), Moment | None),
        **dict.fromkeys(("firstSlot", "lastSlot"), int | None),
        state=Literal["none", "backfilling", "partial", "complete"],
        receipts=int,
        pending=int,
        gaps=list[make_object(fromSlot=int, toSlot=int, reason=str)],  # type: ignore[misc]
        openingInventoryUnknown=list[str],
        note=str | None,
    )
)
LINES = (
    *("opening", "closing", "realized", "unmatchedProceeds", "openCost", "costLeft", "received"),
    *("sent", "overhead", "failedCost", "other", "difference", "gap"),
)


def _make_books(unit: str) -> Any:
    return make_object(**{f"{one}{unit}": Whole for one in LINES}, costLeftReceipts=int)


QUOTE_BOOKS: Any = make_object(
    reconciliation=_make_books("Raw") | None,
    positions=list[make_object(mint=str)],  # type: ignore[misc]
)
WALLET_PARTS = {
    "results": Part(Results),
    "positions": Part(list[Position]),
    "reconciliation": Part(_make_books("Lamports")),
    "average_cost": Part(make_object(realizedLamports=Whole, matchedSells=int)),
    "by_quote": Part(dict[str, QUOTE_BOOKS]),
    "quote_imbalance": Part(dict[str, int]),
}
# [mint, raw units, decimals] of each token a trade moved; [trade, raw units, cost] of each lot a
# sale used.
CHANGES = Part(list[tuple[str, Whole, int]])
LOTS = Part(list[tuple[str | None, int | str, int | str | None]])
NAMES = Part(list[str])
Changes = Annotated[list[list[Any]], CHANGES]
Lots = Annotated[list[list[Any]], LOTS]
Names = Annotated[list[str], NAMES]
# How long positions were held: [seconds, count] each.
HOLDINGS = make_shape(list[tuple[int, int]])
OBJECT = make_shape(dict[str, Any])
