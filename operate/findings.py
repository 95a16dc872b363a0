"""What the doctor says: findings, in sentences."""

import time
from dataclasses import dataclass

# a finalized block is some 15 s old
CLOCK_MS = 90_000


@dataclass(frozen=True)
class Finding:
    # fine | look | wrong
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
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000)) if ms else "never"
