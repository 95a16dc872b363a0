"""deploy/candor.service: systemd understands it, and the server starts under the filter of system
calls it sets.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confined
import pytest
from test_worker import Server

TESTS = Path(__file__).resolve().parents[1]
UNIT = TESTS.parent / "deploy" / "candor.service"


def can_confine() -> bool:
    if confined.load_library() is None:
        return False
    trial = [sys.executable, str(TESTS / "confined.py"), "deny", "nice", shutil.which("true")]
    return subprocess.run(trial, capture_output=True).returncode == 0


needs_filter = pytest.mark.skipif(not can_confine(), reason="no libseccomp, or no filter allowed")
needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"
)


def start_and_ask(folder: Path, names: str) -> None:
    """Start the server with only these system calls; check that it responds and stops."""
    server = Server(folder, through=[sys.executable, str(TESTS / "confined.py"), "allow", names])
    try:
        assert server.get("/api/health")[0] == 200
        assert server.get("/")[0] == 200
    finally:
        server.stop()
    assert "Traceback" not in (folder / "server.log").read_text()


@needs_filter
@needs_systemd
def test_the_server_starts_under_the_units_full_filter(tmp_path: Path) -> None:
    """It needs less than the unit allows: copies of an older unit in /etc lack one call."""
    allowed = read_filter(UNIT.read_text())
    assert len(allowed) > 100 and "sched_setaffinity" in allowed and "setpriority" not in allowed
    start_and_ask(tmp_path, ",".join(sorted(allowed - {"sched_setaffinity"})))


def read_filter(unit: str) -> set[str]:
    """Return the system calls that a unit allows; its lines add or remove calls in order."""
    allowed: set[str] = set()
    for without, words in re.findall(r"^SystemCallFilter=(~?)(.+)$", unit, re.M):
        named = {call for word in words.split() for call in list_calls(word)}
        allowed = allowed - named if without else allowed | named
    return allowed


def list_calls(word: str) -> Iterator[str]:
    """Yield the system calls of a filter's word: a call, or a set of calls and sets."""
    if not word.startswith("@"):
        yield word
        return
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True
    )
    for line in shown.stdout.splitlines()[1:]:
        if line.strip() and not line.strip().startswith("#"):
            yield from list_calls(line.strip())


@needs_systemd
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Every word, except for the program, which isn't installed here."""
    text = UNIT.read_text()
    copy = tmp_path / "candor.service"
    copy.write_text(text.replace("/opt/candor/.venv/bin/python", shutil.which("true")))
    assert copy.read_text() != text
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# ---- the candor command --------------------------------------------------------------------------
def test_a_command_runs_as_the_service_does(tmp_path):
    """systemd-run gets the unit's settings, and arguments are passed unchanged."""
    fake = tmp_path / "systemd-run"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    fake.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [UNIT.with_name("candor-command"), "bot", "create", "--name", "Nell $HOME; ls"]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)
    asked = done.stdout.splitlines()
    assert done.returncode == 3
    assert asked[-4:] == ["bot", "create", "--name", "Nell $HOME; ls"]
    unit = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line)
    program, script = unit["ExecStart"].split()[:2]
    assert asked[-6:-4] == [program, script]
    assert f"--uid={unit['User']}" in asked and f"--gid={unit['Group']}" in asked
    assert f"--working-directory={unit['WorkingDirectory']}" in asked
    for name in ("EnvironmentFile", "UMask"):
        assert f"--property={name}={unit[name]}" in asked
    for one in unit["Environment"].split():
        assert f"--setenv={one}" in asked
