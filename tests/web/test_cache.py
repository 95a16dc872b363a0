"""Lists are cached and never stale; a cached response is counted and logged like a new one."""

import logging
import platform
import subprocess
import sys
import threading
import time
import tracemalloc
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
@pytest.mark.parametrize("path", (LISTS + REFUSED).split())
def test_a_cached_list_is_served_counted_and_logged_like_a_new_one(get, caplog, path):
    caplog.set_level(logging.INFO, "candor.access")
    seen = []
    for _ in range(2):
        before = remaining(get)
        answer = get(path)
        logged = dict(caplog.records[-1].shown)
        after = remaining(get)
        assert logged.pop("requestId") == answer.headers["X-Request-Id"]
        assert int(answer.headers["RateLimit-Remaining"]) == after["minute"]
        used = {name: before[name] - after[name] for name in before}
        assert used == {"minute": 1, "hour": 1, "day": 1, "posts_minute": 0}
        del logged["ms"]
        seen.append((describe(answer), logged))
    assert seen[0] == seen[1]


AGAIN = {"eventId": "0", "body": "post 0", "signature": signature("one"), "mint": MINT}


@pytest.mark.parametrize(
    "status, body",
    [
        (201, {"eventId": "new", "body": "hello"}),
        (200, AGAIN),
        (409, {"eventId": "0", "body": "another"}),
        (400, b"{"),
        (400, []),
        (422, {"body": "no event"}),
        (422, {"eventId": "x", "body": "", "extra": 1}),
        (403, {"eventId": "x", "body": "b", "botId": "bot_other"}),
        (413, "x" * 70_000),
    ],
)
def test_every_post_counts_once_whatever_happens_to_it(service, get, key, status, body):
    before = remaining(get)
    assert service.post(body, key).status_code == status
    after = remaining(get)
    assert {before[name] - after[name] for name in before} == {1}


def test_a_read_key_cannot_post_and_is_counted(service, bot, get):
    before = remaining(get)["minute"]
    answer = service.post({"eventId": "e", "body": "b"}, service.make_read_key(bot.owner))
    assert (answer.status_code, before - remaining(get)["minute"]) == (403, 1)


@pytest.mark.parametrize(
    "event, header, status",
    [("0", "0", 409), ("new", "0", 422), ("new", "new", 201), ("new", "\u00ff", 422)],
)
def test_the_event_header_names_the_bodys_event(service, key, event, header, status):
    said = {"eventId": event, "body": "b"}
    assert service.post(said, key, headers={"Idempotency-Key": header}).status_code == status


def test_a_revoked_key_ends_at_once_despite_the_cache(bot, get):
    assert get("feed").status_code == 200
    api_keys.revoke_key(bot.publish_key.key.uid, NOW)
    assert get("feed").status_code == 401


# ---- never out of date ---------------------------------------------------------------------------
def change_name():
    Bot.update(name="Grace").execute()
    return "botName", "Grace"


def judge():
    Post.update(status="mismatch", status_reason="another token", checked_at=NOW + 5).execute()
    told = {"status": "mismatch", "reason": "another token", "tradeId": "trade_one"}
    return "verification", told | {"checkedAt": "2026-11-05T12:00:00.005Z"}


def hide():
    hide_post(Post.get(Post.event_id == "2").uid, NOW)
    return "body", None


def learn_the_symbol():
    Token.insert(mint=MINT, symbol="CAT", found_by="wallets", discovered_at=NOW).execute()
    return "symbol", "CAT"


def fold_again():
    changes = orjson.dumps([[MINT, "1", 3], [OTHER, "2", 3]]).decode()
    changed = Trade.update(token_changes=changes, digest="another")
    changed.where(Trade.uid == "trade_one").execute()
    return "tokenAddresses", [MINT, OTHER]


@pytest.mark.parametrize("change", [change_name, judge, hide, learn_the_symbol, fold_again])
def test_a_change_appears_at_once(get, change):
    before = get("feed").json["data"][0]
    field, value = change()
    after = get("feed").json["data"][0]
    assert before[field] != value and after[field] == value and after["id"] == before["id"]


def test_lists_and_single_posts_agree(get):
    for _ in range(2):
        feed = get("feed").json["data"]
        assert len(feed) == 3 and feed == [get(f"posts/{post['id']}").json for post in feed]


# ---- the cache -----------------------------------------------------------------------------------
def test_any_commit_makes_the_cache_stale(service, bot):
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
    reads, store = iter("abc"), ListCache(2)
    got = [store.find("x", version, lambda: next(reads)) for version in (1, 1, 2, 2, 1)]
    assert got == ["a", "a", "b", "b", "c"]


def test_the_least_recently_used_value_is_evicted_first():
    reads, store = iter("abcde"), ListCache(2)
    got = [store.find(name, 1, lambda: next(reads)) for name in "xyxzxy"]
    assert got == ["a", "b", "a", "c", "a", "d"]


def test_a_waiting_request_gets_a_read_that_began_after_it_arrived():
    store, entered, go_on, got, readings = (
        ListCache(2),
        threading.Event(),
        threading.Event(),
        [],
        [],
    )

    def read_slowly():
        entered.set()
        assert go_on.wait(60)
        return "slow"

    def read_quickly():
        readings.append(1)
        return "quick"

    def ask(number, read):
        got.append(store.find("x", f"version {number}", read))

    crew = [threading.Thread(target=ask, args=(1, read_slowly))]
    crew += [threading.Thread(target=ask, args=(n, read_quickly)) for n in (2, 3, 4)]
    crew[0].start()
    assert entered.wait(60)
    for thread in crew[1:]:
        thread.start()
    deadline = time.monotonic() + 60
    # Until all have arrived: one turn for each of them and one for the read.
    while repr(store._turns) != "count(5)" and time.monotonic() < deadline:
        time.sleep(0.001)
    go_on.set()
    for thread in crew:
        thread.join()
    assert sorted(got) == ["quick", "quick", "quick", "slow"] and len(readings) == 1


def test_a_failed_read_is_not_cached_and_blocks_nobody():
    store = ListCache(2)
    with pytest.raises(ZeroDivisionError):
        store.find("x", 1, lambda: 1 / 0)
    assert store.find("x", 1, lambda: "read") == "read"


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
