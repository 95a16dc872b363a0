"""Leaving and moving: everything of an account as an archive, its end, its beginning elsewhere."""

import csv
import io
import json
import threading
import zipfile

import ground
import orjson
import pytest
from service import NOW, Service, address, signature
from test_studio import Browser

import storage
from accounts import (
    api_keys,
    departures,
    exports,
    hooks,
    imports,
    influencers,
    owners,
    posts,
    traders,
)
from accounts.archive_reading import BadArchive, read_archive
from accounts.archives import NAMES
from accounts.exports import write_archive
from accounts.problem import Problem
from accounts.tables import Hook, ImportedPost
from accounts.verification import verify_posts
from cli.parser import main
from models import Arrival, Attachment, Bot, Key, Owner, Post, Session, Wallet
from operate import readers
from operate.delay_checks import check_delays
from operate.forms import check_forms
from operate.log_checks import check_log
from paper.tables import DiaryEntry, PaperPost, Period, Trader
from papertrade import Author, PaperJob

HOUR = 3_600_000
HOOK = "https://hooks.slack.com/services/T1/B2/hush-hush-token"
WORDS = "I bought the rumor."
PHRASE = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.fixture
def life(service):
    """An owner with a bot, a wallet, posts, keys, a hook, a trader and a browser."""
    made = service.make_bot("Ada Lovelace", address("w"))
    service.observe_trade(address("w"), "t1", slot=10)
    about = {"eventId": "e1", "body": WORDS, "mint": address("mint")}
    say(made, {**about, "signature": signature("t1")})
    say(made, {"eventId": "e2", "body": "=HYPERLINK(1)"})
    say(made, {"eventId": "e3", "body": "soon gone"})
    posts.hide(Post.get(Post.event_id == "e3").uid, NOW)
    hooks.add_hook(service.config, made.owner, HOOK, NOW, kind="slack")
    traders.create_trader("Momo", "momentum", NOW, owner=made.owner, bio="paper words")
    return made


def say(made, fields):
    body, sanitized = posts.parse_post(fields)
    posts.publish(made.bot.id, body, NOW, key_id=made.publish_key.key.id, sanitized=sanitized)


def export(made, path):
    with open(path, "wb") as file:
        write_archive(Owner.get(), "https://old.example", "0.2.0", NOW + HOUR, file)
    return path


