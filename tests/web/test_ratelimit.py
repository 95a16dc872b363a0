"""The allowance: exact across threads, processes and restarts; rejected requests don't use it;
clients can plan by its headers.
"""

import multiprocessing
import threading

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
    made = Allowance(counters.open_store(given))
    yield made
    made.store.close()


def left(standing):
    return {window.name: window.remaining for window in standing.windows}


def test_a_window_admits_its_limit_and_then_nothing(allowance):
    assert [allowance.charge(limits(), NOON + n).admitted for n in range(5)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert not allowance.charge(limits(), NOON + 59.999).admitted
    assert allowance.charge(limits(), NOON + 60).admitted


def test_a_refused_request_uses_nothing_in_any_window(allowance):
    for _ in range(3):
        allowance.charge(limits(), NOON)
    for _ in range(10):
        allowance.charge(limits(), NOON)
    assert left(allowance.peek(limits(), NOON)) == {"minute": 0, "hour": 2}
    # The hour, not the minute.
    assert [allowance.charge(limits(), NOON + 60 + n).admitted for n in range(3)] == [
        True,
        True,
        False,
    ]
    assert left(allowance.peek(limits(), NOON + 60)) == {"minute": 1, "hour": 0}


def test_windows_are_aligned_to_the_clock(allowance):
    standing = allowance.charge(limits(), NOON + 59)
    assert [(window.name, window.reset) for window in standing.windows] == [
        ("minute", 1),
        ("hour", 3541),
    ]
    assert left(allowance.charge(limits(), NOON + 60)) == {"minute": 2, "hour": 3}


def test_a_reduced_window_is_empty_and_never_negative(allowance):
    """Three were admitted before the operator reduced the limit to two."""
    for _ in range(3):
        allowance.charge(limits(), NOON)
    smaller = limits(2, 5)
    assert left(allowance.peek(smaller, NOON)) == {"minute": 0, "hour": 2}
    assert not allowance.charge(smaller, NOON).admitted


def test_owners_do_not_share(allowance):
    for _ in range(3):
        allowance.charge(limits(), NOON)
    assert allowance.charge(limits(subject="owner:2"), NOON).admitted


def test_the_tightest_window_has_the_least_left_and_then_the_latest_reset():
    windows = [
        ratelimit.Window("minute", 3, 1, 50),
        ratelimit.Window("hour", 9, 1, 3000),
        ratelimit.Window("day", 9, 2, 80_000),
    ]
    assert ratelimit.RateLimitState(True, tuple(windows)).tightest.name == "hour"


def test_threads_share_exactly(allowance):
    admitted, gate = [], threading.Barrier(20)

    def ask():
        gate.wait()
        for _ in range(10):
            admitted.append(allowance.charge(limits(120, 2000), NOON).admitted)

    crew = [threading.Thread(target=ask) for _ in range(20)]
    [thread.start() for thread in crew], [thread.join() for thread in crew]
    assert admitted.count(True) == 120 and len(admitted) == 200


def test_a_late_request_counts_in_its_own_window(allowance):
    """Two workers read the clock on both sides of a minute's end and reach the file in the other
    order.
    """
    for _ in range(3):
        allowance.charge(limits(), NOON + 59.999)
    assert allowance.charge(limits(), NOON + 60.001).admitted
    assert not allowance.charge(limits(), NOON + 59.999).admitted
    assert left(allowance.peek(limits(), NOON + 60.001))["minute"] == 2


def take_many(given, count, results):
    """Admitted requests of `count`: (by the allowance, by flask-limiter on the same counters)."""
    allowance = Allowance(counters.open_store(given))
    strategy = FixedWindowRateLimiter(Counters(store=allowance.store, clock=lambda: NOON))
    results.put(
        (
            [allowance.charge(limits(120, 2000), NOON).admitted for _ in range(count)].count(True),
            [strategy.hit(FIFTY, "address") for _ in range(count)].count(True),
        )
    )
    allowance.store.close()


def test_processes_share_exactly_and_a_restart_keeps_counts(given):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    crew = [context.Process(target=take_many, args=(given, 70, results)) for _ in range(2)]
    [process.start() for process in crew]
    admitted = [results.get(timeout=120) for _ in crew]
    [process.join() for process in crew]
    assert [sum(counts) for counts in zip(*admitted, strict=False)] == [120, 50]
    again = Allowance(counters.open_store(given))
    assert not FixedWindowRateLimiter(Counters(store=again.store, clock=lambda: NOON)).hit(
        FIFTY, "address"
    )
    assert not again.charge(limits(120, 2000), NOON).admitted and left(
        again.peek(limits(120, 2000), NOON)
    ) == {"minute": 0, "hour": 1880}
    again.store.close()


def test_a_file_another_process_is_creating_is_waited_for(tmp_path):
    other = apsw.Connection(str(tmp_path / "ratelimit.db"))
    other.execute("BEGIN EXCLUSIVE; CREATE TABLE t (x)")
    made = threading.Timer(0.3, other.execute, ["COMMIT"])
    made.start()
    allowance = Allowance(counters.File(tmp_path / "ratelimit.db"))
    assert allowance.charge(limits(), NOON).admitted
    made.join()
    allowance.store.close()


@pytest.mark.parametrize(
    "content",
    [
        b"this is no database, whatever its name says " * 100,
        b"",
        b"SQLite format 3\0" + b"\xff" * 5000,
    ],
)
def test_a_damaged_file_is_replaced(tmp_path, content, caplog):
    path = tmp_path / "ratelimit.db"
    path.write_bytes(content)
    allowance = Allowance(counters.File(path))
    assert allowance.charge(limits(), NOON).admitted and left(allowance.peek(limits(), NOON)) == {
        "minute": 2,
        "hour": 4,
    }
    allowance.store.close()


def test_old_counters_are_deleted(tmp_path):
    allowance = Allowance(counters.File(tmp_path / "ratelimit.db"))
    for n in range(50):
        allowance.charge(limits(subject=f"address:{n}"), NOON)
    allowance.charge(limits(), NOON + 7200)
    assert allowance.store._connection.execute("SELECT COUNT(*) FROM counted").fetchone() == (2,)
    allowance.store.close()


def test_redis_counters_expire(redis_server):
    """By duration, not by Redis's clock, because another machine's clock may be off."""
    redis_server.client.flushdb()
    allowance = Allowance(counters.Redis(redis_server.url))
    allowance.charge(limits(), NOON + 10)
    seconds = {
        key.decode(): redis_server.client.ttl(key) for key in redis_server.client.scan_iter()
    }
    assert seconds.keys() == {
        f"candor:owner:1:minute:{NOON + 60}",
        f"candor:owner:1:hour:{NOON + 3600}",
    }
    assert (
        105 <= seconds[f"candor:owner:1:minute:{NOON + 60}"] <= 110
        and 3645 <= seconds[f"candor:owner:1:hour:{NOON + 3600}"] <= 3650
    )
    allowance.store.close()


@pytest.mark.parametrize(
    "address, network",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        (None, "unknown"),
        ("", "unknown"),
    ],
)
def test_one_network_shares_one_allowance(address, network):
    assert ratelimit.network_of(address) == network


