"""An auditor's memory of an instance's logs: the last checkpoint seen, and the leaves about bots,
posts and wallets, so that each leaf is fetched once.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from evidence.witness import Seen
from storage.tree import TILE_WIDTH

OF_SEASONS = "kind IN ('season', 'season_entry', 'standing')"
TABLES = f"""
CREATE TABLE IF NOT EXISTS log_seen (id INTEGER PRIMARY KEY, key TEXT, note TEXT);
CREATE TABLE IF NOT EXISTS log_part (origin TEXT, number INTEGER, hash BLOB,
    PRIMARY KEY (origin, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_leaf (origin TEXT, place INTEGER, kind TEXT, about TEXT, bot TEXT,
    leaf BLOB, PRIMARY KEY (origin, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS log_leaf_about ON log_leaf (about, kind);
CREATE INDEX IF NOT EXISTS log_leaf_bot ON log_leaf (bot, kind);
CREATE INDEX IF NOT EXISTS log_leaf_season ON log_leaf (kind) WHERE {OF_SEASONS};
CREATE TEMP TABLE part (origin TEXT PRIMARY KEY, begins INTEGER, size INTEGER);
"""
# The subject of a leaf, by its kind.
ABOUT = {
    **dict.fromkeys(("post", "verification", "hiding"), "post"),
    **dict.fromkeys(("profile", "retirement", "attachment", "detachment"), "bot"),
    "evidence": "wallet",
    **dict.fromkeys(("season", "season_entry", "standing"), "season"),
}


class Said(NamedTuple):
    """A leaf: its place, counted across all logs, and its members."""

    place: int
    leaf: dict[str, Any]


class Part(NamedTuple):
    """A log whose first `size` leaves were read. `begins`: number of leaves in earlier logs."""

    origin: str
    begins: int
    size: int

    @property
    def ends(self) -> int:
        return self.begins + self.size


class LogMemory:
    def __init__(self, kept: sqlite3.Connection) -> None:
        self._kept = kept
        kept.executescript(TABLES)

    def find_seen(self) -> Seen | None:
        row = self._kept.execute("SELECT key, note FROM log_seen").fetchone()
        return Seen(*row) if row else None

    def keep_seen(self, seen: Seen) -> None:
        self._kept.execute("INSERT OR REPLACE INTO log_seen VALUES (1, ?, ?)", seen)

    # ---- keeping leaves --------------------------------------------------------------------------
    def list_bundles(self, origin: str, count: int) -> list[bytes]:
        rows = self._kept.execute(
            "SELECT hash FROM log_part WHERE origin = ? ORDER BY number LIMIT ?", (origin, count)
        )
        return [one for (one,) in rows]

    def keep_bundle(
        self, origin: str, number: int, leaves: list[bytes], root: bytes | None
    ) -> None:
        """Store the leaves of a bundle; `root`: its hash, or None if it isn't full."""
        begin = number * TILE_WIDTH
        self._kept.execute("BEGIN IMMEDIATE")
        self._kept.execute("DELETE FROM log_leaf WHERE origin = ? AND place >= ?", (origin, begin))
        self.add_leaves(origin, begin, leaves)
        if root is not None:
            self._kept.execute(
                "INSERT OR REPLACE INTO log_part VALUES (?, ?, ?)", (origin, number, root)
            )
        self._kept.execute("COMMIT")

    def add_leaves(self, origin: str, begin: int, leaves: list[bytes]) -> None:
        rows = [_make_row(origin, place, leaf) for place, leaf in enumerate(leaves, begin)]
        self._kept.executemany(
            "INSERT INTO log_leaf VALUES (?, ?, ?, ?, ?, ?)", [row for row in rows if row]
        )

    def forget(self, origin: str) -> None:
        for table in ("log_part", "log_leaf"):
            self._kept.execute(f"DELETE FROM {table} WHERE origin = ?", (origin,))

    # ---- reading leaves --------------------------------------------------------------------------
    def join(self, parts: Iterable[Part]) -> None:
        """Treat these logs as one from now on."""
        self._kept.execute("DELETE FROM part")
        self._kept.executemany("INSERT INTO part VALUES (?, ?, ?)", parts)

    def _list(self, where: str, *values: Any) -> list[Said]:
        rows = self._kept.execute(
            "SELECT p.begins + l.place, l.leaf FROM log_leaf l JOIN part p ON p.origin = l.origin"
            f" AND l.place < p.size WHERE {where} ORDER BY 1",
            values,
        )
        return [Said(place, orjson.loads(leaf)) for place, leaf in rows]

    def list_said(self, about: str) -> list[Said]:
        return self._list("l.about = ?", about)

    def list_seasons(self) -> list[Said]:
        return self._list(OF_SEASONS)

    def list_posts(self, bot: str, before: int) -> list[str]:
        said = self._list("l.bot = ? AND l.kind = 'post'", bot)
        return [one.leaf["post"] for one in said if one.place < before]

    def list_bots(self) -> list[str]:
        rows = self._kept.execute(
            "SELECT DISTINCT bot FROM log_leaf WHERE bot IS NOT NULL AND origin IN"
            " (SELECT origin FROM part) ORDER BY bot"
        )
        return [bot for (bot,) in rows]

    def find_opening(self, origin: str) -> dict[str, Any]:
        """Return a log's first leaf; empty if it is not an opening or unknown."""
        found = self._kept.execute(
            "SELECT leaf FROM log_leaf WHERE origin = ? AND place = 0 AND kind = 'opening'",
            (origin,),
        )
        row = found.fetchone()
        return orjson.loads(row[0]) if row else {}


def _make_row(origin: str, place: int, leaf: bytes) -> tuple[Any, ...] | None:
    """Return a leaf's row, or None if it isn't stored or can't be parsed."""
    try:
        made = orjson.loads(leaf)
    except ValueError:
        return None
    kind = made.get("kind") if isinstance(made, dict) else None
    if kind == "opening":
        return (origin, place, kind, None, None, leaf)
    if not isinstance(kind, str) or kind not in ABOUT:
        return None
    about, bot = made.get(ABOUT[kind]), made.get("bot")
    if not isinstance(about, str):
        return None
    return (origin, place, kind, about, bot if isinstance(bot, str) else None, leaf)
