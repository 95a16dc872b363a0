"""The risk of a wallet's results, as it is stored: of all it did, and of each of its spans."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from chain.ledger.lots import find_lower_median
from chain.ledger.risk import Stretch, join_stretches
from chain.stored.columns import HOLDINGS
from storage.stored import read_stored

NUMBERS = (
    *("sales", "winning", "best", "worst", "closed", "won", "uncounted"),
    *("days", "first_day", "last_day"),
)


class StoredRisk(NamedTuple):
    """A stretch without its holdings, and the median holding (seconds)."""

    stretch: Stretch
    median_holding: int | None


def dump_stretch(stretch: Stretch) -> dict[str, Any]:
    """The columns of a Stretch."""
    return {
        **{name: getattr(stretch, name) for name in NUMBERS},
        "median_holding": stretch.median_holding,
        "holdings": orjson.dumps(sorted(stretch.holdings.items())).decode(),
    }


def load_risk(parts: Sequence[Mapping[str, Any]]) -> StoredRisk | None:
    """Join the stretches of stored columns, in the order of time; None if they are damaged."""
    joined = join_stretches(Stretch(*(part[name] for name in NUMBERS)) for part in parts)
    if len(parts) == 1:
        # The usual case: the median is stored, so thousands of sales need not be counted.
        return StoredRisk(joined, parts[0]["median_holding"])
    # Not a Counter, which takes half as long again: a bot that trades much has thousands.
    holdings: dict[int, int] = {}
    for part in parts:
        stored = read_stored(part["holdings"], HOLDINGS)
        if stored is None:
            return None
        for seconds, count in stored:
            holdings[seconds] = holdings.get(seconds, 0) + count
    return StoredRisk(joined, find_lower_median(sorted(holdings.items())))
