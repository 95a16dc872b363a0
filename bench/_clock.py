"""A command of this program on a clock that runs faster:
`python -m bench._clock RATE MEETS run`.

RATE: seconds that pass in one; MEETS: the Unix time at which this clock and the machine's agree.
What the program plans by is scaled (the time of day, the monotonic clock, sleeping, waiting for an
event), so that a job of every fifteen seconds runs every fifteen of these. What waits for a machine
is not: sockets, SQLite's and a writer's patience, gunicorn's care for its workers and clients.
"""

import datetime
import runpy
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
REAL = SimpleNamespace(**{name: getattr(time, name) for name in dir(time)})


class Clock:
    """The time of day that passes `rate` times as fast and agrees with the machine's at `meets`."""

    def __init__(self, rate, meets):
        self.rate, self.meets = rate, meets

    def time(self):
        return self.meets + (REAL.time() - self.meets) * self.rate

    def time_ns(self):
        return int(self.time() * 1e9)

    def monotonic(self):
        return REAL.monotonic() * self.rate

    def monotonic_ns(self):
        return REAL.monotonic_ns() * self.rate

    def sleep(self, seconds):
        REAL.sleep(seconds / self.rate)

    def now(self, zone=None):
        return datetime.datetime.fromtimestamp(self.time(), zone)


def install(clock):
    """Scale the time of this process and of those forked from it."""
    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep"):
        setattr(time, name, getattr(clock, name))
    _scale_waiting(clock)
    _scale_planning(clock)
    _leave_machine_alone()


def _scale_waiting(clock):
    wait = threading.Condition.wait

    def wait_scaled(self, timeout=None):
        return wait(self, None if timeout is None else timeout / clock.rate)

    threading.Condition.wait = wait_scaled
    threading._time = clock.monotonic


def _scale_planning(clock):
    """APScheduler and the jobs plan by datetime.now(), which is not asked of the module time."""
    from apscheduler.executors import base as executors
    from apscheduler.schedulers import base as schedulers
    from apscheduler.triggers import interval

    import jobs

    class Scaled(datetime.datetime):
        """Stands where a module says `datetime`; what it makes are plain ones."""

        @classmethod
        def now(cls, tz=None):
            return clock.now(tz)

        @classmethod
        def fromtimestamp(cls, timestamp, tz=None):
            return datetime.datetime.fromtimestamp(timestamp, tz)

    for module in (executors, schedulers, interval, jobs):
        module.datetime = Scaled


def _leave_machine_alone():
    """Clients, workers and disks are of this machine, and so is the patience with them."""
    import gunicorn.arbiter
    import gunicorn.workers.gthread
    import gunicorn.workers.workertmp

    from storage import counters, postgresql, sqlite, trouble
    from web.server import connections, worker

    servers = (gunicorn.arbiter, gunicorn.workers.gthread, gunicorn.workers.workertmp)
    databases = (counters, postgresql, sqlite, trouble)
    for module in (*servers, *databases, connections, worker):
        module.time = REAL


if __name__ == "__main__":
    rate, meets, *command = sys.argv[1:]
    install(Clock(int(rate), float(meets)))
    sys.argv = ["app.py", *command]
    runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
