"""Intervals over closes that are not independent: a seeded bootstrap of clusters. Pure.

Traders of one family make the same trades at the same time, so closes are put into clusters (one
token, entries within an hour) and whole clusters are drawn again. Nothing here is money: rates and
returns are ratios of integers, rounded for display.
"""

import math
import random
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import accumulate
from operator import sub, truediv
from typing import NamedTuple, Protocol, TypeVar

ENTRY_WINDOW_MS = 3_600_000
# Draws of all clusters with replacement.
DRAWS = 1_000
# More clusters than this are drawn together with their neighbors in time, so that an interval of
# thousands takes hundredths of a second, too.
MAX_DRAWN = 200
# Every close gives its account, its family and their lessons figures of their own.
MAX_REMEMBERED = 1_024
LEVEL = "95 %, clustered"
# Fewer clusters have no interval: of five, one in ten misses the truth (bench intervals).
MIN_CLUSTERS = 8
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
Cluster = TypeVar("Cluster")


class Share(NamedTuple):
    """What a cluster adds to a ratio."""

    part: int
    whole: int


class Interval(NamedTuple):
    """Where a ratio lies; both bounds belong to it."""

    low: float
    high: float


class Intervals:
    """The intervals found last, by a digest of the figures they are of: those figures, of accounts
    with hundreds of clusters, would take twenty megabytes, and a day to get there.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, Interval] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, figures: tuple[object, ...], draw: Callable[[], Interval]) -> Interval:
        """Return the interval of these figures; `draw` finds one that is not remembered."""
        key = blake2b(repr(figures).encode(), digest_size=16).digest()
        with self._lock:
            interval = self._found.get(key)
        interval = interval or draw()
        with self._lock:
            self._found[key] = interval
            self._found.move_to_end(key)
            while len(self._found) > MAX_REMEMBERED:
                self._found.popitem(last=False)
        return interval


_intervals = Intervals()


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


def explain_missing(count: int) -> str | None:
    """Return why so many clusters have no interval; None where they have one."""
    if count >= MIN_CLUSTERS:
        return None
    return f"too few clusters: {count} of the {MIN_CLUSTERS} an interval needs"


def find_interval(shares: Sequence[Share]) -> Interval | None:
    """Return the 95 % interval of sum(part) / sum(whole) over clusters; None for too few.

    The percentiles are widened as Student's t is wider than the normal distribution (Hesterberg
    2015): plain ones are too narrow where clusters are few.
    """
    if len(shares) < MIN_CLUSTERS:
        return None
    columns = zip(*shares, strict=True)
    parts, wholes = (tuple(map(sum, _join(column))) for column in columns)
    return _intervals.find((parts, wholes), lambda: _draw_ratios(parts, wholes))


def _join(clusters: Sequence[Cluster]) -> list[Sequence[Cluster]]:
    """Return clusters with their neighbors, in MAX_DRAWN parts at most."""
    size = -(-len(clusters) // MAX_DRAWN)
    return [clusters[first : first + size] for first in range(0, len(clusters), size)]


def _draw_ratios(parts: tuple[int, ...], wholes: tuple[int, ...]) -> Interval:
    ratios = []
    for drawn in _draw(len(parts)):
        whole = sum(map(wholes.__getitem__, drawn))
        if whole:
            ratios.append(sum(map(parts.__getitem__, drawn)) / whole)
    return _cut(ratios, len(parts))


def _draw(count: int) -> Iterator[bytes]:
    """Yield DRAWS draws of `count` clusters, each as their places, MAX_DRAWN of them at most."""
    places = _list_places(count)
    return (places[first : first + count] for first in range(0, len(places), count))


@lru_cache(maxsize=4)
def _list_places(count: int) -> bytes:
    """Return the places of all draws, one after the other: up to 200 kB.

    The same for all figures of so many clusters, and an account has its figures one after another:
    drawing is what an interval costs.
    """
    return bytes(map(int, map(float(count).__mul__, _list_chances()[: DRAWS * count])))


@cache
def _list_chances() -> Sequence[float]:
    """Numbers from 0 to 1, seeded, so that the same closes give the same interval everywhere."""
    chance = random.Random("clusters")
    return array("d", (chance.random() for _ in range(DRAWS * MAX_DRAWN)))


def _cut(found: list[float], count: int) -> Interval:
    found.sort()
    tail, last = _tail(count), len(found) - 1
    return Interval(found[math.floor(last * tail)], found[math.ceil(last * (1 - tail))])


def find_drawdown(moves: Sequence[int], start: int) -> float:
    """Return the largest fall of a running total from its highest so far, as a share of that.

    moves: lamports won or lost, in order. start: lamports it begins with, above 0.
    """
    totals = list(accumulate(moves, initial=start))
    tops = list(accumulate(totals, max))
    worst: float = max(map(truediv, map(sub, tops, totals), tops))
    return worst


def find_drawdown_interval(moves: Sequence[int], start: int) -> Interval | None:
    """Return the 95 % interval of a drawdown, clusters drawn in any order; None for too few.

    moves: what each cluster won or lost, in lamports.
    """
    if len(moves) < MIN_CLUSTERS:
        return None
    joined = tuple(map(sum, _join(moves)))
    return _intervals.find((joined, start), lambda: _draw_drawdowns(joined, start))


def _draw_drawdowns(moves: tuple[int, ...], start: int) -> Interval:
    draws = _draw(len(moves))
    found = [find_drawdown(list(map(moves.__getitem__, one)), start) for one in draws]
    return _cut(found, len(moves))


def _tail(count: int) -> float:
    student = STUDENT[count - 2] if count - 2 < len(STUDENT) else NORMAL
    return (1 + math.erf(-student * math.sqrt(count / (count - 1)) / math.sqrt(2))) / 2


def find_rate_interval(wins: Sequence[Share]) -> Interval | None:
    """Return the 95 % interval of a rate whose clusters give (wins, closes).

    A draw of clusters that all won has no spread: one win and one loss more, each as large as the
    mean cluster, stand for what was not seen (Agresti and Coull 1998).
    """
    if len(wins) < MIN_CLUSTERS:
        return None
    size = max(1, round(sum(share.whole for share in wins) / len(wins)))
    return find_interval([*wins, Share(size, size), Share(0, size)])
