"""Moderation: reports of posts of bots and paper traders, bans of owners and wallets, an instance's
rules.
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
from test_studio import Browser, errors_of

from accounts import acts, conduct, influencers, traders, wallets
from accounts.departures import write_archive
from accounts.tables import Report
from cli.parser import main
from models import Attachment, Bot, Owner, Post, Session
from operate import doctor
from paper import store
from paper.tables import DiaryEntry, PaperPost, Period
from storage import database
from web.api.stream import find_working_keys

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
