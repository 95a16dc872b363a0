"""How fast it is beside what the machine can do and what a user would pick instead: a table of
ratios, measured side by side in one run.

    python -m bench speed [--rivals FOLDER] [--large 1000000] [--data FOLDER] [--seconds 3] [--only
    reads,engines,beside,posts,observing,growth,board,process]

FOLDER of --rivals is a virtual environment with bench/requirements.txt; without it the rows about
FastAPI and Datasette are left out. --data keeps the seeded databases for the next run. What is
compared is measured in turns, thrice, and the middle ratio is shown; every check of ours (host,
key, allowance, log) is on.
"""

import argparse
import itertools
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus, urlsplit, urlunsplit

import apsw
import orjson
import requests

import config
import models
import storage
from accounts import api_keys, influencers
from bench import rivals as rival
from bench import servers
from bench.clients import ask, write_request
from bench.seed import WALLETS, fill
from chain.store import LedgerStore
from chain.trade_store import mark_differing_trades
from storage import locks

MEDDLING = "UPDATE wallet SET due_at = due_at + 1 WHERE id = (SELECT MIN(id) FROM wallet)"
TOGETHER = "a bare Flask kept on one processor"
ROUNDS, CLIENTS, WRITERS, SMALL = 3, 16, 8, 10_000
# Trades behind the leaderboard, of WALLETS bots and of CROWD.
BOARD, CROWD = 100_000, 5_000
BOARDS = (
    *("the best 20", "the best 20 of 7 days"),
    *("the page of the leaderboard", "its page for 7 days"),
)
# Where the history of ../shared/node trades.
VENUE = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
# As the observer asks for a transaction.
GIVEN = {"encoding": "jsonParsed", "commitment": "finalized", "maxSupportedTransactionVersion": 1}
# As serving.py has it.
THREADS = config.Config().threads + 400


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench speed")
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        given.data = given.data or Path(folder)
        print("| what | measured | ratio | target |\n|---|---|---|---|", flush=True)
        missed = [missed for name in given.only.split(",") for missed in PARTS[name](given)]
    print(f"\nmissed: {', '.join(missed) or 'nothing'}")
    return 0


def tell(what, measured, ratio=None, least=None, most=None):
    """Print a row; [what] where the target is missed, else []."""
    target = (
        f"at least {least}" if least is not None else f"at most {most}" if most is not None else ""
    )
    print(
        f"| {what} | {measured} | {'' if ratio is None else f'{ratio:.2f}'} | {target} |",
        flush=True,
    )
    return (
        [what]
        if ratio is not None
        and ((least is not None and ratio < least) or (most is not None and ratio > most))
        else []
    )


