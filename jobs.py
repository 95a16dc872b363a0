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

from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.schedulers.background import BackgroundScheduler

import models
from models import Job
from observer import Observer
from papertrade import Desk
from scout import Scout

TAKEOVER_SECONDS = 0.5
log = logging.getLogger("candor.jobs")


@contextlib.contextmanager
def working(config):
    """Alone at work in DATA_DIR: waits for whoever is observing or rebuilding there now."""
    with open(config.data_dir / "work.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Jobs:
    """The jobs of one process."""

    def __init__(self, config):
        self.config = config
        self._lock = open(config.data_dir / "jobs.lock", "w")
        self._scheduler = BackgroundScheduler(timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None})
        self._scheduler.add_listener(self._note_error, EVENT_JOB_ERROR)

    def start(self):
        self._scheduler.add_job(self._try_to_lead, "interval", seconds=TAKEOVER_SECONDS, id="lead")
        self._scheduler.start()
        self._try_to_lead()

    def stop(self):
        self._scheduler.shutdown(wait=False)
        self._lock.close()

    def _try_to_lead(self):
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        for name, seconds, tick in self._list_jobs():
            if seconds:
                self._scheduler.add_job(self._run, "interval", seconds=seconds, id=name, args=[name, tick], next_run_time=models.utc_now(), replace_existing=True)
            else:
                with models.database.connection_context():
                    models.note_job(name, "off", _now())
        self._scheduler.remove_job("lead")                # last: should the database be locked just now, it is tried again

    def _list_jobs(self):
        """[(name, seconds between runs, tick(now) -> (problem or None, details for health)), ...]"""
        config, observer = self.config, Observer(self.config)
        return [("observer", config.observer_interval_seconds, lambda now: run_observer(config, observer, now)),
                ("scout", config.scout_interval_seconds, Scout(config, observer.rpc).run_tick),
                ("paper", config.paper_interval_seconds, Desk(config).run_tick)]

    def _run(self, name, tick):
        with models.database.connection_context():
            now = _now()
            problem, details = tick(now)
            models.note_job(name, "failing" if problem else "ok", _now(), problem, details)

    def _note_error(self, event):
        """A fault of ours: it goes to the log with its stack, and to health by its type."""
        log.error("job %s failed", event.job_id, exc_info=event.exception)
        with contextlib.suppress(models.OperationalError), models.database.connection_context():
            models.note_job(event.job_id, "failing", _now(), f"internal error: {type(event.exception).__name__}")


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
