"""Run the background jobs in exactly one process, and record their status for health checks.

Every worker on every machine calls `start`. The worker that has the lock runs the jobs. If it dies,
another worker takes over within a second. A process that has lost the lock can't write. The
observer has a second lock, so the command line can run a pass while a server is running.
"""

import contextlib
import ctypes
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from apscheduler import events
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from peewee import OperationalError, fn

import storage
from config import Config
from evidence import seasons
from evidence.document import DigestLog
from evidence.notes import Signer
from evidence.witness import run_tick
from models import Job
from notify.outbox import Outbox, Reader
from observer import Observer
from observing.subscriptions import Subscriptions
from paper import copying
from papertrade import PaperJob
from scout import HELD_SECONDS, Scout
from storage.files import log_key

TAKEOVER_SECONDS = 0.5
# Health reports the lack of any response after this long, even while the pass is waiting. A single
# call times out sooner (chain.rpc), so one wallet can't be the cause. A job counts as failing only
# after its passes failed for this long, because endpoints may recover by the next pass.
SILENT_SECONDS = 40.0
# How long to wait for a running pass when the process exits.
GRACE_SECONDS = 5.0
# Retry delay of the hooks job. Its other passes run for up to a minute, back to back.
HOOKS_SECONDS = 5.0
WITNESS_SECONDS, DIGEST_SECONDS, MEMORY_SECONDS = 600.0, 3600.0, 300.0
COPYING_SECONDS = SEASONS_SECONDS = 60.0
# Delay after an error outside a pass before requesting the lock again.
FAULT_SECONDS = 5.0
# Reschedule the jobs if the wall clock drifts from the monotonic clock by more than this.
CLOCK_STEP_SECONDS = 1.0
log = logging.getLogger("candor.jobs")
# This module logs errors. A pass that outlasts its interval isn't one.
logging.getLogger("apscheduler").setLevel(logging.CRITICAL)

# A problem or None, and details for health or None.
Outcome = tuple[str | None, str | None]
Tick = Callable[[int], Outcome]
Check = Callable[[], None]


class Work(NamedTuple):
    """Run `tick(now)` every `seconds`. If that is 0, the job is off."""

    name: str
    seconds: float
    tick: Tick


@contextlib.contextmanager
def observer_lock() -> Iterator[None]:
    """Waits while another process observes or rebuilds."""
    lock = storage.database.lock("work")
    try:
        lock.take(wait=True)
        with storage.database.guarding(lock.check):
            yield
    finally:
        lock.release()


class DaemonThreads(BaseExecutor):
    """Runs each pass in a daemon thread, which can't keep an exiting process alive.

    At exit, Python joins the threads of APScheduler's own pool, even if a node doesn't respond.
    """

    def __init__(self) -> None:
        super().__init__()
        self._threads: list[threading.Thread] = []

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._run, args=(job, run_times), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, job: Any, run_times: list[datetime]) -> None:
        try:
            outcome = run_job(job, job._jobstore_alias, run_times, self._logger.name)
        except BaseException as error:
            # Without this, APScheduler would count the pass as running forever. Its listener logs
            # the error with its stack trace, and health shows it.
            self._run_job_error(job.id, error, error.__traceback__)
        else:
            self._run_job_success(job.id, outcome)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


class Every(BaseTrigger):
    """Run a job every `seconds` from `first` on, regardless of extra passes in between.

    APScheduler's own interval trigger steps through every run that was skipped when the clock was
    set forward. For a year, that takes minutes.
    """

    def __init__(self, seconds: float, first: datetime) -> None:
        self._interval, self._first = timedelta(seconds=seconds), first

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        return now + self._interval - (now - self._first) % self._interval


