"""A real server and hostile clients: malformed bytes, slow bodies, idle connections, many
connections.
"""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ground
import pytest
from service import GENEROUS, NOW

from accounts import api_keys, influencers
from bench._ports import find_port

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    **{name.upper(): str(value) for name, value in GENEROUS.items() if name != "allowance"},
    "ALLOWANCE": "1000000/minute",
    "OBSERVER_INTERVAL_SECONDS": "0",
    "SCOUT_INTERVAL_SECONDS": "0",
    "PAPER_INTERVAL_SECONDS": "0",
}


class Server:
    """`app.py run` on a free port, as a user starts it; `through`: a command that runs it."""

    def __init__(self, folder, through=(), **environ):
        self.port = find_port()
        self.log = open(folder / "server.log", "w+b")
        # Sixty migrations take a fifth of a start.
        ground.copy_empty(ground.settings_of(folder / "data"))
        given = {**SETTINGS, "PORT": str(self.port), **ground.environ(folder / "data"), **environ}
        self.process = subprocess.Popen(
            [*through, sys.executable, "app.py", "run"],
            cwd=ROOT,
            env={**os.environ, **given},
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        self.wait()

    def wait(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                return self.get("/api/health")
            except OSError:
                assert self.process.poll() is None, self.words()
                time.sleep(0.05)
        raise AssertionError(self.words())

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def connect(self, address="127.0.0.1"):
        """A connection from this local address."""
        return socket.create_connection(
            ("127.0.0.1", self.port), timeout=20, source_address=(address, 0)
        )

    def send(self, raw):
        """The response to these bytes, or b"" if the connection just ends."""
        with self.connect() as connection:
            try:
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
                return answer
            except OSError:
                return b""

    def words(self):
        self.log.seek(0)
        return self.log.read().decode()

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(60)
        self.log.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.stop()


BODY = b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\n"
NOISE, LONG = "this isn't a valid HTTP request", "the URL is too long"
STRANGE = "this instance doesn't serve that host name"
MANY = "there are too many headers, or one of them is too long"


@pytest.mark.parametrize(
    "raw, status, said",
    [
        (b"BLAH\r\n\r\n", 400, NOISE),
        (b"GET /canary-secret\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400, NOISE),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400, NOISE),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, LONG),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431, MANY),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 100 + b"\r\n", 431, MANY),
        (b"GET / HTTP/1.1\r\nHost: x\r\ncanary-secret\r\n\r\n", 400, NOISE),
        (BODY + b"Content-Length: -1\r\n\r\n", 400, NOISE),
        (BODY + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NOISE),
        (BODY + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, NOISE),
        (b"GET /api/health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, STRANGE),
    ],
)
def test_an_invalid_request_is_refused_in_our_own_words(server, raw, status, said):
    head, _, body = server.send(raw).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"Content-Security-Policy: " in head
    told = json.loads(body)
    assert told["status"] == status and told["detail"].startswith(said)
    for text in (head.decode(), body.decode(), server.words()):
        assert "canary" not in text and "Traceback" not in text


WHOLE = (
    b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
    b' cnd_pub_x\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n{"eventId": "e",'
    b' "body": "b b b"}'
)


def spoil(dice):
    """WHOLE with some bytes exchanged, removed or doubled, sometimes truncated."""
    raw = bytearray(WHOLE)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(raw))
        raw[at : at + dice.randint(0, 3)] = bytes(
            dice.randrange(256) for _ in range(dice.randint(0, 4))
        )
    return bytes(raw[: dice.randrange(1, len(raw))] if dice.random() < 0.2 else raw)


def test_malformed_requests_cause_no_crash(server):
    """Requests are truncated, doubled, shuffled and mixed with random bytes: the response is an
    HTTP response below 500, or none.
    """
    dice = random.Random(20261120)
    for _ in range(500):
        raw = spoil(dice)
        answer = server.send(raw)
        refused = answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 501"))
        assert answer == b"" or refused, (raw, answer[:80])
    assert server.get("/api/health")[0] == 200 and "Traceback" not in server.words()


def test_two_workers_share_allowance_and_revocations(tmp_path, storage_url):
    limits = {"ALLOWANCE": "40/day", "RATELIMIT_STORAGE_URL": storage_url}
    settings = ground.settings_of(tmp_path / "data")
    server = Server(tmp_path, WEB_CONCURRENCY="2", **limits)
    try:
        with ground.speaking_to(settings):
            made = influencers.create_bot(settings, "Ada", NOW)
            ask = {"Authorization": f"Bearer {made.publish_key.text}"}
            with ThreadPoolExecutor(6) as crew:
                answers = [crew.submit(server.get, "/api/v1/feed", **ask) for _ in range(60)]
            codes = [answer.result()[0] for answer in answers]
            assert (codes.count(200), codes.count(429)) == (40, 20)
            api_keys.revoke_key(made.publish_key.key.uid, NOW)
            assert {server.get("/api/v1/me", **ask)[0] for _ in range(10)} == {401}
    finally:
        server.stop()
    said = (tmp_path / "server.log").read_text().splitlines()
    # The first lines are for people.
    lines = [json.loads(line) for line in said if line.startswith("{")]
    assert {line["logger"] for line in lines} >= {"candor.access", "gunicorn.error"}
    assert made.publish_key.text not in str(lines)


def test_a_connection_is_reused(server):
    """Immediately, after a pause, and with two requests sent together."""
    request = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server.connect() as connection, connection.makefile("rb") as answers:
        for pause, times in ((0, 1), (0, 1), (0.06, 1), (0, 2)):
            time.sleep(pause)
            connection.sendall(request * times)
            for _ in range(times):
                assert answers.readline().startswith(b"HTTP/1.1 200 ")
                length = int(http.client.parse_headers(answers)["Content-Length"])
                assert json.loads(answers.read(length))["status"]


# ---- hosts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "raw, status",
    [
        (b"GET /api/health HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /api/health HTTP/1.0\r\n\r\n", b"200"),
        (b"GET http://localhost/api/health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET http://evil.example/api/health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"421"),
        (b"GET http://localhost@evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"421"),
        (b"GET http://localhost/api/health HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"),
    ],
)
def test_a_request_must_name_a_host_of_ours(server, raw, status):
    protocol, answered = server.send(raw).split()[:2]
    assert protocol in (b"HTTP/1.1", b"HTTP/1.0") and answered == status


def test_a_redirect_does_not_repeat_the_clients_port(server):
    answer = server.send(
        b"GET /bots HTTP/1.1\r\nHost: localhost:6666\r\nConnection: close\r\n\r\n"
        b"GET /docs HTTP/1.1\r\nHost: localhost:6666\r\nConnection: close\r\n\r\n"
    )
    assert b"6666" not in answer
