"""The log: each write's leaf, when logs are opened, and what anyone can fetch of them."""

import base64
import hashlib
import html
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import ground
import pymerkle
import pytest
from service import hide_post, inspect, race
from test_backups import leave

import storage.log
from accounts import influencers, posts, wallets
from config import BadSetting
from evidence import log, notes
from evidence.notes import Signer, encode
from models import Post
from operate import backups, inspection
from storage import database, tree, writing
from storage.log import append_leaf

NOW = 1_800_000_000_000
WALLET = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"
ROOT = Path(__file__).resolve().parents[2]
SIGNER, OTHER_SIGNER = Signer(bytes(32)), Signer(bytes(31) + b"1")


def leaves(begin=0):
    """The growing log's content, leaf by leaf."""
    one = log.find_log()
    return [json.loads(leaf) for leaf in log.read_leaves(one, begin, one.size)]


def write_words(*texts):
    """Like JSON.stringify in a browser."""
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def hash_words(*texts):
    return hashlib.sha256(write_words(*texts).encode()).hexdigest()


def publish(bot, **fields):
    body = posts.PostBody(**{"eventId": "e1", "body": "word", **fields})
    return posts.publish(bot.id, body, NOW, "api").uid


@pytest.fixture
def bot(settings, db):
    return influencers.create_bot(settings, "Ada", NOW, WALLET).bot


# ---- leaves --------------------------------------------------------------------------------------
def test_the_log_starts_with_opening_profile_and_attachment(bot):
    words = hash_words(bot.salt, bot.name, bot.handle, "", bot.voice, None)
    opening, profile, attachment = leaves()
    leaf = {"v": 1, "at": NOW}
    assert opening == leaf | {"kind": "opening", "log": log.find_log().uid, "previous": None}
    leaf["bot"] = bot.uid
    owner = hash_words(bot.uid, bot.owner.uid)
    assert profile == leaf | {"kind": "profile", "owner": owner, "words": words}
    assert attachment == leaf | {"kind": "attachment", "wallet": WALLET, "ownership": "claimed"}


def test_a_post_leaf_has_its_facts_and_one_salted_text_hash(bot):
    uid = publish(bot, body="Zoë sold", symbol="BONK", reason="thin")
    salt = Post.get(Post.uid == uid).salt
    leaf = {"v": 1, "kind": "post", "at": NOW, "post": uid, "bot": bot.uid, "wallet": WALLET}
    leaf |= {"source": "bot", "channel": "api", "mint": None, "signature": None}
    leaf |= {"status": "none", "statusReason": None, "eventAt": NOW}
    leaf["words"] = hash_words(salt, "e1", "Zoë sold", "BONK", "thin")
    assert leaves()[-1] == leaf
    assert log.find_post(uid).place == log.find_log().size - 1


def test_repeated_refused_and_rolled_back_writes_leave_no_leaf_and_no_gap(bot):
    uid, size = publish(bot), log.find_log().size
    assert publish(bot) == uid
    with pytest.raises(posts.Problem):
        publish(bot, body="other")
    with pytest.raises(ZeroDivisionError), writing():
        append_leaf("test", NOW)
        raise ZeroDivisionError
    with writing():
        assert append_leaf("test", NOW).place == size
    assert log.find_log().size == size + 1


def test_hiding_erases_text_and_salt_but_keeps_the_leaf(bot, settings):
    uid = publish(bot, body="a word that nobody may keep")
    before, salt = leaves(), Post.get().salt
    hide_post(uid, NOW + 1)
    hide_post(uid, NOW + 2)
    assert leaves() == [*before, {"v": 1, "kind": "hiding", "at": NOW + 1, "post": uid}]
    assert Post.get().salt is None and log.find_post(uid).salt is None
    if not ground.SERVER:
        kept = b"".join(path.read_bytes() for path in settings.data_dir.glob("app.db*"))
        assert salt.encode() not in kept and b"nobody may keep" not in kept


def test_wallet_changes_are_logged_once(bot, settings):
    other = influencers.create_bot(settings, "Bo", NOW, owner=bot.owner).bot
    begun = log.find_log().size
    for later in (1, 2):
        wallets.attach_wallet(settings, other, WALLET, NOW + later, "proven")
    for later in (3, 4):
        influencers.retire_bot(other, NOW + later)
    # A claim, and its later proof.
    for later, ownership in ((5, "claimed"), (6, "proven"), (7, "proven")):
        wallets.attach_wallet(settings, bot, WALLET, NOW + later, ownership)
    told = [
        (leaf["kind"], leaf["at"] - NOW, leaf["bot"], leaf.get("ownership"))
        for leaf in leaves(begun)
    ]
    assert told == [
        ("detachment", 1, bot.uid, None),
        ("attachment", 1, other.uid, "proven"),
        ("retirement", 3, other.uid, None),
        ("detachment", 3, other.uid, None),
        ("attachment", 5, bot.uid, "claimed"),
        ("attachment", 6, bot.uid, "proven"),
    ]


