"""A thousand wallets that sleep, on one observer: is each looked at within its interval?

    python -m bench idle [--wallets 1000] [--minutes 10] [--endpoints 1] [--interval 15]

Time passes on a fake clock: a request takes 0.12 s of it, the computing as long as it takes here.
The history is fetched at once; then nothing happens for two hours, after which a wallet is due
every 1.5 intervals, and that is measured. Default pace, two requests a second and method for each
endpoint. Fails where a wallet waits for longer than two rounds of that.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import config
import models
import storage

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
REQUEST_SECONDS, QUIET_SECONDS, DUE_INTERVALS = 0.12, 2 * 3600, 1.5


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench idle")
    parser.add_argument("--wallets", type=int, default=1000)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--endpoints", type=int, default=1)
    parser.add_argument("--interval", type=float, default=15.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load(
            {"DATA_DIR": folder, "OBSERVER_INTERVAL_SECONDS": str(given.interval)}, dotenv=None
        )
        database = storage.connect(settings)
        storage.migrate(database)
        with database.connection_context():
            return measure(settings, given)


def measure(settings, given):
    from lookout import Lookout
    from node import FakeClock, FakeNode, connect
    from story import BEGIN_TIME, Story, address

    from observer import Observer

    class SlowNode(FakeNode):
        """Each request takes its time, once the history is fetched."""

        seconds = 0.0

        def answer(self, method, params):
            clock.sleep(self.seconds)
            return super().answer(method, params)

    clock = FakeClock()
    story = Story(slots_apart=1)
    people = [f"bot {n}" for n in range(given.wallets)]
    for person in people:
        story.fund(person, 10**10)
        for mint in ("CAT", "DOG", "FOX", "OWL"):
            story.buy(person, mint, 1_000, 1_000_000)
    start, chain = clock(), story.chain()
    node = SlowNode(chain)
    seen = Lookout.begin(settings, node, wallets=[address(person) for person in people])

    def watch(endpoints):
        pace = settings.rpc_requests_per_second * endpoints
        line = connect(node, clock=clock, requests_per_second=pace)
        seen.observer = Observer(settings, line, clock=clock)

    def now():
        return BEGIN_TIME * 1000 + len(chain.rows) * 1000 + int(1000 * (clock() - start))

    def run_pass():
        """Seconds of computing of one pass."""
        begun, before = time.process_time(), clock()
        seen.observer.run_tick(now())
        spent = time.process_time() - begun
        clock.sleep(spent)
        clock.sleep(max(0.0, settings.observer_interval_seconds - (clock() - before)))
        return spent

    watch(endpoints=10_000)
    while any(seen.coverage(one)["state"] != "complete" for one in seen.addresses[-3:]):
        run_pass()
    clock.sleep(QUIET_SECONDS)
    node.seconds = REQUEST_SECONDS
    watch(given.endpoints)
    for _ in range(4):
        run_pass()
    begun, calls, ages, spent = clock(), node.calls.copy(), [], []
    while clock() - begun < given.minutes * 60:
        spent.append(run_pass())
        ages.append(now() / 1000 - min(w.polled_at for w in models.Wallet.select()) / 1000)
    minutes = (clock() - begun) / 60
    print(
        f"{given.wallets} sleeping wallets of 5 addresses, {given.endpoints} endpoint(s), interval"
        f" {settings.observer_interval_seconds:g} s: {len(ages)} passes in {minutes:.0f} minutes"
    )
    print(
        "requests a minute:",
        ", ".join(
            f"{method} {(count - calls[method]) / minutes:.1f}"
            for method, count in sorted(node.calls.items())
        ),
    )
    print(
        f"the wallet looked at longest ago: {statistics.median(ages):.0f} s (median),"
        f" {max(ages):.0f} s (worst), due every"
        f" {DUE_INTERVALS * settings.observer_interval_seconds:g} s; computing"
        f" {statistics.mean(spent):.1f} s a pass"
    )
    return int(max(ages) > 2 * 2 * settings.observer_interval_seconds)
