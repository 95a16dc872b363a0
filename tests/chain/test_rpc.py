"""Requests to nodes: pace, preference, pauses, deadlines, and every kind of unusable response. A
loopback server sends what the test tells it to.
"""

import base64
import gzip
import json
import logging
import socket
import struct
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import pytest
from node import FakeClock
from requests.certs import where

from chain import rpc
from chain.rpc import BadAnswer, Refused, Rpc, Unavailable

SECRET = "sesame-0451"


class Wire(BaseHTTPRequestHandler):
    """A scripted node: each request gets the next of `answers`, the last one repeatedly."""

    protocol_version, answers, asked = "HTTP/1.1", (), None

    def do_POST(self):
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self, query))
        self.answers[min(len(self.asked), len(self.answers)) - 1](self, query)

    def log_message(self, *args):
        pass


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def connect(clock):
    """connect([answer, ...], ...) -> (an Rpc over one node per script, each one's requests...)"""
    servers = []

    def begin(*scripts, per_second=1000, login=""):
        urls, asked = [], [[] for _ in scripts]
        for script, heard in zip(scripts, asked, strict=True):
            told = {"answers": script, "asked": heard}
            server = ThreadingHTTPServer(("127.0.0.1", 0), type("Scripted", (Wire,), told))
            # The client disconnects, as the test wants.
            server.handle_error = lambda *_: None
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            servers.append(server)
            urls.append(f"http://{login}127.0.0.1:{server.server_port}/{SECRET}?key={SECRET}")
        return Rpc(urls, per_second, clock=clock, sleep=clock.sleep), *asked

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def line_without_servers(clock, *asks):
    """Each endpoint answers with its function."""
    line = Rpc(["http://127.0.0.1:9"] * len(asks), 1e9, clock=clock, sleep=clock.sleep)
    for endpoint, ask in zip(line.endpoints, asks, strict=True):
        endpoint.ask = ask
    return line


def ask(line, method="getSlot", **more):
    """Return the endpoint that answered."""
    result, endpoint = line.call(method, [], **more)
    assert result == {"asked": method}
    return endpoint


def time_out(*_):
    raise rpc._Failure("ReadTimeout")


def answer_slot(*_):
    return {"asked": "getSlot"}


# ---- what nodes say ------------------------------------------------------------------------------
def say(text, status=200, **headers):
    body = text if isinstance(text, bytes) else text.encode()

    def handle(handler, query):
        handler.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(body)

    return handle


def answer(**content):
    """Each value may be a function of the query."""

    def handle(handler, query):
        told = {name: one(query) if callable(one) else one for name, one in content.items()}
        say(json.dumps({"jsonrpc": "2.0", "id": query["id"], **told}))(handler, query)

    return handle


good = answer(result=lambda query: {"asked": query["method"]})


def error(code):
    return answer(error={"code": code, "message": SECRET})


def answer_raw(rest):
    """An object with the right ID, written by hand."""
    return lambda handler, query: say('{"id":%d%s}' % (query["id"], rest))(handler, query)


def reset(handler, query):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def cut_short(handler, query):
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"jsonrpc"')
    handler.close_connection = True


def stay_silent(handler, query):
    """Until the client disconnects."""
    handler.rfile.read(1)