# ---- what flask-limiter counts in ----------------------------------------------------------------
def test_the_storage_keeps_its_guarantees(allowance):
    """The requirements of `limits`: docs of limits.storage.Storage."""
    clock = [NOON + 10]
    storage = storage_from_string("allowance:", store=allowance.store, clock=lambda: clock[0])
    assert [
        storage.incr("a", 60),
        storage.incr("a", 60, 4),
        storage.incr("a", 60, -1),
        storage.incr("b", 60),
    ] == [1, 5, 4, 1]
    assert (storage.get("a"), storage.get_expiry("a"), storage.get("c"), storage.check()) == (
        4,
        NOON + 60,
        0,
        True,
    )
    clock[0] = NOON + 60
    assert (storage.get("a"), storage.incr("a", 60)) == (0, 1)
    storage.clear("a")
    assert storage.get("a") == 0


# ---- through the interface -----------------------------------------------------------------------
@pytest.fixture
def narrow(tmp_path, monkeypatch, storage_url):
    """A service with small limits and a stopped clock, for each store."""
    monkeypatch.setattr("time.time_ns", lambda: (NOON + 10) * 10**9)
    made = Service(
        tmp_path / "data",
        allowance=(("minute", 5), ("hour", 50)),
        posts_per_minute=2,
        ip_limit_per_minute=20,
        failed_auth_per_minute=3,
        ratelimit_storage_url=storage_url,
    )
    yield made
    made.close()


