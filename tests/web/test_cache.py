"""Lists are cached and never stale; a cached response is counted and logged like a new one."""

import logging
import platform
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ground
import orjson
import pytest
from service import NOW, address, hide_post, signature

import storage
from accounts import api_keys
from market.tables import Token
from models import Bot, Post, Trade, Wallet
from web.api.v1 import Body
from web.server.application import ListCache

# Most of these count the remaining requests of the minute.
pytestmark = pytest.mark.usefixtures("standing_clock")
WALLET, MINT, OTHER = address("wallet"), address("mint"), address("other")
LISTS = f"""
feed feed?limit=2 trades?limit=1 trades?wallet={WALLET} activity?mint={MINT}
leaderboard?sort=volume&window=7d bots
"""
REFUSED = """
feed?limit=0 feed?cursor=x activity leaderboard?sort=luck trades?wallet=x feed?since=x&cursor=y
"""


@pytest.fixture
def bot(service):
    made = service.make_bot("Ada", WALLET)
    service.observe_trade(WALLET, "one", 10)
    service.observe_trade(WALLET, "two", 11, kind="sell", raw=-500)
    for number in range(3):
        about = {"signature": signature("one"), "mint": MINT}
        said = {"eventId": str(number), "body": f"post {number}"}
        service.post(said | about, made.publish_key.text)
    return made


def describe(answer):
    """A response without its time-dependent parts."""
    changing = ("X-Request-Id", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After")
    headers = sorted((name, value) for name, value in answer.headers if name not in changing)
    shown = {name: one for name, one in answer.json.items() if name not in ("asOf", "requestId")}
    return answer.status_code, shown, headers


def remaining(get):
    return {window["window"]: window["remaining"] for window in get("me").json["windows"]}


# ---- a cached answer is an answer ----------------------------------------------------------------
def test_a_cached_list_is_served_counted_and_logged_like_a_new_one(bot, get, caplog):
    caplog.set_level(logging.INFO, "candor.access")
    for path in (LISTS + REFUSED).split():
        seen = []
        for _ in range(2):
            before = remaining(get)
            answer = get(path)
            logged = dict(caplog.records[-1].shown)
            after = remaining(get)
            assert logged.pop("requestId") == answer.headers["X-Request-Id"]
            assert logged.pop("ms") >= 0
            assert int(answer.headers["RateLimit-Remaining"]) == after["minute"]
            used = {name: before[name] - after[name] for name in before}
            assert used == {"minute": 1, "hour": 1, "day": 1, "posts_minute": 0}
            route = "/api/v1/" + path.partition("?")[0]
            told = {"method": "GET", "route": route, "status": answer.status_code}
            assert logged == told | {"key": bot.publish_key.key.uid}
            seen.append(describe(answer))
        assert seen[0] == seen[1], path


def test_every_post_counts_once_whatever_happens_to_it(service, bot, get, key):
    again = {"eventId": "0", "body": "post 0", "signature": signature("one"), "mint": MINT}
    for status, body in (
        (201, {"eventId": "new", "body": "hello"}),
        (200, again),
        (409, {"eventId": "0", "body": "another"}),
        (400, b"{"),
        (400, []),
        (422, {"body": "no event"}),
        (422, {"eventId": "x", "body": "", "extra": 1}),
        (403, {"eventId": "x", "body": "b", "botId": "bot_other"}),
        (413, "x" * 70_000),
    ):
        before = remaining(get)
        assert service.post(body, key).status_code == status
        after = remaining(get)
        assert {before[name] - after[name] for name in before} == {1}, body
    before = remaining(get)["minute"]
    answer = service.post({"eventId": "e", "body": "b"}, service.make_read_key(bot.owner))
    assert (answer.status_code, before - remaining(get)["minute"]) == (403, 1)
    no_utf8 = {"Idempotency-Key": "\u00ff"}
    answer = service.post({"eventId": "new", "body": "b"}, key, headers=no_utf8)
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (422, "Idempotency-Key")


# ---- never out of date ---------------------------------------------------------------------------
def test_a_change_appears_at_once(bot, get):
    def show():
        return get("feed").json["data"][0]

    first = show()
    assert first == get(f"posts/{first['id']}").json
    told = {name: first[name] for name in ("botName", "symbol", "tokenAddresses", "body")}
    assert told == {"botName": "Ada", "symbol": None, "tokenAddresses": [MINT], "body": "post 2"}
    Bot.update(name="Grace").execute()
    assert show()["botName"] == "Grace"
    Token.insert(mint=MINT, symbol="CAT", found_by="wallets", discovered_at=NOW).execute()
    assert show()["symbol"] == "CAT"
    changes = orjson.dumps([[MINT, "1", 3], [OTHER, "2", 3]]).decode()
    changed = Trade.update(token_changes=changes, digest="another")
    changed.where(Trade.uid == "trade_one").execute()
    assert show()["tokenAddresses"] == [MINT, OTHER]
    Post.update(status="mismatch", status_reason="another token", checked_at=NOW + 5).execute()
    told = {"status": "mismatch", "reason": "another token", "tradeId": "trade_one"}
    assert show()["verification"] == told | {"checkedAt": "2026-11-05T12:00:00.005Z"}
    hide_post(first["id"], NOW)
    assert show()["body"] is None
    api_keys.revoke_key(bot.publish_key.key.uid, NOW)
    assert get("feed").status_code == 401


def test_any_commit_makes_the_cache_stale(service, bot):
    read_version = storage.database.data_version
    versions = [read_version()]
    # PostgreSQL also counts commits of other tests' databases.
    assert ground.SERVER or read_version() == versions[0]
    # Our own
    Wallet.update(polled_at=1).execute()
    versions.append(read_version())
    stranger = storage.make_database(service.config)
    stranger.execute_sql("UPDATE wallet SET polled_at = 2")
    stranger.close_all()
    versions.append(read_version())
    assert len(set(versions)) == 3


# ---- the cache -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "asked, got",
    [
        pytest.param(
            "x1 x1 x2 x2 x1", "a a b b c", id="a value is cached until the version changes"
        ),
        pytest.param("x1 y1 x1 z1 x1 y1", "a b a c a d", id="the least recently used is evicted"),
    ],
)
def test_values_are_cached(asked, got):
    reads, store = iter("abcd"), ListCache(2)
    found = [store.find(name, version, lambda: next(reads)) for name, version in asked.split()]
    assert found == got.split()


