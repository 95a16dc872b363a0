"""Read the log: its checkpoints, tiles and proofs, as the database holds them.

`db` is the database of this process but where a restore looks into another one.
"""

from typing import Any, NamedTuple

from evidence.notes import Checkpoint, Signer, encode
from storage import database, tree

LOGS = """
SELECT uid, first_leaf,
       COALESCE((SELECT MIN(n.first_leaf) FROM log n WHERE n.first_leaf > l.first_leaf),
                (SELECT MAX(id) + 1 FROM log_leaf)) - first_leaf AS size,
       opened_at, key, id
FROM log l"""
LEAVES = "SELECT id, data FROM log_leaf WHERE id >= ? AND id < ? ORDER BY id"
NODES = (
    "SELECT place, hash FROM log_node WHERE log_id = ? AND level = ? AND place >= ? AND place < ?"
    " ORDER BY place"
)
PROMISED = """
SELECT l.uid, p.leaf_id - l.first_leaf AS place, f.data, p.salt, p.event_id, p.body, p.symbol,
       p.reason, p.hidden_at
FROM post p JOIN log_leaf f ON f.id = p.leaf_id
JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= p.leaf_id)
WHERE p.uid = ?"""


def name_origin(uid: str) -> str:
    """Return the name that checkpoints of a log begin with, wherever it is served."""
    return f"candor/{uid}"


class LogRow(NamedTuple):
    uid: str
    first_leaf: int
    size: int
    # UTC milliseconds
    opened_at: int
    # The verifier key that it was opened with, null before the first start.
    key: str | None
    id: int

    @property
    def origin(self) -> str:
        return name_origin(self.uid)


class LoggedPost(NamedTuple):
    """A post with its leaf: `place` in the log `log`. Without its words and salt once hidden."""

    log: str
    place: int
    leaf: str
    salt: str | None
    event_id: str
    body: str
    symbol: str | None
    reason: str | None
    hidden_at: int | None

    @property
    def origin(self) -> str:
        return name_origin(self.log)


class Damaged(Exception):
    """The log lacks a leaf or a node: somebody else than this program wrote into its tables."""


def list_logs() -> list[LogRow]:
    return [LogRow(*row) for row in database.execute_sql(f"{LOGS} ORDER BY id").fetchall()]


def find_log(uid: str | None = None, db: Any = database) -> LogRow | None:
    """Return the log of this uid, or (None) the one that grows; None where there is none."""
    where, given = (" WHERE uid = ?", (uid,)) if uid else (" ORDER BY id DESC LIMIT 1", ())
    rows = db.execute_sql(LOGS + where, given).fetchall()
    return LogRow(*rows[0]) if rows else None


def find_post(uid: str) -> LoggedPost | None:
    """Return a post with its leaf; None for one that is unknown or not logged."""
    rows = database.execute_sql(PROMISED, (uid,)).fetchall()
    return LoggedPost(*rows[0]) if rows else None


# ---- tiles ---------------------------------------------------------------------------------------
def read_leaves(log: LogRow, begin: int, end: int, db: Any = database) -> list[bytes]:
    """Return the leaves of these indices. Raises Damaged where one is missing."""
    bounds = (log.first_leaf + begin, log.first_leaf + end)
    rows = db.execute_sql(LEAVES, bounds).fetchall()
    if len(rows) != end - begin:
        raise Damaged(f"leaves between {begin} and {end} of {log.uid} are missing")
    return [data.encode() for _, data in rows]


def read_hashes(
    log: LogRow, level: int, number: int, width: int, db: Any = database
) -> list[bytes]:
    """Return the first `width` hashes of a tile. Raises Damaged."""
    begin = number * tree.TILE_WIDTH
    if level == 0:
        return [tree.hash_leaf(leaf) for leaf in read_leaves(log, begin, begin + width, db)]
    bounds = (log.id, level, begin, begin + width)
    rows = db.execute_sql(NODES, bounds).fetchall()
    if len(rows) != width:
        raise Damaged(f"nodes of tile {level}/{number} of {log.uid} are missing")
    return [bytes(node) for _, node in rows]


def make_reader(log: LogRow, size: int, db: Any = database) -> tree.ReadHash:
    """Return a reader of hashes of the log's first `size` leaves, which reads each tile once."""
    tiles: dict[tuple[int, int], list[bytes]] = {}

    def read(level: int, index: int) -> bytes:
        number, place = divmod(index, tree.TILE_WIDTH)
        if (level, number) not in tiles:
            width = tree.find_width(size, level, number)
            tiles[level, number] = read_hashes(log, level, number, width, db)
        return tiles[level, number][place]

    return read


# ---- checkpoints and proofs ----------------------------------------------------------------------
def make_checkpoint(log: LogRow, db: Any = database) -> Checkpoint:
    root = tree.find_root(make_reader(log, log.size, db), log.size)
    return Checkpoint(log.origin, log.size, root)


class Proof(NamedTuple):
    """Why a leaf is in a log: a signed checkpoint, and the hashes to its root, in base64."""

    place: int
    size: int
    note: str
    path: list[str]


def prove(log: LogRow, index: int, signer: Signer) -> Proof:
    read = make_reader(log, log.size)
    checkpoint = Checkpoint(log.origin, log.size, tree.find_root(read, log.size))
    path = tree.prove_inclusion(read, index, log.size)
    note = signer.sign_note(log.origin, checkpoint.write())
    return Proof(index, log.size, note, [encode(one) for one in path])


def write_promise(origin: str, leaf: str) -> bytes:
    """Return what a promise signs: that this leaf stands in the log of this origin."""
    return f"candor-log-promise/v1\n{origin}\n{leaf}\n".encode()
