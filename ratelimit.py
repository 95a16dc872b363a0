"""The allowance: how many requests an owner may make in a minute, an hour, a day, exactly, over all its keys and all workers.

Windows are fixed and aligned to the clock. A request is counted in all its windows or in none: one IMMEDIATE transaction in a file of its
own (`ratelimit.db`), so that a long write to the main database delays nobody and a refused request uses nothing up. The file is disposable:
where it is damaged it is made anew and the counters start again. No power cut is worth an fsync here, hence `synchronous=OFF`.
flask-limiter, which asks addresses and forms (web.gate), counts in the same file: nobody gets more by meeting another worker.
"""
import contextlib
import functools
import ipaddress
import logging
import threading
from dataclasses import dataclass

import apsw
from limits import RateLimitItemPerMinute
from limits.storage import Storage

from config import WINDOW_SECONDS

SCHEMA = """
CREATE TABLE IF NOT EXISTS counted (subject TEXT, name TEXT, ends INTEGER, used INTEGER, PRIMARY KEY (subject, name, ends)) STRICT, WITHOUT ROWID;
"""
COUNT = "ON CONFLICT (subject, name, ends) DO UPDATE SET used = used + excluded.used"
BUSY_MS = 2000
SWEEP_SECONDS, GRACE_SECONDS = 600, 60                        # how often windows are swept away, and how long after their end: requests overtake each other
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError)
log = logging.getLogger("candor")


@dataclass(frozen=True)
class Limit:
    """At most `most` requests of `subject` (an owner) in a window of so many seconds. `name` is the interface's word for it."""

    subject: str
    name: str
    seconds: int
    most: int


@dataclass(frozen=True)
class Window:
    """How a limit stands: `remaining` of `most`, until `reset` seconds from now."""

    name: str
    most: int
    remaining: int
    reset: int


@dataclass(frozen=True)
class Standing:
    """The answer to one asking. `admitted`: was it counted, in all its windows."""

    admitted: bool
    windows: tuple

    @property
    def tightest(self):
        """The window that runs out first; of equals the one that resets later."""
        return min(self.windows, key=lambda window: (window.remaining, -window.reset))


class Allowance:
    """The counters in one file, shared by the threads of a process (one connection under a lock) and by processes (SQLite's own lock)."""

    def __init__(self, path):
        self.path = path
        self._lock = threading.Lock()
        self._connection = None
        self._swept_at = 0

    def take(self, limits, now):
        """Count one request in every one of `limits`, or in none if any is used up: Standing. `now`: Unix seconds."""
        return self.run(lambda execute: _ask(execute, limits, now, counting=True), now)

    def look(self, limits, now):
        """How the limits stand; counts nothing."""
        return self.run(lambda execute: _ask(execute, limits, now, counting=False), now)

    def run(self, act, now):
        """What `act(execute)` returns; a file that cannot be used is made anew for it."""
        with self._lock:
            try:
                return act(self._enter(now))
            except BROKEN as error:
                log.error("allowance file made anew", exc_info=error)
                self._remove()
                return act(self._enter(now))

    def close(self):
        with self._lock:
            self._forget()

    def _enter(self, now):
        execute = (self._connection or self._open()).execute
        if now - self._swept_at > SWEEP_SECONDS:
            self._swept_at = now
            execute("DELETE FROM counted WHERE ends <= ?", (int(now) - GRACE_SECONDS,))
        return execute

    def _open(self):
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;" + SCHEMA).fetchall()
        self._connection = connection
        return connection

    def _forget(self):
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None

    def _remove(self):
        self._forget()
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).unlink()


def _ask(execute, limits, now, counting):
    execute("BEGIN IMMEDIATE" if counting else "BEGIN")
    try:
        used = _find_used(execute, limits, now)
        admitted = all(used[limit] < limit.most for limit in limits)
        if counting and admitted:
            _store_used(execute, limits, now)
            used = {limit: count + 1 for limit, count in used.items()}
    except BaseException:
        execute("ROLLBACK")
        raise
    execute("COMMIT")
    return Standing(admitted, tuple(_show_window(limit, used[limit], now) for limit in limits))


