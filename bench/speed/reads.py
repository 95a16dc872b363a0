"""Lists, warm and just invalidated, beside a bare Flask, FastAPI and Datasette, and beside the
observer.
"""

import itertools
import sqlite3
import statistics
import tempfile
from pathlib import Path
from urllib.parse import quote_plus

import requests

from bench import _rivals as rival
from bench import _servers as servers
from bench._clients import ask, write_request
from bench.speed.ground import SMALL, THREADS, VENUE, Meddler, Seeded, attach_wallets, copy_folder
from bench.speed.table import CLIENTS, ROUNDS, compare, race, show, tell

TOGETHER = "a bare Flask kept on one processor"


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


def measure_beside(given):
    """The same server before and while it takes in a history, all of which is there at once."""
    seeded = Seeded(given.data, SMALL)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "data"
        copy_folder(seeded.folder, copy)
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


def count_receipts(folder):
    with sqlite3.connect(folder / "app.db") as database:
        return database.execute("SELECT COUNT(*) FROM receipt").fetchone()[0]
