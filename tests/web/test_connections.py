"""No client can occupy a thread by sending, reading or idling, and no address can occupy all
connections.
"""

import contextlib
import itertools
import selectors
import socket
import time
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.http import errors
from gunicorn.workers.gthread import TConn
from test_worker import Server

import serving
from web.server import connections, worker
from web.server.connections import Connection

MAX_BODY = 100


@pytest.fixture
def pair():
    """A connection, and its client's socket."""
    ours, theirs = socket.socketpair()
    config = Config()
    for name in ("limit_request_line", "limit_request_fields", "limit_request_field_size"):
        config.set(name, getattr(serving, name))
    yield Connection(TConn(config, ours, ("192.0.2.1", 1234), ("127.0.0.1", 80))), theirs
    ours.close()
    theirs.close()


# ---- requests ----------------------------------------------------------------------------------
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "raw, body",
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b""),
        (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"Content-Length: 00000000000000005\r\n\r\nhello", b"hello"),
        (HEAD + b"content-length:0\r\n\r\n", b""),
        (CHUNKED + b"3\r\nabc\r\na;x=1\r\n0123456789\r\n0\r\n\r\n", b"abc0123456789"),
        (CHUNKED + b"000000001\r\n0\r\n0\r\nTrailer-Of-It: x\r\n\r\n", b"0"),
    ],
)
def test_a_request_is_complete_with_its_last_byte(pair, raw, body):
    conn, _ = pair
    for end in range(1, len(raw)):
        conn.received = bytearray(raw[:end])
        assert not conn.find_request(MAX_BODY), raw[:end]
    conn.received = bytearray(raw + b"GET /next")
    assert conn.find_request(MAX_BODY)
    assert conn.request.body.read() == body and conn.received == b"GET /next"


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + b"Content-Length: 00000000000000050\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\nx",
        CHUNKED + b"0000000000000032\r\n",
        CHUNKED + b"5;" + b"x" * 2_000,
    ],
    ids=("leading zeros", "a huge length", "a long chunk size", "a long chunk line"),
)
def test_odd_chunk_sizes_block_no_thread(pair, raw):
    """gunicorn's parser wants more bytes here, and only the parser decides what is complete."""
    conn, _ = pair
    conn.received = bytearray(raw)
    assert not conn.find_request(MAX_BODY) and conn.request is None


