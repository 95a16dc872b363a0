"""Ordinary use: is health `ok` throughout, and how far behind is the observer, while three wallets
are back-filled, a fourth has 12,000 token accounts and a bot posts once a second?

    python -m bench ordinary [--minutes 5]

One server (`app.py run`, default settings) in a temporary folder, before a node of
tests/replay/replay.py. Prints how often each status was told, the largest `lagSeconds` of health,
and the coverage of each wallet at the end. Exits with 1 where health was not `ok` or a lag reached
two intervals.
"""

import argparse
import collections
import contextlib
import gzip
import hashlib
import http.client
import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import config
import storage
from accounts import influencers
from bench._servers import HISTORY, ROOT, calling, candor
from chain.base58 import b58encode

sys.path.append(str(ROOT / "tests"))
ACCOUNTS, MAX_LAG_SECONDS = 12_000, 30
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
DEFAULTS = {
    "OBSERVER_INTERVAL_SECONDS": "15",
    "SCOUT_INTERVAL_SECONDS": "0",
    "PAPER_INTERVAL_SECONDS": "0",
}


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench ordinary")
    parser.add_argument("--minutes", type=float, default=5)
    given = parser.parse_args(arguments)
    from node import ReplayNode

    hoarder = make_address("hoarder")
    wallets = [*json.loads(gzip.decompress(HISTORY.read_bytes()))["wallets"], hoarder]
    with (
        tempfile.TemporaryDirectory() as folder,
        ReplayNode(folder) as node,
        fronting(node.url, hoarder) as url,
    ):
        key = create_bots(Path(folder) / "data", wallets)
        settings = {**DEFAULTS, "SOLANA_RPC_URLS": url}
        with candor(Path(folder) / "data", **settings) as server:
            statuses, lags, last = use(server.port, key, 60 * given.minutes)
    return report(statuses, lags, last)


def make_address(name):
    """A well-formed address that belongs to nobody."""
    return b58encode(hashlib.sha256(name.encode()).digest())


def create_bots(folder, wallets):
    """A bot for each wallet, each of an owner of its own; the publishing key of the first."""
    folder.mkdir()
    settings = config.load({"DATA_DIR": str(folder)}, dotenv=None)
    database = storage.connect(settings)
    storage.migrate(database)
    with database.connection_context():
        made = [
            influencers.create_bot(settings, f"Bot {n}", time.time_ns() // 1_000_000, wallet)
            for n, wallet in enumerate(wallets)
        ]
    database.close_all()
    return made[0].publish_key.text


# ---- a node before the node: it tells of thousands of empty token accounts of one wallet ---------
@contextlib.contextmanager
def fronting(upstream, hoarder):
    """The URL of a node that answers as `upstream` does, but for the hoarder's token accounts."""
    hoard = [{"pubkey": make_address(f"dust {n}"), "account": {}} for n in range(ACCOUNTS)]

    def answer(body):
        request = urllib.request.Request(upstream, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            told = response.read()
        asked = json.loads(body)
        if asked["method"] == "getTokenAccountsByOwner":
            owner, which, _ = asked["params"]
            if owner == hoarder and which["programId"] == TOKEN:
                told = add_accounts(told, hoard)
        return told

    with calling(answer) as url:
        yield url


def add_accounts(told, hoard):
    answer = json.loads(told)
    answer["result"]["value"] += hoard
    return json.dumps(answer).encode()


# ---- a bot posts, somebody watches ---------------------------------------------------------------
def use(port, key, seconds):
    """(Counter of the statuses told, lags in seconds, the last health), asked once a second."""
    statuses, lags, ends, number = collections.Counter(), [], time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        begun = time.monotonic()
        statuses[f"post {post(port, key, number)}"] += 1
        _, health = ask(port, "GET", "/api/health")
        observer = health["walletObserver"]
        statuses[f"{health['status']}, observer {observer['state']}"] += 1
        lags.append(observer["lagSeconds"])
        number += 1
        time.sleep(max(0.0, begun + 1 - time.monotonic()))
    return statuses, lags, health


def post(port, key, number):
    """The status of one post."""
    body = json.dumps({"eventId": f"ordinary {number}", "body": "still here"})
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return ask(port, "POST", "/api/v1/posts", body, sent)[0]


def ask(port, method, path, body=None, headers=None):
    """(status, JSON)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def report(statuses, lags, last):
    """Print what was seen; the exit code."""
    known = [lag for lag in lags if lag is not None]
    print(dict(statuses))
    print(f"lag: at most {max(known)} s, unknown {len(lags) - len(known)} of {len(lags)} times")
    for row in last["walletObserver"]["byWallet"]:
        print(row)
    print({name: last["walletObserver"][name] for name in ("troubled", "refused", "lastError")})
    well = all(told.startswith(("ok,", "post 201")) for told in statuses)
    return 0 if well and max(known) < MAX_LAG_SECONDS else 1
