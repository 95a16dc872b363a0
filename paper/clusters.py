"""Intervals over closes that are not independent: a seeded bootstrap of clusters. Pure.

Traders of one family make the same trades at the same time, so closes are put into clusters (one
token, entries within an hour) and whole clusters are drawn again. Nothing here is money: rates and
returns are ratios of integers, rounded for display.
"""

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

ENTRY_WINDOW_MS = 3_600_000
# Draws of all clusters with replacement.
DRAWS = 1_000
LEVEL = "95 %, clustered"
# The 97.5 % quantile of Student's t for 1, 2, 3... degrees of freedom; 1.96 beyond them.
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
    *(2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056),
    *(2.052, 2.048, 2.045, 2.042),
)
NORMAL = 1.960


class Entered(Protocol):
    """What tells the cluster of a close."""

    @property
    def mint(self) -> str:
        """Its token."""

    @property
    def opened_at(self) -> int:
        """When its position was opened, in ms."""


Close = TypeVar("Close", bound=Entered)


class Share(NamedTuple):
    """What a cluster adds to a ratio."""

    part: int
    whole: int


class Interval(NamedTuple):
    """Where a ratio lies; both bounds belong to it."""

    low: float
    high: float


def cluster(closes: Sequence[Close]) -> list[list[Close]]:
    """Put closes into clusters: of one token, entered within an hour of the first of them."""
    clusters: list[list[Close]] = []
    newest: dict[str, list[Close]] = {}
    for close in sorted(closes, key=lambda one: (one.opened_at, one.mint)):
        group = newest.get(close.mint)
        if group is None or close.opened_at - group[0].opened_at > ENTRY_WINDOW_MS:
            group = newest[close.mint] = []
            clusters.append(group)
        group.append(close)
    return clusters


def find_interval(shares: Sequence[Share]) -> Interval | None:
    """Return the 95 % interval of sum(part) / sum(whole) over clusters; None for fewer than two.

    The percentiles are widened as Student's t is wider than the normal distribution (Hesterberg
    2015): plain ones are too narrow where clusters are few.
    """
    return _find_interval(tuple(shares)) if len(shares) > 1 else None


@lru_cache(maxsize=256)
def _find_interval(shares: tuple[Share, ...]) -> Interval:
    count = len(shares)
    # Seeded by the data, so that the same closes give the same interval everywhere.
    chance = random.Random(repr(shares))
    ratios = []
    for _ in range(DRAWS):
        drawn = chance.choices(shares, k=count)
        whole = sum(share.whole for share in drawn)
        if whole:
            ratios.append(sum(share.part for share in drawn) / whole)
    ratios.sort()
    tail = _tail(count)
    last = len(ratios) - 1
    return Interval(ratios[math.floor(last * tail)], ratios[math.ceil(last * (1 - tail))])


def _tail(count: int) -> float:
    """Return what is cut off at either end, as a share of the draws."""
    student = STUDENT[count - 2] if count - 2 < len(STUDENT) else NORMAL
    return (1 + math.erf(-student * math.sqrt(count / (count - 1)) / math.sqrt(2))) / 2


def find_rate_interval(wins: Sequence[Share]) -> Interval | None:
    """Return the 95 % interval of a rate whose clusters give (wins, closes).

    A draw of clusters that all won has no spread: one win and one loss more, each as large as the
    mean cluster, stand for what was not seen (Agresti and Coull 1998).
    """
    if len(wins) < 2:
        return None
    size = max(1, round(sum(share.whole for share in wins) / len(wins)))
    return find_interval([*wins, Share(size, size), Share(0, size)])
