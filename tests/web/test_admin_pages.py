"""The operator's pages: access, contents, actions, and the list of actions. Who is refused is in
tests/accounts/test_matrix.py.
"""

import re
import threading
import time

import ground
import pytest
from service import NOW, address, race
from test_pages import HOSTILE, text_of
from test_studio import Browser

from accounts import acts, admin, api_keys, hooks, posts
from accounts.keys import hash_secret
from accounts.tables import AdminAct, AdminLogin, AdminSession, Hook
from models import Bot, Key, Post
from notify import outbox
from operate import backups
from operate.instance import Refused
from web.site.admin import lists

PATHS = ("", *(f"/{name}" for name in lists.LISTINGS), "/backups")
LOGIN = "/admin/login"


def now_ms():
    return time.time_ns() // 1_000_000


def log_in(service):
    """A Browser of the operator."""
    browser = Browser(service)
    link = f"{LOGIN}?code={admin.make_login(now_ms())}"
    code = re.search(r'name="code" value="([^"]+)"', browser.get(link).text)[1]
    answer = browser.send(LOGIN, page=link, code=code)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin")
    return browser


@pytest.fixture
def operator(service):
    return log_in(service)


def list_done():
    """[(what, target, reason)...], oldest first, without the operator's sign-in"""
    return [(act.what, act.target, act.reason) for act in reversed(acts.list_acts(100))][2:]


def list_kinds():
    return [what for what, _, _ in list_done()]


def act(operator, path, **typed):
    """Send an action's form; it is done."""
    answer = operator.send(f"/admin/{path}", page="/admin", **typed)
    assert answer.status_code == 302
    return operator.get(answer.headers["Location"])


# ---- getting in ----------------------------------------------------------------------------------
def test_a_link_works_once_and_viewing_it_does_not_use_it_up(service):
    browser, other, code = Browser(service), Browser(service), admin.make_login(now_ms())
    for _ in range(3):
        assert "Sign in as the operator" in browser.get(f"{LOGIN}?code={code}").text
    assert browser.get("/admin").status_code == 403
    assert browser.send(LOGIN, page=LOGIN, code=code).status_code == 302
    assert browser.get("/admin").status_code == 200
    again = other.send(LOGIN, page=LOGIN, code=code)
    assert again.status_code == 422 and "already used" in again.text
    assert other.get("/admin").status_code == 403
    assert AdminLogin.select().count() == 0


def test_only_one_of_two_browsers_can_use_a_link(service):
    code = admin.make_login(NOW)
    got = race(8, lambda _: admin.use_login(code, NOW + 1))
    assert len(got) == 8 and sum(one is not None for one in got) == 1
    assert AdminSession.select().count() == 1


def test_a_link_lasts_ten_minutes_and_a_session_twelve_hours_or_until_sign_out(service, operator):
    links = [admin.make_login(NOW) for _ in range(2)]
    used = [admin.use_login(code, NOW + 599_999 + late) for late, code in enumerate(links)]
    assert [session is not None for session in used] == [True, False]
    token = operator.client.get_cookie("candor_admin", path="/admin").value
    ends = AdminSession.get().created_at + 12 * 3_600_000
    found = [admin.find_session(token, ends + late) for late in (-1, 0)]
    assert [session is not None for session in found] == [True, False]
    act(operator, "logout")
    operator.client.set_cookie("candor_admin", token, path="/admin")
    assert operator.get("/admin").status_code == 403
    # Everyone at once.
    unused, browsers = admin.make_login(now_ms()), [log_in(service), log_in(service)]
    act(browsers[0], "logout", all="yes")
    assert [browser.get("/admin").status_code for browser in browsers] == [403, 403]
    assert admin.use_login(unused, now_ms()) is None
    assert {"logout", "logout_all"} <= {one.what for one in acts.list_acts(9)}


def test_only_hashes_are_stored_and_the_cookie_is_for_the_operators_pages_only(service, operator):
    cookie = operator.client.get_cookie("candor_admin", path="/admin")
    assert (cookie.http_only, cookie.same_site, cookie.secure) == (True, "Strict", False)
    assert AdminSession.get().hash == hash_secret("admin session:" + cookie.value)
    code = admin.make_login(now_ms())
    stored = ground.read_all(service.config.data_dir)
    assert code.encode() not in stored and cookie.value.encode() not in stored
    # It isn't sent to any other page.
    assert operator.client.get_cookie("candor_admin", path="/") is None


