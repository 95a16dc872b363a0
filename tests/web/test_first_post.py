"""docs/first-post.md, docs/hooks.md and the bots of examples/, run as their readers run
them, against an instance that reads the replay node.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import types

import pytest
from corpus import read_expected, read_history
from node import ReplayNode
from test_worker import ROOT, Server

from bench._ports import find_port

PAGE = (ROOT / "docs" / "first-post.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
LANGUAGES = {
    "curl": (BLOCKS[3], "curl"),
    "Python": (BLOCKS[4], "python3"),
    "JavaScript": (BLOCKS[5], "node"),
}
SAMPLE = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S)[1])
(WALLET,) = set(re.findall(r"WALLET=(\w+)", PAGE))
# Its last trades, which nobody has observed when the instance starts.
FRESH = [
    row["signature"]
    for row in read_expected()[WALLET]["rows"][-9:]
    if row["kind"] in ("buy", "sell", "swap")
]
pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="the page uses curl")


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
        for written, here in (
            (":8000", f":{self.server.port}"),
            (".venv/bin/python", sys.executable),
        ):
            script = script.replace(written, here)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
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

    def wait_for(self, path, holds):
        """Wait until the condition holds; return the response."""
        for _ in range(240):
            answer = self.ask(path)
            if holds(answer):
                return answer
            time.sleep(0.25)
        raise AssertionError(answer)


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first-post")
    slots = {one["signature"]: one["slot"] for one in read_history()["transactions"]}
    with ReplayNode() as node:
        node.control(tip=min(slots[one] for one in FRESH) - 1)
        made = Instance(folder, node)
        yield made
        made.server.stop()


@pytest.fixture(scope="module")
def places(instance, tmp_path_factory):
    """Folders of the two bots, which polled once before the fresh trades."""
    folders = {}
    for program, name in (("python3", "bot.py"), ("node", "bot.mjs")):
        if shutil.which(program):
            folders[name] = (program, tmp_path_factory.mktemp("bot"))
            assert run_bot(instance, folders[name], name) == []
    return folders


def run_bot(instance, place, name):
    program, folder = place
    cursor = {"CANDOR_CURSOR": str(folder / "bot.cursor")}
    return instance.run(f"{program} examples/{name} --once", **cursor).splitlines()


def test_each_language_gets_the_same_verified_post(instance):
    answers = [
        json.loads(instance.run(block))
        for block, program in LANGUAGES.values()
        if shutil.which(program)
    ]
    assert len({answer["id"] for answer in answers}) == 1 and len(answers) > 1
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["verified"] is True
    assert answers[0]["receipt"]["wallet"] == WALLET


def test_the_sample_response_has_the_real_fields(instance):
    answer = json.loads(instance.run(LANGUAGES["curl"][0]))
    assert answer.keys() == SAMPLE.keys()
    assert answer["verification"].keys() == SAMPLE["verification"].keys()
    assert answer["receipt"].keys() == SAMPLE["receipt"].keys()
    assert SAMPLE["verification"]["status"] == "verified"


def test_each_language_and_both_bots_wait_for_a_fresh_trade(instance, places):
    languages = [(b, p) for b, p in LANGUAGES.values() if shutil.which(p)]
    told, waiting = [], []
    for (block, _), signature in zip(languages, FRESH, strict=False):
        waits = threading.Thread(
            target=lambda block=block, signature=signature: told.append(
                json.loads(instance.run(block, SIGNATURE=signature))
            )
        )
        waits.start()
        waiting.append(waits)
    pending = "/api/v1/feed?label=pending"
    page = instance.wait_for(pending, lambda page: len(page["data"]) == len(languages))
    assert {post["verification"]["reason"] for post in page["data"]} == {"not_final_yet"}
    instance.node.control(tip=None)
    for waits in waiting:
        waits.join()
    assert [answer["verified"] for answer in told] == [True] * len(languages)
    trades = f"/api/v1/trades?botId={instance.environ['CANDOR_BOT']}&kind=buy,sell,swap"
    last = instance.wait_for(trades, lambda page: page["data"][0]["signature"] == FRESH[-1])
    assert {*FRESH} <= {trade["signature"] for trade in last["data"]}
    for name, place in places.items():
        posts = [line.split()[0] for line in run_bot(instance, place, name)]
        named = [instance.ask(f"/api/v1/posts/{post}") for post in posts]
        assert {*FRESH} <= {post["signature"] for post in named}, name
        assert all(post["verified"] for post in named), name
        assert run_bot(instance, place, name) == []


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
    modules = {
        "hummingbot.core.event.events": {"OrderFilledEvent": object, "TradeType": kinds},
        "hummingbot.strategy.script_strategy_base": {"ScriptStrategyBase": Script},
    }
    for name, members in modules.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("CANDOR_URL", "CANDOR_KEY"):
        monkeypatch.setenv(name, instance.environ[name])
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.delitem(sys.modules, "hummingbot_gateway", raising=False)
    import hummingbot_gateway

    return hummingbot_gateway


def test_a_gateway_connector_fill_becomes_a_verified_post(hummingbot, instance):
    bot = instance.environ["CANDOR_BOT"]
    posts = instance.ask(f"/api/v1/feed?botId={bot}&limit=100")["data"]
    sales = instance.ask(f"/api/v1/trades?botId={bot}&kind=sell&limit=100")["data"]
    posted = {post["signature"] for post in posts}
    signature = next(sale["signature"] for sale in sales if sale["signature"] not in posted)
    script = hummingbot.PostFills()
    script.sender = hummingbot.ThreadPoolExecutor(max_workers=1)
    fill = {"exchange_trade_id": signature, "trading_pair": "FERN-SOL", "trade_type": "SELL"}
    script.did_fill_order(types.SimpleNamespace(**fill, amount="12.5", price="0.002"))
    script.sender.shutdown()
    post = instance.ask(f"/api/v1/posts/{script.said.rpartition('/')[2]}")
    assert (post["body"], post["verified"]) == ("Sold 12.5 FERN at 0.002 SOL.", True)


# ---- webhooks ------------------------------------------------------------------------------------
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
            words = {"eventId": "heard", "body": "Heard?"}
            send = f"-d '{json.dumps(words)}' \"$CANDOR_URL/api/v1/posts\""
            kind = '-H "Content-Type: application/json" -H "Authorization: Bearer $CANDOR_KEY"'
            post = json.loads(instance.run(f"curl -fsS {kind} {send}"))
            assert receiver.stdout.readline().split()[:2] == ["post", post["id"]]
            forged = (
                f"curl -s -o {os.devnull} -w '%{{http_code}}' http://127.0.0.1:{port}/ -d '{{}}'"
            )
            assert instance.run(forged) == "401"
        finally:
            receiver.terminate()
