"""Subscriptions over a real loopback socket, to a misbehaving node."""

import contextlib
import json
import time
from datetime import datetime
from functools import partial

import ground
import pytest
from bellnode import BellNode
from ground import until
from story import ADA, account_of, address, market
from test_jobs import fail_first
from websockets.exceptions import WebSocketException
from websockets.server import ServerProtocol

import config
import jobs
from models import Wallet
from observing import subscriptions
from observing.state import MAX_FALSE, Notices, State, Subscription
from observing.subscriptions import Listener, Notice, Reply, list_websockets, read_message
from web.api.health import check_health

BOB, CAT = address("bob"), address(account_of("ada", "CAT"))
WANTED = (Subscription(1, ADA), Subscription(2, BOB), Subscription(1, ADA, CAT))
PLACES = [("logsSubscribe", ADA), ("logsSubscribe", BOB), ("accountSubscribe", CAT)]


# ---- messages: from JSON to plain values ---------------------------------------------------------
LAST = 2**63 - 1
KINDS = ("accountNotification", "logsNotification")
NO_IDS = (None, "7", -1, 2**63)


def notify(method, number=7, result=None):
    return {"method": method, "params": {"subscription": number, "result": result}}


@pytest.mark.parametrize(
    "message, read",
    [
        # The content of a notice isn't used.
        *((notify(kind, n, {"any": "thing"}), Notice(n)) for kind in KINDS for n in (0, 7, LAST)),
        (notify(KINDS[0]), Notice(7)),
        # Other notices are ignored.
        (notify("slotNotification"), None),
        # A subscription gets its ID. Without a valid one it is refused, as with an error, whatever
        # else the message contains.
        *(({"id": n, "result": n}, Reply(n, n)) for n in (0, 3, LAST)),
        *(({"id": 3, "result": one}, Reply(3, None)) for one in (*NO_IDS, 7.0)),
        *(({"id": 3, "error": {}, **more}, Reply(3, None)) for more in ({}, {"result": True})),
        # Replies to unsubscribing and to other requests are ignored.
        *(({"id": 3, "result": one}, None) for one in (True, False)),
        *(({"id": one, "result": 7}, None) for one in ("3", -1, 2**63)),
        ({"result": 7}, None),
        ({}, None),
    ],
)
def test_a_message_is_a_notice_a_reply_or_ignored(message, read):
    assert read_message(message) == read


INCOMPLETE = {}, {"params": []}, {"params": {"result": {}}}


@pytest.mark.parametrize(
    "message, said",
    [
        *((message, "a message is not an object") for message in (None, [], "word", 5)),
        *((notify(k, n), "a notice of an unknown") for k in KINDS for n in (*NO_IDS, True)),
        *(({"method": k, **m}, "a notice of an unknown") for k in KINDS for m in INCOMPLETE),
    ],
)
def test_a_message_is_an_object_and_a_notice_belongs_to_a_subscription(message, said):
    with pytest.raises(ValueError, match=said):
        read_message(message)


# ---- one node ------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """Use the delays of an impatient listener."""
    for name in ("READ_SECONDS", "MIN_PAUSE_SECONDS"):
        monkeypatch.setattr(subscriptions, name, 0.05)


@pytest.fixture
def node():
    with BellNode() as made:
        yield made


@pytest.fixture
def listen():
    """listen(node, most) -> a started Listener, once it covers this many wallets."""
    started = []

    def start(node, most=100, covering=2):
        made = Listener(node.url, "endpoint 1", Notices(), most)
        made.notices = made._notices
        made.notices.want(WANTED)
        made.start()
        started.append(made)
        until(lambda: made.notices.count_covered() == covering)
        return made

    yield start
    for made in started:
        made.stop()
    for made in started:
        made.join(60)


@pytest.fixture
def row(chain):
    """A transaction with ada's wallet and one of its accounts."""
    return next(row for row in chain.rows if {ADA, CAT} <= set(row.keys))


def take(listener):
    """The due wallets, once one is due, which a pass then polls."""
    due = listener.notices.list_due(time.monotonic, 60)
    listener.notices.hurry(due, time.monotonic())
    listener.notices.begin_pass(due)
    return due


def test_wallets_and_accounts_subscribe_and_either_notice_makes_the_wallet_due(
    node, listen, chain, row
):
    listener = listen(node)
    assert sorted(node.list_places()) == sorted(PLACES)
    assert (listener.state, listener.subscriptions) == ("listening", 3)
    assert all(params[1]["commitment"] == "finalized" for _, params in node.requests)
    assert listener.notices.covers(1, 0.0) and listener.notices.covers(2, 0.0)
    assert listener.noticed_at is None
    node.announce(row)
    assert take(listener) == [1] and listener.noticed_at is not None
    node.change(chain, row)
    assert take(listener) == [1]


