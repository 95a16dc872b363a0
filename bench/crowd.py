"""What clients that hold on to connections cost everybody else.

    python -m bench crowd [--seconds 20] [--readers 150] [--silent 2000] [--half 0] [--root FOLDER]

Starts `app.py run` with default settings in a temporary folder (of the checkout --root), then
opens, from one address of this machine, connections that ask for a big answer again and again and
never read, connections that say nothing, and connections that send half a request. Prints what
clients of another address and of the same one meet meanwhile: refused connections, and latencies in
ms.
"""

import argparse
import contextlib
import http.client
import os
import socket
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

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = {
    "OBSERVER_INTERVAL_SECONDS": "0",
    "SCOUT_INTERVAL_SECONDS": "0",
    "PAPER_INTERVAL_SECONDS": "0",
}
# Others ask from several addresses in turn, so that each stays within its limit of requests.
CROWD, OTHERS = "127.0.0.1", tuple(f"127.0.0.{number}" for number in range(2, 12))
BIG = b"GET /feed.atom HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3
HALF = b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{"
POSTS = 60


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench crowd")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--readers", type=int, default=150)
    parser.add_argument("--silent", type=int, default=2000)
    parser.add_argument("--half", type=int, default=0)
    parser.add_argument("--root", type=Path, default=ROOT)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        seed(folder)
        port, server = start_server(given.root, folder)
        try:
            report("alone", [ask_for(port, OTHERS, 3)], server)
            crowd = (
                [open_one(port, BIG) for _ in range(given.readers)]
                + [open_one(port, b"") for _ in range(given.silent)]
                + [open_one(port, HALF) for _ in range(given.half)]
            )
            time.sleep(1)
            met = measure(port, given.seconds)
            report("beside the crowd", met, server)
            for connection in filter(None, crowd):
                connection.close()
        finally:
            server.terminate()
            server.wait()


def seed(folder: str) -> None:
    """An instance whose feed is long: posts of 4,000 characters."""
    given = config.load({"DATA_DIR": folder}, dotenv=None)
    with storage.connect(given).connection_context():
        storage.migrate()
        now = time.time_ns() // 1_000_000
        made = influencers.create_bot(given, "Ada", now)
        for number in range(POSTS):
            with storage.writing():
                posts.store_post(
                    bot=made.bot,
                    source="bot",
                    channel="api",
                    event_id=str(number),
                    body="<\U0001f332>&" * 1000,
                    reason="<\U0001f332>&" * 1000,
                    event_at=now,
                    created_at=now,
                )
    storage.database.close_all()


def start_server(root: Path, folder: str) -> tuple[int, subprocess.Popen]:
    port = find_port()
    environ = {**os.environ, **SETTINGS, "PORT": str(port), "DATA_DIR": folder}
    server = subprocess.Popen(
        [sys.executable, "app.py", "run"],
        cwd=root,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 30
    while ask(port, OTHERS[0]) is None:
        if server.poll() is not None or time.monotonic() > end:
            sys.exit("the server did not start")
        time.sleep(0.1)
    return port, server


def open_one(port: int, said: bytes) -> socket.socket | None:
    """One connection of the crowd, with a small buffer for what it will not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(5)
    try:
        connection.bind((CROWD, 0))
        connection.connect(("127.0.0.1", port))
        connection.sendall(said)
    except OSError:
        connection.close()
        return None
    return connection


def measure(port: int, seconds: float) -> list[list[float | None]]:
    """What both addresses meet at the same time."""
    met: list[list[float | None]] = [[], []]
    crew = [
        threading.Thread(
            target=lambda n=n, asked=asked: met[n].extend(ask_for(port, asked, seconds))
        )
        for n, asked in enumerate((OTHERS, (CROWD,)))
    ]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return met


def ask_for(port: int, addresses: tuple[str, ...], seconds: float) -> list[float | None]:
    """Seconds of each request, one after another; None of one that was not answered."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        took.append(ask(port, addresses[len(took) % len(addresses)]))
        time.sleep(0.03)
    return took


def ask(port: int, address: str) -> float | None:
    began = time.perf_counter()
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=10, source_address=(address, 0)
        )
        with contextlib.closing(connection):
            connection.request("GET", "/api/health")
            # The crowd used its address' limit up; that is an answer.
            if connection.getresponse().status in (200, 429):
                return time.perf_counter() - began
    return None


def report(name: str, met: list[list[float | None]], server: subprocess.Popen) -> None:
    print(f"{name}; memory of the workers {memory_of(server.pid)} MB")
    for address, took in zip(("others", "the crowd's own address"), met, strict=False):
        answered = sorted(one * 1000 for one in took if one is not None)
        if not answered:
            print(f"  {address}: none of {len(took)} requests was answered")
            continue
        p50, p99 = (
            answered[min(len(answered) - 1, len(answered) * part // 100)] for part in (50, 99)
        )
        print(
            f"  {address}: {len(took)} requests, {len(took) - len(answered)} not answered; "
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {answered[-1]:.1f} ms"
        )


def memory_of(pid: int) -> int:
    """MB that a server's children hold (Linux)."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            pages = int(Path(f"/proc/{child}/statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
    return total // 1_000_000
