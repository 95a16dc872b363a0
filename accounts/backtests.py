"""Check backtest requests and run them. `now` is UTC milliseconds.

Backtests that owners start from the site run one at a time, in a low-priority child process with
time and memory limits.
"""

import fcntl
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import IO, Any

import orjson
from filelock import lock_descriptor

from accounts.fields import check_choice, parse_moment
from accounts.owners import check_present
from accounts.problem import Problem, invalid
from accounts.spreadsheet import disarm, write_lines
from accounts.traders import START_MODES, find_strategy
from config import Config
from models import Owner
from paper import backtests
from paper.backtests import COLUMNS, MAX_SPAN_MS, Json, show_backtest
from paper.own import OwnFiles
from paper.player import OwnFault
from paper.strategies import COPY, FAMILIES, BadSetting, Strategy
from paper.tables import Backtest
from storage import database, new_uid, writing
from storage.children import Limits, start_python
from storage.rows import make_shape, read_stored

MAX_CANDIDATES = 24
# The scout's interval while the scout is off.
DEFAULT_INTERVAL_MS = 60_000
SETTING = re.compile(r"([A-Za-z0-9]{1,40})=(-?[0-9]{1,12}(?:,-?[0-9]{1,12}){0,23})")
EXAMPLE = "such as 2026-11-01 or 2026-11-01T12:00:00Z"


@dataclass(frozen=True)
class BacktestRequest:
    family: str
    candidates: tuple[Strategy, ...]
    start_mode: str
    times: range


def check_request(
    family: str,
    settings: Sequence[str],
    since: str = "",
    until: str = "",
    start_mode: str = "standard",
    own: OwnFiles | None = None,
) -> BacktestRequest:
    """Check typed input. Raises Problem, which names the field.

    Settings look like `riseBps=600` or `riseBps=400,600`, times like EXAMPLE. An empty time means
    the start or end of the recording. `own`: strategy files that are also allowed.
    """
    check_choice("start", start_mode, START_MODES)
    return BacktestRequest(
        family, find_candidates(family, settings, own), start_mode, find_times(since, until)
    )


def find_candidates(
    family: str, settings: Sequence[str], own: OwnFiles | None = None
) -> tuple[Strategy, ...]:
    """Return up to MAX_CANDIDATES strategies, one for each combination of settings."""
    if family == COPY:
        raise invalid("family", f"copy can't be backtested; must be one of: {', '.join(FAMILIES)}")
    choices: dict[str, list[int]] = {}
    for text in settings:
        found = SETTING.fullmatch(text.strip())
        if not found:
            raise invalid("set", "must look like riseBps=600, or riseBps=400,600 to try several")
        name, values = found.groups()
        choices[name] = [int(value) for value in values.split(",")]
    # Count first, because the product of a few lists of values may not fit in memory.
    if prod(map(len, choices.values())) > MAX_CANDIDATES:
        raise invalid("set", f"must be at most {MAX_CANDIDATES} combinations")
    combinations = [dict(zip(choices, one, strict=True)) for one in product(*choices.values())]
    try:
        return tuple(find_strategy(family, one, own) for one in combinations)
    except BadSetting as error:
        raise invalid("set", f"{error.field} {error}") from None


def find_times(since: str, until: str) -> range:
    recorded = backtests.find_recorded()
    if recorded is None:
        raise Problem("not_found", "no prices are recorded yet; the scout hasn't stored any")
    start = max(recorded.start, parse_time("from", since, recorded.start))
    end = min(recorded.stop, parse_time("to", until, recorded.stop))
    if start >= end:
        raise invalid("to", "must be after `from`, and part of the period must be recorded")
    return range(max(start, end - MAX_SPAN_MS), end)


def parse_time(field: str, text: str, default: int) -> int:
    ms = parse_moment(text) if text.strip() else default
    if ms is None:
        raise invalid(field, f"must be a day or a time, {EXAMPLE}")
    return ms


def run_backtest(
    config: Config, asked: BacktestRequest, now: int, note: backtests.Note = lambda percent: None
) -> Json:
    """Run the backtest with the paper traders' engine and fill model, and return the report.

    It isn't stored. `note` is called with the progress as a percentage.
    """
    interval_ms = int(config.scout_interval_seconds * 1000) or DEFAULT_INTERVAL_MS
    recording = backtests.read_recording(asked.times, interval_ms, now)
    try:
        tested = backtests.run_backtest(recording, asked.candidates, asked.start_mode, note)
    except OwnFault as error:
        raise invalid("family", str(error)) from None
    return show_backtest(tested, asked.family, asked.start_mode)


def write_table(report: Json) -> str:
    """Return CSV: first the strategy's closes, then those of the random entries."""
    closes = [*report["closes"], *report.get("randomCloses", [])]
    told = ({**close, "symbol": disarm(close["symbol"])} for close in closes)
    return write_lines([COLUMNS, *([close[name] for name in COLUMNS] for close in told)])


# ---- backtests from the site ---------------------------------------------------------------------
log = logging.getLogger("candor.backtests")
MAX_SECONDS = 600
LIMITS = Limits(memory_bytes=2**30, cpu_seconds=MAX_SECONDS, niceness=19)
MAX_RESULT_BYTES = 4_000_000
# Backtests kept per owner. Older ones are deleted.
MAX_KEPT = 10
MAX_AN_HOUR = 10
HOUR_MS = 3_600_000
COMMAND = "cli.parser"
LOCK_TRIES, LOCK_PAUSE_SECONDS = 10, 0.02
LOCK, MAX_UID_BYTES = "backtest.lock", 200
FIELDS = ("family", "set", "from", "to", "start")
ASKED = make_shape(dict[str, str])
INTERRUPTED = "Interrupted because the server restarted."
# A frozen executable doesn't have a Python interpreter for a child process.
FROZEN = (
    "the single-file build runs backtests only on the command line: `candor trader backtest`. To"
    " run them on this page, use candor.pyz or a pip install"
)
FAILED = "It took too long or too much memory. Try a shorter period or fewer combinations."


