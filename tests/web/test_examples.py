"""docs/first-post.md, docs/hooks.md and examples/, run as their readers run them: against an
instance that reads the replay node, a live server, and a server that fails.
"""

import ast
import contextlib
import http.client
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import ground
import pytest
from corpus import read_expected, read_history
from live import ROOT
from node import ReplayNode
from receiver import Receiver, answer
from test_worker import Server

from bench._ports import find_port

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("name", ["bot.py", "freqtrade_webhook.py"])
def test_an_example_is_one_file_using_the_standard_library(name):
    names = set()
    for node in ast.walk(ast.parse((EXAMPLES / name).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


# ---- docs/first-post.md --------------------------------------------------------------------------
PAGE = (ROOT / "docs" / "first-post.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
LANGUAGES = {
    program: block
    for program, block in zip(("curl", "python3", "node"), BLOCKS[3:6], strict=True)
    if shutil.which(program)
}
SAMPLE = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S)[1])
(WALLET,) = set(re.findall(r"WALLET=(\w+)", PAGE))
# Its last trades, which nobody has observed when the instance starts.
FRESH = [
    row["signature"]
    for row in read_expected()[WALLET]["rows"][-9:]
    if row["kind"] in ("buy", "sell", "swap")
]


class Instance:
    """The instance of the page's first block, on its own ports, with the bot of its second."""

    def __init__(self, folder, node):
        self.node, self.folder = node, folder
        settings = dict(re.findall(r"(\w+)=([\w:/.]+)", BLOCKS[0]))
        settings |= {"SOLANA_RPC_URLS": node.url, "HOOKS_PRIVATE": "on"}
        settings["OBSERVER_INTERVAL_SECONDS"] = "1"
        self.server = Server(folder, **settings)
        self.environ = {**os.environ, "DATA_DIR": str(folder / "data"), **settings}
        names = ("CANDOR_URL", "CANDOR_BOT", "CANDOR_KEY", "SIGNATURE")
        values = self.run(BLOCKS[1] + BLOCKS[2] + "echo " + " ".join(f"${name}" for name in names))
        self.environ |= dict(zip(names, values.split(), strict=True))

    def run(self, script, **environ):
        """A block's output in Bash. Only the port and Python's path differ."""
        script = script.replace(":8000", f":{self.server.port}")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace(".venv/bin/python", sys.executable)],
            cwd=ROOT,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, path):
        key = f"Bearer {self.environ['CANDOR_KEY']}"
        status, body = self.server.get(path, Authorization=key)
        assert status == 200, body
        return json.loads(body)

    def list_of_bot(self, path):
        return self.ask(f"/api/v1/{path}&botId={self.environ['CANDOR_BOT']}")["data"]


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    if not shutil.which("curl"):
        pytest.skip("the page uses curl")
    slots = {one["signature"]: one["slot"] for one in read_history()["transactions"]}
    with ReplayNode() as node:
        node.control(tip=min(slots[one] for one in FRESH) - 1)
        made = Instance(tmp_path_factory.mktemp("first-post"), node)
        yield made
        made.server.stop()


@pytest.fixture(scope="module")
def places(instance, tmp_path_factory):
    """Folders of the two bots, which polled once before the fresh trades."""
    folders, bot = {}, f"/api/v1/bots/{instance.environ['CANDOR_BOT']}"
    ground.until(lambda: instance.ask(bot)["coverage"]["state"] in ("complete", "partial"))
    for program, name in (("python3", "bot.py"), ("node", "bot.mjs")):
        if shutil.which(program):
            folders[name] = (program, tmp_path_factory.mktemp("bot"))
            assert poll(instance, folders[name], name) == []
    return folders


def poll(instance, place, name):
    program, folder = place
    cursor = {"CANDOR_CURSOR": str(folder / "bot.cursor")}
    return instance.run(f"{program} examples/{name} --once", **cursor).splitlines()


