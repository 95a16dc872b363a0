"""What somebody sees at the first start: what it does, where it serves, what is next."""

import contextlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import ground
import pytest

from bench._ports import find_port
from web.server import logs

ROOT = Path(__file__).resolve().parent.parent
JOBS_OFF = {f"{job}_INTERVAL_SECONDS": "0" for job in ("OBSERVER", "SCOUT", "PAPER")}


@contextlib.contextmanager
def started(folder, port, **settings):
    environ = {**os.environ, **ground.environ(folder), **JOBS_OFF, "PORT": str(port), **settings}
    server = subprocess.Popen(
        [sys.executable, "app.py", "run"],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield server
    finally:
        server.terminate()
        server.communicate(timeout=20)


def test_it_says_what_it_does_where_it_serves_and_what_is_next(tmp_path):
    port = find_port()
    with started(tmp_path / "data", port) as server:
        begun, serves = server.stdout.readline(), server.stdout.readline()
        assert "preparing the database" in begun
        assert f"http://127.0.0.1:{port}/connect" in serves and "Ctrl+C" in serves
        # No terminal is attached here.
        assert json.loads(server.stderr.readline())["level"] == "info"


def test_a_taken_port_is_one_sentence(tmp_path):
    port = find_port()
    with started(tmp_path / "one", port) as server:
        server.stdout.readline(), server.stdout.readline()
        with started(tmp_path / "two", port) as second:
            out, told = second.communicate(timeout=30)
            assert second.returncode == 1 and out == ""
            assert told.count("\n") == 1 and f"port {port}" in told and "PORT=" in told


@pytest.mark.parametrize(
    "log_format, terminal, formatter",
    [("", True, "plain"), ("", False, "json"), ("json", True, "json"), ("plain", False, "plain")],
)
def test_the_log_is_plain_at_a_terminal_unless_told_otherwise(log_format, terminal, formatter):
    made = logs.make_config(log_format, terminal)
    assert made["handlers"]["stderr"]["formatter"] == formatter
    assert made["handlers"]["stderr"]["filters"] == ["repeats"]


def test_a_plain_line_holds_one_line_whatever_somebody_sent():
    record = logging.LogRecord("candor", logging.WARNING, "", 0, "odd\nwords\x1b[31m", (), None)
    record.shown = {"route": "/a\nb"}
    line = logs.PlainLines().format(record)
    assert line.endswith('warning: odd\\nwords\\u001b[31m route="/a\\nb"')