def test_two_threads_produce_gapless_indices(bot):
    begun = log.find_log().size

    def append(_):
        for _ in range(150):
            with writing():
                append_leaf("test", NOW)

    race(2, append)
    one = log.find_log()
    assert one.size == begun + 300
    assert log.make_checkpoint(one).root == root_of(one)


def root_of(one):
    """A log's root computed by pymerkle from its leaves alone."""
    other = pymerkle.InmemoryTree(algorithm="sha256")
    for leaf in log.read_leaves(one, 0, one.size):
        other.append_entry(leaf)
    return other.get_state()


def test_higher_tiles_are_stored_when_full(db, monkeypatch):
    # 4 instead of 256, so that two levels fill with a few leaves.
    for module in (storage.log, tree):
        monkeypatch.setattr(module, "TILE_WIDTH", 4)
    with writing():
        for n in range(35):
            append_leaf("test", n)
    rows = db.execute_sql("SELECT level, place, hash FROM log_node ORDER BY level, place")
    stored = {(level, place): bytes(node) for level, place, node in rows.fetchall()}
    # 36 leaves with the opening: 9 full tiles, 8 of which fill two above.
    assert [*stored] == [*((1, place) for place in range(9)), (2, 0), (2, 1)]
    hashes = [tree.hash_leaf(leaf) for leaf in log.read_leaves(log.find_log(), 16, 32)]
    assert stored[2, 1] == tree.hash_tile(hashes)


# ---- kills ---------------------------------------------------------------------------------------
# Publishes and hides endlessly, and prints each post's ID once it is stored.
POSTING = """
import itertools, os, sys
import config, storage
from accounts import conduct, posts
from peewee import OperationalError
storage.connect(config.load(dotenv=None))
with storage.database.connection_context():
    for n in itertools.count():
        body = posts.PostBody(eventId=f"{os.getpid()}-{n}", body="x" * 300)
        try:
            uid = posts.publish(int(sys.argv[1]), body, 1_800_000_000_000, "api").uid
            print(uid, flush=True)
            if n % 7 == 0:
                with storage.erasing():
                    conduct.hide_post(uid, 1_800_000_000_001)
        except OperationalError as error:
            # The other one wrote for too long, on a busy machine; nothing was stored.
            assert storage.is_busy(error)
"""


