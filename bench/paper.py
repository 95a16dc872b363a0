"""How long a tick of paper mode takes, and what readers feel of it: `python -m bench paper
[--traders 200] [--tokens 1000] [--ticks 40]`.

Every trader has settings of its own, so that nothing is looked at once for all; prices wander so
that positions open and close. A thread of the same process, as the job is one of the server's,
reads what readers of paper mode read meanwhile, and again with nothing going on. Exit 1 where a
tick took two seconds, or one answer in a hundred more than 100 ms.
"""

import argparse
import itertools
import random
import statistics
import tempfile
import threading
import time

import orjson

import config
import papertrade
import storage
from market import tables as market_tables
from paper import tables as paper_tables
from paper.strategies import FAMILIES

MINUTE = 60_000
MAX_TICK_SECONDS, MAX_ANSWER_SECONDS = 2.0, 0.1
# Ticks before a strategy has seen enough to enter.
WARMING = 14
READ = ("/api/traders", "/api/strategies", "/api/market", "/api/feed", "/api/health")
CHECKS = orjson.dumps(
    [
        {
            "key": f"check_{number}",
            "label": "",
            "status": "pass",
            "detail": "x" * 60,
            "checkedAt": 0,
        }
        for number in range(11)
    ]
).decode()


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m bench paper", description=__doc__.splitlines()[0]
    )
    for name, value in (("--traders", 200), ("--tokens", 1_000), ("--ticks", 40)):
        parser.add_argument(name, type=int, default=value)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"DATA_DIR": folder, "IP_LIMIT_PER_MINUTE": str(10**8)}, dotenv=None)
        reader = Reader(settings)
        storage.migrate()
        with storage.database.connection_context():
            missed = measure(settings, args, reader)
        storage.database.close_all()
    return int(missed)


def measure(settings, args, reader):
    start = time.time_ns() // 1_000_000 - args.ticks * MINUTE
    market, job, seconds, work = prepare(args, start), papertrade.PaperJob(settings), [], []
    reader.warm()
    for number in range(args.ticks):
        store_snapshots(market, start + number * MINUTE, number)
        began, worked = time.perf_counter(), time.thread_time()
        with reader:
            job.run_tick(start + number * MINUTE + 10_000)
        seconds.append(time.perf_counter() - began)
        work.append(time.thread_time() - worked)
    busy = reader.take()
    with reader:
        time.sleep(3)
    warm, worked = seconds[WARMING:] or seconds, work[WARMING:] or work
    print(
        f"{args.traders} traders x {args.tokens} tokens: a tick takes {statistics.median(warm):.2f}"
        f" s, {max(warm):.2f} s at most (of processor {statistics.median(worked):.2f} s,"
        f" {max(worked):.2f} s at most); {paper_tables.PaperFill.select().count()} fills,"
        f" {paper_tables.DiaryEntry.select().count()} lines"
    )
    print(
        f"{len(READ)} addresses of the API, median and 99 %: {tell(busy)} during ticks,"
        f" {tell(reader.take())} without"
    )
    return judge(max(warm), find_p99(busy))


def judge(tick, answer):
    """Print whether both bounds hold; return whether one is missed."""
    for name, took, bound in (
        ("the longest tick", tick, MAX_TICK_SECONDS),
        ("answers, 99 %", answer, MAX_ANSWER_SECONDS),
    ):
        verdict = "holds" if took < bound else "MISSED"
        print(f"{verdict}: {name} {took:.3f} s, bound {bound:g} s")
    return tick >= MAX_TICK_SECONDS or answer >= MAX_ANSWER_SECONDS


def prepare(args, now):
    """{token row: price}; traders with a setting of their own each."""
    from accounts import traders

    owner = None
    for number in range(args.traders):
        owner = traders.create_trader(
            f"Trader {number}",
            list(FAMILIES)[number % 4],
            now,
            owner=owner,
            settings={"sizeBps": 500 + number},
        ).owner
    rows = [
        {
            "mint": f"mint{number:040}",
            "symbol": f"T{number}",
            "decimals": 6,
            "discovered_at": 0,
            "tracked_at": 0,
            "checks": CHECKS,
        }
        for number in range(args.tokens)
    ]
    for at in range(0, len(rows), 500):
        market_tables.Token.insert_many(rows[at : at + 500]).execute()
    chance = random.Random(1)
    return {token.id: chance.uniform(1e-6, 1e-4) for token in market_tables.Token.select()}


def store_snapshots(market, at, number):
    """A pass of the scout: thirty tokens a moment."""
    chance, rows = random.Random(number), []
    for place, token in enumerate(market):
        market[token] *= chance.uniform(0.97, 1.034)
        rows.append(
            {
                "token": token,
                "taken_at": at + place // 30 * 200,
                "expires_at": at + 10**9,
                "source": "dexscreener",
                "price_sol": f"{market[token]:.15f}",
                "pool_sol": "666.6667",
                "liquidity_usd": "200000.12",
                "volume24h_usd": str(20_000 + number * 300),
                "volume5m_usd": str(100 + number * 3),
                "volume1h_usd": str(1_000 + number * 30),
                "venue": "raydium",
                "pair": "itsPairsAddr",
                "price_usd": f"{market[token] * 150:.12f}",
                "market_cap_usd": "1000000",
            }
        )
    with storage.writing():
        for at in range(0, len(rows), 500):
            market_tables.Snapshot.insert_many(rows[at : at + 500]).execute()


class Reader:
    """Reads one address after the other, again and again, while it is entered."""

    def __init__(self, settings):
        from app import create_app

        self.client, self.seconds, self.stop = (
            create_app(settings).test_client(),
            [],
            threading.Event(),
        )

    def __enter__(self):
        self.stop.clear()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def _read(self):
        for path in itertools.cycle(READ):
            if self.stop.wait(0.02):
                return
            began = time.perf_counter()
            answer = self.client.get(path)
            self.seconds.append((time.perf_counter() - began, path))
            if answer.status_code != 200:
                raise RuntimeError(f"{path}: HTTP {answer.status_code}")

    def warm(self):
        """Read each address once, so that nothing is read from disk while ticks are timed. In a
        thread: a request closes the connection of the one it runs in.
        """
        threads = [threading.Thread(target=self.client.get, args=(path,)) for path in READ]
        for thread in threads:
            thread.start()
            thread.join()

    def take(self):
        taken, self.seconds = sorted(self.seconds), []
        return taken


def find_p99(answers):
    """The time of the hundredth slowest part, of (seconds, address), sorted."""
    return answers[len(answers) * 99 // 100][0] if answers else 0.0


def tell(answers):
    if not answers:
        return "nothing read"
    middle, slowest = answers[len(answers) // 2], answers[-1]
    return (
        f"{1000 * middle[0]:.0f} and {1000 * find_p99(answers):.0f} ms of {len(answers)} answers"
        f" (slowest {slowest[1]}, {1000 * slowest[0]:.0f} ms)"
    )
