"""Leaving: the owner's archive, and deletion."""

import csv
import io
import json
import re
import threading
import zipfile

import orjson
import pytest
from service import NOW, address, hide_post, inspect, refused, signature
from test_studio import Browser

import storage
from accounts import api_keys, departures, hooks, influencers, owners, posts, traders
from accounts.departures import NAMES, write_archive
from accounts.tables import Hook
from models import Attachment, Bot, Key, Owner, Post, Session
from operate.inspection import check_delays, check_log, check_text
from paper.tables import DiaryEntry, PaperPost, Period, Trader
from papertrade import Author, PaperJob

HOUR = 3_600_000
HOOK = "https://hooks.slack.com/services/T1/B2/hush-hush-token"
WORDS = "I bought the rumor."


@pytest.fixture
def life(service):
    """An owner with a bot, a wallet, posts, keys, a hook, a trader and a browser."""
    made = service.make_bot("Ada Lovelace", address("w"))
    service.observe_trade(address("w"), "t1", slot=10)
    about = {"eventId": "e1", "body": WORDS, "mint": address("mint")}
    say(made, {**about, "signature": signature("t1")})
    say(made, {"eventId": "e2", "body": "=HYPERLINK(1)"})
    say(made, {"eventId": "e3", "body": "soon gone"})
    hide_post(Post.get(Post.event_id == "e3").uid, NOW)
    hooks.add_hook(service.config, made.owner, HOOK, NOW, kind="slack")
    traders.create_trader("Momo", "momentum", NOW, owner=made.owner, bio="paper words")
    entry = note("decision", {})
    paper = {"uid": "post_x", "entry": entry, "body": "paper words", "trader": Trader.get()}
    PaperPost.create(**paper, writer="built-in", event_at=NOW, created_at=NOW)
    return made


def note(kind, facts):
    """Write into the paper trader's diary."""
    row = {"period": Period.get(Period.twin == 0), "at": NOW, "kind": kind}
    return DiaryEntry.create(**row, facts=orjson.dumps(facts).decode())


def say(made, fields):
    body, sanitized = posts.parse_post(fields)
    posts.publish(made.bot.id, body, NOW, key_id=made.publish_key.key.id, sanitized=sanitized)


def export(made, path):
    with open(path, "wb") as file:
        write_archive(Owner.get(), "https://old.example", "0.2.0", NOW + HOUR, file)
    return path


def list_bots(path):
    """The names of the bots in an archive, and those that posted."""
    with zipfile.ZipFile(path) as archive:
        bots, said = (
            [json.loads(line) for line in archive.read(name).splitlines()]
            for name in ("bots.jsonl", "posts.jsonl")
        )
    names = {one["id"]: one["name"] for one in bots}
    return [*names.values()], {names.get(one["botId"]) for one in said}


def list_wrong(service):
    """Problems that the log check, the delay check and the row check report."""
    found = inspect(service.config, check_log, check_delays, check_text)
    return [one for one in found if one.table != "trade"]


# ---- the archive ---------------------------------------------------------------------------------
def test_an_archive_contains_everything_except_secrets(service, life, tmp_path):
    path = export(life, tmp_path / "a.zip")
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == sorted(NAMES)
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    everything = "\n".join(files.values())
    secrets = [
        *(row.hash for row in Key.select()),
        *(row.salt for row in Post.select() if row.salt),
        *(row.recovery_hash for row in Owner.select()),
        *("hush-hush", life.recovery_code, life.publish_key.text, life.publish_key.key.last4),
        "soon gone",
    ]
    assert not [one for one in secrets if one in everything]
    head = json.loads(files["export.json"])
    assert (head["format"], head["version"], head["rows"]["posts.jsonl"]) == ("candor-export", 1, 3)
    said = [json.loads(line) for line in files["posts.jsonl"].splitlines()]
    assert [one["body"] for one in said] == [WORDS, "=HYPERLINK(1)", None]
    assert said[0]["status"] == "verified" and said[0]["wallet"] == address("w")
    table = list(csv.DictReader(io.StringIO(files["posts.csv"])))
    assert [one["body"] for one in table] == [WORDS, "'=HYPERLINK(1)", ""]
    assert "hooks.slack.com" in files["hooks.csv"] and "Momo" in files["traders.csv"]
    assert signature("t1") in files["trades.csv"]


