"""Stored results and holding times of a wallet's positions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from chain.ledger.lots import find_lower_median
from chain.ledger.positions import Positions
from chain.stored.columns import HOLDINGS
from storage.stored import read_stored


class StoredRisk(NamedTuple):
    """The best and worst result of a position, and the median holding time (seconds)."""

    best: int | None = None
    worst: int | None = None
    median_holding: int | None = None


def dump_positions(positions: Positions) -> dict[str, Any]:
    best, worst = positions.find_ends() or (None, None)
    holdings = sorted(positions.holdings.items())
    return {
        "best": best,
        "worst": worst,
        "median_holding": find_lower_median(holdings),
        "holdings": orjson.dumps(holdings).decode(),
    }


def load_risk(parts: Sequence[Mapping[str, Any]]) -> StoredRisk | None:
    """Combine the stored columns of several wallets; None if they are damaged."""
    if not parts:
        return StoredRisk()
    if len(parts) == 1:
        # Usual case: the median is stored, so thousands of positions needn't be counted.
        (part,) = parts
        return StoredRisk(part["best"], part["worst"], part["median_holding"])
    holdings: dict[int, int] = {}
    for part in parts:
        stored = read_stored(part["holdings"], HOLDINGS)
        if stored is None:
            return None
        for seconds, count in stored:
            holdings[seconds] = holdings.get(seconds, 0) + count
    best = max((part["best"] for part in parts if part["best"] is not None), default=None)
    worst = min((part["worst"] for part in parts if part["worst"] is not None), default=None)
    return StoredRisk(best, worst, find_lower_median(sorted(holdings.items())))