COOKIES = [("", "__Host-candor_admin", "/"), ("/feed", "__Secure-candor_admin", "/feed/admin")]


@pytest.mark.parametrize("root, name, path", COOKIES)
def test_behind_https_other_hosts_cannot_set_the_cookie(serve, root, name, path):
    host = "https://candor.example"
    service = serve(base_url=host + root, allowed_hosts=("candor.example",))
    client, login = service.app.test_client(), f"{root}{LOGIN}"
    page = client.get(login, base_url=host).text
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
    form = {"csrf_token": token, "code": admin.make_login(now_ms())}
    answer = client.post(login, data=form, headers={"Referer": host + login}, base_url=host)
    (set_cookie,) = (one for one in answer.headers.getlist("Set-Cookie") if one.startswith(name))
    wanted = {"Secure", "HttpOnly", "SameSite=Strict", f"Path={path}"}
    assert wanted <= set(set_cookie.split("; "))
    assert client.get(f"{root}/admin", base_url=host).status_code == 200


@pytest.mark.usefixtures("standing_clock")
def test_guesses_are_limited_by_address(serve):
    browser = Browser(serve(failed_auth_per_minute=3))
    answers = [browser.send(LOGIN, page=LOGIN, code="x").status_code for _ in range(4)]
    assert answers == [422, 422, 422, 429]


def test_headers_sign_nobody_in(browser):
    forwarded = {"X-Forwarded-User": "admin", "Remote-User": "admin"}
    for headers in (forwarded, {"Cookie": "candor_admin=" + "A" * 43}):
        answer = browser.get("/admin", **headers)
        assert answer.status_code == 403 and "app.py admin login" in answer.text


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


def test_every_page_works_on_an_empty_instance(operator):
    texts = {path: text_of(operator.get(f"/admin{path}")) for path in PATHS}
    assert "signed in" in texts.pop("") and "signed in" in texts.pop("/acts")
    assert "Backups are stored in" in texts.pop("/backups")
    assert [path for path, text in texts.items() if "None." not in text] == []


def test_every_page_works_escapes_text_and_shows_no_secret(service, operator):
    made = fill(service, 2, body=HOSTILE)
    Bot.update(name=HOSTILE).execute()
    Key.update(name=HOSTILE).execute()
    key, hook, post = made.publish_key, Hook.get(), Post.get().uid
    secrets = [hook.secret, "tokenpart", key.text, made.recovery_code]
    secrets += [one.hash for one in (*Key.select(), *AdminSession.select())]
    forms = (f"/posts/{post}/hide", f"/bots/{made.bot.uid}/retire", f"/keys/{key.key.uid}/revoke")
    pages = {}
    for path in (*PATHS, f"/owners/{made.owner.uid}", f"/hooks/{hook.uid}/switch", *forms):
        page = pages[path] = operator.get(f"/admin{path}")
        assert page.status_code == 200 and "<script>window" not in page.text, path
        assert not [secret for secret in secrets if secret in page.text], path
    assert "&lt;script&gt;" in pages["/posts"].text and "\u202e" not in pages["/bots"].text
    owner, overview = text_of(pages[f"/owners/{made.owner.uid}"]), text_of(pages[""])
    for limit in ("Webhooks 1 5 MAX_HOOKS_PER_OWNER", "Wallets 1 5 MAX_WALLETS"):
        assert limit in owner
    assert "https://x.example/…" in owner
    assert "Leaves" in overview and "Free disk space" in overview and "signed in" in overview