def headers(answer):
    return tuple(
        answer.headers.get(f"RateLimit-{name}") for name in ("Limit", "Remaining", "Reset")
    )


def test_headers_describe_the_first_window_to_run_out(narrow):
    made = narrow.make_bot()
    key, read = made.publish_key.text, narrow.make_read_key(made.owner)
    assert headers(narrow.get("/api/v1/feed", key)) == ("5", "4", "50")
    answer = narrow.post({"eventId": "x"}, key)
    # On POST, the posts window counts too, even for errors.
    assert answer.status_code == 422 and headers(answer) == (
        "2",
        "1",
        "50",
    )
    assert headers(narrow.get("/api/v1/bots/bot_nobody", read)) == ("5", "2", "50")
    policy = '"minute";q=5;w=60, "hour";q=50;w=3600'
    assert answer.headers["RateLimit-Policy"] == f'{policy}, "posts_minute";q=2;w=60'
    assert narrow.get("/api/v1/me", read).headers["RateLimit-Policy"] == policy
    assert "Retry-After" not in answer.headers


def test_a_429_names_the_window_and_when_to_return(narrow):
    made = narrow.make_bot()
    for n in range(2):
        assert (
            narrow.post({"eventId": f"e{n}", "body": "b"}, made.publish_key.text).status_code == 201
        )
    answer = narrow.post({"eventId": "e2", "body": "b"}, made.publish_key.text)
    assert (
        answer.status_code,
        answer.json["code"],
        answer.json["window"],
        answer.headers["Retry-After"],
    ) == (429, "rate_limited", "posts_minute", "50")
    assert headers(answer) == ("2", "0", "50")
    for _ in range(3):
        assert narrow.get("/api/v1/feed", made.publish_key.text).status_code == 200
    answer = narrow.get("/api/v1/feed", made.publish_key.text)
    assert (answer.status_code, answer.json["window"]) == (429, "minute")


def test_me_is_free_and_shows_all_windows(narrow):
    made = narrow.make_bot()
    narrow.post({"eventId": "e", "body": "b"}, made.publish_key.text)
    for _ in range(8):
        answer = narrow.get("/api/v1/me", narrow.make_read_key(made.owner))
    assert answer.status_code == 200 and headers(answer) == ("5", "4", "50")
    assert answer.json["windows"] == [
        {"window": "minute", "limit": 5, "remaining": 4, "resetSeconds": 50},
        {"window": "hour", "limit": 50, "remaining": 49, "resetSeconds": 3590},
        {"window": "posts_minute", "limit": 2, "remaining": 1, "resetSeconds": 50},
    ]


def test_wrong_keys_are_limited_by_address_and_a_valid_one_still_works(narrow):
    key = narrow.make_bot().publish_key.text
    wrong = [
        narrow.get("/api/v1/feed", "cnd_read_" + "x" * 49) if n % 2 else narrow.get("/api/v1/feed")
        for n in range(5)
    ]
    assert [answer.status_code for answer in wrong] == [401, 401, 401, 429, 429]
    assert (wrong[-1].json["window"], wrong[-1].headers["Retry-After"]) == (
        "address",
        "50",
    ) and headers(wrong[-1]) == (None, None, None)
    assert narrow.get("/api/v1/feed", key).status_code == 200
    assert narrow.get("/api/v1/feed", peer="192.0.2.9").status_code == 401


def test_an_address_has_one_limit_for_everything(narrow):
    codes = [
        narrow.get(
            "/api/market" if n % 2 else "/nothing", headers={"X-Forwarded-For": f"10.0.0.{n}"}
        ).status_code
        for n in range(23)
    ]
    assert sorted(codes) == [200] * 10 + [404] * 10 + [429] * 3
    assert narrow.get("/api/market", peer="192.0.2.9").status_code == 200