# ---- data ----------------------------------------------------------------------------------------
class Seeded:
    """A folder with so many trades and as many posts, of so many bots, and keys for it."""

    def __init__(self, parent, count, bots=WALLETS):
        name = f"seed-{count}" if bots == WALLETS else f"seed-{count}-{bots}"
        self.folder, began = parent / name, time.perf_counter()
        self.settings = config.load({"DATA_DIR": str(self.folder)}, dotenv=None)
        fresh = not self.folder.exists()
        database = storage.connect(self.settings)
        storage.migrate(database)
        with database.connection_context():
            if fresh:
                made = fill(self.settings, count, count, bots)
                (self.folder / "made.json").write_text(
                    json.dumps({**made, "seconds": time.perf_counter() - began})
                )
            self.made = json.loads((self.folder / "made.json").read_text())
            self._make_keys()
        database.close_all()
        self.file = self.folder / "app.db"
        self.paths = {
            "feed": "/api/v1/feed?limit=100",
            "trades": "/api/v1/trades?limit=100",
            "trades of a token": f"/api/v1/trades?limit=100&mint={self.made['mint']}",
            "activity": f"/api/v1/activity?limit=100&mint={self.made['mint']}",
            "leaderboard": "/api/v1/leaderboard?limit=100",
            "leaderboard, 7 days": "/api/v1/leaderboard?limit=100&window=7d",
            "the best 20": "/api/v1/leaderboard",
            "the best 20 of 7 days": "/api/v1/leaderboard?window=7d",
            "the best 20 of everything": "/api/v1/leaderboard?record=all",
            "bots": "/api/v1/bots?limit=100",
            "a bot": f"/api/v1/bots/{self.made['bots'][0]}",
            "trades of a bot": f"/api/v1/trades?limit=100&botId={self.made['bots'][0]}",
        }
        self.pages = {
            "the page of the feed": "/",
            "the page of a bot": f"/bots/{self.made['bots'][0]}",
            "health": "/api/health",
            "the page of a token": f"/tokens/{self.made['mint']}",
            "the page of the leaderboard": "/leaderboard",
            "its page for 7 days": "/leaderboard?window=7d",
        }

    def _make_keys(self):
        now, bot = (
            time.time_ns() // 1_000_000,
            models.Bot.get(models.Bot.uid == self.made["bots"][0]),
        )
        models.Key.update(revoked_at=now).where(models.Key.revoked_at.is_null()).execute()
        self.read, self.publish = (
            api_keys.create_key(bot.owner, "read", now).text,
            api_keys.create_key(bot.owner, "publish", now, bot=bot).text,
        )

    def request(self, path):
        return write_request("GET", path, [("Authorization", f"Bearer {self.read}")])


class Meddler:
    """Somebody else's commits, so that nothing kept is still right. It waits for no disk."""

    def __init__(self, file):
        self.connection = apsw.Connection(str(file))
        self.connection.set_busy_timeout(5000)
        self.connection.execute("PRAGMA synchronous = OFF").fetchall()

    def before(self, request):
        """The same request for ever, a commit before each."""
        while True:
            self.connection.execute(MEDDLING)
            yield request


def race(measures, seconds):
    """{name: [Heard, ...]} of `measures`, {name: (port, requests of a client)}, in turns."""
    heard = {name: [] for name in measures}
    for _ in range(ROUNDS):
        for name, (port, make) in measures.items():
            heard[name].append(ask(port, make, CLIENTS, seconds))
    wrong = {name: sum(one.wrong for one in rounds) for name, rounds in heard.items()}
    assert not any(wrong.values()), wrong
    return heard


def compare(heard, name, other):
    """The middle ratio of their rates."""
    return statistics.median(
        one.rate / two.rate for one, two in zip(heard[name], heard[other], strict=False)
    )


def show(rounds):
    rate, p50, p99 = (
        statistics.median(values)
        for values in zip(
            *((one.rate, one.percentile(50), one.percentile(99)) for one in rounds), strict=False
        )
    )
    return f"{rate:,.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


# ---- reads ---------------------------------------------------------------------------------------
def measure_reads(given):
    seeded = Seeded(given.data, SMALL)
    with (
        servers.bare("flask_ok", "/ok", THREADS) as bare,
        servers.bare("flask_ok", "/ok", THREADS, TOGETHER="1") as together,
        servers.candor(seeded.folder) as ours,
    ):
        meddler, asked = Meddler(seeded.file), lambda: itertools.repeat(write_request("GET", "/ok"))
        measures = {'a bare Flask, "ok"': (bare.port, asked), TOGETHER: (together.port, asked)}
        for name, path in seeded.paths.items():
            measures[f"{name}, warm"] = (
                ours.port,
                lambda path=path: itertools.repeat(seeded.request(path)),
            )
            measures[f"{name}, each read just invalidated"] = (
                ours.port,
                lambda path=path: meddler.before(seeded.request(path)),
            )
        heard = race(measures, given.seconds)
    (basis, rounds), *others = heard.items()
    missed = tell(basis, show(rounds))
    for name, rounds in others:
        least = {"feed, warm": 0.5, "feed, each read just invalidated": 0.3}.get(name)
        missed += tell(f"{name} / bare Flask", show(rounds), compare(heard, name, basis), least)
        if least:
            tell(f"{name} / {TOGETHER}", "", compare(heard, name, TOGETHER))
    return missed + (measure_rivals(given, seeded) if given.rivals else [])


