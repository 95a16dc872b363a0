"""Hooks: who receives which events in which order, and how receivers can influence it."""

import base64
import functools
import hashlib
import hmac
import json
import os
import signal
import threading

import ground
import pytest
from ground import until
from receiver import Receiver
from service import NOW, address, hide_post, refused, signature
from test_worker import ROOT, Server

import storage
from accounts import acts, hooks, posts
from accounts.tables import Hook
from models import Wallet
from notify import client, messages, outbox, plan
from storage import store_arrival
from web.api import stream
from web.site import facts, words

URL = "https://x.example/in"


@pytest.fixture
def receivers():
    """receivers(n) -> n receivers, each on its own port"""
    made = []

    def make(count=1):
        made.extend(Receiver() for _ in range(count))
        return made[-count:]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def private(service):
    """The service, which delivers to private addresses too."""
    service.config = ground.change(service.config, hooks_private="on")
    return service


@pytest.fixture
def delivering(private, monkeypatch):
    """delivering() -> an Outbox running in a thread, without the rate limit per host"""
    monkeypatch.setattr(outbox, "HOST_SECONDS", 0.0)
    monkeypatch.setattr(outbox, "STORE_SECONDS", 0.05)
    running = []

    def start():
        read = functools.partial(facts.list_notices, private.config.base_url)
        made = outbox.Outbox(private.config, read)

        def work():
            with storage.database.connection_context():
                made.run_tick(0)

        thread = threading.Thread(target=work)
        thread.start()
        running.append((made, thread))
        return made

    def stop():
        while running:
            made, thread = running.pop()
            made.stop()
            thread.join()

    start.stop = stop
    yield start
    stop()


def say(service, made, *events):
    for event in events:
        body, _ = posts.parse_post({"eventId": event, "body": f"words of {event}"})
        posts.publish(made.bot.id, body, NOW)


def add(service, made, url=URL, trusted=True, **more):
    return hooks.add_hook(service.config, made.owner, url, NOW, trusted=trusted, **more)


def events_of(one):
    return [json.loads(body)["data"].get("eventId") for _, body in one.got]


def row(made):
    return Hook.get(Hook.uid == made.uid)


# ---- deliveries over a socket --------------------------------------------------------------------
def test_a_receiver_gets_every_post_in_order_signed_and_as_in_the_api(
    private, delivering, receivers
):
    (good,) = receivers()
    bot = private.make_bot()
    say(private, bot, "before")
    made = add(private, bot, good.url)
    delivering()
    say(private, bot, *(f"e{n}" for n in range(12)))
    until(lambda: len(good.got) == 12)
    key = base64.b64decode(made.secret.removeprefix("whsec_"))
    for headers, body in good.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{mac}"
    assert len({headers["webhook-id"] for headers, _ in good.got}) == 12
    *posts, _before = private.get("/api/v1/feed", bot.publish_key.text).json["data"]
    told = [{"type": "post", "timestamp": one["createdAt"], "data": one} for one in posts]
    assert [json.loads(body) for _, body in good.got] == told[::-1]


def test_a_commit_is_delivered_at_once(private, delivering, receivers, monkeypatch):
    """It doesn't wait for the end of a pause, which is a minute here."""
    monkeypatch.setattr(outbox, "POLL_SECONDS", 60.0)
    (good,), made = receivers(), private.make_bot("Nell")
    add(private, made, good.url)
    delivering()
    for said in ("1", "2"):
        say(private, made, said)
        until(lambda: events_of(good)[-1:] == [said])


# Effectively no rate limit per host.
HURRY = """import notify.outbox
notify.outbox.HOST_SECONDS = notify.outbox.POLL_SECONDS = 0.03
"""


