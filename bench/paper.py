"""How long a tick of paper mode takes: `python -m bench paper [--traders 200] [--tokens 1000]
[--ticks 40]`.

Every trader has its own settings, and prices wander so that positions open and close. Exit 1 if a
tick lasts two seconds.
"""

import argparse
import random
import statistics
import tempfile
import time

import orjson

import config
import papertrade
import storage
from market import tables as market_tables
from paper import tables as paper_tables
from paper.strategies import FAMILIES

MINUTE = 60_000
MAX_TICK_SECONDS = 2.0
# Ticks until a strategy has enough data to enter.
WARMING = 14
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
        settings = config.load({"DATA_DIR": folder}, dotenv=None)
        storage.migrate(storage.connect(settings))
        with storage.database.connection_context():
            longest = measure(settings, args)
        storage.database.close_all()
    return int(longest >= MAX_TICK_SECONDS)


def measure(settings, args):
    """Return the longest tick in seconds."""
    start = time.time_ns() // 1_000_000 - args.ticks * MINUTE
    market, job, seconds, work = prepare(args, start), papertrade.PaperJob(settings), [], []
    for number in range(args.ticks):
        store_snapshots(market, start + number * MINUTE, number)
        began, worked = time.perf_counter(), time.thread_time()
        job.run_tick(start + number * MINUTE + 10_000)
        seconds.append(time.perf_counter() - began)
        work.append(time.thread_time() - worked)
    warm, worked = seconds[WARMING:] or seconds, work[WARMING:] or work
    print(
        f"{args.traders} traders x {args.tokens} tokens: a tick takes {statistics.median(warm):.2f}"
        f" s, {max(warm):.2f} s at most (of processor {statistics.median(worked):.2f} s,"
        f" {max(worked):.2f} s at most); {paper_tables.PaperFill.select().count()} fills,"
        f" {paper_tables.DiaryEntry.select().count()} lines"
    )
    return max(warm)


def prepare(args, now):
    """Return {token row: price}. Each trader has its own settings."""
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
    """Store a pass of the scout: thirty tokens at a time."""
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
