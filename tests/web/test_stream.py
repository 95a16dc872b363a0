"""GET /api/v1/stream and since=: every arrival reaches every follower once, in one order, however
often the connection breaks.
"""

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ground
import pytest
from events import Connection, Events, split_lines
from service import NOW, address, hide_post, signature
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


@pytest.fixture
def open_stream(service):
    """open_stream(key, since, peer) -> the response; all are closed at the end, and then no
    subscriber is left.
    """
    answers = []

    def open_one(key, since=None, peer="127.0.0.1", last_id=None):
        path = "/api/v1/stream" + (f"?since={since}" if since else "")
        headers = {"Last-Event-ID": last_id} if last_id else None
        answers.append(service.get(path, key, headers=headers, peer=peer, buffered=False))
        return answers[-1]

    yield open_one
    for answer in answers:
        answer.close()
    assert not service.app.stream_hub._subscribers


@pytest.fixture
def follow(key, open_stream, monkeypatch):
    """follow(since) -> Events of an open stream. There can be many."""
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", 10**6)

    def follow_from(since=None, last_id=None):
        answer = open_stream(key, since, last_id=last_id)
        assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
        return read(answer)

    return follow_from


def read(answer):
    return Events(split_lines(answer.iter_encoded()))


def take(events, count):
    return list(itertools.islice(events, count))


def take_ids(events, count):
    return [shown["id"] for _, shown in take(events, count)]


def newest(service, key):
    return service.get("/api/v1/feed?limit=1", key).json["newestCursor"]


def list_since(get, cursor, path="feed"):
    return [row["id"] for row in get(f"{path}?since={cursor}").json["data"]]


def post(service, key, number, **more):
    return service.post({"eventId": f"e{number}", "body": f"post {number}", **more}, key).json["id"]


def verify(name):
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature(name)}, NOW)


# ---- what is told --------------------------------------------------------------------------------
def test_posts_trades_and_each_new_verification_arrive_once_in_order(service, get, key, follow):
    begin = newest(service, key)
    first = post(service, key, 1, signature=signature("t"), mint=address("mint"))
    second = post(service, key, 2)
    # The chain's time is long past the post, without a sighting of the transaction.
    Wallet.update(observed_to=NOW // 1000 + 10**9).execute()
    verify("t")
    verify("t")
    service.observe_trade(W, "t", 10)
    verify("t")
    verify("t")
    kinds, shown = zip(*take(follow(begin), 5), strict=True)
    assert kinds == ("post", "post", "verification", "trade", "verification")
    assert [one["id"] for one in shown] == [first, second, first, "trade_t", first]
    assert shown[3] == get("trades").json["data"][0]
    assert shown[4] == get(f"posts/{first}").json and shown[4]["verified"]
    assert Arrival.select().count() == 5


def test_hidden_text_is_not_sent_again(service, key, follow):
    """It was buffered for all streams; resuming from before it returns only the record, and
    followers are notified.
    """
    begin = newest(service, key)
    following = follow(begin)
    uid = post(service, key, 1)
    assert take(following, 1)[0][1]["body"] == "post 1"
    hide_post(uid, NOW)
    ((kind, shown),) = take(following, 1)
    assert (kind, shown["id"], shown["body"]) == ("verification", uid, None)
    again = [(kind, shown["body"]) for kind, shown in take(follow(begin), 2)]
    assert again == [("post", None), ("verification", None)]


def test_stream_ids_and_feed_cursors_are_interchangeable(service, get, key, follow):
    made = [post(service, key, 0)]
    first = newest(service, key)
    made += [post(service, key, n) for n in range(1, 4)]
    events = follow(first)
    take(events, 2)
    assert list_since(get, events.last_id) == made[3:]
    second = get(f"feed?since={first}&limit=1").json["newestCursor"]
    assert take_ids(follow(second), 2) == made[2:]
    # The point of disconnection wins.
    assert take_ids(follow(first, last_id=second), 2) == made[2:]


def test_a_disconnect_after_the_opening_event_loses_nothing(service, get, key, follow, open_stream):
    """httpx-sse yields an event without data as an empty message, which isn't JSON."""
    with open_stream(key) as answer:
        opening = next(answer.iter_encoded())
    missed, events = post(service, key, 1), Events(split_lines([opening]))
    assert list(events) == []
    told = f"retry: 2000\nid: {events.last_id}\nevent: hello\ndata: {{}}\n\n"
    assert opening.decode() == told
    assert take_ids(follow(last_id=events.last_id), 1) == [missed]
    assert list_since(get, events.last_id) == [missed]


def test_a_trade_removed_by_a_rebuild_is_skipped(service, get, key, follow):
    begin = newest(service, key)
    service.observe_trade(W, "gone", 1)
    models.Trade.delete().execute()
    # On SQLite it gets the row ID of the removed one.
    assert service.observe_trade(W, "new", 2) == (2 if ground.SERVER else 1)
    assert take_ids(follow(begin), 1) == ["trade_new"]
    assert list_since(get, get("trades").json["newestCursor"], "trades") == []


def test_resuming_anywhere_sends_exactly_the_rest(service, key, follow, monkeypatch):
    """With almost nothing buffered, streams switch between the buffer and their own reads."""
    monkeypatch.setattr(stream, "MAX_BUFFERED", 3)
    monkeypatch.setattr(stream, "BATCH", 2)
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.01)
    places, made = [], []
    for number in range(9):
        places.append(newest(service, key))
        made.append(post(service, key, number))
    followers = [follow(place) for place in places]
    made += [post(service, key, number) for number in range(20, 24)]
    for at, events in enumerate(followers):
        assert take_ids(events, len(made) - at) == made[at:]


