"""Two processes post at once and are killed with -9 at any moment: log and tables agree afterwards,
and no acknowledged post is missing.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import ground
from service import inspect

import storage
from accounts import influencers
from evidence import log
from models import Post
from operate import inspection

NOW = 1_800_000_000_000
ROOT = Path(__file__).resolve().parents[2]
# Publishes and hides endlessly, and prints each post's ID once it is stored.
POSTING = """
import itertools, os, sys
import config, storage
from accounts import conduct, posts
from peewee import OperationalError
storage.connect(config.load(dotenv=None))
with storage.database.connection_context():
    for n in itertools.count():
        body = posts.PostBody(eventId=f"{os.getpid()}-{n}", body="x" * 300)
        try:
            uid = posts.publish(int(sys.argv[1]), body, 1_800_000_000_000, "api").uid
            print(uid, flush=True)
            if n % 7 == 0:
                with storage.erasing():
                    conduct.hide_post(uid, 1_800_000_000_001)
        except OperationalError as error:
            # The other one wrote for too long, on a busy machine; nothing was stored.
            assert storage.is_busy(error)
"""


def start(settings, bot, out):
    environ = {**os.environ, **ground.environ(settings.data_dir), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", POSTING, str(bot)], env=environ, stdout=out)


def test_log_and_tables_agree_after_every_kill(settings, db, tmp_path, full):
    bot, dice, out = influencers.create_bot(settings, "Ada", NOW).bot.id, random.Random(7), []
    for turn in range(4 if full else 2):
        paths = [tmp_path / f"{turn}-{n}" for n in range(2)]
        files = [path.open("w") for path in paths]
        both = [start(settings, bot, file) for file in files]
        # Some 30 posts.
        ground.until(lambda: both[0].poll() is None and paths[0].stat().st_size > 800)
        time.sleep(dice.uniform(0, 0.1))
        for process, file in zip(both, files, strict=True):
            process.kill()
            process.wait()
            file.close()
        # The last line may be incomplete.
        out += [line for path in paths for line in path.read_text().split("\n")[:-1]]
        assert inspect(settings, inspection.check_log) == []
    with storage.database.connection_context():
        kept = {uid for (uid,) in Post.select(Post.uid).tuples()}
        one = log.find_log()
        told = [json.loads(leaf) for leaf in log.read_leaves(one, 0, one.size)]
    assert len(out) > 40 and set(out) <= kept
    assert {leaf["post"] for leaf in told if leaf["kind"] == "post"} == kept
