"""Store rate-limit counters, in a local file or, for several machines, in Redis.

A counter is (subject, name, ends, most): how often `subject` was counted under `name` in the window
that ends at the Unix second `ends`, and its limit. All of the given counters are incremented, or
none. Checking and counting are a single SQL statement or Redis script, so there are no races.
Callers define windows by their own clock. Because requests can arrive out of order, a counter
outlives its window by a grace period. The last uses of keys are stored here too, so that requests
don't write to the database. If this data is damaged or lost, counting starts over.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import apsw

from config import BadSetting, Config
from storage.trouble import BusyHandler, Identity, identify, name_trouble

SWEEP_SECONDS, GRACE_SECONDS = 600, 60
# After a failure, skip the store for this long.
REST_SECONDS = 2
PROBES = 2**53
log = logging.getLogger("candor")


class Counter(NamedTuple):
    """`subject` may be counted up to `most` times under `name` until the Unix second `ends`."""

    subject: str
    name: str
    ends: int
    most: int


class Count(NamedTuple):
    counted: bool
    used: list[int]


Store: TypeAlias = "File | Redis"


def open_store(config: Config) -> Store:
    """Open a File, or Redis if it is set. Raises BadSetting if its package is missing."""
    return (
        Redis(config.ratelimit_storage_url)
        if config.ratelimit_storage_url
        else File(config.ratelimit_path)
    )


def find_problem(store: Store, now: float) -> str | None:
    """Return why counting fails, without secrets. It writes: a full disk is still readable."""
    try:
        store.count([Counter("health", "", 0, PROBES)], 1, now)
    except store.unusable as error:
        return type(error).__name__
    return None


class Rest:
    """A circuit breaker.

    After a failure, requests fail immediately, and one of them retries every REST_SECONDS. Without
    this, every request, and therefore every page, would wait for the store.
    """

    def __init__(self, failure: type[Exception]) -> None:
        self._failure = failure
        # Last failure, or None after a success.
        self._failed: type[Exception] | None = None
        # End of the pause, in seconds of time.monotonic().
        self.until = 0.0

    def check(self) -> None:
        if self._failed is not None and time.monotonic() < self.until:
            raise self._failed(f"failed less than {REST_SECONDS} s ago")

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Use the store inside, unless it is paused. A failure pauses it."""
        self.check()
        if self._failed is not None:
            # This request retries, while the others still skip the store.
            self.until = time.monotonic() + REST_SECONDS
        try:
            yield
        except self._failure as error:
            self._failed, self.until = type(error), time.monotonic() + REST_SECONDS
            raise
        self._failed = None


# ---- a separate file: long writes to the main database don't delay requests ----------------------
SCHEMA = """
CREATE TABLE IF NOT EXISTS counted (
    subject TEXT, name TEXT, ends INTEGER, used INTEGER, PRIMARY KEY (subject, name, ends)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS used (key TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
ASKED = "WITH asked (subject, name, ends, most) AS (VALUES {marks}) "
COUNT = (
    ASKED
    + """
