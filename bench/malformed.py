"""Malformed requests against one server (`app.py run`, with limits out of the way): a true request
cut, doubled and sown with bytes.

    python -m bench malformed [--requests 5000]

Whatever comes back is a refusal or nothing, and the server serves on. Prints how often each status
came; exits with 1 after an answer of ours that says it failed. What slow and silent connections
cost others shows `python -m bench crowd`.
"""

import argparse
import random
import socket
import tempfile

from bench.interface import seed
from bench.streams import start_server

WHOLE = (
    b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
    b' cnd_pub_x\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n{"eventId": "e",'
    b' "body": "b b b"}'
)


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench malformed")
    parser.add_argument("--requests", type=int, default=5000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        seed(folder)
        port, server = start_server(folder)
        try:
            answers = send_malformed(port, given.requests)
            alive = server.poll() is None
        finally:
            server.terminate()
            server.wait()
    counts = ", ".join(f"{count} x {status}" for status, count in sorted(answers.items()))
    print(f"{given.requests} malformed requests: {counts}; the server", end=" ")
    print("serves on" if alive else "is gone")
    return int(not alive or any(s[:1] == "5" and s != "501" for s in answers))


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