class Leadership:
    """The jobs of a process that has the lock. `check` raises once the lock is lost."""

    def __init__(self, work: list[Work], check: Check) -> None:
        self._check, self._clock_offset = check, _clock_offset()
        self._late: set[str] = set()
        # Last success by job, in seconds of time.monotonic().
        self._well_at: dict[str, float] = {}
        self._seconds = {one.name: one.seconds for one in work}
        self._unstored = [one.name for one in work if not one.seconds]
        self._executor = DaemonThreads()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": self._executor},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_listener(
            self._listen,
            events.EVENT_JOB_EXECUTED | events.EVENT_JOB_ERROR | events.EVENT_JOB_MAX_INSTANCES,
        )
        now = datetime.now(UTC)
        for one in work:
            if one.seconds:
                self._scheduler.add_job(
                    self._run,
                    Every(one.seconds, now),
                    args=[one.tick],
                    id=one.name,
                    next_run_time=now,
                )

    def start(self) -> None:
        self._scheduler.start()
        self.keep_up()

    def stop(self) -> None:
        # With wait=True, shutdown would hold locks that a pass needs in order to end.
        self._scheduler.shutdown(wait=False)
        self._executor.join()

    def keep_up(self) -> None:
        """Record which jobs are off. Run the others now if the wall clock was changed."""
        offset = _clock_offset()
        if abs(offset - self._clock_offset) > CLOCK_STEP_SECONDS:
            for job in self._scheduler.get_jobs():
                self.run_now(job.id)
        self._clock_offset = offset
        self._unstored = [
            name for name in self._unstored if not _store_state(name, "off", self._check)
        ]

    def _run(self, tick: Tick) -> Outcome:
        with storage.database.connection_context(), storage.database.guarding(self._check):
            return tick(_now())

    def _listen(self, event: Any) -> None:
        name = event.job_id
        if event.code == events.EVENT_JOB_MAX_INSTANCES:
            self._late.add(name)
            return
        if event.exception is not None:
            log.error("job %s failed", name, exc_info=event.exception)
            problem, details = f"internal error: {type(event.exception).__name__}", None
            state = "failing"
        else:
            problem, details = event.retval
            state = self._judge(name, problem)
        _store_state(name, state, self._check, problem, details)
        if name in self._late:
            self._late.remove(name)
            self.run_now(name)

    def _judge(self, name: str, problem: str | None) -> str:
        """Return `failing` or `ok`. Without a problem, a job is `ok`.

        It is failing if it never succeeded, or SILENT_SECONDS after a success was due.
        """
        now = time.monotonic()
        if problem is None:
            self._well_at[name] = now
        overdue = now - self._well_at.get(name, -math.inf) - self._seconds[name]
        return "failing" if overdue >= SILENT_SECONDS else "ok"

    def run_now(self, name: str) -> None:
        job = self._scheduler.get_job(name) if self._scheduler.running else None
        if job is not None:
            job.modify(next_run_time=datetime.now(UTC))


class Jobs:
    def __init__(self, config: Config, read_events: Reader | None = None) -> None:
        self.config, self._read_events = config, read_events
        self._outbox: Outbox | None = None
        self._lock, self._ending = storage.database.lock("jobs"), threading.Event()
        self._thread = threading.Thread(target=self._take_turns, daemon=True)
        self._observer = Observer(config, beat=_beat)
        # The running observer's Rpc, and whether health already reports that no node responds.
        self._rpc: Any = None
        self._silence_reported = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Passes still running after GRACE_SECONDS end with the process."""
        self._ending.set()
        self._thread.join(GRACE_SECONDS)
        self._lock.release()

    # ---- one of all processes --------------------------------------------------------------------
    def _take_turns(self) -> None:
        while not self._ending.is_set():
            try:
                if self._take_lock():
                    self._lead()
                self._report_silence()
            except Exception as error:
                # This thread must survive any error. Another process may take over the jobs.
                log.error("the jobs stopped because of an error and will restart", exc_info=error)
                self._lock.release()
                self._ending.wait(FAULT_SECONDS)
            self._ending.wait(TAKEOVER_SECONDS)

    def _take_lock(self) -> bool:
        # Either the database is down, or only this process can't reach it.
        try:
            return bool(self._lock.take())
        except OperationalError:
            return False

    def _lead(self) -> None:
        # The old observer's memory is outdated.
        self._observer = Observer(self.config, beat=_beat)
        leadership = Leadership(self._list_jobs(), self._lock.check)
        subscriptions = self._subscribe(leadership)
        try:
            leadership.start()
            subscriptions.start()
            while not self._ending.wait(TAKEOVER_SECONDS) and self._is_leading():
                leadership.keep_up()
                self._report_silence(self._lock.check)
        finally:
            if self._outbox:
                self._outbox.stop()
            # Stop the jobs before this process requests the lock again.
            leadership.stop()
            subscriptions.stop(GRACE_SECONDS)

    def _report_silence(self, check: Check | None = None) -> None:
        """Report once in health that no node responds while the observer's pass is waiting."""
        silent = self._rpc is not None and self._rpc.silent_for() >= SILENT_SECONDS
        if silent and not self._silence_reported:
            problem = f"no node has responded for {SILENT_SECONDS:.0f} seconds"
            _store_state("observer", "failing", check, problem)
        self._silence_reported = silent

    def _is_leading(self) -> bool:
        try:
            self._lock.check()
            return True
        except OperationalError:
            log.error("this process lost the jobs lock and will stop running jobs")
            self._lock.release()
            return False

    # ---- the jobs --------------------------------------------------------------------------------
    def _list_jobs(self) -> list[Work]:
        config, observer = self.config, self._observer
        scout, paper = Scout(config, observer.rpc), PaperJob(config)
        self._rpc = observer.rpc
        return [
            Work("observer", config.observer_interval_seconds, partial(run_observer, observer)),
            Work("scout", config.scout_interval_seconds, scout.run_tick),
            Work("held", HELD_SECONDS if config.scout_interval_seconds else 0, scout.run_held),
            Work("paper", config.paper_interval_seconds, paper.run_tick),
            *self._deliver(),
            *self._watch_logs(),
            *self._follow_trades(),
            Work("seasons", SEASONS_SECONDS, partial(seasons.run_tick, config)),
            Work("memory", MEMORY_SECONDS, give_back_memory),
        ]

    def _follow_trades(self) -> list[Work]:
        """Only if wallets are observed."""
        if not self.config.observer_interval_seconds:
            return []
        return [
            Work("digests", DIGEST_SECONDS, DigestLog().run_tick),
            Work("copying", COPYING_SECONDS, copying.run_tick),
        ]

    def _watch_logs(self) -> list[Work]:
        urls = self.config.witnesses
        if not urls:
            return []
        signer = Signer(log_key(self.config))
        return [Work("witness", WITNESS_SECONDS, lambda now: (run_tick(urls, signer, now), None))]

    def _deliver(self) -> list[Work]:
        if self._read_events is None:
            return []
        self._outbox = Outbox(self.config, self._read_events)
        return [Work("hooks", HOOKS_SECONDS, self._outbox.run_tick)]

    def _subscribe(self, leadership: Leadership) -> Subscriptions:
        check, state = self._lock.check, self._observer.state

        @contextlib.contextmanager
        def session() -> Iterator[None]:
            with storage.database.connection_context(), storage.database.guarding(check):
                yield

        def note(job_state: str, details: dict[str, Any]) -> None:
            _store_state("bell", job_state, check, None, json.dumps(details))

        wake = partial(leadership.run_now, "observer")
        return Subscriptions(self.config, state, wake, session, note, _now)


