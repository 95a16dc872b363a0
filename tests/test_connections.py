"""No client holds a thread by sending, reading or saying nothing, and no address holds all
connections.
"""

import contextlib
import errno
import json
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_worker import Server

from web.server import connections
from web.server.connections import Addresses, PacedSocket, RequestProgress, SharedCount

MAX_BODY = 100


# ---- reading -----------------------------------------------------------------------------------
@pytest.fixture
def pair() -> Iterator[tuple[PacedSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    paced = PacedSocket(fileno=ours.detach())
    yield paced, theirs
    paced.close()
    theirs.close()


def test_a_reader_that_reads_gets_all_of_it(pair: tuple[PacedSocket, socket.socket]) -> None:
    ours, theirs = pair
    sent, got = bytes(range(256)) * 20_000, bytearray()

    def read() -> None:
        while len(got) < len(sent):
            got.extend(theirs.recv(65_536))

    reader = threading.Thread(target=read)
    reader.start()
    ours.sendall(sent)
    reader.join(60)
    assert bytes(got) == sent and ours.sent == len(sent) and ours.waits_since is None


def test_a_reader_that_does_not_read_is_cut_off(
    pair: tuple[PacedSocket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.01)
    ours, _ = pair
    with pytest.raises(ConnectionResetError) as cut:
        ours.sendall(bytes(10_000_000))
    # gunicorn takes this for a client that went away, and logs no stack.
    assert cut.value.errno == errno.ECONNRESET and ours.waits_since is None


def test_a_client_that_reads_a_byte_now_and_then_is_too_slow(
    pair: tuple[PacedSocket, socket.socket],
) -> None:
    """10,000,000 bytes at 4,096 a second may keep us waiting 15 + 2,441.4 s in all, and no
    longer.
    """
    ours, theirs = pair
    theirs.setblocking(False)
    ours.sent, ours.waited = 10_000_000, 2_457.0
    with contextlib.suppress(BlockingIOError):
        while ours.send(bytes(65_536), socket.MSG_DONTWAIT):
            pass
    with pytest.raises(ConnectionResetError):
        ours.sendall(b"more")
    ours.begin_answer()
    assert (ours.sent, ours.waited) == (0, 0.0)


class Waits:
    """As select.poll, for a client that takes `seconds` to read a little; `asked`: how long each
    wait for it may be, in ms.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked = seconds, list[float]()
        self.now = 0.0

    def __call__(self) -> "Waits":
        return self

    def register(self, *given: object) -> None:
        pass

    def poll(self, ms: float) -> bool:
        self.asked.append(ms)
        self.now += min(self.seconds, ms / 1000)
        return self.seconds * 1000 <= ms


def test_how_long_an_answer_waits_follows_from_what_was_read_of_it(
    pair: tuple[PacedSocket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """15 s at a time, and 15 s and one more for each 4,096 bytes in all."""
    ours, waits = pair[0], Waits(6.0)
    monkeypatch.setattr(connections.select, "poll", waits)
    monkeypatch.setattr(connections.time, "monotonic", lambda: waits.now)
    # Of 15 s: 9 are left after 6, and 3 after 12.
    for _ in range(2):
        ours._wait_for_client()
    with pytest.raises(ConnectionResetError):
        ours._wait_for_client()
    assert waits.asked == [15_000, 9_000, 3_000] and ours.waited == 15.0
    # 10,000,000 / 4,096 = 2,441.40625 s more.
    ours.sent, ours.waited = 10_000_000, 2_450.0
    ours._wait_for_client()
    assert waits.asked[3:] == [6_406.25]
    ours.begin_answer()
    ours.sent = 10_000_000
    ours._wait_for_client()
    assert waits.asked[4:] == [15_000]


# ---- sending -----------------------------------------------------------------------------------
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HEAD + b"Content-Length: 5\r\n\r\nhello",
        HEAD + b"content-length:0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na;x=1\r\n0123456789\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n0\r\n0\r\nTrailer: x\r\n\r\n",
    ],
)
def test_a_request_is_whole_with_its_last_byte(raw: bytes) -> None:
    """However it is cut: byte by byte, and in two parts."""
    progress = RequestProgress(MAX_BODY)
    assert [progress.is_whole(raw[:end]) for end in range(1, len(raw) + 1)] == [False] * (
        len(raw) - 1
    ) + [True]
    for cut in range(1, len(raw)):
        progress = RequestProgress(MAX_BODY)
        assert not progress.is_whole(raw[:cut]) and progress.is_whole(raw)
    assert RequestProgress(MAX_BODY).is_whole(raw + b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 999999\r\n\r\n" + b"x" * (MAX_BODY + 1),
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 2_000,
        b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + b"x" * 200,
    ],
)
def test_a_malformed_body_is_passed_on_without_waiting_for_more(body: bytes) -> None:
    assert RequestProgress(MAX_BODY).is_whole(HEAD + body)


def test_a_head_that_does_not_end_is_too_long() -> None:
    progress = RequestProgress(MAX_BODY)
    assert not progress.is_whole(HEAD) and not progress.is_too_long(HEAD)
    long = HEAD + b"X: " + b"x" * connections.MAX_HEAD
    assert not progress.is_whole(long) and progress.is_too_long(long)


def test_each_byte_of_a_chunked_body_is_scanned_once() -> None:
    """A chunk a byte, 30,000 of them: what was walked over is not walked over again."""

    class Counted(bytes):
        found = 0

        def find(self, *given: object) -> int:
            Counted.found += 1
            return super().find(*given)

    progress, raw = RequestProgress(1_000_000), HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    for _ in range(300):
        raw += b"1\r\nx\r\n" * 100
        assert not progress.is_whole(Counted(raw))
    assert Counted.found <= 30_000 + 2 * 300


# ---- how many ----------------------------------------------------------------------------------
def waiting(since: float | None) -> SimpleNamespace:
    class One(SimpleNamespace):
        __hash__ = object.__hash__

    return One(waits_since=since)


def test_an_address_has_so_many() -> None:
    addresses, held = Addresses(2), [waiting(None), waiting(None)]
    for one in held:
        assert addresses.has_room("a")
        addresses.add("a", one)
    assert not addresses.has_room("a") and addresses.has_room("b")
    addresses.remove("a", held[0])
    assert addresses.has_room("a")
    addresses.remove("a", held[1])
    assert addresses._by_address == {}
    assert Addresses(None).has_room("a")


def test_the_one_that_waits_longest_makes_room_if_it_has_waited_at_all() -> None:
    addresses = Addresses(4)
    busy, old, young, other = waiting(None), waiting(90.0), waiting(99.9), waiting(1.0)
    for one in (young, busy, old):
        addresses.add("a", one)
    addresses.add("b", other)
    assert addresses.find_idle("a", 100.0) is old and addresses.find_idle("c", 100.0) is None
    # Of all, the address with the most connections gives one up.
    assert addresses.find_idle_of_most(100.0) is old
    addresses.remove("a", old)
    assert addresses.find_idle("a", 100.0) is None


def test_a_shared_count_adds_up_what_each_process_counts() -> None:
    count = SharedCount()
    for place in (0, 1, 65):
        count.choose_part(place)
        count.add()
    assert count.total() == 3


# ---- a real server -----------------------------------------------------------------------------
@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path, METRICS="on")
    yield made
    made.stop()


def ended(opened: list[socket.socket]) -> list[socket.socket]:
    """Those that the server closed."""
    with selectors.DefaultSelector() as poll:
        for one in opened:
            poll.register(one, selectors.EVENT_READ)
        return [key.fileobj for key, _ in poll.select(0)]


def wait_for_end(opened: list[socket.socket], count: int) -> list[socket.socket]:
    end = time.monotonic() + 60
    while len(ended(opened)) < count and time.monotonic() < end:
        time.sleep(0.05)
    return ended(opened)


def ask_from(server: Server, address: str, path: str = "/api/health") -> bytes:
    """The answer to a request from this address, b"" where the connection is closed."""
    with server.connect(address) as connection, contextlib.suppress(OSError):
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join(iter(lambda: connection.recv(65_536), b""))
    return b""


def test_an_address_with_too_many_loses_some_and_others_lose_nothing(server: Server) -> None:
    crowd = [server.connect("127.0.0.2") for _ in range(266)]
    closed = wait_for_end(crowd, 10)
    assert len(closed) == 10
    health = json.loads(ask_from(server, "127.0.0.3").partition(b"\r\n\r\n")[2])
    assert health["connections"] == {"maxPerAddress": 256, "closed": 10}
    assert b"candor_connections_closed 10.0" in ask_from(server, "127.0.0.3", "/metrics")
    # What is idle makes room for who has something to say, of the same address, too.
    time.sleep(connections.MIN_WAIT_SECONDS)
    assert b" 200 OK" in ask_from(server, "127.0.0.2")
    assert len(wait_for_end(crowd, 11)) == 11
    for one in crowd:
        one.close()


def test_behind_a_proxy_addresses_are_not_told_apart(tmp_path: Path) -> None:
    server = Server(tmp_path, TRUSTED_PROXIES="1")
    try:
        crowd = [server.connect() for _ in range(266)]
        assert json.loads(ask_from(server, "127.0.0.1").partition(b"\r\n\r\n")[2])[
            "connections"
        ] == {"maxPerAddress": None, "closed": 0}
        assert ended(crowd) == []
        for one in crowd:
            one.close()
    finally:
        server.stop()


HALVES = (
    b"",
    b"G",
    b"GET / HT",
    HEAD,
    HEAD + b"Content-Length: 5000\r\n\r\n{",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n12",
)


def test_half_a_request_holds_no_thread(tmp_path: Path) -> None:
    """More of them than there are threads, from several addresses; each can still be completed."""
    server = Server(tmp_path)
    try:
        crowd = [server.connect(f"127.0.0.{2 + n % 3}") for n in range(600)]
        for n, one in enumerate(crowd):
            one.sendall(HALVES[n % len(HALVES)])
        for _ in range(20):
            assert b" 200 OK" in ask_from(server, "127.0.0.9")
        assert ended(crowd) == []
        whole = crowd[2]
        whole.sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
        assert whole.recv(100).startswith(b"HTTP/1.1 200 OK")
        for one in crowd:
            one.close()
    finally:
        server.stop()


def test_expect_100_continue_is_answered_before_the_body(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"POST /api/v1/posts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(b"{}")
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b"HTTP/1.1 401 " in answer


def exchange(server: Server, head: bytes, body: bytes) -> bytes:
    """The answer to a POST of a form after which the client sends no more."""
    with server.connect() as connection:
        connection.sendall(
            b"POST /connect HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n" + head + b"\r\n\r\n" + body
        )
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_body_that_ends_early_is_refused(server: Server) -> None:
    answer = exchange(server, b"Content-Length: 1000", b"name=A")
    assert b" 400 " in answer and b"the body did not arrive whole" in answer


def test_a_body_in_chunks_may_be_no_longer_than_another(server: Server) -> None:
    chunk = b"8000\r\n" + bytes(0x8000) + b"\r\n"
    answers = [
        exchange(server, b"Transfer-Encoding: chunked", chunk * count + b"0\r\n\r\n")
        for count in (1, 3)
    ]
    assert b" 413 " not in answers[0] and answers[1].startswith(b"HTTP/1.1 413 ")


def test_clients_that_do_not_hang_up_delay_no_others(tmp_path: Path) -> None:
    """Each was waited for two seconds by the thread that accepts: 50 of them, 100 s."""
    server = Server(tmp_path)
    try:
        crowd = [server.connect("127.0.0.2") for _ in range(50)]
        for one in crowd:
            one.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for one in crowd:
            assert b"".join(iter(lambda one=one: one.recv(65_536), b"")).startswith(b"HTTP/1.1 200")
        assert b" 200 OK" in ask_from(server, "127.0.0.3")
        for one in crowd:
            one.close()
    finally:
        server.stop()


def test_a_full_instance_closes_connections_of_the_address_that_holds_most(tmp_path: Path) -> None:
    """So few files may be open that there is room for some 100 connections; 400 are tried."""
    limited = ["sh", "-c", 'ulimit -n 360; exec "$@"', "limited"]
    server = Server(tmp_path, through=limited)
    try:
        crowd = [server.connect(f"127.0.0.{2 + n % 4}") for n in range(400)]
        time.sleep(connections.MIN_WAIT_SECONDS)
        for _ in range(10):
            assert b" 200 OK" in ask_from(server, "127.0.0.9")
        assert len(wait_for_end(crowd, 250)) >= 250
        for one in crowd:
            one.close()
    finally:
        server.stop()
    assert "Traceback" not in (tmp_path / "server.log").read_text()
