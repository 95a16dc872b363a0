"""The operator's pages: access, contents, actions, and the list of actions."""

import re
import threading
import time

import ground
import pytest
from service import NOW, address
from test_pages import HOSTILE, text_of
from test_studio import Browser

from accounts import acts, admin, api_keys, hooks, posts
from accounts.keys import hash_secret
from accounts.tables import AdminAct, AdminLogin, AdminSession, Hook
from models import Bot, Key, Post
from notify import outbox
from web.site.admin import lists

PATHS = ("", *(f"/{name}" for name in lists.LISTINGS), "/backups")


def now_ms():
    return time.time_ns() // 1_000_000


def log_in(service):
    """A Browser of the operator."""
    browser = Browser(service)
    link = f"/admin/login?code={admin.make_login(now_ms())}"
    code = re.search(r'name="code" value="([^"]+)"', browser.get(link).text)[1]
    answer = browser.send("/admin/login", page=link, code=code)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin")
    return browser


@pytest.fixture
def operator(service):
    return log_in(service)


def list_done():
    """[(what, target, reason)...], oldest first, without the operator's sign-in"""
    return [(act.what, act.target, act.reason) for act in reversed(acts.list_acts(100))][2:]


# ---- getting in ----------------------------------------------------------------------------------
def test_a_link_works_once_and_viewing_it_does_not_use_it_up(service):
    browser, code = Browser(service), admin.make_login(now_ms())
    for _ in range(3):
        assert "Sign in as the operator" in browser.get(f"/admin/login?code={code}").text
    assert browser.get("/admin").status_code == 403
    assert browser.send("/admin/login", page="/admin/login", code=code).status_code == 302
    assert browser.get("/admin").status_code == 200
    other = Browser(service)
    again = other.send("/admin/login", page="/admin/login", code=code)
    assert again.status_code == 422 and "already used" in again.text
    assert other.get("/admin").status_code == 403
    assert AdminLogin.select().count() == 0


@pytest.mark.parametrize("late_ms, gets_in", [(-1, True), (0, False)])
def test_a_link_expires_after_ten_minutes(db, late_ms, gets_in):
    code = admin.make_login(NOW)
    assert (admin.use_login(code, NOW + 600_000 + late_ms) is not None) == gets_in


def test_only_one_of_two_browsers_can_use_a_link(service):
    code, got = admin.make_login(NOW), []
    ready = threading.Barrier(8)

    def use():
        with service.database.connection_context():
            ready.wait()
            got.append(admin.use_login(code, NOW + 1))

    threads = [threading.Thread(target=use) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(got) == 8 and sum(one is not None for one in got) == 1
    assert AdminSession.select().count() == 1


def test_a_session_ends_after_twelve_hours_or_on_sign_out(service, operator):
    token = operator.client.get_cookie("candor_admin", path="/admin").value
    began = AdminSession.get().created_at
    assert admin.find_session(token, began + 12 * 3_600_000 - 1) is not None
    assert admin.find_session(token, began + 12 * 3_600_000) is None
    assert operator.send("/admin/logout", page="/admin").status_code == 302
    operator.client.set_cookie("candor_admin", token, path="/admin")
    assert operator.get("/admin").status_code == 403
    assert [what for what, _, _ in list_done()] == ["logout"]


def test_a_page_and_a_command_sign_everyone_out_at_once(service, operator):
    other, unused = log_in(service), admin.make_login(now_ms())
    assert operator.send("/admin/logout", page="/admin", all="yes").status_code == 302
    assert (operator.get("/admin").status_code, other.get("/admin").status_code) == (403, 403)
    assert admin.use_login(unused, now_ms()) is None


def test_only_hashes_are_stored_and_the_cookie_is_for_the_operators_pages_only(service, operator):
    cookie = operator.client.get_cookie("candor_admin", path="/admin")
    assert (cookie.http_only, cookie.same_site, cookie.secure) == (True, "Strict", False)
    assert AdminSession.get().hash == hash_secret("admin session:" + cookie.value)
    code = admin.make_login(now_ms())
    stored = ground.read_all(service.config.data_dir)
    assert code.encode() not in stored and cookie.value.encode() not in stored
    # It isn't sent to any other page.
    assert operator.client.get_cookie("candor_admin", path="/") is None


@pytest.mark.parametrize(
    "base_url, name, path",
    [
        ("https://candor.example", "__Host-candor_admin", "/"),
        ("https://candor.example/feed", "__Secure-candor_admin", "/feed/admin"),
    ],
)
def test_behind_https_other_hosts_cannot_set_the_cookie(serve, base_url, name, path):
    service = serve(base_url=base_url, allowed_hosts=("candor.example",))
    root, here = path.removesuffix("/admin").rstrip("/"), {"base_url": "https://candor.example"}
    client = service.app.test_client()
    page = client.get(f"{root}/admin/login", **here)
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)[1]
    form = {"csrf_token": token, "code": admin.make_login(now_ms())}
    sent = {"data": form, "headers": {"Referer": "https://candor.example/admin/login"}}
    answer = client.post(f"{root}/admin/login", **sent, **here)
    (set_cookie,) = (one for one in answer.headers.getlist("Set-Cookie") if one.startswith(name))
    words = set_cookie.split("; ")
    assert {"Secure", "HttpOnly", "SameSite=Strict", f"Path={path}"} <= set(words)
    assert client.get(f"{root}/admin", **here).status_code == 200