OVERSIZED = "x" * (subscriptions.MAX_MESSAGE_BYTES + 1)


@pytest.mark.parametrize("end", [BellNode.cut, partial(BellNode.flood, raw=OVERSIZED)])
def test_subscriptions_are_renewed_after_a_disconnect(node, listen, end):
    """An oversized message ends the connection. While disconnected, no wallet is covered."""
    listener = listen(node)
    end(node)
    until(lambda: node.connections == 2 and listener.notices.count_covered() == 2)
    assert sorted(node.list_places()) == sorted(PLACES)
    node.__exit__()
    until(lambda: listener.notices.count_covered() == 0)
    assert listener.subscriptions == 0


def test_added_wallets_are_subscribed_and_removed_ones_are_not(node, listen):
    listener = listen(node)
    listener.notices.want(WANTED[1:2])
    until(lambda: node.list_places() == [PLACES[1]])
    listener.notices.want(WANTED)
    until(lambda: sorted(node.list_places()) == sorted(PLACES))


def test_a_limited_endpoint_covers_the_busiest_wallets(node, listen):
    node.allow(2)
    listener = listen(node, covering=1)
    until(lambda: listener.subscriptions == 2)
    asked = len(node.requests)
    time.sleep(0.3)
    assert sorted(node.list_places()) == sorted(PLACES[:2]) and listener.notices.covers(2, 0.0)
    assert listener.refused == asked - 2 > 0 and len(node.requests) == asked


def test_the_setting_caps_subscriptions(node, listen):
    listen(node, most=1, covering=0)
    until(lambda: node.list_places() == PLACES[:1])
    time.sleep(0.2)
    assert len(node.requests) == 1


# ---- a node that misbehaves ----------------------------------------------------------------------
def test_an_endpoint_that_allows_no_subscriptions_is_dropped_quietly(node, listen, caplog):
    node.allow(0)
    listener = listen(node, covering=0)
    until(lambda: listener.state == "resting")
    time.sleep(0.5)
    assert node.connections == 1 and not caplog.records
    # Health still shows it.
    assert listener.refused == len(node.requests) > 0


def test_a_silent_endpoint_is_dropped(node, listen, monkeypatch):
    monkeypatch.setattr(subscriptions, "REPLY_SECONDS", 0.2)
    node.stall()
    listener = listen(node, covering=0)
    until(lambda: listener.state == "resting")
    assert listener.notices.count_covered() == 0


def test_an_endless_stream_of_invalid_messages_is_dropped(node, listen):
    listener = listen(node)
    for _ in range(MAX_FALSE + 5):
        node.flood("nonsense")
    until(lambda: listener.state == "resting")


@pytest.mark.parametrize(
    "raw",
    [
        *("not JSON", "[" * 5_000, b"\xff\xfe", "[1, 2]"),
        # A second reply to a request.
        '{"id": 1, "result": 99999999999999999999999}',
        '{"method": "logsNotification", "params": null}',
        '{"method": "accountNotification", "params": {"subscription": 3, "result": []}}',
    ],
)
def test_invalid_messages_are_skipped(node, listen, row, raw):
    listener = listen(node)
    node.flood(raw)
    node.announce(row)
    assert take(listener) == [1] and node.connections == 1


def test_a_flood_is_read_at_a_limited_rate(node, listen, monkeypatch):
    """Fifty a second here, whatever is sent."""
    monkeypatch.setattr(subscriptions, "MAX_NOTICES", 50)
    listener, noticed_at = listen(node), []
    listener.notices.add = lambda *_: noticed_at.append(time.monotonic())
    for _ in range(500):
        node.lie(("logsSubscribe", ADA), {"context": {"slot": 1}, "value": {}})
    until(lambda: len(noticed_at) > 150)
    # The first may be among the last of its second; two whole seconds are in between.
    assert noticed_at[150] - noticed_at[0] > 1.0


def test_a_connection_that_falls_silent_is_reopened(node, listen, monkeypatch):
    """After two pings, 40 s of the allowed 60. Until then, no wallet counts as covered."""
    assert 2 * subscriptions.PING_SECONDS < 60
    monkeypatch.setattr(subscriptions, "PING_SECONDS", 0.5)
    listener, begun_at = listen(node), time.monotonic()
    with monkeypatch.context() as silent:
        silent.setattr(ServerProtocol, "send_frame", lambda *_: None)
        until(lambda: listener.notices.count_covered() == 0)
        assert time.monotonic() - begun_at >= 0.4 and listener.state != "listening"
    until(lambda: listener.notices.count_covered() == 2)
    assert node.connections >= 2