def test_a_waiting_request_gets_a_read_that_began_after_it_arrived():
    store, entered, go_on, reads = ListCache(2), threading.Event(), threading.Event(), []

    def read_slowly():
        entered.set()
        assert go_on.wait(60)
        return "slow"

    def read_quickly():
        reads.append("quick")
        return "quick"

    with ThreadPoolExecutor(4) as crew:
        asked = [crew.submit(store.find, "x", 1, read_slowly)]
        assert entered.wait(60)
        asked += [crew.submit(store.find, "x", version, read_quickly) for version in (2, 3, 4)]
        # Until all have arrived: one turn for each of them and one for the read.
        ground.until(lambda: repr(store._turns) == "count(5)")
        go_on.set()
    assert [one.result() for one in asked] == ["slow", "quick", "quick", "quick"]
    assert reads == ["quick"]


def test_a_failed_read_is_not_cached_and_blocks_nobody():
    store = ListCache(2)
    with pytest.raises(ZeroDivisionError):
        store.find("x", 1, lambda: 1 / 0)
    assert store.find("x", 1, lambda: "read") == "read"


def test_equivalent_queries_share_an_entry(service, get):
    one = f"mint={MINT}&wallet={WALLET}"
    wanted = get(f"trades?{one}&limit=100").json["data"]
    for query in (
        f"wallet={WALLET}&mint={MINT}&limit=100",
        f"limit=101&{one}&x=1",
        f"mint={MINT}&mint={OTHER}&limit=999999&wallet={WALLET}&cachebuster=8",
    ):
        answer = get(f"trades?{query}")
        assert answer.json["data"] == wanted and answer.json["limit"] == 100, query
    assert len(service.app.list_cache._entries) == 1


def test_a_refused_request_evicts_nothing(service, get):
    assert get("feed").status_code == 200
    kept = [*service.app.list_cache._entries]
    for number in range(80):
        assert get(f"feed?cursor=made-up-{number}").status_code == 400
        assert get(f"bots/bot_{number}").status_code == 404
    assert [*service.app.list_cache._entries] == kept


# ---- memory --------------------------------------------------------------------------------------
# Every hundredth of 40 MB in 1,000-byte blocks is still in use; prints how much memory is taken
# before and after freed memory is returned to the system.
SCATTERED = """
from pathlib import Path
import jobs

def read_rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

before = read_rss()
pieces = [bytes(1_000) for _ in range(40_000)]
kept = pieces[::100]
del pieces
left = read_rss() - before
jobs.give_back_memory(0)
print(left, read_rss() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another libc has its own ways")
def test_free_memory_between_used_blocks_is_released():
    """One block in 100,000 bytes keeps one page of 4,096, or two: at most a twelfth of 40 MB."""
    command, root = [sys.executable, "-c", SCATTERED], Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    left, grown = map(int, done.stdout.split())
    assert left > 30_000_000
    assert grown < 40_000_000 / 12 + 1_000_000


def test_cached_json_uses_no_more_memory_than_its_length():
    """A hundred texts of 600 letters, with 100 bytes each; orjson occupies 8,153 for each."""
    tracemalloc.start()
    try:
        kept = [Body({"text": "x" * 600}).raw for _ in range(100)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 100 and taken < 100 * (600 + 100)