INSERT INTO counted SELECT subject, name, ends, ? FROM asked
WHERE NOT EXISTS (SELECT 1 FROM asked JOIN counted USING (subject, name, ends) WHERE used >= most)
ON CONFLICT (subject, name, ends) DO UPDATE SET used = used + excluded.used
RETURNING subject, name, ends, used"""
)
LOOK = (
    ASKED + "SELECT subject, name, ends, used FROM asked JOIN counted USING (subject, name, ends)"
)
NOTE_USE = (
    "INSERT INTO used VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET at = MAX(at, excluded.at)"
)
# Counting takes under a millisecond. A lock that lasts this long belongs to another program.
BUSY_SECONDS = 0.4
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError)


class File:
    """Counters in SQLite. A process's threads share a connection, with a lock."""

    name = "file"
    unusable: tuple[type[Exception], ...] = (apsw.BusyError, apsw.FullError, *BROKEN)

    def __init__(self, path: Path) -> None:
        self.path = path
        # Other failures are immediate, so they don't need a pause.
        self.rest = Rest(apsw.BusyError)
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._opened: Identity | None = None
        self._swept_at = 0.0

    def count(self, counters: Sequence[Counter], amount: int, now: float) -> Count:
        """Add `amount` to all counters, or to none of them if one is at its limit.

        An `amount` of 0 only reads. `now`: Unix seconds. A damaged file is replaced. Raises one of
        `unusable`.
        """
        with self._trying():
            try:
                return _count(self._enter(now), counters, amount)
            except BROKEN as error:
                if name_trouble(error, self.path.parent) in ("disk_full", "gone"):
                    raise
                log.error("replaced the damaged rate-limit file", exc_info=error)
                self._remove(error)
                return _count(self._enter(now), counters, amount)

    def note_use(self, key: str, at: int) -> None:
        """Record a use at `at` (ms), unless a later one is known. Raises one of `unusable`."""
        with self._trying():
            self._enter(at / 1000)(NOTE_USE, (key, at))

    def find_uses(self) -> dict[str, int]:
        """Return {key: ms}. Raises one of `unusable`."""
        with self._trying():
            return dict(self._connect().execute("SELECT key, at FROM used"))

    def close(self) -> None:
        with self._lock:
            self._forget()

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        """Lock the connection.

        A thread that waits for SQLite delays other threads only once, for BUSY_SECONDS. The threads
        waiting behind it then find the store paused, and later ones don't wait.
        """
        self.rest.check()
        with self._lock, self.rest.trying():
            yield

    def _enter(self, now: float) -> Callable[..., Any]:
        execute = self._connect().execute
        if now - self._swept_at > SWEEP_SECONDS:
            execute("DELETE FROM counted WHERE ends <= ?", (int(now) - GRACE_SECONDS,))
            self._swept_at = now
        return execute

    def _connect(self) -> apsw.Connection:
        """Connect to the current file, which may have been replaced."""
        if self._connection is not None and identify(self.path) != self._opened:
            self._forget()
        return self._connection or self._open()

    def _open(self) -> apsw.Connection:
        """Open the file with `synchronous=OFF`. Losing counters in a power failure is acceptable.

        While another process converts a new file to WAL, SQLite doesn't call the busy handler, so
        this function retries.
        """
        connection, end = apsw.Connection(str(self.path)), time.monotonic() + BUSY_SECONDS
        connection.set_busy_handler(BusyHandler(lambda: BUSY_SECONDS))
        while True:
            try:
                connection.execute(
                    "PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL;" + SCHEMA
                ).fetchall()
                break
            except apsw.BusyError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        self._connection, self._opened = connection, identify(self.path)
        return connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None

    def _remove(self, damage: Exception) -> None:
        self._forget()
        try:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        except OSError:
            # The directory is read-only.
            raise damage from None


def _count(execute: Callable[..., Any], counters: Sequence[Counter], amount: int) -> Count:
    marks = ",".join(["(?,?,?,?)"] * len(counters))
    values = [value for counter in counters for value in counter]
    counted = execute(COUNT.format(marks=marks), [*values, amount]).fetchall() if amount else []
    rows = counted or execute(LOOK.format(marks=marks), values)
    used = {(subject, name, ends): times for subject, name, ends, times in rows}
    return Count(bool(counted), [used.get(counter[:3], 0) for counter in counters])


# ---- Redis ---------------------------------------------------------------------------------------
# KEYS are the counters. ARGV is the amount, then each counter's limit and its TTL in seconds.
SCRIPT = """
local used, counted = redis.call('MGET', unpack(KEYS)), ARGV[1] ~= '0'
for n = 1, #KEYS do
    used[n] = tonumber(used[n] or 0)
    counted = counted and used[n] < tonumber(ARGV[2 * n])
end
for n = 1, counted and #KEYS or 0 do
    used[n] = redis.call('INCRBY', KEYS[n], ARGV[1])
    redis.call('EXPIRE', KEYS[n], ARGV[2 * n + 1])
end
return {counted and 1 or 0, used}
"""
PREFIX = "candor"
USES = f"{PREFIX}:used"
TIMEOUT_SECONDS = 1


class Redis:
    name = "redis"

    def __init__(self, url: str) -> None:
        """`url`: redis[s]://[[user]:password@]host[:port][/database]. It connects on first use."""
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise BadSetting(
                "RATELIMIT_STORAGE_URL needs the package redis: .venv/bin/pip install"
                " --editable '.[redis]'"
            ) from None
        self.unusable: tuple[type[Exception], ...] = (redis.RedisError,)
        self.rest = Rest(redis.RedisError)
        # A retry could count twice.
        self._client: Any = redis.Redis.from_url(
            url,
            protocol=2,
            socket_connect_timeout=TIMEOUT_SECONDS,
            socket_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._script = self._client.register_script(SCRIPT)

    def count(self, counters: Sequence[Counter], amount: int, now: float) -> Count:
        keys = [f"{PREFIX}:{subject}:{name}:{ends}" for subject, name, ends, _ in counters]
        kept = [
            value
            for _, _, ends, most in counters
            for value in (most, ends - int(now) + GRACE_SECONDS)
        ]
        with self.rest.trying():
            counted, used = self._script(keys, [amount, *kept])
        return Count(bool(counted), used)

    def note_use(self, key: str, at: int) -> None:
        # If two machines record the same minute, it doesn't matter which one wins.
        with self.rest.trying():
            self._client.hset(USES, key, at)

    def find_uses(self) -> dict[str, int]:
        with self.rest.trying():
            return {key.decode(): int(at) for key, at in self._client.hgetall(USES).items()}

    def close(self) -> None:
        self._client.close()
