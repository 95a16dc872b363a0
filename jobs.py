"""The background jobs: which process runs them, when, and what health tells of them.

Every worker calls `start`; exactly one holds the lock and runs the jobs, another takes over within a second of its death (the kernel
frees the lock of a killed process). The work itself is done under a second lock, so that the command line can do a pass of its own
beside a running server.
"""
import contextlib
import fcntl
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
def working(config):
    """Alone at work in DATA_DIR: waits for whoever is observing or rebuilding there now."""
    with open(config.data_dir / "work.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Jobs:
    """The jobs of one process, a thread each."""

    def __init__(self, config):
        self.config, self._threads, self._ending = config, [], threading.Event()
        self._lock = open(config.data_dir / "jobs.lock", "w")

    def start(self):
        self._spawn(self._lead)

    def stop(self):
        self._ending.set()
        for thread in self._threads:
            thread.join(GRACE)
        self._lock.close()

    def _spawn(self, work, *args):
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _lead(self):
        """Wait for the lock; then this process runs the jobs."""
        while not self._take_lock():
            if self._ending.wait(TAKEOVER_SECONDS):
                return
        for job in self._list_jobs():
            self._spawn(self._repeat, *job)

    def _take_lock(self):
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def _list_jobs(self):
        """[(name, seconds between runs, tick(now) -> (problem or None, details for health)), ...]"""
        config, observer = self.config, Observer(self.config)
        return [("observer", config.observer_interval_seconds, lambda now: run_observer(config, observer, now)),
                ("scout", config.scout_interval_seconds, Scout(config, observer.rpc).run_tick),
                ("paper", config.paper_interval_seconds, Desk(config).run_tick)]

    def _repeat(self, name, seconds, tick):
        """Run a job every so many seconds, late runs at once and none twice. By the monotonic clock: the wall clock may be set back."""
        due = time.monotonic()
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            due = time.monotonic() + (seconds or TAKEOVER_SECONDS)
            if self._run(name, tick if seconds else None) and not seconds:
                return

    def _run(self, name, tick):
        """One pass, or without a tick the word that the job is off; whether it went well. A fault of ours goes to the log with its stack."""
        try:
            with models.database.connection_context():
                problem, details = tick(_now()) if tick else (None, None)
                models.note_job(name, "failing" if problem else "ok" if tick else "off", _now(), problem, details)
            return True
        except Exception as error:
            log.exception("job %s failed", name)
            with contextlib.suppress(models.OperationalError), models.database.connection_context():
                models.note_job(name, "failing", _now(), f"internal error: {type(error).__name__}")
            return False


def run_observer(config, observer, now):
    """One pass; (problem or None, details for health)."""
    with working(config):
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
