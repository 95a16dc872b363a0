"""What an auditor keeps: transactions in a file, so that an audit goes on where it stopped, and the
tables of the wallet at hand, on disk too.
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
from chain.reading.packing import pack, read_stored
from chain.reading.receipts import Receipt
from evidence.claims import ClaimedPost
from evidence.log_memory import LogMemory

# Transactions written at once; what is lost in a power cut is fetched again.
COMMIT_EVERY = 50
TABLES = """
CREATE TABLE entry (signature TEXT PRIMARY KEY, slot INTEGER, tx_index INTEGER, entry BLOB,
                    digest TEXT, inner_told INTEGER) WITHOUT ROWID;
CREATE INDEX entry_slot ON entry (slot, tx_index);
CREATE TABLE listed (signature TEXT PRIMARY KEY, slot INTEGER, tx_index INTEGER) WITHOUT ROWID;
CREATE TABLE claim (signature TEXT PRIMARY KEY, slot INTEGER, line BLOB) WITHOUT ROWID;
"""
POSTS = """
CREATE TABLE post (place INTEGER PRIMARY KEY, id TEXT UNIQUE, wallet TEXT, signature TEXT,
                   created_at INTEGER, log TEXT, line TEXT);
CREATE INDEX post_wallet ON post (wallet);
CREATE INDEX post_signature ON post (signature);
"""


class KeptEntry(NamedTuple):
    """What the auditor's node told of a transaction, and what is claimed of it, if anything."""

    entry: Entry
    digest: str
    inner_told: bool
    line: dict[str, Any] | None


