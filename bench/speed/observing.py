"""Observe a recorded history, compared to a plain script that fetches, parses and inserts it."""

import sqlite3
import statistics
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson
import requests

import config
import models
import storage
from bench import _servers as servers
from bench.speed.ground import VENUE, attach_wallets, clock
from bench.speed.table import ROUNDS, tell

sys.path.append(str(servers.ROOT / "tests"))

from node import ReplayNode

# The observer's parameters for a transaction request.
GIVEN = {"encoding": "jsonParsed", "commitment": "finalized", "maxSupportedTransactionVersion": 1}


class Observed(NamedTuple):
    """One turn of measure_observing: receipts, seconds and processor seconds for us and for the
    plain script, and bytes of the database and of an empty one.
    """

    count: int
    ours: float
    ours_cpu: float
    plain: float
    plain_cpu: float
    size: int
    empty: int


def measure_observing(given):
    """Observe all wallets of the history from scratch, compared to fetching, parsing and inserting
    the same receipts one by one.
    """
    with tempfile.TemporaryDirectory() as folder, ReplayNode() as node:
        turns = [observe_history(node.url, Path(folder) / str(turn)) for turn in range(ROUNDS)]

    def find_middle(read):
        return statistics.median(map(read, turns))

    tell(
        "receipts fetched, parsed, inserted one by one",
        f"{find_middle(lambda one: one.count / one.plain):,.0f}/s",
    )
    tell(
        "bytes of the database a receipt, with all that is derived; beyond an empty database's",
        f"{find_middle(lambda one: one.size / one.count):,.0f};"
        f" {find_middle(lambda one: (one.size - one.empty) / one.count):,.0f}",
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
    """Run one turn: observe the replay node's wallets, then run the script on the same
    transactions.
    """
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
    empty = measure_size(storage.database, settings)
    attach_wallets(settings.data_dir)
    requests.post(url + "/control", json={}, timeout=5)
    database = storage.connect(settings)
    with database.connection_context():
        observer, now = Observer(settings), time.time_ns() // 1_000_000
        _, ours, ours_cpu = clock(lambda: observe_once(observer, now))
        found = models.Receipt.select(models.Receipt.signature).order_by(models.Receipt.signature)
        signatures = list(found.scalars())
        size = measure_size(database, settings)
    database.close_all()
    _, plain, plain_cpu = clock(lambda: fetch_all(url, signatures, folder / "plain.db"))
    return Observed(len(signatures), ours, ours_cpu, plain, plain_cpu, size, empty)


def measure_size(database, settings):
    """Return the file's bytes, including its WAL."""
    database.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return settings.database_path.stat().st_size


def fetch_all(url, signatures, file):
    """Fetch, parse and store each separately, over one connection."""
    line, store = HTTPConnection(urlsplit(url).netloc), open_store(file)
    for number, signature in enumerate(signatures):
        asked = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "getTransaction",
            "params": [signature, GIVEN],
        }
        line.request("POST", "/", orjson.dumps(asked), {"Content-Type": "application/json"})
        insert(store, line.getresponse().read())


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
