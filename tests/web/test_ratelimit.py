"""The allowance: exact across threads, processes and restarts; rejected requests don't use it;
clients can plan by its headers.
"""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import apsw
import ground
import pytest
from limits import RateLimitItemPerMinute
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter
from service import Service

import ratelimit
from ratelimit import Allowance, Counters, Limit
from storage import counters
from web.server import gate

# A whole minute, hour and half day.
NOON = 1_793_880_000
FIFTY = RateLimitItemPerMinute(50)


def limits(minute=3, hour=5, subject="owner:1"):
    return [Limit(subject, "minute", 60, minute), Limit(subject, "hour", 3600, hour)]


@pytest.fixture
def given(settings, storage_url):
    """Settings that count in a file, and then in Redis."""
    settings.data_dir.mkdir()
    return ground.change(settings, ratelimit_storage_url=storage_url)


@pytest.fixture
def allowance(given):
    with closing(counters.open_store(given)) as store:
        yield Allowance(store)


@pytest.fixture
def in_file(tmp_path):
    """An allowance that counts in a file."""
    with closing(counters.File(tmp_path / "ratelimit.db")) as store:
        yield Allowance(store)


def left(state):
    return {window.name: window.remaining for window in state.windows}


# The seconds of requests, whether each is admitted, and what is left of 3 a minute and 5 an hour.
HISTORIES = {
    "a window admits its limit and then nothing": (
        "0 yes 2 4, 1 yes 1 3, 2 yes 0 2, 3 no 0 2, 59.999 no 0 2, 60 yes 2 1"
    ),
    "a refused request uses nothing in any window": (
        "0 yes 2 4, 0 yes 1 3, 0 yes 0 2, 0 no 0 2, 0 no 0 2, 0 no 0 2,"
        " 60 yes 2 1, 61 yes 1 0, 62 no 1 0"
    ),
    "windows are aligned to the clock": "59 yes 2 4, 60 yes 2 3",
    # Two workers read the clock around the end of a minute and reach the store in the other order.
    "a late request counts in its own window": (
        "59.999 yes 2 4, 59.999 yes 1 3, 59.999 yes 0 2, 60.001 yes 2 1, 59.999 no 0 1,"
        " 60.001 yes 1 0"
    ),
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_requests_count_in_all_their_windows_or_in_none(allowance, history):
    for line in history.split(", "):
        second, admitted, minute, hour = line.split()
        state = allowance.charge(limits(), NOON + float(second))
        assert state.admitted == (admitted == "yes"), line
        assert left(state) == {"minute": int(minute), "hour": int(hour)}, line


def test_a_window_resets_at_its_end(allowance):
    resets = [(one.name, one.reset) for one in allowance.charge(limits(), NOON + 59).windows]
    assert resets == [("minute", 1), ("hour", 3541)]


def test_a_reduced_window_is_empty_and_never_negative(allowance):
    """Three were admitted before the operator reduced the limit to two."""
    for _ in range(3):
        allowance.charge(limits(), NOON)
    state = allowance.charge(limits(2, 5), NOON)
    assert not state.admitted and left(state) == {"minute": 0, "hour": 2}
    # Owners don't share.
    assert allowance.charge(limits(2, 5, subject="owner:2"), NOON).admitted


def test_the_tightest_window_has_the_least_left_and_then_the_latest_reset():
    sizes = [("minute", 3, 1, 50), ("hour", 9, 1, 3000), ("day", 9, 2, 80_000)]
    windows = tuple(ratelimit.Window(*size) for size in sizes)
    assert ratelimit.RateLimitState(True, windows).tightest.name == "hour"


def test_threads_share_exactly(allowance):
    with ThreadPoolExecutor(20) as crew:
        asked = [crew.submit(allowance.charge, limits(120, 2000), NOON) for _ in range(200)]
    assert [one.result().admitted for one in asked].count(True) == 120


def take_many(given, count, results):
    """Admitted requests of `count`: (by the allowance, by flask-limiter on the same counters)."""
    with closing(counters.open_store(given)) as store:
        allowance, limiter = Allowance(store), limit_by(store)
        charged = [allowance.charge(limits(120, 2000), NOON).admitted for _ in range(count)]
        hit = [limiter.hit(FIFTY, "address") for _ in range(count)]
    results.put((charged.count(True), hit.count(True)))


def limit_by(store):
    return FixedWindowRateLimiter(Counters(store=store, clock=lambda: NOON))


def test_processes_share_exactly_and_a_restart_keeps_counts(settings):
    """In a file; tests/storage/test_redis.py has servers that share Redis."""
    settings.data_dir.mkdir()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    crew = [context.Process(target=take_many, args=(settings, 70, results)) for _ in range(2)]
    for process in crew:
        process.start()
    admitted = [results.get(timeout=120) for _ in crew]
    for process in crew:
        process.join()
    assert [sum(counts) for counts in zip(*admitted, strict=True)] == [120, 50]
    with closing(counters.open_store(settings)) as store:
        assert not limit_by(store).hit(FIFTY, "address")
        again = Allowance(store).charge(limits(120, 2000), NOON)
    assert not again.admitted and left(again) == {"minute": 0, "hour": 1880}


def test_a_file_another_process_is_creating_is_waited_for(in_file, tmp_path):
    other = apsw.Connection(str(tmp_path / "ratelimit.db"))
    other.execute("BEGIN EXCLUSIVE; CREATE TABLE t (x)")
    made = threading.Timer(0.1, other.execute, ["COMMIT"])
    made.start()
    assert in_file.charge(limits(), NOON).admitted
    made.join()


@pytest.mark.parametrize(
    "content", [b"no database " * 400, b"", b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_replaced(in_file, tmp_path, content):
    (tmp_path / "ratelimit.db").write_bytes(content)
    state = in_file.charge(limits(), NOON)
    assert state.admitted and left(state) == {"minute": 2, "hour": 4}


def test_old_counters_are_deleted(in_file):
    for n in range(50):
        in_file.charge(limits(subject=f"address:{n}"), NOON)
    in_file.charge(limits(), NOON + 7200)
    count = in_file.store._connection.execute("SELECT COUNT(*) FROM counted")
    assert count.fetchone() == (2,)


def test_redis_counters_expire(redis_server):
    """By duration, not by Redis's clock, because another machine's clock may be off."""
    redis_server.client.flushdb()
    with closing(counters.Redis(redis_server.url)) as store:
        Allowance(store).charge(limits(), NOON + 10)
    for name, end, seconds in (("minute", NOON + 60, 110), ("hour", NOON + 3600, 3650)):
        kept = redis_server.client.ttl(f"candor:owner:1:{name}:{end}")
        assert seconds - 5 <= kept <= seconds
    assert len([*redis_server.client.scan_iter()]) == 2


def test_one_network_shares_one_allowance():
    networks = {
        "192.0.2.7": "192.0.2.7",
        "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
        "::ffff:192.0.2.7": "192.0.2.7",
        None: "unknown",
        "": "unknown",
    }
    assert {address: ratelimit.network_of(address) for address in networks} == networks


def test_last_uses_are_stored_next_to_the_counters(given):
    """In both stores; a later record from another machine stays."""
    with closing(counters.open_store(given)) as first, closing(counters.open_store(given)) as other:
        first.note_use("key_a", 2_000_000_000_000)
        other.note_use("key_b", 2_000_000_000_001)
        first.count([("owner:1", "minute", 2_000_000_060, 5)], 1, 2_000_000_000)
        uses = {"key_a": 2_000_000_000_000, "key_b": 2_000_000_000_001}
        assert first.find_uses() == other.find_uses() == uses


# ---- what flask-limiter counts in ----------------------------------------------------------------
def test_the_storage_keeps_its_guarantees(allowance):
    """The requirements of `limits`: docs of limits.storage.Storage."""
    clock = [NOON + 10]
    storage = storage_from_string("allowance:", store=allowance.store, clock=lambda: clock[0])
    changes = [("a", 60), ("a", 60, 4), ("a", 60, -1), ("b", 60)]
    assert [storage.incr(*change) for change in changes] == [1, 5, 4, 1]
    assert (storage.get("a"), storage.get("c"), storage.check()) == (4, 0, True)
    assert storage.get_expiry("a") == NOON + 60
    clock[0] = NOON + 60
    assert (storage.get("a"), storage.incr("a", 60)) == (0, 1)
    storage.clear("a")
    assert storage.get("a") == 0


# ---- through the interface -----------------------------------------------------------------------
SMALL = {"ip_limit_per_minute": 20, "failed_auth_per_minute": 3}


@pytest.fixture
def stopped_clock(monkeypatch):
    """Second 10 of a minute."""
    monkeypatch.setattr("time.time_ns", lambda: (NOON + 10) * 10**9)


@pytest.fixture
def narrow(serve, stopped_clock):
    """A service with small limits."""
    return serve(allowance=(("minute", 5), ("hour", 50)), posts_per_minute=2, **SMALL)


def headers(answer):
    return tuple(answer.headers.get(f"RateLimit-{one}") for one in ("Limit", "Remaining", "Reset"))


def test_headers_describe_the_first_window_to_run_out_and_policies_all(narrow):
    """On POST, the posts window counts too, even for errors."""
    made = narrow.make_bot()
    key, read = made.publish_key.text, narrow.make_read_key(made.owner)
    owner, posts = '"minute";q=5;w=60, "hour";q=50;w=3600', '"posts_minute";q=2;w=60'
    for answer, status, policy, told in (
        (narrow.get("/api/v1/feed", key), 200, owner, ("5", "4", "50")),
        (narrow.post({"eventId": "x"}, key), 422, f"{owner}, {posts}", ("2", "1", "50")),
        (narrow.get("/api/v1/bots/bot_nobody", read), 404, owner, ("5", "2", "50")),
        (narrow.get("/api/v1/me", key), 200, owner, ("5", "2", "50")),
        (narrow.ask("DELETE", "/api/v1/feed", key), 405, owner, ("5", "1", "50")),
        (narrow.get("/api/health"), 200, None, (None, None, None)),
    ):
        assert (answer.status_code, answer.headers.get("RateLimit-Policy")) == (status, policy)
        assert headers(answer) == told and "Retry-After" not in answer.headers
    policy = narrow.get("/api/traders").headers["RateLimit-Policy"]
    assert policy == '"address";q=20;w=60'


def test_a_429_names_the_window_and_when_to_return(narrow):
    key = narrow.make_bot().publish_key.text
    first, second, third = (narrow.post({"eventId": f"e{n}", "body": "b"}, key) for n in range(3))
    assert (first.status_code, second.status_code, third.status_code) == (201, 201, 429)
    assert (third.json["code"], third.json["window"]) == ("rate_limited", "posts_minute")
    assert third.headers["Retry-After"] == "50" and headers(third) == ("2", "0", "50")
    answers = [narrow.get("/api/v1/feed", key) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].json["window"] == "minute"


def test_me_is_free_and_shows_all_windows(narrow):
    made = narrow.make_bot()
    narrow.post({"eventId": "e", "body": "b"}, made.publish_key.text)
    key = narrow.make_read_key(made.owner)
    last = [narrow.get("/api/v1/me", key) for _ in range(8)][-1]
    assert last.status_code == 200 and headers(last) == ("5", "4", "50")
    assert [tuple(window.values()) for window in last.json["windows"]] == [
        ("minute", 5, 4, 50),
        ("hour", 50, 49, 3590),
        ("posts_minute", 2, 1, 50),
    ]


def test_wrong_keys_are_limited_by_address_and_a_valid_one_still_works(narrow):
    key, guess = narrow.make_bot().publish_key.text, "cnd_read_" + "x" * 49
    wrong = [narrow.get("/api/v1/feed", sent) for sent in (None, guess, None, guess, None)]
    assert [answer.status_code for answer in wrong] == [401, 401, 401, 429, 429]
    assert (wrong[-1].json["window"], wrong[-1].headers["Retry-After"]) == ("address", "50")
    assert headers(wrong[-1]) == (None, None, None)
    assert narrow.get("/api/v1/feed", key).status_code == 200
    assert narrow.get("/api/v1/feed", peer="192.0.2.9").status_code == 401
    # Refused ones aren't counted.
    counted = RateLimitItemPerMinute(3).key_for(ratelimit.network_of("127.0.0.1"), "failed")
    with narrow.app.test_request_context():
        gate.begin()
        assert gate.limiter.storage.get(counted) == 3


def market_codes(service, *forwarded, peer="127.0.0.1"):
    """Responses to requests of /api/market with these X-Forwarded-For headers."""
    asked = [{"X-Forwarded-For": one} for one in forwarded]
    return [service.get("/api/market", headers=one, peer=peer).status_code for one in asked]


def test_an_address_has_one_limit_for_everything(narrow):
    paths = [f"/nothing/{n}" for n in range(10)]
    assert [narrow.get(path).status_code for path in paths] == [404] * 10
    # Not behind a proxy, so these are all one address.
    claimed = [f"10.0.0.{n}" for n in range(13)]
    assert market_codes(narrow, *claimed) == [200] * 10 + [429] * 3
    assert market_codes(narrow, "", peer="192.0.2.9") == [200]


@pytest.mark.usefixtures("stopped_clock")
def test_forwarded_addresses_count_only_behind_a_trusted_proxy(serve):
    """The last entry is the proxy's."""
    behind = serve(trusted_proxies=1, ip_limit_per_minute=2)
    several = [f"198.51.100.9, 192.0.2.{n}" for n in range(4)]
    assert market_codes(behind, *several) == [200] * 4
    same = [f"192.0.2.{n}, 198.51.100.9" for n in range(4)]
    assert market_codes(behind, *same) == [200, 200, 429, 429]


@pytest.mark.usefixtures("stopped_clock")
def test_a_full_address_is_named_to_a_keyed_caller(serve):
    """The owner has requests left: window and headers are the address's."""
    service = serve(ip_limit_per_minute=2)
    key = service.make_bot().publish_key.text
    for _ in range(2):
        assert service.get("/api/v1/feed", key).status_code == 200
    refused = [service.get(f"/api/v1/{path}", key) for path in ("feed", "me")]
    for answer in (*refused, service.post({"eventId": "e", "body": "b"}, key)):
        assert (answer.status_code, answer.json["window"]) == (429, "address")
        assert "2 a minute" in answer.json["detail"]
        assert headers(answer) == ("2", "0", "50") and answer.headers["Retry-After"] == "50"
    elsewhere = service.get("/api/v1/feed", key, peer="192.0.2.9")
    # A million a minute, two of which were used: a refusal costs nothing.
    assert headers(elsewhere)[:2] == ("1000000", "999997")


@pytest.mark.usefixtures("stopped_clock")
def test_an_addresss_usage_survives_a_restart(serve, storage_url):
    """The address's minute and its failures are in the store, so another worker or the next process
    continues with them.
    """
    before = serve(ratelimit_storage_url=storage_url, **SMALL)
    for _ in range(3):
        assert before.get("/api/v1/feed", peer="2001:db8::1").status_code == 401
    before.app.allowance.store.close()
    after = Service(before.config.data_dir, ratelimit_storage_url=storage_url, **SMALL)
    with closing(after):
        answer = after.get("/api/v1/feed", peer="2001:db8::ffff")
        assert (answer.status_code, answer.json["window"]) == (429, "address")
        assert answer.headers["Retry-After"] == "50"
        # 20 minus the four above.
        assert market_codes(after, *[""] * 20, peer="2001:db8::2") == [200] * 16 + [429] * 4
        with after.get("/static/candor.js", peer="2001:db8::2") as script:
            assert script.status_code == 200
