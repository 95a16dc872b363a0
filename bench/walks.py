"""Which files a signature, a post and a paper tick run through: `python -m bench walks`.

Does everything once as a warm-up, then counts and prints the project's files in which a function
runs (`sys.setprofile`). Exit 1 above a limit.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import config
import papertrade
import storage
from bench._servers import ROOT
from bench.paper import MINUTE, WARMING, prepare, store_snapshots

sys.path.append(str(ROOT / "tests"))
LEFT_OUT = ("bench", "tests", ".venv", "migrations")


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench walks")
    parser.add_argument("--only", choices=WALKS)
    given = parser.parse_args(arguments)
    longer = 0
    for name, (walk, bound) in WALKS.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                files = walk(Path(folder))
            storage.database.close_all()
            print(f"{name}: {len(files)} files, bound {bound}", *files, sep="\n    ", flush=True)
            longer += len(files) > bound
    return int(bool(longer))


def list_files(work):
    """Return the project's files in which a function runs during `work()`."""
    names = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = [Path(name) for name in names if Path(name).is_relative_to(ROOT)]
    paths = sorted(str(path.relative_to(ROOT)) for path in inside)
    return [path for path in paths if not path.startswith(LEFT_OUT)]


def walk_signature(folder):
    """The node lists a wallet's last transaction; the next tick stores its trade and rank."""
    import story
    from lookout import Lookout
    from node import FakeNode
    from service import Service

    chain = story.market()
    last = chain.moving(story.ADA)[-1]
    service, node = Service(folder / "data"), FakeNode(chain, tip=last.slot - 1)
    seen = Lookout.begin(service.config, node, wallets=[story.ADA]).settle()
    before = len(seen.trades())
    node.tip = None
    files = list_files(seen.look)
    if len(seen.trades()) == before:
        raise RuntimeError("no new trade was stored")
    service.close()
    return files


def walk_post(folder):
    """A bot posts, and a reader requests the feed."""
    from service import Service

    service = Service(folder / "data")
    key = service.make_bot("Ada").publish_key.text

    def post(number):
        answer = service.post({"eventId": f"e{number}", "body": "words"}, key)
        feed = service.get("/api/v1/feed", key)
        if answer.status_code != 201 or answer.json["id"] not in feed.text:
            raise RuntimeError("the post is not in the feed")

    post(0)
    files = list_files(lambda: post(1))
    service.close()
    return files


def walk_tick(folder):
    """The paper job ticks for one trader, after warm-up ticks."""
    settings = config.load({"DATA_DIR": str(folder)}, dotenv=None)
    storage.migrate(storage.connect(settings))
    start = time.time_ns() // 1_000_000 - 2 * WARMING * MINUTE
    with storage.database.connection_context():
        market = prepare(argparse.Namespace(traders=4, tokens=30), start)
        job = papertrade.PaperJob(settings)

        def play(number):
            job.run_tick(start + number * MINUTE + 10_000)

        for number in range(2 * WARMING):
            store_snapshots(market, start + number * MINUTE, number)
            if number < 2 * WARMING - 1:
                play(number)
        return list_files(lambda: play(2 * WARMING - 1))


WALKS = {
    "a signature, from node to rank": (walk_signature, 30),
    "a post, from request to feed": (walk_post, 18),
    "a paper tick": (walk_tick, 22),
}
