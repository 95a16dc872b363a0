"""Admission: who gets in where, what every response contains, and what it never does."""

import contextlib
import json
import logging
import re
import threading

import apsw
import ground
import pytest
from service import NOW, Service, address, make_season
from test_studio import Browser

from accounts import api_keys, influencers
from accounts.keys import make_key
from accounts.problem import Problem
from models import Bot, Key, Post, Session
from storage import counters, database
from web.server import application, gate
from web.server.logs import JsonLines

V1 = [
    ("GET", "bots"),
    ("GET", "bots/{bot}"),
    ("GET", "bots/{bot}/positions"),
    ("GET", "bots/{bot}/tokens"),
    ("GET", "bots/{bot}/daily"),
    ("GET", "bots/{bot}/copying"),
    ("GET", "feed"),
    ("GET", "posts/{post}"),
    ("POST", "posts"),
    ("GET", "trades"),
    ("GET", "activity?mint=" + address("m")),
    ("GET", "leaderboard"),
    ("GET", "market"),
    ("GET", "search?q=ada"),
    ("GET", "me"),
    ("GET", "seasons"),
    ("GET", "seasons/{season}"),
    ("GET", "stream"),
]


@pytest.fixture
def callers(service):
    """{kind of caller: key}; the publishing key belongs to the bot in the paths."""
    bot, retired = service.make_bot("Ada", address("w")), service.make_bot("Gone")
    revoked, expired = (
        api_keys.create_key(bot.owner, "publish", NOW, bot=bot.bot) for _ in range(2)
    )
    api_keys.revoke_key(revoked.key.uid, NOW)
    Key.update(expires_at=NOW).where(Key.id == expired.key.id).execute()
    influencers.retire_bot(retired.bot, NOW)
    return {
        "nobody": None,
        "a guess": make_key("publish"),
        "a typo": bot.publish_key.text[:-1] + "-",
        "a revoked key": revoked.text,
        "an expired key": expired.text,
        "a retired bot's key": retired.publish_key.text,
        "a read key": service.make_read_key(bot.owner),
        "a publishing key": bot.publish_key.text,
        "another owner's key": service.make_bot("Bob").publish_key.text,
    }


REFUSED = {
    "nobody": "missing_key",
    **dict.fromkeys(
        ("a guess", "a typo", "a revoked key", "an expired key", "a retired bot's key"),
        "invalid_key",
    ),
}


@pytest.mark.parametrize("method, path", V1)
def test_every_keyed_route_checks_every_caller(service, callers, method, path):
    body = {"eventId": "e", "body": "b"}
    post = service.post(body, callers["a publishing key"]).json
    path = "/api/v1/" + path.format(bot=post["botId"], post=post["id"], season=make_season().uid)
    for caller, key in callers.items():
        answer = service.ask(method, path, key, **({"json": body} if method == "POST" else {}))
        if caller in REFUSED:
            assert (answer.status_code, answer.json["code"]) == (
                401,
                REFUSED[caller],
            ) and answer.headers["WWW-Authenticate"].startswith("Bearer"), caller
        elif method == "POST" and caller == "a read key":
            assert (answer.status_code, answer.json["code"]) == (403, "insufficient_scope")
        elif method == "POST" and caller == "another owner's key":
            assert answer.status_code == 201 and answer.json["botId"] != post["botId"]
        else:
            assert answer.status_code == 200, caller
        answer.close()


