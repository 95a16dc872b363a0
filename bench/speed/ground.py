"""Shared by the measurements: seeded databases, wallets of a recorded history, and another
process's commits.
"""

import json
import subprocess
import time

import apsw

import config
import models
import storage
from accounts import api_keys, influencers
from bench import _servers as servers
from bench._clients import write_request
from bench._seed import WALLETS, fill
from chain.stored.standings import refresh_standings

MEDDLING = "UPDATE wallet SET due_at = due_at + 1 WHERE id = (SELECT MIN(id) FROM wallet)"
SMALL = 10_000
VENUE = servers.VENUE
# As in serving.py.
THREADS = config.Config().threads


class Seeded:
    """A folder with this many trades and posts of this many bots, and keys for it."""

    def __init__(self, parent, count, bots=WALLETS):
        name = f"seed-{count}" if bots == WALLETS else f"seed-{count}-{bots}"
        self.folder = parent / name
        self.settings = config.load({"DATA_DIR": str(self.folder)}, dotenv=None)
        fresh = not self.folder.exists()
        database = storage.connect(self.settings)
        storage.migrate(database)
        with database.connection_context():
            if fresh:
                made = fill(self.settings, count, count, bots)
                (self.folder / "made.json").write_text(json.dumps(made))
            self.made = json.loads((self.folder / "made.json").read_text())
            self._make_keys()
        database.close_all()
        self.file = self.folder / "app.db"
        self.paths = {
            "feed": "/api/v1/feed?limit=100",
            "trades": "/api/v1/trades?limit=100",
            "trades of a token": f"/api/v1/trades?limit=100&mint={self.made['mint']}",
            "activity": f"/api/v1/activity?limit=100&mint={self.made['mint']}",
            "leaderboard": "/api/v1/leaderboard?limit=100",
            "leaderboard, 7 days": "/api/v1/leaderboard?limit=100&window=7d",
            "bots": "/api/v1/bots?limit=100",
            "a bot": f"/api/v1/bots/{self.made['bots'][0]}",
            "trades of a bot": f"/api/v1/trades?limit=100&botId={self.made['bots'][0]}",
        }
        self.pages = {
            "the page of the feed": "/",
            "the page of a bot": f"/bots/{self.made['bots'][0]}",
            "health": "/api/health",
            "the page of a token": f"/tokens/{self.made['mint']}",
            "the page of the leaderboard": "/leaderboard",
            "its page for 7 days": "/leaderboard?window=7d",
        }

    def _make_keys(self):
        now, bot = (
            time.time_ns() // 1_000_000,
            models.Bot.get(models.Bot.uid == self.made["bots"][0]),
        )
        models.Key.update(revoked_at=now).where(models.Key.revoked_at.is_null()).execute()
        self.read, self.publish = (
            api_keys.create_key(bot.owner, "read", now).text,
            api_keys.create_key(bot.owner, "publish", now, bot=bot).text,
        )

    def refresh(self):
        """Recompute expired windows, as the observer does in each pass."""
        database = storage.connect(self.settings)
        with database.connection_context():
            refresh_standings(time.time_ns() // 1_000_000)
        database.close_all()

    def request(self, path):
        return write_request("GET", path, [("Authorization", f"Bearer {self.read}")])


def copy_folder(source, target):
    """Copy a folder with its database in another process. A process that closes a file loses all
    its locks on it (fcntl(2)), and a Meddler's connection would think it was the last one.
    """
    subprocess.run(["cp", "-r", source, target], check=True)


class Meddler:
    """Commits from outside, so that caches are always stale. It doesn't wait for the disk."""

    def __init__(self, file):
        self.connection = apsw.Connection(str(file))
        self.connection.set_busy_timeout(5000)
        self.connection.execute("PRAGMA synchronous = OFF").fetchall()

    def before(self, request):
        """Yield the same request forever, with a commit before each."""
        while True:
            self.connection.execute(MEDDLING)
            yield request


def attach_wallets(folder):
    settings = config.load({"DATA_DIR": str(folder), "REGISTRATION": "open"}, dotenv=None)
    database = storage.connect(settings)
    with database.connection_context():
        # The node doesn't know the seeded wallets.
        models.Attachment.update(detached_at=time.time_ns() // 1_000_000).execute()
        for address in servers.list_history_wallets():
            influencers.create_bot(
                settings, f"Of the history {address[:4]}", time.time_ns() // 1_000_000, address
            )
    database.close_all()


def clock(work):
    """Return (result of `work`, seconds, processor seconds)."""
    began, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, time.perf_counter() - began, time.process_time() - cpu
