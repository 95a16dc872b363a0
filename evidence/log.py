"""Read logs from the database, and open new ones.

A new log is opened at the first start, and after a restore, a lost key or the operator's request.
Its first leaf references the log before it. `db` is this process's database, except when a restore
reads another one.
"""

from typing import Any, NamedTuple

from config import BadSetting, Config
from evidence.notes import COSIGNATURE, Checkpoint, Signer, encode, name_origin
from evidence.tables import Witnessed
from storage import database, tree, writing
from storage.log import open_log
from storage.rows import make_object, make_shape, read_stored

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


class LogRow(NamedTuple):
    uid: str
    first_leaf: int
    size: int
    # UTC milliseconds.
    opened_at: int
    # The verifier key that the log was opened with, or null before the first start.
    key: str | None
    id: int

    @property
    def origin(self) -> str:
        return name_origin(self.uid)


class LoggedPost(NamedTuple):
    """A post with its leaf at `place` in the log `log`. Once hidden, it has no text or salt."""

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
    """The log lacks a leaf or a node, because another program wrote to its tables."""


def list_logs() -> list[LogRow]:
    return [LogRow(*row) for row in database.execute_sql(f"{LOGS} ORDER BY id").fetchall()]


def find_log(uid: str | None = None, db: Any = database) -> LogRow | None:
    """Return the log with this uid, or by default the growing log."""
    where, given = (" WHERE uid = ?", (uid,)) if uid else (" ORDER BY id DESC LIMIT 1", ())
    rows = db.execute_sql(LOGS + where, given).fetchall()
    return LogRow(*rows[0]) if rows else None


def find_post(uid: str) -> LoggedPost | None:
    rows = database.execute_sql(PROMISED, (uid,)).fetchall()
    return LoggedPost(*rows[0]) if rows else None


# ---- tiles ---------------------------------------------------------------------------------------
def read_leaves(log: LogRow, begin: int, end: int, db: Any = database) -> list[bytes]:
    """Raises Damaged if a leaf is missing."""
    bounds = (log.first_leaf + begin, log.first_leaf + end)
    rows = db.execute_sql(LEAVES, bounds).fetchall()
    if len(rows) != end - begin:
        raise Damaged(f"leaves between {begin} and {end} of {log.uid} are missing")
    return [data.encode() for _, data in rows]


def read_hashes(
    log: LogRow, level: int, number: int, width: int, db: Any = database
) -> list[bytes]:
    """Return the first `width` hashes of a tile. Raises Damaged if one is missing."""
    begin = number * tree.TILE_WIDTH
    if level == 0:
        return [tree.hash_leaf(leaf) for leaf in read_leaves(log, begin, begin + width, db)]
    bounds = (log.id, level, begin, begin + width)
    rows = db.execute_sql(NODES, bounds).fetchall()
    if len(rows) != width:
        raise Damaged(f"nodes of tile {level}/{number} of {log.uid} are missing")
    return [bytes(node) for _, node in rows]


def make_reader(log: LogRow, size: int, db: Any = database) -> tree.ReadHash:
    def fetch(level: int, number: int, width: int) -> list[bytes]:
        return read_hashes(log, level, number, width, db)

    return tree.read_tiles(size, fetch)


# ---- checkpoints and proofs ----------------------------------------------------------------------
def make_checkpoint(log: LogRow, db: Any = database) -> Checkpoint:
    root = tree.find_root(make_reader(log, log.size, db), log.size)
    return Checkpoint(log.origin, log.size, root)


class Proof(NamedTuple):
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


# ---- opening -------------------------------------------------------------------------------------

OPENING = make_object(log=str, size=int, root=str, why=str)
FIRST_LEAF = make_shape(make_object(previous=OPENING | None))


def ensure_log(config: Config, signer: Signer, now: int) -> None:
    """Open the first log if none exists, and bind the log to its key. `now`: ms.

    Raises BadSetting if a key other than the log's is configured.
    """
    with writing():
        if find_log() is None:
            open_log(now)
    bind_key(config, signer, now)


def bind_key(config: Config, signer: Signer, now: int) -> None:
    """Record the log's key. If the key changed, open a new log.

    Raises BadSetting instead if the key was configured, or if other machines may have the right
    key.
    """
    one = find_log()
    if one is None or one.key == str(signer.verifier(one.origin)):
        return
    if one.key is not None:
        if config.log_key or config.database_url:
            raise BadSetting(
                "LOG_KEY, or the file log_key in DATA_DIR, is not the key that opened the"
                " log. Set the same key on all machines, or start a new log with `app.py log"
                " --renew`"
            )
        renew_log("key", now)
    store_key(signer)


def store_key(signer: Signer) -> None:
    one = find_log()
    if one is not None:
        key = str(signer.verifier(one.origin))
        with writing():
            database.execute_sql("UPDATE log SET key = ? WHERE id = ?", (key, one.id))


def renew_log(why: str, now: int, last: dict[str, Any] | None = None, db: Any = database) -> str:
    """Open a new log that references the old one's last checkpoint. Return its uid.

    `why`: key | restore | operator. `last` is the checkpoint if it is from another database.
    """
    with db.atomic():
        previous = describe_last(db)
        if previous is not None:
            previous = {**previous, **(last or {}), "kept": previous["size"], "why": why}
        return open_log(now, previous, db)


def describe_last(db: Any = database) -> dict[str, Any] | None:
    """Return the growing log's checkpoint, as the next log's first leaf records it."""
    one = find_log(db=db)
    if one is None:
        return None
    return {"log": one.uid, "size": one.size, "root": encode(make_checkpoint(one, db).root)}


def read_opening(one: LogRow) -> dict[str, Any] | None:
    """Return what a log's first leaf says about the previous log: log, size, root, kept, why.

    Returns None for the first log, or if the first leaf is damaged, which `doctor` reports.
    """
    leaf: dict[str, Any] | None = read_stored(read_leaves(one, 0, 1)[0], FIRST_LEAF)
    return leaf["previous"] if leaf else None


def list_openings() -> list[dict[str, Any]]:
    told = (read_opening(one) for one in reversed(list_logs()))
    return [previous for previous in told if previous]


# ---- other logs ----------------------------------------------------------------------------------


def list_witnessed() -> list[Witnessed]:
    return list(Witnessed.select().order_by(Witnessed.url))


def write_witnessed(signer: Signer) -> str:
    """Return our cosigner key and each cosigned checkpoint, with an empty line between them."""
    key = signer.verifier(signer.witness_name, COSIGNATURE)
    return "\n".join([f"{key}\n", *(row.note for row in list_witnessed())])
