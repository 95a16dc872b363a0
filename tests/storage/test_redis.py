"""Counting in Redis: exact across machines, busy (never unlimited) while Redis is down, automatic
recovery, and no trace of its password.
"""

import json
import sys
import time
from unittest import mock

import ground
import pytest
from redisserver import PASSWORD
from service import NOW, race
from test_worker import Server

import app
import config
import storage
from accounts import api_keys, influencers
from operate import doctor
from storage import counters
from web.server.logs import JsonLines

# Seconds, instead of two.
REST = 0.2
PAGES = ("/", "/market", "/status", "/api/traders", "/feed.json")


@pytest.fixture
def shared_redis(redis_server, monkeypatch):
    """The server, empty, and running again afterwards."""
    redis_server.client.flushall()
    monkeypatch.setattr(counters, "REST_SECONDS", REST)
    yield redis_server
    redis_server.go_on()
    if redis_server.process.poll() is not None:
        redis_server.start()


@pytest.fixture
def service(serve, shared_redis):
    return serve(ratelimit_storage_url=shared_redis.url, allowance=(("day", 100),))


def remaining(get):
    """The remainder of the day's 100 after a read."""
    answer = get("feed")
    assert answer.status_code == 200, answer.text
    return int(answer.headers["RateLimit-Remaining"])


def test_machines_share_one_allowance_exactly(tmp_path, redis_server):
    """Two servers, 25 threads, five keys of one owner; then one server is restarted."""
    redis_server.client.flushdb()
    environ = {"ALLOWANCE": "120/day", "RATELIMIT_STORAGE_URL": redis_server.url}
    servers = [Server(tmp_path, **environ) for _ in range(2)]
    try:
        with storage.connect(ground.settings_of(tmp_path / "data")).connection_context():
            made = influencers.create_bot(config.Config(), "Ada", NOW)
            keys = [api_keys.create_key(made.owner, "read", NOW).text for _ in range(5)]

        def read(server, key):
            return server.get("/api/v1/feed", Authorization=f"Bearer {key}")[0]

        def ask(n):
            return [read(servers[n % 2], keys[n % 5]) for _ in range(8)]

        codes = [code for some in race(25, ask) for code in some]
        storage.database.close_all()
        assert (codes.count(200), codes.count(429)) == (120, 80)
        servers[0].stop()
        servers[0] = Server(tmp_path, **environ)
        assert [read(server, keys[0]) for server in servers] == [429, 429]
        assert PASSWORD not in servers[0].words() + servers[1].words()
    finally:
        for server in servers:
            server.stop()


# ---- Redis is down, silent or full ---------------------------------------------------------------
def test_without_redis_only_pages_are_served(service, key, get, browser, shared_redis):
    """The keyed API is busy, and no bots are created."""
    assert remaining(get) == 99
    shared_redis.stop()
    for _ in range(3):
        posting = service.post({"eventId": "e", "body": "b"}, key)
        for answer in (get("feed"), get("me"), posting):
            assert (answer.status_code, answer.json["code"]) == (503, "busy")
            assert answer.headers["Retry-After"] == "2"
        assert [service.get(path).status_code for path in PAGES] == [200] * 5
        time.sleep(REST)
    answer, health = browser.send("/connect", name="Nell"), service.get("/api/health")
    assert answer.status_code == 503 and "Nothing was stored" in answer.text
    assert (health.status_code, health.json["status"]) == (200, "degraded")
    assert (health.json["allowanceOk"], health.json["allowanceStore"]) == (False, "redis")
    shared_redis.start()
    time.sleep(REST)
    # The counts were lost with the server.
    assert remaining(get) == 99
    assert service.get("/api/health").json["status"] == "ok"
    assert browser.send("/connect", name="Nell").status_code == 200


def test_a_silent_redis_is_waited_for_once(service, get, shared_redis, monkeypatch):
    monkeypatch.setattr(counters, "REST_SECONDS", 600)
    assert remaining(get) == 99
    shared_redis.pause()
    store = service.app.allowance.store
    store._script = mock.Mock(wraps=store._script)
    assert get("feed").status_code == 503
    assert [service.get("/market").status_code for _ in range(20)] == [200] * 20
    assert get("feed").status_code == 503 and store._script.call_count == 1
    shared_redis.go_on()
    store.rest.until = time.monotonic()
    # After waking up it also counted the pending request, which can't be undone.
    assert remaining(get) == 97


def test_redis_may_restart_or_lose_its_script_or_data(get, shared_redis):
    assert remaining(get) == 99
    shared_redis.client.script_flush()
    assert remaining(get) == 98
    shared_redis.client.flushall()
    assert remaining(get) == 99
    shared_redis.stop()
    # The old connections are dead.
    shared_redis.start()
    assert remaining(get) == 99


def test_a_full_redis_is_busy(service, get, shared_redis):
    shared_redis.client.config_set("maxmemory", 1)
    codes = [get("feed").status_code, service.get("/market").status_code]
    shared_redis.client.config_set("maxmemory", 0)
    time.sleep(REST)
    assert codes == [503, 200] and remaining(get) == 99


# ---- what is said --------------------------------------------------------------------------------
def test_the_password_appears_nowhere(service, key, shared_redis, serve, caplog):
    """Refused by Redis, disconnected or working."""
    # One instance after another.
    storage.database.close_all()
    wrong = serve(ratelimit_storage_url=shared_redis.url.replace(PASSWORD, f"{PASSWORD}-wrong"))
    told = [one.text + one.advice for one in doctor.check_redis(wrong.config, NOW)]
    assert len(told) == 1 and "AuthenticationError" in told[0]
    other = wrong.make_bot().publish_key.text
    paths = ("/api/v1/feed", "/api/health", "/market", "/nothing", "/api/v1/me")
    answers = [wrong.get(path, other) for path in paths]
    assert [answer.status_code for answer in answers] == [503, 200, 200, 404, 503]
    wrong.close()
    storage.connect(service.config)
    shared_redis.stop()
    answers += [service.get(path, key) for path in paths[:3]]
    told += [one.text + one.advice for one in doctor.check_redis(service.config, NOW)]
    lines = [JsonLines().format(record) for record in caplog.records]
    assert any(json.loads(line)["message"] == "busy" for line in lines)
    assert any("count a request" in line for line in lines)
    said = "".join([*told, *lines, *(str(answer.headers) + answer.text for answer in answers)])
    assert PASSWORD not in said and str(shared_redis.url) not in said


def test_doctor_checks_redis_when_asked(shared_redis, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "check_endpoints", lambda *_: [])
    monkeypatch.setattr(doctor, "check_providers", lambda *_: [])
    named = {"DATA_DIR": str(tmp_path / "none"), "RATELIMIT_STORAGE_URL": shared_redis.url}
    given = config.load(named, dotenv=None)

    def examine(online):
        found = doctor.examine(given, NOW, online=online)
        return [(one.level, one.text) for one in found if "Redis" in one.text]

    assert examine(online=False) == []
    ((_, text),) = examine(online=True)
    assert text == "Redis responds"
    shared_redis.stop()
    ((level, text),) = examine(online=True)
    assert level == "wrong" and "Redis can't" in text and "(ConnectionError)" in text


def test_without_the_package_startup_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setenv("RATELIMIT_STORAGE_URL", f"redis://:{PASSWORD}@127.0.0.1")
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    assert app.main(["run"]) == 1
    said = capsys.readouterr().err
    assert "RATELIMIT_STORAGE_URL" in said and "'.[redis]'" in said and PASSWORD not in said
