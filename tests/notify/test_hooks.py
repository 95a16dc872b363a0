"""Hooks: who receives which events in which order, and how receivers can influence it."""

import base64
import functools
import hashlib
import hmac
import json
import threading
import time

import ground
import orjson
import pytest
import receiver
from receiver import Receiver
from service import NOW, address, hide_post, refused, signature

import storage
from accounts import acts, hooks, posts
from accounts.tables import Hook
from models import Wallet
from notify import client, messages, outbox, plan
from notify.messages import Event, Message
from storage import store_arrival
from web.api import stream
from web.site import facts, words

DAY_MS = 24 * 3600 * 1000
WEBHOOK = messages.Receiver("hook_1", "webhook", "https://x.example/in", "whsec_c2VjcmV0")
POST = {
    "id": "post_1",
    "botId": "bot_1",
    "botName": "Nell",
    "body": "Took profit.",
    "createdAt": "2026-11-05T12:00:00Z",
    "verification": {"status": "verified"},
    "provenance": {"ownership": "proven"},
}


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
    service.config = ground.change(service.config, hooks_private="on")
    return service


@pytest.fixture
def delivering(private, monkeypatch):
    """delivering() -> an Outbox running in a thread, without the rate limit per host"""
    monkeypatch.setattr(outbox, "HOST_SECONDS", 0.0)
    monkeypatch.setattr(outbox, "STORE_SECONDS", 0.05)
    running = []

    def start():
        made = outbox.Outbox(
            private.config, functools.partial(facts.list_notices, private.config.base_url)
        )

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


def until(test, seconds=60):
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def say(service, made, *events):
    for event in events:
        body, _ = posts.parse_post({"eventId": event, "body": f"words of {event}"})
        posts.publish(made.bot.id, body, NOW)


def add(service, made, url, trusted=True, **more):
    return hooks.add_hook(service.config, made.owner, url, NOW, trusted=trusted, **more)


def events_of(one):
    return [json.loads(body)["data"].get("eventId") for _, body in one.got]


def row(made):
    return Hook.get(Hook.uid == made.uid)


# ---- deliveries ----------------------------------------------------------------------------------
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
    assert events_of(good) == [f"e{n}" for n in range(12)]
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


def test_a_crash_loses_nothing_and_repeats_have_the_same_id(
    private, delivering, receivers, monkeypatch
):
    (good,) = receivers()
    bot = private.make_bot()
    add(private, bot, good.url)
    # Nothing is stored before the crash, the worst moment.
    monkeypatch.setattr(outbox.Outbox, "_store", lambda self, everything=False: None)
    delivering()
    say(private, bot, "a", "b")
    until(lambda: len(good.got) == 2)
    delivering.stop()
    monkeypatch.undo()
    monkeypatch.setattr(outbox, "HOST_SECONDS", 0.0)
    say(private, bot, "c")
    delivering()
    until(lambda: "c" in events_of(good))
    assert events_of(good) == ["a", "b", "a", "b", "c"]
    ids = [headers["webhook-id"] for headers, _ in good.got]
    assert ids[:2] == ids[2:4] and ids[4] not in ids[:4]


def test_failing_receivers_delay_no_others(private, delivering, receivers):
    held = threading.Event()
    good, bad, slow, away = receivers(4)
    bad.behave(receiver.answer(500, b"secrets of the receiver"))
    slow.behave(receiver.hang(held))
    away.behave(receiver.answer(302, Location=good.url + "/elsewhere"))
    bot = private.make_bot()
    made = [add(private, bot, one.url) for one in (bad, slow, away, good)]
    say(private, bot, *(f"e{n}" for n in range(8)))
    delivering()
    until(lambda: len(good.got) == 8)
    assert events_of(good) == [f"e{n}" for n in range(8)]
    until(lambda: row(made[0]).last_error and row(made[2]).last_error)
    assert row(made[0]).last_error == "returned HTTP 500"
    assert row(made[2]).last_error == "returned HTTP 302"
    until(lambda: row(made[3]).delivered_at)
    assert row(made[3]).last_error is None
    assert set(events_of(bad)) == set(events_of(away)) == {"e0"}
    held.set()


