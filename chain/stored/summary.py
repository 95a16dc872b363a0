"""Summarize a ledger for readers: results, positions, reconciliation. Pure."""

import datetime
from collections.abc import Iterable
from typing import Any

import orjson

from chain.amounts import show_fixed, show_raw, sol
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sums import Sums
from chain.stored.tables import COVERAGE, WALLET_PARTS
from storage.rows import read_stored


def show_results(ledger: Ledger) -> dict[str, Any]:
    """Return a Bot's results object, with lamports as text and exact SOL."""
    t = ledger.accounts[WHOLE].sums
    return {
        "realizedLamports": str(t.realized),
        "realizedSol": sol(t.realized),
        "worstCaseLamports": str(t.worst_case),
        "worstCaseSol": sol(t.worst_case),
        **show_rates(t),
        "matchedSells": t.matched,
        "partialSells": t.partial,
        "unmatchedSells": t.unmatched,
        "winningSells": t.winning,
        "volumeLamports": str(t.volume),
        "volumeSol": sol(t.volume),
        "observedTrades": t.trades,
        "failedTransactions": t.failed,
        "failedCostLamports": str(t.failed_cost),
        "overheadLamports": str(t.overhead),
        "costLeftLamports": str(t.cost_left),
        "costLeftReceipts": t.cost_left_receipts,
        "carriedLots": t.carried,
        "openPositions": len(ledger.list_positions()),
    }


def show_rates(t: Sums) -> dict[str, Any]:
    """Return the return on cost, the win rate and its counts.

    The rates are decimal text, or None if there are no sales.
    """
    return {
        "returnPct": show_fixed(t.return_points, 2),
        "winRate": show_fixed(t.win_points, 4),
        "positions": t.positions,
        "positionsWon": t.positions_won,
        "positionsOpen": t.held,
    }


def show_positions(ledger: Ledger, money: str = SOL) -> list[dict[str, Any]]:
    """Return [{mint, amountRaw, decimals, costLamports or null, unknownBasisRaw}, ...]."""
    return [
        {
            "mint": one.mint,
            "amountRaw": str(one.amount),
            "decimals": one.decimals,
            "costLamports": show_raw(one.cost),
            "unknownBasisRaw": str(one.unknown),
        }
        for one in ledger.list_positions(money)
    ]


def show_reconciliation(ledger: Ledger, money: str = SOL) -> dict[str, Any] | None:
    """Return the reconciliation, or None until the whole history was listed.

    Lamports are text. `gapLamports` is the part of the difference that gaps explain.
    """
    if not ledger.backfilled:
        return None
    told = ledger.reconcile(money)
    return {
        "openingLamports": str(told.opening),
        "closingLamports": str(told.closing),
        "realizedLamports": str(told.realized),
        "unmatchedProceedsLamports": str(told.unmatched_proceeds),
        "openCostLamports": str(told.open_cost),
        "costLeftLamports": str(told.cost_left),
        "costLeftReceipts": told.cost_left_receipts,
        "receivedLamports": str(told.received),
        "sentLamports": str(told.sent),
        "overheadLamports": str(told.overhead),
        "failedCostLamports": str(told.failed_cost),
        "otherLamports": str(told.other),
        "differenceLamports": str(told.difference),
        "gapLamports": str(told.gaps),
    }


def show_stablecoins(ledger: Ledger) -> dict[str, Any]:
    """Return {mint: results as for SOL}, with `Raw` instead of `Lamports` and only positions with a
    known cost.
    """
    return {money: _show_quote(ledger, money) for money in sorted(ledger.inventories) if money}


def _show_quote(ledger: Ledger, money: str) -> dict[str, Any]:
    told = show_reconciliation(ledger, money)
    known = [one for one in show_positions(ledger, money) if one["costLamports"] is not None]
    return {
        "reconciliation": told and _name_raw(told),
        "averageCost": _name_raw(show_average(ledger, money)),
        "positions": [_name_raw(one) for one in known],
    }


def _name_raw(shown: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("Lamports", "Raw"): value for name, value in shown.items()}


def show_average(ledger: Ledger, money: str = SOL) -> dict[str, Any]:
    average = ledger.inventories[money].average
    return {"realizedLamports": str(average.realized), "matchedSells": average.matched}


def show_time(seconds: int | None) -> str | None:
    """Format Unix seconds as RFC 3339."""
    if seconds is None:
        return None
    # isoformat would take twice as long, and documents contain thousands of times.
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return orjson.dumps(moment, option=orjson.OPT_UTC_Z)[1:-1].decode()


NOT_POLLED: dict[str, Any] = {
    "state": "none",
    **dict.fromkeys(("observedFrom", "observedTo", "firstSlot", "lastSlot", "checkedAt")),
    **{"receipts": 0, "pending": 0, "gaps": [], "openingInventoryUnknown": []},
    "note": "this wallet hasn't been checked yet",
}
UNREADABLE: dict[str, Any] = {
    **NOT_POLLED,
    "note": "The stored coverage can't be read. It will be rebuilt at the wallet's next check.",
}


def read_coverage(text: str | None) -> dict[str, Any]:
    """Parse a coverage. Return NOT_POLLED if it is missing, or UNREADABLE if it is damaged.

    A damaged coverage must not stop anything, because it is derived.
    """
    if text is None:
        return NOT_POLLED
    told: dict[str, Any] | None = read_stored(text, COVERAGE)
    return UNREADABLE if told is None else told


def list_damaged(coverage: str | None, parts: Iterable[str | None]) -> list[str]:
    """Return the names of a wallet's derived columns that can't be read.

    `parts` have the names in WALLET_PARTS.
    """
    pairs = zip(WALLET_PARTS.items(), parts, strict=True)
    damaged = [
        name
        for (name, part), text in pairs
        if text is not None and read_stored(text, part.shape) is None
    ]
    return damaged + ["coverage"] * (read_coverage(coverage) is UNREADABLE)