def test_each_language_gets_the_same_verified_post_with_the_samples_fields(instance):
    answers = [json.loads(instance.run(block)) for block in LANGUAGES.values()]
    first, *others = answers
    assert others and others == [first] * len(others)
    assert first["verified"] and first["receipt"]["wallet"] == WALLET
    assert SAMPLE["verification"]["status"] == "verified"
    assert first.keys() == SAMPLE.keys()
    for name in ("verification", "receipt"):
        assert first[name].keys() == SAMPLE[name].keys()


def test_each_language_and_both_bots_wait_for_a_fresh_trade(instance, places):
    pending, trades = "feed?label=pending", "trades?kind=buy,sell,swap"
    with ThreadPoolExecutor(len(LANGUAGES)) as crew:
        told = [
            crew.submit(instance.run, block, SIGNATURE=fresh)
            for block, fresh in zip(LANGUAGES.values(), FRESH, strict=False)
        ]
        ground.until(lambda: len(instance.list_of_bot(pending)) == len(LANGUAGES))
        reasons = {post["verification"]["reason"] for post in instance.list_of_bot(pending)}
        instance.node.control(tip=None)
    assert reasons == {"not_final_yet"}
    assert all(json.loads(answer.result())["verified"] for answer in told)
    ground.until(lambda: instance.list_of_bot(trades)[0]["signature"] == FRESH[-1])
    assert {*FRESH} <= {trade["signature"] for trade in instance.list_of_bot(trades)}
    for name, place in places.items():
        cursor = (place[1] / "bot.cursor").read_text()
        posts = [line.split()[0] for line in poll(instance, place, name)]
        # As if it had died before it stored its progress.
        (place[1] / "bot.cursor").write_text(cursor)
        assert [line.split()[0] for line in poll(instance, place, name)] == posts
        named = [instance.ask(f"/api/v1/posts/{post}") for post in posts]
        assert {*FRESH} <= {post["signature"] for post in named}, name
        assert all(post["verified"] for post in named), name
        assert poll(instance, place, name) == []


# ---- Hummingbot ----------------------------------------------------------------------------------
class Script:
    """The parts of ScriptStrategyBase that the example needs."""

    def logger(self):
        return self

    def info(self, words):
        self.said = words

    error = info


@pytest.fixture
def hummingbot(monkeypatch, instance):
    """The example, imported with stand-ins for the two Hummingbot modules that it needs."""
    kinds = types.SimpleNamespace(BUY="BUY", SELL="SELL")
    events = types.SimpleNamespace(OrderFilledEvent=object, TradeType=kinds)
    scripts = types.SimpleNamespace(ScriptStrategyBase=Script)
    monkeypatch.setitem(sys.modules, "hummingbot.core.event.events", events)
    monkeypatch.setitem(sys.modules, "hummingbot.strategy.script_strategy_base", scripts)
    for name in ("CANDOR_URL", "CANDOR_KEY"):
        monkeypatch.setenv(name, instance.environ[name])
    return load("hummingbot_gateway")