@pytest.mark.usefixtures("standing_clock")
def test_guesses_are_limited_by_address(serve):
    browser = Browser(serve(failed_auth_per_minute=3))
    answers = [browser.send("/admin/login", page="/admin/login", code="x") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [422, 422, 422, 429]


@pytest.mark.parametrize("path", PATHS)
def test_owners_are_not_operators_and_proxies_have_no_say(service, operator, path):
    owner = Browser(service)
    owner.create()
    for headers in (
        {},
        {"X-Forwarded-User": "admin", "Remote-User": "admin", "X-Forwarded-For": "127.0.0.1"},
        {"Cookie": "candor_admin=" + "A" * 43},
    ):
        answer = owner.get(f"/admin{path}", **headers)
        assert answer.status_code == 403 and "app.py admin login" in answer.text
    assert operator.get(f"/admin{path}").status_code == 200


def test_crawlers_frames_and_caches_are_excluded(service, operator):
    assert "Disallow: /admin\n" in service.get("/robots.txt").text
    for browser in (operator, Browser(service)):
        answer = browser.get("/admin")
        assert answer.headers["X-Robots-Tag"] == "noindex, nofollow"
        assert answer.headers["Cache-Control"] == "no-store"
        assert '<meta name="robots" content="noindex, nofollow">' in answer.text
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


# ---- what is shown -------------------------------------------------------------------------------
def fill(service, count=1, name="Ada", body="words"):
    """An owner with a bot, its wallet, keys, a hook and this many posts."""
    made = service.make_bot(name, address(name))
    api_keys.create_key(made.owner, "read", NOW, "reader")
    hooks.add_hook(service.config, made.owner, "https://x.example/in/tokenpart", NOW, trusted=True)
    for number in range(count):
        said, _ = posts.parse_post({"eventId": f"e{number}", "body": f"{body} {number}"})
        posts.publish(made.bot.id, said, NOW)
    return made


def test_every_page_works_empty_and_full(service, operator):
    for path in PATHS:
        text = text_of(operator.get(f"/admin{path}"))
        empty = (
            "Backups are stored in" if path == "/backups" else "signed in" if not path else "None."
        )
        assert path == "/acts" or empty in text, path
    made = fill(service, 2)
    for path in PATHS:
        assert operator.get(f"/admin{path}").status_code == 200, path
    page = text_of(operator.get(f"/admin/owners/{made.owner.uid}"))
    assert "Webhooks 1 5 MAX_HOOKS_PER_OWNER" in page and "Wallets 1 5 MAX_WALLETS" in page
    assert "https://x.example/…" in page
    overview = text_of(operator.get("/admin"))
    assert "Leaves" in overview and "Free disk space" in overview and "signed in" in overview


def test_no_page_shows_a_secret(service, operator):
    made = fill(service)
    hook, secrets = Hook.get(), []
    for key in Key.select():
        secrets += [key.hash]
    secrets += [hook.secret, "tokenpart", made.publish_key.text, made.recovery_code]
    secrets += [one.hash for one in AdminSession.select()]
    for path in (*PATHS, f"/owners/{made.owner.uid}", f"/hooks/{hook.uid}/switch"):
        text = operator.get(f"/admin{path}").text
        assert not [secret for secret in secrets if secret in text], path


def test_strangers_text_is_escaped(service, operator):
    made = fill(service, name="Ada", body=HOSTILE)
    Bot.update(name=HOSTILE).execute()
    Key.update(name=HOSTILE).execute()
    post = Post.get()
    for path in (
        *PATHS,
        f"/owners/{made.owner.uid}",
        f"/posts/{post.uid}/hide",
        f"/bots/{made.bot.uid}/retire",
        f"/keys/{Key.get().uid}/revoke",
    ):
        text = operator.get(f"/admin{path}").text
        assert "<script>window" not in text, path
    assert "&lt;script&gt;" in operator.get("/admin/posts").text
    assert "\u202e" not in operator.get("/admin/bots").text


@pytest.mark.parametrize("name", ["owners", "posts", "acts"])
def test_each_list_has_its_own_cursors(service, operator, name, monkeypatch):
    monkeypatch.setattr(lists, "LIMIT", 2)
    for number in range(5):
        fill(service, 1, f"Bot {number}")
        acts.hide_post(Post.select().order_by(Post.id.desc()).get().uid, "command line", "", NOW)
    path, pages = f"/admin/{name}", []
    while path:
        text = operator.get(path).text
        pages.append(text)
        older = re.search(r'class="older"><a [^>]*href="([^"]+)"', text)
        path = older and older[1].replace("&amp;", "&")
    # Two more lines: the link and the sign-in.
    assert len(pages) == (4 if name == "acts" else 3)
    assert all(page.count("<tr") == 3 for page in pages[:2])
    cursor = re.search(r"before=([\w-]+)", pages[0])[1]
    other = "bots" if name == "owners" else "owners"
    assert operator.get(f"/admin/{other}?before={cursor}").status_code == 400
    assert operator.get(f"/admin/{name}?before=x").status_code == 400


def test_anything_is_found_by_its_id_address_or_handle(service, operator):
    made = fill(service)
    post, key, hook = Post.get(), Key.get(), Hook.get()
    for asked, leads_to in (
        (made.owner.uid, f"/admin/owners/{made.owner.uid}"),
        (f"https://here.example/bots/{made.bot.uid}?tab=posts", f"bots?bot={made.bot.uid}"),
        ("@ada", f"bots?bot={made.bot.uid}"),
        (f"/posts/{post.uid}", f"posts?post={post.uid}"),
        (key.uid, f"/admin/keys/{key.uid}/revoke"),
        (hook.uid, f"/admin/hooks/{hook.uid}/switch"),
    ):
        answer = operator.client.get("/admin/find", query_string={"q": asked})
        assert answer.status_code == 302 and answer.headers["Location"].endswith(leads_to), asked
        assert operator.get(answer.headers["Location"]).status_code == 200
    assert operator.get("/admin/find?q=%00nobody").status_code == 404


# ---- what is done --------------------------------------------------------------------------------
def test_each_change_is_confirmed_done_once_and_recorded_with_its_reason(service, operator):
    made = fill(service)
    uids = Post.get().uid, made.publish_key.key.uid, Hook.get().uid, made.bot.uid
    post, key, hook, bot = uids
    changes = {
        f"/admin/posts/{post}/hide": "hide_post",
        f"/admin/keys/{key}/revoke": "revoke_key",
        f"/admin/hooks/{hook}/switch": "switch_off_hook",
        f"/admin/bots/{bot}/retire": "retire_bot",
    }
    for path in changes:
        assert operator.get(path).status_code == 200
        assert operator.send(path, page="/admin", reason=" ").status_code == 422
    assert list_done() == []
    for path in changes:
        for _ in range(2):
            answer = operator.send(path, page="/admin", reason="a <b>complaint</b>")
            assert answer.status_code == 302
            assert operator.get(answer.headers["Location"]).status_code == 200
    assert list_done() == [
        (what, uid, "a <b>complaint</b>") for what, uid in zip(changes.values(), uids, strict=True)
    ]
    assert Post.get().body == "" and Bot.get().retired_at and Key.get(Key.uid == key).revoked_at
    assert Hook.get().state == "off"
    assert "a &lt;b&gt;complaint" in operator.get("/admin/acts").text
    who = {act.who for act in acts.list_acts(4)}
    assert who == {AdminSession.get().uid}


def test_a_hook_turned_off_stays_off_until_the_operator_turns_it_on(service, operator):
    owner = Browser(service)
    _, bot, _, _ = owner.create()
    hook = hooks.add_hook(
        service.config, Bot.get(Bot.uid == bot).owner, "https://x.example/in", NOW, bots=[bot]
    ).uid
    operator.send(f"/admin/hooks/{hook}/switch", page="/admin", reason="spam")
    assert "turned off by the operator" in owner.get(f"/bots/{bot}/manage").text
    owner.send(f"/hooks/{hook}/test")
    assert (Hook.get().state, Hook.get().ping) == ("off", False)
    answer = operator.send(f"/admin/hooks/{hook}/switch", page="/admin", reason="sorry", on="yes")
    assert answer.status_code == 302
    assert (Hook.get().state, Hook.get().ping) == ("waiting", True)
    assert [what for what, _, _ in list_done()] == ["switch_off_hook", "switch_on_hook"]


def test_the_operator_can_test_a_configured_hook(service, operator):
    config = ground.change(service.config, apprise_urls=("json://user:pAsSwOrD@h.example/x",))
    outbox.keep_operator_hooks(config, NOW)
    hook = Hook.get()
    page = operator.get("/admin/hooks").text
    assert "json://APPRISE_URLS/…" in page and "the operator" in page and "pAsSwOrD" not in page
    answer = operator.send(f"/admin/hooks/{hook.uid}/test", page="/admin", reason="does it work?")
    assert answer.status_code == 302 and Hook.get().ping
    assert [what for what, _, _ in list_done()] == ["ping_hook"]
    for act in ("switch", "test"):
        assert operator.get(f"/admin/hooks/{hook.uid}/{act}").status_code == 200


def test_a_secret_in_a_reason_is_refused_and_not_repeated(service, operator):
    made = fill(service)
    key = made.publish_key.text
    path = f"/admin/bots/{made.bot.uid}/retire"
    answer = operator.send(path, page="/admin", reason=f"it posted {key}")
    assert answer.status_code == 422 and key not in answer.text
    assert list_done() == [] and Bot.get().retired_at is None


def test_nobody_can_edit_the_list(service, operator):
    for change in (AdminAct.update(reason="x"), AdminAct.delete()):
        with pytest.raises(Exception, match="audit log is append-only"), service.database.atomic():
            change.execute()
    assert AdminAct.select().count() == 2


# ---- backups -------------------------------------------------------------------------------------
def wait_for(test):
    end = time.monotonic() + 60
    while not test():
        assert time.monotonic() < end, "the condition was not met within a minute"
        time.sleep(0.05)


@ground.sqlite_only
def test_a_backup_is_made_and_listed_while_running(service, operator):
    assert operator.send("/admin/backups", page="/admin/backups").status_code == 302
    wait_for(lambda: "make_backup" in [what for what, _, _ in list_done()])
    (path,) = (service.config.data_dir / "backups").glob("candor-*.db")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    listed = operator.get("/admin/backups").text
    assert path.name in listed and path.name in operator.get("/admin").text
    assert {target for _, target, _ in list_done()} == {path.name}


@ground.sqlite_only
def test_only_one_backup_runs_at_a_time(service, operator, monkeypatch):
    from operate import backups

    go, store = threading.Event(), backups.store_backup
    monkeypatch.setattr(backups, "store_backup", lambda *given: go.wait(60) and store(*given))
    operator.send("/admin/backups", page="/admin/backups")
    assert "A backup is running." in operator.get("/admin/backups").text
    operator.send("/admin/backups", page="/admin/backups")
    assert "already running" in operator.get("/admin/backups").text
    go.set()
    wait_for(lambda: "make_backup" in [what for what, _, _ in list_done()])
    assert len(list((service.config.data_dir / "backups").glob("candor-*.db"))) == 1


@ground.sqlite_only
def test_a_failed_backup_is_reported(service, operator, monkeypatch):
    from operate import backups
    from operate.instance import Refused

    def refuse(config, target):
        raise Refused("the disk is full")

    monkeypatch.setattr(backups, "store_backup", refuse)
    operator.send("/admin/backups", page="/admin/backups")
    wait_for(lambda: [act for act in acts.list_acts(5) if act.what == "fail_backup"])
    (failed,) = (act for act in acts.list_acts(5) if act.what == "fail_backup")
    assert failed.reason == "the disk is full" and failed.who == AdminSession.get().uid


@ground.postgresql_only
def test_on_postgresql_the_page_names_its_tools(service, operator):
    assert "pg_dump" in operator.get("/admin/backups").text
    operator.send("/admin/backups", page="/admin")
    assert "Not started" in operator.get("/admin/backups").text and list_done() == []