def measure_rivals(given, seeded):
    sql = quote_plus(" ".join(rival.FEED.split()))
    with (
        servers.candor(seeded.folder) as ours,
        servers.fastapi(given.rivals, seeded.file) as fastapi,
        servers.datasette(given.rivals, seeded.file) as datasette,
    ):
        heard = race(
            {
                "feed, warm": (
                    ours.port,
                    lambda: itertools.repeat(seeded.request(seeded.paths["feed"])),
                ),
                "FastAPI": (fastapi.port, lambda: itertools.repeat(write_request("GET", "/feed"))),
                "Datasette": (
                    datasette.port,
                    lambda: itertools.repeat(
                        write_request("GET", f"/app.json?sql={sql}&_shape=array")
                    ),
                ),
            },
            given.seconds,
        )
    tell("FastAPI + uvicorn, async, sqlite3, orjson, no checks", show(heard["FastAPI"]))
    tell("Datasette", show(heard["Datasette"]))
    return tell(
        "feed, warm / FastAPI",
        show(heard["feed, warm"]),
        compare(heard, "feed, warm", "FastAPI"),
        1.0,
    ) + tell("feed, warm / Datasette", "", compare(heard, "feed, warm", "Datasette"), 4)


# ---- the same reads on PostgreSQL ----------------------------------------------------------------
def measure_engines(given):
    """Needs `tests/with-engines`. The instance is copied as `app.py copy` does it."""
    server = os.environ.get("TEST_DATABASE_URL")
    if not server:
        print("skipped: PostgreSQL; run this under tests/with-engines")
        return []
    import psycopg

    from operate import copy

    seeded = Seeded(given.data, SMALL)
    with psycopg.connect(server, autocommit=True) as asked:
        asked.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
        asked.execute("CREATE DATABASE bench")
    url = urlunsplit(urlsplit(server)._replace(path="/bench"))
    # Seeding came in by the door, too.
    locks.unlock_data_dir()
    copy.move(seeded.settings, url)
    storage.database.close_all()
    with (
        servers.candor(seeded.folder) as file,
        servers.candor(seeded.folder, DATABASE_URL=url) as postgresql,
        psycopg.connect(url, autocommit=True) as other,
    ):
        measures = {}
        for name, path in seeded.paths.items():
            for engine, at in (("file", file), ("postgresql", postgresql)):
                measures[f"{name}, warm", engine] = (
                    at.port,
                    lambda path=path: itertools.repeat(seeded.request(path)),
                )
        meddler, meddle = (
            Meddler(seeded.file),
            lambda request: (other.execute(MEDDLING) and request for _ in itertools.count()),
        )
        name, request = "feed, each read just invalidated", seeded.request(seeded.paths["feed"])
        measures[name, "file"] = file.port, lambda: meddler.before(request)
        measures[name, "postgresql"] = postgresql.port, lambda: meddle(request)
        heard = race(measures, given.seconds)
    missed = []
    for name in dict.fromkeys(name for name, _ in heard):
        one, two = heard[name, "file"], heard[name, "postgresql"]
        missed += tell(
            f"{name}, SQLite / PostgreSQL",
            f"{show(two)} on PostgreSQL",
            statistics.median(a.rate / b.rate for a, b in zip(one, two, strict=False)),
            most=2,
        )
    return missed


