"""The background jobs: which process runs them, when, and what health tells of them.

Every worker of every machine calls `start`; exactly one holds the lock and runs the jobs, another
takes over within seconds of its death (whoever keeps the lock frees it). Nothing a job writes is
stored once its process has lost the lock. The work itself is done under a second lock, so that the
command line can do a pass of its own beside a running server.
"""

import contextlib
import json
import logging
import threading
import time

from peewee import OperationalError

import models
import storage
from observer import Observer
from papertrade import Desk
from scout import Scout

TAKEOVER_SECONDS = 0.5
# Seconds without any answer of a node after which health says so, even where the pass that asks
# is still waiting: longer than one call may take (chain.rpc), so that one wallet's call is not it.
SILENT_SECONDS = 40.0
# seconds that a running pass is given when the process ends
GRACE = 5.0
log = logging.getLogger("candor.jobs")


@contextlib.contextmanager
def working():
    """Be alone at work on what is observed: waits for whoever observes or rebuilds now."""
    lock = storage.database.lock("work")
    try:
        lock.take(wait=True)
        with storage.database.guarding(lock.check):
            yield
    finally:
        lock.release()


class Jobs:
    """The jobs of one process, a thread each."""

    def __init__(self, config):
        self.config, self._lock, self._ending = (
            config,
            storage.database.lock("jobs"),
            threading.Event(),
        )
        self._threads = [threading.Thread(target=self._take_turns, daemon=True)]
        # The Rpc of the observer at work here, and whether its silence was told.
        self._rpc, self._told = None, False

    def start(self):
        self._threads[0].start()

    def stop(self):
        self._ending.set()
        end = time.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._lock.release()

    def _begin(self, work, ending, check=None):
        threads = [
            threading.Thread(target=self._repeat, args=(ending, check, *job), daemon=True)
            for job in work
        ]
        for thread in threads:
            thread.start()
        return threads

    # ---- one of all processes --------------------------------------------------------------------
    def _take_turns(self):
        """Wait for the lock; while this process holds it, run the jobs."""
        while not self._ending.is_set():
            if self._take_lock():
                self._lead()
            self._tell_silence()
            self._ending.wait(TAKEOVER_SECONDS)

    def _take_lock(self):
        # the database cannot be reached: for nobody, or for this process alone
        try:
            return self._lock.take()
        except OperationalError:
            return False

    def _lead(self):
        ending = threading.Event()
        threads = self._begin(self._list_jobs(), ending, self._lock.check)
        while not self._ending.wait(TAKEOVER_SECONDS) and self._is_leading():
            self._tell_silence(self._lock.check)
        ending.set()
        for thread in threads:
            # before this process asks for the lock again
            thread.join()

    def _tell_silence(self, check=None):
        """Let health know that no node answers, once, while the observer's pass still waits."""
        silent = self._rpc is not None and self._rpc.silent_for() >= SILENT_SECONDS
        if silent and not self._told:
            with (
                contextlib.suppress(OperationalError),
                storage.database.connection_context(),
                storage.database.guarding(check),
            ):
                models.note_job(
                    "observer",
                    "failing",
                    _now(),
                    f"no node has answered for {SILENT_SECONDS:.0f} seconds",
                )
        self._told = silent

    def _is_leading(self):
        try:
            self._lock.check()
            return True
        except OperationalError:
            log.error("this process lost the lock of the jobs: it stops running them")
            self._lock.release()
            return False

    # ---- the jobs --------------------------------------------------------------------------------
    def _list_jobs(self):
        """[(name, seconds between runs, tick(now) -> (problem or None, details for health)), ...]
        of the one process that leads
        """
        # A new one: the last one's memory is of another time.
        config, observer = self.config, Observer(self.config, beat=_beat)
        return [
            self._observe(observer),
            ("scout", config.scout_interval_seconds, Scout(config, observer.rpc).run_tick),
            ("paper", config.paper_interval_seconds, Desk(config).run_tick),
        ]

    def _observe(self, observer):
        self._rpc = observer.rpc
        return (
            "observer",
            self.config.observer_interval_seconds,
            lambda now: run_observer(observer, now),
        )

    def _repeat(self, ending, check, name, seconds, tick):
        """Run a job every so many seconds, late runs at once and none twice. By the monotonic
        clock: the wall clock may be set back.
        """
        due = time.monotonic()
        while not ending.wait(max(0.0, due - time.monotonic())):
            due = time.monotonic() + (seconds or TAKEOVER_SECONDS)
            if self._run(name, tick if seconds else None, check) and not seconds:
                return

    def _run(self, name, tick, check):
        """One pass, or without a tick the word that the job is off; whether it went well. A fault
        of ours goes to the log with its stack.
        """
        try:
            with storage.database.connection_context(), storage.database.guarding(check):
                problem, details = tick(_now()) if tick else (None, None)
                models.note_job(
                    name,
                    "failing" if problem else "ok" if tick else "off",
                    _now(),
                    problem,
                    details,
                )
            return True
        except Exception as error:
            # not hidden: log and health tell it, and the other jobs go on
            log.exception("job %s failed", name)
            with (
                contextlib.suppress(OperationalError),
                storage.database.connection_context(),
                storage.database.guarding(check),
            ):
                models.note_job(name, "failing", _now(), f"internal error: {type(error).__name__}")
            return False


def run_observer(observer, now):
    """One pass; (problem or None, details for health)."""
    with working():
        more = observer.run_tick(now)
    return observer.problem, json.dumps(
        {**observer.rpc.report(), "moreToDo": more, "waitingFor": observer.problem}
    )


def _beat():
    """The observer's pass goes on."""
    models.note_heartbeat("observer", _now())


def _now():
    return time.time_ns() // 1_000_000


_running, _guard = None, threading.Lock()


def start(config):
    """Begin to run the jobs in this process, or to wait for its turn to."""
    global _running
    with _guard:
        if _running is None:
            _running = Jobs(config)
            _running.start()


def stop():
    global _running
    with _guard:
        if _running is not None:
            _running.stop()
            _running = None
