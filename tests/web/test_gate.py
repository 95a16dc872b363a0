"""Admission: who gets in where, what every response contains, and what it never does."""

import contextlib
import itertools
import re
import threading

import apsw
import ground
from service import NOW, address, make_season, refused

from accounts import api_keys, influencers
from accounts.keys import make_key
from models import Bot, Key, Post, Session
from storage import counters, database
from web.server import application, gate

READ = f"""
bots bots/{{bot}} bots/{{bot}}/positions bots/{{bot}}/tokens bots/{{bot}}/daily
bots/{{bot}}/copying feed posts/{{post}} trades activity?mint={address("m")} leaderboard market
search?q=ada me seasons seasons/{{season}} stream
"""
V1 = [("POST", "posts")] + [("GET", path) for path in READ.split()]


def list_callers(service):
    """(kind of caller, its key, the code of its refusal or None); the publishing key belongs to the
    first bot.
    """
    bot, retired = service.make_bot("Ada", address("w")), service.make_bot("Gone")
    revoked, expired = (
        api_keys.create_key(bot.owner, "publish", NOW, bot=bot.bot) for _ in range(2)
    )
    api_keys.revoke_key(revoked.key.uid, NOW)
    Key.update(expires_at=NOW).where(Key.id == expired.key.id).execute()
    influencers.retire_bot(retired.bot, NOW)
    return [
        ("a publishing key", bot.publish_key.text, None),
        ("a read key", service.make_read_key(bot.owner), None),
        ("another owner's key", service.make_bot("Bob").publish_key.text, None),
        ("nobody", None, "missing_key"),
        ("a guess", make_key("publish"), "invalid_key"),
        ("a typo", bot.publish_key.text[:-1] + "-", "invalid_key"),
        ("a revoked key", revoked.text, "invalid_key"),
        ("an expired key", expired.text, "invalid_key"),
        ("a retired bot's key", retired.publish_key.text, "invalid_key"),
    ]


STATUS = {"missing_key": 401, "invalid_key": 401, "insufficient_scope": 403}


def test_every_keyed_route_checks_every_caller(service):
    callers, body = list_callers(service), {"eventId": "e", "body": "b"}
    post = service.post(body, callers[0][1]).json
    ids = {"bot": post["botId"], "post": post["id"], "season": make_season().uid}
    for (method, path), (caller, key, code) in itertools.product(V1, callers):
        is_post = method == "POST"
        if is_post and caller == "a read key":
            code = "insufficient_scope"
        more = {"json": body} if is_post else {}
        with service.ask(method, f"/api/v1/{path.format(**ids)}", key, **more) as answer:
            is_new = is_post and caller == "another owner's key"
            status = STATUS[code] if code else 201 if is_new else 200
            assert answer.status_code == status, (path, caller)
            assert not code or answer.json["code"] == code
            challenge = answer.headers.get("WWW-Authenticate")
            assert bool(challenge) == (status == 401) and (challenge or "Bearer")[:6] == "Bearer"
            assert not is_new or answer.json["botId"] != post["botId"]


def test_the_document_lists_every_api_route_and_the_table_every_keyed_one(service):
    """Except the inbox, whose key is in its address and whose format is Discord's (test_inbox.py),
    registering, which needs no key (test_registration.py), and joining a season
    (test_seasons_shown.py).
    """
    routes = {
        (method, rule.rule.replace("<uid>", "{id}")): rule.endpoint
        for rule in service.app.url_map.iter_rules()
        if rule.rule.startswith("/api/") and rule.endpoint != "inbox.take_message"
        for method in rule.methods - {"HEAD"}
    }
    document = service.get("/openapi.json").json
    described = {(verb.upper(), path) for path, item in document["paths"].items() for verb in item}
    assert document["openapi"].startswith("3.1") and described == routes.keys()
    paths = [(method, re.sub(r"{\w+}", "{id}", path.partition("?")[0])) for method, path in V1]
    assert {(method, f"/api/v1/{path}") for method, path in paths} == {
        route
        for route, endpoint in routes.items()
        if route[1].startswith("/api/v1/")
        and not endpoint.startswith(("registration.", "v1.join_season"))
    }


def test_only_a_bearer_header_is_accepted(service, key):
    wrong = [("Authorization", f"Basic {key}"), ("Authorization", key), ("Authorization", "Bearer")]
    for name, value in (*wrong, ("X-Api-Key", key), ("Cookie", f"key={key}")):
        answer = service.get(f"/api/v1/me?key={key}&api_key={key}", headers={name: value})
        assert (answer.status_code, answer.json["code"]) == (401, "missing_key"), value
    bearer = {"Authorization": f"bearer  {key} "}
    assert service.get("/api/v1/me", headers=bearer).status_code == 200


# ---- what every answer carries -------------------------------------------------------------------
def test_every_response_has_an_id_and_a_policy(service, get, key, monkeypatch):
    monkeypatch.setattr("web.api.bots.read_bots", lambda *_: 1 / 0)
    paths = ("/api/health", "/openapi.json", "/nothing", "/api/nothing", "/api/v1/feed")
    answers = [service.get(path) for path in paths]
    answers += [service.ask("DELETE", "/api/v1/feed"), service.post(b"{", key)]
    answers += [get("feed"), get("feed", Host="evil.example"), get("bots")]
    statuses = [answer.status_code for answer in answers]
    assert statuses == [200, 200, 404, 404, 401, 405, 400, 200, 421, 500]
    told = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
    told |= {"Content-Security-Policy": application.CONTENT_POLICY}
    for answer in answers:
        assert told.items() <= dict(answer.headers).items()
        assert "Set-Cookie" not in answer.headers
    ids = {answer.headers["X-Request-Id"] for answer in answers}
    assert len(ids) == len(answers) and all(one.startswith("req_") for one in ids)


