"""Lists and pages of small and large instances, and a rebuild."""

import statistics
import time

import models
import storage
from bench import _servers as servers
from bench._clients import ask
from bench.speed.ground import SMALL, Meddler, Seeded, clock
from bench.speed.table import ROUNDS, tell
from chain.stored.store import LedgerStore
from chain.stored.trades import mark_differing_trades


def measure_growth(given):
    """Measure all lists and pages uncached, one after another, alternating between a small and a
    large instance.
    """
    small, large = Seeded(given.data, SMALL), Seeded(given.data, given.large)
    what = f"{given.large:,} against {SMALL:,}, p50"
    missed = compare_sizes(given, small, large, [*small.paths, *small.pages], what, 1.3)
    measure_rebuild(large)
    return missed


def compare_sizes(given, small, large, names, what, most):
    """Return missed targets for these lists and pages, requested alternately and uncached."""
    missed = []
    with servers.candor(small.folder) as one, servers.candor(large.folder) as other:
        for name in names:
            took = {small: [], large: []}
            for _ in range(ROUNDS):
                for seeded, server in ((small, one), (large, other)):
                    took[seeded].append(measure_path(given, seeded, server, name))
            before, after = (statistics.median(rounds) for rounds in took.values())
            measured = f"{before:.2f} ms, {after:.2f} ms"
            missed += tell(f"{name}, {what}", measured, after / before, most=most)
    return missed


def measure_path(given, seeded, server, name):
    """Return the median ms of a response with an outside commit before each."""
    seeded.refresh()
    request = seeded.request({**seeded.paths, **seeded.pages}[name])
    requests = Meddler(seeded.file).before(request)
    heard = ask(server.port, lambda: requests, 1, max(1, given.seconds / 3))
    assert not heard.wrong, name
    return heard.percentile(50)


def measure_rebuild(seeded):
    """Measure the first wallet's rebuild from its stored entries, like `app.py rebuild` but without
    reading original receipts, which seeding omits.
    """
    database = storage.connect(seeded.settings)
    with database.connection_context():
        wallet = models.Wallet.select().order_by(models.Wallet.id).first()
        count = models.Trade.select().where(models.Trade.wallet == wallet).count()
        (marked, _), took, cpu = clock(lambda: derive_again(wallet))
    database.close_all()
    assert not marked
    tell(
        f"rebuild of a wallet with {count:,} trades",
        f"{took:.1f} s, {count / took:,.0f} trades/s; {count / cpu:,.0f} a second of the processor",
    )
    return []


def derive_again(wallet):
    """Return (number of trades that differ from their digests, the Ledger)."""
    ledgers = LedgerStore()
    marked, ledger = mark_differing_trades(wallet.id), ledgers.apply(wallet)
    ledgers.publish(wallet, None, time.time_ns() // 1_000_000)
    return marked, ledger