def load(name):
    """An example as a module; it doesn't run unless it is started as a program."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_gateway_connector_fill_becomes_a_verified_post(hummingbot, instance):
    # Not one that the page's languages or bots posted, perhaps under the same event ID.
    posted = {*FRESH, instance.environ["SIGNATURE"]}
    sales = instance.list_of_bot("trades?kind=sell&limit=100")
    signature = next(sale["signature"] for sale in sales if sale["signature"] not in posted)
    script = hummingbot.PostFills()
    script.sender = hummingbot.ThreadPoolExecutor(max_workers=1)
    fill = {"exchange_trade_id": signature, "trading_pair": "FERN-SOL", "trade_type": "SELL"}
    script.did_fill_order(types.SimpleNamespace(**fill, amount="12.5", price="0.002"))
    script.sender.shutdown()
    post = instance.ask(f"/api/v1/posts/{script.said.rpartition('/')[2]}")
    assert (post["body"], post["verified"]) == ("Sold 12.5 FERN at 0.002 SOL.", True)


# ---- docs/hooks.md -------------------------------------------------------------------------------
def test_the_documented_receiver_checks_and_prints_events(instance, tmp_path):
    book = (ROOT / "docs" / "hooks.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", book, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    port = find_port()
    (tmp_path / "receiver.py").write_text(code.replace("9000", str(port)))
    add = re.search(r"^ *(.*app\.py hook add OWNER http://127.*)$", book, re.M)[1]
    command = add.replace("OWNER", instance.ask("/api/v1/me")["ownerId"])
    made = json.loads(instance.run(command.replace("9000", str(port)) + " --json"))
    with subprocess.Popen(
        [sys.executable, tmp_path / "receiver.py"],
        env={**os.environ, "HOOK_SECRET": made["secret"]},
        stdout=subprocess.PIPE,
        text=True,
    ) as receiver:
        try:
            words = json.dumps({"eventId": "heard", "body": "Heard?"})
            kind = '-H "Content-Type: application/json" -H "Authorization: Bearer $CANDOR_KEY"'
            send = f"curl -fsS {kind} -d '{words}' \"$CANDOR_URL/api/v1/posts\""
            post = json.loads(instance.run(send))
            assert receiver.stdout.readline().split()[:2] == ["post", post["id"]]
            forged = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            forged.request("POST", "/", "{}")
            assert forged.getresponse().status == 401
            forged.close()
        finally:
            receiver.terminate()


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


def test_the_bot_explains_errors(live, tmp_path):
    assert "CANDOR_KEY is not set" in run_bot(tmp_path, {**live.environ, "CANDOR_KEY": ""}).stderr
    assert "read key" in run_bot(tmp_path, {**live.environ, "CANDOR_KEY": live.read_key}).stderr
    refused = run_bot(tmp_path, {**live.environ, "CANDOR_KEY": live.key[:-1] + "-"})
    assert refused.returncode == 1 and "invalid_key" in refused.stderr
    assert live.key[:-1] not in refused.stderr + refused.stdout


BOUGHT = {"id": "trade_x", "kind": "buy", "mint": "M", "symbol": None, "signature": "S"}
BOUGHT["currency"] = "SOL"
SOLD = {**BOUGHT, "id": "trade_y", "kind": "sell", "symbol": "MM"}


class Weak(Receiver):
    """An instance that fails before it responds: each post gets the next of `moods`."""

    def __init__(self):
        super().__init__()
        self.moods, self.wait = [], "0"
        self.behave(self.respond)

    @property
    def heard(self):
        return [json.loads(body) for _, body in self.got if body]

    def respond(self, handler):
        status, shown = 200, {"kind": "publish", "botId": "bot_x", "newestCursor": "c2"}
        shown["data"] = [BOUGHT, SOLD] if "since=c1" in handler.path else []
        if handler.body:
            status, shown = self.moods.pop(0) if self.moods else 201, {"id": "post_x"}
        if status is None:
            return handler.connection.close()
        if status == 409:
            shown = {"code": "event_conflict", "existingPostId": "post_old"}
        answer(status, json.dumps(shown).encode(), **{"Retry-After": self.wait})(handler)


@pytest.fixture
def weak():
    with contextlib.closing(Weak()) as made:
        yield made


@pytest.mark.parametrize(
    "moods, tries, printed",
    [
        pytest.param([None, 429, 503], 4, "post_x\npost_x\n", id="the same body is sent again"),
        # A token that got a symbol changes the text. The bot must not stop at that trade forever.
        pytest.param(
            [409], 1, "post_old\npost_x\n", id="a conflict over changed text stops nothing"
        ),
    ],
)
def test_the_bot_continues_after_failures(weak, tmp_path, moods, tries, printed):
    (tmp_path / "bot.cursor").write_text("c1")
    weak.moods = moods
    done = run_bot(tmp_path, {"CANDOR_URL": weak.url, "CANDOR_KEY": "k"})
    named = {"signature": "S", "mint": "M"}
    bought = {"eventId": "trade-trade_x", "body": "Bought M with SOL.", **named}
    sold = {"eventId": "trade-trade_y", "body": "Sold MM for SOL.", **named}
    assert (done.returncode, done.stdout) == (0, printed)
    assert weak.heard == [bought] * tries + [sold]
    assert (tmp_path / "bot.cursor").read_text() == "c2"


# ---- freqtrade_webhook.py ------------------------------------------------------------------------
# What the example uses of the messages of freqtrade 2026.9 (freqtradebot._notify_enter,
# _notify_exit; rpc_types): values, not texts.
TRADED = {"trade_id": 7, "pair": "SOL/USDT", "direction": "Long", "open_rate": 142.25}
TRADED |= {"open_date": datetime(2026, 11, 20, 10, tzinfo=UTC), "stake_amount": 1778.125}
TRADED |= {"amount": 12.5, "enter_tag": None, "sub_trade": False}
LEFT = {**TRADED, "close_rate": 150.0, "profit_ratio": 0.05448, "exit_reason": "roi"}
LEFT |= {"close_date": datetime(2026, 11, 20, 11, 0, 0, 123, tzinfo=UTC)}
SAID = {"msg": "volume is \x07 thin\nand falling"}
SENT = {"entry_fill": TRADED, "exit_fill": LEFT, "strategy_msg": SAID}


def read_configuration():
    """The webhook section that the example's user pastes."""
    text = ast.get_docstring(ast.parse((EXAMPLES / "freqtrade_webhook.py").read_text()))
    return json.loads("{" + text[text.index('"webhook"') : text.rindex("}") + 1] + "}")["webhook"]


