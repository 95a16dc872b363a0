"""An auditor's memory on disk.

One file has the leaves of the log and the transactions, so that each is fetched only once. Another
has tables about the current wallet.
"""

import contextlib
import copy
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from chain.reading.entries import Entry
from chain.reading.receipts import Receipt, pack, read_stored
from evidence.audited_log import LogMemory
from evidence.lines import ClaimedPost

# ---- transactions and posts ----------------------------------------------------------------------
RECEIPTS = (
    "CREATE TABLE IF NOT EXISTS receipt (signature TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID"
)
# The current wallet's transactions: listed by the node, claimed (`line`, JSON) or included in the
# rebuild (`taken`). `entry` is what the node reported. The table has row IDs, because signatures
# are random and rows are large, so WITHOUT ROWID is 50% slower.
TRANSACTIONS = """
CREATE TABLE tx (signature TEXT PRIMARY KEY, slot INTEGER, tx_index INTEGER,
    listed INTEGER DEFAULT 0, taken INTEGER DEFAULT 0, line BLOB,
    entry BLOB, digest TEXT, inner_told INTEGER);
CREATE INDEX tx_slot ON tx (slot, tx_index);
"""
POSTS = """
CREATE TABLE post (place INTEGER PRIMARY KEY, id TEXT UNIQUE, wallet TEXT, signature TEXT,
                   created_at INTEGER, log TEXT, line TEXT);
CREATE INDEX post_wallet ON post (wallet);
CREATE INDEX post_signature ON post (signature);
"""
ADD_LISTED = """
INSERT INTO tx (signature, slot, tx_index, listed) VALUES (?, ?, ?, 1)
ON CONFLICT DO UPDATE SET listed = 1, tx_index = COALESCE(tx_index, excluded.tx_index)
WHERE listed = 0"""
ADD_CLAIM = """
INSERT INTO tx (signature, slot, line, taken) VALUES (?, ?, ?, 1)
ON CONFLICT DO UPDATE SET line = excluded.line, taken = 1 WHERE line IS NULL"""
STORE_ENTRY = """
INSERT INTO tx (signature, slot, tx_index, entry, digest, inner_told) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET slot = excluded.slot, tx_index = excluded.tx_index,
    entry = excluded.entry, digest = excluded.digest, inner_told = excluded.inner_told"""
UNPLACED = """
SELECT slot, signature FROM tx WHERE entry IS NOT NULL AND slot IN (
    SELECT slot FROM tx WHERE entry IS NOT NULL GROUP BY slot
    HAVING COUNT(*) > 1 AND COUNT(tx_index) < COUNT(*))"""


class KeptEntry(NamedTuple):
    entry: Entry
    digest: str
    inner_told: bool
    line: dict[str, Any] | None