def _find_used(execute, limits, now):
    """{limit: requests counted in its present window}."""
    windows = {(limit.subject, limit.name, _end(limit.seconds, now)): limit for limit in limits}
    marks = ",".join(["(?,?,?)"] * len(windows))
    rows = execute(f"SELECT subject, name, ends, used FROM counted WHERE (subject, name, ends) IN (VALUES {marks})", [value for window in windows for value in window])
    return {**dict.fromkeys(limits, 0), **{windows[row[:3]]: row[3] for row in rows}}


def _store_used(execute, limits, now):
    rows = ",".join(["(?,?,?,1)"] * len(limits))
    execute(f"INSERT INTO counted VALUES {rows} {COUNT}", [value for limit in limits for value in (limit.subject, limit.name, _end(limit.seconds, now))])


def _end(seconds, now):
    """When the present window ends: windows are aligned to the clock."""
    return (int(now) // seconds + 1) * seconds


def _show_window(limit, used, now):
    return Window(limit.name, limit.most, max(0, limit.most - used), _end(limit.seconds, now) - int(now))


# ---- for flask-limiter ------------------------------------------------------------------------------------------------------
class Counters(Storage):
    """The same file as a storage of `limits` (scheme `allowance:`), for its fixed windows: aligned here as all others. `clock()`: Unix seconds."""

    STORAGE_SCHEME = ["allowance"]

    def __init__(self, uri=None, wrap_exceptions=False, *, allowance, clock):
        super().__init__(uri, wrap_exceptions)
        self.allowance, self.clock = allowance, clock

    base_exceptions = apsw.Error

    def incr(self, key, expiry, amount=1):
        now = self.clock()
        try:
            return self._find(f"INSERT INTO counted VALUES (?, '', ?, ?) {COUNT} RETURNING used", (key, _end(expiry, now), amount), now)
        except apsw.FullError:                                # who can still be answered is: with a full disk addresses go uncounted
            return 0

    def get(self, key):
        return self._find_now("used", key) or 0

    def get_expiry(self, key):
        return self._find_now("ends", key) or self.clock()

    def clear(self, key):
        self._find("DELETE FROM counted WHERE subject = ?", (key,), self.clock())

    def reset(self):
        self._find("DELETE FROM counted", (), self.clock())

    def check(self):
        return self._find("SELECT 1", (), self.clock()) == 1

    def _find_now(self, column, key):
        now = self.clock()
        return self._find(f"SELECT {column} FROM counted WHERE subject = ? AND ends > ? ORDER BY ends LIMIT 1", (key, int(now)), now)

    def _find(self, sql, values, now):
        return self.allowance.run(lambda execute: execute(sql, values).get, now)


# ---- which limits a request meets -----------------------------------------------------------------------------------------
def list_limits(config, owner_id, posting=False):
    """The windows of an owner, shortest first; on POST the one for posts too."""
    limits = [Limit(f"owner:{owner_id}", name, WINDOW_SECONDS[name], most) for name, most in config.allowance]
    return limits + [Limit(f"owner:{owner_id}", "posts_minute", 60, config.posts_per_minute)] if posting else limits


def find_address_limit(config, network):
    """The very counter in which flask-limiter counts an address (web.gate), for requests that are counted for their owner at the same time."""
    item = RateLimitItemPerMinute(config.ip_limit_per_minute)
    return Limit(item.key_for(network, "address"), "", 60, item.amount)


@functools.lru_cache(4096)
def network_of(address):
    """An IPv4 address itself, the /64 of an IPv6 one: whoever has one address of it has them all."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))


# ---- what the headers say -------------------------------------------------------------------------------------------------
def show_headers(standing):
    """RateLimit-Limit, -Remaining and -Reset of the tightest window."""
    tightest = standing.tightest
    return {"RateLimit-Limit": str(tightest.most), "RateLimit-Remaining": str(tightest.remaining), "RateLimit-Reset": str(tightest.reset)}


def show_policy(config):
    """RateLimit-Policy: all windows every request counts in."""
    return ", ".join(f'"{name}";q={most};w={WINDOW_SECONDS[name]}' for name, most in config.allowance)


def show_windows(standing):
    return [{"window": window.name, "limit": window.most, "remaining": window.remaining, "resetSeconds": window.reset} for window in standing.windows]
