"""What strangers and locks cost everybody else: each attack from two addresses of this machine,
while readers at other addresses ask for health, the front page and a static file.

    python -m bench crowd [--seconds 20] [--only NAME ...] [--root FOLDER] [--stock]

Starts `app.py run` with default settings on a bot with 20,000 trades. --root takes another
checkout's app.py; --stock serves this one by gunicorn's own gthread worker instead. Prints, for
each attack, how many answers came within a second, p50, p99 and the slowest in ms, and memory.
"""

import argparse
import contextlib
import http.client
import itertools
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench._servers import GUNICORN, serving

ROOT = Path(__file__).resolve().parent.parent
# Attackers, and readers in turns so that each stays within its limit of requests.
CROWD, READERS = ("127.0.0.2", "127.0.0.3"), tuple(f"127.0.0.{n}" for n in range(10, 40))
PATHS = ("/api/health", "/", "/static/candor.css")
JOBS = ("OBSERVER", "SCOUT", "PAPER")
POST = b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LOCK_SECONDS, TRADES = 25, 20_000


@dataclass
class Attack:
    """So many connections that each send `opening`, then a byte of `drip` each second, and read
    only if `reads`.
    """

    count: int
    opening: bytes = b""
    drip: bytes = b""
    reads: bool = False
    # Instead: this file of DATA_DIR is locked while so many bots post.
    locks: str = ""
    bots: int = 0


