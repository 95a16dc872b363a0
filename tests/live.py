"""A running server with one bot, for tests of outside clients: guides, examples, the MCP server."""

import json
import os
import subprocess
import sys
import time

import ground
from service import address
from test_worker import ROOT, SETTINGS, Server

from accounts import api_keys, influencers


class Live(Server):
    """`key` is `bot`'s publishing key, `read_key` has the same owner; `environ` is a client's
    environment.
    """

    def __init__(self, folder, **environ):
        super().__init__(folder, **environ)
        self.url, self.folder = f"http://127.0.0.1:{self.port}", folder
        now, settings = time.time_ns() // 10**6, ground.settings_of(folder / "data")
        # Like `app.py bot create` and `key create`, which would take half a second of imports each.
        with ground.speaking_to(settings):
            made = influencers.create_bot(settings, "Ada", now, address("live"))
            self.read_key = api_keys.create_key(made.owner, "read", now).text
        self.bot, self.key = made.bot.uid, made.publish_key.text
        self.environ = {
            "PATH": os.environ["PATH"],
            "CANDOR_URL": self.url,
            "CANDOR_KEY": self.key,
            "CANDOR_BOT": self.bot,
            "PYTHONWARNINGS": "error",
        }

    def command(self, *words):
        environ = {**os.environ, **SETTINGS, **ground.environ(self.folder / "data")}
        done = subprocess.run(
            [sys.executable, "app.py", *words, "--json"],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def feed(self, query=""):
        status, body = self.get(f"/api/v1/feed{query}", Authorization=f"Bearer {self.read_key}")
        assert status == 200, body
        return json.loads(body)