# ---- reads beside the observer -------------------------------------------------------------------
def measure_beside(given):
    """The same server before and while it takes in a history, all of which is there at once."""
    seeded = Seeded(given.data, SMALL)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "data"
        shutil.copytree(seeded.folder, copy)
        with servers.replay_node(folder, "--tip-start", "1") as url:
            if url is None:
                return []
            attach_wallets(copy)
            with servers.candor(
                copy,
                SOLANA_RPC_URLS=url,
                RPC_REQUESTS_PER_SECOND="2000",
                EXTRA_SWAP_PROGRAMS=VENUE,
                OBSERVER_INTERVAL_SECONDS="0.2",
            ) as ours:
                make, ports = (
                    (lambda: itertools.repeat(seeded.request(seeded.paths["feed"]))),
                    ours.port,
                )
                quiet = [ask(ports, make, CLIENTS, given.seconds) for _ in range(ROUNDS)]
                before = count_receipts(copy)
                requests.post(url + "/control", json={"tip": None}, timeout=5)
                busy = [ask(ports, make, CLIENTS, given.seconds) for _ in range(ROUNDS)]
                taken = count_receipts(copy) - before
    took = given.seconds * ROUNDS
    tell("feed, warm, nothing else going on", show(quiet))
    return tell(
        "feed beside the observer / alone, p99",
        f"{show(busy)}; {taken / took:.0f} receipts/s taken in meanwhile",
        statistics.median(one.percentile(99) for one in busy)
        / statistics.median(one.percentile(99) for one in quiet),
        most=2,
    )


