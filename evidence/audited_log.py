"""Read an instance's logs: fetch each leaf once, and check that the leaves lead to the signed root.

evidence.leaves compares claims with the leaves.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import orjson

from evidence import witness
from evidence.claims import Changed, Instance, Nonsense
from evidence.differences import Difference
from evidence.lines import ClaimedPost
from evidence.notes import BadNote, Checkpoint, name_origin, parse_checkpoint, parse_note
from evidence.witness import Seen
from market.failures import FetchError
from storage import tree
from storage.tree import TILE_WIDTH

# ---- kept leaves ---------------------------------------------------------------------------------
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
# A leaf's subject, by kind.
ABOUT = {
    **dict.fromkeys(("post", "verification", "hiding"), "post"),
    **dict.fromkeys(("profile", "retirement", "attachment", "detachment"), "bot"),
    "evidence": "wallet",
    **dict.fromkeys(("season", "season_entry", "standing"), "season"),
}


class Said(NamedTuple):
    place: int
    leaf: dict[str, Any]


class Part(NamedTuple):
    """A log whose first `size` leaves were read. `begins` counts the leaves of earlier logs."""

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
        """`root` is the bundle's hash, or None if it isn't full."""
        begin = number * TILE_WIDTH
        self._kept.execute("BEGIN IMMEDIATE")
        self._kept.execute("DELETE FROM log_leaf WHERE origin = ? AND place >= ?", (origin, begin))
        self.add_leaves(origin, begin, leaves)
        if root is not None:
            part = (origin, number, root)
            self._kept.execute("INSERT OR REPLACE INTO log_part VALUES (?, ?, ?)", part)
        self._kept.execute("COMMIT")

    def add_leaves(self, origin: str, begin: int, leaves: list[bytes]) -> None:
        made = [_make_row(origin, place, leaf) for place, leaf in enumerate(leaves, begin)]
        rows = [row for row in made if row]
        self._kept.executemany("INSERT INTO log_leaf VALUES (?, ?, ?, ?, ?, ?)", rows)

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
        """Return a log's first leaf, or {} if it isn't an opening or isn't known."""
        sql = "SELECT leaf FROM log_leaf WHERE origin = ? AND place = 0 AND kind = 'opening'"
        row = self._kept.execute(sql, (origin,)).fetchone()
        return orjson.loads(row[0]) if row else {}


def _make_row(origin: str, place: int, leaf: bytes) -> tuple[Any, ...] | None:
    """Return None if the leaf isn't stored or can't be parsed."""
    try:
        made = orjson.loads(leaf)
    except ValueError:
        return None
    match made:
        case {"kind": "opening"}:
            return (origin, place, "opening", None, None, leaf)
        case {"kind": str(kind)} if isinstance(made.get(ABOUT.get(kind)), str):
            bot = made.get("bot")
            named = bot if isinstance(bot, str) else None
            return (origin, place, kind, made[ABOUT[kind]], named, leaf)
    return None


# ---- reading -------------------------------------------------------------------------------------
# Per log and per run. Leaves that were read are kept, and the next run continues.
MAX_LEAVES, MAX_SECONDS = 4_000_000, 900.0
# Earlier logs, and other logs that posts reference.
MAX_LOGS = 50
TELL_EVERY = 100


