"""The server: no client can crash it or occupy a thread by sending, reading or idling, and no
address can take all threads or connections.
"""

import contextlib
import http.client
import itertools
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import ground
import pytest
from gunicorn.config import Config
from gunicorn.http import errors
from gunicorn.workers.gthread import TConn
from service import GENEROUS

import serving
from bench._ports import find_port
from web.server import connections, worker

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
        ground.until(self.is_up)

    def is_up(self):
        assert self.process.poll() is None, self.words()
        with contextlib.suppress(OSError):
            return self.get("/api/health")

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def connect(self, address="127.0.0.1"):
        """A connection from this local address."""
        return socket.create_connection(
            ("127.0.0.1", self.port), timeout=20, source_address=(address, 0)
        )

    def send(self, raw, address="127.0.0.1"):
        """The response to these bytes, or b"" if the connection just ends."""
        with self.connect(address) as connection, contextlib.suppress(OSError):
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            return receive(connection)
        return b""

    def words(self):
        self.log.seek(0)
        return self.log.read().decode()

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(60)
        self.log.close()


def receive(connection):
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.fixture
def start(tmp_path):
    """start(through, **settings) -> a Server, stopped at the end"""
    with contextlib.ExitStack() as started:

        def start_one(through=(), **settings):
            server = Server(tmp_path, through, **settings)
            started.callback(server.stop)
            return server

        yield start_one


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("server"), METRICS="on")
    yield made
    made.stop()


def ask(target, host=b"localhost"):
    return b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, host)


# ---- requests ----------------------------------------------------------------------------------
HEALTH, GET = ask(b"/api/health"), ask(b"/")[:-2]
POST = b"POST /api/v1/posts HTTP/1.1\r\nHost: x\r\n"
FORM = b"POST /connect HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"8000\r\n" + bytes(0x8000) + b"\r\n"
NOISE, LONG = "this isn't a valid HTTP request", "the URL is too long"
STRANGE = "this instance doesn't serve that host name"
MANY = "there are too many headers, or one of them is too long"
LARGE, EARLY = "a request body may have at most 64 KiB", "the request ended early"