def list_attacks(bot: str) -> dict[str, Attack]:
    table = f"GET /bots/{bot}/trades.csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return {
        "nobody": Attack(0),
        "silent": Attack(400),
        "3,000 silent": Attack(3_000),
        "slow head": Attack(400, b"GET / HTTP/1.1\r\nHost: local", b"x"),
        "slow body": Attack(400, POST + b"Content-Length: 5000\r\n\r\n{", b"x"),
        "not reading": Attack(400, b"GET /feed.atom HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20),
        "leading zeros": Attack(500, POST + b"Content-Length: 00000000000000050\r\n\r\nx"),
        "huge length": Attack(500, POST + b"Content-Length: 99999999999999999999\r\n\r\nx"),
        "long chunk size": Attack(500, CHUNKED + b"0000000000000032\r\nx"),
        "long chunk line": Attack(500, CHUNKED + b"5;" + b"x" * 2_000),
        "tiny chunks": Attack(400, CHUNKED + b"1\r\nx\r\n" * 10_000, b"1"),
        "tables": Attack(240, table.encode(), reads=True),
        "tables, not read": Attack(240, table.encode()),
        "app.db locked, 12 bots": Attack(0, locks="app.db", bots=12),
        "app.db locked, 20 bots": Attack(0, locks="app.db", bots=20),
        "ratelimit.db locked": Attack(0, locks="ratelimit.db", bots=4),
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench crowd")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--stock", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "data"
        bot, keys = seed(given.root, folder)
        attacks = list_attacks(bot)
        for name in given.only or attacks:
            attack = attacks[name]
            (folder / "ratelimit.db").unlink(missing_ok=True)
            with start(given, folder) as server:
                seconds = LOCK_SECONDS if attack.locks else given.seconds
                met, posted = measure(server, attack, seconds, folder, keys)
            report(name, server, met, posted)


SEED = f"""
import sys, time
import config, models, storage
from accounts import api_keys, influencers
from bench.seed import fill
settings = config.load({{"DATA_DIR": sys.argv[1], "REGISTRATION": "open"}}, dotenv=None)
database = storage.connect(settings)
storage.migrate(database)
with database.connection_context():
    fill(settings, {TRADES}, 60, 1)
    now = time.time_ns() // 1_000_000
    models.Post.update(body="<&" * 2000).execute()
    print(models.Wallet.select().first().attachments.first().bot.uid)
    for number in range(20):
        print(influencers.create_bot(settings, f"Bot number {{number}}", now).publish_key.text)
"""


def seed(root: Path, folder: Path) -> tuple[str, list[str]]:
    """Fill an instance by the program of `root`. Return a bot with many trades, and keys."""
    said = subprocess.run(
        [sys.executable, "-c", SEED, str(folder)], cwd=root, check=True, capture_output=True
    )
    bot, *keys = said.stdout.decode().split()
    return bot, keys


@contextlib.contextmanager
def start(given, folder):
    command = [sys.executable, "app.py", "run"]
    if given.stock:
        gunicorn = ["--bind", "127.0.0.1:PORT", "--worker-class", "gthread", "--threads", "408"]
        command = [sys.executable, "-c", GUNICORN, *gunicorn, "app:create_app()"]
    settings = {f"{job}_INTERVAL_SECONDS": "0" for job in JOBS}
    settings["PYTHONPATH"] = str(given.root)
    with serving(command, "/api/health", given.root, DATA_DIR=str(folder), **settings) as server:
        yield server


def measure(server, attack, seconds, folder, keys):
    """Return the readers' and the posting bots' answers: [(seconds, status or None), ...] each."""
    stop, met, posted = threading.Event(), [], []
    crew = [threading.Thread(target=read_on, args=(server.port, n, stop, met)) for n in range(2)]
    crew += [threading.Thread(target=besiege, args=(server.port, attack, stop))]
    crew += [
        threading.Thread(target=post_on, args=(server.port, n, keys[n], stop, posted))
        for n in range(attack.bots)
    ]
    for path in PATHS:
        ask(server.port, READERS[-1], "GET", path)
    with contextlib.ExitStack() as held:
        if attack.locks:
            locker = held.enter_context(
                contextlib.closing(sqlite3.connect(folder / attack.locks, timeout=30))
            )
            locker.execute("BEGIN EXCLUSIVE")
        for thread in crew:
            thread.start()
        time.sleep(seconds)
    stop.set()
    for thread in crew:
        thread.join()
    server_memory.append(sum(size for _, size in server.read_memory()) // 1_000_000)
    return met, posted


server_memory: list[int] = []


def besiege(port, attack, stop):
    """Keep the attack's connections open, from both addresses, until it is over."""
    held = [None] * attack.count
    while not stop.is_set():
        for n, one in enumerate(held):
            if stop.is_set():
                break
            held[n] = go_on(port, CROWD[n % 2], attack, one)
        stop.wait(1 if attack.count else 60)
    for one in filter(None, held):
        one.close()


def go_on(port, address, attack, one):
    """Open a connection of an attack, or take the next step with it; None once it has ended."""
    try:
        if one is None:
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.bind((address, 0))
            one.settimeout(1)
            one.connect(("127.0.0.1", port))
            one.setblocking(False)
            one.send(attack.opening)
        elif attack.drip:
            one.send(attack.drip)
        if attack.reads or not attack.opening:
            while one.recv(1 << 20):
                pass
            one.close()
            return None
    except BlockingIOError:
        return one
    except OSError:
        one.close()
        return None
    return one


def ask(port, address, method, path, headers=None, body=None):
    began, status = time.perf_counter(), None
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=60, source_address=(address, 0)
        )
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            answer.read()
            status = answer.status
    return time.perf_counter() - began, status


def read_on(port, turn, stop, met):
    """Read until it is over, from one address after another."""
    for number in itertools.count(turn):
        if stop.is_set():
            return
        met.append(ask(port, READERS[number % 30], "GET", PATHS[number % 3]))
        time.sleep(0.03)


def post_on(port, number, key, stop, posted):
    """Post until it is over, a bot at an address of its own."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    for count in itertools.count():
        if stop.is_set():
            return
        body = f'{{"eventId": "{time.time_ns()}-{count}", "body": "hello"}}'
        posted.append(ask(port, f"127.0.1.{number + 1}", "POST", "/api/v1/posts", headers, body))


def report(name, server, met, posted):
    print(f"{name:24} memory {server_memory[-1]:4} MB  {describe(met)}", flush=True)
    if posted:
        print(f"{'':24} posts            {describe(posted)}", flush=True)


def describe(met):
    """How many answers came within a second and how long they took; which statuses."""
    took = sorted(seconds for seconds, status in met)
    counts = {status: sum(one == status for _, one in met) for status in {s for _, s in met}}
    p50, p99 = (took[min(len(took) - 1, len(took) * part // 100)] * 1000 for part in (50, 99))
    quick = sum(seconds <= 1 and status is not None for seconds, status in met)
    return (
        f"{quick:4} of {len(met):4} within 1 s; p50 {p50:7.1f}, p99 {p99:7.1f},"
        f" slowest {took[-1] * 1000:7.1f} ms; {counts}"
    )
