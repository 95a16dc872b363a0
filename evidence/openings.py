"""Opening logs: the first one, and those that follow a restore, a lost key or the operator's word.
Each names the one before it in its first leaf.
"""

from typing import Any

from config import BadSetting, Config
from evidence import log
from evidence.notes import Signer, encode
from storage import database, writing
from storage.arrivals import open_log
from storage.stored import make_object, make_shape, read_stored

OPENING = make_object(log=str, size=int, root=str, why=str)
FIRST_LEAF = make_shape(make_object(previous=OPENING | None))


def ensure_log(config: Config, signer: Signer, now: int) -> None:
    """Open the first log if there is none, and bind the log to its key; `now` in ms.

    BadSetting if another key than the log's is set.
    """
    with writing():
        if log.find_log() is None:
            open_log(now)
    bind_key(config, signer, now)


def bind_key(config: Config, signer: Signer, now: int) -> None:
    """Note which key the log is signed with. One that changed opens a new log; BadSetting where it
    was set, or where other machines may have the right one.
    """
    one = log.find_log()
    if one is None or one.key == str(signer.verifier(one.origin)):
        return
    if one.key is not None:
        if config.log_key or config.database_url:
            raise BadSetting(
                "LOG_KEY, or the file log_key in DATA_DIR, is not the key that the log was opened"
                " with: set the same one on all machines, or begin a new log with"
                " `app.py log --renew`"
            )
        renew_log("key", now)
    store_key(signer)


def store_key(signer: Signer) -> None:
    one = log.find_log()
    if one is not None:
        key = str(signer.verifier(one.origin))
        with writing():
            database.execute_sql("UPDATE log SET key = ? WHERE id = ?", (key, one.id))


def renew_log(why: str, now: int, last: dict[str, Any] | None = None, db: Any = database) -> str:
    """Open a new log that names the last checkpoint of the old one; return its uid.

    `why`: key | restore | operator. `last`: that checkpoint, where another database knows it.
    """
    with db.atomic():
        previous = describe_last(db)
        if previous is not None:
            previous = {**previous, **(last or {}), "kept": previous["size"], "why": why}
        return open_log(now, previous, db)


def describe_last(db: Any = database) -> dict[str, Any] | None:
    """Return the checkpoint of the log that grows, as the next log's first leaf names it; None
    without one.
    """
    one = log.find_log(db=db)
    if one is None:
        return None
    return {"log": one.uid, "size": one.size, "root": encode(log.make_checkpoint(one, db).root)}


def read_opening(one: log.LogRow) -> dict[str, Any] | None:
    """Return what a log's first leaf says of the log before it: `log`, `size`, `root`, `kept` and
    `why`; None for the first log, and where that leaf is damaged, which `doctor` names.
    """
    leaf: dict[str, Any] | None = read_stored(log.read_leaves(one, 0, 1)[0], FIRST_LEAF)
    return leaf["previous"] if leaf else None


def list_openings() -> list[dict[str, Any]]:
    """List what each log says of the one before it, the newest first."""
    told = (read_opening(one) for one in reversed(log.list_logs()))
    return [previous for previous in told if previous]
