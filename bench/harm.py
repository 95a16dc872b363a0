"""Callers who mean harm against one server (`app.py run`, with limits out of the way): malformed
requests, then a crowd of slow connections.

    python -m bench harm [--malformed 5000] [--slow 300] [--seconds 20]

Malformed: a true request cut, doubled and sown with bytes; whatever comes back is a refusal or
nothing, and the log holds no fault of ours. Slow: so many connections idle, drip their head or
their body byte by byte, or do not read what they asked for; who is cut off comes back. Beside them
one client reads the feed on new connections, as bots do. Exits with 1 if an answer was wrong or the
99th percentile of that client passes 500 ms.
"""

import argparse
import http.client
import random
import selectors
import socket
import sys
import tempfile
import threading
import time

from bench.interface import seed
from bench.streams import percentile, start_server

WHOLE = (
    b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
    b' cnd_pub_x\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n{"eventId": "e",'
    b' "body": "b b b"}'
)
BUDGET_MS, DRIP_SECONDS = 500, 0.5
MANNERS = (
    b"",
    b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n",
    b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
)


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench harm")
    parser.add_argument("--malformed", type=int, default=5000)
    parser.add_argument("--slow", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        key = seed(folder)
        port, server = start_server(folder)
        try:
            answers = send_malformed(port, given.malformed)
            alone = read_beside(port, key, 0, given.seconds / 4)
            beside = read_beside(port, key, given.slow, given.seconds)
            alive = server.poll() is None
        finally:
            server.terminate()
            server.wait()
    print(
        f"{given.malformed} malformed requests:"
        f" {', '.join(f'{count} x {status}' for status, count in sorted(answers.items()))}; the"
        f" server {'serves on' if alive else 'is gone'}"
    )
    for name, took in (
        ("a client alone", alone),
        (f"beside {given.slow} slow connections", beside),
    ):
        print(
            f"{name:32} {len(took):6} requests  p50 {percentile(took, 50):7.2f} ms  p99"
            f" {percentile(took, 99):7.2f} ms"
        )
    return int(
        not alive
        or any(status[:1] == "5" and status != "501" for status in answers)
        or percentile(beside, 99) > BUDGET_MS
    )


# ---- malformed -----------------------------------------------------------------------------------
def spoil(dice):
    """WHOLE with some of its bytes exchanged, left out or doubled, sometimes cut."""
    raw = bytearray(WHOLE)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(raw))
        raw[at : at + dice.randint(0, 3)] = bytes(
            dice.randrange(256) for _ in range(dice.randint(0, 4))
        )
    return bytes(raw[: dice.randrange(1, len(raw))] if dice.random() < 0.2 else raw)


def send_malformed(port, count):
    """{status or "nothing": how many}"""
    dice, answers = random.Random(20261120), {}
    for _ in range(count):
        status = ask_raw(port, spoil(dice))[9:12].decode() or "nothing"
        answers[status] = answers.get(status, 0) + 1
    return answers


def ask_raw(port, raw):
    """What comes back for these bytes, or b"" where the connection just ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return b""


# ---- slow ----------------------------------------------------------------------------------------
def read_beside(port, key, slow, seconds):
    """Seconds each request of a normal client took, beside so many slow connections."""
    done, took = threading.Event(), []
    crowd = threading.Thread(target=keep_dripping, args=(port, slow, done))
    crowd.start()
    time.sleep(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/api/v1/feed", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            sys.exit(f"a normal client was answered {answer.status}")
        took.append(time.perf_counter() - began)
    done.set()
    crowd.join()
    return took


def keep_dripping(port, count, done):
    """So many connections in MANNERS, a byte each DRIP_SECONDS; one that was ended is replaced."""
    with selectors.DefaultSelector() as ended:
        for number in range(count):
            begin_slow(ended, port, number)
        while not done.wait(DRIP_SECONDS if count else None):
            for kept, _ in ended.select(timeout=0):
                if kept.data % len(MANNERS) != 3 and not receive(kept.fileobj):
                    ended.unregister(kept.fileobj)
                    kept.fileobj.close()
                    begin_slow(ended, port, kept.data)
            for kept in list(ended.get_map().values()):
                if kept.data % len(MANNERS) in (1, 2):
                    drip(kept.fileobj)
        for kept in list(ended.get_map().values()):
            kept.fileobj.close()


def begin_slow(ended, port, number):
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(MANNERS[number % len(MANNERS)])
    ended.register(connection, selectors.EVENT_READ, number)


def receive(connection):
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def drip(connection):
    try:
        connection.send(b"x")
    except OSError:
        # It was ended; the next look replaces it.
        return