def begin_backtest(config: Config, owner: Owner, typed: Mapping[str, str], now: int) -> Backtest:
    """Start a backtest with the typed FIELDS in the background.

    Raises Problem if the request is invalid, another backtest is running, or the owner already
    started MAX_AN_HOUR within the hour.
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
        # Release the lock: this backtest never started.
        os.close(held)
        raise
    start(config, run.uid, dict(typed), held)
    return run


def start(*arguments: Any) -> None:
    threading.Thread(target=_play, args=arguments, name="backtest", daemon=True).start()


def _check_pace(owner: Owner, now: int) -> None:
    recent = Backtest.select().where(Backtest.owner == owner, Backtest.created_at > now - HOUR_MS)
    if recent.count() >= MAX_AN_HOUR:
        raise Problem(
            "rate_limited",
            f"this account started {MAX_AN_HOUR} backtests in the last hour; try again later",
            headers={"Retry-After": "600"},
        )


def _drop_old(owner: Owner) -> None:
    kept = Backtest.select(Backtest.id).where(Backtest.owner == owner).order_by(Backtest.id.desc())
    ids = [row.id for row in kept.limit(MAX_KEPT)]
    Backtest.delete().where(Backtest.owner == owner, Backtest.id.not_in(ids)).execute()


def _lock(config: Config) -> int:
    """Lock the only backtest slot. Raises Problem `busy` if a backtest is running.

    The lock file contains the id of the last backtest started on this host.
    """
    held = os.open(config.data_dir / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    for _ in range(LOCK_TRIES):
        if lock_descriptor(held, blocking=False):
            return held
        # A page may briefly hold the lock (_is_left).
        time.sleep(LOCK_PAUSE_SECONDS)
    os.close(held)
    raise Problem("busy", "another backtest is running; try again in a few minutes")


def _end_last(held: int) -> None:
    """Mark the last backtest as failed if it is `running`, in the caller's transaction."""
    last = os.pread(held, MAX_UID_BYTES, 0).decode()
    Backtest.update(state="failed", error=INTERRUPTED).where(
        Backtest.uid == last, Backtest.state == "running"
    ).execute()


def list_backtests(config: Config, owner: Owner, now: int) -> list[Backtest]:
    columns = (Backtest.uid, Backtest.asked, Backtest.state, Backtest.progress)
    runs = Backtest.select(*columns, Backtest.error, Backtest.created_at)
    mine = runs.where(Backtest.owner == owner).order_by(Backtest.id.desc())
    return [_judge(config, run, now) for run in mine]


def read_asked(run: Backtest) -> dict[str, str]:
    return {**dict.fromkeys(FIELDS, ""), **(read_stored(run.asked, ASKED) or {})}


def find_backtest(config: Config, owner: Owner, uid: str, now: int) -> Backtest:
    run = Backtest.get_or_none(Backtest.uid == uid, Backtest.owner == owner)
    if run is None:
        raise Problem("not_found", "there is no such backtest in your account")
    return _judge(config, run, now)


def _judge(config: Config, run: Backtest, now: int) -> Backtest:
    """Return the backtest, marked as failed if its process has died.

    On this host, a dead process is noticed immediately, otherwise after twice the time limit.
    """
    if run.state == "running" and (
        run.created_at < now - 2 * MAX_SECONDS * 1000 or _is_left(config, run.uid)
    ):
        run.state, run.error = "failed", INTERRUPTED
    return run


def _is_left(config: Config, uid: str) -> bool:
    """Whether this host started the backtest, and its process has released the lock."""
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
    result = None
    try:
        with tempfile.TemporaryFile() as out:
            if _run(config, uid, typed, out) == 0:
                result = _read_result(out)
    except OSError as error:
        log.error("backtest failed", exc_info=error)
    finally:
        # Last, because a `running` backtest without a lock counts as interrupted.
        try:
            state, problem = ("done", None) if result else ("failed", FAILED)
            _update(uid, state=state, result=result, error=problem, progress=100)
        finally:
            os.close(held)


def _run(config: Config, uid: str, typed: Mapping[str, str], out: IO[bytes]) -> int:
    arguments = [f"--set={one}" for one in typed["set"].split()]
    arguments += [f"--{name}={typed[name]}" for name in ("family", "from", "to", "start")]
    child = start_python(
        COMMAND,
        ["trader", "backtest", "--json", *arguments],
        {
            **os.environ,
            "DATA_DIR": str(config.data_dir),
            "DATABASE_URL": config.database_url,
            "SCOUT_INTERVAL_SECONDS": f"{config.scout_interval_seconds:g}",
        },
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


def _read_result(out: IO[bytes]) -> str | None:
    out.seek(0)
    text = out.read(MAX_RESULT_BYTES + 1)
    return text.decode() if len(text) <= MAX_RESULT_BYTES else None


def _update(uid: str, **columns: Any) -> None:
    with database.connection_context(), writing():
        Backtest.update(**columns).where(Backtest.uid == uid).execute()
