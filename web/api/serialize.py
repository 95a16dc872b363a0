"""Values to JSON: amounts are decimal strings, times RFC 3339 in UTC. No floats."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, overload

from chain.amounts import exact, sol
from storage.rows import Damaged

# An object of the API, for code that only reads it.
Json = Mapping[str, Any]


@overload
def show_time(ms: int) -> str: ...
@overload
def show_time(ms: int | None) -> str | None: ...
def show_time(ms: int | None) -> str | None:
    """Write UTC milliseconds as `2026-11-20T12:00:00.123Z`, whole seconds without the fraction.
    None stays None.
    """
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    # Four times as fast as strftime.
    text = datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


@overload
def show_sol(lamports: int) -> str: ...
@overload
def show_sol(lamports: int | None) -> str | None: ...
def show_sol(lamports: int | None) -> str | None:
    return None if lamports is None else sol(lamports)


def show_share(percent: int | None) -> str | None:
    return None if percent is None else f"{percent // 100}.{percent % 100:02}"


def show_percentage(result: int | None, cost: int | None) -> str | None:
    """Return a result in percent of its cost (same unit), with up to two decimals: -4.13. None
    without a result or a cost. Halves are rounded away from zero.
    """
    if result is None or not cost:
        return None
    hundredths = (abs(result) * 20_000 + cost) // (2 * cost)
    return exact(-hundredths if result < 0 else hundredths, 2)


def show_seconds(seconds: int | None) -> str | None:
    return None if seconds is None else show_time(seconds * 1000)


def count_seconds(at: int | None, now: int) -> int | None:
    """Return whole seconds since a time, both in ms; 0 for one in the future, None for None."""
    return None if at is None else max(0, now - at) // 1000


# ---- reasons -------------------------------------------------------------------------------------
# Why a bot with a claimed wallet has no results: the wallet's totals include those of the bot that
# held it before, and results since the claim aren't totaled separately.
HELD_BY_ANOTHER = "held_by_another"
# The reason for a part with damaged stored text. The next poll rebuilds it.
DAMAGED = "damaged"


def show_part(value: Any) -> tuple[Any, str | None]:
    """Return a part of a row, or None and why it is missing."""
    return (None, DAMAGED) if isinstance(value, Damaged) else (value, None)