def rewrite(path, target, **changes):
    """A copy of an archive with changed files: {name with _ for .: text -> text or None}."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            change = changes.get(name.replace(".", "_"), lambda text: text)
            text = change(old.read(name).decode())
            if text is not None:
                new.writestr(name, text)
    return target


def edit(number, **values):
    """Change values of the JSON in line `number` (from 1)."""

    def change(text):
        lines = text.splitlines()
        lines[number - 1] = orjson.dumps({**orjson.loads(lines[number - 1]), **values}).decode()
        return "\n".join(lines) + "\n"

    return change


def list_wrong(service):
    """What the log, the delays and the forms of the rows say is wrong."""
    reader = readers.open_reader(service.config)
    try:
        with reader.snapshot():
            checks = check_log(reader), check_delays(reader), check_forms(reader, NOW + 10**12)
            return [one for found in checks for one in found if one.table != "trade"]
    finally:
        reader.close()


# ---- the archive ---------------------------------------------------------------------------------
def test_an_archive_holds_everything_and_no_secret(service, life, tmp_path):
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


def test_an_archive_is_of_one_moment(service, life, tmp_path, monkeypatch):
    """A bot that begins to post while it is written is in it with its posts, or not at all."""
    list_posts = exports._list_post_lines

    def create():
        with storage.database.connection_context():
            late = influencers.create_bot(service.config, "Late", NOW, owner=life.owner)
            say(late, {"eventId": "e9", "body": "late words"})

    def create_first(owner):
        thread = threading.Thread(target=create)
        thread.start()
        thread.join()
        return list_posts(owner)

    monkeypatch.setattr(exports, "_list_post_lines", create_first)
    first = read_archive(export(life, tmp_path / "a.zip"), NOW + 2 * HOUR)
    assert [bot.name for bot in first.bots] == ["Ada Lovelace"]
    monkeypatch.undo()
    second = read_archive(export(life, tmp_path / "b.zip"), NOW + 2 * HOUR)
    assert [bot.name for bot in second.bots] == ["Ada Lovelace", "Late"]


def test_an_owner_downloads_the_archive_a_few_times_a_minute(service, standing_clock):
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
def test_a_deleted_account_leaves_its_record_and_none_of_its_words(service, life):
    browser = Browser(service)
    code = owners.replace_recovery_code(life.owner)
    browser.send("/recover", code=code)
    api_keys.create_key(life.owner, "read", NOW)
    assert "What stays" in browser.get("/account/delete").text
    refused = browser.send("/account/delete", confirmation="yes")
    assert refused.status_code == 422 and Hook.select().exists()
    done = browser.send("/account/delete", confirmation=" Delete my account ")
    assert done.status_code == 302
    assert not [t for t in (Key, Hook, Session) if t.select().exists()]
    assert Owner.get(Owner.id == life.owner.id).recovery_hash is None
    bot = Bot.get()
    assert bot.retired_at and bot.bio == "" and "lovelace" not in (bot.name + bot.handle).lower()
    assert not Attachment.select().where(Attachment.detached_at.is_null()).exists()
    assert {post.body for post in Post.select()} == {""}
    assert all(post.event_id == post.uid and not post.hidden_hash for post in Post.select())
    assert {post.status for post in Post.select()} == {"verified", "none"}
    assert Trader.get().retired_at and Trader.get().bio == "" and "Momo" not in Trader.get().name
    for path in (f"/bots/{bot.uid}", f"/posts/{Post.get().uid}", "/", "/traders"):
        shown = service.get(path)
        assert (
            shown.status_code == 200 and "rumor" not in shown.text and "Lovelace" not in shown.text
        )
    assert list_wrong(service) == []


def test_a_post_that_was_on_its_way_comes_too_late(service, life):
    """Its key was good when it was asked for."""
    departures.delete_owner(life.owner, NOW + HOUR)
    with pytest.raises(Problem, match="retired"):
        say(life, {"eventId": "late", "body": "late words"})
    assert not Post.select().where(Post.body != "").exists()


def test_what_is_created_while_an_account_is_deleted_goes_with_it(service, life, monkeypatch):
    """A form that was sent by another browser of the owner's is stored between two commits."""
    empty, late = departures._erase_some, []

    def create_first(bot, now):
        if not late:
            late.append(influencers.create_bot(service.config, "Late", NOW, owner=life.owner))
            say(late[0], {"eventId": "e9", "body": "late words"})
            influencers.set_profile(life.bot, bio="late words")
            traders.create_trader("Latest", "momentum", NOW, owner=life.owner)
            hooks.add_hook(service.config, life.owner, HOOK, NOW, kind="slack")
        return empty(bot, now)

    monkeypatch.setattr(departures, "_erase_some", create_first)
    departures.delete_owner(life.owner, NOW)
    for table in (Bot, Trader):
        rows = list(table.select())
        assert len(rows) == 2
        assert all(row.name.startswith("Deleted") and not row.bio for row in rows)
        assert all(row.retired_at for row in rows)
    assert not Post.select().where(Post.body != "").exists()
    assert [one.select().count() for one in (Key, Hook, Session)] == [0, 0, 0]


