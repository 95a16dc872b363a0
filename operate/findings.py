"""Findings of `app.py doctor`, in sentences."""

import time
from dataclasses import dataclass

# The newest final block may be this old: nodes lag, and finality takes time.
CLOCK_MS = 90_000
SET_CLOCK = "set it on the machine itself (as root: timedatectl set-ntp true)"


@dataclass(frozen=True)
class Finding:
    # fine | look (the operator should know) | wrong (something needs doing)
    level: str
    text: str
    advice: str = ""


def fine(text: str) -> Finding:
    return Finding("fine", text)


def look(text: str, advice: str = "") -> Finding:
    return Finding("look", text, advice)


def wrong(text: str, advice: str) -> Finding:
    return Finding("wrong", text, advice)


def show_time(ms: int | None) -> str:
    """Write UTC milliseconds for people; "never" for None."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000)) if ms else "never"


def show_span(ms: int) -> str:
    """Write a span of time for people, in its two largest units: `2 h 5 min`."""
    parts: list[str] = []
    rest = ms // 1000
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count or (parts and len(parts) < 2):
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"
