"""Send HTTP requests with a size limit and a deadline, without redirects or environment proxies.

Error texts never contain a URL, a key or a response.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

import requests
import urllib3

from config import VERSION
from market.failures import FetchError

# Treat a longer Retry-After as a mistake.
MAX_WAIT_SECONDS = 3600
# After a 429 without a Retry-After.
DEFAULT_WAIT_SECONDS = 30
READ_BYTES = 65_536


@dataclass(frozen=True)
class Limits:
    """Limits of one request. It may exceed `answer_seconds` by one read of `read_seconds`."""

    connect_seconds: float
    read_seconds: float
    answer_seconds: float
    max_bytes: int


PROVIDER_LIMITS = Limits(connect_seconds=4, read_seconds=6, answer_seconds=15, max_bytes=8_000_000)


class Pace:
    """A rate limit that can be paused: `burst` requests at once, `burst + refill` in any minute."""

    def __init__(self, burst: int, refill: int, monotonic: Callable[[], float]) -> None:
        self.burst, self.refill, self.monotonic = burst, refill, monotonic
        self.left: float = burst
        self.since = monotonic()
        self.resume_at = 0.0

    def take(self) -> bool:
        """Count a request and return True if one is allowed now."""
        now = self.monotonic()
        refilled = self.left + (now - self.since) * self.refill / 60
        self.left, self.since = min(self.burst, refilled), now
        if now < self.resume_at or self.left < 1:
            return False
        self.left -= 1
        return True

    def pause(self, seconds: float) -> None:
        self.resume_at = self.monotonic() + seconds


def open_session() -> requests.Session:
    """Ignore the environment's proxies and netrc, and don't retry."""
    session = requests.Session()
    session.trust_env = False
    session.headers.update({"User-Agent": f"candor/{VERSION}", "Accept": "application/json"})
    return session


def fetch(
    session: requests.Session, method: str, url: str, limits: Limits, **options: Any
) -> bytes:
    """Return the body if the status is 200. `options` are for `requests`. Raises FetchError."""
    deadline = time.monotonic() + limits.answer_seconds
    try:
        with session.request(
            method,
            url,
            timeout=(limits.connect_seconds, limits.read_seconds),
            stream=True,
            allow_redirects=False,
            **options,
        ) as response:
            if response.status_code != 200:
                status = response.status_code
                raise FetchError(f"returned HTTP {status}", _read_wait(response), status)
            return _read_body(response.raw, deadline, limits.max_bytes)
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise FetchError("did not respond in time") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
        raise FetchError("could not be reached, or the connection was lost") from None


def fetch_json(
    session: requests.Session,
    url: str,
    params: dict[str, Any] | None = None,
    limits: Limits = PROVIDER_LIMITS,
) -> Any:
    """Return the JSON value at `url` with exact numbers (int or Decimal). Raises FetchError."""
    body = fetch(session, "GET", url, limits, params=params)
    try:
        return json.loads(body, parse_float=Decimal, parse_constant=_refuse_constant)
    # ArithmeticError is raised if an exponent doesn't fit a Decimal.
    except (ValueError, ArithmeticError, RecursionError):
        raise FetchError("sent a response that is not JSON") from None


def _read_body(raw: Any, deadline: float, max_bytes: int) -> bytes:
    """Each read returns the data that has arrived, so even a slow trickle ends at the deadline."""
    chunks, size = [], 0
    while chunk := raw.read1(READ_BYTES, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise FetchError("sent far too much data")
        if time.monotonic() > deadline:
            raise FetchError("did not respond in time")
    return b"".join(chunks)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _read_wait(response: requests.Response) -> float | None:
    """Parse Retry-After (in either form). Return None if the response isn't about a rate limit."""
    if response.status_code not in (429, 503):
        return None
    asked = response.headers.get("Retry-After", "")
    if re.fullmatch(r"\d{1,9}", asked):
        return min(int(asked), MAX_WAIT_SECONDS)
    try:
        moment = parsedate_to_datetime(asked)
        # A date without a time zone is in UTC (RFC 9110, 5.6.7).
        until = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return DEFAULT_WAIT_SECONDS
    return min(max(0, until - time.time()), MAX_WAIT_SECONDS)