@pytest.mark.parametrize("name, other", [("owners", "bots"), ("posts", "owners")])
def test_each_list_has_its_own_cursors(service, operator, name, other, monkeypatch):
    monkeypatch.setattr(lists, "LIMIT", 2)
    for number in range(5):
        fill(service, 1, f"Bot {number}")
    path, pages = f"/admin/{name}", []
    while path:
        pages.append(operator.get(path).text)
        older = re.search(r'class="older"><a [^>]*href="([^"]+)"', pages[-1])
        path = older and older[1].replace("&amp;", "&")
    # Each with a heading.
    assert [page.count("<tr") for page in pages] == [3, 3, 2]
    cursor = re.search(r"before=([\w-]+)", pages[0])[1]
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
    key = made.publish_key.key
    changes = {
        f"posts/{Post.get().uid}/hide": "hide_post",
        f"keys/{key.uid}/revoke": "revoke_key",
        f"hooks/{Hook.get().uid}/switch": "switch_off_hook",
        f"bots/{made.bot.uid}/retire": "retire_bot",
    }
    for path in changes:
        assert operator.get(f"/admin/{path}").status_code == 200
        # A secret isn't repeated.
        for reason in (" ", f"it posted {made.publish_key.text}"):
            refused = operator.send(f"/admin/{path}", page="/admin", reason=reason)
            assert refused.status_code == 422 and made.publish_key.text not in refused.text
    assert list_done() == []
    for path in changes:
        for _ in range(2):
            assert act(operator, path, reason="a <b>complaint</b>").status_code == 200
    targets = [path.split("/")[1] for path in changes]
    assert list_done() == [
        (what, target, "a <b>complaint</b>")
        for what, target in zip(changes.values(), targets, strict=True)
    ]
    assert Post.get().body == "" and Bot.get().retired_at and Key.get_by_id(key.id).revoked_at
    assert Hook.get().state == "off"
    assert "a &lt;b&gt;complaint" in operator.get("/admin/acts").text
    assert {one.who for one in acts.list_acts(4)} == {AdminSession.get().uid}
    for change in (AdminAct.update(reason="x"), AdminAct.delete()):
        with pytest.raises(Exception, match="audit log is append-only"), service.database.atomic():
            change.execute()


def test_a_hook_turned_off_stays_off_until_the_operator_turns_it_on(service, operator):
    owner = Browser(service)
    bot = owner.create().uid
    made = Bot.get(Bot.uid == bot).owner
    hook = hooks.add_hook(service.config, made, "https://x.example/in", NOW, bots=[bot]).uid
    act(operator, f"hooks/{hook}/switch", reason="spam")
    assert "turned off by the operator" in owner.get(f"/bots/{bot}/manage").text
    owner.send(f"/hooks/{hook}/test")
    assert (Hook.get().state, Hook.get().ping) == ("off", False)
    act(operator, f"hooks/{hook}/switch", reason="sorry", on="yes")
    assert (Hook.get().state, Hook.get().ping) == ("waiting", True)
    assert list_kinds() == ["switch_off_hook", "switch_on_hook"]


def test_the_operator_can_test_a_configured_hook(service, operator):
    config = ground.change(service.config, apprise_urls=("json://user:pAsSwOrD@h.example/x",))
    outbox.keep_operator_hooks(config, NOW)
    hook = Hook.get()
    page = operator.get("/admin/hooks").text
    assert "json://APPRISE_URLS/…" in page and "the operator" in page and "pAsSwOrD" not in page
    act(operator, f"hooks/{hook.uid}/test", reason="does it work?")
    assert Hook.get().ping and list_kinds() == ["ping_hook"]
    for form in ("switch", "test"):
        assert operator.get(f"/admin/hooks/{hook.uid}/{form}").status_code == 200


# ---- backups -------------------------------------------------------------------------------------
def wait_for(kind):
    """Wait until this was recorded, and return its line."""
    ground.until(lambda: kind in list_kinds())
    return next(one for one in acts.list_acts(5) if one.what == kind)


@ground.sqlite_only
def test_one_backup_at_a_time_is_made_and_listed(service, operator, monkeypatch):
    go, store = threading.Event(), backups.store_backup
    monkeypatch.setattr(backups, "store_backup", lambda *given: go.wait(60) and store(*given))
    act(operator, "backups")
    assert "A backup is running." in operator.get("/admin/backups").text
    assert "already running" in act(operator, "backups").text
    go.set()
    wait_for("make_backup")
    (path,) = (service.config.data_dir / "backups").glob("candor-*.db")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert path.name in operator.get("/admin/backups").text
    assert path.name in operator.get("/admin").text
    assert {target for _, target, _ in list_done()} == {path.name}


@ground.sqlite_only
def test_a_failed_backup_is_reported(operator, monkeypatch):
    def refuse(config, target):
        raise Refused("the disk is full")

    monkeypatch.setattr(backups, "store_backup", refuse)
    act(operator, "backups")
    failed = wait_for("fail_backup")
    assert (failed.reason, failed.who) == ("the disk is full", AdminSession.get().uid)


@ground.postgresql_only
def test_on_postgresql_the_page_names_its_tools(operator):
    assert "pg_dump" in operator.get("/admin/backups").text
    assert "Not started" in act(operator, "backups").text and list_done() == []
