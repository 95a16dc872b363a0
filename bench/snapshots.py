"""Snapshots: how large the database gets, and how long thinning keeps another writer waiting.

    python -m bench snapshots [--tokens 1000] [--days 30] [--interval 60] [--held 300] [--dir PATH]

Every tick of the whole span is written and thinned by the scout's own rule, so that the file has
the gaps that real thinning leaves; in the last hour as many tokens as can be are held, and asked
for every six seconds. Only this filling runs without syncing to disk; it takes some
minutes. The waiting is measured with the settings of the service. Exit 1 where a bound is missed.
"""

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path

import config
import models
import storage
from market import rules, store
from market.providers import ADDRESSES_PER_CALL, Quote
from market.tables import Snapshot, Token
from scout import HELD_SECONDS

MEGABYTES, MILLISECONDS = 300, 50
END = 1_800_000_000_000
HELD_MS = HELD_SECONDS * 1000
INSERT = """INSERT INTO snapshot (source, price_sol, price_usd, liquidity_usd, pool_sol,
    volume24h_usd, market_cap_usd, volume5m_usd, volume1h_usd, venue, pair, token_id, taken_at,
    expires_at, fall_check)
VALUES ('dexscreener', ?, ?, ?, ?, ?, ?, ?, ?, 'pumpswap', 'AddressOfIts', ?, ?, ?, NULL)"""


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench snapshots")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--interval", type=float, default=60, help="seconds between two ticks")
    parser.add_argument("--held", type=int, default=store.MAX_HELD, help="tokens, in the last hour")
    parser.add_argument("--dir", help="where to put the database (a temporary folder)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        settings = config.load({"DATA_DIR": folder}, dotenv=None)
        database = storage.connect(settings)
        storage.migrate(database)
        with database.connection_context():
            began = time.perf_counter()
            interval, held = int(given.interval * 1000), min(given.held, given.tokens)
            fill(given.tokens, given.days, interval, held)
            size = sum(path.stat().st_size for path in Path(folder).glob("app.db*")) / 1e6
            print(
                f"{given.tokens} tokens, {given.days:g} days, every {given.interval:g} s, {held}"
                f" held at the end:"
                f" {Snapshot.select().count():,} snapshots, {size:.0f} MB (filled in"
                f" {time.perf_counter() - began:.0f} s)",
                flush=True,
            )
            worst = measure_waiting(given.tokens)
        database.close_all()
    for name, found, bound in (("MB", size, MEGABYTES), ("ms waited", worst, MILLISECONDS)):
        print(f"{'holds' if found <= bound else 'MISSED'}: {found:.0f} {name}, bound {bound}")
    return int(size > MEGABYTES or worst > MILLISECONDS)


def fill(tokens, days, interval, held):
    """Tokens as if tracked all the time, `days` of their snapshots up to END; `held` of them asked
    for more often in the last hour.
    """
    chance, start = random.Random(1), END - int(days * rules.DAY_MS)
    Token.insert_many(
        [
            {"mint": f"mint{n}", "tracked_at": start - rules.DAY_MS, "quoted_at": END}
            for n in range(tokens)
        ]
    ).execute()
    storage.database.execute_sql("PRAGMA synchronous = OFF")
    prices = [_quote(chance) for _ in range(997)]
    for n, now in enumerate(range(start, END, interval)):
        insert(prices, n, tokens, now, now - interval)
        for at in range(now + HELD_MS, now + interval, HELD_MS):
            if at > END - rules.HOUR_MS:
                insert(prices, n + at, held, at, at - HELD_MS)
    storage.database.execute_sql("PRAGMA synchronous = FULL")
    storage.database.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def insert(prices, n, tokens, now, before):
    """Store a pass of quotes, `before` the last one, and delete what expired."""
    until = rules.keep_until(now, before, 0)
    with storage.database.atomic():
        storage.database.connection().executemany(
            INSERT, ((*prices[(n + one) % 997], one + 1, now, until) for one in range(tokens))
        )
        storage.database.execute_sql("DELETE FROM snapshot WHERE expires_at < ?", (now,))


def _quote(chance):
    """Texts as long as the providers': four to nine digits behind zeros, dollars to the cent."""
    price = f"0.{'0' * chance.randint(0, 7)}{chance.randint(1000, 10**9)}"
    return (
        price,
        f"0.{'0' * chance.randint(0, 5)}{chance.randint(1000, 10**7)}",
        f"{chance.randint(10**3, 10**8) / 100:.2f}",
        f"{chance.randint(10**4, 10**8) / 10**4:.4f}",
        f"{chance.randint(10**3, 10**9) / 100:.2f}",
        f"{chance.randint(10**4, 10**9)}",
        f"{chance.randint(10**2, 10**7) / 100:.2f}",
        f"{chance.randint(10**3, 10**8) / 100:.2f}",
    )


def measure_waiting(tokens):
    """The longest a small write of another thread took, in ms, beside each kind of work."""
    worst = 0
    for label, work in (
        ("nothing else", lambda: time.sleep(2)),
        ("a tick's quotes", lambda: store_tick(tokens)),
        ("one minute's thinning", lambda: store.prune(END + rules.MINUTE_MS)),
        ("an hour's backlog", lambda: store.prune(END + rules.HOUR_MS)),
    ):
        before, began = Snapshot.select().count(), time.perf_counter()
        waits = _write_during(work)
        print(
            f"{label}: {Snapshot.select().count() - before:+,} snapshots in"
            f" {time.perf_counter() - began:.1f} s; {len(waits)} writes beside it, median"
            f" {waits[len(waits) // 2]:.1f} ms, p99 {waits[int(len(waits) * 0.99)]:.1f} ms, longest"
            f" {waits[-1]:.1f} ms",
            flush=True,
        )
        worst = max(worst, waits[-1])
    return worst


def store_tick(tokens):
    """One pass of quotes as the scout stores it, in batches of one call each."""
    for at in range(0, tokens, ADDRESSES_PER_CALL):
        mints = [f"mint{n}" for n in range(at, min(at + ADDRESSES_PER_CALL, tokens))]
        told = (
            "dexscreener",
            "COIN",
            "Coin",
            "0.000003465",
            "0.0003798",
            "52239.46",
            "229.2601",
            "24660.15",
            None,
            None,
        )
        store.store_quotes({mint: Quote(mint, *told) for mint in mints}, mints, END)


def _write_during(work):
    """How long each small write of another thread took, in ms, sorted."""
    waits, done = [], threading.Event()

    def write():
        with storage.database.connection_context():
            while not done.is_set():
                began = time.perf_counter()
                with storage.writing():
                    models.Job.insert(name="bench", state="ok").on_conflict_replace().execute()
                waits.append((time.perf_counter() - began) * 1000)
                time.sleep(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()
    return sorted(waits)
