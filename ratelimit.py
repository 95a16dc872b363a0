"""The allowance: how many requests an owner may make in a minute, an hour, a day, exactly, over all its keys and all workers.

Windows are fixed and aligned to the clock. A request is counted in all its windows or in none: one IMMEDIATE transaction in a file of its
own (`ratelimit.db`), so that a long write to the main database delays nobody and a refused request uses nothing up. The file is disposable:
where it is damaged it is made anew and the counters start again. No power cut is worth an fsync here, hence `synchronous=OFF`.
Addresses are counted here too: one mechanism, and nobody gets more by meeting another worker.
"""
import contextlib
import ipaddress
import logging
import threading
from dataclasses import dataclass

import apsw

from config import WINDOW_SECONDS

SCHEMA = """
CREATE TABLE IF NOT EXISTS counter (subject TEXT, name TEXT, ends INTEGER, used INTEGER, PRIMARY KEY (subject, name)) STRICT, WITHOUT ROWID;
"""
BUSY_MS = 2000
SWEEP_SECONDS = 600                                           # how often counters of past windows are swept away
log = logging.getLogger("candor")


@dataclass(frozen=True)
class Limit:
    """At most `most` requests of `subject` (an owner, an address) in a window of so many seconds. `name` is the interface's word for it."""

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
        return self._ask(limits, now, counting=True)

    def look(self, limits, now):
        """How the limits stand; counts nothing."""
        return self._ask(limits, now, counting=False)

    def close(self):
        with self._lock:
            self._forget()

    def _ask(self, limits, now, counting):
        with self._lock:
            try:
                return self._transact(limits, now, counting)
            except (apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError) as error:
                log.error("allowance file made anew", exc_info=error)
                self._remove()
                return self._transact(limits, now, counting)

    def _transact(self, limits, now, counting):
        execute = (self._connection or self._open()).execute
        if now - self._swept_at > SWEEP_SECONDS:
            self._swept_at = now
            execute("DELETE FROM counter WHERE ends <= ?", (int(now),))
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


def _find_used(execute, limits, now):
    """{limit: requests counted in its present window}."""
    subjects = tuple({limit.subject for limit in limits})
    marks = ",".join("?" * len(subjects))
    rows = execute(f"SELECT subject, name, ends, used FROM counter WHERE subject IN ({marks})", subjects)
    stored = {(subject, name, ends): used for subject, name, ends, used in rows}
    return {limit: stored.get((limit.subject, limit.name, _end(limit, now)), 0) for limit in limits}


def _store_used(execute, limits, now):
    rows = ",".join(["(?,?,?,1)"] * len(limits))
    execute(f"INSERT INTO counter VALUES {rows} ON CONFLICT (subject, name) DO UPDATE "
            "SET used = CASE WHEN ends = excluded.ends THEN used + 1 ELSE 1 END, ends = excluded.ends",
            [value for limit in limits for value in (limit.subject, limit.name, _end(limit, now))])


def _end(limit, now):
    """When the present window ends: windows are aligned to the clock."""
    return (int(now) // limit.seconds + 1) * limit.seconds


def _show_window(limit, used, now):
    return Window(limit.name, limit.most, max(0, limit.most - used), _end(limit, now) - int(now))


# ---- which limits a request meets -----------------------------------------------------------------------------------------
def list_limits(config, owner_id, posting=False):
    """The windows of an owner, shortest first; on POST the one for posts too."""
    limits = [Limit(f"owner:{owner_id}", name, WINDOW_SECONDS[name], most) for name, most in config.allowance]
    return limits + [Limit(f"owner:{owner_id}", "posts_minute", 60, config.posts_per_minute)] if posting else limits


def list_address_limits(config, address):
    return [Limit(f"address:{network_of(address)}", "address", 60, config.ip_limit_per_minute)]


def list_failure_limits(config, address):
    """Requests with a missing or wrong key, and wrong recovery codes."""
    return [Limit(f"failed:{network_of(address)}", "address", 60, config.failed_auth_per_minute)]


def list_creation_limits(config, address, owner_id=None):
    """Creating influencers: by address, and by owner where there is one."""
    subjects = [f"address:{network_of(address)}"] + ([f"owner:{owner_id}"] if owner_id is not None else [])
    return [Limit(subject, "creations_minute", 60, config.creations_per_minute) for subject in subjects]


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
