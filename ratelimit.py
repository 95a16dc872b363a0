"""The allowance: how many requests an owner may make in a minute, an hour, a day, exactly, over all
its keys, workers and machines.

Windows are fixed and aligned to the clock. A request is counted in all its windows or in none, so a
refused request uses nothing up; `storage.counters` keeps them. flask-limiter, which asks addresses
and forms (web.server.gate), counts in the same place: nobody gets more by meeting another worker.
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
    """At most `most` requests of `subject` (an owner) in a window of so many seconds. `name` is the
    interface's word for it.
    """

    subject: str
    name: str
    seconds: int
    most: int


class Window(NamedTuple):
    """The state of a limit: `remaining` of `most`, until `reset` seconds from now."""

    name: str
    most: int
    remaining: int
    reset: int


class RateLimitState(NamedTuple):
    """The answer to one asking. `admitted`: was it counted, in all its windows."""

    admitted: bool
    windows: tuple[Window, ...]

    @property
    def tightest(self) -> Window:
        """The window with the fewest requests left; of equals the one that resets later."""
        return min(self.windows, key=lambda window: (window.remaining, -window.reset))


class Allowance:
    """The limits, over the counters of a store (`storage.counters`)."""

    def __init__(self, store: counters.Store) -> None:
        self.store = store
        self._used: dict[str, int] = {}

    def note_use(self, key: str, now: int) -> None:
        """Store when this key (its public id) was last used, `now` in ms, at most once a minute.

        It is stored with the counters, because every commit in the database invalidates all
        cached lists. It is skipped while nothing can be counted: the time is coarse.
        """
        if now - self._used.get(key, -NOTE_USE_MS) < NOTE_USE_MS:
            return
        self._used[key] = now
        with contextlib.suppress(*self.store.unusable):
            self.store.note_use(key, now)

    def find_uses(self) -> dict[str, int]:
        """Return {public id of a key: when it was last used, in ms}, since counting began."""
        try:
            return self.store.find_uses()
        except self.store.unusable:
            return {}

    def charge(self, limits: Sequence[Limit], now: float) -> RateLimitState:
        """Count one request in all of `limits`, or in none if any is used up.

        `now`: Unix seconds.
        """
        return self._ask(limits, 1, now)

    def add(self, limit: Limit, amount: int, now: float) -> None:
        """Count more of a request that was admitted. If it can't be counted, it isn't."""
        with contextlib.suppress(*self.store.unusable):
            self._ask([limit], amount, now)

    def peek(self, limits: Sequence[Limit], now: float) -> RateLimitState:
        """Return the state of the limits; counts nothing."""
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
    """When the present window ends, in Unix seconds: windows are aligned to the clock."""
    return (int(now) // seconds + 1) * seconds


def _show_window(limit: Limit, used: int, now: float) -> Window:
    return Window(
        limit.name, limit.most, max(0, limit.most - used), _end(limit.seconds, now) - int(now)
    )


# ---- for flask-limiter ---------------------------------------------------------------------------
MINUTE, UNLIMITED = WINDOW_SECONDS["minute"], 10**15


class Counters(Storage):
    """The counters as a storage of the library `limits` (scheme `allowance:`).

    For fixed windows of a minute, aligned like all others. `clock()`: Unix seconds.
    """

    STORAGE_SCHEME = ["allowance"]  # noqa: RUF012
    # No exception of the store leaves it.
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
        """Count a request and return how many there are in this minute."""
        # flask-limiter does not say in `get` which window it means.
        assert expiry == MINUTE
        now = self.clock()
        try:
            return self.store.count(
                [counters.Counter(key, "", _end(MINUTE, now), UNLIMITED)], amount, now
            ).used[0]
        except self.store.unusable as error:
            # With a full disk, or without Redis, readers are still answered, uncounted.
            log.error("an address went uncounted: %s", type(error).__name__)
            return 0

    def get(self, key: str) -> int:
        """Return how many there are in this minute."""
        return self.incr(key, MINUTE, 0)

    def get_expiry(self, key: str) -> float:
        """Return when this minute ends, in Unix seconds."""
        return _end(MINUTE, self.clock())

    def clear(self, key: str) -> None:
        """Take back what was counted in this minute."""
        self.incr(key, MINUTE, -self.get(key))

    def reset(self) -> int | None:
        """Not available: counters end with their windows."""
        raise NotImplementedError("counters end with their windows")

    def check(self) -> bool:
        """Whether requests can be counted."""
        return counters.find_problem(self.store, self.clock()) is None


# ---- which limits a request meets ----------------------------------------------------------------
def list_limits(config: Config, owner_id: int, posting: bool = False) -> tuple[Limit, ...]:
    """List the windows of an owner, shortest first; with `posting` the one for posts too."""
    subject = f"owner:{owner_id}"
    limits = [Limit(subject, name, WINDOW_SECONDS[name], most) for name, most in config.allowance]
    if posting:
        limits.append(Limit(subject, "posts_minute", 60, config.posts_per_minute))
    return tuple(limits)


def find_address_limit(config: Config, network: str) -> Limit:
    """Return the limit whose counter flask-limiter uses for an address (web.server.gate).

    So a request can be counted for its owner and its address at the same time.
    """
    item = RateLimitItemPerMinute(config.ip_limit_per_minute)
    return Limit(item.key_for(network, "address"), "", 60, item.amount)


# Parsing an address took a twentieth of the processor time of a cached list.
@functools.lru_cache(4096)
def network_of(address: str) -> str:
    """Return an IPv4 address itself, the /64 of an IPv6 one: a client has all of its addresses."""
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
    """Return RateLimit-Limit, -Remaining and -Reset of the tightest window."""
    tightest = state.tightest
    return {
        "RateLimit-Limit": str(tightest.most),
        "RateLimit-Remaining": str(tightest.remaining),
        "RateLimit-Reset": str(tightest.reset),
    }


def show_policy(config: Config, posting: bool = False) -> str:
    """Return RateLimit-Policy of an owner: the windows in which a request counts."""
    windows = [(name, most, WINDOW_SECONDS[name]) for name, most in config.allowance]
    if posting:
        windows.append(("posts_minute", config.posts_per_minute, MINUTE))
    return ", ".join(f'"{name}";q={most};w={seconds}' for name, most, seconds in windows)


def show_address_policy(config: Config) -> str:
    """Return RateLimit-Policy of an address."""
    return f'"address";q={config.ip_limit_per_minute};w={MINUTE}'


def show_windows(state: RateLimitState) -> list[dict[str, str | int]]:
    """Return all windows as the JSON of `/api/v1/me`."""
    return [
        {
            "window": window.name,
            "limit": window.most,
            "remaining": window.remaining,
            "resetSeconds": window.reset,
        }
        for window in state.windows
    ]