def test_nothing_is_created_for_an_account_that_was_deleted_meanwhile(service, life):
    trader = Trader.get()
    departures.delete_owner(life.owner, NOW)
    before = [one.select().count() for one in (Bot, Trader, Key, Hook)]
    for act in (
        lambda: influencers.create_bot(service.config, "Late", NOW, owner=life.owner),
        lambda: influencers.set_profile(life.bot, bio="late words"),
        lambda: traders.create_trader("Late", "momentum", NOW, owner=life.owner),
        lambda: traders.set_profile(trader, bio="late words"),
        lambda: api_keys.create_key(life.owner, "read", NOW),
        lambda: hooks.add_hook(service.config, life.owner, HOOK, NOW, kind="slack"),
        lambda: owners.replace_recovery_code(life.owner),
    ):
        with pytest.raises(Problem, match="this account was deleted"):
            act()
    assert before == [one.select().count() for one in (Bot, Trader, Key, Hook)]
    assert not Bot.get().bio and not Trader.get().bio


def test_deleting_is_done_by_being_asked_again(service, life):
    departures._erase_some(life.bot, NOW)
    departures.delete_owner(life.owner, NOW)
    departures.delete_owner(life.owner, NOW + 1)
    assert not Post.select().where(Post.hidden_at.is_null()).exists()


def test_event_ids_go_whatever_they_were(service, life):
    """Each of these is the id of the post before it; one of the observer's names its trade."""
    for _ in range(3):
        say(life, {"eventId": Post.select().order_by(Post.id.desc()).get().uid, "body": "next"})
    Post.update(source="observer").where(Post.event_id == "e2").execute()
    departures.delete_owner(life.owner, NOW)
    kept = {post.event_id for post in Post.select() if post.event_id != post.uid}
    assert kept == {"e2"} and Post.select().count() == 6


def test_what_a_paper_trader_said_goes_and_its_fills_stay(service, life):
    entry = DiaryEntry.create(period=Period.get(), at=NOW, kind="decision", facts="{}")
    columns = {"writer": "built-in", "event_at": NOW, "created_at": NOW, "trader": Trader.get()}
    PaperPost.create(uid="post_x", entry=entry, body="paper words", **columns)
    departures.delete_owner(life.owner, NOW)
    gone = PaperPost.get()
    assert (gone.body, gone.hidden_at) == ("", NOW) and "paper words" not in service.get("/").text
    assert DiaryEntry.select().count() == 1


def test_a_paper_trader_says_nothing_once_its_account_is_deleted(service, life, monkeypatch):
    """Neither what was being written meanwhile, nor what the diary would have it say later."""

    def note():
        facts = {"what": "under_review", "code": "operator", "detail": "odd", "symbol": None}
        entry = {"period": Period.get(), "at": NOW, "kind": "review"}
        DiaryEntry.create(facts=orjson.dumps(facts).decode(), **entry)

    job, write = PaperJob(service.config), Author.write
    job.run_tick(NOW)

    def write_slowly(author, *given):
        text = write(author, *given)
        departures.delete_owner(life.owner, NOW)
        return text

    note()
    monkeypatch.setattr(Author, "write", write_slowly)
    job.write_posts(NOW)
    assert Owner.get(Owner.id == life.owner.id).recovery_hash is None
    note()
    job.write_posts(NOW + 1)
    assert PaperPost.select().count() == 0


# ---- moving --------------------------------------------------------------------------------------
@pytest.fixture
def elsewhere(service, life, tmp_path):
    """(another instance, the path of an archive of `life`)"""
    path = export(life, tmp_path / "a.zip")
    service.close()
    other = Service(tmp_path / "other")
    yield other, path
    other.close()


def bring(other, path, **more):
    archive = read_archive(path, NOW + 2 * HOUR)
    return imports.store_archive(other.config, archive, NOW + 2 * HOUR, **more)