def test_the_stream_refuses_cursors_that_since_refuses(service, get):
    answers = [get(f"stream?since={one}") for one in ("post_nobody", "AAAA", "")]
    for answer in (*answers, get("stream", **{"Last-Event-ID": "nonsense"})):
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor")
    assert not service.app.stream_hub._subscribers


@ground.sqlite_only
def test_followers_of_a_restored_database_miss_no_arrivals(service, get, key, follow, tmp_path):
    post(service, key, 1)
    kept = newest(service, key)
    backups.store_backup(service.config, tmp_path / "backup.db")
    post(service, key, 2)
    post(service, key, 3)
    # Of posts that never existed.
    ahead = newest(service, key)
    storage.database.close_all()
    files.unlock_data_dir()
    now = time.time_ns() // 1_000_000
    backups.restore_backup(service.config, tmp_path / "backup.db", True, now)
    made = [post(service, key, number) for number in range(4, 7)]
    assert list_since(get, ahead) == made
    assert take_ids(follow(ahead), 3) == take_ids(follow(kept), 3) == made


# ---- what it costs -------------------------------------------------------------------------------
def test_slots_are_limited_and_freed(service, get, key, follow, open_stream, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS", 5)
    answers = [open_stream(key) for _ in range(5)]
    full = get("stream")
    assert (full.status_code, full.json["code"]) == (503, "busy")
    assert int(full.headers["Retry-After"]) == max(5, int(full.headers["RateLimit-Reset"]))
    # Never read from.
    answers.pop().close()
    answers.append(open_stream(key))
    assert answers[-1].status_code == 200
    assert service.ask("HEAD", "/api/v1/stream", key).status_code == 503
    for answer in answers:
        answer.close()
    with service.ask("HEAD", "/api/v1/stream", key) as head:
        assert head.status_code == 200
    assert not service.app.stream_hub._subscribers


def test_a_waiting_stream_holds_no_database_connection(service, key, follow, monkeypatch):
    monkeypatch.setattr(stream, "COMMENT_SECONDS", 30)
    with ThreadPoolExecutor(10) as crew:
        waiting = [crew.submit(take, follow(), 1) for _ in range(10)]
        time.sleep(0.05)
        with database.connection_context():
            # This thread's, and briefly the polling thread's.
            in_use = len(database._in_use)
        post(service, key, 1)
        assert all(one.result(60) for one in waiting) and in_use <= 2


def test_one_read_serves_all_streams_which_start_now(service, key, follow, monkeypatch):
    post(service, key, 99)
    read_events, readers = stream.read_events, []

    def note_and_read(*given):
        readers.append(threading.current_thread().name)
        return read_events(*given)

    monkeypatch.setattr(stream, "read_events", note_and_read)
    waiting = [follow() for _ in range(8)]
    made = [post(service, key, number) for number in range(5)]
    for events in waiting:
        assert take_ids(events, 5) == made
    assert set(readers) == {"stream"}


def test_comments_fill_silence(key, open_stream, monkeypatch):
    monkeypatch.setattr(stream, "COMMENT_SECONDS", 0.01)
    sent = take(open_stream(key).iter_encoded(), 3)
    assert sent[0].startswith(b"retry: ") and sent[1:] == [stream.COMMENT] * 2
    # An empty line would end an event without data, which some clients still yield.
    assert stream.COMMENT.startswith(b":") and stream.COMMENT.count(b"\n") == 1
    assert list(Events(split_lines(sent))) == []


@pytest.mark.parametrize(
    "each, total, opened",
    [
        pytest.param(
            4, 99, "e7 a1- a1- a1 a1 a1 a1", id="four per owner, whichever key opens them"
        ),
        pytest.param(2, 99, "a1- a2- a3 a4", id="more addresses give an owner no more"),
        pytest.param(4, 99, "a7 a1- b1- c1- d1- e1- f1 g1 h1 i1", id="owners at one address share"),
        pytest.param(2, 3, "a1- a1 b2 c3! b2! a1", id="when full, an owner replaces its own"),
    ],
)
def test_one_stream_too_many_ends_the_oldest(
    service, open_stream, monkeypatch, each, total, opened
):
    """A letter is an owner, a digit an address. `-`: ends when a later one opens; `!`: refused."""
    monkeypatch.setattr(stream, "MAX_STREAMS_EACH", each)
    monkeypatch.setattr(stream, "MAX_STREAMS", total)
    made = {letter: service.make_bot(f"Bot {letter}") for letter in "abcdefghi"}
    keys = {
        letter: itertools.cycle([one.publish_key.text, service.make_read_key(one.owner)])
        for letter, one in made.items()
    }
    begin, opened = newest(service, next(keys["a"])), opened.split()
    answers = [
        (end, open_stream(next(keys[letter]), begin, f"192.0.2.{digit}"))
        for letter, digit, end in (f"{one:3}" for one in opened)
    ]
    assert [answer.status_code == 503 for _, answer in answers] == ["!" in one for one in opened]
    active = [one.is_active for one in service.app.stream_hub._subscribers]
    assert active == ["-" not in one for one in opened if "!" not in one]
    uid = post(service, made["a"].publish_key.text, 1)
    for end, answer in answers:
        assert end == "!" or take_ids(read(answer), 1) == ([] if end == "-" else [uid])


def test_nothing_is_polled_without_subscribers(service, key, open_stream):
    open_stream(key).close()
    ground.until(lambda: not service.app.stream_hub._is_polled)


def publish(bots, count, made, pause=0.0):
    """Publish posts in turns, directly into the database, next to the server; return their uids in
    order, as the single writer decides.
    """
    said = {"source": "bot", "channel": "api", "body": "b", "status": "none"}
    said |= {"event_at": NOW, "created_at": NOW}
    with database.connection_context():
        for number in range(count):
            bot, event = bots[number % len(bots)].bot.id, str(next(NUMBERS))
            with storage.writing():
                made.append(posts.store_post(bot=bot, event_id=event, **said).uid)
            time.sleep(pause)


def in_order():
    return [uid for (uid,) in Post.select(Post.uid).order_by(Post.id).tuples()]


def test_a_poller_among_many_writers_gets_each_post_once(service, get, bot, key):
    since, got = newest(service, key), []
    with ThreadPoolExecutor(6) as crew:
        writing = [crew.submit(publish, [bot], 60, []) for _ in range(6)]
        while len(got) < 360:
            busy = not all(one.done() for one in writing)
            page = get(f"feed?since={since}&limit=7").json
            got, since = got + [row["id"] for row in page["data"]], page["newestCursor"]
            assert page["data"] or busy
    assert got == in_order()


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
        made.key = one.publish_key.text
        yield made
    made.stop()
    storage.database.close_all()


def test_twenty_disconnects_lose_and_repeat_nothing(server):
    made, got, cuts, last_id, dice = [], [], 0, None, random.Random(9)
    line = Connection(server.port, server.key)
    writer = threading.Thread(target=publish, args=(server.bots, 400, made, 0.005))
    writer.start()
    while len(got) < 400:
        length = dice.randint(0 if cuts else 1, 25) if cuts < 20 else 400
        got += take_ids(line.events, min(length, 400 - len(got)))
        # A connection may break before it sends anything.
        last_id = line.events.last_id or last_id
        line.cut()
        line, cuts = Connection(server.port, server.key, last_id), cuts + 1
    line.cut()
    writer.join()
    assert cuts > 20 and got == made == in_order()


def test_a_revoked_key_ends_only_its_streams_and_none_delays_shutdown(server):
    revoked, kept = (api_keys.create_key(server.bots[0].owner, "read", NOW) for _ in range(2))
    lines = [Connection(server.port, one.text) for one in (revoked, revoked, kept)]
    publish(server.bots, 1, made := [])
    assert [take_ids(line.events, 1) for line in lines] == [made] * 3
    api_keys.revoke_key(revoked.key.uid, NOW)
    publish(server.bots, 1, made)
    # Ended, and nothing that arrived after the revocation was sent.
    assert [list(line.events) for line in lines[:2]] == [[], []]
    assert take_ids(lines[2].events, 1) == made[1:]
    again = Connection(server.port, revoked.text, lines[0].events.last_id)
    assert again.status == 401
    server.stop()
    assert list(lines[2].events) == []
    for line in (*lines, again):
        line.cut()