@pytest.mark.usefixtures("standing_clock")
def test_a_full_address_is_named_to_a_keyed_caller(tmp_path):
    """The owner has requests left: window and headers are the address's. The clock is at second 30
    of a minute.
    """
    service = Service(tmp_path / "data", ip_limit_per_minute=2)
    bot = service.make_bot()
    key = bot.publish_key.text
    for _ in range(2):
        assert service.get("/api/v1/feed", key).status_code == 200
    for answer in (
        service.get("/api/v1/feed", key),
        service.post({"eventId": "e", "body": "b"}, key),
        service.get("/api/v1/me", key),
    ):
        assert (answer.status_code, answer.json["window"]) == (429, "address")
        assert "2 a minute" in answer.json["detail"]
        assert headers(answer) == ("2", "0", "30") and answer.headers["Retry-After"] == "30"
    elsewhere = service.get("/api/v1/feed", key, peer="192.0.2.9")
    # A million a minute, two of which were used: a refusal costs nothing.
    assert headers(elsewhere)[:2] == ("1000000", "999997")
    service.close()


@pytest.mark.usefixtures("standing_clock")
def test_forwarded_addresses_count_only_behind_a_trusted_proxy(tmp_path):
    behind = Service(tmp_path / "data", trusted_proxies=1, ip_limit_per_minute=2)
    codes = [
        behind.get(
            "/api/market", headers={"X-Forwarded-For": f"198.51.100.9, 192.0.2.{n}"}
        ).status_code
        for n in range(4)
    ]
    # The last entry is the proxy's.
    assert codes == [200] * 4
    codes = [
        behind.get(
            "/api/market", headers={"X-Forwarded-For": f"192.0.2.{n}, 198.51.100.9"}
        ).status_code
        for n in range(4)
    ]
    assert codes == [200, 200, 429, 429]
    behind.close()


def test_an_addresss_usage_survives_a_restart(narrow):
    """The address's minute and its failures are in the store, so another worker or the next process
    continues with them.
    """
    for _ in range(3):
        assert narrow.get("/api/v1/feed", peer="2001:db8::1").status_code == 401
    narrow.app.allowance.store.close()
    again = Service(
        narrow.config.data_dir,
        ip_limit_per_minute=20,
        failed_auth_per_minute=3,
        ratelimit_storage_url=narrow.config.ratelimit_storage_url,
    )
    answer = again.get("/api/v1/feed", peer="2001:db8::ffff")
    assert (answer.status_code, answer.json["window"], answer.headers["Retry-After"]) == (
        429,
        "address",
        "50",
    ) and answer.content_type == "application/problem+json"
    codes = [again.get("/api/market", peer="2001:db8::2").status_code for _ in range(20)]
    # 20 minus the four above.
    assert codes == [200] * 16 + [429] * 4
    script = again.get("/static/candor.js", peer="2001:db8::2")
    assert script.status_code == 200
    script.close(), again.close()


@pytest.mark.usefixtures("standing_clock")
def test_each_kind_of_request_has_its_own_count_without_refused_ones(tmp_path):
    made = Service(tmp_path / "data", failed_auth_per_minute=2, evidence_per_minute=2)
    uid = made.make_bot().bot.uid
    failed = [made.get("/api/v1/feed", "cnd_read_x") for _ in range(5)]
    assert [one.status_code for one in failed] == [401, 401, 429, 429, 429]
    assert failed[-1].headers["Retry-After"] == "30"
    key = RateLimitItemPerMinute(2).key_for(ratelimit.network_of("127.0.0.1"), "failed")
    with made.app.test_request_context():
        gate.begin()
        assert gate.limiter.storage.get(key) == 2
    read = [made.get(f"/bots/{uid}/evidence.json").status_code for _ in range(3)]
    assert read == [200, 200, 429]
    made.close()


def test_last_uses_are_stored_next_to_the_counters(given):
    """In both stores; a later record from another machine stays."""
    first, second = counters.open_store(given), counters.open_store(given)
    first.note_use("key_a", 2_000_000_000_000)
    second.note_use("key_b", 2_000_000_000_001)
    first.count([("owner:1", "minute", 2_000_000_060, 5)], 1, 2_000_000_000)
    assert (
        first.find_uses()
        == second.find_uses()
        == {"key_a": 2_000_000_000_000, "key_b": 2_000_000_000_001}
    )
    first.close(), second.close()
