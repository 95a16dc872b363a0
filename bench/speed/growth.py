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
    """Every list and page with nothing kept, one after another, in a small and a large instance in
    turns.
    """
    small, large = Seeded(given.data, SMALL), Seeded(given.data, given.large)
    what = f"{given.large:,} against {SMALL:,}, p50"
    missed = compare_sizes(given, small, large, [*small.paths, *small.pages], what, 1.3)
    measure_rebuild(large)
    return missed


def compare_sizes(given, small, large, names, what, most):
    """What was missed of these lists and pages, asked for in turns with nothing kept."""
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
    """Median ms of an answer with somebody else's commit before each."""
    seeded.refresh()
    request = seeded.request({**seeded.paths, **seeded.pages}[name])
    requests = Meddler(seeded.file).before(request)
    heard = ask(server.port, lambda: requests, 1, max(1, given.seconds / 3))
    assert not heard.wrong, name
    return heard.percentile(50)


def measure_rebuild(seeded):
    """Of the first wallet, from its stored entries, as `app.py rebuild` does it but for reading the
    receipts' originals, which seeding leaves out.
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
    """(how many trades differ from what their digests say, the Ledger)."""
    ledgers = LedgerStore()
    marked, ledger = mark_differing_trades(wallet.id), ledgers.apply(wallet)
    ledgers.publish(wallet, None, time.time_ns() // 1_000_000)
    return marked, ledger