def drip(raw):
    """Send `raw` a byte at a time, endlessly: no single read waits long."""

    def handle(handler, query):
        handler.close_connection = True
        try:
            for byte in raw:
                handler.connection.sendall(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            pass

    return handle


# ---- what is an answer ---------------------------------------------------------------------------
def test_requests_share_a_connection_and_contain_only_what_is_configured(connect):
    """The address with its key and credentials, and JSON-RPC with increasing IDs."""
    line, asked = connect([good], login="ada:p%40ss@")
    assert line.call("getSlot", [])[1] == "endpoint 1"
    line.call("getBlock", [5, {"a": 1}])
    (handler, first), (same, query) = asked
    assert handler is same and handler.path == f"/{SECRET}?key={SECRET}" and first["id"] == 1
    assert query == {"jsonrpc": "2.0", "id": 2, "method": "getBlock", "params": [5, {"a": 1}]}
    names = ("Content-Type", "User-Agent", "Accept-Encoding", "Authorization")
    login = "Basic " + base64.b64encode(b"ada:p@ss").decode()
    told = ["application/json", "candor", "gzip,deflate", login]
    assert [handler.headers[name] for name in names] == told


def test_a_tls_nodes_certificate_is_checked():
    endpoint = rpc.Endpoint("https://node.example:8899/key", "endpoint 1", 1, FakeClock())
    pool = endpoint._pool
    assert (pool.scheme, pool.host, pool.port) == ("https", "node.example", 8899)
    assert (pool.cert_reqs, pool.ca_certs) == ("CERT_REQUIRED", where())
    assert pool.pool.maxsize == 1


NOT_OURS = "the response belongs to another request"
NO_JSON = "the response is not JSON"
TOO_LARGE = "the response is larger than 16 MB"
LARGE = b'{"result":"' + b"A" * (17 << 20) + b'"}'
# With the reason that health gets, if it matters.
NO_ANSWERS = {
    "reset": (reset, ""),
    "cut short": (cut_short, ""),
    "500": (say("", 500), "HTTP 500"),
    "502 page": (say("<html>", 502), "HTTP 502"),
    "503": (say("no", 503), "HTTP 503"),
    "page": (say("<!doctype html>"), NO_JSON),
    "bytes": (say(b"\x00\xff{"), NO_JSON),
    "empty": (say(""), NO_JSON),
    "NaN": (answer_raw(',"result":NaN'), NO_JSON),
    "Infinity": (answer_raw(',"result":-Infinity'), NO_JSON),
    "deep": (say('{"id":1,"result":' + "[" * 20_000 + "]" * 20_000 + "}"), ""),
    "list": (say("[]"), "the response is not an object"),
    "wrong id": (answer(id=999_999, result=1), NOT_OURS),
    "id as text": (answer(id=lambda query: str(query["id"]), result=1), NOT_OURS),
    "no result": (answer_raw(""), NOT_OURS),
    "error null": (answer(error=None), ""),
    "error text": (answer(error="x"), "error unknown"),
    "error code list": (answer(error={"code": []}), "error unknown"),
    "unhealthy": (error(-32016), "error -32016"),
    "internal": (error(-32603), "error -32603"),
    "bad gzip": (say(b"junk", Content_Encoding="gzip"), ""),
    "redirect": (say("", 302, Location="/elsewhere"), ""),
    "permanent": (say("", 308, Location="/elsewhere"), ""),
    "large": (say(LARGE), TOO_LARGE),
    "a compressed bomb": (say(gzip.compress(LARGE), Content_Encoding="gzip"), TOO_LARGE),
}


@pytest.mark.parametrize("unusable, why", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_an_unusable_response_is_retried(connect, unusable, why, caplog):
    """The final error has the reason, but not the address."""
    caplog.set_level(logging.INFO)
    line, asked = connect([unusable, good])
    assert ask(line) == "endpoint 1" and len(asked) == 2
    line, asked = connect([unusable])
    failure = pytest.raises(BadAnswer if why == TOO_LARGE else Unavailable)
    with warnings.catch_warnings(record=True) as warned, failure as told:
        ask(line)
    assert len(asked) == rpc.MAX_TRIES
    text = str(told.value)
    assert text.startswith("getSlot: endpoint 1: ") and text.endswith(f": {why}" if why else "")
    said = f"{told.value!r} {text} {told.value.__cause__!r} {caplog.text} {warned}"
    assert SECRET not in said and "127.0.0.1" not in said


def test_an_unreachable_node_is_reported():
    with pytest.raises(Unavailable, match="endpoint 1: NewConnectionError"):
        ask(Rpc(["http://127.0.0.1:9"], 1000, sleep=lambda seconds: None))


@pytest.mark.parametrize(
    "raised, tries, codes",
    [
        (Refused, 1, (-32600, -32601, -32602, -32015)),
        (BadAnswer, rpc.MAX_TRIES, (-32001, -32004, -32007, -32009, -32014, -32020)),
    ],
)
def test_an_error_is_ours_or_says_that_something_is_missing(connect, raised, tries, codes):
    """Our own errors aren't retried. Missing everywhere differs from nodes being down: all nodes
    are asked, but an unknown `before` restarts a walk, and waiting wouldn't help.
    """
    for code in codes:
        line, asked = connect([error(code)])
        with pytest.raises(raised, match=str(code)):
            ask(line)
        assert len(asked) == tries


def test_a_response_the_caller_rejects_is_requested_elsewhere(connect):
    """A crash of its check means a malformed response."""

    def check(value):
        if value["it"] != "right":
            raise ValueError("it is wrong")
        return value["it"]

    wrong, right = answer(result={"it": "wrong"}), answer(result={"it": "right"})
    line, *_ = connect([wrong], [right])
    assert line.call("getSlot", [], check) == ("right", "endpoint 2")
    for script, why in ((wrong, "it is wrong"), (good, r"a malformed response \(KeyError\)")):
        line, _ = connect([script])
        with pytest.raises(BadAnswer, match=f"^getSlot: endpoint 1: {why}$"):
            line.call("getSlot", [], check)


# ---- time ----------------------------------------------------------------------------------------
SLOW = {
    "body": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b" " * 500),
    "headers": drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 500),
    "chunks": drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n" * 50),
    "nothing": stay_silent,
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_a_slow_response_ends_at_the_deadline(connect, monkeypatch, slow):
    """Even if every byte comes in time: the deadline covers the whole response with headers, which
    would take 25 seconds.
    """
    monkeypatch.setattr(rpc, "DEADLINE_SECONDS", 0.5)
    line, asked = connect([slow, good])
    begun = time.monotonic()
    assert ask(line) == "endpoint 1" and len(asked) == 2
    assert 0.4 < time.monotonic() - begun < 20


def test_nothing_is_read_after_the_deadline(monkeypatch):
    ours, theirs = socket.socketpair()
    theirs.send(b"ab")
    timed, late = rpc._TimedReader(ours), bytearray(1)
    assert timed.readinto(late) == 1 and late == b"a"
    monkeypatch.setattr(rpc, "DEADLINE_SECONDS", 0)
    with pytest.raises(TimeoutError, match="the deadline has passed"):
        rpc._TimedReader(ours).readinto(late)
    for one in (timed, ours, theirs):
        one.close()


def test_no_retry_starts_after_a_long_call(clock):
    tries = []

    def hang(*_):
        tries.append(1)
        clock.sleep(rpc.DEADLINE_SECONDS)
        time_out()

    with pytest.raises(Unavailable):
        ask(line_without_servers(clock, hang, hang))
    assert len(tries) == 2
    assert rpc.DEADLINE_SECONDS < rpc.CALL_SECONDS < 2 * rpc.DEADLINE_SECONDS < 60


# ---- pace, preference, rests ---------------------------------------------------------------------
@pytest.mark.parametrize("per_second, calls, seconds", [(2, 5, 2.0), (0.1, 2, 10.0)])
def test_each_method_has_its_own_rate(connect, clock, per_second, calls, seconds):
    """Concurrent calls of another method add nothing."""
    line, _ = connect([good], per_second=per_second)
    begun = clock()
    for _ in range(calls):
        ask(line, "getTransaction"), ask(line)
    assert clock() - begun == seconds


@pytest.mark.parametrize(
    "scripts, avoid, used",
    [
        # Even at its rate limit, because the second may cost money.
        ([[good], [good]], None, [1] * 6),
        # Once it returns.
        ([[say("", 500), good], [good]], None, [2, 1, 1]),
        # For methods that it has.
        ([[error(-32601)], [good]], None, [2]),
        # Unless it is to be avoided and there is another one.
        ([[good], [good]], "endpoint 1", [2, 2]),
        ([[good]], "endpoint 1", [1]),
        # Or the other one is paused.
        ([[good], [say("", 429)]], "endpoint 1", [1, 1]),
    ],
)
def test_the_first_endpoint_is_preferred(connect, scripts, avoid, used):
    line, *_ = connect(*scripts, per_second=2)
    assert [ask(line, avoid=avoid) for _ in used] == [f"endpoint {n}" for n in used]


PAUSES = {
    "429": (say("", 429), 10),
    "429 with seconds": (say("", 429, Retry_After="7"), 7),
    "429 with a date": (say("", 429, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"), 10),
    "429 for ever": (say("", 429, Retry_After="99999"), 300),
    "429 for more digits than Python reads": (say("", 429, Retry_After="9" * 5_000), 300),
    "429 inside": (error(429), 10),
    "behind": (error(-32005), 10),
    "busy": (error(-32029), 10),
    "403": (say("", 403), 600),
}


@pytest.mark.parametrize("throttled, rest", PAUSES.values(), ids=PAUSES)
def test_a_throttled_endpoint_pauses_all_methods(connect, clock, throttled, rest):
    """Not just one request or method. Afterwards it is tried again."""
    line, asked = connect([throttled, good])
    with pytest.raises(Unavailable, match="^getSlot: every endpoint is paused$") as told:
        ask(line)
    assert told.value.retry_in == rest and line.report()["resting"] == {"endpoint 1": rest}
    for passed in (0, rest - 3.1):
        clock.sleep(passed)
        with pytest.raises(Unavailable):
            ask(line, "getBlock")
    assert len(asked) == 1
    clock.sleep(3.2)
    assert ask(line, "getBlock") == "endpoint 1" and line.report()["resting"] == {}


def test_repeated_failures_pause_longer_with_one_try_between(clock):
    """The third failure pauses it for a second, each further one twice as long, up to five minutes;
    then one try is let through. The first call fails four times. One success ends it.
    """
    hear = mock.Mock(side_effect=[*[rpc._Failure("HTTP 500")] * 14, *[answer_slot()] * 2])
    line, pauses, begun = line_without_servers(clock, hear), [], clock()
    while hear.call_count < 15:
        try:
            ask(line)
        except Unavailable as told:
            pauses.append(told.retry_in)
            clock.sleep(told.retry_in)
    assert pauses == [0, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert round(clock() - begun) == 1 + 2 + sum(pauses)
    assert line.endpoints[0].failures == 0 and ask(line) == "endpoint 1"


def test_requests_in_the_last_minute_are_counted(clock):
    line = line_without_servers(clock, answer_slot)
    ask(line), clock.sleep(50), ask(line)
    assert line.report() == {"requestsLastMinute": 2, "endpoints": 1, "resting": {}}
    clock.sleep(11)
    assert line.report()["requestsLastMinute"] == 1


def test_silence_is_counted_from_the_first_request_until_any_response(clock):
    line = line_without_servers(clock, time_out)
    assert line.silent_for() == 0
    for _ in range(2):
        with pytest.raises(Unavailable):
            ask(line)
        clock.sleep(20)
    assert line.silent_for() >= 40 and line.answers == 0
    line.endpoints[0].rests_until, line.endpoints[0].ask = 0.0, answer_slot
    ask(line)
    assert line.silent_for() == 0 and line.answers == 1


def test_nodes_are_reachable_if_any_answers_a_cheap_request(clock):
    hear = mock.Mock(return_value=5)
    assert not line_without_servers(clock, time_out, time_out).is_reachable()
    line = line_without_servers(clock, time_out, hear)
    assert line.is_reachable() and line.answers == 1
    assert [call.args[:2] for call in hear.call_args_list] == [("getSlot", [])]


# ---- methods that only some nodes have -----------------------------------------------------------
def ask_in_bulk(line):
    return line.call_optional("inBulk", [], lambda result: result)


@pytest.mark.parametrize(
    "missing, seconds",
    [
        *((one, 86_400) for one in (error(-32601), error(-32602), say("no", 403))),
        *((one, 300) for one in (error(-32603), say("no", 500), say("no"), say(LARGE))),
    ],
)
def test_other_methods_still_use_the_endpoint_after_a_failure(connect, clock, missing, seconds):
    line, asked = connect([missing, good])
    assert ask_in_bulk(line) is None and ask_in_bulk(line) is None
    assert line.report()["resting"] == {} and len(asked) == 1
    ask(line)
    clock.sleep(seconds - 1)
    assert ask_in_bulk(line) is None
    clock.sleep(2)
    assert ask_in_bulk(line) == ({"asked": "inBulk"}, "endpoint 1")


def test_throttling_pauses_the_endpoint(connect):
    line, _ = connect([say("", 429, Retry_After="20"), good])
    assert ask_in_bulk(line) is None and line.report()["resting"] == {"endpoint 1": 20.0}
