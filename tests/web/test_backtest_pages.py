"""The backtest pages: who may run what, how much, and what they show."""

import csv
import fcntl
import io
import os
import threading

import orjson
import pytest
from stage import RISE, Stage
from test_studio import Browser

from accounts import backtests
from accounts.backtests import FIELDS, begin_backtest
from accounts.problem import Problem
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
    stage = Stage(settings).list_token()
    stage.record(RISE)


def test_an_owner_runs_a_backtest_and_sees_the_result(service, waiting):
    """Once with the real process, which the others replace."""
    with database.connection_context():
        record(service.config)
    browser = Browser(service)
    browser.create("Nell")
    empty = browser.get("/backtests").text
    assert "riseBps=600" in empty and "No backtests yet." in empty
    sent = browser.send("/backtests", family="momentum", set="riseBps=600,900")
    assert sent.status_code == 302
    shown = browser.get(sent.headers["Location"]).text
    assert "simulated" in shown and "riseBps 600" in shown and "<svg" in shown
    assert "Look-ahead check passed" in shown and "riseBps 600: random entries" in shown
    assert ">Show as a table</summary>" in shown
    assert "Equity went from 10.00 SOL to " in shown and "with riseBps 600; " in shown
    assert "Holding SOL" in shown and "3x costs" in shown and "90th percentile" in shown
    result = orjson.loads(browser.get(sent.headers["Location"] + ".json").data)
    assert result["closeCount"] == 1 and result["simulated"] is True
    table = list(csv.DictReader(io.StringIO(browser.get(sent.headers["Location"] + ".csv").text)))
    assert [row["reason"] for row in table if row["account"] == "strategy"] == ["trailing_stop"]
    assert "done" in browser.get("/backtests").text


def test_errors_appear_next_to_their_fields(service):
    browser = Browser(service)
    browser.create("Nell")
    refused = browser.send("/backtests", family="momentum")
    assert refused.status_code == 422 and "are recorded yet" in refused.text
    with database.connection_context():
        record(service.config)
    for typed, said in (
        ({"set": "riseBps=1"}, "ust be a whole number"),
        ({"set": "own=1"}, "a setting of this family"),
        ({"from": "soon"}, "ust be a day or a time"),
        ({"family": "own:mine"}, "ust be one of"),
    ):
        refused = browser.send("/backtests", **{"family": "momentum", **typed})
        assert refused.status_code == 422 and said in refused.text, typed
    with database.connection_context():
        assert not Backtest.select().exists()


def test_the_single_file_says_where_backtests_run(service, monkeypatch):
    """It is its own interpreter, so it can't start another process."""
    browser = Browser(service)
    browser.create("Nell")
    monkeypatch.setattr(backtests.sys, "frozen", True, raising=False)
    refused = browser.send("/backtests", family="momentum")
    assert refused.status_code == 422 and "candor trader backtest" in refused.text


@pytest.fixture
def owner(db):
    return Owner.create(uid="owner_1", recovery_hash="h", created_at=0)


@pytest.fixture
def no_process(monkeypatch, db, settings):
    """Backtests that start and never finish."""
    record(settings)
    held = []
    monkeypatch.setattr(backtests, "start", lambda *arguments: held.append(arguments[-1]))
    return held


def test_one_backtest_runs_at_a_time(settings, owner, no_process):
    run = begin_backtest(settings, owner, TYPED, 10**12)
    assert run.state == "running" and len(no_process) == 1
    with pytest.raises(Problem) as refused:
        begin_backtest(settings, owner, TYPED, 10**12)
    assert refused.value.code == "busy" and Backtest.select().count() == 1
    shown = backtests.find_backtest(settings, owner, run.uid, 10**12 + 2 * 600_000)
    assert shown.state == "running"
    # Another host ran it, and that host's lock is unknown here.
    late = backtests.find_backtest(settings, owner, run.uid, 10**12 + 2 * 600_000 + 1)
    assert late.state == "failed" and "Interrupted" in late.error


def test_viewing_a_backtest_does_not_block_a_new_one(settings, owner, no_process):
    first = begin_backtest(settings, owner, TYPED, 10**12)
    backtests.os.close(no_process.pop())
    # As long as a check takes on a busy machine.
    looking = os.open(settings.data_dir / backtests.LOCK, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looking]).start()
    second = begin_backtest(settings, owner, TYPED, 10**12)
    assert (second.state, Backtest.get_by_id(first.id).state) == ("running", "failed")


def test_a_deleted_account_starts_no_backtest(settings, owner, no_process):
    Owner.update(recovery_hash=None).execute()
    for _ in range(2):
        with pytest.raises(Problem, match="this account was deleted"):
            begin_backtest(settings, owner, TYPED, 10**12)
    assert Backtest.select().count() == 0 and no_process == []


def test_a_backtest_of_a_killed_server_fails_at_once(settings, owner, no_process):
    """The system releases the lock with the process that held it."""
    run = begin_backtest(settings, owner, TYPED, 10**12)
    (listed,) = backtests.list_backtests(settings, owner, 10**12)
    assert listed.state == "running"
    backtests.os.close(no_process.pop())
    found = backtests.find_backtest(settings, owner, run.uid, 10**12)
    (listed,) = backtests.list_backtests(settings, owner, 10**12)
    assert found.state == listed.state == "failed" and found.error == backtests.INTERRUPTED
    second = begin_backtest(settings, owner, TYPED, 10**12)
    stored = Backtest.get_by_id(run.id)
    assert (stored.state, stored.error) == ("failed", backtests.INTERRUPTED)
    assert backtests.find_backtest(settings, owner, second.uid, 10**12).state == "running"
    # A backtest on another host isn't judged by this host's lock.
    Backtest.update(state="running").where(Backtest.id == run.id).execute()
    backtests.os.close(no_process.pop())
    assert backtests.find_backtest(settings, owner, run.uid, 10**12).state == "running"


def test_ten_per_hour_run_and_ten_are_kept(settings, owner, no_process):
    def begin(now):
        begin_backtest(settings, owner, TYPED, now)
        backtests.os.close(no_process.pop())

    hour = 3_600_000
    for number in range(10):
        begin(number)
    with pytest.raises(Problem) as refused:
        begin(hour - 1)
    assert refused.value.status == 429 and refused.value.headers["Retry-After"]
    first = Backtest.get().id
    for number in range(3):
        begin(hour + number)
    kept = [run.id for run in Backtest.select().order_by(Backtest.id)]
    assert kept == list(range(first + 3, first + 13))


def test_a_failing_process_is_reported_in_one_sentence(settings, owner, db, monkeypatch, waiting):
    record(settings)
    monkeypatch.setattr(backtests, "COMMAND", "nothing_of_the_kind")
    run = begin_backtest(settings, owner, TYPED, 10**12)
    run = Backtest.get_by_id(run.id)
    assert (run.state, run.result, run.error) == ("failed", None, backtests.FAILED)
