"""Caches of what was read from the database, with single flight: one reader fills an entry for all
who wait for it, and any commit makes it stale.
"""

import contextlib
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

# How long reading waits for writing of this process to end.
WAIT_SECONDS = 0.01
Value = TypeVar("Value")


@dataclass
class CacheEntry(Generic[Value]):
    """A value and the version of the database it was read from, None before the first reading.

    `turn` orders readings and requests of the whole cache. Whoever reads the value holds the lock.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    version: object = None
    turn: int = -1
    value: Value | None = None


class ListCache(Generic[Value]):
    """At most `max_entries` values; the least recently used goes first.

    A commit of any kind makes all of them stale, whichever process made it, so no writer has to
    invalidate anything. What is read while somebody writes is stale before it is shown, and reading
    holds the writer up: reading waits for a moment for what is inside `writing`.
    """

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max_entries
        # One lock for each writing that goes on, held until it is done.
        self._writings: set[threading.Lock] = set()
        self._entries: OrderedDict[Hashable, CacheEntry[Value]] = OrderedDict()
        self._lock, self._turns = threading.Lock(), itertools.count()

    def find(self, name: Hashable, version: object, read: Callable[[], Value]) -> Value:
        """Return the value cached under `name`, or what `read()` gives where it is stale.

        `version`: of the database, asked for before anything is read. One thread reads at a time.
        Whoever waits for it takes the first reading that begins after its own request came, its own
        or another's: many that come at once, each after another commit, cause two readings and not
        one each.
        """
        entry, came = self._find_entry(name), next(self._turns)
        with entry.lock:
            if entry.version != version and entry.turn < came:
                self._wait_for_writers()
                turn, value = next(self._turns), self._read(name, entry, read)
                entry.version, entry.turn, entry.value = version, turn, value
            return entry.value  # type: ignore[return-value]  # None only before the first reading

    def _read(self, name: Hashable, entry: CacheEntry[Value], read: Callable[[], Value]) -> Value:
        try:
            return read()
        except BaseException:
            # A refused name takes no room from what is cached: there is no end of such names.
            with self._lock:
                if entry.turn < 0 and self._entries.get(name) is entry:
                    del self._entries[name]
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Tell readers that something is being written that they had better wait for."""
        done = threading.Lock()
        with done:
            self._writings.add(done)
            try:
                yield
            finally:
                self._writings.discard(done)

    def _wait_for_writers(self) -> None:
        """Wait until the writing that goes on now is done, but not for what begins meanwhile."""
        end = time.monotonic() + WAIT_SECONDS
        for done in tuple(self._writings):
            if done.acquire(timeout=max(0, end - time.monotonic())):
                done.release()

    def _find_entry(self, name: Hashable) -> CacheEntry[Value]:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                entry = self._entries[name] = CacheEntry()
            self._entries.move_to_end(name)
            while len(self._entries) > self.max_entries:
                self._entries.popitem(last=False)
        return entry
