"""What open streams cost everybody else: 16 clients read as fast as they can while a bot posts,
without and with 50 clients at the stream.

    python -m bench streams [--seconds 5] [--rounds 3]

Both are measured in turns against one server (`app.py run`, defaults but for the limits) in a
temporary folder. 32 of the 50 get a stream, the others are refused and come back as they are told
to. Prints the latencies of all reading, in ms, and the ratio of the 99th percentiles.
"""

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import config
import storage
from accounts import influencers, posts
from bench._ports import find_port
from web.api.stream import MAX_STREAMS_EACH

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = {
    "ALLOWANCE": "100000000/minute",
    "POSTS_PER_MINUTE": "1000000",
    "IP_LIMIT_PER_MINUTE": "100000000",
    "FAILED_AUTH_PER_MINUTE": "100000000",
    "OBSERVER_INTERVAL_SECONDS": "0",
    "SCOUT_INTERVAL_SECONDS": "0",
    "PAPER_INTERVAL_SECONDS": "0",
}
PATHS = (
    "/api/v1/feed",
    "/api/v1/bots",
    "/api/v1/trades",
    "/api/v1/leaderboard",
    "/api/v1/feed?limit=100",
)
READERS, STREAMS, SEEDED, POST_SECONDS = 16, 50, 1_000, 0.1


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench streams")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        key, listening = seed(folder), add_owners(folder)
        port, server = start_server(folder)
        try:
            alone, beside, events = measure(port, key, listening, given.rounds, given.seconds)
        finally:
            server.terminate()
            server.wait()
    print(
        f"without streams  {len(alone):6} requests  p50 {percentile(alone, 50):7.2f}  p99"
        f" {percentile(alone, 99):7.2f}"
    )
    print(
        f"with streams     {len(beside):6} requests  p50 {percentile(beside, 50):7.2f}  p99"
        f" {percentile(beside, 99):7.2f}  {events} events delivered"
    )
    print(f"ratio of p99 {percentile(beside, 99) / percentile(alone, 99):.2f}")


def seed(folder):
    """A publishing key in a database with some posts."""
    settings = config.load({"DATA_DIR": folder}, dotenv=None)
    database = storage.connect(settings)
    storage.migrate(database)
    now = time.time_ns() // 1_000_000
    with database.connection_context(), storage.writing():
        bot = influencers.create_bot(settings, "Bench", now)
        for number in range(SEEDED):
            posts.store_post(
                bot=bot.bot,
                source="bot",
                channel="api",
                event_id=f"seed {number}",
                body="What the chain does not say. " * 5,
                event_at=now,
                created_at=now,
            )
    database.close_all()
    return bot.publish_key.text


def add_owners(folder):
    """Publishing keys for all streams: an owner may have only so many."""
    settings = config.load({"DATA_DIR": folder}, dotenv=None)
    database = storage.connect(settings)
    owners = -(-STREAMS // MAX_STREAMS_EACH)
    with database.connection_context():
        now = time.time_ns() // 1_000_000
        bots = [influencers.create_bot(settings, f"Reader {n}", now) for n in range(owners)]
    database.close_all()
    return [bot.publish_key.text for bot in bots for _ in range(MAX_STREAMS_EACH)]


def start_server(folder):
    port = find_port()
    server = subprocess.Popen(
        [sys.executable, "app.py", "run"],
        cwd=ROOT,
        env={**os.environ, **SETTINGS, "PORT": str(port), "DATA_DIR": folder},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while True:
        try:
            http.client.HTTPConnection("127.0.0.1", port).request("GET", "/api/health")
            return port, server
        except OSError:
            time.sleep(0.1)


def measure(port, key, listening, rounds, seconds):
    """(seconds of each request alone, beside streams, events the streams got)"""
    alone, beside, delivered = [], [], multiprocessing.Value("i", 0)
    posted = itertools.count()
    for _ in range(rounds):
        read_beside_writer(port, key, seconds, alone, posted)
        crowd = multiprocessing.Process(target=listen_all, args=(port, listening, delivered))
        crowd.start()
        # Until all that may are connected.
        time.sleep(1)
        read_beside_writer(port, key, seconds, beside, posted)
        crowd.terminate()
        crowd.join()
        time.sleep(1)
    return alone, beside, delivered.value


def read_beside_writer(port, key, seconds, took, posted):
    end = time.monotonic() + seconds
    crew = [
        threading.Thread(target=read, args=(port, key, PATHS[n % len(PATHS)], end, took))
        for n in range(READERS)
    ]
    crew.append(threading.Thread(target=write, args=(port, key, end, posted)))
    [thread.start() for thread in crew], [thread.join() for thread in crew]


def read(port, key, path, end, took):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        took.append(time.perf_counter() - began)
    connection.close()


def write(port, key, end, posted):
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(
            "POST",
            "/api/v1/posts",
            json.dumps({"eventId": f"bench {next(posted)}", "body": "beside the readers"}),
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        assert connection.getresponse().status == 201
        connection.close()
        time.sleep(POST_SECONDS)


def listen_all(port, keys, delivered):
    for key in keys[:STREAMS]:
        threading.Thread(target=listen, args=(port, key, delivered), daemon=True).start()
    threading.Event().wait()


def listen(port, key, delivered):
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        if answer.status == 503:
            connection.close()
            time.sleep(int(answer.headers["Retry-After"]))
            continue
        for line in answer:
            if line.startswith(b"data:"):
                with delivered.get_lock():
                    delivered.value += 1


def percentile(took, percent):
    """In ms."""
    return sorted(took)[min(len(took) - 1, len(took) * percent // 100)] * 1000
