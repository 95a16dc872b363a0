"""GET /api/v1/stream and since=: every arrival reaches every follower once, in one order, however
often the connection breaks.
"""

import itertools
import json
import random
import threading
import time

import ground
import pytest
from events import Connection, Events, split_lines
from service import NOW, Service, address, hide_post, signature
from test_worker import Server

import models
import storage
from accounts import api_keys, influencers, posts, verification
from models import Arrival, Post, Wallet
from operate import backups
from storage import database, files
from web.api import stream

W = address("w")
NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def many_streams(monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 10**6)


@pytest.fixture
def follow(service, key):
    """follow(since) -> Events of an open stream; all are closed at the end."""
    answers = []

    def open_stream(since=None, last_id=None):
        answer = service.get(
            "/api/v1/stream" + (f"?since={since}" if since else ""),
            key,
            headers={"Last-Event-ID": last_id} if last_id else None,
            buffered=False,
        )
        assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
        answers.append(answer)
        return Events(split_lines(answer.iter_encoded()))

    yield open_stream
    for answer in answers:
        answer.close()


def take(events, count):
    return list(itertools.islice(events, count))


def newest(service, key):
    return service.get("/api/v1/feed?limit=1", key).json["newestCursor"]


def post(service, key, number, **more):
    return service.post({"eventId": f"e{number}", "body": f"post {number}", **more}, key).json["id"]


def verify(name, now=NOW):
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature(name)}, now)


# ---- what is told --------------------------------------------------------------------------------
def test_posts_trades_and_verifications_arrive_in_order(service, key, follow):
    begin = newest(service, key)
    first = post(service, key, 1, signature=signature("buy"))
    second = post(service, key, 2)
    service.observe_trade(W, "buy", 10)
    verify("buy")
    events = take(follow(begin), 4)
    assert [(kind, shown["id"]) for kind, shown in events] == [
        ("post", first),
        ("post", second),
        ("trade", "trade_buy"),
        ("verification", first),
    ]
    assert (
        events[3][1] == service.get(f"/api/v1/posts/{first}", key).json and events[3][1]["verified"]
    )
    assert events[2][1] == service.get("/api/v1/trades", key).json["data"][0]


def test_hidden_text_is_not_sent_again(service, key, follow):
    """It was buffered for all streams; resuming from before it returns only the record, and
    followers are notified.
    """
    begin = newest(service, key)
    following = follow(begin)
    uid = post(service, key, 1)
    assert take(following, 1)[0][1]["body"] == "post 1"
    hide_post(uid, NOW)
    kind, shown = take(following, 1)[0]
    assert (kind, shown["id"], shown["body"]) == ("verification", uid, None)
    assert [(kind, shown["body"]) for kind, shown in take(follow(begin), 2)] == [
        ("post", None),
        ("verification", None),
    ]


def test_without_a_cursor_it_starts_now(service, key, follow):
    post(service, key, 1)
    events = follow()
    later = post(service, key, 2)
    assert [shown["id"] for _, shown in take(events, 1)] == [later]


def test_stream_ids_and_feed_cursors_are_interchangeable(service, key, follow):
    made = [post(service, key, 0)]
    first = newest(service, key)
    made += [post(service, key, n) for n in range(1, 4)]
    events = follow(first)
    take(events, 2)
    assert [
        row["id"] for row in service.get(f"/api/v1/feed?since={events.last_id}", key).json["data"]
    ] == made[3:]
    page = service.get(f"/api/v1/feed?since={first}&limit=1", key).json
    assert [shown["id"] for _, shown in take(follow(page["newestCursor"]), 2)] == made[2:]
    # The point of disconnection wins.
    assert [
        shown["id"] for _, shown in take(follow(first, last_id=page["newestCursor"]), 2)
    ] == made[2:]


def test_a_disconnect_before_the_first_event_loses_nothing(service, key, follow):
    answer = service.get("/api/v1/stream", key, buffered=False)
    opening = next(answer.iter_encoded())
    answer.close()
    missed = post(service, key, 1)
    events = Events(split_lines([opening]))
    assert list(events) == []
    assert [shown["id"] for _, shown in take(follow(last_id=events.last_id), 1)] == [missed]


def test_the_stream_starts_with_a_data_event(service, key):
    """httpx-sse yields an event without data as an empty message, which isn't JSON."""
    since = newest(service, key)
    answer = service.get(f"/api/v1/stream?since={since}", key, buffered=False)
    lines = next(answer.iter_encoded()).decode().split("\n")
    answer.close()
    assert (
        lines[0] == "retry: 2000"
        and lines[1].startswith("id: ")
        and lines[2:] == ["event: hello", "data: {}", "", ""]
    )
    assert (
        service.get(f"/api/v1/feed?since={lines[1].removeprefix('id: ')}", key).status_code == 200
    )


