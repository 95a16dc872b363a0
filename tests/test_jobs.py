"""A process's jobs: one process leads, another takes over, errors are reported and survived, and
clock changes don't stop them.
"""

import itertools
import json
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from unittest import mock

import ground
import pytest
from ground import until

import jobs
import storage
from models import Job
from storage import trouble


@pytest.fixture
def crew(settings, db, monkeypatch):
    """crew(tick, seconds) -> a started Jobs that does this work. All are stopped at the end."""
    started = []
    monkeypatch.setattr(jobs, "TAKEOVER_SECONDS", 0.05)
    monkeypatch.setattr(jobs, "FAULT_SECONDS", 0.5)

    def start(tick, seconds=0.02, name="job"):
        made = jobs.Jobs(ground.change(settings, solana_ws_urls=("off",)))
        made._list_jobs = lambda: [jobs.Work(name, seconds, tick)]
        made.start()
        started.append(made)
        return made

    yield start
    for made in started:
        made.stop()


class Counting:
    """A pass that counts itself and returns `problem`, or raises it."""

    def __init__(self):
        self.n, self.problem = 0, None

    def __call__(self, now):
        self.n += 1
        if isinstance(self.problem, Exception):
            raise self.problem
        return self.problem, json.dumps({"now": now})

    def goes_on(self, least=1):
        """Wait for this many passes."""
        before = self.n
        until(lambda: self.n >= before + least)


@pytest.fixture
def tick():
    return Counting()


@pytest.fixture
def held(crew):
    """A pass that notes its begin and then waits for `held.go_on`."""

    def run(now):
        run.begun.append(now)
        run.go_on.wait(120)
        return None, "{}"

    run.begun, run.go_on = [], threading.Event()
    yield run
    run.go_on.set()


def row(name="job"):
    return Job.get_or_none(Job.name == name)


def read(name="job"):
    """(state, last error) of a job, or None."""
    found = row(name)
    return found and (found.state, found.last_error)


# ---- one process leads ---------------------------------------------------------------------------
def test_one_process_runs_the_jobs_and_another_takes_over(crew):
    ticks = Counting(), Counting()
    made = [crew(tick) for tick in ticks]
    until(lambda: sum(tick.n for tick in ticks) > 3)
    assert 0 in (ticks[0].n, ticks[1].n)
    leads = 0 if ticks[0].n else 1
    made[leads].stop()
    still = ticks[leads].n
    ticks[1 - leads].goes_on(5)
    assert ticks[leads].n == still


def test_only_one_process_works_at_a_time(settings, db):
    """The command waits for the server's pass, and the server for the command's."""
    order = []

    def other():
        with jobs.observer_lock():
            order.append("other")

    with jobs.observer_lock():
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


# ---- what health shows ---------------------------------------------------------------------------
def test_health_shows_how_a_pass_ended(crew, tick, monkeypatch, caplog):
    """Health shows only an error's type. A pause of a pass or two isn't a failure."""
    tick.problem = "endpoint 1: HTTP 500"
    crew(tick)
    until(lambda: read() == ("failing", "endpoint 1: HTTP 500"))
    assert row().last_success_at is None
    assert abs(json.loads(row().details)["now"] - time.time() * 1000) < 60_000
    tick.problem = ZeroDivisionError("https://node.example/secret")
    until(lambda: read() == ("failing", "internal error: ZeroDivisionError"))
    assert "Traceback" in caplog.text
    tick.problem = None
    until(lambda: read() == ("ok", None))
    tick.problem = "every endpoint is paused"
    until(lambda: read() == ("ok", "every endpoint is paused"))
    assert row().last_success_at < row().heartbeat_at
    monkeypatch.setattr(jobs, "SILENT_SECONDS", 0.0)
    until(lambda: read() == ("failing", "every endpoint is paused"))
    tick.problem = None
    until(lambda: read() == ("ok", None))


def test_a_disabled_job_says_so(crew, tick):
    crew(tick, 0)
    until(read)
    time.sleep(0.1)
    assert (read(), tick.n) == (("off", None), 0)


def test_a_reenabled_job_is_not_off_during_its_first_pass(db):
    for state, told in (("off", "unknown"), ("ok", "ok"), ("failing", "failing")):
        jobs.note_job("observer", state, 1_000)
        jobs.note_heartbeat("observer", 2_000)
        assert (Job.get().state, Job.get().heartbeat_at) == (told, 2_000)


class SilentNodes:
    """Like an Rpc whose pass waits for nodes that don't respond."""

    seconds = jobs.SILENT_SECONDS - 1

    def silent_for(self):
        return self.seconds


