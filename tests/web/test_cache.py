"""Lists are cached and never stale; a cached response is counted and logged like a new one."""

import logging
import threading
import time

import ground
import orjson
import pytest
from service import NOW, address, hide_post, signature

import storage
from accounts import api_keys
from market.tables import Token
from models import Bot, Post, Trade, Wallet
from web.server import application

# Most of these count the remaining requests of the minute.
pytestmark = pytest.mark.usefixtures("standing_clock")
WALLET, MINT = address("wallet"), address("mint")
LISTS = [
    "/api/v1/feed",
    "/api/v1/feed?limit=2",
    "/api/v1/trades?limit=1",
    f"/api/v1/trades?wallet={WALLET}",
    f"/api/v1/activity?mint={MINT}",
    "/api/v1/leaderboard?sort=volume&window=7d",
    "/api/v1/bots",
]
REFUSED = [
    "/api/v1/feed?limit=0",
    "/api/v1/feed?cursor=x",
    "/api/v1/activity",
    "/api/v1/leaderboard?sort=luck",
    "/api/v1/trades?wallet=x",
    "/api/v1/feed?since=x&cursor=y",
]


@pytest.fixture
def bot(service):
    made = service.make_bot("Ada", WALLET)
    service.observe_trade(WALLET, "one", 10)
    service.observe_trade(WALLET, "two", 11, kind="sell", raw=-500)
    for number in range(3):
        service.post(
            {
                "eventId": str(number),
                "body": f"post {number}",
                "signature": signature("one"),
                "mint": MINT,
            },
            made.publish_key.text,
        )
    return made


@pytest.fixture(autouse=True)
def one_moment(monkeypatch):
    """No rate-limit window ends during a test."""
    moment = time.time_ns()
    monkeypatch.setattr("web.server.gate.time.time_ns", lambda: moment)