def test_the_table_lists_every_keyed_route(service):
    rules = {
        (method, rule.rule)
        for rule in service.app.url_map.iter_rules()
        if rule.rule.startswith("/api/v1/")
        for method in rule.methods - {"HEAD"}
        # The inbox's key is in its address (test_inbox.py); registering needs no key
        # (test_registration.py); test_seasons_shown.py joins.
        if not rule.endpoint.startswith(("inbox.", "registration.", "v1.join_season"))
    }
    assert rules == {
        (
            method,
            "/api/v1/" + re.sub(r"{\w+}", "<uid>", path.partition("?")[0]),
        )
        for method, path in V1
    }


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Basic {key}"},
        {"Authorization": "{key}"},
        {"X-Api-Key": "{key}"},
        {"Cookie": "key={key}"},
        {"Authorization": "Bearer"},
    ],
)
def test_only_a_bearer_header_is_accepted(service, callers, headers):
    key = callers["a publishing key"]
    answer = service.get(
        f"/api/v1/me?key={key}&api_key={key}",
        headers={name: value.format(key=key) for name, value in headers.items()},
    )
    assert (answer.status_code, answer.json["code"]) == (401, "missing_key")


def test_the_scheme_is_case_insensitive(service, callers):
    assert (
        service.get(
            "/api/v1/me", headers={"Authorization": f"bearer  {callers['a read key']} "}
        ).status_code
        == 200
    )


# ---- what every answer carries -------------------------------------------------------------------
def test_every_response_has_an_id_and_a_policy(service, callers, monkeypatch):
    monkeypatch.setattr("web.api.bots.read_bots", lambda *_: 1 / 0)
    answers = [
        service.get("/api/health"),
        service.get("/openapi.json"),
        service.get("/nothing"),
        service.get("/api/nothing"),
        service.ask("DELETE", "/api/v1/feed"),
        service.get("/api/v1/feed"),
        service.get("/api/v1/feed", callers["a read key"]),
        service.get("/api/v1/feed", callers["a read key"], headers={"Host": "evil.example"}),
        service.get("/api/v1/bots", callers["a read key"]),
        service.post(b"{", callers["a publishing key"]),
    ]
    assert [answer.status_code for answer in answers] == [
        200,
        200,
        404,
        404,
        405,
        401,
        200,
        421,
        500,
        400,
    ]
    for answer in answers:
        assert (
            answer.headers["X-Request-Id"].startswith("req_")
            and answer.headers["Content-Security-Policy"] == application.CONTENT_POLICY
        )
        assert (
            answer.headers["X-Content-Type-Options"] == "nosniff"
            and answer.headers["X-Frame-Options"] == "DENY"
            and "Set-Cookie" not in answer.headers
        )
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == len(answers)


def test_an_internal_error_is_a_problem_without_details(service, callers, monkeypatch, caplog):
    monkeypatch.setattr("web.api.bots.read_bots", lambda *_: {}["canary"])
    answer = service.get("/api/v1/bots", callers["a read key"])
    assert (
        (answer.status_code, answer.json["code"]) == (500, "internal_error")
        and "canary" not in answer.text
        and "Traceback" not in answer.text
    )
    assert [
        record.shown["requestId"] for record in caplog.records if record.levelname == "ERROR"
    ] == [answer.json["requestId"]]


def test_an_unknown_page_path_gets_an_html_error(service):
    answer = service.get("/<script>alert(1)</script>")
    assert (
        answer.status_code == 404
        and answer.content_type.startswith("text/html")
        and "<script>alert" not in answer.text
        and answer.headers["X-Request-Id"] in answer.text
    )


