"""Limit each owner's requests per minute, hour and day, across all keys, workers and machines.

Windows are fixed and aligned to the clock. A request counts either in all its windows or in none,
so a refused request isn't counted at all. `storage.counters` stores the counts. flask-limiter,
which limits addresses and forms (web.server.gate), uses the same store, so a client can't gain by
switching workers.
"""

import contextlib
import functools
import ipaddress
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from limits import RateLimitItemPerMinute
from limits.storage import Storage

from config import WINDOW_SECONDS, Config
from storage import counters

NOTE_USE_MS = 60_000
log = logging.getLogger("candor")


class Limit(NamedTuple):
    """Up to `most` requests by `subject` (an owner) in `seconds`. `name` is as in the API."""

    subject: str
    name: str
    seconds: int
    most: int


class Window(NamedTuple):
    """`remaining` of `most` requests until `reset` seconds from now."""

    name: str
    most: int
    remaining: int
    reset: int


class RateLimitState(NamedTuple):
    """`admitted`: whether the request was counted, in all its windows."""

    admitted: bool
    windows: tuple[Window, ...]

    @property
    def tightest(self) -> Window:
        """The window with the fewest requests left. On a tie, the one that resets later."""
        return min(self.windows, key=lambda window: (window.remaining, -window.reset))


class Allowance:
    def __init__(self, store: counters.Store) -> None:
        self.store = store
        self._used: dict[str, int] = {}

    def note_use(self, key: str, now: int) -> None:
        """Record when a key was last used, at most once a minute.

        `key`: its public id. `now`: ms. The time is stored with the counters, because every commit
        to the database invalidates all cached lists. It isn't recorded while the store fails.
        """
        if now - self._used.get(key, -NOTE_USE_MS) < NOTE_USE_MS:
            return
        self._used[key] = now
        with contextlib.suppress(*self.store.unusable):
            self.store.note_use(key, now)

    def find_uses(self) -> dict[str, int]:
        """Return when each key was last used, as {public id: ms}, since counting began."""
        try:
            return self.store.find_uses()
        except self.store.unusable:
            return {}

    def charge(self, limits: Sequence[Limit], now: float) -> RateLimitState:
        """Count one request in all `limits`, or in none if any is used up. `now`: Unix seconds."""
        return self._ask(limits, 1, now)

    def add(self, limit: Limit, amount: int, now: float) -> None:
        """Add to the count of an admitted request. Failures of the store are ignored."""
        with contextlib.suppress(*self.store.unusable):
            self._ask([limit], amount, now)

    def peek(self, limits: Sequence[Limit], now: float) -> RateLimitState:
        return self._ask(limits, 0, now)

    def _ask(self, limits: Sequence[Limit], amount: int, now: float) -> RateLimitState:
        counted, used = self.store.count(
            [
                counters.Counter(limit.subject, limit.name, _end(limit.seconds, now), limit.most)
                for limit in limits
            ],
            amount,
            now,
        )
        return RateLimitState(
            counted,
            tuple(
                _show_window(limit, count, now) for limit, count in zip(limits, used, strict=True)
            ),
        )


def _end(seconds: int, now: float) -> int:
    return (int(now) // seconds + 1) * seconds


def _show_window(limit: Limit, used: int, now: float) -> Window:
    return Window(
        limit.name, limit.most, max(0, limit.most - used), _end(limit.seconds, now) - int(now)
    )


# ---- for flask-limiter ---------------------------------------------------------------------------
MINUTE, UNLIMITED = WINDOW_SECONDS["minute"], 10**15


class Counters(Storage):
    """The counters as a storage backend of the library `limits` (scheme `allowance:`).

    Supports only fixed one-minute windows, aligned to the clock. `clock` returns Unix seconds.
    """

    STORAGE_SCHEME = ["allowance"]  # noqa: RUF012
    # This class handles the store's exceptions itself.
    base_exceptions = ()

    def __init__(
        self,
        uri: str | None = None,
        wrap_exceptions: bool = False,
        *,
        store: counters.Store,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(uri, wrap_exceptions)
        self.store, self.clock = store, clock

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        # `get` doesn't receive the window, so all windows must be one minute.
        assert expiry == MINUTE
        now = self.clock()
        try:
            return self.store.count(
                [counters.Counter(key, "", _end(MINUTE, now), UNLIMITED)], amount, now
            ).used[0]
        except self.store.unusable as error:
            # Without disk space or Redis, still serve readers and skip the count.
            log.error(
                "couldn't count a request against its address's limit: %s", type(error).__name__
            )
            return 0

    def get(self, key: str) -> int:
        return self.incr(key, MINUTE, 0)

    def get_expiry(self, key: str) -> float:
        return _end(MINUTE, self.clock())

    def clear(self, key: str) -> None:
        self.incr(key, MINUTE, -self.get(key))

    def reset(self) -> int | None:
        """Counters expire with their windows."""
        raise NotImplementedError("counters expire with their windows")

    def check(self) -> bool:
        return counters.find_problem(self.store, self.clock()) is None


# ---- which limits a request meets ----------------------------------------------------------------
def list_limits(config: Config, owner_id: int, posting: bool = False) -> tuple[Limit, ...]:
    """Shortest window first. With `posting`, include the one for posts."""
    subject = f"owner:{owner_id}"
    limits = [Limit(subject, name, WINDOW_SECONDS[name], most) for name, most in config.allowance]
    if posting:
        limits.append(Limit(subject, "posts_minute", 60, config.posts_per_minute))
    return tuple(limits)


def find_address_limit(config: Config, network: str) -> Limit:
    """Return the limit that flask-limiter counts for an address (web.server.gate).

    With it, a request can be counted for its owner and its address in one step.
    """
    item = RateLimitItemPerMinute(config.ip_limit_per_minute)
    return Limit(item.key_for(network, "address"), "", 60, item.amount)


# Parsing an address took 5% of the CPU time of a cached list.
@functools.lru_cache(4096)
def network_of(address: str) -> str:
    """Return the /64 network of an IPv6 address, because each client has a whole /64."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return (
        str(parsed)
        if parsed.version == 4
        else str(ipaddress.ip_network((parsed, 64), strict=False))
    )


# ---- what the headers say ------------------------------------------------------------------------
def show_headers(state: RateLimitState) -> dict[str, str]:
    """Return RateLimit-Limit, -Remaining and -Reset for the tightest window."""
    tightest = state.tightest
    return {
        "RateLimit-Limit": str(tightest.most),
        "RateLimit-Remaining": str(tightest.remaining),
        "RateLimit-Reset": str(tightest.reset),
    }


def show_policy(config: Config, posting: bool = False) -> str:
    """Return RateLimit-Policy for any owner's request."""
    limits = list_limits(config, 0, posting)
    return ", ".join(f'"{one.name}";q={one.most};w={one.seconds}' for one in limits)


def show_address_policy(config: Config) -> str:
    return f'"address";q={config.ip_limit_per_minute};w={MINUTE}'


def show_windows(state: RateLimitState) -> list[dict[str, str | int]]:
    """Return all windows in the JSON format of `/api/v1/me`."""
    return [
        {
            "window": window.name,
            "limit": window.most,
            "remaining": window.remaining,
            "resetSeconds": window.reset,
        }
        for window in state.windows
    ]
