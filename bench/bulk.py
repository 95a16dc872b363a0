"""A wallet with very many receipts: what observing it, one more arrival and a refold cost in time,
memory and locked database.

    python -m bench bulk [--receipts 5000,10000,20000,50000]

For each size a made-up history is observed from nothing over a fake node (no pace, no network):
twice as many should take twice as long.
"""

import argparse
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import config
import models
import storage
from chain.stored.tables import TradeMint

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench bulk")
    parser.add_argument("--receipts", default="5000,10000,20000")
    parser.add_argument(
        "--trace", action="store_true", help="tell Python's own peak memory of the refold (slower)"
    )
    given = parser.parse_args(arguments)
    for count in map(int, given.receipts.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            settings = config.load({"DATA_DIR": folder}, dotenv=None)
            storage.migrate(storage.connect(settings))
            with storage.database.connection_context():
                measure(settings, count, given.trace)
            storage.database.close_all()
    return 0


def make_story(count):
    from story import Story

    story = Story()
    story.fund("ada", 10**12)
    mints = [f"M{n}" for n in range(40)]
    for n in range(count - 1):
        mint = mints[n // 2 % len(mints)]
        (
            story.buy("ada", mint, 1_000, 500_000)
            if n % 2 == 0
            else story.sell("ada", mint, 900, 600_000)
        )
    return story.chain()


def measure(settings, count, trace):
    from lookout import Lookout
    from node import FakeNode
    from story import address

    from chain.stored.columns import store
    from observer import observe_once

    chain = make_story(count)
    node = FakeNode(chain, tip=chain.rows[-2].slot)
    seen, statements = Lookout.begin(settings, node, wallets=[address("ada")]), count_statements()
    begun, used = time.perf_counter(), time.process_time()
    observe_once(seen.observer, seen.now)
    took, cpu = time.perf_counter() - begun, time.process_time() - used
    print(
        f"{count} receipts: observed in {took:.1f} s ({cpu:.1f} s of CPU, {1e6 * cpu / count:.0f}"
        f" us each, {statements[0] / count:.1f} statements each), {seen.state()}, peak memory of"
        f" the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB, database"
        f" {settings.database_path.stat().st_size >> 20} MB",
        flush=True,
    )
    statements[0] = 0
    tell("an idle look", seen.look, statements)
    node.tip = None
    tell("a look that finds one more", seen.look, statements)
    wallet = models.Wallet.get()
    if trace:
        tracemalloc.start()
    fresh = store.LedgerStore()
    tell("applying all from the database", lambda: fresh.apply(wallet), statements)
    tell(
        "publishing it, nothing differs", lambda: fresh.publish(wallet, None, seen.now), statements
    )
    if trace:
        print(f"    peak of both {tracemalloc.get_traced_memory()[1] >> 20} MB")
        tracemalloc.stop()
    models.Trade.update(digest="").execute()
    fresh = store.LedgerStore()
    fresh.apply(wallet)
    tell(
        "publishing it, every row differs (the database is locked)",
        lambda: fresh.publish(wallet, None, seen.now),
        statements,
    )
    models.Trade.delete().execute()
    TradeMint.delete().execute()
    fresh = store.LedgerStore()
    fresh.apply(wallet)
    tell(
        "publishing it, no row is there (the database is locked)",
        lambda: fresh.publish(wallet, None, seen.now),
        statements,
    )


def tell(name, work, statements):
    statements[0], begun, used = 0, time.perf_counter(), time.process_time()
    work()
    print(
        f"    {name}: {1000 * (time.perf_counter() - begun):.0f} ms"
        f" ({1000 * (time.process_time() - used):.0f} ms of CPU), {statements[0]} statements",
        flush=True,
    )


def count_statements():
    counter, real = [0], storage.SQLite.execute_sql

    def execute(self, sql, params=None):
        counter[0] += 1
        return real(self, sql, params)

    storage.SQLite.execute_sql = execute
    return counter