class Memory:
    """`path` is the file of transactions. If it is None, they are kept for this run only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._kept = sqlite3.connect(path or ":memory:", timeout=30, isolation_level=None)
        # Data lost in a power failure is fetched again.
        self._kept.execute("PRAGMA synchronous = OFF")
        self._kept.execute(RECEIPTS)
        self.log = LogMemory(self._kept)
        # An empty name makes a temporary file.
        self._posts = sqlite3.connect("", isolation_level=None)
        self._posts.executescript(POSTS)
        self.begin()

    def begin(self) -> None:
        # Counting the rows would read all of them.
        self.listed = 0
        self._work = sqlite3.connect("", isolation_level=None)
        fast = "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF"
        self._work.executescript(f"{fast}; {TRANSACTIONS}")

    def open_beside(self) -> "Memory":
        """Return a memory for another wallet that shares everything except the wallet's tables."""
        beside = copy.copy(self)
        beside.begin()
        return beside

    def close(self) -> None:
        for one in (self._kept, self._work, self._posts):
            one.close()

    # ---- transactions ----------------------------------------------------------------------------
    def find_receipt(self, signature: str) -> Receipt | None:
        """Return None if the transaction is missing or unreadable."""
        found = self._kept.execute("SELECT body FROM receipt WHERE signature = ?", (signature,))
        row = found.fetchone()
        return row and read_stored(row[0], signature)

    def keep_receipt(self, signature: str, raw: Mapping[str, Any]) -> None:
        row = (signature, pack(raw))
        self._kept.execute("INSERT OR REPLACE INTO receipt VALUES (?, ?)", row)

    # ---- the wallet at hand ----------------------------------------------------------------------
    def add_listed(self, rows: list[Any]) -> None:
        """Add (signature, slot, place or None) rows."""
        self.listed += self._add(ADD_LISTED, rows)

    def _add(self, sql: str, rows: list[Any]) -> int:
        """Return how many of the rows were new."""
        before = self._work.total_changes
        self._work.executemany(sql, rows)
        return self._work.total_changes - before

    def list_unread(self) -> list[tuple[str, int, int | None]]:
        """List (signature, slot, place) of listed or claimed transactions without an entry."""
        return self._work.execute(
            "SELECT signature, slot, tx_index FROM tx WHERE entry IS NULL AND (listed = 1 OR"
            " line IS NOT NULL) ORDER BY slot"
        ).fetchall()

    def store_entry(self, entry: Entry, digest: str, inner_told: bool) -> None:
        row = (entry.signature, entry.slot, entry.tx_index, entry.dump(), digest, inner_told)
        self._work.execute(STORE_ENTRY, row)

    def store_places(self, places: Mapping[str, int]) -> None:
        rows = [(place, signature) for signature, place in places.items()]
        self._work.executemany("UPDATE tx SET tx_index = ? WHERE signature = ?", rows)

    def add_claims(self, lines: list[dict[str, Any]]) -> int:
        """Add claimed lines. Return how many repeat an earlier signature."""
        rows = [(line["signature"], line["slot"], orjson.dumps(line)) for line in lines]
        return len(lines) - self._add(ADD_CLAIM, rows)

    def add_left_out(self, signatures: list[str]) -> None:
        rows = [(signature,) for signature in signatures]
        self._work.executemany("UPDATE tx SET taken = 1 WHERE signature = ?", rows)

    def drop_claim(self, signature: str) -> None:
        """Exclude a claimed line from the rebuild."""
        sql = "UPDATE tx SET taken = 0, line = NULL WHERE signature = ?"
        self._work.execute(sql, (signature,))

    def find_entry(self, signature: str) -> KeptEntry | None:
        return next(self._list("signature = ?", signature), None)

    def list_entries(self, taken: bool | None = None) -> Iterator[KeptEntry]:
        """Yield transactions by slot: all, or those (not) included in the rebuild."""
        return self._list("TRUE") if taken is None else self._list("taken = ?", taken)

    def _list(self, where: str, *values: Any) -> Iterator[KeptEntry]:
        sql = (
            "SELECT signature, slot, tx_index, entry, digest, inner_told, line FROM tx"
            f" WHERE entry IS NOT NULL AND {where} ORDER BY slot, tx_index"
        )
        for row in self._work.execute(sql, values):
            signature, slot, tx_index, stored, digest, inner_told, body = row
            line = None if body is None else orjson.loads(body)
            told = line and line.get("seenAtMs")
            seen_at = told if isinstance(told, int) else None
            entry = Entry.load(signature, slot, tx_index, stored, seen_at)
            yield KeptEntry(entry, digest, bool(inner_told), line)

    def list_missing(self) -> list[dict[str, Any]]:
        sql = "SELECT line FROM tx WHERE line IS NOT NULL AND entry IS NULL ORDER BY slot"
        return [orjson.loads(line) for (line,) in self._work.execute(sql)]

    def list_unplaced(self) -> dict[int, list[str]]:
        """Return {slot: signatures of unknown position}, for slots with several transactions."""
        found: dict[int, list[str]] = {}
        for slot, signature in self._work.execute(UNPLACED):
            found.setdefault(slot, []).append(signature)
        return found

    # ---- posts -----------------------------------------------------------------------------------
    def begin_posts(self) -> None:
        self._posts.execute("DELETE FROM post")

    def add_posts(self, posts: list[ClaimedPost]) -> int:
        """Add posts in order of arrival. Return how many repeat an earlier ID."""
        before = self._posts.total_changes
        rows = [
            (one.id, one.wallet, one.signature, one.createdAtMs, one.log, one.model_dump_json())
            for one in posts
        ]
        self._posts.execute("BEGIN")
        self._posts.executemany(
            "INSERT OR IGNORE INTO post (id, wallet, signature, created_at, log, line)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )
        self._posts.execute("COMMIT")
        return len(rows) - (self._posts.total_changes - before)

    def list_posts(self, wallet: str | None) -> Iterator[ClaimedPost]:
        """Yield the posts that are judged against a wallet, or those without one (None)."""
        return self._list_posts("WHERE wallet IS ?", wallet)

    def list_all_posts(self) -> Iterator[ClaimedPost]:
        return self._list_posts("ORDER BY created_at, place")

    def list_repeated(self) -> set[str]:
        """Return the IDs of posts that cite the same transaction as an earlier post."""
        return self._read_set(
            "SELECT id FROM post p WHERE EXISTS (SELECT 1 FROM post o"
            " WHERE o.signature = p.signature AND o.place < p.place)"
        )

    def _list_posts(self, where: str, *values: Any) -> Iterator[ClaimedPost]:
        rows = self._posts.execute(f"SELECT line FROM post {where}", values)
        return (ClaimedPost.model_validate_json(line) for (line,) in rows)

    def list_logs(self) -> set[str]:
        return self._read_set("SELECT DISTINCT log FROM post WHERE log IS NOT NULL")

    def has_post(self, uid: str) -> bool:
        found = self._posts.execute("SELECT 1 FROM post WHERE id = ?", (uid,))
        return found.fetchone() is not None

    def list_post_wallets(self) -> set[str]:
        return self._read_set("SELECT DISTINCT wallet FROM post WHERE wallet IS NOT NULL")

    def _read_set(self, sql: str) -> set[str]:
        return {value for (value,) in self._posts.execute(sql)}


def find_path(url: str, node_urls: str) -> Path:
    """Return the file for this node and instance, in XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(named) if named.startswith("/") else Path.home() / ".cache"
    name = hashlib.sha256(f"{url} {node_urls}".encode()).hexdigest()[:16]
    return folder / "candor" / f"audit-{name}.db"


def open_memory(path: Path) -> Memory:
    """Open or create the file, replacing a damaged one. On failure, keep data for this run only."""
    for _ in range(2):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Memory(path)
        except sqlite3.DatabaseError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        except OSError:
            break
    return Memory(None)
