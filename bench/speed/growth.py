"""Lists and pages of small and large instances, and a rebuild."""

import itertools
import statistics
import time

import models
import storage
from bench import _servers as servers
from bench._clients import ask
from bench.seed import WALLETS
from bench.speed.ground import SMALL, Meddler, Seeded, clock
from bench.speed.table import ROUNDS, tell
from chain.stored.store import LedgerStore
from chain.stored.trades import mark_differing_trades

# Trades behind the leaderboard, of WALLETS bots and of CROWD.
BOARD, CROWD = 100_000, 5_000
BOARDS = (
    *("the best 20", "the best 20 of 7 days"),
    *("the page of the leaderboard", "its page for 7 days"),
)

# Pages, and what the API answers of the same.
PAGES = {
    "the page of the feed": "feed",
    "the page of a bot": "a bot",
    "the page of a token": "activity",
    "the page of the leaderboard": "leaderboard",
}


def measure_growth(given):
    """Every list and page with nothing kept, one after another, in a small and a large instance in
    turns.
    """
    small, large = Seeded(given.data, SMALL), Seeded(given.data, given.large)
    what = f"{given.large:,} against {SMALL:,}, p50"
    missed = compare_sizes(given, small, large, [*small.paths, *small.pages], what, 1.3)
    missed += compare_pages(given, large)
    measure_rebuild(large)
    for seeded, count in ((small, SMALL), (large, given.large)):
        tell(
            f"bytes a trade with its sighting and a post, {count:,} each",
            f"{seeded.file.stat().st_size / count:,.0f}",
        )
        tell(
            "filled",
            f"{seeded.made['seconds']:.1f} s, {2 * count / seeded.made['seconds']:,.0f} rows/s",
        )
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


def compare_pages(given, seeded):
    """What was missed of pages beside the API: each is sent at once, so its first byte is there
    when it is.
    """
    missed = []
    with servers.candor(seeded.folder) as server:
        for (page, listing), is_warm in itertools.product(PAGES.items(), (True, False)):
            rounds = [
                [measure_path(given, seeded, server, name, is_warm) for name in (page, listing)]
                for _ in range(ROUNDS)
            ]
            ratio = statistics.median(one / other for one, other in rounds)
            shown = " / ".join(
                f"{statistics.median(one):.2f} ms" for one in zip(*rounds, strict=True)
            )
            state = "warm" if is_warm else "nothing kept"
            what = f"first byte of {page} / of {listing} by the API, {state}, p50"
            missed += tell(what, shown, ratio, most=1.3)
    return missed


def measure_path(given, seeded, server, name, is_warm=False):
    """Median ms of an answer; unless `is_warm`, with somebody else's commit before each."""
    seeded.refresh()
    request = seeded.request({**seeded.paths, **seeded.pages}[name])
    requests = itertools.repeat(request) if is_warm else Meddler(seeded.file).before(request)
    heard = ask(server.port, lambda: requests, 1, given.seconds / 3)
    assert not heard.wrong, name
    return heard.percentile(50)


def measure_board(given):
    """The leaderboard, of the record and of everything, with ever more bots."""
    few, many = Seeded(given.data, BOARD), Seeded(given.data, BOARD, CROWD)
    what = f"{CROWD:,} bots against {WALLETS}, p50"
    missed = compare_sizes(given, few, many, BOARDS, what, 3)
    return missed + compare_sizes(given, few, many, ["the best 20 of everything"], what, None)


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