def fill(event, dry_run="false", **changes):
    """Fill the section like freqtrade: str.format with the values of its message."""
    values = {**SENT[event], **changes}
    texts = {**read_configuration()[event], "dry_run": dry_run}
    return {name: text.format(**values) for name, text in texts.items()}


@pytest.fixture
def webhook(weak, monkeypatch):
    """The example as a module, which posts to a weak instance and doesn't sleep but notes for how
    long.
    """
    monkeypatch.setenv("CANDOR_URL", weak.url)
    monkeypatch.setenv("CANDOR_KEY", "k")
    module = load("freqtrade_webhook")
    module.slept = []
    module.time = types.SimpleNamespace(time_ns=time.time_ns, sleep=module.slept.append)
    return module


def test_a_message_becomes_words(webhook):
    later = datetime(2026, 11, 21, tzinfo=UTC)
    part = {"sub_trade": True, "amount": 6.25}
    opened = "long SOL/USDT: 12.5 at 142.25."
    closed = "long SOL/USDT: 12.5 at 150.0, 5.45% by its own count"
    rest = closed.replace("12.5", "6.25")
    posts = []
    for message, body in (
        (fill("entry_fill"), f"Opened {opened}"),
        (fill("entry_fill", sub_trade=True, stake_amount=3556.25), f"Added to {opened}"),
        (fill("exit_fill"), f"Closed {closed}."),
        (fill("exit_fill", **part), f"Closed part of {rest}; the rest stays open."),
        (fill("exit_fill", close_date=later), f"Closed {closed}."),
        (fill("strategy_msg"), "volume is   thin\nand falling"),
        (fill("strategy_msg", dry_run="true", msg="x"), "Dry run, no real money: x"),
        ({"event": "strategy_msg", "message": "x"}, "(Whether this is a dry run was not said.) x"),
    ):
        posts.append(webhook.make_post(message))
        assert posts[-1]["body"] == body
    assert "-7-20261121" in posts[4]["eventId"] and len({post["eventId"] for post in posts}) == 8
    told = [(post.get("symbol"), post.get("reason")) for post in posts]
    assert told == [("SOL", None)] * 2 + [("SOL", "roi")] * 3 + [(None, None)] * 3
    # as in the docstring: anyone who pastes it labels paper trades as paper
    texts = [part for part in read_configuration().values() if isinstance(part, dict)]
    assert {part["dry_run"] for part in texts} == {"true"}
    assert read_configuration()["allow_custom_messages"] is True


