"""Moderation: reports of posts, bans of owners and wallets, an instance's rules."""

import re

import pytest
from service import NOW, address, refused
from test_admin_pages import list_done, log_in
from test_pages import HOSTILE
from test_studio import Browser, errors_of

from accounts import acts, conduct, influencers, traders, wallets
from accounts.tables import Report
from models import Attachment, Bot, Owner, Post, Session
from operate import doctor

W = address("w")


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
    assert service.post({"eventId": "e", "body": "b"}, key).status_code == 201
    return browser, uid, key, code


def report(browser, post, **typed):
    path = f"/posts/{post.uid}/report"
    return browser.send(path, page=path, **{"about": "spam", **typed})


# ---- reports -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("standing_clock")
def test_a_reader_reports_a_post_and_the_operator_sees_it(service, ada, operator):
    post, reader = Post.get(), Browser(service)
    assert f"/posts/{post.uid}/report" in reader.get(f"/posts/{post.uid}").text
    answer = report(reader, post, about="deception", note="not\r\nAda")
    assert answer.status_code == 302
    assert "operator of this instance will see" in reader.get(answer.headers["Location"]).text
    stored = Report.get()
    assert (stored.post.id, stored.about, stored.note) == (post.id, "deception", "not Ada")
    assert "1 report from readers" in operator.get("/admin").text
    page = operator.get("/admin/reports").text
    assert "deception" in page and "not Ada" in page and f"/admin/posts/{post.uid}/hide" in page
    # Hiding the post closes the report.
    operator.send(f"/admin/posts/{post.uid}/hide", page="/admin", reason="so it is")
    assert conduct.count_open() == 0 and "from readers" not in operator.get("/admin").text
    assert "post hidden" in operator.get("/admin/reports").text
    assert f"/posts/{post.uid}/report" not in reader.get(f"/posts/{post.uid}").text
    assert refused(conduct.report_post, post.uid, "spam", "", NOW).code == "post_hidden"


@pytest.mark.usefixtures("standing_clock")
@pytest.mark.parametrize(
    "typed, field",
    [({"about": ""}, "about"), ({"about": "nonsense"}, "about"), ({"note": "x" * 501}, "note")],
)
def test_an_empty_report_is_refused(service, ada, typed, field):
    answer = report(Browser(service), Post.get(), **typed)
    assert answer.status_code == 422 and field in errors_of(answer)
    assert Report.select().count() == 0


def test_a_secret_in_a_report_is_not_stored_or_shown(service, ada):
    key = ada[2]
    answer = report(Browser(service), Post.get(), note=f"it shows {key}")
    assert answer.status_code == 422 and key not in answer.text and "note" in errors_of(answer)
    assert Report.select().count() == 0


@pytest.mark.usefixtures("standing_clock")
def test_an_address_can_report_five_times_a_minute(service, ada):
    reader = Browser(service)
    assert [report(reader, Post.get()).status_code for _ in range(6)] == [302] * 5 + [429]
    assert Report.select().count() == 5


def test_open_reports_per_post_are_limited(service, ada, monkeypatch):
    monkeypatch.setattr(conduct, "MAX_OPEN_OF_POST", 2)
    post = Post.get()
    for _ in range(2):
        conduct.report_post(post.uid, "spam", "", NOW)
    assert refused(conduct.report_post, post.uid, "spam", "", NOW).code == "reported_enough"
    conduct.dismiss(Report.get().uid, NOW)
    conduct.report_post(post.uid, "spam", "", NOW)
    monkeypatch.setattr(conduct, "MAX_OPEN", 2)
    service.post({"eventId": "f", "body": "b"}, ada[2])
    other = Post.get(Post.event_id == "f")
    assert refused(conduct.report_post, other.uid, "spam", "", NOW).code == "reported_enough"


def test_report_text_is_escaped(service, ada, operator):
    conduct.report_post(Post.get().uid, "other", HOSTILE[:400], NOW)
    page = operator.get("/admin/reports").text
    assert "<script>window" not in page and "&lt;script&gt;" in page


