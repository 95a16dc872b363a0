"""Backtests that owners ask for by the page: one at a time, in a process of its own that gives way
to everything else, within limits of time and memory. `now` is UTC milliseconds.
"""

import fcntl
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

import orjson
from filelock import lock_descriptor

from accounts.backtests import check_request
from accounts.owners import check_present
from accounts.problem import Problem
from config import Config
from models import Owner
from paper.tables import Backtest
from storage import database, new_uid, writing
from storage.children import Limits, start_python
from storage.stored import make_shape, read_stored

log = logging.getLogger("candor.backtests")
MAX_SECONDS = 600
LIMITS = Limits(memory_bytes=2**30, cpu_seconds=MAX_SECONDS, niceness=19)
MAX_RESULT_BYTES = 4_000_000
# Of each owner, the newest.
MAX_KEPT = 10
MAX_AN_HOUR = 10
HOUR_MS = 3_600_000
COMMAND = "cli.parser"
LOCK_TRIES, LOCK_PAUSE_SECONDS = 10, 0.02
LOCK, MAX_UID_BYTES = "backtest.lock", 200
FIELDS = ("family", "set", "from", "to", "start")
ASKED = make_shape(dict[str, str])
INTERRUPTED = "It was interrupted: the server was started again."
# The single file has no Python that another process could run.
FROZEN = (
    "the single file plays backtests on the command line alone: `candor trader backtest`; with"
    " candor.pyz, or installed by pip, this page plays them, too"
)
FAILED = "It took too long or too much memory. Ask for less time or fewer combinations."


def begin_backtest(config: Config, owner: Owner, typed: Mapping[str, str], now: int) -> Backtest:
    """Begin what an owner typed (FIELDS); it goes on while other requests are answered.

    Problem where that cannot be played, where one is being played, or after MAX_AN_HOUR.
    """
    if getattr(sys, "frozen", False):
        raise Problem("validation_failed", FROZEN)
    settings = typed["set"].split()
    check_request(typed["family"], settings, typed["from"], typed["to"], typed["start"])
    _check_pace(owner, now)
    held = _lock(config)
    try:
        with writing():
            check_present(owner.id)
            _end_last(held)
            run = Backtest.create(
                uid=new_uid("backtest"),
                owner=owner,
                asked=orjson.dumps({name: typed[name] for name in FIELDS}).decode(),
                state="running",
                created_at=now,
            )
            _drop_old(owner)
        os.pwrite(held, run.uid.encode(), 0)
    except BaseException:
        # Whatever it was goes on up; the lock must not stay with a backtest that never began.
        os.close(held)
        raise
    start(config, run.uid, dict(typed), held)
    return run


def start(*arguments: Any) -> None:
    """Play a backtest in a thread of its own; see _play."""
    threading.Thread(target=_play, args=arguments, name="backtest", daemon=True).start()


def _check_pace(owner: Owner, now: int) -> None:
    recent = Backtest.select().where(Backtest.owner == owner, Backtest.created_at > now - HOUR_MS)
    if recent.count() >= MAX_AN_HOUR:
        raise Problem(
            "rate_limited",
            f"this account began {MAX_AN_HOUR} backtests within the hour; try again later",
            headers={"Retry-After": "600"},
        )


def _drop_old(owner: Owner) -> None:
    kept = Backtest.select(Backtest.id).where(Backtest.owner == owner).order_by(Backtest.id.desc())
    ids = [row.id for row in kept.limit(MAX_KEPT)]
    Backtest.delete().where(Backtest.owner == owner, Backtest.id.not_in(ids)).execute()