def test_the_same_text_on_another_day_is_a_new_post(webhook):
    said, day = {"event": "strategy_msg", "message": "volume is thin"}, 86_400_000
    times = [0, 5_000, 59_000, 70_000, day]
    ids = [webhook.write_post(said, webhook.heard.date(said, at))["eventId"] for at in times]
    # Retries are one post, later ones aren't.
    assert ids[0] == ids[1] == ids[2] and len(set(ids)) == 3
    assert all(len(one) <= 128 for one in ids)


@pytest.mark.parametrize(
    "asked, attempt, seconds", [("7", 0, 7), (None, 3, 8), ("999999", 0, 3600), ("soon", 1, 2)]
)
def test_waiting_is_limited(webhook, asked, attempt, seconds):
    assert webhook.find_wait(asked, attempt) == seconds


def test_the_instances_retry_after_is_respected(webhook, weak):
    """Two errors, then it is accepted: the same request three times."""
    weak.moods, weak.wait = [429, 503], "11"
    post = webhook.make_post(fill("exit_fill"))
    assert webhook.hand_over(post) == (201, "post_x")
    assert weak.heard == [post] * 3 and webhook.slept == [11, 11]


def test_freqtrade_does_not_wait_long(webhook, weak, monkeypatch):
    """It is told that a retry is pending; sent again, it joins the pending one."""
    go_on = threading.Event()
    webhook.time.sleep = lambda seconds: go_on.wait(60)
    monkeypatch.setattr(webhook, "ANSWER_SECONDS", 0.1)
    weak.moods, weak.wait = [429], "3600"
    post = webhook.make_post(fill("exit_fill"))
    assert [webhook.hand_over(post)[0] for _ in range(2)] == [202, 202]
    assert len(weak.heard) == 1
    go_on.set()
    webhook.sender.shutdown()
    assert len(weak.heard) == 2


def test_an_absent_instance_is_reported_at_once(webhook, monkeypatch):
    monkeypatch.setattr(webhook, "URL", "http://127.0.0.1:9")
    assert webhook.hand_over(webhook.make_post(fill("exit_fill")))[0] == 502
    webhook.sender.shutdown()
    assert len(webhook.slept) == webhook.TRIES - 1


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

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture
def hook(live):
    with contextlib.closing(Hook(live.environ)) as made:
        yield made


def test_messages_are_posted_once_and_others_ignored_or_refused(hook, live):
    with contextlib.closing(Hook({**live.environ, "CANDOR_KEY": live.read_key})) as reading:
        assert reading.send(fill("exit_fill")) == 403
    assert [hook.send(fill(event)) for event in SENT] == [204] * 3
    message, closed, opened = live.feed("?limit=3")["data"]
    assert [hook.send(fill(event)) for event in SENT] == [204] * 3
    assert opened["body"].startswith("Opened") and closed["body"].startswith("Closed")
    assert message["body"] == "volume is   thin\nand falling"
    assert not any(post["verified"] for post in (opened, closed, message))
    for ignored in ({"event": "status", "status": "running"}, {}, [1]):
        assert hook.send(ignored) == 204, ignored
    assert hook.send(b"not json") == 400
    assert hook.send(fill("entry_fill"), kind="text/plain") == 415
    assert hook.send(b"x" * 70_000) == 413
    assert hook.send(b"", method="OPTIONS") == 501
    assert live.feed("?limit=1")["data"][0]["id"] == message["id"]