@dataclass
class LogAudit:
    """An instance's logs, which are read as one.

    `rereads` is whether the evidence may be read once more. `differences` say what is wrong with
    the logs, and `unknown` why they can't be read.
    """

    instance: Instance
    memory: LogMemory
    tell: Callable[[str], None]
    rereads: bool = False
    differences: list[Difference] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    _before: int = 0

    def measure(self) -> Checkpoint:
        """Return the last checkpoint of the log, shown or seen. If it is unknown, its size is 0."""
        seen = self.memory.find_seen()
        try:
            shown = parse_checkpoint(parse_note(self._get("checkpoint")).text)
        except (BadNote, FetchError):
            return Checkpoint("", 0, b"")
        if seen and seen.checkpoint.origin == shown.origin:
            return max(shown, seen.checkpoint, key=lambda one: one.size)
        return shown

    def read(self, before: Checkpoint, named: Iterable[str]) -> bool:
        """Read all logs. Return whether claims can be compared with them.

        `before` is the result of `measure`. `named`: the ids of logs that claims reference.
        Raises Changed if a new log began during the audit.
        """
        try:
            if not before.size:
                told = "its log was empty or unreadable before its evidence was read"
                raise witness.CannotTell(told)
            chain = self._read_chain()
        except witness.NewLog as error:
            self.unknown.append(f"its log: {error}")
            return False
        except (witness.Alarm, tree.BadProof) as error:
            ours = "a log that starts with the leaves already seen and matches its root"
            self.differences.append(Difference(None, "log", str(error), ours))
            return False
        except (witness.CannotTell, BadNote) as error:
            self.unknown.append(f"its log can't be read: {error}")
            return False
        strange = sorted(set(map(name_origin, named)) - {one.origin for one in chain})
        self._join([*self._read_strange(strange), *chain])
        if before.origin != chain[-1].origin and self.rereads:
            raise Changed
        self._before = self.parts[-1].begins
        if before.origin == chain[-1].origin:
            self._before += min(before.size, chain[-1].size)
        return True

    def _join(self, logs: list[Checkpoint]) -> None:
        begins = 0
        for one in logs:
            self.parts.append(Part(one.origin, begins, one.size))
            begins += one.size
        self.memory.join(self.parts)

    def weigh(self, compare: Callable[[int], Iterable[Difference]]) -> list[Difference]:
        """Compare claims with the leaves logged before the claims were read (`compare(before)`).

        Raises Changed if the current leaves lead to a different result. An instance may have
        reported too few earlier leaves. The next reading uses the number read here.
        """
        found = list(compare(self._before))
        end = self.parts[-1].ends
        if self.rereads and self._before < end and list(compare(end)) != found:
            raise Changed
        return found

    def find_place(self, log: str | None, index: int | None) -> int | None:
        """Return the place, among all leaves, of a log's leaf with this index."""
        part = self._find_part(log)
        return None if part is None or index is None else part.begins + index

    def excuse(self, post: ClaimedPost) -> str | None:
        part = self._find_part(post.log)
        if post.log is None or post.logIndex is None:
            return None
        if part is None:
            return f"are in {post.log}, which it doesn't serve"
        if part is self.parts[-1] and post.logIndex >= part.size:
            return "are newer than its log's checkpoint"
        return None

    def _find_part(self, log: str | None) -> Part | None:
        origin = name_origin(log or "")
        return next((one for one in self.parts if one.origin == origin), None)

    # ---- which logs ------------------------------------------------------------------------------
    def _read_chain(self) -> list[Checkpoint]:
        chain = [self._read_present()]
        while previous := self._find_previous(chain[0]):
            if len(chain) > MAX_LOGS:
                raise witness.CannotTell(f"it continues more than {MAX_LOGS} others")
            chain.insert(0, self._read_kept(previous))
        return chain

    def _find_previous(self, one: Checkpoint) -> witness.Previous | None:
        opening = self.memory.find_opening(one.origin)
        try:
            uid, previous = opening["log"], witness.parse_previous(opening["previous"])
        except (ValueError, KeyError, TypeError):
            raise witness.CannotTell("the first leaf of a log is unusable") from None
        if name_origin(str(uid)) != one.origin:
            raise witness.Alarm(f"the first leaf of {one.origin} opens another log")
        return previous

    def _read_present(self) -> Checkpoint:
        try:
            seen = witness.read_log(self._get, self.memory.find_seen()).seen
        except witness.Alarm as error:
            if error.seen is not None:
                self.memory.keep_seen(error.seen)
            raise
        self.memory.keep_seen(seen)
        self._read_all(seen.checkpoint, "")
        return seen.checkpoint

    def _read_kept(self, previous: witness.Previous) -> Checkpoint:
        prefix = f"{previous.log}/"
        one = Checkpoint(previous.origin, previous.kept, previous.root)
        if previous.kept == previous.size:
            self._read_all(one, prefix)
        else:
            # A restore doesn't sign the root of the leaves it kept.
            self._read_leaves(one, prefix)
        return one

    def _read_strange(self, origins: Iterable[str]) -> list[Checkpoint]:
        found = []
        for origin in list(origins)[:MAX_LOGS]:
            _, _, uid = origin.partition("/")
            self.unknown.append(f"its log does not continue {uid}, which contains posts")
            try:
                look = witness.read_log(partial(self._get_of, uid), None)
                self._read_all(look.seen.checkpoint, f"{uid}/")
                found.append(look.seen.checkpoint)
            except (witness.Alarm, witness.CannotTell, tree.BadProof, BadNote) as error:
                self.unknown.append(f"{uid} can't be read: {error}")
        return found

    # ---- fetching --------------------------------------------------------------------------------
    def _get(self, path: str) -> bytes:
        try:
            return self.instance.read_log(path)
        except Nonsense as error:
            raise FetchError(str(error)) from None

    def _get_of(self, uid: str, path: str) -> bytes:
        return self._get(f"{uid}/{path}")

    def _read_all(self, one: Checkpoint, prefix: str) -> None:
        if one.size > MAX_LEAVES:
            raise witness.CannotTell(f"it has {one.size} leaves, too many to read")
        for _ in range(2):
            if self._read_leaves(one, prefix) == one.root:
                return
            # The stored leaves may be from an unsigned response.
            self.memory.forget(one.origin)
        raise tree.BadProof("its leaves don't match the root it signed")

    def _read_leaves(self, one: Checkpoint, prefix: str) -> bytes:
        full, rest = divmod(one.size, TILE_WIDTH)
        hashes, end = self.memory.list_bundles(one.origin, full), time.monotonic() + MAX_SECONDS
        for number in range(len(hashes), full):
            if time.monotonic() > end:
                told = f"{number} of {full} parts are done; run the command again"
                raise witness.CannotTell(told)
            if number % TELL_EVERY == TELL_EVERY - 1:
                self.tell(f"log: {number + 1} of {full} parts")
            leaves = self._fetch_bundle(prefix, number, TILE_WIDTH)
            hashes.append(tree.hash_tile([tree.hash_leaf(one) for one in leaves]))
            self.memory.keep_bundle(one.origin, number, leaves, hashes[-1])
        last = self._fetch_bundle(prefix, full, rest) if rest else []
        self.memory.keep_bundle(one.origin, full, last, None)
        hashed = [tree.hash_leaf(leaf) for leaf in last]
        return tree.find_root(_make_reader(hashes, hashed), one.size)

    def _fetch_bundle(self, prefix: str, number: int, width: int) -> list[bytes]:
        try:
            bundle = self._get(prefix + tree.write_path("entries", number, width))
        except FetchError as error:
            raise witness.CannotTell(f"its leaves can't be fetched: it {error}") from None
        return tree.cut_bundle(bundle, width)


def _make_reader(bundles: list[bytes], last: list[bytes]) -> tree.ReadHash:
    def read(level: int, index: int) -> bytes:
        if level == 0:
            return last[index - len(bundles) * TILE_WIDTH]
        if level == 1:
            return bundles[index]
        begin = index * TILE_WIDTH
        return tree.hash_tile([read(level - 1, begin + n) for n in range(TILE_WIDTH)])

    return read