def start(settings, bot, path):
    environ = {**os.environ, **ground.environ(settings.data_dir), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", POSTING, str(bot)]
    with path.open("w") as out:
        return subprocess.Popen(argv, env=environ, stdout=out)


def test_log_and_tables_agree_after_every_kill(settings, bot, tmp_path, full):
    """Two processes post at once and are killed with -9 at any moment: no acknowledged post is
    missing.
    """
    dice, out = random.Random(7), []
    for turn in range(4 if full else 2):
        paths = [tmp_path / f"{turn}-{n}" for n in range(2)]
        both = [start(settings, bot.id, path) for path in paths]
        # Some 30 posts.
        ground.until(lambda: both[0].poll() is None and paths[0].stat().st_size > 800)
        time.sleep(dice.uniform(0, 0.1))
        for process in both:
            process.kill()
            process.wait()
        # The last line may be incomplete.
        out += [line for path in paths for line in path.read_text().split("\n")[:-1]]
        assert inspect(settings, inspection.check_log) == []
    with database.connection_context():
        kept = {uid for (uid,) in Post.select(Post.uid).tuples()}
        told = leaves()
    assert len(out) > 40 and set(out) <= kept
    assert {leaf["post"] for leaf in told if leaf["kind"] == "post"} == kept


# ---- opening -------------------------------------------------------------------------------------
def test_a_log_is_opened_once(settings, db):
    assert log.find_log() is None
    for later in (9, 10):
        log.ensure_log(settings, SIGNER, NOW + later)
    one = log.find_log()
    opening = {"v": 1, "kind": "opening", "at": NOW + 9, "log": one.uid, "previous": None}
    assert leaves() == [opening]
    assert one.key == str(SIGNER.verifier(one.origin))


def test_a_lost_key_file_starts_a_new_log_naming_the_old_one(settings, bot):
    settings = ground.change(settings, database_url="")
    log.ensure_log(settings, SIGNER, NOW)
    old = log.find_log()
    root = encode(log.make_checkpoint(old).root)
    log.ensure_log(settings, OTHER_SIGNER, NOW + 1)
    last = {"log": old.uid, "size": old.size, "root": root, "kept": old.size, "why": "key"}
    assert log.find_log().uid != old.uid and log.read_opening(log.find_log()) == last


@pytest.mark.parametrize(
    "more", [{"log_key": "00" * 32}, {"database_url": "postgresql://x/y"}], ids=["set", "shared"]
)
def test_another_key_is_refused(settings, bot, more):
    """With a database shared by several machines, a new file here proves nothing."""
    log.ensure_log(settings, SIGNER, NOW)
    before = log.find_log()
    with pytest.raises(BadSetting, match="LOG_KEY, or the file log_key in DATA_DIR"):
        log.ensure_log(ground.change(settings, **more), OTHER_SIGNER, NOW)
    assert log.find_log() == before


# ---- a restore -----------------------------------------------------------------------------------
@ground.sqlite_only
@pytest.mark.parametrize(
    ("place", "size"), [("here", 6), ("over a damaged database", 5), ("elsewhere", 5)]
)
def test_a_restore_starts_a_log_naming_what_was_lost(settings, tmp_path, place, size):
    """The opening, profile and attachment of a bot, and three posts; the backup has two."""
    backups.migrate(settings)
    with database.connection_context():
        bot = influencers.create_bot(settings, "Ada", NOW, WALLET).bot
        for event in ("e1", "e2"):
            publish(bot, eventId=event)
        backups.store_backup(settings, tmp_path / "backup")
        publish(bot, eventId="e3")
        last = log.make_checkpoint(log.find_log())
    leave()
    assert last.size == 6
    if place == "elsewhere":
        settings = ground.settings_of(tmp_path / "elsewhere")
    elif place == "over a damaged database":
        settings.database_path.write_bytes(b"SQLite format 3\0" + bytes(8000))
    backups.restore_backup(settings, tmp_path / "backup", place != "elsewhere", NOW + 5)
    backups.migrate(settings)
    with database.connection_context():
        old, new = log.list_logs()
        root = last.root if size == last.size else log.make_checkpoint(old).root
        told = {"log": old.uid, "size": size, "root": encode(root), "kept": 5, "why": "restore"}
        assert log.read_opening(new) == told and old.origin == last.origin
        assert (old.size, new.size) == (5, 1)
        assert Post.select().where(Post.leaf_id.is_null()).count() == 0
    key = bytes.fromhex((settings.data_dir / "log_key").read_text())
    assert new.key == str(Signer(key).verifier(new.origin))


# ---- what is served ------------------------------------------------------------------------------
@pytest.fixture
def grown(service):
    """A service whose log has 300 leaves."""
    service.bot = service.make_bot("Ada", WALLET)
    with writing():
        for n in range(300 - log.find_log().size):
            append_leaf("test", NOW + n)
    return service


def send(service, body="word"):
    """The response to the bot's post."""
    return service.post({"eventId": "e9", "body": body}, service.bot.publish_key.text)


def read_key(service):
    return notes.Verifier.parse(service.get("/log/key").text.strip())


def read_checkpoint(service):
    """The served checkpoint, verified with the served key."""
    note = notes.parse_note(service.get("/log/checkpoint").data)
    notes.check_note(note, read_key(service))
    return notes.parse_checkpoint(note.text)


def test_tiles_hash_to_the_signed_root_and_bundles_to_tiles(grown):
    checkpoint = read_checkpoint(grown)
    assert checkpoint.size == 300 and checkpoint.root == root_of(log.find_log())
    hashes = {}
    for path, place in (("0/000", (0, 0)), ("0/001.p/44", (0, 1)), ("1/000.p/1", (1, 0))):
        got = grown.get(f"/log/tile/{path}")
        assert "immutable" in got.headers["Cache-Control"]
        assert got.headers["Content-Type"] == "application/octet-stream"
        assert got.headers["Access-Control-Allow-Origin"] == "*"
        hashes[place] = tree.cut_tile(got.data, len(got.data) // 32)
    read = lambda level, index: hashes[level, index // 256][index % 256]  # noqa: E731
    assert tree.find_root(read, 300) == checkpoint.root
    for path, number, width in (("000", 0, 256), ("001.p/44", 1, 44)):
        bundle = tree.cut_bundle(grown.get(f"/log/tile/entries/{path}").data, width)
        assert [tree.hash_leaf(leaf) for leaf in bundle] == hashes[0, number]


def test_each_log_is_served_under_its_id(grown):
    uid = log.find_log().uid
    for path in ("checkpoint", "key", "tile/0/000", "tile/entries/000"):
        assert grown.get(f"/log/{uid}/{path}").data == grown.get(f"/log/{path}").data
        assert grown.get(f"/log/log_other/{path}").status_code == 404


ABSENT = """
0/001 0/001.p/45 0/002.p/1 1/000.p/2 2/000.p/1 6/000 -1/000 00/000 entries/001 entries/001.p/45
0/000.p/0 0/000.p/256 0/000.p/01 0/000.p/ 0/0 0/x000/000 0/000/ ٠/000 0/000.p/٤ 0/000.p/4.p/4
entries/x001/x001/x001/x001/001 entries hash/000
"""


def test_other_tile_addresses_are_not_found(grown):
    for path in (*ABSENT.split(), "9" * 400 + "/000"):
        assert grown.get(f"/log/tile/{path}").status_code == 404, path


def test_a_new_instance_has_a_private_key_and_a_log_page_but_no_checkpoint(service):
    path = service.config.data_dir / "log_key"
    assert path.stat().st_mode & 0o777 == 0o600 and len(path.read_text()) == 64
    assert "Nothing has been logged yet." in service.get("/log/").text
    for path in ("checkpoint", "key", "tile/0/000.p/1"):
        assert service.get(f"/log/{path}").status_code == 404


# ---- the promise ---------------------------------------------------------------------------------
def test_the_author_alone_gets_a_promise_anyone_can_check(grown):
    sent = send(grown)
    assert sent.status_code == 201
    told = sent.json
    promise, origin = told["logPromise"], read_checkpoint(grown).origin
    assert (told["logIndex"], told["logId"]) == (300, log.find_log().uid)
    message = f"candor-log-promise/v1\n{origin}\n{promise['leaf']}\n"
    read_key(grown).check(message.encode(), base64.b64decode(promise["signature"]))
    words = hash_words(promise["salt"], "e9", "word", None, None)
    assert json.loads(promise["leaf"])["words"] == words
    bundle = tree.cut_bundle(grown.get("/log/tile/entries/001.p/45").data, 45)
    assert bundle[44] == promise["leaf"].encode()
    # A retry returns it too; lists don't have it.
    again = send(grown)
    assert (again.status_code, again.json["logPromise"]) == (200, promise)
    (shown,) = grown.get("/api/v1/feed", grown.bot.publish_key.text).json["data"]
    assert shown["logIndex"] == 300 and "logPromise" not in shown


# ---- pages ---------------------------------------------------------------------------------------
def read_proof(service, uid):
    """The parts of the proof on a post's page."""
    page = service.get(f"/posts/{uid}").text
    parts = re.findall(r'<code data-proof="(\w+)">(.*?)</code>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in parts}


def test_a_post_page_shows_its_proof_even_if_hidden(grown):
    told = send(grown, "a <b>word</b>").json
    shown, promise = read_proof(grown, told["id"]), told["logPromise"]
    assert (shown["leaf"], shown["index"]) == (promise["leaf"], "300")
    assert shown["words"] == write_words(promise["salt"], "e9", "a <b>word</b>", None, None)
    note = notes.parse_note(shown["checkpoint"].encode())
    notes.check_note(note, notes.Verifier.parse(shown["key"]))
    checkpoint = notes.parse_checkpoint(note.text)
    path = [base64.b64decode(one) for one in shown["path"].split("\n")]
    leaf = tree.hash_leaf(shown["leaf"].encode())
    assert tree.follow_inclusion(leaf, 300, checkpoint.size, path) == checkpoint.root
    # Once hidden, it has the leaf, but no text to check it with.
    hide_post(told["id"], NOW)
    shown = read_proof(grown, told["id"])
    assert shown["leaf"] == promise["leaf"] and "words" not in shown
    assert promise["salt"] not in grown.get(f"/posts/{told['id']}").text


def test_the_log_page_shows_the_key_and_earlier_logs(grown):
    old = log.find_log().uid
    log.renew_log("restore", NOW)
    log.store_key(grown.app.log_signer)
    page, key = grown.get("/log/").text, html.escape(grown.get("/log/key").text.strip())
    assert key in page and key in grown.get("/status").text
    assert read_checkpoint(grown).origin in page
    assert f'href="/log/{old}/checkpoint"' in page and "A backup was restored." in page