def test_a_moved_bot_begins_anew_and_its_posts_say_so(elsewhere):
    other, path = elsewhere
    made = bring(other, path)
    (bot,) = made.bots
    assert (made.posts, bot.name, bot.wallet) == (2, "Ada Lovelace", address("w"))
    assert owners.recover_owner(made.recovery_code)
    held = Attachment.get()
    assert (held.ownership, held.attached_at) == ("claimed", NOW + 2 * HOUR)
    first, second = Post.select().order_by(Post.id)
    assert (first.channel, first.status, first.trade, first.delay) == (
        "import",
        "pending",
        None,
        None,
    )
    assert first.created_at == first.event_at == NOW + 2 * HOUR and second.status == "none"
    shown = other.get(f"/api/v1/posts/{first.uid}", bot.publish_key).json
    assert shown["imported"]["instance"] == "https://old.example"
    assert shown["imported"]["createdAt"] < shown["createdAt"] and not shown["verified"]
    assert shown["provenance"]["channel"] == "import"
    page = other.get(f"/posts/{first.uid}").text
    assert "First posted" in page and "nobody checked it" in page
    assert "imported" in other.get(f"/bots/{bot.uid}?tab=posts").text


def test_imported_posts_reach_no_follower_and_no_list_of_all(elsewhere):
    other, path = elsewhere
    made = bring(other, path)
    key = made.bots[0].publish_key
    assert not Arrival.select().where(Arrival.kind == "post").exists()
    assert other.get("/api/v1/feed", key).json["data"] == []
    assert WORDS not in other.get("/").text and WORDS not in other.get("/feed.json").text
    assert len(other.get(f"/api/v1/bots/{made.bots[0].uid}", key).json["feed"]) == 2
    said = other.post({"eventId": "new", "body": "hello"}, key)
    assert said.status_code == 201
    assert [one["body"] for one in other.get("/api/v1/feed", key).json["data"]] == ["hello"]
    again = other.post({"eventId": "e2", "body": "=HYPERLINK(1)"}, key)
    assert again.status_code == 200 and again.json["imported"]


def test_an_imported_post_is_verified_by_observation_alone_and_counts_for_nothing(elsewhere):
    other, path = elsewhere
    bot = bring(other, path).bots[0]
    other.observe_trade(address("w"), "t1", slot=10)
    with storage.writing():
        verify_posts(Wallet.get(), [signature("t1")], NOW + 3 * HOUR)
    post = Post.get(Post.event_id == "e1")
    assert (post.status, post.delay) == ("verified", None)
    assert not Arrival.select().where(Arrival.kind == "verification").exists()
    assert "No claims yet" in other.get(f"/bots/{bot.uid}").text
    assert list_wrong(other) == []


def test_a_taken_name_is_refused_and_may_be_changed(elsewhere):
    other, path = elsewhere
    other.make_bot("Ada L0velace")
    before = ground.read_all(other.config.data_dir)
    with pytest.raises(BadArchive, match=r"bots.jsonl, line 1: name: is taken.*--rename bot_"):
        bring(other, path)
    assert ground.read_all(other.config.data_dir) == before
    old = read_archive(path, NOW + 2 * HOUR).bots[0].uid
    assert bring(other, path, names={old: "Ada Moved"}).bots[0].name == "Ada Moved"


@pytest.mark.parametrize("name", ["[ok] Ada", "Ada \u2705", "", "A" * 61, PHRASE])
def test_a_name_that_is_refused_here_may_be_changed(elsewhere, tmp_path, name):
    """An instance keeps the names that it took before there were rules for them."""
    other, path = elsewhere
    bad = rewrite(path, tmp_path / "b.zip", bots_jsonl=edit(1, name=name))
    with pytest.raises(BadArchive, match=r"bots.jsonl, line 1: name: .*--rename bot_") as refusal:
        bring(other, bad)
    assert name not in str(refusal.value) or not name
    assert not Owner.select().exists() and not Post.select().exists()
    old = read_archive(bad, NOW + 2 * HOUR).bots[0].uid
    assert bring(other, bad, names={old: "Ada"}).bots[0].name == "Ada"


def test_two_names_that_look_alike_may_be_changed(elsewhere, tmp_path):
    other, path = elsewhere
    second = f"bot_{1:024x}"
    twin = edit(2, id=second, name="Ada Love1ace", wallets=[])
    bad = rewrite(path, tmp_path / "b.zip", bots_jsonl=lambda text: twin(text + text))
    with pytest.raises(BadArchive, match="line 2: name: is taken"):
        bring(other, bad)
    made = bring(other, bad, names={second: "Bea"})
    assert [bot.name for bot in made.bots] == ["Ada Lovelace", "Bea"]