def run_observer(observer: Observer, now: int) -> Outcome:
    """Return a problem or None, and details for health."""
    with observer_lock():
        more = observer.run_tick(now)
    details = {**observer.rpc.report(), "moreToDo": more, "waitingFor": observer.problem}
    return observer.problem, json.dumps(details)


def give_back_memory(now: int) -> Outcome:
    """Release free pages between used ones, which glibc does only on request."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return None, None


def _store_state(name: str, state: str, check: Check | None, *told: str | None) -> bool:
    """Record a job's status for health (`told`: problem, details). Return False if that failed."""
    try:
        with storage.database.connection_context(), storage.database.guarding(check):
            note_job(name, state, _now(), *told)
        return True
    except OperationalError as error:
        # Either the lock is lost, or the database is busy or unreachable. The next pass retries.
        log.warning("could not store the state of job %s: %s", name, type(error).__name__)
        return False


def _beat() -> None:
    note_heartbeat("observer", _now())


def _now() -> int:
    return time.time_ns() // 1_000_000


def _clock_offset() -> float:
    """Wall clock minus monotonic clock, in seconds. It changes when the wall clock is set."""
    return time.time() - time.monotonic()


_running: Jobs | None = None
_guard = threading.Lock()


def start(config: Config, read_events: Reader | None = None) -> None:
    """Start this process's jobs. `read_events` reads arrivals for webhooks."""
    global _running
    with _guard:
        if _running is None:
            _running = Jobs(config, read_events)
            _running.start()


def stop() -> None:
    """Stop this process's jobs, within about GRACE_SECONDS."""
    global _running
    with _guard:
        if _running is not None:
            _running.stop()
            _running = None


def note_heartbeat(name: str, now: int) -> None:
    """Record that a long pass is running, even the first one after the job was off."""
    state = fn.REPLACE(Job.state, "off", "unknown")
    Job.update(heartbeat_at=now, state=state).where(Job.name == name).execute()


def note_job(
    name: str, state: str, now: int, problem: str | None = None, details: str | None = None
) -> None:
    """Record a job's status for health. `now`: ms. Without `details`, the stored ones stay."""
    row: dict[str, Any] = {"state": state, "heartbeat_at": now, "last_error": problem}
    if state == "ok" and problem is None:
        row["last_success_at"] = now
    if details is not None:
        row["details"] = details
    Job.insert(name=name, **row).on_conflict(conflict_target=[Job.name], update=row).execute()
