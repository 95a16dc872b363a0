"""The backtest pages: who may run what, how much, and what they show."""

import csv
import fcntl
import io
import os
import threading

import pytest
from service import refused
from stage import RISE, Stage

from accounts import backtests
from accounts.backtests import FIELDS, begin_backtest
from models import Owner
from paper.tables import Backtest
from storage import database

TYPED = {**dict.fromkeys(FIELDS, ""), "family": "momentum", "start": "standard"}


@pytest.fixture
def waiting(monkeypatch):
    """Backtests finish before the response."""

    def play(*arguments):
        thread = threading.Thread(target=backtests._play, args=arguments)
        thread.start()
        thread.join()

    monkeypatch.setattr(backtests, "start", play)


def record(settings):
    Stage(settings).list_token().record(RISE)


@pytest.fixture
def nell(browser):
    """A signed-in owner's browser."""
    browser.create("Nell")
    return browser


def test_an_owner_runs_a_backtest_and_sees_the_result(service, nell, waiting):
    """Once with the real process, which the others replace."""
    with database.connection_context():
        record(service.config)
    empty = nell.get("/backtests").text
    assert "riseBps=600" in empty and "No backtests yet." in empty
    sent = nell.send("/backtests", family="momentum", set="riseBps=600,900")
    assert sent.status_code == 302
    shown = nell.get(sent.location).text
    for said in (
        *("simulated", "riseBps 600", "<svg", "Look-ahead check passed", ">Show as a table<"),
        *("riseBps 600: random entries", "Equity went from 10.00 SOL to ", "with riseBps 600; "),
        *("Holding SOL", "3x costs", "90th percentile"),
    ):
        assert said in shown
    result = nell.get(f"{sent.location}.json").json
    assert result["closeCount"] == 1 and result["simulated"] is True
    table = csv.DictReader(io.StringIO(nell.get(f"{sent.location}.csv").text))
    reasons = [row["reason"] for row in table if row["account"] == "strategy"]
    assert reasons == ["trailing_stop"]
    assert "done" in nell.get("/backtests").text


def test_errors_appear_next_to_their_fields(service, nell, monkeypatch):
    def check(said, **typed):
        refused = nell.send("/backtests", **{"family": "momentum", **typed})
        assert refused.status_code == 422 and said in refused.text, typed

    check("are recorded yet")
    with database.connection_context():
        record(service.config)
    check("ust be a whole number", set="riseBps=1")
    check("a setting of this family", set="own=1")
    check("ust be a day or a time", **{"from": "soon"})
    check("ust be one of", family="own:mine")
    # The single file is its own interpreter, so it can't start another process.
    monkeypatch.setattr(backtests.sys, "frozen", True, raising=False)
    check("candor trader backtest")
    with database.connection_context():
        assert not Backtest.select().exists()


# ---- one at a time -------------------------------------------------------------------------------
NOW = 10**12


@pytest.fixture
def owner(db):
    return Owner.create(uid="owner_1", recovery_hash="h", created_at=0)


class Runs:
    """Backtests of an owner whose processes start and never finish."""

    def __init__(self, settings, owner):
        self.settings, self.owner, self.locks = settings, owner, []

    def begin(self, now=NOW):
        return begin_backtest(self.settings, self.owner, TYPED, now)

    def kill(self):
        """The system releases the lock with the process that held it."""
        os.close(self.locks.pop())

    def find(self, run, now=NOW):
        """A backtest's (state, error), which its page and the list agree on."""
        found = backtests.find_backtest(self.settings, self.owner, run.uid, now)
        listed = backtests.list_backtests(self.settings, self.owner, now)
        assert {one.uid: one.state for one in listed}[run.uid] == found.state
        return found.state, found.error


@pytest.fixture
def runs(monkeypatch, settings, owner):
    record(settings)
    made = Runs(settings, owner)
    monkeypatch.setattr(backtests, "start", lambda *arguments: made.locks.append(arguments[-1]))
    return made


def test_one_backtest_runs_at_a_time(runs):
    run = runs.begin()
    assert run.state == "running" and len(runs.locks) == 1
    assert refused(runs.begin).code == "busy" and Backtest.select().count() == 1
    late = NOW + 2 * 600_000
    assert runs.find(run, late) == ("running", None)
    # Another host ran it, and that host's lock is unknown here.
    state, error = runs.find(run, late + 1)
    assert state == "failed" and "Interrupted" in error


def test_a_backtest_of_a_killed_server_fails_at_once_and_the_next_one_starts(runs, settings):
    run = runs.begin()
    runs.kill()
    assert runs.find(run) == ("failed", backtests.INTERRUPTED)
    # Somebody is viewing it, for as long as that takes on a busy machine.
    looking = os.open(settings.data_dir / backtests.LOCK, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looking]).start()
    second = runs.begin()
    stored = Backtest.get_by_id(run.id)
    assert (stored.state, stored.error) == ("failed", backtests.INTERRUPTED)
    assert runs.find(second) == ("running", None)
    # A backtest on another host isn't judged by this host's lock.
    Backtest.update(state="running").where(Backtest.id == run.id).execute()
    runs.kill()
    assert runs.find(run)[0] == "running"


def test_ten_per_hour_run_and_ten_are_kept(runs):
    def begin(now):
        runs.begin(now)
        runs.kill()

    hour = 3_600_000
    for number in range(10):
        begin(number)
    problem = refused(begin, hour - 1)
    assert problem.status == 429 and problem.headers["Retry-After"]
    first = Backtest.get().id
    for number in range(3):
        begin(hour + number)
    kept = [run.id for run in Backtest.select().order_by(Backtest.id)]
    assert kept == list(range(first + 3, first + 13))
    # A deleted account starts none.
    Owner.update(recovery_hash=None).execute()
    for _ in range(2):
        assert "this account was deleted" in refused(begin, 3 * hour).detail
    assert Backtest.select().count() == 10 and runs.locks == []


def test_a_failing_process_is_reported_in_one_sentence(settings, owner, monkeypatch, waiting):
    record(settings)
    monkeypatch.setattr(backtests, "COMMAND", "nothing_of_the_kind")
    run = Backtest.get_by_id(begin_backtest(settings, owner, TYPED, NOW).id)
    assert (run.state, run.result, run.error) == ("failed", None, backtests.FAILED)
