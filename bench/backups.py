"""Backups under load: a server takes posts from several clients while `app.py backup` runs; every
backup is restored and looked through.

    python -m bench backups [--rounds 20] [--clients 4] [--dir FOLDER]

Each client numbers its posts. A backup is right when `app.py restore` takes it and it holds of each
client the posts 0..n without a hole: all that were acknowledged before it began, none that was sent
after it ended. Exit 1 where one is not.
"""

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import apsw

from bench._ports import find_port

ROOT = Path(__file__).resolve().parent.parent
NO_LIMITS = {
    "ALLOWANCE": "100000000/minute",
    "POSTS_PER_MINUTE": "100000000",
    "IP_LIMIT_PER_MINUTE": "100000000",
    "CREATIONS_PER_MINUTE": "1000",
    "OBSERVER_INTERVAL_SECONDS": "0",
    "SCOUT_INTERVAL_SECONDS": "0",
    "PAPER_INTERVAL_SECONDS": "0",
}


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench backups")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--dir", help="where to put the data (a temporary folder)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        return measure(Path(folder), given.rounds, given.clients)


def measure(folder, rounds, count):
    env = {**os.environ, **NO_LIMITS, "DATA_DIR": str(folder / "data"), "PORT": str(find_port())}
    run("migrate", env)
    clients = [
        Client(
            n,
            json.loads(run("bot", env, "create", "--name", f"Client {n}", "--json"))["publishKey"],
            int(env["PORT"]),
        )
        for n in range(count)
    ]
    server = subprocess.Popen(
        [sys.executable, "app.py", "run"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(int(env["PORT"]))
        quiet = post_for(clients, 5)
        print(f"{count} clients alone: {describe(quiet)}", flush=True)
        with posting(clients):
            right = [check_round(folder, env, clients, n) for n in range(rounds)]
        print(
            "beside the backups:"
            f" {describe([wait for client in clients for wait in client.waits])}",
            flush=True,
        )
    finally:
        server.terminate()
        server.wait(20)
    print(f"{sum(right)} of {rounds} backups restored whole, each with a prefix of the posts")
    return int(not all(right))


def check_round(folder, env, clients, number):
    """One backup beside the posting, restored elsewhere: is it right?"""
    backup, elsewhere = (
        folder / f"backup-{number}.db",
        {**env, "DATA_DIR": str(folder / f"restored-{number}")},
    )
    time.sleep(0.2)
    before, began = [client.acknowledged for client in clients], time.perf_counter()
    run("backup", env, str(backup))
    seconds, after = time.perf_counter() - began, [client.sent for client in clients]
    restored = json.loads(run("restore", elsewhere, str(backup), "--json"))
    found = read_posts(Path(elsewhere["DATA_DIR"]) / "app.db")
    lengths = [len(found.get(client.name, ())) for client in clients]
    right = all(
        found.get(c.name, []) == [f"e-{n}" for n in range(length)] and low <= length <= high
        for c, length, low, high in zip(clients, lengths, before, after, strict=False)
    )
    print(
        f"backup {number + 1}: {restored['posts']} posts, {restored['bytes'] / 1e6:.1f} MB in"
        f" {seconds:.2f} s, {'right' if right else f'WRONG {before} {lengths} {after}'}",
        flush=True,
    )
    return right and restored["posts"] == sum(lengths)


def read_posts(path):
    """{influencer: [event id, ...] in order of arrival}"""
    found = {}
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        for name, event in db.execute(
            "SELECT bot.name, event_id FROM post JOIN bot ON bot.id = post.bot_id ORDER BY post.id"
        ):
            found.setdefault(name, []).append(event)
    return found


class Client:
    """Posts e-0, e-1... one after the other; `sent` and `acknowledged` count them."""

    def __init__(self, number, key, port):
        self.name, self.key, self.port = f"Client {number}", key, port
        self.sent = self.acknowledged = 0
        self.waits = []

    def post_until(self, stopped):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        while not stopped.is_set():
            began, self.sent = time.perf_counter(), self.sent + 1
            connection.request(
                "POST",
                "/api/v1/posts",
                json.dumps(
                    {"eventId": f"e-{self.sent - 1}", "body": f"post {self.sent - 1} " + "x" * 300}
                ),
                headers,
            )
            answer = connection.getresponse()
            answer.read()
            if answer.status != 201:
                raise SystemExit(f"a post was answered {answer.status}")
            self.acknowledged = self.sent
            self.waits.append(time.perf_counter() - began)
        connection.close()


@contextlib.contextmanager
def posting(clients):
    stopped = threading.Event()
    threads = [threading.Thread(target=client.post_until, args=[stopped]) for client in clients]
    for client, thread in zip(clients, threads, strict=False):
        client.waits = []
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def post_for(clients, seconds):
    with posting(clients):
        time.sleep(seconds)
    return [wait for client in clients for wait in client.waits]


def describe(waits):
    waits = sorted(waits)
    return (
        f"{len(waits)} posts, median {waits[len(waits) // 2] * 1000:.1f} ms, p99"
        f" {waits[int(len(waits) * 0.99)] * 1000:.1f} ms, longest {waits[-1] * 1000:.0f} ms"
    )


def run(command, env, *args):
    done = subprocess.run(
        [sys.executable, "app.py", command, *args],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"app.py {command}: {done.stderr or done.stdout}")
    return done.stdout


def wait_for(port, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit("the server did not start")
