"""Moderation: reports of posts of bots and paper traders, bans of owners and wallets, an instance's
rules, and the log of what the operator did: each action once, with who did it, when and why.
"""

import csv
import io
import re
import zipfile

import ground
import orjson
import pytest
from peewee import IntegrityError
from service import NOW, address, refused
from test_admin_pages import list_done, log_in
from test_cli import cli, shown
from test_studio import Browser, errors_of

from accounts import acts, admin, conduct, hooks, influencers, posts, traders, wallets
from accounts.departures import write_archive
from accounts.tables import AdminAct, AdminLogin, AdminSession, Hook, Report
from cli.parser import main
from models import Attachment, Bot, Owner, Post, Session
from operate import doctor
from paper import store
from paper.tables import DiaryEntry, PaperPost, Period
from storage import database
from web.api.stream import find_working_keys

__all__ = ["cli"]
W = address("w")
# Long enough to fill database pages.
WORDS = "canary-words " * 300


@pytest.fixture
def operator(service):
    return log_in(service)


@pytest.fixture
def ada(service):
    """(the owner's browser, bot uid, publishing key, recovery code) of a bot with a wallet and a
    post
    """
    browser = Browser(service)
    _, uid, key, code = browser.create("Ada", wallet=W)
    assert service.post({"eventId": "e", "body": WORDS}, key).status_code == 201
    return browser, uid, key, code


@pytest.fixture
def wren(service):
    """A paper trader with a post."""
    trader = traders.create_trader("Wren", "momentum", NOW).trader
    entry = {"period": Period.get(Period.trader == trader), "at": NOW, "kind": "fill"}
    entry = DiaryEntry.create(facts="{}", **entry)
    row = {"uid": f"post_{1:024x}", "entry": entry, "trader": trader, "writer": "built-in"}
    words = {"body": WORDS, "mint": address("mint"), "symbol": "CANARYSYMBOL"}
    PaperPost.create(**row, **words, event_at=NOW, created_at=NOW)
    return trader


def report(browser, post, **typed):
    path = f"/posts/{post.uid}/report"
    return browser.send(path, page=path, **{"about": "spam", **typed})


# ---- reports -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("standing_clock")
@pytest.mark.parametrize("author", ["ada", "wren"])
def test_a_reader_reports_a_post_and_the_operator_hides_it(service, operator, author, request):
    request.getfixturevalue(author)
    post, reader = (Post if author == "ada" else PaperPost).get(), Browser(service)
    page, hide = f"/posts/{post.uid}", f"/admin/posts/{post.uid}/hide"
    form = f"{page}/report"
    assert form in reader.get(page).text
    shown = reader.get(form).text
    assert "canary-words" in shown and author.title() in shown
    answer = report(reader, post, about="deception", note="not\r\n<b>Ada")
    assert answer.status_code == 302
    assert "operator of this instance will see" in reader.get(answer.headers["Location"]).text
    stored = Report.get()
    assert (stored.reported, stored.about, stored.note) == (post, "deception", "not <b>Ada")
    assert "1 report from readers" in operator.get("/admin").text
    listed = operator.get("/admin/reports").text
    assert "deception" in listed and "not &lt;b&gt;Ada" in listed and hide in listed
    assert "canary-words" in operator.get(hide).text
    # Hiding the post closes the report. Two identical requests are one action.
    for reason in ("so it is", "again"):
        done = operator.send(hide, page="/admin", reason=reason)
    assert list_done() == [("hide_post", post.uid, "so it is")]
    assert conduct.count_open() == 0 and "from readers" not in operator.get("/admin").text
    for path in ("/admin/reports", done.headers["Location"]):
        listed = operator.get(path).text
        assert "hidden" in listed and "canary-words" not in listed
    assert form not in reader.get(page).text
    late = reader.send(form, page="/connect", about="spam")
    assert late.status_code == 409 and "already removed" in late.text


