"""What users see at the first start: what it does, its address, the next steps."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from subprocess import PIPE

import apscheduler
import ground
import pytest
import sampling
from ground import until

from bench._ports import find_port
from web.server import logs

ROOT = Path(__file__).resolve().parents[2]
JOBS_OFF = {f"{job}_INTERVAL_SECONDS": "0" for job in ("OBSERVER", "SCOUT", "PAPER")}


@contextlib.contextmanager
def started(folder, port, **settings):
    environ = {**os.environ, **ground.environ(folder), **JOBS_OFF, "PORT": str(port), **settings}
    command, pipes = [sys.executable, "app.py", "run"], {"stdout": PIPE, "stderr": PIPE}
    server = subprocess.Popen(command, cwd=ROOT, env=environ, text=True, **pipes)
    try:
        yield server
    finally:
        server.terminate()
        server.communicate(timeout=60)


def ask_engine(port):
    """The state of paper mode's job."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=60) as answer:
        health = json.load(answer)
    assert health["status"] == "ok"
    return health["strategyEngine"]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """(port, the first two lines of output, the first line of the log) of a running server"""
    folder, port = tmp_path_factory.mktemp("running") / "data", find_port()
    with started(folder, port, PAPER_INTERVAL_SECONDS="30") as server:
        yield port, [server.stdout.readline() for _ in range(2)], server.stderr.readline()


def test_startup_shows_its_address_and_next_steps(running):
    port, (begun, serves), logged = running
    assert "preparing the database" in begun
    assert f"http://127.0.0.1:{port}/connect" in serves and "Ctrl+C" in serves
    # No terminal is attached here.
    assert json.loads(logged)["level"] == "info"
    until(lambda: ask_engine(port)["state"] == "ok")


def test_a_port_in_use_is_one_sentence(running, tmp_path):
    port, *_ = running
    with started(tmp_path / "second", port) as second:
        out, told = second.communicate(timeout=60)
        assert second.returncode == 1 and out == ""
        assert told.count("\n") == 1 and f"port {port}" in told and "PORT=" in told


# ---- while the jobs are loaded ------------------------------------------------------------------
# Replaces the job library: importing it waits for a file and reports that it does.
SLOW = """
import pathlib, time
folder = pathlib.Path(__file__).parent
(folder / "begun").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
__path__ = [{library!r}]
exec((pathlib.Path(__path__[0]) / "__init__.py").read_text())
"""
BROKEN = 'raise ImportError("apscheduler is broken")'


def put_before_library(folder, text):
    """Settings with which the jobs find this in place of APScheduler."""
    library = str(Path(apscheduler.__file__).parent)
    folder.mkdir()
    (folder / "apscheduler.py").write_text(text.replace("{library!r}", repr(library)))
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("ending", sampling.sample([signal.SIGTERM, signal.SIGINT], 1))
def test_it_serves_and_can_be_stopped_while_the_jobs_are_loaded(tmp_path, ending):
    port, slow = find_port(), tmp_path / "slow"
    settings = put_before_library(slow, SLOW)
    with started(tmp_path / "data", port, PAPER_INTERVAL_SECONDS="30", **settings) as server:
        server.stdout.readline(), server.stdout.readline()
        until((slow / "begun").exists)
        engine = ask_engine(port)
        assert (engine["state"], engine["heartbeatAt"]) == ("unknown", None)
        server.send_signal(ending)
        (slow / "go").touch()
        _, told = server.communicate(timeout=60)
        assert server.returncode == 0 and "Traceback" not in told


@pytest.mark.parametrize("workers, statuses", sampling.sample([("2", {1, 3}), ("1", {3})], 1))
def test_it_exits_if_the_jobs_cannot_load(tmp_path, workers, statuses):
    """With gunicorn's status for a worker that fails to boot. A second worker that fails while
    gunicorn ends is an error to gunicorn, with status 1.
    """
    settings = put_before_library(tmp_path / "broken", BROKEN)
    with started(tmp_path / "data", find_port(), WEB_CONCURRENCY=workers, **settings) as server:
        _, told = server.communicate(timeout=60)
        assert server.returncode in statuses
        assert "the jobs couldn't be started" in told and "apscheduler is broken" in told


ON_DEMAND = "jobs apscheduler websockets requests operate.doctor web.api.openapi PIL segno".split()


def test_rarely_used_modules_are_loaded_on_demand(settings):
    """So that the first response doesn't wait for it."""
    told = "import sys, app; app.create_app(); print(*sys.modules)"
    environ = {**os.environ, **ground.environ(settings.data_dir)}
    command = [sys.executable, "-c", told]
    loaded = subprocess.check_output(command, cwd=ROOT, env=environ, text=True).split()
    assert "web.server.application" in loaded and not {*ON_DEMAND} & {*loaded}


# ---- the log ------------------------------------------------------------------------------------
def test_the_log_is_plain_on_a_terminal_unless_configured():
    configured = (("json", True, "json"), ("plain", False, "plain"))
    for log_format, terminal, formatter in (("", True, "plain"), ("", False, "json"), *configured):
        made = logs.make_config(log_format, terminal)["handlers"]["stderr"]
        assert (made["formatter"], made["filters"]) == (formatter, ["repeats"])


def test_a_log_entry_is_one_line_with_listed_attributes_only():
    """A library may attach anything to a record, such as a request with its headers."""
    try:
        raise ValueError("broken")
    except ValueError:
        fault = sys.exc_info()
    record = logging.LogRecord("candor", logging.ERROR, "", 0, "odd\n%s", ("é\x1b[31m",), fault)
    record.created, record.repeated, record.request = 1_700_000_000.25, 3, "Authorization: secret"
    record.shown = {"requestId": "req_1", "folder": Path("/da\nta")}
    text = logs.JsonLines().format(record)
    line = json.loads(text)
    assert text.isascii() and "\n" not in text
    assert line.pop("trace").endswith("ValueError: broken")
    assert list(line.items()) == [
        ("at", "2023-11-14T22:13:20.250+00:00"),
        ("level", "error"),
        ("logger", "candor"),
        ("message", "odd\né\x1b[31m"),
        ("requestId", "req_1"),
        ("folder", "/da\nta"),
        ("repeated", 3),
    ]
    record.exc_info = None
    plain = logs.PlainLines().format(record)
    assert "error: odd\\n\\u00e9\\u001b[31m" in plain and 'folder="/da\\nta"' in plain
    assert "\n" not in plain and "secret" not in plain
