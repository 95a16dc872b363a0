"""Fifty wallets on one public endpoint: how many requests, and how long until what happens is seen.

    python -m bench fleet [--wallets 50] [--minutes 30] [--busy 5]

A made-up chain grows while it is watched; `--busy` wallets trade once a minute, the others sleep.
Time passes on a fake clock, a request takes 0.12 s of it, as it does from the public endpoint; the
node counts as that endpoint does (100 requests and 40 of one method in any ten seconds) and says
429. Default settings.
"""

import argparse
import statistics
import sys
import tempfile
from collections import deque
from pathlib import Path

import config
import models
import storage

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
TAKES, WINDOW, OF_ALL, OF_ONE = 0.12, 10.0, 100, 40


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench fleet")
    parser.add_argument("--wallets", type=int, default=50)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--busy", type=int, default=5)
    # Seconds until a transaction is final: 13 before Alpenglow.
    parser.add_argument("--finality", type=int, default=13)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"DATA_DIR": folder}, dotenv=None)
        database = storage.connect(settings)
        storage.migrate(database)
        with database.connection_context():
            return measure(settings, given)


def measure(settings, given):
    from lookout import Lookout
    from node import FakeClock, FakeNode, connect
    from story import BEGIN as FIRST_SLOT
    from story import BEGIN_TIME, Story, address

    from observer import Observer

    class Public(FakeNode):
        """Final is what is as old as finality takes; it takes its time and counts."""

        def __init__(self, chain, clock):
            super().__init__(chain)
            self.clock, self.limited, self.hits, self.most = clock, 0, deque(), [0, 0]

        def answer(self, method, params):
            from chain import rpc

            now = self.clock()
            self.tip = FIRST_SLOT + int(now - start) - given.finality
            while self.hits and self.hits[0][0] <= now - WINDOW:
                self.hits.popleft()
            same = sum(m == method for _, m in self.hits)
            self.clock.sleep(TAKES)
            if len(self.hits) >= OF_ALL or same >= OF_ONE:
                self.limited += 1
                rpc._raise_error({"code": 429}, {})
            self.hits.append((now, method))
            self.most = [max(self.most[0], len(self.hits)), max(self.most[1], same + 1)]
            return super().answer(method, params)

    people = [f"bot {n}" for n in range(given.wallets)]
    # Seconds before anybody trades, and after.
    settle, length = 1_800, given.minutes * 60
    # A slot a second.
    story = Story(slots_apart=1)
    for person in people:
        story.fund(person, 10**10)
        for mint in ("CAT", "DOG", "FOX", "OWL"):
            story.buy(person, mint, 1_000, 1_000_000)
    happened, begun, busy = {}, FIRST_SLOT + settle, max(1, min(given.busy, given.wallets))
    for second in range(length):
        if second % max(1, 60 // max(1, given.busy)) == 0:
            story.slot = begun + second - 1
            happened[
                (
                    story.receive(people[(second // 12) % busy], "CAT", 5)
                    if second % 24
                    else story.buy(people[(second // 12) % busy], "CAT", 5, 5_000)
                )
            ] = story.slot
    clock = FakeClock()
    # Slot FIRST_SLOT + s is made s seconds after this.
    start = clock()
    node = Public(story.chain(), clock)
    seen = Lookout.begin(settings, node, wallets=[address(p) for p in people])
    found, lags, looked, asked, ticks = set(), [], [], None, 0

    def note(_):
        """Something was shown: what of it is new?"""
        rows = models.Trade.select(models.Trade.signature).where(
            models.Trade.signature.in_(list(happened.keys() - found))
        )
        for (signature,) in list(rows.tuples()):
            found.add(signature)
            lags.append(clock() - start - (happened[signature] - FIRST_SLOT))

    line = connect(node, clock=clock, requests_per_second=settings.rpc_requests_per_second)
    seen.observer = Observer(settings, line, clock=clock, report=note)
    while clock() - start < settle + length + 120:
        before = clock()
        seen.observer.run_tick(BEGIN_TIME * 1000 + int(1000 * (clock() - start)))
        if clock() - start > settle:
            asked, ticks = asked or (node.calls.copy(), clock()), ticks + 1
            looked.append(
                max(
                    (BEGIN_TIME * 1000 + 1000 * (clock() - start) - w.polled_at) / 1000
                    for w in models.Wallet.select()
                )
            )
        if clock() - before < settings.observer_interval_seconds:
            clock.sleep(settings.observer_interval_seconds - (clock() - before))
    (calls, since), states = asked, [seen.coverage(a)["state"] for a in seen.addresses]
    minutes = (clock() - since) / 60
    print(
        f"{given.wallets} wallets of 5 addresses, {given.busy} of them trading, {len(happened)}"
        f" transactions in {given.minutes} minutes; interval {settings.observer_interval_seconds:g}"
        f" s, {settings.rpc_requests_per_second:g} requests a second and method"
    )
    print(
        "requests a minute:",
        ", ".join(
            f"{method} {(count - calls[method]) / minutes:.1f}"
            for method, count in sorted(node.calls.items())
        ),
        f"; all {(node.calls.total() - calls.total()) / minutes:.1f}",
    )
    print(
        f"most in ten seconds: {node.most[0]} of {OF_ALL}, of one method {node.most[1]} of"
        f" {OF_ONE}; 429 given: {node.limited}"
    )
    print(
        f"a transaction was shown {statistics.median(lags):.0f} s (median), {max(lags):.0f} s"
        f" (worst) after it happened, {given.finality} s of which it was not final;"
        f" {len(lags)} of {len(happened)} seen"
    )
    print(
        f"the wallet looked at longest ago: {max(looked):.0f} s; one look takes at least"
        f" {ticks and minutes * 60 / ticks:.1f} s; complete: {states.count('complete')} of"
        f" {len(states)}"
    )
    return int(
        node.limited > 0 or len(lags) < len(happened) or states.count("complete") < len(states)
    )
