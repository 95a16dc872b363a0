"""The examples, run as users run them: one file, the standard library, against a running server,
and against one that fails.
"""

import ast
import http.client
import importlib.util
import itertools
import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ground
import pytest
from live import ROOT
from service import Service, address, signature

import storage
from chain.stored.trades import trade_uid

EXAMPLES = ROOT / "examples"
CALLERS = [EXAMPLES / "bot.py", EXAMPLES / "freqtrade_webhook.py"]


@pytest.mark.parametrize("path", CALLERS, ids=lambda path: path.name)
def test_an_example_is_one_file_using_the_standard_library(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


# ---- bot.py --------------------------------------------------------------------------------------
def run_bot(folder, environ):
    return subprocess.run(
        [sys.executable, EXAMPLES / "bot.py", "--once"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


def observe(live, name, slot, **more):
    """Store a trade of the live bot's wallet like the observer, next to the server."""
    wallet = address("live")
    with storage.connect(ground.settings_of(live.folder / "data")).connection_context():
        uid = trade_uid(wallet, signature(name))
        Service.observe_trade(None, wallet, name, slot, uid=uid, **more)
    storage.database.close_all()


def test_the_bot_posts_each_later_trade_once_and_is_verified(live, tmp_path):
    observe(live, "before", 1)
    assert run_bot(tmp_path, live.environ).stdout == ""
    observe(live, "bought", 2)
    observe(live, "gift", 3, kind="transfer_in")
    observe(live, "sold", 4, kind="sell", sol=2_000_000_000, raw=-2_500)
    first = run_bot(tmp_path, live.environ)
    assert first.returncode == 0 and len(first.stdout.split()) == 2, first.stderr
    assert run_bot(tmp_path, live.environ).stdout == ""
    sold, bought = live.feed("?limit=2")["data"]
    assert [sold["id"], bought["id"]] == first.stdout.split()[::-1]
    assert bought["body"] == f"Bought {address('mint')} with SOL."
    assert sold["body"] == f"Sold {address('mint')} for SOL."
    assert bought["verified"] and sold["verified"] and bought["signature"] == signature("bought")


def test_a_crashed_bot_repeats_nothing(live, tmp_path):
    run_bot(tmp_path, live.environ)
    place = (tmp_path / "bot.cursor").read_text()
    observe(live, "crash", 5)
    told = run_bot(tmp_path, live.environ).stdout
    # As if it had died before it stored its progress.
    (tmp_path / "bot.cursor").write_text(place)
    assert told and run_bot(tmp_path, live.environ).stdout == told


def test_the_bot_explains_errors(live, tmp_path):
    assert "CANDOR_KEY is not set" in run_bot(tmp_path, {**live.environ, "CANDOR_KEY": ""}).stderr
    assert "read key" in run_bot(tmp_path, {**live.environ, "CANDOR_KEY": live.read_key}).stderr
    refused = run_bot(tmp_path, {**live.environ, "CANDOR_KEY": live.key[:-1] + "-"})
    assert refused.returncode == 1 and "invalid_key" in refused.stderr
    assert live.key[:-1] not in refused.stderr + refused.stdout


class Weak(BaseHTTPRequestHandler):
    """An instance that fails before it responds: each request gets the next of `moods`."""

    moods, heard, heard_at, wait = [], [], [], "0"

    def do_GET(self):
        page = {"newestCursor": "c2", "data": [TRADE] if "since=c1" in self.path else []}
        self.answer(200, {"kind": "publish", "botId": "bot_x", **page})

    def do_POST(self):
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.heard_at.append(time.monotonic())
        mood = self.moods.pop(0) if self.moods else 201
        if mood is None:
            return self.connection.close()
        conflict = {"code": "event_conflict", "existingPostId": "post_old"}
        shown = conflict if mood == 409 else {"id": "post_x"}
        self.answer(mood, shown, {"Retry-After": self.wait})

    def answer(self, status, shown, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(shown).encode())

    def log_message(self, *_):
        """Nobody reads it."""


TRADE = {"id": "trade_x", "kind": "buy", "mint": "M", "symbol": None}
TRADE |= {"signature": "S", "currency": "SOL"}


@pytest.fixture
def weak():
    with ThreadingHTTPServer(("127.0.0.1", 0), Weak) as server:
        Weak.moods, Weak.heard, Weak.heard_at, Weak.wait = [], [], [], "0"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_bot_resends_exactly_the_same_body(weak, tmp_path):
    (tmp_path / "bot.cursor").write_text("c1")
    Weak.moods[:] = [None, 429, 503]
    done = run_bot(tmp_path, {"CANDOR_URL": weak, "CANDOR_KEY": "k"})
    post = {"eventId": "trade-trade_x", "body": "Bought M with SOL.", "signature": "S", "mint": "M"}
    assert done.stdout == "post_x\n" and Weak.heard == [post] * 4


def test_a_conflict_over_changed_text_does_not_stop_the_bot(weak, tmp_path):
    """A token that got a symbol changes the text. The bot must not stop at that trade forever."""
    (tmp_path / "bot.cursor").write_text("c1")
    Weak.moods[:] = [409]
    done = run_bot(tmp_path, {"CANDOR_URL": weak, "CANDOR_KEY": "k"})
    assert (done.returncode, done.stdout) == (0, "post_old\n")
    assert (tmp_path / "bot.cursor").read_text() == "c2"


# ---- freqtrade_webhook.py ------------------------------------------------------------------------
class Hook:
    """The webhook as a process; send() acts like freqtrade."""

    def __init__(self, environ):
        self.process = subprocess.Popen(
            [sys.executable, EXAMPLES / "freqtrade_webhook.py"],
            env={**environ, "PORT": "0"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.process.stdout.readline().split("/ for")[0].rpartition(":")[2])

    def send(self, message, kind="application/json", method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = message if isinstance(message, bytes) else json.dumps(message)
        connection.request(method, "/", body, {"Content-Type": kind})
        status = connection.getresponse().status
        connection.close()
        return status

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture
def start_hook():
    """start_hook(environ) -> a Hook, stopped at the end"""
    started = []

    def start(environ):
        started.append(Hook(environ))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def hook(live, start_hook):
    return start_hook(live.environ)


def read_configuration():
    """The webhook section that the example's user pastes."""
    text = ast.get_docstring(ast.parse((EXAMPLES / "freqtrade_webhook.py").read_text()))
    return json.loads("{" + text[text.index('"webhook"') : text.rindex("}") + 1] + "}")["webhook"]


# In the format of freqtrade 2026.9 (freqtradebot._notify_enter, _notify_exit; rpc_types): values,
# not texts.
TRADED = {
    "trade_id": 7,
    "exchange": "Binance",
    "pair": "SOL/USDT",
    "base_currency": "SOL",
    "quote_currency": "USDT",
    "leverage": None,
    "direction": "Long",
    "order_rate": 142.25,
    "open_rate": 142.25,
    "order_type": "limit",
    "stake_amount": 1778.125,
    "stake_currency": "USDT",
    "fiat_currency": "USD",
    "amount": 12.5,
    "enter_tag": None,
    "current_rate": None,
    "open_date": datetime(2026, 11, 20, 10, tzinfo=UTC),
    "sub_trade": False,
}
LEFT = {
    **TRADED,
    "close_rate": 150.0,
    "profit_amount": 96.875,
    "profit_ratio": 0.05448,
    "gain": "profit",
    "exit_reason": "roi",
    "close_date": datetime(2026, 11, 20, 11, 0, 0, 123, tzinfo=UTC),
    "cumulative_profit": 0.0,
    "final_profit_ratio": 0.05448,
    "is_final_exit": True,
}
SENT = {
    "entry_fill": TRADED,
    "exit_fill": LEFT,
    "strategy_msg": {"msg": "volume is \x07 thin\nand falling"},
}


def fill(event, dry_run="false", **changes):
    """Fill the section like freqtrade: str.format with the values of its message."""
    values = {**SENT[event], **changes}
    texts = {**read_configuration()[event], "dry_run": dry_run}
    return {name: text.format(**values) for name, text in texts.items()}


def test_fills_and_messages_become_posts(hook, live):
    assert [hook.send(fill(event)) for event in SENT] == [204] * 3
    message, closed, opened = live.feed("?limit=3")["data"]
    assert opened["body"] == "Opened long SOL/USDT: 12.5 at 142.25."
    assert (opened["symbol"], opened["reason"]) == ("SOL", None)
    assert closed["body"] == "Closed long SOL/USDT: 12.5 at 150.0, 5.45% by its own count."
    assert closed["reason"] == "roi" and message["body"] == "volume is   thin\nand falling"
    assert not any(post["verified"] for post in (opened, closed, message))
    # sent again, posted once
    assert [hook.send(fill(event)) for event in SENT] == [204] * 3
    assert live.feed("?limit=1")["data"][0]["id"] == message["id"]


def test_partial_exits_and_additions_are_described_as_such(hook, live):
    later = datetime(2026, 11, 21, tzinfo=UTC)
    hook.send(fill("entry_fill", sub_trade=True, stake_amount=3556.25, amount=12.5))
    hook.send(
        fill("exit_fill", sub_trade=True, is_final_exit=False, final_profit_ratio=None, amount=6.25)
    )
    hook.send(fill("exit_fill", close_date=later))
    closed, part, added = live.feed("?limit=3")["data"]
    assert added["body"] == "Added to long SOL/USDT: 12.5 at 142.25."
    assert part["body"] == (
        "Closed part of long SOL/USDT: 6.25 at 150.0, 5.45% by its own count; the rest stays open."
    )
    assert closed["body"].startswith("Closed long") and closed["eventId"] != part["eventId"]
    assert "-7-20261121" in closed["eventId"]


def test_a_dry_run_says_so(hook, live):
    for event in SENT:
        assert hook.send(fill(event, dry_run="true")) == 204
    for post in live.feed("?limit=3")["data"]:
        assert post["body"].startswith("Dry run, no real money: ")
    unsaid = fill("exit_fill", trade_id=8)
    del unsaid["dry_run"]
    hook.send(unsaid)
    (post,) = live.feed("?limit=1")["data"]
    assert post["body"].startswith("(Whether this is a dry run was not said.) ")
    # as in the docstring: anyone who pastes it labels paper trades as paper
    texts = [part for part in read_configuration().values() if isinstance(part, dict)]
    assert {part["dry_run"] for part in texts} == {"true"}
    assert read_configuration()["allow_custom_messages"] is True


def test_the_same_text_on_another_day_is_a_new_post(monkeypatch):
    webhook = load_webhook(monkeypatch)
    said, day = {"event": "strategy_msg", "message": "volume is thin"}, 86_400_000
    heard = webhook.Heard()
    times = [0, 5_000, 59_000, 70_000, day]
    ids = [webhook.write_post(said, heard.date(said, at))["eventId"] for at in times]
    # Retries are one post, later ones aren't.
    assert ids[0] == ids[1] == ids[2] and len(set(ids)) == 3
    assert all(len(one) <= 128 for one in ids)


def test_waiting_is_limited(monkeypatch):
    webhook = load_webhook(monkeypatch)
    assert webhook.find_wait("7", 0) == 7 and webhook.find_wait(None, 3) == 8
    assert webhook.find_wait("999999", 0) == 3600 and webhook.find_wait("soon", 1) == 2


def load_webhook(monkeypatch):
    """The example as a module; it listens only when run as a program."""
    monkeypatch.setenv("CANDOR_KEY", "k")
    spec = importlib.util.spec_from_file_location("webhook", EXAMPLES / "freqtrade_webhook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_instances_retry_after_is_respected(weak, start_hook):
    """Two errors, then it is accepted: the same request three times, never early."""
    Weak.moods[:], Weak.wait = [429, 503], "1"
    hook = start_hook({"CANDOR_URL": weak, "CANDOR_KEY": "k"})
    assert hook.send(fill("exit_fill")) == 204
    assert len(Weak.heard) == 3 and Weak.heard == [Weak.heard[0]] * 3
    assert all(late - early >= 1 for early, late in itertools.pairwise(Weak.heard_at))


def test_freqtrade_does_not_wait_long(weak, start_hook):
    """It is told that a retry is pending; sent again, it joins the pending one."""
    Weak.moods[:], Weak.wait = [429], "3600"
    hook = start_hook({"CANDOR_URL": weak, "CANDOR_KEY": "k"})
    assert hook.send(fill("exit_fill")) == 202 and len(Weak.heard) == 1


def test_the_webhook_ignores_other_events_and_refuses_invalid_messages(hook, live):
    newest = live.feed("?limit=1")["newestCursor"]
    for message in ({"event": "status", "status": "running"}, {}, [1]):
        assert hook.send(message) == 204, message
    assert hook.send(b"not json") == 400
    assert hook.send(fill("entry_fill"), kind="text/plain") == 415
    assert hook.send(b"x" * 70_000) == 413
    assert hook.send(b"", method="OPTIONS") == 501
    assert live.feed("?limit=1")["newestCursor"] == newest


def test_an_error_reaches_freqtrade(live, start_hook):
    for wrong, status in (
        ({"CANDOR_KEY": live.read_key}, 403),
        ({"CANDOR_URL": "http://127.0.0.1:9"}, 502),
    ):
        assert start_hook({**live.environ, **wrong}).send(fill("exit_fill")) == status