@pytest.mark.parametrize(
    "host, served",
    [
        ("localhost", True),
        ("127.0.0.1:8000", True),
        ("LOCALHOST:1", True),
        ("[::1]:8000", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("", False),
        ("[::2]", False),
        ("evil.example:127.0.0.1", False),
    ],
)
def test_only_known_hosts_are_served(service, host, served):
    answer = service.get("/api/health", headers={"Host": host})
    assert answer.status_code == (200 if served else 421) and (
        served or answer.json["code"] == "misdirected_request"
    )


# ---- answers are what the document says ----------------------------------------------------------
def test_openapi_lists_every_api_route(service):
    document = service.get("/openapi.json").json
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    routes = {
        (method, rule.rule.replace("<uid>", "{id}"))
        for rule in service.app.url_map.iter_rules()
        # Discord defines the inbox's requests and responses.
        if rule.rule.startswith("/api/") and rule.endpoint != "inbox.take_message"
        for method in rule.methods - {"HEAD"}
    }
    assert document["openapi"].startswith("3.1") and described == routes


# ---- busy, and better again ----------------------------------------------------------------------
@contextlib.contextmanager
def locked():
    """Another process writes to the database for long inside."""
    ground.wait_no_longer(50)
    begun, done = threading.Event(), threading.Event()

    def lock():
        with database.connection_context(), database.atomic():
            begun.set()
            done.wait(60)

    thread = threading.Thread(target=lock)
    thread.start()
    assert begun.wait(60)
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def full():
    """The database can't grow inside."""
    database.execute_sql(
        f"PRAGMA max_page_count = {database.execute_sql('PRAGMA page_count').fetchone()[0]}"
    )
    try:
        yield
    finally:
        database.execute_sql("PRAGMA max_page_count = 1073741823")


def test_a_locked_database_is_busy_and_recovers(service, callers, monkeypatch):
    key = callers["a publishing key"]
    service.post({"eventId": "before", "body": "b"}, key)
    with locked():
        answer = service.post({"eventId": "during", "body": "b"}, key)
        reading = service.get("/api/v1/feed", key)
    assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert reading.status_code == 200
    # At least two seconds, and no earlier than the other header says.
    assert int(answer.headers["Retry-After"]) == max(2, int(answer.headers["RateLimit-Reset"]))
    assert service.post({"eventId": "during", "body": "b"}, key).status_code == 201


def test_pages_are_busy_and_recover(service, monkeypatch):
    browser = Browser(service)
    uid = browser.create("Nell")[1]
    # Due to be recorded.
    Session.update(seen_at=Session.seen_at - 7_200_000).execute()
    with locked():
        during = [
            browser.send("/connect", name="During"),
            browser.send(f"/bots/{uid}/profile", name="During"),
        ]
        reading = [
            browser.get(path).status_code for path in ("/", f"/bots/{uid}/manage", "/status")
        ]
    assert [(page.status_code, page.headers["Retry-After"], page.mimetype) for page in during] == [
        (503, "2", "text/html")
    ] * 2 and "Nothing was stored" in during[0].text
    assert reading == [200] * 3 and [bot.name for bot in Bot.select()] == ["Nell"]
    assert browser.send("/connect", name="During").status_code == 200


@ground.sqlite_only
def test_pages_work_on_a_full_disk(service):
    browser = Browser(service)
    uid = browser.create("Nell")[1]
    with full():
        codes = [
            browser.send(
                f"/bots/{uid}/posts", draft=str(n), body="x" * 4000, reason="y" * 4000
            ).status_code
            for n in range(30)
        ]
        reading = [browser.get(path).status_code for path in ("/", f"/bots/{uid}/manage")]
    assert codes[-1] == 503 and set(codes) <= {302, 503} and reading == [200, 200]
    assert (
        browser.send(
            f"/bots/{uid}/posts", draft="29", body="x" * 4000, reason="y" * 4000
        ).status_code
        == 302
    )
    assert Post.select().count() == codes.count(302) + 1


def test_a_broken_statement_is_not_called_busy(service, callers, monkeypatch):
    monkeypatch.setattr("web.api.bots.BOT", "SELECT nonsense FROM nowhere ")
    assert service.get("/api/v1/bots", callers["a read key"]).status_code == 500


@ground.file_only
def test_a_locked_allowance_file_is_busy(service, callers, monkeypatch):
    monkeypatch.setattr(counters, "REST_SECONDS", 0)
    monkeypatch.setattr(counters, "BUSY_SECONDS", 0.02)
    other = apsw.Connection(str(service.config.ratelimit_path))
    other.execute("BEGIN IMMEDIATE")
    answer = service.get("/api/v1/feed", callers["a read key"])
    other.execute("ROLLBACK")
    other.close()
    assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert service.get("/api/v1/feed", callers["a read key"]).status_code == 200


@ground.file_only
def test_a_full_disk_leaves_pages_and_health_readable(service, callers):
    execute = service.app.allowance.store._open().execute
    execute(f"PRAGMA max_page_count = {execute('PRAGMA page_count').get}").fetchall()
    codes = [
        service.get(path, peer=f"10.0.{n}.{n}").status_code
        for n in range(200)
        for path in ("/api/health", "/market")
    ]
    assert set(codes) == {200} and execute("SELECT COUNT(*) FROM counted").get < 200


@ground.file_only
def test_an_allowance_file_that_cannot_be_created_is_busy(service, callers, monkeypatch):
    def fail():
        raise apsw.CantOpenError("no such folder")

    service.app.allowance.store.close()
    monkeypatch.setattr(service.app.allowance.store, "_open", fail)
    answer = service.get("/api/v1/feed", callers["a read key"])
    monkeypatch.undo()
    assert (answer.status_code, answer.json["code"]) == (503, "busy") and service.get(
        "/api/v1/feed", callers["a read key"]
    ).status_code == 200


def test_health_says_down_when_the_database_cannot_be_read(service, monkeypatch):
    assert service.get("/api/health").json["status"] == "ok"
    monkeypatch.setattr("web.api.health.JOBS", "SELECT nonsense FROM nowhere")
    answer = service.get("/api/health")
    assert (answer.status_code, answer.json["status"], answer.json["database"]["ok"]) == (
        503,
        "down",
        False,
    )


# ---- creating bots -------------------------------------------------------------------------------
def test_creations_are_counted_by_owner_and_by_address(tmp_path, monkeypatch, storage_url):
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    service = Service(tmp_path / "data", creations_per_minute=2, ratelimit_storage_url=storage_url)

    def create(peer, owner=None):
        with service.app.test_request_context("/connect", environ_base={"REMOTE_ADDR": peer}):
            gate.begin()
            try:
                gate.check_creation(owner)
                return "created"
            except Problem as problem:
                return problem.code

    assert [create("192.0.2.1") for _ in range(3)] == ["created", "created", "rate_limited"]
    assert [create(f"192.0.2.{n}", owner=7) for n in (2, 3, 4)] == [
        "created",
        "created",
        "rate_limited",
    ]
    # The refused request used none of its address's limit.
    assert [create("192.0.2.4") for _ in range(3)] == [
        "created",
        "created",
        "rate_limited",
    ]
    # Nor of its owner's.
    assert [
        create("192.0.2.4", owner=8),
        create("192.0.2.5", owner=8),
        create("192.0.2.6", owner=8),
    ] == [
        "rate_limited",
        "created",
        "created",
    ]
    service.close()


# ---- what never leaves ---------------------------------------------------------------------------
def test_a_log_line_is_one_json_object(service, callers, caplog):
    caplog.set_level(logging.INFO, "candor.access")
    answer = service.get("/api/v1/bots/bot_nobody", callers["a read key"])
    line = json.loads(JsonLines().format(caplog.records[-1]))
    assert {name: line[name] for name in ("level", "requestId", "method", "route", "status")} == {
        "level": "info",
        "requestId": answer.headers["X-Request-Id"],
        "method": "GET",
        "route": "/api/v1/bots/<uid>",
        "status": 404,
    }
    assert line["key"].startswith("key_") and line["ms"] >= 0 and line["at"].endswith("+00:00")


def test_cookies_and_transport_are_secure_behind_https(tmp_path):
    secure = Service(
        tmp_path / "data", base_url="https://candor.example", allowed_hosts=("candor.example",)
    )
    answer = secure.get("/api/health", headers={"Host": "candor.example"})
    assert (
        answer.headers["Strict-Transport-Security"]
        and secure.app.config["SESSION_COOKIE_SECURE"] is True
    )
    secure.close()
