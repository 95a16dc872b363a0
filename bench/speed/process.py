"""The process: startup, memory, and an idle minute."""

import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import config
import models
import storage
from accounts import hooks, influencers
from bench import _servers as servers
from bench._clients import ask
from bench._seed import WALLETS, make_address
from bench.speed.ground import THREADS, VENUE, Seeded, attach_wallets
from bench.speed.holdings import seeded_node
from bench.speed.table import CLIENTS, ROUNDS, tell

sys.path.append(str(servers.ROOT / "tests"))

from bellnode import BellNode
from node import ReplayNode

# This address never responds (RFC 5737).
NOWHERE = "https://192.0.2.1/hook"
IMPORT = """
import contextlib, importlib, sys
for name in sys.argv[1].split():
    # Some are parts of others, under a name of their own.
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
"""
IMPORTED = """
import sys, os, json
os.environ["DATA_DIR"] = sys.argv[1]
import app
app.create_app()
import jobs, gunicorn.app.wsgiapp, gunicorn.workers.gthread
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(json.dumps([name for name, file in files.items() if "site-packages" in file]))
"""
# From the first poll until all wallets are synced.
SETTLE_SECONDS, IDLE_SECONDS = 100, 60


# ---- the start -----------------------------------------------------------------------------------
def measure_start(given):
    """Measure the time from exec to the first response, compared to a bare Flask under the same
    server, and to only importing the same libraries.
    """
    seeded = Seeded(given.data, given.large)
    libraries, took = list_libraries(seeded), []
    for _ in range(ROUNDS):
        with servers.bare("flask_ok", "/ok", THREADS) as bare:
            pass
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", IMPORT, " ".join(libraries)], check=True)
        importing = time.perf_counter() - began
        with servers.candor(seeded.folder) as ours:
            took.append((ours.seconds, bare.seconds, importing))
    ours, bare, importing = (statistics.median(values) for values in zip(*took, strict=True))
    shown = f"{ours:.2f} s / {importing:.2f} s"
    missed = tell(
        "start to first response / importing its libraries", shown, ours / importing, most=1.5
    )
    tell("start to first response / a bare Flask's", f"{ours:.2f} s / {bare:.2f} s", ours / bare)
    return missed


def list_libraries(seeded):
    """List the third-party modules that a server imports."""
    asked = [sys.executable, "-c", IMPORTED, str(seeded.folder)]
    done = subprocess.run(asked, cwd=servers.ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)


# ---- memory --------------------------------------------------------------------------------------
def measure_memory(given):
    """Measure memory while requesting all lists and pages in bursts, with 50 wallets observed,
    subscribed to and sent to a hook: more than an hour's requests in a few minutes.
    """
    seeded = Seeded(given.data, given.large)
    # No added programs: seeded wallets would be reread from missing transactions.
    add_hook(seeded.settings)
    paths = itertools.cycle([*seeded.paths.values(), *seeded.pages.values()])
    seconds, asked = 20 * given.seconds, 0
    with (
        seeded_node(seeded.settings) as url,
        observing(seeded.folder, url, PAPER_INTERVAL_SECONDS="3") as ours,
    ):
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            requests = (seeded.request(next(paths)) for _ in itertools.count())
            asked += len(ask(ours.port, lambda: requests, CLIENTS, given.seconds).took)
        memory = [size / 2**20 for _, size in ours.read_memory()]
    return tell(
        f"memory after {asked:,} lists and pages in {seconds:.0f} s, {given.large:,} trades,"
        " observing 50 wallets with bell, log and outbox, MB",
        " + ".join(f"{size:.0f}" for size in memory),
        max(memory),
        most=140,
    )


def add_hook(settings):
    database = storage.connect(settings)
    with database.connection_context():
        owner = models.Bot.select().order_by(models.Bot.id).first().owner
        hooks.add_hook(settings, owner, NOWHERE, time.time_ns() // 1_000_000)
    database.close_all()


@contextlib.contextmanager
def observing(folder, url, **settings):
    """Run a server that observes an instance's wallets through the node at `url`, with
    subscriptions.
    """
    with (
        BellNode() as bell,
        servers.candor(
            folder,
            OBSERVER_INTERVAL_SECONDS="15",
            # So that all wallets sync soon. An idle minute has equally few requests at any rate.
            RPC_REQUESTS_PER_SECOND="2000",
            SOLANA_RPC_URLS=url,
            SOLANA_WS_URLS=bell.url,
            **settings,
        ) as ours,
    ):
        yield ours


# ---- idleness ------------------------------------------------------------------------------------
def measure_idle(given):
    """Measure an idle minute with 50 synced wallets: those of the recorded history, and others
    without any activity.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "data"
        settings = config.load({"DATA_DIR": str(folder), "REGISTRATION": "open"}, dotenv=None)
        database = storage.connect(settings)
        storage.migrate(database)
        attach_wallets(folder)
        attach_sleeping(settings)
        add_hook(settings)
        with (
            ReplayNode() as node,
            observing(folder, node.url, EXTRA_SWAP_PROGRAMS=VENUE) as ours,
        ):
            time.sleep(SETTLE_SECONDS)
            before = ours.read_cpu()
            time.sleep(IDLE_SECONDS)
            spent = 1000 * (ours.read_cpu() - before)
    return tell(
        "an idle minute with jobs and 50 wallets, ms of CPU", f"{spent:.0f}", spent, most=400
    )


def attach_sleeping(settings):
    """Add bots with wallets that never had activity, up to 50."""
    database, now = storage.connect(settings), time.time_ns() // 1_000_000
    with database.connection_context():
        for number in range(WALLETS - models.Wallet.select().count()):
            address = make_address(f"sleeping {number}")
            influencers.create_bot(settings, f"Sleeping {number}", now, address)
    database.close_all()