ACCEPTED = client.Answer(204, None)
TOO_LATE = client.Answer(None, client.TOO_LATE)


class HookClock:
    """The clock of notify.outbox, which stops until it is set: `now`, in seconds."""

    def __init__(self):
        self.now = 1_000.0

    def monotonic(self):
        return self.now

    def time_ns(self):
        return (NOW // 1000 + int(self.now)) * 10**9


@pytest.fixture
def clock(monkeypatch):
    made = HookClock()
    monkeypatch.setattr(outbox, "time", made)
    return made


def make_outbox(service, send, start=lambda work: work()):
    """An outbox that sends with `send`; by default, each message is answered before the next."""
    read = functools.partial(facts.list_notices, service.config.base_url)
    return outbox.Outbox(service.config, read, send, start)


def deliver_each_second(made, clock, seconds):
    made.synchronize()
    for _ in range(seconds):
        made.deliver()
        clock.now += 1.0


def test_a_hook_turned_off_mid_delivery_gets_nothing_more(private, clock):
    bot, in_flight, told = private.make_bot(), [], []
    made = add(private, bot, "https://x.example/in")

    def send(message, private):
        told.append(json.loads(message.body)["data"].get("eventId", "ping"))
        return ACCEPTED

    def deliver():
        deliver_each_second(box, clock, 2)
        while in_flight:
            in_flight.pop()()
        box.deliver()
        box.synchronize()

    box = make_outbox(private, send, in_flight.append)
    say(private, bot, "on its way")
    deliver_each_second(box, clock, 1)
    # Its response, which would activate the hook, arrives after it was turned off.
    assert len(in_flight) == 1
    assert acts.switch_hook(made.uid, False, acts.COMMAND_LINE, "", NOW)
    say(private, bot, "while it is off")
    deliver()
    assert told == ["on its way"] and row(made).state == "off"
    hooks.ask_for_ping(made.uid, NOW)
    deliver()
    assert acts.switch_hook(made.uid, True, acts.COMMAND_LINE, "", NOW)
    deliver()
    assert row(made).state == "active"
    say(private, bot, "later")
    deliver()
    assert told == ["on its way", "ping", "later"]


def test_hooks_of_one_host_take_turns(private, clock):
    """Ada has six posts to deliver, Otto two: her older hook must not use the host's one message
    per second until it is done.
    """
    told = []
    ada, otto = private.make_bot("Ada"), private.make_bot("Otto")
    for bot, path in ((ada, "ada"), (otto, "otto")):
        add(private, bot, f"https://messenger.example/{path}")
    say(private, ada, *(f"a{n}" for n in range(6)))
    say(private, otto, "o0", "o1")

    def send(message, private):
        told.append(message.url.rpartition("/")[2])
        return ACCEPTED

    deliver_each_second(make_outbox(private, send), clock, 9)
    assert told == ["ada", "otto", "ada", "otto", "ada", "ada", "ada", "ada"]


def test_a_host_is_the_same_however_its_address_is_written(private, clock):
    """Three hooks at one host, spelled differently, still get one message per second together."""
    told, bot = [], private.make_bot()
    for host in ("x.example", "X.example:443", "x.example."):
        add(private, bot, f"https://{host}/in")
    say(private, bot, "one")

    def send(message, private):
        told.append(clock.now)
        return ACCEPTED

    deliver_each_second(make_outbox(private, send), clock, 4)
    assert told == [1_000.0, 1_001.0, 1_002.0]


def add_many(service, made, url, count):
    """Add hooks at the paths /0, /1, ... of a receiver."""
    service.config = ground.change(service.config, max_hooks_per_owner=count)
    for number in range(count):
        add(service, made, f"{url}/{number}")


def test_hanging_receivers_delay_no_others(private, monkeypatch):
    """Not even right after a restart, when the outbox doesn't know yet which of them hang."""
    monkeypatch.setattr(outbox, "HOST_SECONDS", 0.0)
    honest, hostile = private.make_bot("Honest"), private.make_bot("Hostile")
    add(private, honest, "https://good.example/in")
    add_many(private, hostile, "https://bad.example", 60)
    say(private, hostile, "b")
    held, hanging, told = threading.Event(), [], []

    def send(message, private):
        if "bad" in message.url:
            hanging.append(message.url)
            held.wait(60)
            return TOO_LATE
        told.append(json.loads(message.body)["data"]["eventId"])
        return ACCEPTED

    for turn in range(1, 3):
        made = make_outbox(private, send, outbox.start_thread)
        made.synchronize()
        until(lambda made=made, turn=turn: made.deliver() or len(hanging) == 60 * turn)
        say(private, honest, f"g{turn}")
        until(lambda made=made, turn=turn: made.deliver() or f"g{turn}" in told)
    held.set()
    assert told[-1] == "g2" and len(hanging) == 120


def test_hanging_receivers_share_a_lane_for_a_while(private, clock, monkeypatch):
    """Few messages to them are in flight, and each receiver gets all of its own in order."""
    monkeypatch.setattr(outbox, "HOST_SECONDS", 0.0)
    monkeypatch.setattr(outbox, "MAX_SLOW", 4)
    monkeypatch.setattr(plan, "WAITS_SECONDS", (0,))
    bot, in_flight, told, answers = private.make_bot(), [], [], []
    add_many(private, bot, "https://x.example", 20)
    say(private, bot, "a", "b", "c")

    def send(message, private):
        told.append((message.url, json.loads(message.body)["data"]["eventId"]))
        return answers[-1]

    made = make_outbox(private, send, in_flight.append)
    made.synchronize()

    def deliver(answer, seconds):
        """Send what may be sent, and answer it after some seconds. Return how much that was."""
        made.deliver()
        count = len(in_flight)
        answers.append(answer)
        clock.now += seconds
        while in_flight:
            in_flight.pop()()
        return count

    assert deliver(ACCEPTED, 0) == deliver(TOO_LATE, outbox.SLOW_SECONDS) == 20
    # Two messages to each of twenty, four at a time.
    assert [deliver(ACCEPTED, 0) for _ in range(11)] == [*[4] * 10, 0]
    for number in range(20):
        mine = [event for url, event in told if url == f"https://x.example/{number}"]
        assert mine == ["a", "b", "b", "c"]
    clock.now += outbox.SLOW_LANE_SECONDS
    say(private, bot, "d")
    assert deliver(ACCEPTED, 0) == 20


def has_operators_hook():
    return Hook.select().where(Hook.kind == hooks.APPRISE).exists()


def test_the_operators_own_receivers_never_wait(private, delivering, receivers, monkeypatch):
    """Even if messages to others use all slots."""
    monkeypatch.setattr(outbox, "MAX_BUSY", 2)
    private.config = ground.change(private.config, apprise_urls=("json://127.0.0.1/in",))
    told, held = [], threading.Event()

    def send(message, site):
        told.append(message.body.decode())
        return client.Answer(None, None)

    monkeypatch.setattr(client, "send_with_apprise", send)
    (bad,) = receivers()
    bot = private.make_bot()
    add_many(private, bot, bad.behave(receiver.hang(held)).url, 3)
    delivering()
    # They get events from then on.
    until(has_operators_hook)
    say(private, bot, "one")
    until(lambda: len(bad.got) >= 2)
    say(private, bot, "two")
    until(lambda: len(told) == 2)
    assert "words of two" in told[1]
    held.set()


def test_a_new_hook_must_respond_to_a_ping_first(private, delivering, receivers):
    mute, good = receivers(2)
    mute.behave(receiver.answer(404))
    bot = private.make_bot()
    made = [add(private, bot, one.url, trusted=False) for one in (mute, good)]
    say(private, bot, "one")
    delivering()
    until(lambda: len(good.got) == 2)
    assert [json.loads(body)["type"] for _, body in good.got] == ["ping", "post"]
    until(lambda: row(made[0]).last_error == "returned HTTP 404")
    assert row(made[0]).state == "waiting" and len(mute.got) == 1


def test_a_gone_receiver_is_paused_until_it_responds_to_a_ping(private, delivering, receivers):
    (gone,) = receivers()
    gone.behave(receiver.answer(410))
    bot = private.make_bot()
    made = add(private, bot, gone.url)
    say(private, bot, "one")
    delivering()
    until(lambda: row(made).state == "paused")
    gone.behave(receiver.answer(204))
    hooks.ask_for_ping(made.uid, NOW)
    until(lambda: row(made).state == "active" and len(gone.got) == 3)
    assert [json.loads(body)["type"] for _, body in gone.got] == ["post", "ping", "post"]


def test_a_hook_gets_its_owners_bots_and_chosen_events(private, delivering, receivers):
    mine, chosen = receivers(2)
    ada, stranger = private.make_bot("Ada"), private.make_bot("Otto")
    second = private.make_bot("Nell", owner=ada.owner)
    add(private, ada, mine.url)
    add(private, ada, chosen.url, bots=[second.bot.uid])
    delivering()
    say(private, stranger, "not mine")
    say(private, ada, "mine")
    say(private, second, "also mine")
    until(lambda: len(mine.got) == 2 and chosen.got)
    assert events_of(mine) == ["mine", "also mine"] and events_of(chosen) == ["also mine"]


def test_removed_text_is_not_sent(private, delivering, receivers):
    (late,) = receivers()
    bot = private.make_bot()
    add(private, bot, late.url)
    say(private, bot, "one")
    uid = private.get("/api/v1/feed", bot.publish_key.text).json["data"][0]["id"]
    hide_post(uid, NOW)
    delivering()
    until(lambda: late.got)
    assert json.loads(late.got[0][1])["data"]["body"] is None
    assert b"words of one" not in late.got[0][1]


def test_coverage_changes_go_to_hooks_and_not_to_the_stream(private, delivering, receivers):
    (program,) = receivers()
    bot = private.make_bot("Nell", address("w"))
    hook = add(private, bot, program.url, events=["coverage"])
    private.observe_results(address("w"), realized=0)
    store_arrival("coverage", wallet=Wallet.get(Wallet.address == address("w")))
    delivering()
    until(lambda: program.got)
    sent = json.loads(program.got[0][1])
    assert sent["type"] == "coverage"
    assert sent["data"]["botId"] == bot.bot.uid and sent["data"]["wallet"] == address("w")
    assert sent["data"]["coverage"]["state"] == "complete"
    newest = row(hook).delivered
    [told] = facts.list_notices("https://c.example", newest - 1, 9)
    [streamed] = stream.read_events("secret", "https://c.example", newest - 1, 9)
    assert messages.write_text(told, "https://c.example") == (
        f"Nell: complete history\nhttps://c.example/bots/{bot.bot.uid}?tab=trades"
    )
    assert (streamed.raw, streamed.public) == (b"", b"")


def test_messages_state_what_the_chain_shows(private):
    """Sold 1 unit of a 3-decimal token for 5,000 lamports; bought for 1,000 before."""
    bot = private.make_bot("Nell", address("w"))
    money = {"sol": 5_000_000, "proceeds": 5_000_000, "cost": 1_000_000, "result": 4_000_000}
    sale = {"kind": "sell", "raw": -1_000, "realized": "matched", **money}
    store_arrival("trade", trade=private.observe_trade(address("w"), "sale", slot=9, **sale))
    body = {"eventId": "e", "body": "Took profit.", "signature": signature("sale")}
    posts.publish(bot.bot.id, posts.PostBody(**body), NOW)
    told = facts.list_notices("https://c.example", 0, 9)
    texts = {one.kind: messages.write_text(one, "https://c.example") for one in told}
    deed = "Sold 1 " + words.short(address("mint")) + " for 0.005 SOL · +0.004 SOL (+400%)"
    assert texts["trade"].startswith(f"Nell: {deed}")
    lines = texts["post"].splitlines()
    assert lines[0] == "Nell: Took profit." and lines[2].startswith(deed)


def test_a_loading_history_sends_nothing():
    target = outbox.Target(
        1, WEBHOOK, frozenset({"trade"}), frozenset({"bot_1"}), created_at=1_000_000
    )
    told = [
        outbox.choose(target, Event(1, "trade", {"botId": "bot_1", "blockTime": seconds}))
        for seconds in (999, 1000, None)
    ]
    assert [bool(one) for one in told] == [False, True, False]


# ---- what becomes of a failure -------------------------------------------------------------------
def progress(**more):
    fresh = plan.Progress("active", 7, False, 0, None, 0, None, None)
    return fresh._replace(**more)


def test_failures_back_off_and_pause_the_hook_after_a_day():
    now, seen, waits = 0, progress(), []
    while seen.state == "active":
        seen = plan.after_failure(seen, now, 500, "returned HTTP 500")
        waits.append((seen.due_at - now) // 1000)
        now = max(seen.due_at, now + 1)
    # 5 + 15 + 60 + 300 + 900 s, then hourly: 1280 s + 24 * 3600 s is the first beyond a day.
    assert waits[:7] == [5, 15, 60, 300, 900, 3600, 3600]
    assert 1280 * 1000 + 23 * 3600_000 < DAY_MS <= 1280 * 1000 + 24 * 3600_000
    assert len(waits) == 5 + 24 + 1 and seen.delivered == 7


@pytest.mark.parametrize(
    "failures, due_in_seconds, is_due",
    [
        *((0, 3_600, True), (1, -1, True), (1, 0, True)),
        *((1, 1, False), (1, 86_400, False), (1, 86_401, True)),
    ],
)
def test_a_clock_set_back_silences_no_hook(failures, due_in_seconds, is_due):
    """A working hook waits for nothing, and no wait is longer than a day."""
    one = progress(failures=failures, due_at=NOW + 1_000 * due_in_seconds)
    assert plan.is_due(one, NOW) is is_due


def test_retry_after_is_respected(receivers):
    (busy,) = receivers()
    busy.behave(receiver.answer(429, **{"Retry-After": "90"}))
    answered = client.post(Message(busy.url, {}, b"x"), private=True)
    assert answered == client.Answer(429, "returned HTTP 429", 90)
    # No sooner than requested, and no sooner than our own backoff: 5 s, then 15 s.
    once = plan.after_failure(progress(), 0, *answered)
    assert once.due_at == 90_000
    assert plan.after_failure(once, 0, 429, "returned HTTP 429", 1).due_at == 15_000


@pytest.mark.parametrize(
    "text, seconds",
    [
        *((None, 0), ("7", 7), ("1.2", 2), ("-3", 0), ("1e999", 86_400), ("nan", 0), ("soon", 0)),
        ("Thu, 05 Nov 2026 12:01:00 GMT", 60),
        ("Thu, 05 Nov 2026 11:00:00 GMT", 0),
    ],
)
def test_retry_after_values_are_parsed(text, seconds):
    # 2026-11-05T12:00:00Z
    assert client.read_wait(text, 1_793_880_000) == seconds


def test_a_test_requested_during_a_delivery_is_sent_too(private, clock):
    """The message fails and waits five seconds; the test is sent after them, before the message."""
    sent = []
    bot = private.make_bot()
    made = add(private, bot, "https://x.example/in")
    say(private, bot, "one")
    Hook.update(delivered_at=NOW).execute()

    def send(message, private):
        sent.append((clock.now, json.loads(message.body)["type"]))
        if len(sent) == 1:
            hooks.ask_for_ping(made.uid, clock.time_ns() // 1_000_000)
            box.synchronize()
        return client.Answer(500, "returned HTTP 500") if len(sent) == 1 else ACCEPTED

    box = make_outbox(private, send)
    deliver_each_second(box, clock, 9)
    assert sent == [(1_000.0, "post"), (1_006.0, "ping"), (1_007.0, "post")]


def test_a_ping_told_to_wait_delays_what_follows():
    failed = plan.after_failure(progress(ping=True), 0, 429, "returned HTTP 429", 30, is_ping=True)
    assert (failed.ping, failed.due_at) == (False, 30_000)


def test_a_date_without_a_zone_is_utc(monkeypatch):
    """HTTP's oldest date format, on a machine fourteen hours ahead: a minute after 0."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert client.read_wait("Thu Jan  1 00:01:00 1970", 0.0) == 60
    finally:
        monkeypatch.undo()
        time.tzset()


def test_success_resets_failures():
    failed = plan.after_failure(progress(), 10, None, "did not respond in time")
    assert plan.after_success(failed, 20, 8) == progress(delivered=8, due_at=20, delivered_at=20)


# ---- addresses -----------------------------------------------------------------------------------
# From IANA's special-purpose registries (IPv4 and IPv6), and cloud providers' documents.
NOT_PUBLIC = {
    "this machine": "127.0.0.1 0.0.0.0 ::1 ::",
    "private networks": "10.1.2.3 172.16.0.1 192.168.1.1 100.64.0.1 fc00::1 fec0::1",
    "link-local": "169.254.1.1 fe80::1 fe80::1%eth0",
    "metadata of clouds": "169.254.169.254 192.0.0.192 168.63.129.16 100.100.100.200 fd00:ec2::254",
    "protocol assignments": "192.0.0.1 192.0.0.9 192.0.0.10 192.0.0.170 2001:1::1 2001:4:112::1",
    "relays": "192.88.99.1 192.88.99.255",
    "benchmarks and ORCHID": "198.18.0.1 2001:2::1 2001:20::1 2001:30::1",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1 3fff:fff:ffff::1",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "reserved": "240.0.0.1 255.255.255.255 4000::1 5f00::1 100::1 100:0:0:1::1",
    "IPv4-mapped": "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:168.63.129.16 ::ffff:192.0.0.192",
    "IPv4-compatible": "::7f00:1 ::a9fe:a9fe ::ffff:0:127.0.0.1",
    "NAT64": "64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe",
    "6to4": "2002:7f00:1:: 2002:a9fe:a9fe::1",
    "Teredo": "2001::1 2001:0:7f00:1::",
}
# The last ones are adjacent to refused ranges.
PUBLIC = """1.1.1.1 93.184.216.34 2606:4700::1111 2a00:1450:4001::1 ::ffff:1.1.1.1
    191.255.255.255 192.0.1.1 168.63.129.15 168.63.129.17 192.88.98.255 192.88.100.0
    2001:200::1 2003::1 3ffe:ffff::1 3fff:1000::1"""


@pytest.mark.parametrize("text", " ".join(NOT_PUBLIC.values()).split())
def test_private_addresses_are_recognized(text):
    assert not client.is_public(text)


@pytest.mark.parametrize("text", PUBLIC.split())
def test_public_addresses_are_recognized(text):
    assert client.is_public(text)


def test_private_addresses_are_refused_by_default(receivers):
    (inside,) = receivers()
    port = inside.server.server_port
    for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        sent = client.post(Message(f"http://{host}:{port}/", {}, b"x"))
        assert sent.status is None and sent.error
    assert inside.got == []


def test_dns_rebinding_leads_nowhere(monkeypatch):
    """The checked address is the one connected to; the name is resolved once."""
    asked, connected = [], []
    first = [(2, 1, 6, "", ("93.184.216.34", 443))]

    def resolve(host, *_, **__):
        asked.append(host)
        return first if len(asked) == 1 else [(2, 1, 6, "", ("127.0.0.1", 443))]

    def connect(to, timeout):
        connected.append(to[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(client.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(client.socket, "create_connection", connect)
    assert client.post(Message("https://rebind.example/", {}, b"x")).error
    assert asked == ["rebind.example"] and connected == ["93.184.216.34"]


def test_one_private_address_refuses_the_whole_name(monkeypatch):
    both = [(2, 1, 6, "", (one, 443)) for one in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(client.socket, "getaddrinfo", lambda *_, **__: both)
    answered = client.post(Message("https://two.example/", {}, b"x"))
    assert answered == client.Answer(None, "has no public address")


def test_a_trickle_ends_at_the_deadline(receivers, monkeypatch):
    (slow,) = receivers()
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.3)
    began = time.monotonic()
    answered = client.post(Message(slow.behave(receiver.trickle(20)).url, {}, b"x"), private=True)
    assert answered == client.Answer(None, "did not respond in time")
    assert time.monotonic() - began < 10


def test_receiver_responses_are_not_stored(receivers):
    (bad,) = receivers()
    bad.behave(receiver.answer(500, b"<script>canary</script>", **{"X-Canary": "canary"}))
    assert client.post(Message(bad.url, {}, b"x"), private=True) == client.Answer(
        500, "returned HTTP 500"
    )


# ---- what may be a hook --------------------------------------------------------------------------
# By kind.
REFUSED = {
    "webhook": (
        *("http://x.example/in", "ftp://x.example/in", "https://", "https://[::1/"),
        *("https://user:pass@x.example/in", "https://x.example/in#part", "https://x.example/a b"),
        *(f"https://x.example:{port}/in" for port in (0, 22, 6379, 8443, 99999)),
        "https://x.example/" + "a" * 500,
    ),
    "discord": (
        "https://discord.com.evil.example/api/webhooks/1/a",
        "https://discord.com:8443/api/webhooks/1/a",
    ),
    "telegram": (
        "https://api.telegram.org/bot1:a/sendMessage",
        "https://api.telegram.org/bot1:a/deleteWebhook?chat_id=1",
    ),
    "ntfy": ("https://ntfy.example/topic",),
    "carrier pigeon": ("https://x.example/in",),
}


@pytest.mark.parametrize("url, kind", [(url, kind) for kind in REFUSED for url in REFUSED[kind]])
def test_invalid_addresses_are_refused(service, url, kind):
    problem = refused(hooks.check_url, service.config, url, kind)
    assert problem.errors[0]["field"] == ("kind" if "pigeon" in kind else "url")


def test_valid_addresses_are_accepted(service):
    for url, kind in (
        ("https://x.example:443/in?token=1", "webhook"),
        ("https://x.example:80/in", "webhook"),
        ("https://discord.com/api/webhooks/1/abc", "discord"),
        ("https://hooks.slack.com/services/T/B/x", "slack"),
        ("https://api.telegram.org/bot123:AB-c_d/sendMessage?chat_id=-100123", "telegram"),
        ("https://ntfy.sh/topic", "ntfy"),
    ):
        hooks.check_url(service.config, url, kind)


def test_hooks_private_allows_any_port(private):
    hooks.check_url(private.config, "http://127.0.0.1:8443/in", "webhook")


def test_a_hook_accepts_known_events_and_bots_only(service):
    bot = service.make_bot("Ada")
    url = "https://x.example/"
    for more, field in (
        ({"events": []}, "events"),
        ({"events": ["post", "sale"]}, "events"),
        ({"bots": ["bot_x"]}, "bots"),
    ):
        problem = refused(hooks.add_hook, service.config, bot.owner, url, NOW, **more)
        assert problem.errors[0]["field"] == field
    assert not Hook.select().count()


def test_hooks_per_account_are_limited(service):
    config = ground.change(service.config, max_hooks_per_owner=1)
    bot = service.make_bot()
    hooks.add_hook(config, bot.owner, "https://x.example/", NOW)
    problem = refused(hooks.add_hook, config, bot.owner, "https://x.example/", NOW)
    assert problem.code == "quota_exceeded"
    quota = {"quota": "hooks", "setting": "MAX_HOOKS_PER_OWNER"}
    assert problem.more == {**quota, "limit": 1, "used": 1}


# ---- messages ------------------------------------------------------------------------------------
URLS = {
    "ntfy": "https://ntfy.sh/topic",
    "discord": "https://discord.com/api/webhooks/1/a",
    "slack": "https://hooks.slack.com/services/a",
    "telegram": "https://api.telegram.org/bot1:a/sendMessage?chat_id=-5",
}


def write(kind, fact="", **changes):
    """A message to a messenger about a post: its address, its JSON, and the text in it."""
    to = messages.Receiver("hook_1", kind, URLS[kind], None)
    event = Event(1, "post", {**POST, **changes}, fact)
    sent = messages.write_message(to, event, 0, "https://c.example")
    told = {"text": sent.body.decode()} if kind == "ntfy" else orjson.loads(sent.body)
    return sent.url, told, told.get("content") or told["text"]


@pytest.mark.parametrize(
    "ownership, label",
    [
        ("proven", "Verified by a finalized transaction"),
        ("claimed", "Verified by a finalized transaction of a wallet that is claimed, not proven"),
    ],
)
def test_messages_contain_text_and_label(ownership, label):
    _, _, text = write("ntfy", provenance={"ownership": ownership})
    assert text == f"Nell: Took profit.\n{label}\nhttps://c.example/posts/post_1"


def test_long_text_is_cut_to_the_limit():
    assert len(write("ntfy", body="x" * 4000)[2]) == messages.MAX_TEXT


@pytest.mark.parametrize("kind", ["ntfy", "discord", "telegram"])
@pytest.mark.parametrize("body", ["字" * 4000, "😀" * 4000, "*" * 4000, "\\" * 4000, "字*" * 2000])
def test_long_text_fits_each_messengers_limit(kind, body):
    """ntfy accepts 4,096 bytes, and turns longer text into a file; 1,800 of these characters have
    up to 7,200. Discord accepts 2,000 characters, including the backslashes for escaping.
    """
    _, _, text = write(kind, body=body)
    assert len(text) <= 2_000 and len(text.encode()) <= 4_096
    # The text isn't cut more than necessary, and the lines below it are complete.
    assert len(text) >= 900
    assert text.endswith("…\nVerified by a finalized transaction\nhttps://c.example/posts/post_1")


def test_hostile_text_formats_nothing():
    """Markup for Discord and Slack is shown as typed."""
    body = "# [sure](https://evil.example) **x** _y_ `z` ||s|| <@1>\n>>> all https://a.example/b_c"
    fact = "Sold 1 [FERN](https://evil.example) for 2 SOL"
    # A backslash precedes each Discord Markdown character; addresses stay unchanged.
    _, _, text = write("discord", fact, botName="N*ll", body=body)
    assert text.splitlines() == [
        r"N\*ll: \# \[sure\](https://evil.example) \*\*x\*\* \_y\_ \`z\` \|\|s\|\| \<@1\>",
        r"\>\>\> all https://a.example/b_c",
        "Verified by a finalized transaction",
        r"Sold 1 \[FERN\](https://evil.example) for 2 SOL",
        "https://c.example/posts/post_1",
    ]
    _, slack, text = write("slack", fact, body=body)
    assert slack["mrkdwn"] is False and "*x*" in text


def test_hostile_text_mentions_nobody_and_links_nothing():
    body = "<!channel> @everyone <https://evil.example|win> & more"
    _, discord, _ = write("discord", body=body)
    assert discord["allowed_mentions"] == {"parse": []}
    _, _, text = write("slack", body=body)
    assert "<" not in text and "&lt;!channel&gt;" in text
    url, telegram, text = write("telegram", body=body)
    assert url == "https://api.telegram.org/bot1:a/sendMessage"
    assert telegram["chat_id"] == "-5" and "parse_mode" not in telegram
    # Telegram mentions a name after this character.
    assert "@everyone" not in text and "everyone" in text
    assert write("ntfy", body=body)[2].startswith("Nell: <!channel> @everyone")


def test_an_address_is_shown_without_its_path():
    assert hooks.mask_url("https://discord.com/api/webhooks/1/token?x=1") == "https://discord.com/…"


def test_signatures_match_the_specification():
    """The example from Standard Webhooks' reference libraries."""
    signed = messages.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


# ---- while nothing happens -----------------------------------------------------------------------
def test_events_are_read_only_after_a_write(private, monkeypatch):
    """PostgreSQL counts writes of the whole cluster, including other tests, so this checks what is
    read at each version, not how often.
    """
    reads, versions, ask = [], [], storage.database.data_version
    bot = private.make_bot()
    add(private, bot, "https://nobody.example/in")

    def read(after, limit):
        reads.append(versions[-1])
        return []

    def note_version():
        versions.append(ask())
        return versions[-1]

    made = outbox.Outbox(private.config, read)
    monkeypatch.setattr(storage.database.obj, "data_version", note_version)
    made.synchronize()
    versions.clear()
    for _ in range(5):
        made.deliver()
    assert len(versions) == 5 and reads == list(dict.fromkeys(versions))
    before = versions[-1]
    say(private, bot, "news")
    for _ in range(5):
        made.deliver()
    assert versions[5] != before
    assert len(versions) == 10 and reads == list(dict.fromkeys(versions))
    if not ground.SERVER:
        assert len(reads) == 2