class Memory:
    """What an auditor remembers. `path`: the file of transactions; None: kept for this run only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._kept = sqlite3.connect(path or ":memory:", timeout=30, isolation_level=None)
        self._kept.execute("PRAGMA synchronous = OFF")
        self._kept.execute(
            "CREATE TABLE IF NOT EXISTS receipt (signature TEXT PRIMARY KEY, body BLOB)"
            " WITHOUT ROWID"
        )
        self.log = LogMemory(self._kept)
        self._unwritten: dict[str, bytes] = {}
        # An empty name makes a temporary file that nobody sees.
        self._posts = sqlite3.connect("", isolation_level=None)
        self._posts.executescript(POSTS)
        self.begin()

    def begin(self) -> None:
        """Forget the wallet at hand."""
        self._work = sqlite3.connect("", isolation_level=None)
        self._work.executescript(f"PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; {TABLES}")

    def open_beside(self) -> "Memory":
        """Return a memory of another wallet that shares all but the tables of the one at hand."""
        self.flush()
        beside = copy.copy(self)
        beside.begin()
        return beside

    def close(self) -> None:
        self.flush()
        for one in (self._kept, self._work, self._posts):
            one.close()

    # ---- transactions ----------------------------------------------------------------------------
    def find_receipt(self, signature: str) -> Receipt | None:
        """The kept transaction; one that cannot be read is as if it were not there."""
        body = self._unwritten.get(signature)
        if body is None:
            found = self._kept.execute("SELECT body FROM receipt WHERE signature = ?", (signature,))
            row = found.fetchone()
            if row is None:
                return None
            body = row[0]
        return read_stored(body, signature)

    def keep_receipt(self, signature: str, raw: Mapping[str, Any]) -> None:
        """Keep a node's answer, instead of an earlier one."""
        self._unwritten[signature] = pack(raw)
        if len(self._unwritten) >= COMMIT_EVERY:
            self.flush()

    def flush(self) -> None:
        """Write what was kept to the file."""
        rows, self._unwritten = list(self._unwritten.items()), {}
        self._kept.execute("BEGIN IMMEDIATE")
        self._kept.executemany("INSERT OR REPLACE INTO receipt VALUES (?, ?)", rows)
        self._kept.execute("COMMIT")

    # ---- what the wallet's addresses list --------------------------------------------------------
    def add_listed(self, rows: list[Any]) -> int:
        """Add (signature, slot, place or None) rows; return how many were unknown."""
        before = self._work.total_changes
        self._work.executemany("INSERT OR IGNORE INTO listed VALUES (?, ?, ?)", rows)
        return self._work.total_changes - before

    def count_listed(self) -> int:
        return int(self._work.execute("SELECT COUNT(*) FROM listed").fetchone()[0])

    def list_unread(self) -> list[tuple[str, int, int | None]]:
        """Signatures that are listed or claimed and have no entry yet, with slot and place."""
        rows = self._work.execute(
            "SELECT signature, slot, tx_index FROM listed"
            " WHERE signature NOT IN (SELECT signature FROM entry) UNION"
            " SELECT signature, slot, NULL FROM claim WHERE signature NOT IN"
            " (SELECT signature FROM entry UNION SELECT signature FROM listed) ORDER BY 2"
        )
        return rows.fetchall()

    # ---- entries and claims ----------------------------------------------------------------------
    def store_entry(self, entry: Entry, digest: str, inner_told: bool) -> None:
        """Store what a transaction means for the wallet at hand."""
        self._work.execute(
            "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?)",
            (entry.signature, entry.slot, entry.tx_index, entry.dump(), digest, inner_told),
        )

    def store_places(self, places: Mapping[str, int]) -> None:
        """Store the places of transactions inside their slot."""
        self._work.executemany(
            "UPDATE entry SET tx_index = ? WHERE signature = ?",
            [(place, signature) for signature, place in places.items()],
        )

    def add_claims(self, lines: list[dict[str, Any]]) -> int:
        """Add claimed lines; return how many name a signature that an earlier one named."""
        before = self._work.total_changes
        self._work.executemany(
            "INSERT OR IGNORE INTO claim VALUES (?, ?, ?)",
            [(line["signature"], line["slot"], orjson.dumps(line)) for line in lines],
        )
        return len(lines) - (self._work.total_changes - before)

    def add_left_out(self, signatures: list[str]) -> None:
        """Take transactions that nobody claims into what is rebuilt."""
        self._work.executemany(
            "INSERT OR IGNORE INTO claim SELECT signature, slot, NULL FROM entry"
            " WHERE signature = ?",
            [(signature,) for signature in signatures],
        )

    def drop_claim(self, signature: str) -> None:
        """Leave a claimed line out of what is rebuilt."""
        self._work.execute("DELETE FROM claim WHERE signature = ?", (signature,))

    def find_entry(self, signature: str) -> KeptEntry | None:
        """What is known of one transaction."""
        return next(self._list(self._SELECT + " WHERE e.signature = ?", (signature,)), None)

    def list_claimed(self) -> Iterator[KeptEntry]:
        """Yield what is claimed, or taken in, and known, by slot."""
        return self._list(
            self._SELECT + " WHERE c.signature IS NOT NULL ORDER BY e.slot, e.tx_index"
        )

    def list_unclaimed(self) -> Iterator[KeptEntry]:
        """Yield what is known and that nobody claims, by slot."""
        return self._list(self._SELECT + " WHERE c.signature IS NULL ORDER BY e.slot")

    def list_all(self) -> Iterator[KeptEntry]:
        """Yield all that is known, by slot."""
        return self._list(self._SELECT + " ORDER BY e.slot, e.tx_index")

    def list_missing(self) -> list[dict[str, Any]]:
        """The claimed lines whose transaction is not known, by slot."""
        rows = self._work.execute(
            "SELECT line FROM claim WHERE line IS NOT NULL AND signature NOT IN"
            " (SELECT signature FROM entry) ORDER BY slot"
        )
        return [orjson.loads(line) for (line,) in rows]

    def list_unplaced(self) -> dict[int, list[str]]:
        """Signatures without a place, of slots that hold several, by slot."""
        found: dict[int, list[str]] = {}
        rows = self._work.execute(
            "SELECT slot, signature FROM entry WHERE slot IN (SELECT slot FROM entry GROUP BY slot"
            " HAVING COUNT(*) > 1 AND COUNT(tx_index) < COUNT(*))"
        )
        for slot, signature in rows:
            found.setdefault(slot, []).append(signature)
        return found

    # ---- posts -----------------------------------------------------------------------------------
    def begin_posts(self) -> None:
        """Forget the posts of the bot at hand."""
        self._posts.execute("DELETE FROM post")

    def add_posts(self, posts: list[ClaimedPost]) -> int:
        """Add posts in the order of arrival; return how many have the id of an earlier one."""
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
        """Yield the posts that are judged against a wallet, or against none."""
        return self._list_posts("WHERE wallet IS ?", wallet)

    def list_all_posts(self) -> Iterator[ClaimedPost]:
        """Yield all posts in the order of their times."""
        return self._list_posts("ORDER BY created_at, place")

    def list_repeated(self) -> set[str]:
        """The ids of posts that name a transaction that an earlier post named."""
        rows = self._posts.execute(
            "SELECT id FROM post p WHERE EXISTS (SELECT 1 FROM post o"
            " WHERE o.signature = p.signature AND o.place < p.place)"
        )
        return {uid for (uid,) in rows}

    def _list_posts(self, where: str, *values: Any) -> Iterator[ClaimedPost]:
        rows = self._posts.execute(f"SELECT line FROM post {where}", values)
        return (ClaimedPost.model_validate_json(line) for (line,) in rows)

    def list_logs(self) -> set[str]:
        """The ids of the logs that posts name."""
        rows = self._posts.execute("SELECT DISTINCT log FROM post WHERE log IS NOT NULL")
        return {uid for (uid,) in rows}

    def has_post(self, uid: str) -> bool:
        """Is a post with this id among them?"""
        found = self._posts.execute("SELECT 1 FROM post WHERE id = ?", (uid,))
        return found.fetchone() is not None

    def list_post_wallets(self) -> set[str]:
        """The wallets that posts are judged against."""
        rows = self._posts.execute("SELECT DISTINCT wallet FROM post WHERE wallet IS NOT NULL")
        return {address for (address,) in rows}

    _SELECT = (
        "SELECT e.signature, e.slot, e.tx_index, e.entry, e.digest, e.inner_told, c.line"
        " FROM entry e"
        " LEFT JOIN claim c ON c.signature = e.signature"
    )

    def _list(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[KeptEntry]:
        for row in self._work.execute(sql, values):
            signature, slot, tx_index, stored, digest, inner_told, body = row
            line = None if body is None else orjson.loads(body)
            told = line and line.get("seenAtMs")
            seen_at = told if isinstance(told, int) else None
            entry = Entry.load(signature, slot, tx_index, stored, seen_at)
            yield KeptEntry(entry, digest, bool(inner_told), line)


def find_path(url: str, node_urls: str) -> Path:
    """Return the file of what this node told of this instance: in XDG_CACHE_HOME, else ~/.cache."""
    named = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(named) if named.startswith("/") else Path.home() / ".cache"
    name = hashlib.sha256(f"{url} {node_urls}".encode()).hexdigest()[:16]
    return folder / "candor" / f"audit-{name}.db"


def open_memory(path: Path) -> Memory:
    """Open the file, made where it is missing; where that cannot be, keep nothing after this run.

    A file that is damaged is made anew.
    """
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
