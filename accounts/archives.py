"""The form of an archive of all that an owner has: docs/moving.md describes it to people.

A zip file of known names: JSON, one value a line, and CSV. An import reads HEAD, BOTS, POSTS and
TRADERS; the others are for their owner. Times are RFC 3339 in UTC.
"""

import datetime
import re

FORMAT, VERSION = "candor-export", 1
HEAD = "export.json"
BOTS, POSTS, TRADERS = "bots.jsonl", "posts.jsonl", "traders.jsonl"
README = "README.txt"
# Tables of an archive that no import reads.
TABLES = (
    *("posts.csv", "wallets.csv", "trades.csv", "keys.csv", "hooks.csv", "sessions.csv"),
    *("traders.csv", "paper_accounts.csv", "paper_orders.csv", "paper_fills.csv"),
    *("paper_positions.csv", "paper_diary.csv", "paper_posts.csv", "paper_reviews.csv"),
    "backtests.csv",
)
NAMES = (HEAD, README, BOTS, POSTS, TRADERS, *TABLES)
# Rows of a file. An archive says which of its files are cut there.
MAX_ROWS = 200_000
MAX_BOTS = MAX_TRADERS = 200
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


def write_time(ms: int | None) -> str | None:
    """Write UTC milliseconds as `2026-11-20T12:00:00.123Z`; None stays None."""
    if ms is None:
        return None
    moment = datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def read_time(text: str) -> int:
    """Read what write_time wrote, in ms. ValueError for anything else."""
    if not TIME.fullmatch(text):
        raise ValueError("not a time")
    moment = datetime.datetime.fromisoformat(text)
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000
