"""What an auditor keeps of an instance's log: the checkpoint seen last, and what leaves say of
posts and of which bot held which wallet, so that each leaf is fetched once.
"""

import sqlite3
from typing import Any, NamedTuple

import orjson

from evidence.witness import Seen
from storage.tree import TILE_WIDTH

TABLES = """
CREATE TABLE IF NOT EXISTS log_seen (id INTEGER PRIMARY KEY, key TEXT, note TEXT);
CREATE TABLE IF NOT EXISTS log_part (origin TEXT, number INTEGER, hash BLOB,
    PRIMARY KEY (origin, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_said (origin TEXT, place INTEGER, kind TEXT, post TEXT, bot TEXT,
    leaf BLOB, PRIMARY KEY (origin, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS log_said_post ON log_said (origin, post, place);
CREATE INDEX IF NOT EXISTS log_said_bot ON log_said (origin, bot, place);
"""
OF_POSTS, OF_WALLETS = ("post", "verification", "hiding"), ("attachment", "detachment")


class Said(NamedTuple):
    """A leaf: its place in the log, and its members."""

    place: int
    leaf: dict[str, Any]


class LogMemory:
    """The tables of the log in the auditor's file."""

    def __init__(self, kept: sqlite3.Connection) -> None:
        self._kept = kept
        kept.executescript(TABLES)

    def find_seen(self) -> Seen | None:
        """The checkpoint that was seen last; None at the first audit."""
        row = self._kept.execute("SELECT key, note FROM log_seen").fetchone()
        return Seen(*row) if row else None

    def keep_seen(self, seen: Seen) -> None:
        """Keep a checkpoint instead of the one before."""
        self._kept.execute("INSERT OR REPLACE INTO log_seen VALUES (1, ?, ?)", seen)

    # ---- leaves ----------------------------------------------------------------------------------
    def list_bundles(self, origin: str, count: int) -> list[bytes]:
        """The hashes of up to `count` full bundles of leaves, from the first."""
        rows = self._kept.execute(
            "SELECT hash FROM log_part WHERE origin = ? ORDER BY number LIMIT ?", (origin, count)
        )
        return [one for (one,) in rows]

    def keep_bundle(
        self, origin: str, number: int, leaves: list[bytes], root: bytes | None
    ) -> None:
        """Keep what a bundle says; `root`: its hash, None where it is not full."""
        begin = number * TILE_WIDTH
        rows = [_make_row(origin, place, leaf) for place, leaf in enumerate(leaves, begin)]
        self._kept.execute("BEGIN IMMEDIATE")
        self._kept.execute(
            "DELETE FROM log_said WHERE origin = ? AND place >= ?",
            (origin, begin),
        )
        self._kept.executemany(
            "INSERT INTO log_said VALUES (?, ?, ?, ?, ?, ?)", [row for row in rows if row]
        )
        if root is not None:
            self._kept.execute(
                "INSERT OR REPLACE INTO log_part VALUES (?, ?, ?)", (origin, number, root)
            )
        self._kept.execute("COMMIT")

    def forget(self, origin: str) -> None:
        """Forget the leaves of a log: they are not those of its checkpoint."""
        for table in ("log_part", "log_said"):
            self._kept.execute(f"DELETE FROM {table} WHERE origin = ?", (origin,))

    def list_said(self, origin: str, post: str) -> list[Said]:
        """What the leaves say of a post, in their order."""
        rows = self._kept.execute(
            "SELECT place, leaf FROM log_said WHERE origin = ? AND post = ? ORDER BY place",
            (origin, post),
        )
        return [Said(place, orjson.loads(leaf)) for place, leaf in rows]

    def list_posts(self, origin: str, bot: str, before: int) -> list[str]:
        """The ids of a bot's posts with a leaf at a place below `before`."""
        rows = self._kept.execute(
            "SELECT post FROM log_said"
            " WHERE origin = ? AND bot = ? AND place < ? AND kind = 'post' ORDER BY place",
            (origin, bot, before),
        )
        return [post for (post,) in rows]

    def list_bots(self, origin: str) -> list[str]:
        """The ids of all bots that leaves are about."""
        rows = self._kept.execute(
            "SELECT DISTINCT bot FROM log_said WHERE origin = ? AND bot IS NOT NULL ORDER BY bot",
            (origin,),
        )
        return [bot for (bot,) in rows]

    def list_held(self, origin: str, bot: str) -> list[Said]:
        """What the leaves say of when a bot held which wallet, in their order."""
        rows = self._kept.execute(
            "SELECT place, leaf FROM log_said WHERE origin = ? AND bot = ?"
            " AND kind IN ('attachment', 'detachment') ORDER BY place",
            (origin, bot),
        )
        return [Said(place, orjson.loads(leaf)) for place, leaf in rows]

    def find_opening(self, origin: str) -> dict[str, Any]:
        """Return the first leaf of a log; empty where that is no opening, or not known."""
        found = self._kept.execute(
            "SELECT leaf FROM log_said WHERE origin = ? AND place = 0 AND kind = 'opening'",
            (origin,),
        )
        row = found.fetchone()
        return orjson.loads(row[0]) if row else {}


def _make_row(origin: str, place: int, leaf: bytes) -> tuple[Any, ...] | None:
    """Make the row of a leaf that is kept; None for any other leaf, and for one that cannot be
    read.
    """
    try:
        made = orjson.loads(leaf)
    except ValueError:
        return None
    if not isinstance(made, dict):
        return None
    kind, post, bot = (made.get(name) for name in ("kind", "post", "bot"))
    post, bot = (one if isinstance(one, str) else None for one in (post, bot))
    is_kept = (kind in OF_POSTS and post) or (kind in OF_WALLETS and bot) or kind == "opening"
    return (origin, place, kind, post, bot, leaf) if is_kept else None