def test_every_verification_change_is_sent_once(service, key, follow):
    begin = newest(service, key)
    uid = post(service, key, 1, signature=signature("t"), mint=address("mint"))
    # The chain's time is long past the post, without a sighting of the transaction.
    Wallet.update(observed_to=NOW // 1000 + 10**9).execute()
    verify("t")
    verify("t")
    service.observe_trade(W, "t", 10)
    verify("t")
    verify("t")
    assert [kind for (kind,) in Arrival.select(Arrival.kind).order_by(Arrival.id).tuples()] == [
        "post",
        "verification",
        "trade",
        "verification",
    ]
    assert [(kind, shown["id"]) for kind, shown in take(follow(begin), 4)] == [
        ("post", uid),
        ("verification", uid),
        ("trade", "trade_t"),
        ("verification", uid),
    ]


def test_a_trade_removed_by_a_rebuild_is_skipped(service, key, follow):
    begin = newest(service, key)
    service.observe_trade(W, "gone", 1)
    models.Trade.delete().execute()
    # On SQLite it gets the row ID of the removed one.
    again = service.observe_trade(W, "new", 2)
    assert again == (2 if ground.SERVER else 1) and [
        shown["id"] for _, shown in take(follow(begin), 1)
    ] == ["trade_new"]
    assert [
        row["id"]
        for row in service.get(
            "/api/v1/trades?since=" + service.get("/api/v1/trades", key).json["newestCursor"], key
        ).json["data"]
    ] == []


def test_resuming_anywhere_sends_exactly_the_rest(service, key, follow, monkeypatch):
    """With almost nothing buffered, streams switch between the buffer and their own reads."""
    (
        monkeypatch.setattr(stream, "MAX_BUFFERED", 3),
        monkeypatch.setattr(stream, "BATCH", 2),
        monkeypatch.setattr(stream, "POLL_SECONDS", 0.01),
    )
    places, made = [newest(service, key)], []
    for number in range(9):
        made.append(post(service, key, number))
        places.append(newest(service, key))
    followers = [follow(place) for place in places[:-1]]
    made += [post(service, key, number) for number in range(20, 24)]
    for at, events in enumerate(followers):
        assert [shown["id"] for _, shown in take(events, len(made) - at)] == made[at:]


def test_the_stream_refuses_cursors_that_since_refuses(service, key):
    for place in ("since=post_nobody", "since=AAAA", "since="):
        answer = service.get(f"/api/v1/stream?{place}", key)
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor"), place
    assert (
        service.get("/api/v1/stream", key, headers={"Last-Event-ID": "nonsense"}).json["code"]
        == "invalid_cursor"
    )
    assert service.get("/api/v1/stream").status_code == 401
    assert not service.app.stream_hub._subscribers


@ground.sqlite_only
def test_followers_of_a_restored_database_miss_no_arrivals(service, key, follow, tmp_path):
    post(service, key, 1)
    kept = newest(service, key)
    backups.store_backup(service.config, tmp_path / "backup.db")
    post(service, key, 2), post(service, key, 3)
    # Of posts that never existed.
    ahead = newest(service, key)
    storage.database.close_all()
    files.unlock_data_dir()
    backups.restore_backup(
        service.config, tmp_path / "backup.db", True, time.time_ns() // 1_000_000
    )
    made = [post(service, key, number) for number in range(4, 7)]
    assert [
        row["id"] for row in service.get(f"/api/v1/feed?since={ahead}", key).json["data"]
    ] == made
    assert [shown["id"] for _, shown in take(follow(ahead), 3)] == made and [
        shown["id"] for _, shown in take(follow(kept), 3)
    ] == made


# ---- what it costs -------------------------------------------------------------------------------
def test_slots_are_limited_and_freed(service, key):
    answers = [
        service.get("/api/v1/stream", key, buffered=False) for _ in range(stream.MAX_STREAMS)
    ]
    full = service.get("/api/v1/stream", key)
    assert (full.status_code, full.json["code"]) == (503, "busy")
    assert int(full.headers["Retry-After"]) == max(5, int(full.headers["RateLimit-Reset"]))
    # Never read from.
    answers.pop().close()
    answers.append(service.get("/api/v1/stream", key, buffered=False))
    assert answers[-1].status_code == 200
    assert service.ask("HEAD", "/api/v1/stream", key).status_code == 503
    for answer in answers:
        answer.close()
    head = service.ask("HEAD", "/api/v1/stream", key)
    head.close()
    assert head.status_code == 200 and not service.app.stream_hub._subscribers


def test_a_waiting_stream_holds_no_database_connection(service, key, follow, monkeypatch):
    monkeypatch.setattr(stream, "COMMENT_SECONDS", 30)
    waiting = [follow() for _ in range(10)]
    crew = [threading.Thread(target=take, args=(events, 1)) for events in waiting]
    [thread.start() for thread in crew]
    time.sleep(0.05)
    with database.connection_context():
        # This thread's, and briefly the polling thread's.
        assert len(database._in_use) <= 2
    post(service, key, 1)
    [thread.join(60) for thread in crew]
    assert not any(thread.is_alive() for thread in crew)


def test_one_read_serves_all_streams(service, key, follow, monkeypatch):
    read, readers = stream.read_events, []
    monkeypatch.setattr(
        stream,
        "read_events",
        lambda *given: readers.append(threading.current_thread().name) or read(*given),
    )
    waiting = [follow() for _ in range(8)]
    made = [post(service, key, number) for number in range(5)]
    for events in waiting:
        assert [shown["id"] for _, shown in take(events, 5)] == made
    assert set(readers) == {"stream"}


def test_comments_fill_silence(service, key, follow, monkeypatch):
    monkeypatch.setattr(stream, "COMMENT_SECONDS", 0.01)
    answer = service.get("/api/v1/stream", key, buffered=False)
    sent = take(answer.iter_encoded(), 3)
    answer.close()
    assert sent[0].startswith(b"retry: ") and sent[1:] == [stream.COMMENT] * 2
    # an empty line would end an event without data, which some clients still yield
    assert stream.COMMENT.startswith(b":") and stream.COMMENT.count(b"\n") == 1
    assert list(Events(split_lines(sent))) == []


@pytest.fixture
def open_stream(service):
    """open_stream(key, since, peer) -> the response; all are closed at the end, and then no
    subscriber is left.
    """
    answers = []

    def open_one(key, since=None, peer="127.0.0.1"):
        path = "/api/v1/stream" + (f"?since={since}" if since else "")
        answers.append(service.get(path, key, buffered=False, peer=peer))
        return answers[-1]

    yield open_one
    for answer in answers:
        answer.close()
    assert not service.app.stream_hub._subscribers


def list_networks(service):
    """The addresses of the streams that haven't ended."""
    return [one.network for one in service.app.stream_hub._subscribers if one.is_active]


def first_id(answer):
    return take(Events(split_lines(answer.iter_encoded())), 1)[0][1]["id"]


def list_events(answer):
    return list(Events(split_lines(answer.iter_encoded())))


def test_one_more_stream_ends_the_owners_oldest(service, open_stream, monkeypatch):
    """Four per owner, whichever of its keys opens them; others' streams stay, and so does the
    total.
    """
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 4)
    ada, eve = service.make_bot("Ada"), service.make_bot("Eve")
    keys = [ada.publish_key.text, service.make_read_key(ada.owner)]
    begin = newest(service, keys[0])
    others = open_stream(eve.publish_key.text, begin, "192.0.2.7")
    opened = [open_stream(keys[n % 2], begin) for n in range(6)]
    assert [list_events(answer) for answer in opened[:2]] == [[], []]
    uid = post(service, keys[0], 1)
    assert [first_id(answer) for answer in (*opened[2:], others)] == [uid] * 5