def _lock(config: Config) -> int:
    """Take the lock of the one backtest that is played; Problem `busy` where another one is. Its
    file names the last one that was begun here.
    """
    held = os.open(config.data_dir / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    for _ in range(LOCK_TRIES):
        if lock_descriptor(held, blocking=False):
            return held
        # Maybe a page is looking at it (_is_left), which is done at once.
        time.sleep(LOCK_PAUSE_SECONDS)
    os.close(held)
    raise Problem("busy", "another backtest is being played: try again in some minutes")


def _end_last(held: int) -> None:
    """Note that the last backtest that was begun here is played no more, whatever became of it. In
    the caller's transaction.
    """
    last = os.pread(held, MAX_UID_BYTES, 0).decode()
    Backtest.update(state="failed", error=INTERRUPTED).where(
        Backtest.uid == last, Backtest.state == "running"
    ).execute()


def list_backtests(config: Config, owner: Owner, now: int) -> list[Backtest]:
    """List an owner's backtests, newest first, without their results."""
    columns = (Backtest.uid, Backtest.asked, Backtest.state, Backtest.progress)
    runs = Backtest.select(*columns, Backtest.error, Backtest.created_at)
    mine = runs.where(Backtest.owner == owner).order_by(Backtest.id.desc())
    return [_judge(config, run, now) for run in mine]


def read_asked(run: Backtest) -> dict[str, str]:
    """Parse what was asked for; where it is damaged, every field is empty."""
    return {**dict.fromkeys(FIELDS, ""), **(read_stored(run.asked, ASKED) or {})}


def find_backtest(config: Config, owner: Owner, uid: str, now: int) -> Backtest:
    """Return a backtest of an owner; Problem `not_found` for that of another one."""
    run = Backtest.get_or_none(Backtest.uid == uid, Backtest.owner == owner)
    if run is None:
        raise Problem("not_found", "there is no such backtest in your account")
    return _judge(config, run, now)


def _judge(config: Config, run: Backtest, now: int) -> Backtest:
    """Return a backtest, as failed where whoever played it is gone: at once where that was this
    server, after twice the time it may take where it was another host's.
    """
    if run.state == "running" and (
        run.created_at < now - 2 * MAX_SECONDS * 1000 or _is_left(config, run.uid)
    ):
        run.state, run.error = "failed", INTERRUPTED
    return run


def _is_left(config: Config, uid: str) -> bool:
    """Tell whether a backtest was the last one begun here, and nobody plays one any more: the
    system lets go of a lock with the process that held it.
    """
    try:
        seen = os.open(config.data_dir / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(seen, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.pread(seen, MAX_UID_BYTES, 0).decode() == uid
    except BlockingIOError:
        return False
    finally:
        os.close(seen)


# ---- the process ---------------------------------------------------------------------------------
def _play(config: Config, uid: str, typed: Mapping[str, str], held: int) -> None:
    problem: str | None = FAILED
    result = None
    try:
        with tempfile.TemporaryFile() as out:
            result = _read_result(out) if _run(config, uid, typed, out) == 0 else None
            problem = None if result else FAILED
    except OSError as error:
        log.error("a backtest could not be played", exc_info=error)
    finally:
        # The lock goes last: a running backtest without one is an interrupted one.
        try:
            state = "failed" if problem else "done"
            _update(uid, state=state, result=result, error=problem, progress=100)
        finally:
            os.close(held)


def _run(config: Config, uid: str, typed: Mapping[str, str], out: IO[bytes]) -> int:
    arguments = [f"--set={one}" for one in typed["set"].split()]
    arguments += [f"--{name}={typed[name]}" for name in ("family", "from", "to", "start")]
    child = start_python(
        COMMAND,
        ["trader", "backtest", "--json", *arguments],
        {**os.environ, **_show_environment(config)},
        LIMITS,
        output=out,
        errors=subprocess.PIPE,
    )
    limit = threading.Timer(MAX_SECONDS, child.kill)
    limit.start()
    try:
        with child:
            for line in child.stderr or ():
                done = line.decode().removesuffix("%\n")
                if done.isdigit():
                    _update(uid, progress=int(done))
        return child.returncode
    finally:
        limit.cancel()


def _show_environment(config: Config) -> dict[str, str]:
    return {
        "DATA_DIR": str(config.data_dir),
        "DATABASE_URL": config.database_url,
        "SCOUT_INTERVAL_SECONDS": f"{config.scout_interval_seconds:g}",
    }


def _read_result(out: IO[bytes]) -> str | None:
    out.seek(0)
    text = out.read(MAX_RESULT_BYTES + 1)
    return text.decode() if len(text) <= MAX_RESULT_BYTES else None


def _update(uid: str, **columns: Any) -> None:
    with database.connection_context(), writing():
        Backtest.update(**columns).where(Backtest.uid == uid).execute()
