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

import pytest
from node import FakeClock
from requests.certs import where

from chain import rpc
from chain.rpc import BadAnswer, Refused, Rpc, Unavailable

SECRET = "sesame-0451"


def good(handler, query):
    handler.give(
        json.dumps({"jsonrpc": "2.0", "id": query["id"], "result": {"asked": query["method"]}})
    )


class Wire(BaseHTTPRequestHandler):
    """A scripted node: each request gets the next of `answers`, the last one repeatedly."""

    protocol_version, answers, asked = "HTTP/1.1", (good,), None

    def do_POST(self):
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((query["method"], time.monotonic(), self.client_address))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        answer(self, query)

    def give(self, body, status=200, **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # The client disconnected, which is what the test does.
        pass


@pytest.fixture
def node():
    """node(*answers) -> (URL with a secret, list of requests)."""
    servers = []

    def start(*answers):
        asked = []
        server = Quiet(
            ("127.0.0.1", 0),
            type("Scripted", (Wire,), {"answers": answers or (good,), "asked": asked}),
        )
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/{SECRET}?key={SECRET}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def clock():
    return FakeClock()


def line_to(clock, *urls, per_second=1000):
    return Rpc(urls, per_second, clock=clock, sleep=clock.sleep)


def line_without_servers(clock, *asks):
    """Each endpoint answers with its function."""
    line = line_to(clock, *["http://127.0.0.1:9"] * len(asks), per_second=1e9)
    for endpoint, ask in zip(line.endpoints, asks, strict=True):
        endpoint.ask = ask
    return line


def time_out(*_):
    raise rpc._Failure("ReadTimeout")


def say(text, status=200, **headers):
    return lambda handler, query: handler.give(text, status, **headers)


def answer(**content):
    return lambda handler, query: handler.give(
        json.dumps({"jsonrpc": "2.0", "id": query["id"], **content})
    )


def error(code):
    return answer(error={"code": code, "message": SECRET})


def result(value):
    return answer(result=value)


def reset(handler, query):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def cut_short(handler, query):
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"jsonrpc"')
    handler.close_connection = True


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
def test_a_response_names_its_endpoint_and_keeps_the_connection(node, clock):
    url, asked = node()
    line = line_to(clock, url)
    for _ in range(5):
        assert line.call("getSlot", []) == ({"asked": "getSlot"}, "endpoint 1")
    assert len(asked) == 5 and len({peer for _, _, peer in asked}) == 1


def test_a_request_contains_only_configured_headers(node, clock):
    """The address with its key and credentials, and JSON-RPC with increasing IDs."""
    said = []

    def hear(handler, query):
        said.append((handler.path, {**handler.headers}, query))
        good(handler, query)

    url, _ = node(hear)
    line = line_to(clock, url.replace("http://", "http://ada:p%40ss@"))
    line.call("getSlot", [])
    line.call("getBlock", [5, {"a": 1}])
    path, headers, query = said[1]
    assert path == f"/{SECRET}?key={SECRET}"
    assert query == {"jsonrpc": "2.0", "id": 2, "method": "getBlock", "params": [5, {"a": 1}]}
    assert said[0][2]["id"] == 1
    told = {name.lower(): value for name, value in headers.items()}
    assert told["content-type"] == "application/json" and told["user-agent"] == "candor"
    assert told["accept-encoding"] == "gzip,deflate"
    assert told["authorization"] == "Basic " + base64.b64encode(b"ada:p@ss").decode()


def test_a_tls_nodes_certificate_is_checked():
    endpoint = rpc.Endpoint("https://node.example:8899/key", "endpoint 1", 1, FakeClock())
    pool = endpoint._pool
    assert (pool.scheme, pool.host, pool.port) == ("https", "node.example", 8899)
    assert (pool.cert_reqs, pool.ca_certs) == ("CERT_REQUIRED", where())
    assert pool.pool.maxsize == 1


NO_ANSWERS = {
    "reset": reset,
    "cut short": cut_short,
    "500": say("", 500),
    "502 page": say("<html>", 502),
    "503": say("no", 503),
    "page": say("<!doctype html>"),
    "bytes": say(b"\x00\xff{"),
    "empty": say(""),
    "NaN": lambda h, q: h.give('{"jsonrpc":"2.0","id":%d,"result":NaN}' % q["id"]),
    "Infinity": lambda h, q: h.give('{"id":%d,"result":-Infinity}' % q["id"]),
    "deep": say('{"id":1,"result":' + "[" * 20_000 + "]" * 20_000 + "}"),
    "list": say("[]"),
    "wrong id": lambda h, q: h.give('{"id":999999,"result":1}'),
    "id as text": lambda h, q: h.give('{"id":"%d","result":1}' % q["id"]),
    "no result": lambda h, q: h.give('{"id":%d}' % q["id"]),
    "error null": lambda h, q: h.give('{"id":%d,"error":null}' % q["id"]),
    "error text": lambda h, q: h.give('{"id":%d,"error":"x"}' % q["id"]),
    "error code list": lambda h, q: h.give('{"id":%d,"error":{"code":[]}}' % q["id"]),
    "-32004": error(-32004),
    "-32014": error(-32014),
    "-32016": error(-32016),
    "-32603": error(-32603),
    "bad gzip": say(b"junk", Content_Encoding="gzip"),
    "redirect": say("", 302, Location="/elsewhere"),
    "permanent": say("", 308, Location="/elsewhere"),
}


@pytest.mark.parametrize("unusable", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_an_unusable_response_is_retried(node, clock, unusable):
    url, asked = node(unusable, good)
    assert line_to(clock, url).call("getSlot", [])[0] == {"asked": "getSlot"} and len(asked) == 2


@pytest.mark.parametrize("unusable", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_the_final_error_does_not_contain_the_address(node, clock, unusable, caplog):
    caplog.set_level(logging.INFO)
    url, asked = node(unusable)
    failure = pytest.raises((Unavailable, BadAnswer))
    with warnings.catch_warnings(record=True) as warned, failure as told:
        line_to(clock, url).call("getSlot", [])
    assert len(asked) == rpc.MAX_TRIES and str(told.value).startswith("getSlot: endpoint 1: ")
    said = f"{told.value!r} {told.value} {told.value.__cause__!r} {caplog.text} {warned}"
    assert SECRET not in said and url not in said and "127.0.0.1" not in said


@pytest.mark.parametrize(
    "name, why",
    [
        ("503", "HTTP 503"),
        ("page", "the response is not JSON"),
        ("list", "the response is not an object"),
        ("wrong id", "the response belongs to another request"),
        ("no result", "the response belongs to another request"),
        ("error text", "error unknown"),
        ("-32016", "error -32016"),
    ],
)
def test_health_gets_the_reason_for_the_failure(node, clock, name, why):
    url, _ = node(NO_ANSWERS[name])
    with pytest.raises(Unavailable) as told:
        line_to(clock, url).call("getSlot", [])
    assert str(told.value) == f"getSlot: endpoint 1: {why}"


def test_an_unreachable_node_is_reported(clock):
    with pytest.raises(Unavailable, match="endpoint 1: NewConnectionError"):
        line_to(clock, f"http://127.0.0.1:9/{SECRET}").call("getSlot", [])


@pytest.mark.parametrize("code", [-32602, -32015, -32600])
def test_an_error_of_ours_is_not_retried(node, clock, code):
    url, asked = node(error(code))
    with pytest.raises(Refused, match=str(code)):
        line_to(clock, url).call("getSlot", [])
    assert len(asked) == 1


def test_a_method_missing_at_one_endpoint_is_sent_to_the_next(node, clock):
    (first, asked), (second, _) = node(error(-32601)), node()
    assert line_to(clock, first, second).call("getBlock", [])[1] == "endpoint 2"
    with pytest.raises(Refused):
        line_to(clock, first).call("getBlock", [])
    assert len(asked) == 2


def test_a_response_the_caller_rejects_is_requested_elsewhere(node, clock):
    def check(value):
        if value != "right":
            raise ValueError("it is wrong")
        return value

    (first, _), (second, _) = node(result("wrong")), node(result("right"))
    assert line_to(clock, first, second).call("getSlot", [], check) == ("right", "endpoint 2")
    with pytest.raises(BadAnswer, match="getSlot: endpoint 1: it is wrong"):
        line_to(clock, first).call("getSlot", [], check)


@pytest.mark.parametrize("code", [-32001, -32004, -32007, -32009, -32014, -32020])
def test_missing_everywhere_differs_from_nodes_being_down(node, clock, code):
    """All nodes are asked, and the error differs from a node that is down: an unknown `before`
    restarts a walk, and waiting wouldn't help.
    """
    url, _ = node(error(code))
    with pytest.raises(BadAnswer, match=str(code)):
        line_to(clock, url).call("getSignaturesForAddress", [])


# ---- size and time -------------------------------------------------------------------------------
def test_a_response_over_30_mb_is_aborted(node, clock):
    url, asked = node(say('{"result":"' + "A" * 30_000_000 + '"}'), good)
    assert line_to(clock, url).call("getSlot", [])[0] == {"asked": "getSlot"} and len(asked) == 2


def test_a_compressed_bomb_is_measured_unpacked(node, clock):
    url, _ = node(
        say(gzip.compress(b'{"result":"' + b"A" * 30_000_000 + b'"}'), Content_Encoding="gzip")
    )
    with pytest.raises(BadAnswer, match="endpoint 1: the response is larger than 16 MB$"):
        line_to(clock, url).call("getSlot", [])


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b" " * 500,
        b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 500,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n" * 50,
    ],
    ids=["body", "headers", "chunks"],
)
def test_a_slow_trickle_ends_at_the_deadline(node, clock, monkeypatch, raw):
    """Every byte comes in time, but the response never ends: the deadline covers the whole response
    with headers.
    """
    monkeypatch.setattr(rpc, "DEADLINE_SECONDS", 1)
    url, asked = node(drip(raw), good)
    begun = time.monotonic()
    assert line_to(clock, url).call("getSlot", [])[0] == {"asked": "getSlot"}
    # The full response would take 25 seconds.
    assert 0.9 < time.monotonic() - begun < 20 and len(asked) == 2


def test_silence_ends_at_the_deadline(node, clock, monkeypatch):
    monkeypatch.setattr(rpc, "DEADLINE_SECONDS", 1)
    answered = threading.Event()
    # Waiting for a response would last until the test ends.
    url, asked = node(lambda handler, query: answered.wait(60), good)
    line_to(clock, url).call("getSlot", [])
    assert not answered.is_set() and len(asked) == 2
    answered.set()


# ---- pace, preference, rests ---------------------------------------------------------------------
@pytest.mark.parametrize("per_second, calls, seconds", [(2, 5, 2.0), (0.1, 2, 10.0)])
def test_each_method_has_its_own_rate(node, clock, per_second, calls, seconds):
    """Concurrent calls of another method add nothing."""
    url, _ = node()
    line, begun = line_to(clock, url, per_second=per_second), clock()
    for _ in range(calls):
        line.call("getTransaction", [])
        line.call("getSlot", [])
    assert clock() - begun == seconds


def test_the_first_endpoint_is_preferred(node, clock):
    """Even at its rate limit: the second may cost money."""
    (first, a), (second, b) = node(), node()
    line = line_to(clock, first, second, per_second=2)
    assert {line.call("getSlot", [])[1] for _ in range(6)} == {"endpoint 1"}
    assert (len(a), len(b)) == (6, 0)


def test_a_second_endpoint_takes_over_until_the_first_returns(node, clock):
    (first, _), (second, _) = node(say("", 500), good), node()
    line = line_to(clock, first, second)
    used = [line.call("getSlot", [])[1] for _ in range(3)]
    assert used == ["endpoint 2", "endpoint 1", "endpoint 1"]


def test_an_endpoint_to_avoid_is_used_last(node, clock):
    (first, _), (second, _) = node(), node()
    line = line_to(clock, first, second)
    assert line.call("getSlot", [], avoid="endpoint 1")[1] == "endpoint 2"
    assert line_to(clock, first).call("getSlot", [], avoid="endpoint 1")[1] == "endpoint 1"


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
def test_a_throttled_endpoint_pauses_all_methods(node, clock, throttled, rest):
    """Not just one request or method. Afterwards it is tried again."""
    url, asked = node(throttled, good)
    line = line_to(clock, url)
    with pytest.raises(Unavailable, match="^getSlot: every endpoint is paused$") as told:
        line.call("getSlot", [])
    assert told.value.retry_in == rest and line.report()["resting"] == {"endpoint 1": rest}
    with pytest.raises(Unavailable):
        line.call("getBlock", [])
    clock.sleep(rest - 3.1)
    with pytest.raises(Unavailable):
        line.call("getBlock", [])
    assert len(asked) == 1
    clock.sleep(3.2)
    assert line.call("getBlock", [])[0] == {"asked": "getBlock"} and line.report()["resting"] == {}


def test_repeated_failures_pause_longer_with_one_try_between(node, clock):
    """After three failures it pauses 1 s, then one try is let through (half open); each further
    failure doubles the pause, up to five minutes. One success ends it.
    """
    url, asked = node(*[say("", 500)] * 14, good)
    line, tried = line_to(clock, url), []
    for _ in range(30):
        before = len(asked)
        try:
            line.call("getSlot", [])
        except Unavailable as told:
            tried.append(len(asked) - before)
            clock.sleep(told.retry_in)
        else:
            break
    assert tried[0] == rpc.MAX_TRIES and set(tried[3:]) <= {0, 1} and len(asked) == 15
    assert line.endpoints[0].rest(clock()) == 0 and 300 <= clock() - 1_000 < 4_000


def test_requests_in_the_last_minute_are_counted(node, clock):
    url, _ = node()
    line = line_to(clock, url)
    line.call("getSlot", []), clock.sleep(50), line.call("getSlot", [])
    assert line.report() == {"requestsLastMinute": 2, "endpoints": 1, "resting": {}}
    clock.sleep(11)
    assert line.report()["requestsLastMinute"] == 1


def test_silence_is_counted_from_the_first_request_until_any_response(clock):
    line = line_without_servers(clock, time_out)
    assert line.silent_for() == 0
    for _ in range(2):
        with pytest.raises(Unavailable):
            line.call("getSlot", [])
        clock.sleep(20)
    assert line.silent_for() >= 40 and line.answers == 0
    line.endpoints[0].rests_until = 0.0
    line.endpoints[0].ask = lambda *_: 5
    line.call("getSlot", [])
    assert line.silent_for() == 0 and line.answers == 1


def test_no_retry_starts_after_a_long_call(clock):
    tries = []

    def hang(*_):
        tries.append(1)
        clock.sleep(rpc.DEADLINE_SECONDS)
        time_out()

    with pytest.raises(Unavailable):
        line_without_servers(clock, hang, hang).call("getSlot", [])
    assert len(tries) == 2
    assert rpc.DEADLINE_SECONDS < rpc.CALL_SECONDS < 2 * rpc.DEADLINE_SECONDS < 60


def test_a_crash_in_the_check_means_a_malformed_response(clock):
    line = line_without_servers(clock, lambda *_: [])
    with pytest.raises(BadAnswer, match=r"endpoint 1: a malformed response \(TypeError\)$"):
        line.call("getSlot", [], check=lambda result: result["value"])


def test_nodes_are_reachable_if_any_answers_a_cheap_request(clock):
    asked = []

    def hear(method, params, ident):
        asked.append((method, params))
        return 5

    assert not line_without_servers(clock, time_out, time_out).is_reachable()
    line = line_without_servers(clock, time_out, hear)
    assert line.is_reachable() and line.answers == 1
    assert asked == [("getSlot", [])]


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


# ---- methods that only some nodes have -----------------------------------------------------------
MISSING = {
    "unknown": (error(-32601), 86_400),
    "invalid": (error(-32602), 86_400),
    "forbidden": (say("no", 403), 86_400),
    "internal": (error(-32603), 300),
    "broken": (say("no", 500), 300),
    "nonsense": (say("no"), 300),
    "huge": (say(b"x" * (17 * 2**20)), 300),
}


def ask_in_bulk(line):
    return line.call_optional("inBulk", [], lambda result: result)


@pytest.mark.parametrize("missing, seconds", MISSING.values(), ids=MISSING)
def test_other_methods_still_use_the_endpoint_after_a_failure(node, clock, missing, seconds):
    url, asked = node(missing, good)
    line = line_to(clock, url)
    assert ask_in_bulk(line) is None and ask_in_bulk(line) is None
    assert line.report()["resting"] == {} and len(asked) == 1
    line.call("getSlot", [])
    clock.sleep(seconds - 1)
    assert ask_in_bulk(line) is None
    clock.sleep(2)
    assert ask_in_bulk(line) == ({"asked": "inBulk"}, "endpoint 1")


def test_throttling_pauses_the_endpoint(node, clock):
    url, _ = node(say("", 429, Retry_After="20"), good)
    line = line_to(clock, url)
    assert ask_in_bulk(line) is None
    assert line.report()["resting"] == {"endpoint 1": 20.0}