@pytest.mark.parametrize("field", ["about", "note"])
def test_an_invalid_report_is_not_stored_and_no_secret_in_it_is_repeated(service, ada, field):
    key, reader = ada[2], Browser(service)
    wrong = {"about": ("", "nonsense"), "note": ("x" * 501, f"it shows {key}")}[field]
    for text in wrong:
        answer = report(reader, Post.get(), **{field: text})
        assert answer.status_code == 422 and [*errors_of(answer)] == [field]
        assert key not in answer.text and Report.select().count() == 0
    missing = "/posts/post_nobody/report"
    answers = reader.get(missing), reader.send(missing, about="spam")
    assert [one.status_code for one in answers] == [404, 404]


@pytest.mark.usefixtures("standing_clock")
def test_an_address_can_report_five_times_a_minute(service, ada):
    reader = Browser(service)
    assert [report(reader, Post.get()).status_code for _ in range(6)] == [302] * 5 + [429]
    assert Report.select().count() == 5


def test_open_reports_are_limited(service, ada, monkeypatch):
    """Two per post, and then two in total."""
    monkeypatch.setattr(conduct, "MAX_OPEN_OF_POST", 2)
    service.post({"eventId": "f", "body": "b"}, ada[2])
    first, second = (post.uid for post in Post.select().order_by(Post.id))

    def report_one(uid):
        conduct.report_post(uid, "spam", "", NOW)

    for _ in range(2):
        report_one(first)
    assert refused(report_one, first).code == "reported_enough"
    conduct.dismiss(Report.get().uid, NOW)
    report_one(first)
    monkeypatch.setattr(conduct, "MAX_OPEN", 2)
    assert refused(report_one, second).code == "reported_enough"


@pytest.mark.parametrize("posts", ["both", "neither"])
def test_a_report_refers_to_one_post(ada, wren, posts):
    both = {"post": 1, "paper_post": 1} if posts == "both" else {}
    with pytest.raises(IntegrityError), database.atomic():
        Report.create(uid="report_x", about="spam", note="", at=NOW, **both)


# ---- posts of paper traders ----------------------------------------------------------------------
def read_files(config):
    """The database's bytes; none of PostgreSQL's."""
    path = config.database_path
    files = [] if ground.SERVER else [path, path.with_name("app.db-wal")]
    return b"".join(file.read_bytes() for file in files)