@pytest.mark.parametrize(
    "raw, error",
    [
        (HEAD + b"Content-Length: 101\r\n\r\n" + b"x" * 101, connections.BodyTooLarge),
        (CHUNKED + b"500\r\n" + b"x" * 0x500 + b"\r\n", connections.BodyTooLarge),
        (CHUNKED + b"zz\r\n", errors.InvalidChunkSize),
        (CHUNKED + b"1" * 9_000, errors.InvalidChunkSize),
        (CHUNKED + b"1\r\nx\r\n" * 300, errors.ParseException),
        (HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n", errors.InvalidHeader),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 9_000, errors.LimitRequestHeaders),
    ],
)
def test_an_unfixable_request_is_refused(pair, raw, error):
    conn, _ = pair
    conn.received = bytearray(raw)
    with pytest.raises(error):
        conn.find_request(MAX_BODY)


def test_reparsing_one_request_is_limited(pair, monkeypatch):
    """Each parse takes 1 ms of this clock, and 100 ms are allowed."""
    clock = itertools.count()
    monkeypatch.setattr(connections.time, "thread_time", lambda: next(clock) / 1000)
    monkeypatch.setattr(connections, "MAX_PARSE_SECONDS", 0.1005)
    conn, _ = pair
    conn.received += HEAD
    for _ in range(100):
        assert not conn.find_request(MAX_BODY)
    with pytest.raises(errors.ParseException):
        conn.find_request(MAX_BODY)


def test_100_continue_is_sent_once(pair):
    conn, theirs = pair
    conn.received += HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    assert not conn.find_request(MAX_BODY) and not conn.find_request(MAX_BODY)
    assert theirs.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    conn.received += b"{}"
    assert conn.find_request(MAX_BODY) and not conn.request._expected_100_continue


# ---- answers -----------------------------------------------------------------------------------
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
    clock[0] = 1002.0
    conn.unread += bytes(4_096)
    conn.send_unread()
    # 1000 + 15 + 4,096 / 4,096 = 1016 comes before 1002 + 15.
    assert conn.timeout == 1016.0
    clock[0] = 1005.0
    conn.unread += bytes(40_960)
    conn.send_unread()
    # 1000 + 15 + 45,056 / 4,096 = 1026 comes after 1005 + 15.
    assert conn.timeout == 1020.0


# ---- a real server -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("server")) as made:
        yield made


@contextlib.contextmanager
def running(folder, **more):
    made = Server(folder, **more)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def connect_many():
    """connect_many(server, count, address...) -> connections from these addresses in turn."""
    with contextlib.ExitStack() as opened:

        def connect(server, count, *addresses):
            turns = itertools.islice(itertools.cycle(addresses), count)
            return [opened.enter_context(server.connect(address)) for address in turns]

        yield connect


def ended(opened):
    """Connections that the server closed."""
    with selectors.DefaultSelector() as poll:
        for one in opened:
            poll.register(one, selectors.EVENT_READ)
        return [key.fileobj for key, _ in poll.select(0)]


def wait_for_end(opened, count):
    """The number of connections that the server closed, when there are at least as many."""
    end = time.monotonic() + 60
    while len(ended(opened)) < count and time.monotonic() < end:
        time.sleep(0.05)
    return len(ended(opened))


def receive(connection):
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def ask_from(server, address, path="/api/health"):
    """The response to a request from this address, or b"" if the connection is closed."""
    asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with server.connect(address) as connection, contextlib.suppress(OSError):
        connection.sendall(asked.encode())
        return receive(connection)
    return b""


def test_an_address_with_too_many_connections_loses_some_and_others_none(tmp_path, connect_many):
    with running(tmp_path, METRICS="on") as server:
        crowd = connect_many(server, 266, "127.0.0.2")
        assert wait_for_end(crowd, 10) == 10
        assert b"candor_connections_closed 10.0" in ask_from(server, "127.0.0.3", "/metrics")
        # Idle connections make room for active ones, even of the same address.
        time.sleep(worker.MIN_WAIT_SECONDS)
        assert b" 200 OK" in ask_from(server, "127.0.0.2")
        assert wait_for_end(crowd, 11) == 11


def test_behind_a_proxy_addresses_are_not_distinguished(tmp_path, connect_many):
    with running(tmp_path, TRUSTED_PROXIES="1") as server:
        crowd = connect_many(server, 266, "127.0.0.1")
        assert ask_from(server, "127.0.0.1").startswith(b"HTTP/1.1 200")
        assert ended(crowd) == []


HALVES = (
    b"",
    b"G",
    b"GET / HT",
    HEAD,
    HEAD + b"Content-Length: 5000\r\n\r\n{",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n12",
)


def test_half_a_request_blocks_no_thread(server, connect_many):
    """More of them than there are threads, from several addresses; each can still be completed."""
    crowd = connect_many(server, 600, "127.0.0.2", "127.0.0.3", "127.0.0.4")
    for one, half in zip(crowd, itertools.cycle(HALVES), strict=False):
        one.sendall(half)
    for _ in range(20):
        assert b" 200 OK" in ask_from(server, "127.0.0.9")
    assert ended(crowd) == []
    crowd[2].sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
    assert crowd[2].recv(100).startswith(b"HTTP/1.1 200 OK")


def test_100_continue_precedes_the_body(server):
    with server.connect() as connection:
        connection.sendall(
            b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(b"{}")
        assert b"HTTP/1.1 401 " in receive(connection)


FORM = (
    b"POST /connect HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)


def test_a_truncated_body_is_refused(server):
    answer = server.send(FORM + b"Content-Length: 1000\r\n\r\nname=A")
    assert b" 400 " in answer and b"the request ended early" in answer


def test_a_chunked_body_has_the_same_limit(server):
    head, chunk = (
        FORM + b"Transfer-Encoding: chunked\r\n\r\n",
        b"8000\r\n" + bytes(0x8000) + b"\r\n",
    )
    assert b" 413 " not in server.send(head + chunk + b"0\r\n\r\n")
    assert server.send(head + chunk * 3 + b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")


def test_clients_that_keep_connections_open_delay_no_others(server, connect_many):
    """The accepting thread used to wait two seconds for each: 50 of them, 100 s."""
    crowd = connect_many(server, 50, "127.0.0.2")
    for one in crowd:
        one.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    for one in crowd:
        assert receive(one).startswith(b"HTTP/1.1 200")
    assert b" 200 OK" in ask_from(server, "127.0.0.3")


def test_a_full_instance_closes_connections_of_the_busiest_address(tmp_path, connect_many):
    """The limit on open files leaves room for some 100 connections; 400 are tried."""
    limited = ["sh", "-c", 'ulimit -n 360; exec "$@"', "limited"]
    with running(tmp_path, through=limited) as server:
        crowd = connect_many(server, 400, *(f"127.0.0.{n}" for n in (2, 3, 4, 5)))
        assert wait_for_end(crowd, 250) >= 250
        time.sleep(worker.MIN_WAIT_SECONDS)
        for _ in range(10):
            assert b" 200 OK" in ask_from(server, "127.0.0.9")
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def test_a_parser_error_ends_one_connection_only(pair, monkeypatch):
    conn, _ = pair
    refused = []
    made = worker.Worker.__new__(worker.Worker)
    made.wsgi = SimpleNamespace(config={"MAX_CONTENT_LENGTH": MAX_BODY})
    monkeypatch.setattr(made, "refuse", lambda conn, error: refused.append(error))
    monkeypatch.setattr(connections, "Request", lambda *given: 1 / 0)
    conn.received += HEAD
    made.find_request(conn)
    assert [type(error) for error in refused] == [ZeroDivisionError]