def test_a_missing_post_has_no_report_form(service):
    browser = Browser(service)
    assert browser.get("/posts/post_nobody/report").status_code == 404
    assert browser.send("/posts/post_nobody/report", about="spam").status_code == 404


# ---- bans of owners ------------------------------------------------------------------------------
def test_a_banned_owner_is_refused_everywhere_with_the_reason(service, ada, operator):
    browser, uid, key, code = ada
    owner = Bot.get().owner
    influencers.set_profile(Bot.get(), auto_post=True, now=NOW)
    path = f"/admin/owners/{owner.uid}/ban"
    assert operator.send(path, page="/admin", reason="").status_code == 422
    assert operator.send(path, page="/admin", reason="threats").status_code == 302
    posted = service.post({"eventId": "x", "body": "b"}, key)
    for answer in (posted, service.get("/api/v1/feed", key), service.get("/api/v1/me", key)):
        assert (answer.status_code, answer.json["code"]) == (403, "owner_banned")
        assert "threats" in answer.json["detail"]
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


def test_streams_of_a_banned_owner_end(service, ada):
    from web.api.stream import find_working_keys

    owner = Bot.get().owner
    keys = [key.id for key in Bot.get().keys]
    assert find_working_keys(keys, NOW) == set(keys) != set()
    conduct.ban_owner(owner, "threats", NOW)
    assert find_working_keys(keys, NOW) == set()


def test_paper_traders_of_a_banned_owner_stop_posting(service):
    loud, silent = (traders.create_trader(name, "momentum", NOW).trader for name in ("Wren", "Owl"))
    assert loud.owner_id != silent.owner_id
    conduct.ban_owner(silent.owner, "threats", NOW)
    assert conduct.list_silent() == {silent.id}


# ---- bans of wallets -----------------------------------------------------------------------------
def test_a_banned_wallet_is_disconnected_and_cannot_be_connected(service, ada, operator):
    browser, uid, _key, _code = ada
    path = f"/admin/wallets/{W}/ban"
    found = operator.client.get("/admin/find", query_string={"q": W})
    assert found.headers["Location"].endswith(f"/admin/wallets?wallet={W}")
    assert path in operator.get(found.headers["Location"]).text
    assert operator.send(path, page="/admin", reason="stolen").status_code == 302
    assert wallets.find_attachment(Bot.get()) is None
    assert Attachment.get().detached_at is not None
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


def test_a_wallet_ban_ignores_how_the_address_was_typed(service, ada, operator):
    path = f"/admin/wallets/%20{W}%0A/ban"
    assert operator.send(path, page="/admin", reason="stolen").status_code == 302
    assert wallets.find_attachment(Bot.get()) is None
    assert refused(acts.ban_wallet, f"{W}.", "operator", "", NOW).code == "validation_failed"
    assert not acts.ban_wallet(f" {W}", "operator", "twice", NOW)
    assert operator.send(path, page="/admin", reason="it was not", on="yes").status_code == 302
    assert list_done() == [("ban_wallet", W, "stolen"), ("unban_wallet", W, "it was not")]


def test_an_unused_wallet_can_be_banned(service, operator):
    other = address("other")
    found = operator.client.get("/admin/find", query_string={"q": other})
    assert found.headers["Location"].endswith(f"/admin/wallets/{other}/ban")
    operator.send(found.headers["Location"], page="/admin", reason="known elsewhere")
    assert refused(service.make_bot, "Ada", other).code == "wallet_banned"
    assert Bot.select().count() == 0
    assert operator.get("/admin/wallets/nonsense/ban").status_code == 422


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
    shown = re.search(r">(x+)<", browser.get("/about").text)[1]
    assert len(shown) == 40_000
    assert [one.level for one in doctor.check_files(service.config)] == []
    path.unlink()
    path.mkdir()
    assert "published any" in browser.get("/about").text
    (told,) = doctor.check_files(service.config)
    assert (told.level, told.text) == ("wrong", "about.txt can't be read, so /about shows no rules")
