"""What was read is kept until anybody writes to the database: the one place that decides when it is
read anew.
"""

import contextlib
import itertools
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

WAIT_SECONDS = 0.01


@dataclass
class CacheEntry:
    """A value, the version of the database and the turn before which it was read; who reads it anew
    holds the lock.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    version: object = None
    turn: int = -1
    value: object = None


class ListCache:
    """At most so many values, the least used go first. A commit of any kind ends them all, whoever
    made it: no writer has to remember them.

    What is read while somebody writes is out of date before it is shown, and reading holds the
    writer up: writing that this process tells of is waited for.
    """

    def __init__(self, places):
        self.places = places
        # a lock of each, held until it is done
        self._writings = set()
        self._lock, self._kept, self._turns = threading.Lock(), OrderedDict(), itertools.count()

    def find(self, name, version, read):
        """The value kept under this name, else what read() gives. `version`: of the database, asked
        for before anything is read.

        One reads at a time. Whoever waits for that takes the next reading that begins after it
        came, its own or another's: many who come at once, each after another commit, cause two
        readings and not one each.
        """
        place, came = self._place(name), next(self._turns)
        with place.lock:
            if place.version != version and place.turn < came:
                self._wait()
                turn, value = next(self._turns), self._read(name, place, read)
                place.version, place.turn, place.value = version, turn, value
            return place.value

    def _read(self, name, place, read):
        """What is refused is not kept and takes no place from what is: names of it are without
        end.
        """
        try:
            return read()
        except BaseException:
            with self._lock:
                if place.turn < 0 and self._kept.get(name) is place:
                    del self._kept[name]
            raise

    @contextlib.contextmanager
    def writing(self):
        """Inside, something is written that readers had better wait for."""
        done = threading.Lock()
        with done:
            self._writings.add(done)
            try:
                yield
            finally:
                self._writings.discard(done)

    def _wait(self):
        """Until the writing that had begun by now is done, for a moment at most; what begins
        meanwhile is not waited for.
        """
        end = time.monotonic() + WAIT_SECONDS
        for done in tuple(self._writings):
            if done.acquire(timeout=max(0, end - time.monotonic())):
                done.release()

    def _place(self, name):
        with self._lock:
            place = self._kept[name] = self._kept.pop(name, None) or CacheEntry()
            while len(self._kept) > self.places:
                self._kept.popitem(last=False)
        return place


class RenderedPosts:
    """What rows show as, each under its state: the row's id and all that can change of it. So what
    is kept is never out of date; at most so many, the oldest go first.

    `write(ids)`: {state: what it shows as} of the rows as they are now.
    """

    def __init__(self, places, write):
        self.places, self.write = places, write
        self._lock, self._kept = threading.Lock(), {}

    def list(self, states):
        """What each of the rows in these states shows as; one that has changed since it was asked
        for, as it is now.

        Several threads ask at once, and what is kept may go between two looks at it: so each looks
        once, takes what it needs along, and writes what it did not find.
        """
        known = {state: self._kept.get(state) for state in states}
        missing = [state[0] for state, shown in known.items() if shown is None]
        new = self.write(missing) if missing else {}
        now = {state[0]: shown for state, shown in new.items()}
        self._keep(new)
        return [
            known[state] or now[state[0]] for state in states if known[state] or state[0] in now
        ]

    def _keep(self, new):
        with self._lock:
            self._kept.update(new)
            while len(self._kept) > self.places:
                del self._kept[next(iter(self._kept))]
