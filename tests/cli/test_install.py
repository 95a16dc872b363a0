"""The start directory doesn't matter: for a checkout, an installation or a single file."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from test_first_minute import JOBS_OFF

from bench._ports import find_port
from cli import parser, processes

ROOT = Path(__file__).resolve().parents[2]


def test_settings_and_data_come_from_the_working_directory_and_code_does_not(tmp_path):
    port, unset = find_port(), ("PORT", "DATA_DIR", "BASE_URL")
    for name in ("app.py", "serving.py", "gunicorn.conf.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')\n")
    (tmp_path / ".env").write_text(f"PORT={port}\n")
    environ = {name: one for name, one in {**os.environ, **JOBS_OFF}.items() if name not in unset}
    argv = [sys.executable, ROOT / "app.py", "run"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    server = subprocess.Popen(argv, cwd=tmp_path, env=environ, **pipes)
    with contextlib.closing(server.stdout):
        said = server.stdout.readline() + server.stdout.readline()
        assert f"http://127.0.0.1:{port}/connect" in said
        with socket.create_connection(("127.0.0.1", port), 20):
            assert (tmp_path / "data" / "app.db").exists()
        server.terminate()
        assert server.wait(60) == 0


@pytest.mark.parametrize(
    "path, name",
    [
        ("app.py", "app.py"),
        ("/usr/bin/pytest", "app.py"),
        ("/home/x/.local/bin/candor", "candor"),
        ("./candor.pyz", "candor.pyz"),
    ],
)
def test_usage_shows_the_name_the_program_was_called_by(path, name):
    assert parser.name_program(path) == name


def test_a_frozen_program_restarts_itself_and_runs_others_with_their_interpreter(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["candor.pyz", "demo"])
    assert processes.find_command() == [sys.executable, "candor.pyz"]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert processes.find_command() == [sys.executable]


@pytest.mark.parametrize("built_for, refused", [("{}.{}", False), ("3.4", True)])
def test_the_single_file_refuses_another_python_version_in_one_sentence(built_for, refused):
    version = built_for.format(*sys.version_info)
    text = (ROOT / "deploy" / "single-file" / "preamble.py").read_text()
    text = text.replace("PYTHON", version).replace("MACHINE", os.uname().machine)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == refused and ("make dist" in done.stderr) == refused