def test_an_archive_is_one_snapshot(service, life, tmp_path, monkeypatch):
    """A bot that starts posting during the export is included with all its posts or not at all."""
    list_posts, ada = departures._list_post_lines, "Ada Lovelace"

    def create():
        with storage.database.connection_context():
            late = influencers.create_bot(service.config, "Late", NOW, owner=life.owner)
            say(late, {"eventId": "e9", "body": "late words"})

    def create_first(owner):
        thread = threading.Thread(target=create)
        thread.start()
        thread.join()
        yield from list_posts(owner)

    monkeypatch.setattr(departures, "_list_post_lines", create_first)
    assert list_bots(export(life, tmp_path / "a.zip")) == ([ada], {ada})
    monkeypatch.undo()
    assert list_bots(export(life, tmp_path / "b.zip")) == ([ada, "Late"], {ada, "Late"})


def test_long_files_of_an_archive_are_cut_and_named(life, tmp_path, monkeypatch):
    """There are three posts. A table's header is no row."""
    monkeypatch.setattr(departures, "MAX_ROWS", 2)
    with zipfile.ZipFile(export(life, tmp_path / "a.zip")) as archive:
        head = json.loads(archive.read("export.json"))
        counts = [len(archive.read(name).splitlines()) for name in ("posts.jsonl", "posts.csv")]
    assert (head["cut"], counts) == (["posts.jsonl", "posts.csv"], [2, 3])
    assert [head["rows"][name] for name in ("posts.csv", "traders.csv")] == [2, 1]