def test_nine_owners_at_one_address_share_four_streams(service, open_stream, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 4)
    keys = [service.make_bot(f"Bot {n}").publish_key.text for n in range(9)]
    begin = newest(service, keys[0])
    other = open_stream(keys[0], begin, "192.0.2.7")
    opened = [open_stream(key, begin) for key in keys]
    assert len(list_networks(service)) == 5
    assert [list_events(answer) for answer in opened[:5]] == [[]] * 5
    uid = post(service, keys[0], 1)
    assert [first_id(answer) for answer in (*opened[5:], other)] == [uid] * 5


def test_the_trusted_proxys_address_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 2)
    made = Service(tmp_path / "data", trusted_proxies=1)
    keys = [made.make_bot(f"Bot {n}").publish_key.text for n in range(6)]
    opened = [
        made.get(
            "/api/v1/stream",
            key,
            buffered=False,
            headers={"X-Forwarded-For": f"203.0.113.9, 198.51.100.{n // 2}"},
        )
        for n, key in enumerate(keys)
    ]
    assert len(list_networks(made)) == 6
    [answer.close() for answer in opened]
    made.close()


def test_more_addresses_give_an_owner_no_more_streams(service, key, open_stream, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 2)
    for n in range(4):
        open_stream(key, peer=f"192.0.2.{n}")
    assert list_networks(service) == ["192.0.2.2", "192.0.2.3"]