def attach_wallets(folder):
    settings = config.load({"DATA_DIR": str(folder), "REGISTRATION": "open"}, dotenv=None)
    database = storage.connect(settings)
    with database.connection_context():
        # The node knows nothing of the seeded ones.
        models.Attachment.update(detached_at=time.time_ns() // 1_000_000).execute()
        for address in servers.list_history_wallets():
            influencers.create_bot(
                settings, f"Of the history {address[:4]}", time.time_ns() // 1_000_000, address
            )
    database.close_all()


def count_receipts(folder):
    with sqlite3.connect(folder / "app.db") as database:
        return database.execute("SELECT COUNT(*) FROM receipt").fetchone()[0]


# ---- posts ---------------------------------------------------------------------------------------
def measure_posts(given):
    """Durable posts over HTTP beside raw inserts of the same rows over HTTP: sqlite3, FULL, a
    transaction each.
    """
    seeded, numbers = Seeded(given.data, SMALL), itertools.count()
    run = f"{time.time_ns()}"

    def post(headers):
        while True:
            body = json.dumps(
                {
                    "eventId": f"{run} {next(numbers)}",
                    "body": "Sold into strength; the receipt is on its way.",
                }
            ).encode()
            yield write_request(
                "POST",
                "/api/v1/posts" if headers else "/posts",
                [("Content-Type", "application/json"), *headers],
                body,
            )

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(seeded.folder, Path(folder) / "raw")
        shutil.copytree(seeded.folder, Path(folder) / "ours")
        with (
            servers.bare("insert_posts", "/ready", THREADS, DATABASE=f"{folder}/raw/app.db") as raw,
            servers.candor(f"{folder}/ours") as ours,
        ):
            heard = {"raw": [], "ours": []}
            for _ in range(ROUNDS):
                heard["raw"].append(ask(raw.port, lambda: post([]), WRITERS, given.seconds, 201))
                heard["ours"].append(
                    ask(
                        ours.port,
                        lambda: post([("Authorization", f"Bearer {seeded.publish}")]),
                        WRITERS,
                        given.seconds,
                        201,
                    )
                )
    assert not sum(one.wrong for one in heard["raw"] + heard["ours"])
    tell("raw inserts over HTTP, 8 clients", show(heard["raw"]))
    return tell(
        "durable posts / raw inserts", show(heard["ours"]), compare(heard, "ours", "raw"), 0.5
    )


# ---- observing -----------------------------------------------------------------------------------
class Observed(NamedTuple):
    """A turn of measure_observing: receipts, seconds and processor seconds of ours and of the plain
    script, seconds of the floor, calls of getTransaction and all calls, bytes of the database.
    """

    count: int
    ours: float
    ours_cpu: float
    plain: float
    plain_cpu: float
    floor: float
    asked: int
    all_calls: int
    size: int


def measure_observing(given):
    """All wallets of the history: observed from nothing, against the same receipts fetched, parsed
    and inserted one by one, and against parsing and inserting alone.
    """
    with tempfile.TemporaryDirectory() as folder, servers.replay_node(folder) as url:
        turns = [observe_history(url, Path(folder) / str(turn)) for turn in range(ROUNDS)]

    def find_middle(read):
        return statistics.median(map(read, turns))

    tell(
        "receipts fetched, parsed, inserted one by one",
        f"{find_middle(lambda one: one.count / one.plain):,.0f}/s",
    )
    tell(
        "receipts parsed and inserted, the floor",
        f"{find_middle(lambda one: one.count / one.floor):,.0f}/s",
        find_middle(lambda one: one.floor / one.ours),
    )
    tell(
        "bytes of the database a receipt, with all that is derived",
        f"{find_middle(lambda one: one.size / one.count):,.0f}",
    )
    tell(
        "calls of getTransaction a receipt; all calls a receipt",
        f"{find_middle(lambda one: one.asked / one.count):.3f};"
        f" {find_middle(lambda one: one.all_calls / one.count):.2f}",
    )
    tell(
        "the same in time of the processor alone",
        f"{find_middle(lambda one: 1000 * one.ours_cpu / one.count):.2f} ms against"
        f" {find_middle(lambda one: 1000 * one.plain_cpu / one.count):.2f} ms a receipt",
        find_middle(lambda one: one.plain_cpu / one.ours_cpu),
    )
    return tell(
        "receipts observed / one by one",
        f"{find_middle(lambda one: one.count / one.ours):,.0f}/s",
        find_middle(lambda one: one.plain / one.ours),
        0.25,
    )


def observe_history(url, folder):
    """One turn: the replay node's wallets observed, then the same transactions by the script."""
    from observer import Observer, observe_once

    settings = config.load(
        {
            "DATA_DIR": str(folder / "data"),
            "SOLANA_RPC_URLS": url,
            "RPC_REQUESTS_PER_SECOND": "10000",
            "EXTRA_SWAP_PROGRAMS": VENUE,
        },
        dotenv=None,
    )
    storage.migrate(storage.connect(settings))
    attach_wallets(settings.data_dir)
    requests.post(url + "/control", json={"reset": True}, timeout=5)
    database = storage.connect(settings)
    with database.connection_context():
        observer, now = Observer(settings), time.time_ns() // 1_000_000
        _, ours, ours_cpu = clock(lambda: observe_once(observer, now))
        found = models.Receipt.select(models.Receipt.signature).order_by(models.Receipt.signature)
        signatures = list(found.scalars())
        size = settings.database_path.stat().st_size
    database.close_all()
    calls = requests.get(url + "/stats", timeout=5).json()["calls"]
    bodies, plain, plain_cpu = clock(lambda: fetch_all(url, signatures, folder / "plain.db"))
    _, floor, _ = clock(lambda: insert_all(bodies, folder / "floor.db"))
    return Observed(
        *(len(signatures), ours, ours_cpu, plain, plain_cpu, floor),
        *(calls["getTransaction"], sum(calls.values()), size),
    )


def clock(work):
    """(what `work` returns, seconds, processor seconds)."""
    began, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, time.perf_counter() - began, time.process_time() - cpu


def fetch_all(url, signatures, file):
    """The answers' bytes, each fetched, parsed and stored by itself: as plain as a script can be,
    with the quickest reader of JSON, over one connection that is kept.
    """
    line, store, bodies = HTTPConnection(urlsplit(url).netloc), open_store(file), []
    for number, signature in enumerate(signatures):
        asked = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "getTransaction",
            "params": [signature, GIVEN],
        }
        line.request("POST", "/", orjson.dumps(asked), {"Content-Type": "application/json"})
        bodies.append(line.getresponse().read())
        insert(store, bodies[-1])
    return bodies


def insert_all(bodies, file):
    store = open_store(file)
    for body in bodies:
        insert(store, body)


