"""The examples, run as their users run them: one file, the standard library, against a running server, and against one that fails."""
import ast
import http.client
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ground
import pytest
from live import ROOT
from service import Service, address, signature

import models
from books import trade_uid

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_one_file_of_the_standard_library(path):
    names = {alias.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


# ---- bot.py -----------------------------------------------------------------------------------------------------------------
def run_bot(folder, environ):
    return subprocess.run([sys.executable, EXAMPLES / "bot.py", "--once"], cwd=folder, env=environ, capture_output=True, text=True, timeout=60)


def observe(live, name, slot, **more):
    """A trade of the live influencer's wallet, as observation stores it beside the server."""
    with models.connect(ground.settings_of(live.folder / "data")).connection_context():
        Service.observe_trade(None, address("live"), name, slot, uid=trade_uid(address("live"), signature(name)), **more)
    models.database.close_all()


def test_the_bot_tells_each_later_trade_once_and_is_verified(live, tmp_path):
    observe(live, "before", 1)
    assert run_bot(tmp_path, live.environ).stdout == ""
    observe(live, "bought", 2, sol=-1_500_000_000, raw=2_500, decimals=2)
    observe(live, "gift", 3, kind="transfer_in")
    observe(live, "sold", 4, kind="sell", sol=2_000_000_000, raw=-2_500, decimals=2, realized="matched", result=500_000_000)
    first = run_bot(tmp_path, live.environ)
    assert first.returncode == 0 and len(first.stdout.split()) == 2, first.stderr
    assert run_bot(tmp_path, live.environ).stdout == ""
    sold, bought = live.feed("?limit=2")["data"]
    assert [sold["id"], bought["id"]] == first.stdout.split()[::-1]
    assert bought["body"] == f"Bought 25 of {address('mint')} for 1.5 SOL." and bought["verified"] and bought["signature"] == signature("bought")
    assert sold["body"] == f"Sold 25 of {address('mint')} for 2 SOL. Result: 0.5 SOL." and sold["verified"]


def test_a_bot_that_crashed_tells_nothing_twice(live, tmp_path):
    run_bot(tmp_path, live.environ)
    place = (tmp_path / "bot.cursor").read_text()
    observe(live, "crash", 5)
    told = run_bot(tmp_path, live.environ).stdout
    (tmp_path / "bot.cursor").write_text(place)               # as if it had died before it noted how far it came
    assert told and run_bot(tmp_path, live.environ).stdout == told


def test_the_bot_says_what_is_wrong(live, tmp_path):
    assert "CANDOR_KEY is not set" in run_bot(tmp_path, {**live.environ, "CANDOR_KEY": ""}).stderr
    assert "read key" in run_bot(tmp_path, {**live.environ, "CANDOR_KEY": live.read_key}).stderr
    refused = run_bot(tmp_path, {**live.environ, "CANDOR_KEY": live.key[:-1] + "-"})
    assert refused.returncode == 1 and "invalid_key" in refused.stderr and live.key[:-1] not in refused.stderr + refused.stdout


class Weak(BaseHTTPRequestHandler):
    """An instance that fails before it answers: each request is met by the next of `moods`."""

    moods, heard = [], []

    def do_GET(self):
        self.answer(200, {"kind": "publish", "botId": "bot_x", "newestCursor": "c2", "data": [TRADE] if "since=c1" in self.path else []})

    def do_POST(self):
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        mood = self.moods.pop(0) if self.moods else 201
        if mood is None:
            return self.connection.close()
        self.answer(mood, {"id": "post_x"}, {"Retry-After": "0"})

    def answer(self, status, shown, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(shown).encode())

    def log_message(self, *_):
        """Nobody reads it."""


TRADE = {"id": "trade_x", "kind": "buy", "mint": "M", "signature": "S", "solChange": "-1", "tokenChanges": [{"mint": "M", "change": "5"}], "realized": {"resultSol": None}}


@pytest.fixture
def weak():
    with ThreadingHTTPServer(("127.0.0.1", 0), Weak) as server:
        Weak.moods, Weak.heard = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_bot_sends_the_very_same_again(weak, tmp_path):
    (tmp_path / "bot.cursor").write_text("c1")
    Weak.moods[:] = [None, 429, 503]
    done = run_bot(tmp_path, {"CANDOR_URL": weak, "CANDOR_KEY": "k"})
    assert done.stdout == "post_x\n" and Weak.heard == [{"eventId": "trade-trade_x", "body": "Bought 5 of M for 1 SOL.", "signature": "S", "mint": "M"}] * 4


# ---- freqtrade_webhook.py ---------------------------------------------------------------------------------------------------
class Hook:
    """The webhook as a process; send() is what freqtrade does."""

    def __init__(self, environ):
        self.process = subprocess.Popen([sys.executable, EXAMPLES / "freqtrade_webhook.py"], env={**environ, "PORT": "0"}, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split("/ for")[0].rpartition(":")[2])

    def send(self, message, kind="application/json", method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, "/", message if isinstance(message, bytes) else json.dumps(message), {"Content-Type": kind})
        status = connection.getresponse().status
        connection.close()
        return status

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def hook(live):
    made = Hook(live.environ)
    yield made
    made.stop()


def read_configuration():
    """The webhook section the example asks its user to paste."""
    text = ast.get_docstring(ast.parse((EXAMPLES / "freqtrade_webhook.py").read_text()))
    return json.loads("{" + text[text.index('"webhook"'):text.rindex("}") + 1] + "}")["webhook"]


FILLED = {"trade_id": 7, "pair": "SOL/USDT", "direction": "long", "amount": 12.5, "open_rate": 142.25, "close_rate": 150.0, "open_date": "2026-11-20 10:00:00", "close_date": "2026-11-20 11:00:00",
          "enter_tag": None, "profit_ratio": 0.05448, "exit_reason": "roi", "msg": "volume is \x07 thin\nand falling", "status": "running"}


def fill(event):
    """As freqtrade fills the section: str.format over its own values."""
    return {name: text.format(**FILLED) for name, text in read_configuration()[event].items()}


def test_fills_and_messages_become_posts(hook, live):
    assert [hook.send(fill(event)) for event in ("entry_fill", "exit_fill", "strategy_msg")] == [204] * 3
    message, closed, opened = live.feed("?limit=3")["data"]
    assert (opened["body"], opened["symbol"], opened["reason"]) == ("Opened long SOL/USDT: 12.5 at 142.25.", "SOL", None)
    assert (closed["body"], closed["reason"]) == ("Closed long SOL/USDT: 12.5 at 150.0, 5.45% by its own count.", "roi")
    assert message["body"] == "volume is   thin\nand falling" and not any(post["verified"] for post in (opened, closed, message))
    assert hook.send(fill("entry_fill")) == 204 and live.feed("?limit=1")["data"][0]["id"] == message["id"]              # sent again, posted once


def test_what_is_no_news_is_dropped_and_what_is_no_message_refused(hook, live):
    newest = live.feed("?limit=1")["newestCursor"]
    assert hook.send({"event": "status", "status": "running"}) == hook.send({}) == hook.send([1]) == 204
    assert hook.send(b"not json") == 400 and hook.send(fill("entry_fill"), kind="text/plain") == 415 and hook.send(b"x" * 70_000) == 413
    assert hook.send(b"", method="OPTIONS") == 501
    assert live.feed("?limit=1")["newestCursor"] == newest


def test_a_refusal_reaches_freqtrade(live):
    for environ, status in (({"CANDOR_KEY": live.read_key}, 403), ({"CANDOR_URL": "http://127.0.0.1:9"}, 502)):
        hook = Hook({**live.environ, **environ})
        try:
            assert hook.send(fill("exit_fill")) == status
        finally:
            hook.stop()