def test_silent_nodes_are_reported_while_the_pass_waits(crew, held):
    """Long before the pass ends; a pass that is long for other reasons isn't reported."""
    made = crew(held, 0.01, "observer")
    until(lambda: held.begun)
    jobs.note_job("observer", "ok", 1)
    made._rpc = SilentNodes()
    time.sleep(0.2)
    assert read("observer") == ("ok", None)
    made._rpc.seconds = jobs.SILENT_SECONDS
    until(lambda: read("observer") == ("failing", "no node has responded for 40 seconds"))
    made._rpc = None
    held.go_on.set()
    until(lambda: read("observer") == ("ok", None))


# ---- errors --------------------------------------------------------------------------------------
def fail_first(act, *errors):
    """Like `act`, but the first calls fail with these errors."""
    outcomes = itertools.chain(errors or [ZeroDivisionError()], itertools.repeat(mock.DEFAULT))
    return mock.Mock(wraps=act, side_effect=outcomes)


def test_an_error_before_the_first_pass_is_logged_and_survived(crew, tick, monkeypatch, caplog):
    monkeypatch.setattr(jobs, "Leadership", fail_first(jobs.Leadership))
    crew(tick)
    tick.goes_on()
    assert "ZeroDivisionError" in caplog.text


def test_an_error_outside_the_passes_hands_over_the_lead(crew, tick, caplog):
    made = crew(tick)
    tick.goes_on()
    made._report_silence = fail_first(made._report_silence)
    other = storage.database.lock("jobs")
    until(other.take)
    assert "ZeroDivisionError" in caplog.text
    still = tick.n
    time.sleep(0.7)
    assert tick.n == still
    other.release()
    tick.goes_on()


def test_a_locked_database_is_survived(crew, tick, settings, caplog):
    """Another process writes for long: the pass fails, and the next one works."""
    caplog.set_level(logging.CRITICAL)
    holder = storage.make_database(settings)

    def write(now):
        with trouble.impatient():
            jobs.note_job("written", "ok", now)
        return tick(now)

    with holder.connection_context():
        holder.begin()
        crew(write, 0.03)
        time.sleep(0.3)
        assert tick.n == 0
        holder.rollback()
    holder.close_all()
    tick.goes_on(3)
    until(lambda: read() == ("ok", None))


def test_an_endless_pass_does_not_keep_the_process_alive(crew, held, monkeypatch):
    monkeypatch.setattr(jobs, "GRACE_SECONDS", 0.2)
    lasting = {thread for thread in threading.enumerate() if not thread.daemon}
    made = crew(held)
    until(lambda: held.begun)
    before = time.monotonic()
    made.stop()
    assert time.monotonic() - before < 60
    assert {thread for thread in threading.enumerate() if not thread.daemon} == lasting


# ---- when they run -------------------------------------------------------------------------------
def test_a_late_pass_runs_at_once_and_only_once(db, held):
    """One pass makes up for all turns that were due during the last one."""
    leadership = jobs.Leadership([jobs.Work("job", 0.05, held)], lambda: None)
    leadership.start()
    until(lambda: leadership._late)
    time.sleep(0.2)
    assert len(held.begun) == 1
    # The next turn is an hour away, so a run now is for the missed turns.
    leadership._scheduler.reschedule_job("job", trigger=jobs.Every(3_600, datetime.now(UTC)))
    held.go_on.set()
    until(lambda: len(held.begun) == 2)
    time.sleep(0.2)
    leadership.stop()
    assert len(held.begun) == 2


class SteppedClock(datetime):
    """The wall clock as APScheduler reads it, off by `step` seconds."""

    step = 0

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(seconds=cls.step)


def test_a_clock_set_back_an_hour_and_forward_two_loses_no_run(crew, tick, monkeypatch):
    """Without the guard, none runs until the hour is over."""
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(SteppedClock, "step", 0)
    for module in ("apscheduler.schedulers.base", "apscheduler.executors.base", "jobs"):
        monkeypatch.setattr(f"{module}.datetime", SteppedClock)
    monkeypatch.setattr(time, "time", lambda: real() + SteppedClock.step)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + SteppedClock.step * 10**9)
    crew(tick, 0.1)
    for step in (0, -3_600, 3_600):
        SteppedClock.step, before, began = step, tick.n, time.monotonic()
        tick.goes_on(10)
        # The time is read last, so that it covers all counted passes.
        runs, seconds = tick.n - before, time.monotonic() - began
        # Ten a second, one immediately when the clock is set, and none for the skipped hour.
        assert runs <= 10 * seconds + 5, (step, runs, seconds)


def test_passes_keep_a_steady_schedule():
    """Whatever was requested in between. A clock set forward by ten years skips 52 million."""
    begun, years = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=3_652)
    every, one, six = jobs.Every(6.0, begun), timedelta(seconds=1), timedelta(seconds=6)
    assert every.get_next_fire_time(begun, begun) == begun + six
    assert every.get_next_fire_time(begun + one, begun + one) == begun + six
    assert every.get_next_fire_time(begun, begun + years + 5 * one) == begun + years + six