def test_archive_downloads_are_limited_per_minute(service, standing_clock):
    browser = Browser(service)
    browser.create("Ada")
    answers = [browser.send("/account/export") for _ in range(4)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    with zipfile.ZipFile(io.BytesIO(answers[0].data)) as archive:
        assert "Ada" in archive.read("bots.jsonl").decode()
    assert answers[0].headers["Cache-Control"] == "no-store"
    assert "attachment" in answers[0].headers["Content-Disposition"]
    for answer in answers:
        answer.close()
    assert "Retry-After" in answers[3].headers


# ---- deleting ------------------------------------------------------------------------------------
def test_deleting_an_account_keeps_the_record_but_removes_all_text(service, life):
    browser = Browser(service)
    code = owners.replace_recovery_code(life.owner)
    browser.send("/recover", code=code)
    api_keys.create_key(life.owner, "read", NOW)
    assert "What’s kept" in browser.get("/account/delete").text
    refused = browser.send("/account/delete", confirmation="yes")
    assert refused.status_code == 422 and Hook.select().exists()
    done = browser.send("/account/delete", confirmation=" Delete my account ")
    assert done.status_code == 302
    assert not [t for t in (Key, Hook, Session) if t.select().exists()]
    assert Owner.get(Owner.id == life.owner.id).recovery_hash is None
    assert not Attachment.select().where(Attachment.detached_at.is_null()).exists()
    bot, trader, paper = Bot.get(), Trader.get(), PaperPost.get()
    assert bot.retired_at and trader.retired_at and paper.hidden_at
    assert (bot.bio, trader.bio, paper.body) == ("", "", "")
    assert not re.search("lovelace|momo", f"{bot.name} {bot.handle} {trader.name}".lower())
    left = {(one.status, one.body, one.event_id == one.uid, one.hidden_hash) for one in Post}
    assert left == {(status, "", True, None) for status in ("verified", "none")}
    assert DiaryEntry.select().count() == 1
    for path in (f"/bots/{bot.uid}", f"/posts/{Post.get().uid}", "/", "/traders"):
        shown = service.get(path)
        assert shown.status_code == 200
        assert not re.search("rumor|Lovelace|paper words", shown.text)
    assert list_wrong(service) == []


def test_rows_created_during_deletion_are_deleted_too(service, life, monkeypatch):
    """Another browser of the owner submits a form between two commits."""
    empty, late = departures._erase_some, []

    def create_first(bot, now):
        if not late:
            late.append(influencers.create_bot(service.config, "Late", NOW, owner=life.owner))
            say(late[0], {"eventId": "e9", "body": "late words"})
            influencers.set_profile(life.bot, bio="late words", now=1)
            traders.create_trader("Latest", "momentum", NOW, owner=life.owner)
            hooks.add_hook(service.config, life.owner, HOOK, NOW, kind="slack")
        return empty(bot, now)

    monkeypatch.setattr(departures, "_erase_some", create_first)
    departures.delete_owner(life.owner, NOW)
    for table in (Bot, Trader):
        rows = [(row.name.partition(" ")[0], row.bio, bool(row.retired_at)) for row in table]
        assert rows == [("Deleted", "", True)] * 2
    assert not Post.select().where(Post.body != "").exists()
    assert [one.select().count() for one in (Key, Hook, Session)] == [0, 0, 0]


def test_nothing_is_created_for_a_deleted_account(service, life):
    trader, other = Trader.get(), service.make_bot("Eve")
    departures.delete_owner(life.owner, NOW)
    before = [one.select().count() for one in (Bot, Trader, Key, Hook)]
    for act in (
        lambda: influencers.create_bot(service.config, "Late", NOW, owner=life.owner),
        lambda: influencers.set_profile(life.bot, bio="late words", now=1),
        lambda: traders.create_trader("Late", "momentum", NOW, owner=life.owner),
        lambda: traders.set_profile(trader, bio="late words"),
        lambda: api_keys.create_key(life.owner, "read", NOW),
        lambda: hooks.add_hook(service.config, life.owner, HOOK, NOW, kind="slack"),
        lambda: owners.replace_recovery_code(life.owner),
    ):
        problem = refused(act)
        assert (problem.code, problem.detail) == ("not_found", "this account was deleted")
    # The key of a post in flight was valid when the request arrived.
    assert refused(say, life, {"eventId": "late", "body": "late words"}).code == "bot_retired"
    assert not Post.select().where(Post.body != "").exists()
    assert before == [one.select().count() for one in (Bot, Trader, Key, Hook)]
    assert not Bot.get().bio and not Trader.get().bio
    # Other accounts go on.
    api_keys.create_key(other.owner, "read", NOW)


def test_an_interrupted_deletion_continues_on_retry_and_event_ids_go_too(life):
    """Each of these event IDs is a post's ID; one of the observer's names its trade and stays."""
    for _ in range(3):
        say(life, {"eventId": Post.select().order_by(Post.id.desc()).get().uid, "body": "next"})
    Post.update(source="observer").where(Post.event_id == "e2").execute()
    departures._erase_some(life.bot, NOW)
    for again in range(2):
        departures.delete_owner(life.owner, NOW + again)
    assert not Post.select().where(Post.hidden_at.is_null()).exists()
    kept = {post.event_id for post in Post.select() if post.event_id != post.uid}
    assert kept == {"e2"} and Post.select().count() == 6


def test_a_paper_trader_stops_posting_after_its_account_is_deleted(service, life, monkeypatch):
    """Neither a post in progress nor a later diary entry is published."""
    facts = {"what": "under_review", "code": "operator", "detail": "odd", "symbol": None}
    job, write, before = PaperJob(service.config), Author.write, PaperPost.select().count()
    job.run_tick(NOW)

    def write_slowly(author, *given):
        text = write(author, *given)
        departures.delete_owner(life.owner, NOW)
        return text

    note("review", facts)
    monkeypatch.setattr(Author, "write", write_slowly)
    job.write_posts(NOW)
    assert Owner.get(Owner.id == life.owner.id).recovery_hash is None
    note("review", facts)
    job.write_posts(NOW + 1)
    assert PaperPost.select().count() == before