@pytest.mark.parametrize(
    "raw, status, said",
    [
        (b"BLAH\r\n\r\n", 400, NOISE),
        (b"GET /canary-secret\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400, NOISE),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400, NOISE),
        (b"GET / HTTP/1.1\r\nHost: x\r\ncanary-secret\r\n\r\n", 400, NOISE),
        (ask(b"/" + b"a" * 5000), 414, LONG),
        (GET + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 431, MANY),
        (GET + b"X: 1\r\n" * 100 + b"\r\n", 431, MANY),
        (GET + b"X: 1\r\n" * 9_000, 431, MANY),
        (POST + b"Content-Length: -1\r\n\r\n", 400, NOISE),
        (POST + b"Content-Length: 5\r\n" + CHUNKED + b"0\r\n\r\n", 400, NOISE),
        (POST + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n", 400, NOISE),
        (POST + CHUNKED + b"zz\r\n", 400, NOISE),
        (POST + CHUNKED + b"1" * 9_000, 400, NOISE),
        (POST + CHUNKED + b"1\r\nx\r\n" * 300, 400, NOISE),
        (POST + b"Content-Length: 9999999999\r\n\r\n" + b"x" * 140_000, 413, LARGE),
        (FORM + CHUNKED + CHUNK * 3 + b"0\r\n\r\n", 413, LARGE),
        (FORM + b"Content-Length: 1000\r\n\r\nname=A", 400, EARLY),
        (b"GET /api/health HTTP/1.1\r\n\r\n", 400, "the Host header is missing"),
        (ask(b"/api/health", b"evil.example"), 421, STRANGE),
        (ask(b"http://evil.example/api/health"), 421, STRANGE),
        (ask(b"http://localhost@evil.example/api/"), 421, STRANGE),
        (ask(b"http://localhost/api/health", b"evil.example"), 421, STRANGE),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_an_invalid_request_is_refused_in_our_own_words(server, raw, status, said):
    head, _, body = server.send(raw).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"Content-Security-Policy: " in head
    told = json.loads(body)
    assert told["status"] == status and told["detail"].startswith(said)
    for text in (head.decode(), body.decode(), server.words()):
        assert "canary" not in text and "Traceback" not in text


def test_a_host_may_be_in_the_url_and_http_1_0_needs_none(server):
    for raw in (ask(b"http://localhost/api/health"), b"GET /api/health HTTP/1.0\r\n\r\n"):
        assert server.send(raw).split()[1] == b"200"


def spoil(dice):
    """A post with some bytes exchanged, removed or doubled, sometimes truncated."""
    raw = bytearray(POST.replace(b"Host: x", b"Host: localhost\r\nAuthorization: Bearer cnd_pub_x"))
    raw += b"Content-Type: application/json\r\nContent-Length: 33\r\n\r\n"
    raw += b'{"eventId": "e", "body": "b b b"}'
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(raw))
        raw[at : at + dice.randint(0, 3)] = dice.randbytes(dice.randint(0, 4))
    return bytes(raw[: dice.randrange(1, len(raw))] if dice.random() < 0.2 else raw)


def test_malformed_requests_cause_no_crash(server):
    """The response is an HTTP response below 500, or none."""
    dice = random.Random(20261120)
    for _ in range(500):
        raw = spoil(dice)
        answer = server.send(raw)
        refused = answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 501"))
        assert answer == b"" or refused, (raw, answer[:80])
    assert server.get("/api/health")[0] == 200 and "Traceback" not in server.words()


def test_100_continue_is_sent_once_before_the_body(server):
    with server.connect() as connection:
        expected = b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        connection.sendall(POST.replace(b"Host: x", b"Host: localhost") + expected)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for part in (b"{", b"}"):
            connection.sendall(part)
        assert receive(connection).startswith(b"HTTP/1.1 401 ")


def test_a_connection_is_reused(server):
    """Immediately, after a pause, and with two requests sent together."""
    with server.connect() as connection, connection.makefile("rb") as answers:
        for pause, times in ((0, 1), (0, 1), (0.06, 1), (0, 2)):
            time.sleep(pause)
            connection.sendall(HEALTH * times)
            for _ in range(times):
                assert answers.readline().startswith(b"HTTP/1.1 200 ")
                length = int(http.client.parse_headers(answers)["Content-Length"])
                assert json.loads(answers.read(length))["status"]
    # The first lines are for people.
    lines = [json.loads(line) for line in server.words().splitlines() if line.startswith("{")]
    assert {line["logger"] for line in lines} >= {"candor.access", "gunicorn.error"}


# ---- connections -------------------------------------------------------------------------------
@pytest.fixture
def connect_many():
    """connect_many(server, count, address...) -> connections from these addresses in turn."""
    with contextlib.ExitStack() as opened:

        def connect(server, count, *addresses):
            turns = itertools.islice(itertools.cycle(addresses), count)
            return [opened.enter_context(server.connect(address)) for address in turns]

        yield connect


def ended(opened):
    """The number of connections that the server closed."""
    with selectors.DefaultSelector() as poll:
        for one in opened:
            poll.register(one, selectors.EVENT_READ)
        return len(poll.select(0))


def test_an_address_with_too_many_connections_loses_some_and_others_none(server, connect_many):
    crowd = connect_many(server, 266, "127.0.0.8")
    ground.until(lambda: ended(crowd) >= 10)
    assert b"candor_connections_closed 10.0" in server.get("/metrics")[1]
    # Idle connections make room for active ones, even of the same address.
    time.sleep(worker.MIN_WAIT_SECONDS)
    assert b" 200 OK" in server.send(HEALTH, "127.0.0.8")
    ground.until(lambda: ended(crowd) >= 11)
    assert ended(crowd) == 11


def test_behind_a_proxy_addresses_are_not_distinguished(start, connect_many):
    server = start(TRUSTED_PROXIES="1")
    crowd = connect_many(server, 266, "127.0.0.1")
    assert server.send(HEALTH).startswith(b"HTTP/1.1 200")
    assert ended(crowd) == 0


def test_a_full_instance_makes_room_for_new_connections(start, connect_many):
    """The limit on open files leaves room for some 100 connections; 400 are tried."""
    server = start(["sh", "-c", 'ulimit -n 360; exec "$@"', "limited"])
    crowd = connect_many(server, 400, *(f"127.0.0.{n}" for n in (2, 3, 4, 5)))
    ground.until(lambda: ended(crowd) >= 250)
    time.sleep(worker.MIN_WAIT_SECONDS)
    for _ in range(10):
        assert b" 200 OK" in server.send(HEALTH, "127.0.0.9")
    assert "Traceback" not in server.words()


def test_half_a_request_blocks_no_thread(server, connect_many):
    """More of them than there are threads, from several addresses; each can still be completed."""
    halves = [b"", b"G", b"GET / HT", GET, FORM + b"Content-Length: 5000\r\n\r\n{"]
    halves.append(FORM + CHUNKED + b"5\r\n12")
    crowd = connect_many(server, 600, "127.0.0.2", "127.0.0.3", "127.0.0.4")
    for one, half in zip(crowd, itertools.cycle(halves), strict=False):
        one.sendall(half)
    for _ in range(20):
        assert b" 200 OK" in server.send(HEALTH, "127.0.0.9")
    assert ended(crowd) == 0
    crowd[2].sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
    assert crowd[2].recv(100).startswith(b"HTTP/1.1 200 OK")


def test_clients_that_keep_connections_open_delay_no_others(server, connect_many):
    """The accepting thread used to wait two seconds for each: 50 of them, 100 s."""
    crowd = connect_many(server, 50, "127.0.0.2")
    for one in crowd:
        one.sendall(HEALTH.replace(b"Host", b"Connection: close\r\nHost"))
    for one in crowd:
        assert receive(one).startswith(b"HTTP/1.1 200")
    assert b" 200 OK" in server.send(HEALTH, "127.0.0.3")


# ---- one connection ----------------------------------------------------------------------------
MAX_BODY = 100


@pytest.fixture
def pair():
    """A connection, and its client's socket."""
    ours, theirs = socket.socketpair()
    config = Config()
    for name in ("limit_request_line", "limit_request_fields", "limit_request_field_size"):
        config.set(name, getattr(serving, name))
    accepted = TConn(config, ours, ("192.0.2.1", 1234), ("127.0.0.1", 80))
    yield connections.Connection(accepted), theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "raw, body",
    [
        (GET + b"\r\n", b""),
        (POST + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (POST + b"Content-Length: 00000000000000050\r\n\r\n" + b"x" * 50, b"x" * 50),
        (POST + b"content-length:0\r\n\r\n", b""),
        (POST + CHUNKED + b"3\r\nabc\r\na;x=1\r\n0123456789\r\n0\r\n\r\n", b"abc0123456789"),
        (POST + CHUNKED + b"5;" + b"x" * 200 + b"\r\nhello\r\n0\r\n\r\n", b"hello"),
        (POST + CHUNKED + b"0000000000000001\r\n0\r\n0\r\nTrailer-Of-It: x\r\n\r\n", b"0"),
    ],
)
def test_a_request_is_complete_with_its_last_byte(pair, raw, body):
    """However its length is written: only gunicorn's parser decides."""
    conn, _ = pair
    for end in range(1, len(raw)):
        conn.received = bytearray(raw[:end])
        assert not conn.find_request(MAX_BODY), raw[:end]
    conn.received = bytearray(raw + b"GET /next")
    assert conn.find_request(MAX_BODY)
    assert conn.request.body.read() == body and conn.received == b"GET /next"


def test_reparsing_one_request_is_limited(pair, monkeypatch):
    """Each parse takes 1 ms of this clock, and 100 ms are allowed."""
    clock = itertools.count()
    monkeypatch.setattr(connections.time, "thread_time", lambda: next(clock) / 1000)
    monkeypatch.setattr(connections, "MAX_PARSE_SECONDS", 0.1005)
    conn, _ = pair
    conn.received += POST
    for _ in range(100):
        assert not conn.find_request(MAX_BODY)
    with pytest.raises(errors.ParseException):
        conn.find_request(MAX_BODY)


def test_a_parser_error_ends_one_connection_only(pair, monkeypatch):
    conn, _ = pair
    refused = []
    made = worker.Worker.__new__(worker.Worker)
    made.wsgi = SimpleNamespace(config={"MAX_CONTENT_LENGTH": MAX_BODY})
    monkeypatch.setattr(made, "refuse", lambda conn, error: refused.append(error))
    monkeypatch.setattr(connections, "Request", lambda *given: 1 / 0)
    conn.received += POST
    made.find_request(conn)
    assert [type(error) for error in refused] == [ZeroDivisionError]


def begin(conn, parts, kind="text/csv"):
    """Make an application start this response."""

    def app(environ, start):
        start("200 OK", [("Content-Type", kind)])
        return parts

    conn.received += b"GET / HTTP/1.0\r\n\r\n"
    assert conn.find_request(MAX_BODY)
    conn.begin_answer(app)


def read_unread(conn, theirs):
    """Everything a client reads until nothing is left to send."""
    got = b""
    theirs.setblocking(False)
    while True:
        conn.send_unread()
        try:
            got += theirs.recv(1 << 20)
        except BlockingIOError:
            if not conn.unread:
                return got


def test_a_long_response_is_produced_in_turns_without_waiting_for_the_client(pair):
    """Three of these parts make a turn of 256 KiB: 3 + 3 + 3 + 1."""
    conn, theirs = pair
    parts = [bytes([number]) * 100_000 for number in range(1, 11)]
    begin(conn, iter(parts))
    got = b""
    for is_last in (False, False, False, True):
        assert conn.continue_answer() == is_last
        got += read_unread(conn, theirs)
    assert got.partition(b"\r\n\r\n")[2] == b"".join(parts)


def test_a_response_is_closed_once(pair):
    class Parts(list):
        closed = 0

        def close(self):
            self.closed += 1

    conn, _ = pair
    parts = Parts([b"a"])
    begin(conn, parts)
    assert conn.continue_answer() and parts.closed == 1
    conn.end_answer()
    assert parts.closed == 1


def test_an_unread_stream_ends(pair, monkeypatch):
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.01)
    conn, _ = pair
    begin(conn, itertools.repeat(bytes(100_000)), "text/event-stream; charset=utf-8")
    assert conn.is_stream
    with pytest.raises(OSError):
        conn.continue_answer()


def test_a_client_gets_15_seconds_plus_one_for_each_4096_bytes_read(pair, monkeypatch):
    conn, _ = pair
    clock = [1000.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: clock[0])
    begin(conn, [])
    for now, unread, timeout in (
        # 1000 + 15 + 4,096 / 4,096 = 1016 comes before 1002 + 15.
        (1002.0, 4_096, 1016.0),
        # 1000 + 15 + 45,056 / 4,096 = 1026 comes after 1005 + 15.
        (1005.0, 40_960, 1020.0),
    ):
        clock[0] = now
        conn.unread += bytes(unread)
        conn.send_unread()
        assert conn.timeout == timeout


# ---- the queue ---------------------------------------------------------------------------------
# A small letter is a reader's address, a capital letter a writer's, and a digit continues a long
# response. `+` queues requests, `=` lists those that get a thread, `-` ends them.
QUEUES = {
    "one address leaves a quarter": (8, False, "+aaaaaaaaa =aaaaaa +bcd =bc"),
    "except behind a proxy": (8, True, "+aaaaaaaaa =aaaaaaaa"),
    "addresses take turns": (2, False, "+aaaabb =ab - =ab - =a - =a - ="),
    "writers leave half to readers": (8, False, "+ABCDEFGabcdefg =ABCDabcd"),
    "a reader passes writers of its address": (4, True, "+AAAAAAa =AaA"),
    "a finished turn makes room": (2, False, "+AB =A - =B"),
    "long responses continue one at a time": (8, False, "+1234 =1 +a =a"),
}


@pytest.mark.parametrize("threads, is_proxied, steps", QUEUES.values(), ids=QUEUES)
def test_threads_are_shared(threads, is_proxied, steps):
    queue, running = worker.Queue(threads, is_proxied), []
    for step in steps.split():
        if step[0] == "+":
            for letter in step[1:]:
                queue.add(make_request(letter))
        elif step[0] == "-":
            while running:
                queue.give_back(running.pop())
        else:
            taken = list(iter(queue.take, None))
            assert "".join(one.letter for one in taken) == step[1:], step
            running += taken


def make_request(letter):
    """A connection with a request or, for a digit, with a continued response."""
    request = SimpleNamespace(method="GET" if letter.islower() else "POST")
    request = None if letter.isdigit() else request
    return SimpleNamespace(letter=letter, address=letter.lower(), request=request)


def test_an_addresss_requests_are_served_in_order():
    queue, made = worker.Queue(8, is_proxied=False), [make_request("a") for _ in range(6)]
    for one in made:
        queue.add(one)
    assert list(iter(queue.take, None)) == made