def test_at_the_total_limit_an_owner_can_still_replace_a_stream(service, open_stream, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS", 3)
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 2)
    keys = [service.make_bot(name).publish_key.text for name in ("Ada", "Bea", "Eve")]
    statuses = [open_stream(keys[n], peer=f"192.0.2.{n}").status_code for n in (0, 0, 1, 2, 1, 0)]
    assert statuses == [200, 200, 200, 503, 503, 200]


def test_nothing_is_polled_without_subscribers(service, key):
    service.get("/api/v1/stream", key, buffered=False).close()
    end = time.monotonic() + 60
    while service.app.stream_hub._is_polled and time.monotonic() < end:
        time.sleep(0.02)
    assert not service.app.stream_hub._is_polled


# ---- a real server -------------------------------------------------------------------------------
@pytest.fixture
def server(tmp_path):
    """A Server with its database bound here too; `server.bots` are two bots of one owner.

    Waiting at shutdown lasts until `stop` gives up, so a stream that delays it would be noticed.
    """
    made = Server(tmp_path, GUNICORN_CMD_ARGS="--graceful-timeout 600")
    settings = ground.settings_of(tmp_path / "data")
    with storage.connect(settings).connection_context():
        one = influencers.create_bot(settings, "One", NOW, W)
        made.bots = [one, influencers.create_bot(settings, "Two", NOW, owner=one.owner)]
        yield made
    made.stop()
    storage.database.close_all()


def publish(bots, count, made, pause=0.0):
    """Publish posts in turns, directly into the database, next to the server; return their uids in
    order, as the single writer decides.
    """
    with database.connection_context():
        for number in range(count):
            with storage.writing():
                made.append(
                    posts.store_post(
                        bot=bots[number % len(bots)].bot.id,
                        source="bot",
                        channel="api",
                        event_id=str(next(NUMBERS)),
                        body="b",
                        event_at=NOW,
                        created_at=NOW,
                    ).uid
                )
            time.sleep(pause)


def in_order():
    return [uid for (uid,) in Post.select(Post.uid).order_by(Post.id).tuples()]


def test_twenty_disconnects_lose_and_repeat_nothing(server):
    key, made, got = server.bots[0].publish_key.text, [], []
    line, last_id, cuts, dice = Connection(server.port, key), None, 0, random.Random(9)
    writer = threading.Thread(target=publish, args=(server.bots, 400, made, 0.005))
    writer.start()
    while len(got) < 400:
        length = dice.randint(0 if cuts else 1, 25) if cuts < 20 else 400
        got += [shown["id"] for _, shown in take(line.events, min(length, 400 - len(got)))]
        # A connection may break before it sends anything.
        last_id = line.events.last_id or last_id
        line.cut()
        line, cuts = Connection(server.port, key, last_id), cuts + 1
    line.cut()
    writer.join()
    assert cuts > 20 and got == made == in_order()


def test_a_poller_among_many_writers_gets_each_post_once(server):
    key, crew = server.bots[0].publish_key.text, []
    since = ask(server, "/api/v1/feed?limit=1", key)["newestCursor"]
    for _ in range(6):
        crew.append(threading.Thread(target=publish, args=(server.bots, 60, [])))
        crew[-1].start()
    got = []
    while len(got) < 360:
        busy = any(thread.is_alive() for thread in crew)
        page = ask(server, f"/api/v1/feed?since={since}&limit=7", key)
        got, since = got + [row["id"] for row in page["data"]], page["newestCursor"]
        assert page["data"] or busy
    [thread.join() for thread in crew]
    assert got == in_order()


def ask(server, path, key):
    status, body = server.get(path, Authorization=f"Bearer {key}")
    assert status == 200
    return json.loads(body)


def test_a_revoked_key_ends_only_its_streams(server):
    owner = server.bots[0].owner
    revoked, kept = (
        api_keys.create_key(owner, "read", NOW),
        api_keys.create_key(owner, "read", NOW),
    )
    lines = [
        Connection(server.port, revoked.text),
        Connection(server.port, revoked.text),
        Connection(server.port, kept.text),
    ]
    publish(server.bots, 1, made := [])
    assert [take(line.events, 1)[0][1]["id"] for line in lines] == made * 3
    api_keys.revoke_key(revoked.key.uid, NOW)
    publish(server.bots, 1, made)
    # Ended, and nothing that arrived after the revocation was sent.
    assert [list(line.events) for line in lines[:2]] == [
        [],
        [],
    ]
    assert take(lines[2].events, 1)[0][1]["id"] == made[1]
    again = Connection(server.port, revoked.text, lines[0].events.last_id)
    assert again.status == 401
    for line in (*lines, again):
        line.cut()


def test_streams_do_not_delay_shutdown(server):
    lines = [Connection(server.port, server.bots[0].publish_key.text) for _ in range(8)]
    server.stop()
    assert [list(line.events) for line in lines] == [[]] * 8
    for line in lines:
        line.cut()
