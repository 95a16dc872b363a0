"""A process's jobs: one process leads, another takes over, errors are reported and survived, and
clock changes don't stop them.
"""

import json
import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import ground
import pytest

import jobs
import storage
from models import Job
from storage import trouble


@pytest.fixture
def crew(settings, db, monkeypatch):
    """crew(ticks) -> a started Jobs whose work is these: {name: (seconds, tick)}; all are stopped
    in the end.
    """
    started = []
    monkeypatch.setattr(jobs, "TAKEOVER_SECONDS", 0.05)

    def start(work):
        made = jobs.Jobs(ground.change(settings, solana_ws_urls=("off",)))
        made._list_jobs = lambda: [jobs.Work(name, *one) for name, one in work.items()]
        made.start()
        started.append(made)
        return made

    yield start
    for made in started:
        made.stop()


def until(test, seconds=60):
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def counting(counts, name="n"):
    counts[name] = 0

    def tick(now):
        counts[name] += 1
        return None, "{}"

    return tick


def row(name):
    return Job.get_or_none(Job.name == name)


def test_one_process_runs_the_jobs_and_another_takes_over(crew):
    a, b = {}, {}
    first, second = crew({"job": (0.02, counting(a))}), crew({"job": (0.02, counting(b))})
    until(lambda: a["n"] + b["n"] > 3)
    assert 0 in (a["n"], b["n"])
    leads, waits, leader = (a, b, first) if a["n"] else (b, a, second)
    leader.stop()
    until(lambda: waits["n"] > 0)
    still = leads["n"]
    time.sleep(0.1)
    assert leads["n"] == still


def test_health_shows_how_a_pass_ended(crew):
    crew({"job": (0.02, lambda now: ("endpoint 1: HTTP 500", json.dumps({"now": now})))})
    until(lambda: row("job"))
    told = row("job")
    assert (told.state, told.last_error, told.last_success_at) == (
        "failing",
        "endpoint 1: HTTP 500",
        None,
    )
    assert abs(json.loads(told.details)["now"] - time.time() * 1000) < 60_000


def test_an_error_is_reported_logged_and_survived(crew, caplog):
    """It goes to the log with its stack, to health by its type only: the text may say anything."""
    healed = threading.Event()

    def tick(now):
        if not healed.is_set():
            raise ZeroDivisionError("https://node.example/secret")
        return None, "{}"

    crew({"job": (0.05, tick), "other": (0.02, counting({}))})
    until(lambda: row("job"))
    assert (
        row("job").last_error == "internal error: ZeroDivisionError"
        and "ZeroDivisionError" in caplog.text
    )
    healed.set()
    until(lambda: row("job").state == "ok")
    assert row("job").last_error is None


class FirstFails:
    """Called the first time, it fails; then it does as `act`."""

    def __init__(self, act):
        self.act, self.failed = act, False

    def __call__(self, *given):
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError
        return self.act(*given)


def test_an_error_before_the_first_pass_is_logged_and_survived(crew, monkeypatch, caplog):
    monkeypatch.setattr(jobs, "FAULT_SECONDS", 0.05)
    counts = {}
    monkeypatch.setattr(jobs, "Leadership", FirstFails(jobs.Leadership))
    crew({"job": (0.02, counting(counts))})
    until(lambda: counts["n"] > 0)
    assert "ZeroDivisionError" in caplog.text


def test_an_error_outside_the_passes_hands_over_the_lead(crew, monkeypatch, caplog):
    monkeypatch.setattr(jobs, "FAULT_SECONDS", 0.5)
    counts = {}
    made = crew({"job": (0.02, counting(counts))})
    until(lambda: counts["n"] > 0)
    made._report_silence = FirstFails(made._report_silence)
    other = storage.database.lock("jobs")
    until(other.take)
    assert "ZeroDivisionError" in caplog.text
    still = counts["n"]
    time.sleep(0.7)
    assert counts["n"] == still
    other.release()
    until(lambda: counts["n"] > still)


def test_a_recovering_problem_does_not_mark_the_job_as_failing(crew, monkeypatch):
    """All endpoints rest for a pass or two. The job is failing when that lasts."""
    problem = {}
    crew({"job": (0.02, lambda now: (problem.get("text"), "{}"))})
    until(lambda: row("job") and row("job").state == "ok")
    problem["text"] = "every endpoint is paused"
    until(lambda: row("job").last_error == "every endpoint is paused")
    told = row("job")
    assert told.state == "ok" and told.last_success_at < told.heartbeat_at
    monkeypatch.setattr(jobs, "SILENT_SECONDS", 0.0)
    until(lambda: row("job").state == "failing")
    problem.clear()
    until(lambda: row("job").state == "ok")
    assert row("job").last_error is None


def test_a_locked_database_is_survived(crew, settings, caplog):
    """Somebody else writes for long: the pass fails, and the next one after it works."""
    caplog.set_level(logging.CRITICAL)
    counts, holder = {}, storage.make_database(settings)
    tick = counting(counts)

    def write(now):
        with trouble.impatient():
            jobs.note_job("written", "ok", now)
        return tick(now)

    with holder.connection_context():
        holder.begin()
        crew({"job": (0.03, write)})
        time.sleep(0.3)
        assert counts["n"] == 0
        holder.rollback()
    holder.close_all()
    until(lambda: counts["n"] > 2)
    until(lambda: row("job") and row("job").state == "ok")


def test_a_disabled_job_says_so(crew):
    counts = {}
    crew({"job": (0, counting(counts))})
    until(lambda: row("job"))
    time.sleep(0.1)
    assert row("job").state == "off" and counts["n"] == 0