@ground.sqlite_only
def test_a_killed_server_loses_no_event(tmp_path, private, receivers):
    """All arrive in order, and one that is sent again has the same ID."""
    (good,), bot, names = receivers(), private.make_bot(), [f"e{n}" for n in range(12)]
    add(private, bot, good.url)
    say(private, bot, *names)
    (tmp_path / "sitecustomize.py").write_text(HURRY)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    # At the first kill, some events were delivered and some weren't.
    for last in (names[len(names) // 2], names[-1]):
        server = Server(tmp_path, HOOKS_PRIVATE="on", PYTHONPATH=path)
        try:
            until(lambda last=last: last in events_of(good), 30)
        finally:
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            server.log.close()
    ids = {}
    for headers, body in list(good.got):
        ids.setdefault(json.loads(body)["data"]["eventId"], set()).add(headers["webhook-id"])
    assert list(ids) == names and all(len(one) == 1 for one in ids.values())


# ---- deliveries on a clock that only the test moves ----------------------------------------------
ACCEPTED = client.Answer(204, None)
TOO_LATE = client.Answer(None, client.TOO_LATE)


class Courier:
    """An outbox that sends nothing: it notes each message and gives its URL's answer, at once or,
    if it `holds`, when the test calls `respond`. It replaces the outbox's clock.
    """

    def __init__(self, service):
        self.service, self.now, self.sent, self.answers = service, 1_000.0, [], {}
        self.holds, self.in_flight = False, []
        self.restart()

    def restart(self):
        read = functools.partial(facts.list_notices, self.service.config.base_url)
        self.outbox = outbox.Outbox(self.service.config, read, self._send, self._start)

    def run(self, seconds=2):
        """Deliver once a second, and store what was answered before the last one."""
        self.outbox.synchronize()
        for _ in range(seconds):
            self.outbox.deliver()
            self.now += 1.0
        self.outbox.synchronize()
        return self

    def respond(self):
        """Answer what is in flight; return how much that was."""
        count = len(self.in_flight)
        while self.in_flight:
            self.in_flight.pop()()
        return count

    @property
    def told(self):
        """The path, and the event or the type, of each message."""
        return [f"{path} {name}" for _, path, name in self.sent]

    def _start(self, work):
        self.in_flight.append(work)
        if not self.holds:
            self.respond()

    def _send(self, message, private):
        self.last = json.loads(message.body)
        name = self.last["data"].get("eventId") or self.last["type"]
        self.sent.append((self.now, message.url.rpartition("/")[2], name))
        return self.answers.get(message.url, ACCEPTED)

    # The functions of `time` that the outbox calls.
    def monotonic(self):
        return self.now

    def time_ns(self):
        return (NOW // 1000 + int(self.now)) * 10**9


@pytest.fixture
def courier(service, monkeypatch):
    made = Courier(service)
    monkeypatch.setattr(outbox, "time", made)
    return made


@pytest.fixture
def unlimited(monkeypatch):
    monkeypatch.setattr(outbox, "HOST_SECONDS", 0.0)


def test_a_hook_turned_off_mid_delivery_gets_nothing_more(service, courier):
    bot = service.make_bot()
    made = add(service, bot)
    say(service, bot, "on its way")
    courier.holds = True
    courier.run()
    assert acts.switch_hook(made.uid, False, acts.COMMAND_LINE, "", NOW)
    # Its response, which would activate the hook, arrives after it was turned off.
    assert courier.respond() == 1
    courier.holds = False
    say(service, bot, "while it is off")
    assert courier.run().told == ["in on its way"] and row(made).state == "off"
    hooks.ask_for_ping(made.uid, NOW)
    courier.run()
    assert acts.switch_hook(made.uid, True, acts.COMMAND_LINE, "", NOW)
    courier.run()
    assert row(made).state == "active"
    say(service, bot, "later")
    assert courier.run().told == ["in on its way", "in ping", "in later"]


def test_hooks_of_one_host_take_turns(service, courier):
    """Ada has six posts to deliver, Otto two. A host gets one message per second."""
    ada, otto = service.make_bot("Ada"), service.make_bot("Otto")
    for bot, path in ((ada, "a"), (otto, "o")):
        add(service, bot, f"https://messenger.example/{path}")
    say(service, ada, *(f"{n}" for n in range(6)))
    say(service, otto, "0", "1")
    assert courier.run(9).told == ["a 0", "o 0", "a 1", "o 1", "a 2", "a 3", "a 4", "a 5"]


def test_a_host_is_the_same_however_its_address_is_written(service, courier):
    bot = service.make_bot()
    for host in ("x.example", "X.example:443", "x.example."):
        add(service, bot, f"https://{host}/in")
    say(service, bot, "one")
    assert [at for at, _, _ in courier.run(4).sent] == [1_000.0, 1_001.0, 1_002.0]


def add_many(service, made, count):
    """Add hooks at the paths /0, /1, ... of a host."""
    service.config = ground.change(service.config, max_hooks_per_owner=count)
    for number in range(count):
        add(service, made, f"https://bad.example/{number}")


def test_hanging_receivers_delay_no_others(service, courier, unlimited):
    """Not even right after a restart, when the outbox doesn't know yet which of them hang."""
    honest, hostile = service.make_bot("Honest"), service.make_bot("Hostile")
    add(service, honest)
    add_many(service, hostile, 60)
    say(service, hostile, "b")
    courier.answers = {f"https://bad.example/{n}": TOO_LATE for n in range(60)}
    courier.holds = True
    for name in ("g1", "g2"):
        courier.restart()
        courier.run(1)
        say(service, honest, name)
        courier.run(1)
        courier.sent.clear()
        assert courier.respond() == 60 + 1
        assert courier.told[0] == f"in {name}"
        courier.outbox.deliver()
        courier.outbox._store(everything=True)
        courier.in_flight.clear()
        courier.now += 10


def test_hanging_receivers_share_a_lane_for_a_while(service, courier, unlimited, monkeypatch):
    """Few messages to them are in flight, and each receiver gets all of its own in order."""
    monkeypatch.setattr(outbox, "MAX_SLOW", 4)
    monkeypatch.setattr(plan, "WAITS_SECONDS", (0,))
    bot, courier.holds = service.make_bot(), True
    add_many(service, bot, 20)
    say(service, bot, "a", "b", "c")
    courier.outbox.synchronize()

    def deliver(answer=ACCEPTED, seconds=0):
        """Send what may be sent, and answer it after some seconds. Return how much that was."""
        courier.outbox.deliver()
        courier.answers = {f"https://bad.example/{n}": answer for n in range(20)}
        courier.now += seconds
        return courier.respond()

    assert deliver() == deliver(TOO_LATE, outbox.SLOW_SECONDS) == 20
    # Two messages to each of twenty, four at a time.
    assert [deliver() for _ in range(11)] == [*[4] * 10, 0]
    for number in range(20):
        mine = [name for _, path, name in courier.sent if path == str(number)]
        assert mine == ["a", "b", "b", "c"]
    courier.now += outbox.SLOW_LANE_SECONDS
    say(service, bot, "d")
    assert deliver() == 20


def test_a_new_hook_must_respond_to_a_ping_first(service, courier):
    bot = service.make_bot()
    made = add(service, bot, "https://mute.example/mute", trusted=False)
    add(service, bot, trusted=False)
    courier.answers["https://mute.example/mute"] = client.Answer(404, "returned HTTP 404")
    say(service, bot, "one")
    assert courier.run().told == ["mute ping", "in ping", "in one"]
    assert (row(made).state, row(made).last_error) == ("waiting", "returned HTTP 404")


def test_a_gone_receiver_is_paused_until_it_responds_to_a_ping(service, courier):
    bot = service.make_bot()
    made = add(service, bot)
    courier.answers[URL] = client.Answer(410, "returned HTTP 410")
    say(service, bot, "one")
    courier.run()
    assert row(made).state == "paused"
    courier.answers.clear()
    hooks.ask_for_ping(made.uid, NOW)
    assert courier.run(3).told == ["in one", "in ping", "in one"]
    assert row(made).state == "active"


def test_a_test_requested_during_a_delivery_is_sent_too(service, courier):
    """The message fails and waits five seconds; the test is sent after them, before the message."""
    bot = service.make_bot()
    made = add(service, bot)
    say(service, bot, "one")
    courier.holds = True
    courier.run(1)
    hooks.ask_for_ping(made.uid, courier.time_ns() // 1_000_000)
    courier.outbox.synchronize()
    courier.answers[URL] = client.Answer(500, "returned HTTP 500")
    courier.respond()
    courier.answers.clear()
    courier.holds = False
    courier.run(9)
    seen = [(at - 1_000, name) for at, _, name in courier.sent]
    assert seen == [(1, "one"), (6, "ping"), (7, "one")]


def test_a_hook_gets_its_owners_bots_and_chosen_events(service, courier):
    ada, stranger = service.make_bot("Ada"), service.make_bot("Otto")
    second = service.make_bot("Nell", owner=ada.owner)
    add(service, ada, "https://x.example/mine")
    add(service, ada, "https://y.example/chosen", bots=[second.bot.uid])
    say(service, stranger, "0")
    say(service, ada, "1")
    say(service, second, "2")
    assert sorted(courier.run(3).told) == ["chosen 2", "mine 1", "mine 2"]


def test_removed_text_is_not_sent(service, courier):
    bot = service.make_bot()
    add(service, bot)
    say(service, bot, "one")
    hide_post(service.get("/api/v1/feed", bot.publish_key.text).json["data"][0]["id"], NOW)
    assert courier.run().told == ["in one"]
    assert courier.last["data"]["body"] is None and "words of" not in json.dumps(courier.last)


def test_coverage_changes_go_to_hooks_and_not_to_the_stream(service, courier):
    bot = service.make_bot("Nell", address("w"))
    hook = add(service, bot, events=["coverage"])
    service.observe_results(address("w"), realized=0)
    store_arrival("coverage", wallet=Wallet.get(Wallet.address == address("w")))
    courier.run()
    sent = courier.last["data"]
    assert courier.last["type"] == "coverage" and sent["coverage"]["state"] == "complete"
    assert (sent["botId"], sent["wallet"]) == (bot.bot.uid, address("w"))
    newest = row(hook).delivered
    [told] = facts.list_notices("https://c.example", newest - 1, 9)
    [streamed] = stream.read_events("secret", "https://c.example", newest - 1, 9)
    assert messages.write_text(told, "https://c.example") == (
        f"Nell: complete history\nhttps://c.example/bots/{bot.bot.uid}?tab=trades"
    )
    assert (streamed.raw, streamed.public) == (b"", b"")


def test_messages_state_what_the_chain_shows(service):
    """Sold 1 unit of a 3-decimal token for 5,000 lamports; bought for 1,000 before."""
    bot = service.make_bot("Nell", address("w"))
    money = {"sol": 5_000_000, "proceeds": 5_000_000, "cost": 1_000_000, "result": 4_000_000}
    sale = {"kind": "sell", "raw": -1_000, "realized": "matched", **money}
    store_arrival("trade", trade=service.observe_trade(address("w"), "sale", slot=9, **sale))
    body = {"eventId": "e", "body": "Took profit.", "signature": signature("sale")}
    posts.publish(bot.bot.id, posts.PostBody(**body), NOW)
    told = facts.list_notices("https://c.example", 0, 9)
    texts = {one.kind: messages.write_text(one, "https://c.example") for one in told}
    deed = "Sold 1 " + words.short(address("mint")) + " for 0.005 SOL · +0.004 SOL (+400%)"
    assert texts["trade"].startswith(f"Nell: {deed}")
    lines = texts["post"].splitlines()
    assert lines[0] == "Nell: Took profit." and lines[2].startswith(deed)


def test_a_loading_history_sends_nothing():
    """Only trades since the hook was created are sent."""
    to = messages.Receiver("hook_1", "webhook", URL, None)
    target = outbox.Target(1, to, frozenset({"trade"}), frozenset({"bot_1"}), created_at=1_000_000)
    for seconds, is_sent in ((999, False), (1000, True), (None, False)):
        trade = messages.Event(1, "trade", {"botId": "bot_1", "blockTime": seconds})
        assert bool(outbox.choose(target, trade)) == is_sent, seconds


# PostgreSQL counts writes of the whole cluster, including other tests.
@ground.sqlite_only
def test_events_are_read_only_after_a_write(service):
    bot, reads = service.make_bot(), []
    add(service, bot)
    made = outbox.Outbox(service.config, lambda after, limit: reads.append(after) or [])
    made.synchronize()
    for count in (1, 2):
        for _ in range(5):
            made.deliver()
        assert len(reads) == count
        say(service, bot, "news")


# ---- what becomes of a failure -------------------------------------------------------------------
NEW = plan.Progress("active", 7, False, 0, None, 0, None, None)


def test_failures_back_off_and_pause_the_hook_after_a_day():
    now, seen, waits = 0, NEW, []
    while seen.state == "active":
        seen = plan.after_failure(seen, now, 500, "returned HTTP 500")
        waits.append((seen.due_at - now) // 1000)
        now = max(seen.due_at, now + 1)
    # 5 + 15 + 60 + 300 + 900 s, then hourly: 1280 s + 24 * 3600 s is the first beyond a day.
    assert waits[:7] == [5, 15, 60, 300, 900, 3600, 3600]
    assert len(waits) == 5 + 24 + 1 and seen.delivered == 7


def test_a_clock_set_back_silences_no_hook():
    """A working hook waits for nothing, and no wait is longer than a day."""
    assert plan.is_due(NEW._replace(due_at=NOW + 3_600_000), NOW)
    for seconds, is_due in ((-1, True), (0, True), (1, False), (86_400, False), (86_401, True)):
        one = NEW._replace(failures=1, due_at=NOW + 1_000 * seconds)
        assert plan.is_due(one, NOW) is is_due, seconds


def test_a_receiver_can_prolong_the_wait_and_success_ends_it():
    """The backoff is 5 s, then 15 s. A ping that must wait delays what follows."""
    fail = functools.partial(plan.after_failure, now=0, status=429, error="returned HTTP 429")
    once = fail(NEW, wait_seconds=90)
    assert (once.due_at, fail(once, wait_seconds=1).due_at) == (90_000, 15_000)
    pinged = fail(NEW._replace(ping=True), wait_seconds=30, is_ping=True)
    assert (pinged.ping, pinged.due_at) == (False, 30_000)
    done = NEW._replace(delivered=8, due_at=20, delivered_at=20)
    assert plan.after_success(once, 20, 8) == done


# ---- what may be a hook --------------------------------------------------------------------------
DISCORD, TELEGRAM = "https://discord.com/api/webhooks/1/a", "https://api.telegram.org/bot1:a"
# By kind.
REFUSED = {
    "webhook": [
        *("http://x.example/in", "ftp://x.example/in", "https://", "https://[::1/"),
        *("https://user:pass@x.example/in", "https://x.example/in#part", "https://x.example/a b"),
        *(f"https://x.example:{port}/in" for port in (0, 22, 6379, 8443, 99999)),
        "https://x.example/" + "a" * 500,
    ],
    "discord": [DISCORD.replace(".com", end) for end in (".com.evil.example", ".com:8443")],
    "telegram": [f"{TELEGRAM}/sendMessage", f"{TELEGRAM}/deleteWebhook?chat_id=1"],
    "ntfy": ["https://ntfy.example/topic"],
}
# Only the operator's settings make the first one.
NO_KINDS = {"apprise": [URL], "carrier pigeon": [URL]}


def test_invalid_addresses_are_refused(settings):
    for kind, urls in (REFUSED | NO_KINDS).items():
        for url in urls:
            problem = refused(hooks.check_url, settings, url, kind)
            assert problem.errors[0]["field"] == ("kind" if kind in NO_KINDS else "url"), url


def test_valid_addresses_are_accepted(settings):
    private = ground.change(settings, hooks_private="on")
    hooks.check_url(private, "http://127.0.0.1:8443/in", "webhook")
    for url, kind in (
        ("https://x.example:443/in?token=1", "webhook"),
        ("https://x.example:80/in", "webhook"),
        (DISCORD, "discord"),
        ("https://hooks.slack.com/services/T/B/x", "slack"),
        (f"{TELEGRAM}B-c_d/sendMessage?chat_id=-100123", "telegram"),
        ("https://ntfy.sh/topic", "ntfy"),
    ):
        hooks.check_url(settings, url, kind)


def test_a_hook_accepts_known_events_and_bots_only(service):
    bot = service.make_bot("Ada")
    for field, given in (("events", []), ("events", ["post", "sale"]), ("bots", ["bot_x"])):
        problem = refused(add, service, bot, **{field: given})
        assert problem.errors[0]["field"] == field and not Hook.select().exists()


def test_hooks_per_account_are_limited(service):
    bot = service.make_bot()
    add_many(service, bot, 1)
    problem = refused(add, service, bot)
    quota = {"quota": "hooks", "setting": "MAX_HOOKS_PER_OWNER", "limit": 1, "used": 1}
    assert (problem.code, problem.more) == ("quota_exceeded", quota)