def test_hidden_paper_text_appears_nowhere(service, wren, monkeypatch, capsys, tmp_path):
    uid = PaperPost.get().uid
    pages = ("/", "/?label=simulated", f"/posts/{uid}", f"/embed/{uid}", f"/traders/{wren.uid}")
    feeds = ("/feed.json", "/feed.atom", "/api/feed", f"/api/traders/{wren.uid}")
    for path in (*pages, *feeds):
        assert "canary-words" in service.get(path).text, path
    assert service.get(f"/posts/{uid}.png").status_code == 200
    assert ground.SERVER or b"canary-words" in read_files(service.config)
    ground.enter(monkeypatch, service.config.data_dir)
    database.close_all()
    assert main(["post", "hide", uid, "--reason", "spam", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {"postId": uid, "hidden": True}
    assert b"canary" not in read_files(service.config).lower()
    for path in (*pages, *feeds):
        page = service.get(path)
        assert page.status_code == 200 and uid in page.text, path
        assert "canary" not in page.text.lower(), path
    assert "removed this text" in service.get(f"/posts/{uid}").text
    assert service.get(f"/posts/{uid}.png").status_code == 404
    (post,) = service.get("/api/feed").json["data"]
    assert post["body"] is None and post["symbol"] is None and post["hiddenAt"]
    with open(tmp_path / "a.zip", "wb") as file:
        write_archive(Owner.get(), "https://here.example", "0.2.0", NOW + 1, file)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert b"canary" not in b"".join(map(archive.read, archive.namelist())).lower()
        (row,) = csv.DictReader(io.StringIO(archive.read("paper_posts.csv").decode()))
    assert (row["body"], row["symbol"]) == ("", "") and row["hiddenAt"]
    # The trade it describes is the trader's record and stays.
    assert (post["mint"], post["kind"]) == (address("mint"), "fill")
    assert store.read_post_history(wren.id, 20) == (1, [])


def test_the_operator_finds_it_by_id_or_trader(operator, wren):
    uid = PaperPost.get().uid
    for asked in (uid, f"http://x/posts/{uid}", wren.uid):
        found = operator.client.get("/admin/find", query_string={"q": asked})
        assert found.status_code == 302 and "/admin/paper-posts?" in found.headers["Location"]
        assert f"/admin/posts/{uid}/hide" in operator.get(found.headers["Location"]).text


# ---- bans of owners ------------------------------------------------------------------------------
def test_a_banned_owner_is_refused_everywhere_with_the_reason(service, ada, operator):
    browser, uid, key, code = ada
    owner, keys = Bot.get().owner, [key.id for key in Bot.get().keys]
    influencers.set_profile(Bot.get(), auto_post=True, now=NOW)
    assert find_working_keys(keys, NOW) == set(keys) != set()
    path = f"/admin/owners/{owner.uid}/ban"
    assert operator.send(path, page="/admin", reason="").status_code == 422
    assert operator.send(path, page="/admin", reason="threats").status_code == 302
    posted = service.post({"eventId": "x", "body": "b"}, key)
    for answer in (posted, service.get("/api/v1/feed", key), service.get("/api/v1/me", key)):
        assert (answer.status_code, answer.json["code"]) == (403, "owner_banned")
        assert "threats" in answer.json["detail"]
    # Open streams end.
    assert find_working_keys(keys, NOW) == set()
    assert browser.get(f"/bots/{uid}/manage").status_code == 403
    assert Session.select().where(Session.owner == owner).count() == 0
    answer = browser.send("/recover", code=code)
    assert answer.status_code == 403 and "threats" in answer.text
    assert not Bot.get().auto_post and Post.select().count() == 1
    assert "Banned: " in operator.get(f"/admin/owners/{owner.uid}").text
    assert "threats" in operator.get("/admin/bans").text
    # Unbanned, the refused code works again.
    assert operator.send(path, page="/admin", reason="sorry", on="yes").status_code == 302
    assert service.get("/api/v1/me", key).status_code == 200
    assert browser.send("/recover", code=code).status_code == 200
    told = [("ban_owner", owner.uid, "threats"), ("unban_owner", owner.uid, "sorry")]
    assert list_done() == told


def test_paper_traders_of_a_banned_owner_stop_posting(service):
    loud, silent = (traders.create_trader(name, "momentum", NOW).trader for name in ("Wren", "Owl"))
    assert loud.owner_id != silent.owner_id
    conduct.ban_owner(silent.owner, "threats", NOW)
    assert conduct.list_silent() == {silent.id}


# ---- bans of wallets -----------------------------------------------------------------------------
def test_a_banned_wallet_is_disconnected_and_cannot_be_connected(service, ada, operator):
    """However the address is typed."""
    browser, uid, _key, _code = ada
    found = operator.client.get("/admin/find", query_string={"q": W})
    assert found.headers["Location"].endswith(f"/admin/wallets?wallet={W}")
    assert f"/admin/wallets/{W}/ban" in operator.get(found.headers["Location"]).text
    path = f"/admin/wallets/%20{W}%0A/ban"
    assert operator.send(path, page="/admin", reason="stolen").status_code == 302
    assert not acts.ban_wallet(f" {W}", "operator", "twice", NOW)
    assert wallets.find_attachment(Bot.get()) is None
    assert conduct.find_ban("wallet", W) == "stolen" and Attachment.get().detached_at
    for ownership in ("claimed", "proven"):
        problem = refused(wallets.attach_wallet, service.config, Bot.get(), W, NOW, ownership)
        assert problem.code == "wallet_banned"
    page = browser.send(f"/bots/{uid}/wallet", page=f"/bots/{uid}/manage", wallet=W)
    assert page.status_code == 403 and "stolen" in page.text
    assert Browser(service).send("/connect", name="Eve", wallet=W).status_code == 403
    assert Bot.select().count() == 1 and Owner.select().count() == 1
    operator.send(path, page="/admin", reason="it was not", on="yes")
    wallets.attach_wallet(service.config, Bot.get(), W, NOW)
    assert list_done() == [("ban_wallet", W, "stolen"), ("unban_wallet", W, "it was not")]


def test_only_an_address_can_be_banned_and_an_unused_one_too(service, operator):
    other = address("other")
    found = operator.client.get("/admin/find", query_string={"q": other})
    assert found.headers["Location"].endswith(f"/admin/wallets/{other}/ban")
    operator.send(found.headers["Location"], page="/admin", reason="known elsewhere")
    assert refused(service.make_bot, "Ada", other).code == "wallet_banned"
    assert Bot.select().count() == 0
    assert operator.get("/admin/wallets/nonsense/ban").status_code == 422
    assert refused(acts.ban_wallet, f"{W}.", "operator", "", NOW).code == "validation_failed"


# ---- the rules of an instance --------------------------------------------------------------------
def test_operator_rules_are_escaped(service):
    browser = Browser(service)
    page = browser.get("/about")
    assert page.status_code == 200 and "published any" in page.text
    assert 'href="/about"' in browser.get("/").text
    path = service.config.data_dir / "about.txt"
    path.write_bytes(b"Be kind.\n<script>window.x=1</script>\xff")
    page = browser.get("/about").text
    assert "Be kind." in page and "<script>window" not in page and "published any" not in page
    path.write_bytes(b"x" * 100_000)
    assert len(re.search(r">(x+)<", browser.get("/about").text)[1]) == 40_000
    assert [one.level for one in doctor.check_files(service.config)] == []
    path.unlink()
    path.mkdir()
    assert "published any" in browser.get("/about").text
    (told,) = doctor.check_files(service.config)
    assert (told.level, told.text) == ("wrong", "about.txt can't be read, so /about shows no rules")


# ---- the operator's log --------------------------------------------------------------------------
WHO, WHY = "sess_1", "as told"


@pytest.fixture
def made(db, settings):
    """A bot with a wallet and a publishing key."""
    return influencers.create_bot(settings, "Ada", NOW, W)


def list_lines():
    rows = AdminAct.select().order_by(AdminAct.id)
    return [(act.what, act.target, act.who, act.reason, act.at) for act in rows]


def test_each_action_takes_effect_once_and_adds_a_line(made, settings):
    hook = hooks.add_hook(settings, made.owner, "https://hooks.example/h", NOW).uid
    post = posts.publish(made.bot.id, posts.PostBody(eventId="e", body="words"), NOW).uid
    conduct.report_post(post, "spam", "", NOW)
    owner, report = made.owner.uid, Report.get().uid
    # The target in the line, if there is one.
    done = [
        (acts.ping_hook, [hook], "ping_hook", hook),
        (acts.switch_hook, [hook, False], "switch_off_hook", hook),
        (acts.switch_hook, [hook, False], None, None),
        # A hook that is off gets nothing.
        (acts.ping_hook, [hook], None, None),
        (acts.switch_hook, [hook, True], "switch_on_hook", hook),
        (acts.dismiss_report, [report], "dismiss_report", post),
        (acts.dismiss_report, [report], None, None),
        (acts.ban_owner, [owner], "ban_owner", owner),
        (acts.ban_owner, [owner], None, None),
        (acts.lift_ban, ["owner", owner], "unban_owner", owner),
        (acts.lift_ban, ["owner", owner], None, None),
        *((acts.ban_wallet, [one], "ban_wallet", one) for one in (W, address("free"))),
        (acts.ban_wallet, [W], None, None),
    ]
    for at, (act, given, what, _) in enumerate(done):
        assert act(*given, WHO, WHY, at) == bool(what)
    # A missing reason is null, not an empty string.
    acts.remove_hook(hook, WHO, "", NOW)
    told = [(what, target, WHO, WHY, at) for at, (*_, what, target) in enumerate(done) if what]
    assert list_lines() == [*told, ("remove_hook", hook, WHO, None, NOW)]
    assert hooks.list_hooks() == [] and conduct.count_open() == 0
    assert conduct.find_ban("owner", owner) is None
    assert Attachment.get().detached_at == 11


def test_an_unknown_target_is_named_and_not_recorded(db):
    for act, noun in (
        (acts.hide_post, "post"),
        (acts.retire_bot, "bot"),
        (acts.revoke_key, "key"),
        (acts.ping_hook, "hook"),
        (acts.ban_owner, "owner"),
    ):
        problem = refused(act, "nobody", WHO, WHY, NOW)
        assert (problem.code, problem.detail) == ("not_found", f"there is no such {noun}")
    assert list_lines() == []


def test_the_list_contains_known_actions_only_and_pages_back(db):
    with pytest.raises(AssertionError):
        acts.store_act("unheard_of", WHO, NOW)
    with database.atomic():
        for number in range(4):
            acts.store_act("login", WHO, NOW + number)
    newest = acts.list_acts(2)
    assert [act.at - NOW for act in newest] == [3, 2]
    assert [act.at - NOW for act in acts.list_acts(2, newest[-1].id)] == [1, 0]
    assert (newest[0].target, newest[0].reason) == (None, None)
    assert acts.list_acts(2, 1) == []


def test_a_reason_is_limited_to_300_characters():
    assert acts.check_reason("x" * 300) == "x" * 300
    assert acts.check_reason("") == ""
    for text, shortest in (("x" * 301, 0), ("", 1)):
        problem = refused(acts.check_reason, text, shortest)
        assert problem.errors[0]["field"] == "reason"


# ---- on the command line -------------------------------------------------------------------------
def test_a_command_prints_sign_in_links_and_another_ends_sessions(cli):
    """Only the hash of a link is stored, for ten minutes."""
    for _ in range(2):
        made, login = shown(cli, "admin", "login"), AdminLogin.get()
        code = made["code"]
        assert made["link"] == f"http://127.0.0.1:8000/admin/login?code={code}"
        assert re.fullmatch(r"[\w-]{43}", code) and code not in str(login.__data__)
        assert login.ends_at - login.created_at == 600_000
        assert admin.use_login(code, login.created_at + 1) is not None
    first = AdminSession.select().order_by(AdminSession.id).get().uid
    assert shown(cli, "admin", "logout", "--session", first) == {"ended": 1}
    assert cli("admin", "logout", "--session", first)[0] == 1
    shown(cli, "admin", "login")
    # The other session, and the unused link.
    assert shown(cli, "admin", "logout", "--all") == {"ended": 2}
    assert cli("admin", "logout")[0] == 2


def test_commands_are_listed_with_their_reasons(cli):
    made = shown(cli, "bot", "create", "--name", "Ada", "--wallet", address("w"))
    key = shown(cli, "key", "create", "--owner", made["ownerId"], "--scope", "read")["keyId"]
    hook = shown(cli, "hook", "add", made["ownerId"], "https://x.example/in")["hookId"]
    post = posts.publish(Bot.get().id, posts.PostBody(eventId="e", body="words"), NOW).uid
    done = [
        ("hide_post", "post hide", post),
        ("revoke_key", "key revoke", key),
        ("switch_off_hook", "hook off", hook),
        ("switch_on_hook", "hook on", hook),
        ("remove_hook", "hook remove", hook),
        ("retire_bot", "bot retire", made["botId"]),
    ]
    for what, command, uid in done:
        # Repeating an action does nothing and adds no line.
        for _ in range(1 if what == "remove_hook" else 2):
            shown(cli, *command.split(), uid, "--reason", f"why {command}")
    listed = shown(cli, "admin", "audit")["data"]
    told = [(row["what"], row["reason"].removeprefix("why "), row["target"]) for row in listed]
    assert told[::-1] == done
    assert {row["who"] for row in listed} == {"command line"}
    older = shown(cli, "admin", "audit", "--limit", "2", "--before", str(listed[1]["number"]))
    assert older["data"] == listed[2:4]
    assert Post.get().body == "" and Hook.select().count() == 0


def test_a_reason_with_line_breaks_is_refused_first(cli):
    made = shown(cli, "bot", "create", "--name", "Ada")
    assert cli("bot", "retire", made["botId"], "--reason", "a\nb")[0] == 1
    assert cli("admin", "audit", "--limit", "0")[0] == 1
    assert Bot.get().retired_at is None
    assert shown(cli, "admin", "audit") == {"data": []}