def open_store(file):
    store = sqlite3.connect(file, isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute("CREATE TABLE receipt (signature TEXT PRIMARY KEY, slot INTEGER, body BLOB)")
    return store


def insert(store, body):
    receipt = orjson.loads(body)["result"]
    store.execute(
        "INSERT INTO receipt VALUES (?, ?, ?)",
        (receipt["transaction"]["signatures"][0], receipt["slot"], body),
    )


# ---- growth --------------------------------------------------------------------------------------
def measure_growth(given):
    """Every list and page with nothing kept, one after another, in a small and a large instance in
    turns.
    """
    small, large = Seeded(given.data, SMALL), Seeded(given.data, given.large)
    what = f"{given.large:,} against {SMALL:,}, p50"
    missed = compare_sizes(given, small, large, [*small.paths, *small.pages], what, 1.3)
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


def measure_path(given, seeded, server, name):
    """Median ms of an answer, with somebody else's commit before each."""
    path, meddler = {**seeded.paths, **seeded.pages}[name], Meddler(seeded.file)
    heard = ask(server.port, lambda: meddler.before(seeded.request(path)), 1, given.seconds / 3)
    assert not heard.wrong, path
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


# ---- the process ---------------------------------------------------------------------------------
IMPORT = """
import contextlib, importlib, sys
for name in sys.argv[1].split():
    with contextlib.suppress(ImportError):                    # some are parts of others, under a
        name of their own
        importlib.import_module(name)
"""
IMPORTED = """
import sys, os, json
os.environ["DATA_DIR"] = sys.argv[1]
import app
app.create_app()
import jobs, gunicorn.app.wsgiapp, gunicorn.workers.gthread
print(json.dumps([name for name, module in sys.modules.items() if "site-packages" in
    (getattr(module, "__file__", None) or "")]))
"""


def measure_process(given):
    seeded, paths = Seeded(given.data, given.large), None
    loaded = json.loads(
        subprocess.run(
            [sys.executable, "-c", IMPORTED, str(seeded.folder)],
            cwd=servers.ROOT,
            capture_output=True,
            check=True,
        ).stdout
    )
    ratios, shown = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", IMPORT, " ".join(loaded)], check=True)
        importing = time.perf_counter() - began
        with servers.candor(seeded.folder) as ours:
            ratios.append(ours.seconds / importing)
            shown.append((ours.seconds, importing))
    started, importing = (statistics.median(values) for values in zip(*shown, strict=False))
    missed = tell(
        "from exec to the first answer / importing the libraries it imports",
        f"{started:.2f} s, {importing:.2f} s",
        statistics.median(ratios),
        most=1.5,
    )
    with tempfile.TemporaryDirectory() as folder, servers.replay_node(folder) as url:
        with servers.candor(
            seeded.folder,
            OBSERVER_INTERVAL_SECONDS="15",
            **({"SOLANA_RPC_URLS": url} if url else {}),
        ) as ours:
            paths = itertools.cycle([*seeded.paths.values(), *seeded.pages.values()])
            began = time.perf_counter()
            while time.perf_counter() - began < 20 * given.seconds:
                ask(
                    ours.port,
                    lambda: (seeded.request(next(paths)) for _ in itertools.count()),
                    CLIENTS,
                    given.seconds,
                )
            memory = ours.read_memory()
            largest = max(size for _, size in memory) / 2**20
            missed += tell(
                f"memory after {20 * given.seconds:.0f} s of all lists and pages with"
                f" {given.large:,} trades, observing 50 wallets, MB",
                " + ".join(f"{size / 2**20:.0f}" for _, size in memory),
                largest,
                most=120,
            )
    with servers.candor(seeded.folder) as ours:
        before = ours.read_cpu()
        time.sleep(60)
        tell("an idle minute, without jobs", f"{1000 * (ours.read_cpu() - before):.0f} ms of CPU")
    return missed


PARTS = {
    "reads": measure_reads,
    "engines": measure_engines,
    "beside": measure_beside,
    "posts": measure_posts,
    "observing": measure_observing,
    "growth": measure_growth,
    "board": measure_board,
    "process": measure_process,
}