def test_a_reenabled_job_is_not_off_during_its_first_pass(db):
    for state, told in (("off", "unknown"), ("ok", "ok"), ("failing", "failing")):
        jobs.note_job("observer", state, 1_000)
        jobs.note_heartbeat("observer", 2_000)
        assert (row("observer").state, row("observer").heartbeat_at) == (told, 2_000)


def test_a_late_pass_runs_at_once_and_only_once(db):
    """Its turn comes again and again while the last pass is still at work: none runs beside that
    one, and once it ends one makes up for them all, without waiting for the next turn.
    """
    begun, go_on = [], threading.Event()

    def tick(now):
        begun.append(now)
        go_on.wait(120)
        return None, "{}"

    leadership = jobs.Leadership([jobs.Work("job", 0.05, tick)], lambda: None)
    leadership.start()
    try:
        until(lambda: leadership._late)
        time.sleep(0.2)
        assert len(begun) == 1
        # The next turn is an hour away: whatever runs now runs for the turns that were missed.
        leadership._scheduler.reschedule_job("job", trigger=jobs.Every(3_600, datetime.now(UTC)))
        go_on.set()
        until(lambda: len(begun) == 2)
        time.sleep(0.2)
        assert len(begun) == 2
    finally:
        go_on.set()
        leadership.stop()


@pytest.mark.parametrize("jump", [-3_600, 3_600])
def test_a_wall_clock_jump_stops_no_job(crew, monkeypatch, jump):
    counts, real = {}, time.time_ns
    crew({"job": (0.02, counting(counts))})
    until(lambda: counts["n"] > 2)
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump * 10**9)
    monkeypatch.setattr(time, "time", lambda: real() / 1e9 + jump)
    before = counts["n"]
    until(lambda: counts["n"] > before + 5)


class SteppedClock(datetime):
    """The wall clock as APScheduler reads it, `step` seconds off."""

    step = 0

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(seconds=cls.step)


def test_a_clock_set_back_an_hour_and_forward_two_loses_no_run(crew, monkeypatch):
    """Without the guard none runs until the hour is over."""
    counts, real = {}, time.time
    monkeypatch.setattr(SteppedClock, "step", 0)
    for module in ("apscheduler.schedulers.base", "apscheduler.executors.base", "jobs"):
        monkeypatch.setattr(f"{module}.datetime", SteppedClock)
    monkeypatch.setattr(time, "time", lambda: real() + SteppedClock.step)
    crew({"job": (0.1, counting(counts))})
    for step in (0, -3_600, 3_600):
        SteppedClock.step = step
        runs, seconds = run_on(counts, 10)
        # Ten a second, the one at once when the clock is set, and no hour of them made up for.
        assert runs <= 10 * seconds + 5, (step, runs, seconds)


def run_on(counts, least):
    """Wait until so many passes more have begun: how many have, and in how many seconds."""
    before, began = counts["n"], time.monotonic()
    until(lambda: counts["n"] >= before + least)
    # The time is read last: it is that of all that were counted.
    runs = counts["n"] - before
    return runs, time.monotonic() - began


def test_passes_keep_a_steady_schedule():
    """Whatever was asked for between. A clock set forward by ten years leaves out 52 million."""
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    every, six = jobs.Every(6.0, begun), timedelta(seconds=6)
    assert every.get_next_fire_time(begun, begun) == begun + six
    between = begun + timedelta(seconds=1)
    assert every.get_next_fire_time(between, between) == begun + six
    assert every.get_next_fire_time(begun, begun + timedelta(days=3_652, seconds=5)) == (
        begun + timedelta(days=3_652) + six
    )


def test_an_endless_pass_does_not_keep_the_process_alive(crew, monkeypatch):
    monkeypatch.setattr(jobs, "GRACE_SECONDS", 0.2)
    begun, ending = threading.Event(), threading.Event()
    lasting = {thread for thread in threading.enumerate() if not thread.daemon}

    def tick(now):
        begun.set()
        ending.wait(120)
        return None, "{}"

    made = crew({"job": (0.05, tick)})
    assert begun.wait(60)
    before = time.monotonic()
    made.stop()
    assert time.monotonic() - before < 60
    assert {thread for thread in threading.enumerate() if not thread.daemon} == lasting
    ending.set()


def test_only_one_process_works_at_a_time(settings, db):
    """The command line waits for the server's pass, and the server for the command line's."""
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


class SilentNodes:
    """As an Rpc whose pass waits for nodes that never answer, from now on or not."""

    seconds = 0.0

    def silent_for(self):
        return self.seconds


def test_silent_nodes_are_reported_while_the_pass_waits(crew):
    """Long before the pass ends; one that is long for honest reasons says nothing of the kind."""
    waiting, ending = threading.Event(), threading.Event()

    def tick(now):
        waiting.set()
        ending.wait(120)
        return None, "{}"

    made = crew({"observer": (0.01, tick)})
    try:
        assert waiting.wait(60)
        jobs.note_job("observer", "ok", 1)
        made._rpc = SilentNodes()
        made._rpc.seconds = jobs.SILENT_SECONDS - 1
        time.sleep(0.2)
        assert row("observer").state == "ok"
        made._rpc.seconds = jobs.SILENT_SECONDS
        until(lambda: row("observer").state == "failing")
        assert "no node has responded" in row("observer").last_error
    finally:
        made._rpc = None
        ending.set()
    until(lambda: row("observer").state == "ok")
