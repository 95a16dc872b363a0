"""The background jobs: which process runs them, when, and what health tells of them.

Every worker of every machine calls `start`; exactly one holds the lock and runs the jobs, another takes over within seconds of its death (whoever
keeps the lock frees it). Nothing a job writes is stored once its process has lost the lock. The work itself is done under a second lock, so that the
command line can do a pass of its own beside a running server.
"""
import contextlib
import json
import logging
import threading
import time

import models
from models import Job
from observer import Observer
from papertrade import Desk
from scout import Scout

TAKEOVER_SECONDS = 0.5
GRACE = 5.0                            # seconds that a running pass is given when the process ends
log = logging.getLogger("candor.jobs")


@contextlib.contextmanager
def working():
    """Alone at work on what is observed: waits for whoever is observing or rebuilding now."""
    lock = models.database.lock("work")
    try:
        lock.take(wait=True)
        with models.database.guarding(lock.check):
            yield
    finally:
        lock.release()


class Jobs:
    """The jobs of one process, a thread each."""

    def __init__(self, config):
        self.config, self._lock, self._ending = config, models.database.lock("jobs"), threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        self._ending.set()
        self._thread.join(GRACE)
        self._lock.release()

    def _live(self):
        """Wait for the lock; while this process holds it, run the jobs."""
        while not self._ending.is_set():
            if self._take_lock():
                self._lead()
            self._ending.wait(TAKEOVER_SECONDS)

    def _take_lock(self):
        try:
            return self._lock.take()
        except models.OperationalError:                   # the database cannot be reached: for nobody, or for this process alone
            return False

    def _lead(self):
        ending = threading.Event()
        threads = [threading.Thread(target=self._repeat, args=(ending, *job), daemon=True) for job in self._list_jobs()]
        for thread in threads:
            thread.start()
        while not self._ending.wait(TAKEOVER_SECONDS) and self._is_leading():
            pass
        ending.set()
        for thread in threads:
            thread.join()                                 # before this process asks for the lock again

    def _is_leading(self):
        try:
            self._lock.check()
            return True
        except models.OperationalError:
            log.error("this process lost the lock of the jobs: it stops running them")
            self._lock.release()
            return False

    def _list_jobs(self):
        """[(name, seconds between runs, tick(now) -> (problem or None, details for health)), ...]"""
        config, observer = self.config, Observer(self.config)
        return [("observer", config.observer_interval_seconds, lambda now: run_observer(config, observer, now)),
                ("scout", config.scout_interval_seconds, Scout(config, observer.rpc).run_tick),
                ("paper", config.paper_interval_seconds, Desk(config).run_tick)]

    def _repeat(self, ending, name, seconds, tick):
        """Run a job every so many seconds, late runs at once and none twice. By the monotonic clock: the wall clock may be set back."""
        due = time.monotonic()
        while not ending.wait(max(0.0, due - time.monotonic())):
            due = time.monotonic() + (seconds or TAKEOVER_SECONDS)
            if self._run(name, tick if seconds else None) and not seconds:
                return

    def _run(self, name, tick):
        """One pass, or without a tick the word that the job is off; whether it went well. A fault of ours goes to the log with its stack."""
        try:
            with models.database.connection_context(), models.database.guarding(self._lock.check):
                problem, details = tick(_now()) if tick else (None, None)
                models.note_job(name, "failing" if problem else "ok" if tick else "off", _now(), problem, details)
            return True
        except Exception as error:
            log.exception("job %s failed", name)
            with contextlib.suppress(models.OperationalError), models.database.connection_context(), models.database.guarding(self._lock.check):
                models.note_job(name, "failing", _now(), f"internal error: {type(error).__name__}")
            return False


def run_observer(config, observer, now):
    """One pass; (problem or None, details for health)."""
    with working():
        more = observer.run_tick(now)
    return observer.problem, json.dumps({**observer.rpc.report(), "moreToDo": more, "waitingFor": observer.problem})


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
