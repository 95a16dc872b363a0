"""Posts of paper traders can be reported and hidden like those of bots."""

import csv
import io
import zipfile

import ground
import orjson
import pytest
from peewee import IntegrityError
from service import NOW, address
from test_admin_pages import list_done, log_in
from test_studio import Browser

from accounts import acts, conduct, traders
from accounts.departures import write_archive
from accounts.tables import Report
from cli.parser import main
from models import Owner
from paper import store
from paper.tables import DiaryEntry, PaperPost, Period
from storage import database

MINT = address("mint")
# Long enough to fill database pages.
WORDS = "canary-words " * 300


@pytest.fixture
def command(service, monkeypatch, capsys):
    """command(*argv) -> the command's JSON output for the instance of `service`"""
    ground.enter(monkeypatch, service.config.data_dir)

    def run(*argv):
        database.close_all()
        assert main([*argv, "--json"]) == 0
        return orjson.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def wren(service):
    """A paper trader with a post."""
    trader = traders.create_trader("Wren", "momentum", NOW).trader
    say(trader, WORDS, mint=MINT, symbol="CANARYSYMBOL")
    return trader


def say(trader, body, **more):
    period = Period.get(Period.trader == trader)
    entry = DiaryEntry.create(period=period, at=NOW, kind="fill", facts="{}")
    uid = f"post_{entry.id:024x}"
    times = {"event_at": NOW, "created_at": NOW}
    columns = {"entry": entry, "trader": trader, "body": body, "writer": "built-in"}
    return PaperPost.create(uid=uid, **columns, **times, **more)


def report(browser, uid, **typed):
    path = f"/posts/{uid}/report"
    return browser.send(path, page=path, **{"about": "spam", **typed})


def list_places(trader, uid):
    """Where a paper trader's post is shown."""
    pages = ("/", "/?label=simulated", f"/posts/{uid}", f"/embed/{uid}", f"/traders/{trader.uid}")
    feeds = ("/feed.json", "/feed.atom", "/api/feed", f"/api/traders/{trader.uid}")
    return (*pages, *feeds)


@pytest.mark.usefixtures("standing_clock")
def test_readers_report_paper_posts_and_the_operator_hides_them(service, wren):
    uid, reader, operator = PaperPost.get().uid, Browser(service), log_in(service)
    assert f"/posts/{uid}/report" in reader.get(f"/posts/{uid}").text
    form = reader.get(f"/posts/{uid}/report").text
    assert "canary-words" in form and "Wren" in form
    answer = report(reader, uid, about="abuse", note="it threatens")
    assert answer.status_code == 302
    assert "operator of this instance will see" in reader.get(answer.headers["Location"]).text
    assert "1 report from readers" in operator.get("/admin").text
    listed = operator.get("/admin/reports").text
    assert "it threatens" in listed and f"/traders/{wren.uid}" in listed
    assert f"/admin/posts/{uid}/hide" in listed
    assert "canary-words" in operator.get("/admin/paper-posts").text
    hide = f"/admin/posts/{uid}/hide"
    assert "canary-words" in operator.get(hide).text
    done = operator.send(hide, page="/admin", reason="so it is")
    assert done.headers["Location"].endswith(f"/admin/paper-posts?post={uid}")
    assert list_done() == [("hide_post", uid, "so it is")]
    assert conduct.count_open() == 0 and "from readers" not in operator.get("/admin").text
    for path in ("/admin/reports", "/admin/paper-posts", done.headers["Location"]):
        page = operator.get(path).text
        assert "hidden" in page and "canary-words" not in page
    assert f"/posts/{uid}/report" not in reader.get(f"/posts/{uid}").text
    late = reader.send(f"/posts/{uid}/report", page="/connect", about="spam")
    assert late.status_code == 409 and "already removed" in late.text
    # Two identical requests are one action.
    operator.send(hide, page="/admin", reason="again")
    assert len(list_done()) == 1


def test_hidden_paper_text_appears_nowhere(service, wren, command):
    uid = PaperPost.get().uid
    for path in list_places(wren, uid):
        assert "canary-words" in service.get(path).text, path
    assert service.get(f"/posts/{uid}.png").status_code == 200
    told = command("post", "hide", uid, "--reason", "spam")
    assert told == {"postId": uid, "hidden": True}
    for path in list_places(wren, uid):
        page = service.get(path)
        assert page.status_code == 200 and uid in page.text, path
        assert "canary" not in page.text.lower(), path
    assert "removed this text" in service.get(f"/posts/{uid}").text
    assert service.get(f"/posts/{uid}.png").status_code == 404
    (post,) = service.get("/api/feed").json["data"]
    assert post["body"] is None and post["symbol"] is None and post["hiddenAt"]
    # The trade it describes is the trader's record and stays.
    assert (post["mint"], post["kind"]) == (MINT, "fill")
    assert store.read_post_history(wren.id, 20) == (1, [])


@ground.sqlite_only
def test_hidden_paper_text_is_in_no_file(service, wren, command):
    files = [service.config.database_path, service.config.database_path.with_name("app.db-wal")]
    assert b"canary-words" in b"".join(file.read_bytes() for file in files)
    command("post", "hide", PaperPost.get().uid)
    left = b"".join(file.read_bytes() for file in files)
    assert b"canary-words" not in left and b"CANARYSYMBOL" not in left


def test_an_archive_has_the_hidden_post_without_its_text(service, wren, tmp_path):
    acts.hide_post(PaperPost.get().uid, acts.COMMAND_LINE, "", NOW)
    with open(tmp_path / "a.zip", "wb") as file:
        write_archive(Owner.get(), "https://here.example", "0.2.0", NOW + 1, file)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        (post,) = csv.DictReader(io.StringIO(archive.read("paper_posts.csv").decode()))
        everything = b"".join(map(archive.read, archive.namelist()))
    assert (post["body"], post["symbol"]) == ("", "") and post["hiddenAt"]
    assert b"canary" not in everything.lower()


def test_the_operator_finds_it_by_id_or_trader(service, wren):
    operator, uid = log_in(service), PaperPost.get().uid
    for asked in (uid, f"http://x/posts/{uid}", wren.uid):
        found = operator.client.get("/admin/find", query_string={"q": asked})
        assert found.status_code == 302 and "/admin/paper-posts?" in found.headers["Location"]
        assert f"/admin/posts/{uid}/hide" in operator.get(found.headers["Location"]).text


@pytest.mark.parametrize("posts", ["both", "neither"])
def test_a_report_refers_to_one_post(service, wren, posts):
    bot = service.make_bot("Ada")
    service.post({"eventId": "e", "body": "b"}, bot.publish_key.text)
    both = {"post": 1, "paper_post": 1} if posts == "both" else {}
    with pytest.raises(IntegrityError), database.atomic():
        Report.create(uid="report_x", about="spam", note="", at=NOW, **both)
