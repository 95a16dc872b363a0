"""Settings: defaults and invalid values. An error names the setting but never its value."""

import errno
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import config
from cli import server
from storage import files

DOCS = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
REFUSED = {
    "HOST": "http://h",
    "PORT": "99999",
    "BASE_URL": "ftp://x",
    "RPC_REQUESTS_PER_SECOND": "fast",
    "OBSERVER_INTERVAL_SECONDS": "-1",
    "SOLANA_RPC_URLS": "localhost:8899",
    "EXTRA_SWAP_PROGRAMS": "not-base58!",
    "ALLOWANCE": "120 per minute",
    "REGISTRATION": "maybe",
    "ALLOWED_HOSTS": "http://x",
    "WEB_CONCURRENCY": "0",
    "THREADS": "many",
    "DATABASE_URL": "mysql://x",
    "RATELIMIT_STORAGE_URL": "memcached://x",
    "TRUSTED_PROXIES": "all",
    "LLM_BASE_URL": "x",
    "MAX_WALLETS_PER_OWNER": "0",
    "MAX_RECEIPTS_PER_WALLET": "x",
    "IP_LIMIT_PER_MINUTE": "0",
    "DEXSCREENER_URL": "x",
}


def load(**environ):
    return config.load(environ, dotenv=None)


def test_defaults_match_the_docs():
    c = load()
    assert (c.host, c.port, c.base_url, c.data_dir) == (
        "127.0.0.1",
        8000,
        "http://127.0.0.1:8000",
        Path("data"),
    )
    assert c.allowance == (("minute", 120), ("hour", 2000), ("day", 10000))
    assert (
        c.observer_interval_seconds,
        c.scout_interval_seconds,
        c.paper_interval_seconds,
        c.rpc_requests_per_second,
    ) == (15, 60, 30, 2)
    assert (
        c.ip_limit_per_minute,
        c.failed_auth_per_minute,
        c.creations_per_minute,
        c.posts_per_minute,
    ) == (300, 20, 3, 20)
    assert c.allowed_hosts == ("localhost", "127.0.0.1", "[::1]")


def test_base_url_follows_host_and_port_and_its_host_is_allowed():
    assert load(HOST="0.0.0.0", PORT="81").base_url == "http://0.0.0.0:81"
    assert load(HOST="::1").base_url == "http://[::1]:8000"
    assert "candor.example" in load(BASE_URL="https://candor.example/").allowed_hosts
    assert load(BASE_URL="https://candor.example/").base_url == "https://candor.example"


def test_the_environment_overrides_the_file_and_empty_means_unset(tmp_path):
    (tmp_path / ".env").write_text("PORT=9001\nTHREADS=3\n")
    c = config.load({"PORT": "9002", "THREADS": ""}, dotenv=str(tmp_path / ".env"))
    assert (c.port, c.threads) == (9002, 8)


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_value_is_refused_by_name_and_not_repeated(name):
    with pytest.raises(config.BadSetting) as refused:
        load(**{name: REFUSED[name]})
    assert name in str(refused.value)
    assert REFUSED[name] == "0" or REFUSED[name] not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis:///0",
        "redis://:pw-canary@",
        "redis://:pw-canary@h:port",
        "redis://:pw-canary@h:0",
        "redis://:pw-canary@h:99999",
        "redis://h/first",
        "redis://h/0?password=pw-canary",
        "redis://h#pw-canary",
        "redis://:pw/canary@h",
        "unix:///tmp/s",
        "http://h",
    ],
)
def test_a_redis_url_contains_only_the_location(url):
    with pytest.raises(config.BadSetting) as refused:
        load(RATELIMIT_STORAGE_URL=url)
    assert (
        "RATELIMIT_STORAGE_URL" in str(refused.value)
        and "canary" not in str(refused.value)
        and refused.value.__cause__ is None
    )