# ---- errors of ours, and what is shown -----------------------------------------------------------
def test_its_url_is_never_shown(node, listen, caplog, capfd):
    caplog.set_level(0)
    listener = listen(node)
    node.cut()
    until(lambda: node.connections == 2)
    dead = Listener("ws://127.0.0.1:1/?api-key=canary-of-the-bell", "endpoint 2", Notices(), 5)
    with pytest.raises((OSError, WebSocketException)):
        dead._listen()
    said = caplog.text + "".join(capfd.readouterr())
    assert "canary" not in said + json.dumps(listener.state)


def test_a_listener_survives_an_internal_error(node, listen, monkeypatch, caplog):
    """Its text may contain the address and a token, so the log has only its type."""
    fail_once = fail_first(read_message, ZeroDivisionError("canary-of-the-bell"))
    monkeypatch.setattr(subscriptions, "read_message", fail_once)
    listen(node)
    assert "ZeroDivisionError" in caplog.text and "canary" not in caplog.text


def make_job(settings, state, note, wake=print):
    """The job that subscribes, started."""
    free = contextlib.nullcontext
    job = subscriptions.Subscriptions(settings, state, wake, free, note, read_time)
    job.start()
    return job


def read_time():
    return time.time_ns() // 10**6


def test_the_job_survives_an_internal_error(settings, db, caplog, monkeypatch):
    monkeypatch.setattr(subscriptions, "FAULT_SECONDS", 0.05)
    note = fail_first(lambda *_: None, KeyError("x"), ZeroDivisionError("x"))
    settings = ground.change(settings, solana_ws_urls=("ws://127.0.0.1:9",))
    job = make_job(settings, State(settings, None), note)
    until(lambda: note.call_count == 3)
    job.stop(5)
    logged = [one.exc_info[0] for one in caplog.records if one.exc_info]
    assert logged == [KeyError, ZeroDivisionError]


def test_health_shows_covered_wallets_and_the_last_notice(look, node, row, monkeypatch):
    monkeypatch.setattr(subscriptions, "NOTE_SECONDS", 0.05)
    seen, began, woken = look(market(), wallets=[ADA]).settle(), read_time(), []
    settings, state = ground.change(seen.config, solana_ws_urls=(node.url,)), seen.observer.state
    state.clock = time.monotonic

    def note(said, details):
        jobs._store_state("bell", said, None, None, json.dumps(details))

    def show():
        return check_health(settings, read_time())["walletObserver"]["bell"]

    job = make_job(settings, state, note, lambda: woken.append(1))
    until(lambda: show()["heard"] == 1)
    assert (show()["state"], show()["lastNoticeAt"]) == ("listening", None)
    node.announce(row)
    until(lambda: show()["lastNoticeAt"] and woken and Wallet.get().due_at == 0)
    heard = round(1000 * datetime.fromisoformat(show()["lastNoticeAt"]).timestamp())
    assert began <= heard <= read_time()
    assert show()["subscriptions"] == len(node.list_places()) > 1 and show()["refused"] == 0
    job.stop(5)


# ---- where it listens ----------------------------------------------------------------------------
def load(folder, **settings):
    return config.load({**ground.environ(folder), **settings}, dotenv=None)


def test_the_websocket_url_is_set_or_derived_from_the_endpoint_or_off(tmp_path):
    for rpc, told in (
        ("https://api.mainnet-beta.solana.com", "wss://api.mainnet-beta.solana.com"),
        ("https://a.example/?api-key=secret", "wss://a.example/?api-key=secret"),
        ("http://127.0.0.1:8899", "ws://127.0.0.1:8900"),
        ("http://u:p@[::1]:8899/x", "ws://u:p@[::1]:8900/x"),
    ):
        assert list_websockets(load(tmp_path, SOLANA_RPC_URLS=rpc)) == (told,)
    assert list_websockets(load(tmp_path, SOLANA_WS_URLS="off")) == ()
    given = load(tmp_path, SOLANA_WS_URLS="wss://a.example/k, ws://b")
    assert list_websockets(given) == ("wss://a.example/k", "ws://b")
    assert "a.example" not in repr(given)
    with pytest.raises(config.BadSetting, match="SOLANA_WS_URLS must be one or more ws"):
        load(tmp_path, SOLANA_WS_URLS="https://a.example")
