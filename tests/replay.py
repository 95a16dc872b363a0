"""A Solana node over HTTP: serves the recorded history (tests/data) and misbehaves on demand.

    .venv/bin/python tests/replay.py --port 8899

`POST /` takes one JSON-RPC call. `POST /control` takes {"tip": slot or null, "faults": [name...],
"rate": share of the calls that get a fault, "seed": N}, resets the counters, and `GET /stats`
returns how often each method was called and each fault was given.
"""

import argparse
import hashlib
import json
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus import read_history
from node import Chain, FakeNode, NodeError

# Longer than the deadline in tests/evidence/test_faults.py, and a response above its limit.
HANG_SECONDS, DRIP_SECONDS, HUGE_BYTES = 0.25, 0.05, 17_000_000
ANSWER = '{"jsonrpc":"2.0","id":1,'
# Status, body and content type, instead of a response.
REFUSALS = {
    "429": (429, "", "application/json"),
    "429_ra": (429, ANSWER + '"error":{"code":429,"message":"Too many"}}', "application/json"),
    "500": (500, "", "application/json"),
    "502_html": (502, "<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    "503": (503, "upstream connect error", "text/plain"),
    "403": (403, ANSWER + '"error":{"code":403,"message":"Access forbidden"}}', "application/json"),
    "not_json": (200, "\0{not json", "application/json"),
    "html200": (200, "<!doctype html><title>Just a moment...</title>", "text/html"),
    "nan": (200, ANSWER + '"result":NaN}', "application/json"),
    "deep": (200, ANSWER + '"result":' + "[" * 20_000 + "]" * 20_000 + "}", "application/json"),
    "huge": (200, ANSWER + f'"result":"{"A" * HUGE_BYTES}"}}', "application/json"),
}
HEADERS = {"429_ra": {"Retry-After": "0"}, "503": {"Retry-After": "0"}}
ERRORS = {
    "err_-32005": {"message": "Node is behind by 153 slots", "data": {"numSlotsBehind": 153}},
    "err_-32603": {"message": "Internal error"},
    "err_-32004": {"message": "Block not available for slot"},
    "err_-32014": {"message": "Block status not yet available for slot"},
    "err_-32016": {"message": "Minimum context slot has not been reached"},
    "err_429": {"message": "Too many requests"},
}


# ---- faults in a response ------------------------------------------------------------------------
def cut_hole(page, dice):
    if len(page) <= 3:
        return page
    start = dice.randrange(1, len(page) - 1)
    return page[:start] + page[min(start + 3, len(page) - 1) :]


def fall_behind(page, dice):
    newest = max((one["slot"] for one in page), default=0) - dice.randrange(20, 200)
    return [one for one in page if one["slot"] <= newest]


PAGE_FAULTS = {
    "reorder": lambda page, dice: dice.sample(page, len(page)),
    "duplicate": lambda page, dice: [one for one in page for _ in (1, 2)],
    "lag": fall_behind,
    "hole": cut_hole,
    "empty": lambda page, dice: [],
    "short_page": lambda page, dice: page[: max(1, len(page) // 3)],
    "null_blocktime": lambda page, dice: [one | {"blockTime": None} for one in page],
}
RECEIPT_FAULTS = ("null_tx", "wrong_tx", "missing_meta")
ANYWHERE = ("timeout", "reset", "truncated", "slow_drip", "wrong_type", "bad_id")
FITTING = {
    "getTransaction": RECEIPT_FAULTS,
    "getSignaturesForAddress": tuple(PAGE_FAULTS),
}


class Replay:
    """The node and its faults."""

    def __init__(self):
        self.node = FakeNode(Chain.recorded(read_history()))
        self.lock = threading.Lock()
        self.control({})

    def control(self, change):
        with self.lock:
            if "tip" in change:
                self.node.tip = change["tip"]
            self.faults, self.rate = change.get("faults", []), change.get("rate", 0)
            self.seed = change.get("seed", 1)
            self.given, self.seen = Counter(), Counter()
            self.node.calls.clear()

    def draw(self, call):
        """The fault for a call, or None, and a Random for it.

        Both depend on the seed, the call and how often it came, not on timing.
        """
        text = json.dumps(call, sort_keys=True)
        with self.lock:
            self.seen[text] += 1
            said = f"{self.seed}|{self.seen[text]}|{text}"
            dice = random.Random(hashlib.sha256(said.encode()).digest())
            fits = {*REFUSALS, *ERRORS, *ANYWHERE, *FITTING.get(call[0], ())}
            choice = [fault for fault in self.faults if fault in fits]
            if not choice or dice.random() >= self.rate:
                return None, dice
            fault = dice.choice(choice)
            self.given[fault] += 1
            return fault, dice

    def call(self, method, params, fault, dice):
        """The result. Raises NodeError."""
        if not hasattr(FakeNode, f"_{method}"):
            raise NodeError(-32601)
        if fault == "wrong_tx":
            rows = self.node.chain.rows
            params = [dice.choice(rows).signature, *params[1:]]
        result = self.node.answer(method, params)
        if fault in PAGE_FAULTS:
            return PAGE_FAULTS[fault](result, dice)
        if fault == "missing_meta" and result:
            return result | {"meta": None}
        if fault == "wrong_type":
            return {"a": 1} if isinstance(result, list) else [1, 2, 3]
        return None if fault == "null_tx" else result


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    def do_GET(self):
        replay = self.server.replay
        self.reply(200, json.dumps({"calls": replay.node.calls, "faults": replay.given}))

    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path == "/control":
                self.server.replay.control(said)
                self.do_GET()
            else:
                self.answer(said)
        except OSError:
            # The client disconnected.
            self.close_connection = True

    def answer(self, query):
        call = query["method"], query["params"]
        fault, dice = self.server.replay.draw(call)
        if fault == "timeout":
            time.sleep(HANG_SECONDS)
        if fault == "reset":
            return self.break_off(abruptly=True)
        if fault in REFUSALS:
            return self.reply(*REFUSALS[fault], **HEADERS.get(fault, {}))
        answer = {"jsonrpc": "2.0", "id": 999_999 if fault == "bad_id" else query["id"]}
        if fault in ERRORS:
            answer["error"] = {"code": int(fault[4:]), **ERRORS[fault]}
        else:
            try:
                answer["result"] = self.server.replay.call(*call, fault, dice)
            except NodeError as error:
                answer["error"] = {"code": error.code, "message": "refused"}
        body = json.dumps(answer)
        return (
            self.dribble(body, fault)
            if fault in ("truncated", "slow_drip")
            else self.reply(200, body)
        )

    def reply(self, status, body="", kind="application/json", **headers):
        self.begin(status, body, kind, **headers)
        self.wfile.write(body.encode())

    def begin(self, status, body, kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def dribble(self, body, fault):
        """Send half, or a byte occasionally, so that a read timeout never triggers."""
        self.begin(200, body)
        if fault == "truncated":
            self.wfile.write(body[: len(body) // 2].encode())
        else:
            for letter in body[:8]:
                self.wfile.write(letter.encode())
                self.wfile.flush()
                time.sleep(DRIP_SECONDS)
        self.break_off()

    def break_off(self, abruptly=False):
        self.close_connection = True
        self.wfile.flush()
        if abruptly:
            # RST instead of FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


def main():
    parser = argparse.ArgumentParser(description="A node that serves recorded transactions")
    parser.add_argument("--port", type=int, default=8899, help="0: any free port")
    server = Server(("127.0.0.1", parser.parse_args().port), Handler)
    server.replay = Replay()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