def test_a_database_url_may_name_several_hosts():
    hosts = "127.0.0.1:5432,[::1]:5433,h"
    url = f"postgresql://u:p%2Fw@{hosts}/candor?target_session_attrs=read-write"
    assert load(DATABASE_URL=url).database_url == url
    for bad in (url.replace("h/", ":1/"), url.replace("h/", "h:0/"), f"x{url}"):
        with pytest.raises(config.BadSetting, match="DATABASE_URL must be a URL"):
            load(DATABASE_URL=bad)


@pytest.mark.parametrize("url", ["redis://h", "rediss://u:p%2Fw@h:6380/15", "redis://[::1]:6379/"])
def test_usable_redis_urls_are_accepted(url):
    assert load(RATELIMIT_STORAGE_URL=url).ratelimit_storage_url == url


def test_an_allowance_in_any_order_starts_with_the_shortest_window():
    assert load(ALLOWANCE="5/day; 2/minute").allowance == (("minute", 2), ("day", 5))


def test_secrets_are_not_in_the_repr():
    shown = repr(
        load(
            SOLANA_RPC_URLS="https://rpc.example/?api-key=canary1",
            SECRET_KEY="canary2",
            LLM_API_KEY="canary3",
            DATABASE_URL="postgresql://u:canary4@h/d",
            RATELIMIT_STORAGE_URL="redis://:canary5@h",
            LLM_BASE_URL="http://u:canary6@h",
        )
    )
    assert "canary" not in shown


def test_secret_key_is_created_once_and_private(tmp_path):
    c = load(DATA_DIR=str(tmp_path))
    first = files.secret_key(c)
    assert len(first) == 64 and files.secret_key(c) == first
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600
    assert files.secret_key(load(DATA_DIR=str(tmp_path), SECRET_KEY="given")) == "given"


@pytest.mark.parametrize("left", [b"", b"\n", b"\0" * 64])
def test_an_empty_secret_key_is_replaced_with_a_message(tmp_path, caplog, left):
    """After a power failure, an unsynced file has no bytes, or NULs."""
    (tmp_path / "secret_key").write_bytes(left)
    c = load(DATA_DIR=str(tmp_path))
    made = files.secret_key(c)
    assert re.fullmatch("[0-9a-f]{64}", made) and files.secret_key(c) == made
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]
    assert "secret_key was empty" in caplog.text and made not in caplog.text


@pytest.mark.parametrize("left", [b"ab12", b"x" * 31, b"\xff" * 20])
def test_a_short_secret_key_is_refused_in_one_sentence(tmp_path, left):
    (tmp_path / "secret_key").write_bytes(left)
    with pytest.raises(config.BadSetting, match="secret_key must contain at least 32 characters"):
        files.secret_key(load(DATA_DIR=str(tmp_path)))
    assert (tmp_path / "secret_key").read_bytes() == left


def test_concurrent_starts_get_the_same_secret_key(tmp_path):
    c, begin = load(DATA_DIR=str(tmp_path)), threading.Barrier(8)

    def make(_):
        begin.wait(60)
        return files.secret_key(c)

    for left in (None, b""):
        if left is not None:
            (tmp_path / "secret_key").write_bytes(left)
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(make, range(8)))) == 1


def test_every_setting_is_documented():
    documented = set(re.findall(r"`([A-Z_]{4,})`", DOCS.read_text()))
    assert documented >= config.NAMES


@pytest.mark.parametrize("host", ["8.8.8.8", "999.1.1.1", "no-such-host.invalid"])
def test_a_host_of_another_machine_is_refused_by_its_setting(host):
    with pytest.raises(config.BadSetting, match=f"^HOST must be .*{re.escape(host)}"):
        server.refuse_unusable_port(load(HOST=host, PORT="8123"))


def test_a_port_this_user_cannot_open_is_refused_by_its_setting(monkeypatch):
    def refuse(_socket, _address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(server.socket.socket, "bind", refuse)
    with pytest.raises(config.BadSetting, match="^PORT must be .* refused 80;"):
        server.refuse_unusable_port(load(HOST="127.0.0.1", PORT="80"))