def test_an_internal_error_is_a_problem_without_details(get, monkeypatch, caplog):
    """Nor is it called busy."""
    monkeypatch.setattr("web.api.bots.BOT", "SELECT canary FROM nowhere ")
    answer = get("bots")
    assert (answer.status_code, answer.json["code"]) == (500, "internal_error")
    assert not re.search("canary|nowhere|Traceback", answer.text)
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.shown["requestId"] for record in errors] == [answer.json["requestId"]]


def test_an_unknown_page_path_gets_an_html_error(service):
    answer = service.get("/<script>alert(1)</script>")
    assert answer.status_code == 404 and answer.content_type.startswith("text/html")
    assert "<script>alert" not in answer.text and answer.headers["X-Request-Id"] in answer.text


def test_only_our_own_hosts_are_served(service):
    own = "localhost 127.0.0.1:8000 LOCALHOST:1 [::1]:8000".split()
    others = "evil.example 127.0.0.1.evil.example localhost@evil.example [::2]".split()
    for host in (*own, *others, "evil.example:127.0.0.1", ""):
        answer = service.get("/api/health", headers={"Host": host})
        refusal = None if host in own else "misdirected_request"
        assert (answer.status_code, answer.json.get("code")) == (421 if refusal else 200, refusal)
    # A redirect doesn't repeat the client's port.
    moved = service.get("/log", headers={"Host": "localhost:6666"})
    assert (moved.status_code, moved.headers["Location"]) == (308, "/log/")


def test_cookies_and_transport_are_secure_behind_https(serve):
    host = "candor.example"
    secure = serve(base_url=f"https://{host}", allowed_hosts=(host,))
    answer = secure.get("/api/health", headers={"Host": host})
    assert answer.headers["Strict-Transport-Security"]
    assert secure.app.config["SESSION_COOKIE_SECURE"] is True


# ---- busy, and well again ------------------------------------------------------------------------
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


def test_pages_are_busy_and_recover(browser):
    uid = browser.create("Nell")[1]
    # Due to be recorded.
    Session.update(seen_at=Session.seen_at - 7_200_000).execute()
    paths = ("/", f"/bots/{uid}/manage", "/status")
    with locked():
        during = [
            browser.send(path, name="During") for path in ("/connect", f"/bots/{uid}/profile")
        ]
        reading = [browser.get(path).status_code for path in paths]
    for page in during:
        assert (page.status_code, page.headers["Retry-After"]) == (503, "2")
        assert page.mimetype == "text/html"
    assert "Nothing was stored" in during[0].text
    assert reading == [200] * 3 and [bot.name for bot in Bot.select()] == ["Nell"]
    assert browser.send("/connect", name="During").status_code == 200


@ground.sqlite_only
def test_on_a_full_disk_a_form_stores_nothing_and_pages_work(browser):
    uid = browser.create("Nell")[1]
    ((pages,),) = database.execute_sql("PRAGMA page_count").fetchall()
    database.execute_sql(f"PRAGMA max_page_count = {pages}")
    said = {"body": "x" * 4000, "reason": "y" * 4000}
    for number in range(12):
        sent = browser.send(f"/bots/{uid}/posts", draft=str(number), **said)
        if sent.status_code != 302:
            break
    assert sent.status_code == 503 and "Nothing was stored" in sent.text
    assert Post.select().count() == number
    for path in ("/", f"/bots/{uid}/manage", "/api/health"):
        assert browser.get(path).status_code == 200, path


@ground.file_only
def test_an_allowance_file_that_is_locked_or_cannot_be_created_is_busy(service, get, monkeypatch):
    def fail():
        raise apsw.CantOpenError("no such folder")

    monkeypatch.setattr(counters, "REST_SECONDS", 0)
    monkeypatch.setattr(counters, "BUSY_SECONDS", 0.02)
    with contextlib.closing(apsw.Connection(str(service.config.ratelimit_path))) as other:
        other.execute("BEGIN IMMEDIATE")
        locked_out = get("feed")
    with monkeypatch.context() as patch:
        patch.setattr(service.app.allowance.store, "_open", fail)
        for answer in (locked_out, get("feed")):
            assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert get("feed").status_code == 200


def test_health_says_down_when_the_database_cannot_be_read(service, monkeypatch):
    monkeypatch.setattr("web.api.health.JOBS", "SELECT nonsense FROM nowhere")
    answer = service.get("/api/health")
    assert (answer.status_code, answer.json["status"]) == (503, "down")
    assert answer.json["database"]["ok"] is False


# ---- creating bots -------------------------------------------------------------------------------
def test_creations_are_counted_by_owner_and_by_address(serve, monkeypatch, storage_url):
    """Two a minute of each; a refused request uses none of the other's."""
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    service = serve(creations_per_minute=2, ratelimit_storage_url=storage_url)
    history = """
        1 - yes, 1 - yes, 1 - no, 2 seven yes, 3 seven yes, 4 seven no, 4 - yes, 4 - yes,
        4 eight no, 5 eight yes, 6 eight yes
    """
    for line in history.split(","):
        peer, owner, outcome = line.split()
        peer, owner = f"192.0.2.{peer}", {"seven": 7, "eight": 8}.get(owner)
        with service.app.test_request_context("/connect", environ_base={"REMOTE_ADDR": peer}):
            gate.begin()
            if outcome == "yes":
                gate.check_creation(owner)
            else:
                assert refused(gate.check_creation, owner).code == "rate_limited", line
