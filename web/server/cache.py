"""A cache of values read from the database.

One thread reads a value for all threads that wait for it. Any commit makes it stale.
"""

import itertools
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import LRUCache

# Several names share a lock, so a thread may wait for the read of another name.
LOCKS = 64
Value = TypeVar("Value")


@dataclass(frozen=True)
class CacheEntry(Generic[Value]):
    """A value, and its database version. `turn` orders reads and requests of the whole cache."""

    version: object
    turn: int
    value: Value


class ListCache(Generic[Value]):
    """An LRU cache without invalidation: a commit by any process changes the version."""

    def __init__(self, max_entries: int) -> None:
        self._entries: LRUCache[Hashable, CacheEntry[Value]] = LRUCache(max_entries)
        self._lock, self._turns = threading.Lock(), itertools.count()
        self._reading = [threading.Lock() for _ in range(LOCKS)]

    def find(self, name: Hashable, version: object, read: Callable[[], Value]) -> Value:
        """Return the value cached under `name`. Call `read()` if there is none or it is stale.

        Get `version` from the database before reading anything. A thread that waited accepts any
        read that started after its own request, so a burst of requests, each after another commit,
        causes only two reads. If `read` raises, nothing is cached; otherwise callers could fill the
        cache with invalid names. `read` must not use this cache.
        """
        arrived = next(self._turns)
        with self._reading[hash(name) % LOCKS]:
            with self._lock:
                entry = self._entries.get(name)
            if entry is None or (entry.version != version and entry.turn < arrived):
                turn = next(self._turns)
                entry = CacheEntry(version, turn, read())
                with self._lock:
                    self._entries[name] = entry
        return entry.value