def test_a_wallet_that_another_bot_holds_is_left_out_when_asked(elsewhere):
    other, path = elsewhere
    other.make_bot("Eve", address("w"))
    with pytest.raises(BadArchive, match="wallet.*--without-wallets"):
        bring(other, path)
    made = bring(other, path, with_wallets=False)
    assert made.bots[0].wallet is None
    assert {post.status for post in Post.select()} == {"none"}


def test_an_archive_of_an_import_keeps_its_first_origin(elsewhere, tmp_path):
    other, path = elsewhere
    bring(other, path)
    origin = ImportedPost.select().order_by(ImportedPost.post).first()
    with open(tmp_path / "b.zip", "wb") as file:
        write_archive(Owner.get(), "https://new.example", "0.2.0", NOW + 3 * HOUR, file)
    departures.delete_owner(Owner.get(), NOW + 3 * HOUR)
    bring_again = read_archive(tmp_path / "b.zip", NOW + 4 * HOUR)
    imports.store_archive(other.config, bring_again, NOW + 4 * HOUR)
    newest = ImportedPost.select().order_by(ImportedPost.post.desc()).limit(2)
    assert {(one.original_uid, one.instance) for one in newest} >= {
        (origin.original_uid, "https://old.example")
    }


# ---- archives that anybody may have made ---------------------------------------------------------
BAD = {
    "damaged JSON": ({"posts_jsonl": lambda t: t.replace("{", "[", 1)}, "posts.jsonl, line 1"),
    "a secret": ({"posts_jsonl": edit(2, body=PHRASE)}, "posts.jsonl, line 2: body: holds"),
    "a control character": ({"posts_jsonl": edit(2, body="a\x00b")}, "posts.jsonl, line 2: body"),
    "an unknown field": ({"posts_jsonl": edit(1, verified=True)}, "posts.jsonl, line 1: verified"),
    "another bot": ({"posts_jsonl": edit(1, botId="bot_" + "0" * 24)}, "posts.jsonl, line 1"),
    "an id twice": (
        {"posts_jsonl": lambda text: text + text.splitlines()[0] + "\n"}, "posts.jsonl, line 4"),
    "the future": (
        {"posts_jsonl": edit(1, createdAt="2999-01-01T00:00:00Z")}, "line 1: createdAt"),
    "a long line": ({"posts_jsonl": lambda text: " " * 70_000 + text}, "line 1: is over"),
    "a bad wallet": ({"posts_jsonl": edit(1, wallet="me")}, "posts.jsonl, line 1: wallet"),
    "a phrase as a name": ({"bots_jsonl": edit(1, bio=PHRASE)}, "bots.jsonl, line 1: bio"),
    "a bot twice": ({"bots_jsonl": lambda text: text + text}, "bots.jsonl, line 2"),
    "too many bots": ({"bots_jsonl": lambda text: text * 201}, "bots.jsonl, line 2"),
    "a number": ({"bots_jsonl": edit(1, name=7)}, "bots.jsonl, line 1: name"),
    "a foreign format": ({"export_json": lambda t: t.replace("candor-export", "x")}, "export.json"),
    "another version": (
        {"export_json": lambda t: t.replace('"version": 1', '"version": 2')}, "version is not 1"),
    "an instance": (
        {"export_json": lambda t: t.replace("https://old.example", "javascript:x")}, "instance"),
    "no posts": ({"posts_jsonl": lambda text: None}, "posts.jsonl is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_archive_is_refused_whole_with_file_and_line(service, life, tmp_path, name):
    changes, said = BAD[name]
    path = rewrite(export(life, tmp_path / "a.zip"), tmp_path / "b.zip", **changes)
    with pytest.raises(BadArchive) as refusal:
        read_archive(path, NOW + 2 * HOUR)
    assert said in str(refusal.value) and "legal winner" not in str(refusal.value)


@pytest.mark.parametrize("way", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_what_is_compressed_in_another_way_is_refused(service, life, tmp_path, way):
    """LZMA takes gigabytes where an archive asks for them, and its errors are its own."""
    path = export(life, tmp_path / "a.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "b.zip", "w", way) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(BadArchive, match="compressed in another way"):
        read_archive(tmp_path / "b.zip", NOW + 2 * HOUR)


def test_an_entry_whose_two_names_differ_is_refused(service, life, tmp_path):
    """The one before its bytes is no text, the one in the directory is that of an export."""
    raw = bytearray(export(life, tmp_path / "a.zip").read_bytes())
    raw[raw.find(b"posts.csv")] = 0xFF
    # In the directory a name begins 46 bytes after its record, whose flags say that it is UTF-8.
    directory = raw.rfind(b"posts.csv") - 46
    raw[directory + 9] |= 0x08
    (tmp_path / "b.zip").write_bytes(raw)
    with pytest.raises(BadArchive, match="posts.csv is damaged"):
        read_archive(tmp_path / "b.zip", NOW + 2 * HOUR)


def test_what_is_no_archive_is_refused(service, life, tmp_path):
    path = export(life, tmp_path / "a.zip")
    raw = path.read_bytes()
    middle = len(raw) // 3
    for number, content in enumerate(
        (
            b"",
            b"PK",
            raw[:-30],
            raw[: len(raw) // 2],
            raw[:middle] + b"\xa5" * 9 + raw[middle + 9 :],
        )
    ):
        bad = tmp_path / f"{number}.zip"
        bad.write_bytes(content)
        with pytest.raises(BadArchive, match="damaged|missing|no zip"):
            read_archive(bad, NOW + 2 * HOUR)
    with pytest.raises(BadArchive, match="No such file"):
        read_archive(tmp_path / "none.zip", NOW)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("../../etc/passwd", "no file of an export"),
        ("/absolute", "no file of an export"),
        ("posts.jsonl", "twice"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_of_entries_are_those_of_an_export(service, life, tmp_path, entry, said):
    path = export(life, tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, "x")
    with pytest.raises(BadArchive, match=said):
        read_archive(path, NOW + 2 * HOUR)


def test_bombs_and_crowds_are_refused_before_they_unpack(service, life, tmp_path, monkeypatch):
    path = export(life, tmp_path / "a.zip")
    monkeypatch.setattr("accounts.archive_reading.MAX_BYTES", 1_000)
    with pytest.raises(BadArchive, match="unpacks to more than 1,000 bytes"):
        read_archive(path, NOW + 2 * HOUR)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(100):
            archive.writestr(str(number), "")
    with pytest.raises(BadArchive, match="more entries than an export"):
        read_archive(tmp_path / "many.zip", NOW)
    monkeypatch.setattr("accounts.archive_reading.MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(BadArchive, match="larger than 100 bytes"):
        read_archive(path, NOW)


def test_the_command_prints_what_is_shown_once_or_what_is_wrong(elsewhere, monkeypatch, capsys):
    other, path = elsewhere
    ground.enter(monkeypatch, other.config.data_dir)
    monkeypatch.chdir(path.parent)
    storage.database.close_all()
    assert main(["import", str(path), "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert (told["posts"], told["withoutWords"]) == (2, 1)
    assert told["bots"][0]["publishKey"].startswith("cnd_pub_")
    assert owners.recover_owner(told["recoveryCode"]).owner.uid == told["ownerId"]
    count = Post.select().count()
    storage.database.close_all()
    assert main(["import", str(path)]) == 1
    assert capsys.readouterr().err.endswith("Nothing was stored.\n")
    assert main(["import", str(path), "--rename", "nonsense"]) == 1
    assert Post.select().count() == count