def describe(answer):
    """A response without its time-dependent parts."""
    changing = ("X-Request-Id", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After")
    shown = {
        name: value
        for name, value in (answer.json or {}).items()
        if name not in ("asOf", "requestId")
    }
    return (
        answer.status_code,
        shown,
        sorted((name, value) for name, value in answer.headers if name not in changing),
    )


def remaining(service, key):
    return {
        window["window"]: window["remaining"]
        for window in service.get("/api/v1/me", key).json["windows"]
    }


# ---- a cached answer is an answer ----------------------------------------------------------------
@pytest.mark.parametrize("path", LISTS + REFUSED)
def test_a_cached_list_is_served_counted_and_logged_like_a_new_one(service, key, caplog, path):
    caplog.set_level(logging.INFO, "candor.access")
    seen = []
    for _ in range(2):
        caplog.clear()
        before = remaining(service, key)
        answer = service.get(path, key)
        after = remaining(service, key)
        logged = caplog.records[-2].shown
        assert logged["requestId"] == answer.headers["X-Request-Id"]
        assert int(answer.headers["RateLimit-Remaining"]) == after["minute"]
        line = {name: value for name, value in logged.items() if name not in ("ms", "requestId")}
        seen.append((describe(answer), {name: before[name] - after[name] for name in before}, line))
    assert seen[0] == seen[1]
    assert seen[0][1] == {"minute": 1, "hour": 1, "day": 1, "posts_minute": 0}


POSTS = [
    (201, b'{"eventId":"new","body":"hello"}'),
    (
        200,
        b'{"eventId":"0","body":"post 0","signature":"%b","mint":"%b"}'
        % (signature("one").encode(), MINT.encode()),
    ),
    (409, b'{"eventId":"0","body":"another"}'),
    (400, b"{"),
    (400, b"[]"),
    (422, b'{"body":"no event"}'),
    (422, b'{"eventId":"x","body":"","extra":1}'),
    (403, b'{"eventId":"x","body":"b","botId":"bot_other"}'),
    (413, b'"' + b"x" * 70_000 + b'"'),
]


@pytest.mark.parametrize("number", range(len(POSTS)))
def test_every_post_counts_once_whatever_happens_to_it(service, key, number):
    status, body = POSTS[number]
    before = remaining(service, key)
    answer = service.post(body, key)
    after = remaining(service, key)
    assert answer.status_code == status
    assert {before[name] - after[name] for name in before} == {1}


@pytest.mark.parametrize(
    "event, header, status",
    [("0", "0", 409), ("new", "0", 422), ("new", "new", 201), ("new", "\u00ff", 422)],
)
def test_the_event_header_names_the_bodys_event(service, key, event, header, status):
    body = f'{{"eventId":"{event}","body":"b"}}'.encode()
    assert service.post(body, key, headers={"Idempotency-Key": header}).status_code == status


def test_a_read_key_cannot_post_and_is_counted(service, bot):
    key = service.make_read_key(bot.owner)
    before = remaining(service, key)
    assert service.post(POSTS[0][1], key).status_code == 403
    assert before["minute"] - remaining(service, key)["minute"] == 1


def test_a_revoked_key_ends_at_once_despite_the_cache(service, bot, key):
    assert service.get("/api/v1/feed", key).status_code == 200
    api_keys.revoke_key(bot.publish_key.key.uid, NOW)
    assert service.get("/api/v1/feed", key).status_code == 401


# ---- never out of date ---------------------------------------------------------------------------
def change_name():
    Bot.update(name="Grace").execute()
    return "botName", "Grace"


def judge():
    Post.update(status="mismatch", status_reason="another token", checked_at=NOW + 5).execute()
    return "verification", {
        "status": "mismatch",
        "tradeId": "trade_one",
        "checkedAt": "2026-11-05T12:00:00.005Z",
        "reason": "another token",
    }


def hide():
    hide_post(Post.get(Post.event_id == "2").uid, NOW)
    return "body", None


def learn_the_symbol():
    Token.insert(mint=MINT, symbol="CAT", found_by="wallets", discovered_at=NOW).execute()
    return "symbol", "CAT"


def fold_again():
    Trade.update(
        token_changes=orjson.dumps([[MINT, "1", 3], [address("other"), "2", 3]]).decode(),
        digest="another",
    ).where(Trade.uid == "trade_one").execute()
    return "tokenAddresses", [MINT, address("other")]


@pytest.mark.parametrize("change", [change_name, judge, hide, learn_the_symbol, fold_again])
def test_a_change_appears_at_once(service, key, change):
    before = service.get("/api/v1/feed", key).json["data"][0]
    field, value = change()
    after = service.get("/api/v1/feed", key).json["data"][0]
    assert before[field] != value and after[field] == value and after["id"] == before["id"]


def test_lists_and_single_posts_agree(service, key):
    for _ in range(2):
        assert service.get("/api/v1/feed", key).json["data"] == [
            service.get(f"/api/v1/posts/{uid}", key).json
            for (uid,) in Post.select(Post.uid).order_by(Post.id.desc()).tuples()
        ]


# ---- the cache -----------------------------------------------------------------------------------
def test_any_commit_makes_the_cache_stale(service, key):
    versions = [storage.database.data_version()]
    # PostgreSQL also counts commits of other tests' databases.
    assert ground.SERVER or storage.database.data_version() == versions[0]
    # Our own
    Wallet.update(polled_at=1).execute()
    versions.append(storage.database.data_version())
    stranger = storage.make_database(service.config)
    stranger.execute_sql("UPDATE wallet SET polled_at = 2")
    stranger.close_all()
    versions.append(storage.database.data_version())
    assert len(set(versions)) == 3


def test_a_value_is_cached_until_the_version_changes():
    reads, store = iter("abc"), application.ListCache(2)
    assert [store.find("x", version, lambda: next(reads)) for version in (1, 1, 2, 2, 1)] == [
        "a",
        "a",
        "b",
        "b",
        "c",
    ]


def test_the_least_recently_used_value_is_evicted_first():
    store = application.ListCache(2)
    assert [store.find(name, 1, lambda: name + "!") for name in "xyxzx"] == [
        "x!",
        "y!",
        "x!",
        "z!",
        "x!",
    ]
    assert (
        store.find("x", 1, lambda: "again") == "x!"
        and store.find("y", 1, lambda: "again") == "again"
    )


def test_a_waiting_request_gets_a_read_that_began_after_it_arrived():
    store, entered, go_on, got, readings = (
        application.ListCache(2),
        threading.Event(),
        threading.Event(),
        [],
        [],
    )

    def slowly():
        entered.set()
        assert go_on.wait(60)
        return "slow"

    crew = [threading.Thread(target=lambda: got.append(store.find("x", "version 1", slowly)))]
    crew[0].start()
    assert entered.wait(60)
    crew += [
        threading.Thread(
            target=lambda n=n: got.append(
                store.find("x", f"version {n}", lambda: readings.append(n) or "quick")
            )
        )
        for n in (2, 3, 4)
    ]
    [thread.start() for thread in crew[1:]]
    deadline = time.monotonic() + 60
    # Until all have arrived: one turn for each of them and one for the read.
    while repr(store._turns) != "count(5)" and time.monotonic() < deadline:
        time.sleep(0.001)
    go_on.set()
    [thread.join() for thread in crew]
    assert sorted(got) == ["quick", "quick", "quick", "slow"] and len(readings) == 1


def test_a_failed_read_is_not_cached_and_blocks_nobody():
    store = application.ListCache(2)
    with pytest.raises(ZeroDivisionError):
        store.find("x", 1, lambda: 1 / 0)
    assert store.find("x", 1, lambda: "read") == "read"
