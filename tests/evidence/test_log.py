"""The log: each write's leaf, when logs are opened, and what anyone can fetch of them."""

import base64
import hashlib
import html
import json
import re
import threading

import ground
import pytest
from service import hide_post

import storage.log
from accounts import influencers, posts, wallets
from config import BadSetting
from evidence import log, notes
from evidence.notes import Signer, encode
from models import Post
from operate import backups
from storage import database, files, tree, writing
from storage.log import append_leaf

NOW = 1_800_000_000_000
WALLET = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"


def leaves():
    """The growing log's content, leaf by leaf."""
    one = log.find_log()
    return [json.loads(leaf) for leaf in log.read_leaves(one, 0, one.size)]


def publish(bot, **fields):
    body = posts.PostBody(**{"eventId": "e1", "body": "word", **fields})
    return posts.publish(bot.id, body, NOW, "api").uid


@pytest.fixture
def bot(settings, db):
    return influencers.create_bot(settings, "Ada", NOW, WALLET).bot


# ---- leaves --------------------------------------------------------------------------------------
def test_the_log_starts_with_opening_profile_and_attachment(bot):
    one, voice = log.find_log(), bot.voice
    said = json.dumps(
        [bot.salt, bot.name, bot.handle, "", voice, None], ensure_ascii=False, separators=(",", ":")
    )
    owner = json.dumps([bot.uid, bot.owner.uid], separators=(",", ":"))
    assert leaves() == [
        {"v": 1, "kind": "opening", "at": NOW, "log": one.uid, "previous": None},
        {
            "v": 1,
            "kind": "profile",
            "at": NOW,
            "bot": bot.uid,
            "owner": hashlib.sha256(owner.encode()).hexdigest(),
            "words": hashlib.sha256(said.encode()).hexdigest(),
        },
        {
            "v": 1,
            "kind": "attachment",
            "at": NOW,
            "bot": bot.uid,
            "wallet": WALLET,
            "ownership": "claimed",
        },
    ]


def test_a_post_leaf_has_its_facts_and_one_salted_text_hash(bot):
    uid = publish(bot, body="Zoë sold", symbol="BONK", reason="thin")
    leaf, post = leaves()[-1], Post.get(Post.uid == uid)
    # JSON.stringify gives the same bytes in a browser.
    words = json.dumps(
        [post.salt, "e1", "Zoë sold", "BONK", "thin"], ensure_ascii=False, separators=(",", ":")
    )
    assert leaf == {
        "v": 1,
        "kind": "post",
        "at": NOW,
        "post": uid,
        "bot": bot.uid,
        "wallet": WALLET,
        "source": "bot",
        "channel": "api",
        "mint": None,
        "signature": None,
        "status": "none",
        "statusReason": None,
        "eventAt": NOW,
        "words": hashlib.sha256(words.encode()).hexdigest(),
    }
    assert log.find_post(uid).place == log.find_log().size - 1


def test_a_post_without_a_verification_has_none_in_leaf_and_row(bot):
    said = {"source": "bot", "channel": "api", "event_id": "e", "body": "word"}
    with writing():
        posts.store_post(bot=bot.id, event_at=NOW, created_at=NOW, **said)
    assert leaves()[-1]["status"] == Post.get().status == "none"


def test_refused_and_repeated_posts_have_no_leaf(bot):
    publish(bot)
    size = log.find_log().size
    assert publish(bot) == Post.get().uid
    with pytest.raises(posts.Problem):
        publish(bot, body="other")
    assert log.find_log().size == size


def test_hiding_erases_text_and_salt_but_keeps_the_leaf(bot, settings):
    uid = publish(bot, body="a word that nobody may keep")
    before, words = log.find_log().size, leaves()[-1]["words"]
    salt = Post.get().salt
    hide_post(uid, NOW + 1)
    hide_post(uid, NOW + 2)
    assert leaves()[before - 1]["words"] == words
    assert leaves()[before:] == [{"v": 1, "kind": "hiding", "at": NOW + 1, "post": uid}]
    assert Post.get().salt is None and log.find_post(uid).salt is None
    if not ground.SERVER:
        kept = b"".join(path.read_bytes() for path in settings.data_dir.glob("app.db*"))
        assert salt.encode() not in kept and b"nobody may keep" not in kept


def test_wallet_changes_are_logged(bot, settings):
    other = influencers.create_bot(settings, "Bo", NOW, owner=bot.owner).bot
    begun = log.find_log().size
    wallets.attach_wallet(settings, other, WALLET, NOW + 1, "proven")
    wallets.attach_wallet(settings, other, WALLET, NOW + 2, "proven")
    influencers.retire_bot(other, NOW + 3)
    influencers.retire_bot(other, NOW + 4)
    told = [(leaf["kind"], leaf["at"] - NOW, leaf["bot"]) for leaf in leaves()[begun:]]
    assert told == [
        ("detachment", 1, bot.uid),
        ("attachment", 1, other.uid),
        ("retirement", 3, other.uid),
        ("detachment", 3, other.uid),
    ]


def test_a_proven_claim_is_logged_once(bot, settings):
    begun = log.find_log().size
    for later in (1, 2):
        wallets.attach_wallet(settings, bot, WALLET, NOW + later, "proven")
    assert [leaf["ownership"] for leaf in leaves()[begun:]] == ["proven"]


def test_a_rollback_leaves_no_leaf_and_no_gap(bot):
    size = log.find_log().size
    with pytest.raises(ZeroDivisionError), writing():
        append_leaf("test", NOW)
        raise ZeroDivisionError
    with writing():
        assert append_leaf("test", NOW).place == size
    assert log.find_log().size == size + 1


def test_two_threads_produce_gapless_indices(bot):
    begun = log.find_log().size

    def append():
        with database.connection_context():
            for _ in range(150):
                with writing():
                    append_leaf("test", NOW)

    threads = [threading.Thread(target=append) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one = log.find_log()
    assert one.size == begun + 300
    assert tree.find_root(log.make_reader(one, one.size), one.size) == root_of(one)


def root_of(one):
    """A log's root computed by pymerkle from its leaves alone."""
    import pymerkle

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
    rows = database.execute_sql(
        "SELECT level, COUNT(*) FROM log_node GROUP BY level ORDER BY level"
    )
    # 36 leaves with the opening: 9 full tiles, 8 of which fill two above.
    assert [tuple(row) for row in rows.fetchall()] == [(1, 9), (2, 2)]
    ((stored,),) = database.execute_sql(
        "SELECT hash FROM log_node WHERE level = 2 AND place = 1"
    ).fetchall()
    hashes = [tree.hash_leaf(leaf) for leaf in log.read_leaves(log.find_log(), 16, 32)]
    assert bytes(stored) == tree.hash_tile(hashes)


# ---- opening -------------------------------------------------------------------------------------
SIGNER = Signer(bytes(32))


def test_a_log_is_opened_once(settings, db):
    assert log.find_log() is None
    log.ensure_log(settings, SIGNER, NOW + 9)
    before = log.find_log()
    assert [(leaf["kind"], leaf["at"], leaf["previous"]) for leaf in leaves()] == [
        ("opening", NOW + 9, None)
    ]
    log.ensure_log(settings, SIGNER, NOW + 10)
    assert log.find_log() == before and before.key == str(SIGNER.verifier(before.origin))


# ---- its key -------------------------------------------------------------------------------------
def test_a_lost_key_file_starts_a_new_log_naming_the_old_one(settings, bot):
    settings = ground.change(settings, database_url="")
    log.ensure_log(settings, SIGNER, NOW)
    old = log.find_log()
    root = encode(log.make_checkpoint(old).root)
    log.ensure_log(settings, Signer(bytes(31) + b"1"), NOW + 1)
    new = log.find_log()
    assert new.uid != old.uid and log.read_opening(new) == {
        "log": old.uid,
        "size": old.size,
        "root": root,
        "kept": old.size,
        "why": "key",
    }


def test_another_configured_log_key_is_refused(settings, bot):
    log.ensure_log(settings, SIGNER, NOW)
    with pytest.raises(BadSetting, match="LOG_KEY"):
        log.ensure_log(ground.change(settings, log_key="00" * 32), Signer(bytes(31) + b"1"), NOW)


def test_another_key_is_refused_if_other_machines_may_have_the_right_one(settings, bot):
    """With a database shared by several machines, a new file here proves nothing."""
    log.ensure_log(settings, SIGNER, NOW)
    before, shared = log.find_log().uid, ground.change(settings, database_url="postgresql://x/y")
    with pytest.raises(BadSetting, match="the file log_key in DATA_DIR"):
        log.ensure_log(shared, Signer(bytes(31) + b"1"), NOW)
    assert log.find_log().uid == before


# ---- a restore -----------------------------------------------------------------------------------
def fill(settings, folder):
    """An instance with two posts, a backup of it, and one more post; the log's last state."""
    backups.migrate(settings)
    with database.connection_context():
        bot = influencers.create_bot(settings, "Ada", NOW, WALLET).bot
        publish(bot)
        publish(bot, eventId="e2")
        backups.store_backup(settings, folder / "backup")
        publish(bot, eventId="e3")
        last = log.make_checkpoint(log.find_log())
    database.close_all()
    files.unlock_data_dir()
    return last


@ground.sqlite_only
def test_a_restore_starts_a_log_naming_what_was_lost(settings, tmp_path):
    last = fill(settings, tmp_path)
    # opening, attachment, three posts
    assert last.size == 6
    backups.restore_backup(settings, tmp_path / "backup", True, NOW + 5)
    backups.migrate(settings)
    with database.connection_context():
        old, new = log.list_logs()
        assert (old.size, new.size) == (5, 1) and old.uid == last.origin.removeprefix("candor/")
        assert log.read_opening(new) == {
            "log": old.uid,
            "size": 6,
            "root": encode(last.root),
            "kept": 5,
            "why": "restore",
        }
        assert Post.select().where(Post.leaf_id.is_null()).count() == 0


@ground.sqlite_only
def test_a_restore_elsewhere_names_the_backups_checkpoint(settings, tmp_path):
    fill(settings, tmp_path)
    elsewhere = ground.settings_of(tmp_path / "elsewhere")
    backups.restore_backup(elsewhere, tmp_path / "backup", False, NOW + 5)
    backups.migrate(elsewhere)
    with database.connection_context():
        old, new = log.list_logs()
        told = log.read_opening(new)
        assert (told["log"], told["size"], told["kept"]) == (old.uid, 5, 5)
        assert new.key == str(
            Signer(bytes.fromhex((elsewhere.data_dir / "log_key").read_text())).verifier(new.origin)
        )


@ground.sqlite_only
def test_a_damaged_database_can_be_restored_over(settings, tmp_path):
    fill(settings, tmp_path)
    settings.database_path.write_bytes(b"SQLite format 3\0" + bytes(8000))
    backups.restore_backup(settings, tmp_path / "backup", True, NOW + 5)
    backups.migrate(settings)
    with database.connection_context():
        assert log.read_opening(log.find_log())["size"] == 5


# ---- what is served ------------------------------------------------------------------------------
@pytest.fixture
def grown(service):
    """A service whose log has 300 leaves, and its key."""
    made = service.make_bot("Ada", WALLET)
    with writing():
        for n in range(300 - log.find_log().size):
            append_leaf("test", NOW + n)
    return service, made


def read_checkpoint(service):
    """The served checkpoint, verified with the served key."""
    note = notes.parse_note(service.get("/log/checkpoint").data)
    key = notes.Verifier.parse(service.get("/log/key").text.strip())
    notes.check_note(note, key)
    return notes.parse_checkpoint(note.text)


def test_tiles_hash_to_the_signed_root(grown):
    service, _ = grown
    checkpoint = read_checkpoint(service)
    assert checkpoint.size == 300 and checkpoint.root == root_of(log.find_log())
    tiles = {
        (0, 0): service.get("/log/tile/0/000"),
        (0, 1): service.get("/log/tile/0/001.p/44"),
        (1, 0): service.get("/log/tile/1/000.p/1"),
    }
    hashes = {place: tree.cut_tile(got.data, len(got.data) // 32) for place, got in tiles.items()}
    read = lambda level, index: hashes[level, index // 256][index % 256]  # noqa: E731
    assert tree.find_root(read, 300) == checkpoint.root
    for got in tiles.values():
        assert "immutable" in got.headers["Cache-Control"]
        assert got.headers["Content-Type"] == "application/octet-stream"
        assert got.headers["Access-Control-Allow-Origin"] == "*"


def test_bundles_contain_the_leaves_of_their_tiles(grown):
    service, _ = grown
    bundle = tree.cut_bundle(service.get("/log/tile/entries/001.p/44").data, 44)
    tile = tree.cut_tile(service.get("/log/tile/0/001.p/44").data, 44)
    assert [tree.hash_leaf(leaf) for leaf in bundle] == tile
    assert len(tree.cut_bundle(service.get("/log/tile/entries/000").data, 256)) == 256


def test_each_log_is_served_under_its_id(grown):
    service, _ = grown
    uid = log.find_log().uid
    for path in ("checkpoint", "key", "tile/0/000", "tile/entries/000"):
        assert service.get(f"/log/{uid}/{path}").data == service.get(f"/log/{path}").data
        assert service.get(f"/log/log_other/{path}").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *(
            "0/001",
            "0/001.p/45",
            "0/002.p/1",
            "1/000.p/2",
            "2/000.p/1",
            "6/000",
            "-1/000",
            "00/000",
        ),
        *(
            "0/000.p/0",
            "0/000.p/256",
            "0/000.p/01",
            "0/000.p/",
            "0/0",
            "0/x000/000",
            "0/000/",
            "٠/000",
        ),
        *("entries/001", "entries/001.p/45", "entries/x001/x001/x001/x001/001", "9" * 400 + "/000"),
        *("0/000.p/٤", "0/000.p/4.p/4", "entries", "hash/000"),
    ],
)
def test_other_tile_addresses_are_not_found(grown, path):
    service, _ = grown
    assert service.get(f"/log/tile/{path}").status_code == 404


def test_an_empty_log_has_a_page_but_no_checkpoint(service):
    assert "Nothing has been logged yet." in service.get("/log/").text
    for path in ("checkpoint", "key", "tile/0/000.p/1"):
        assert service.get(f"/log/{path}").status_code == 404


# ---- the promise ---------------------------------------------------------------------------------
def test_the_author_gets_a_promise_anyone_can_check(grown):
    service, made = grown
    answer = service.post({"eventId": "e9", "body": "word"}, made.publish_key.text)
    promise, told = answer.json["logPromise"], answer.json
    assert told["logIndex"] == 300 and told["logId"] == log.find_log().uid
    origin = read_checkpoint(service).origin
    key = notes.Verifier.parse(service.get("/log/key").text.strip())
    message = f"candor-log-promise/v1\n{origin}\n{promise['leaf']}\n"
    key.check(message.encode(), base64.b64decode(promise["signature"]))
    words = json.dumps([promise["salt"], "e9", "word", None, None], separators=(",", ":"))
    leaf = json.loads(promise["leaf"])
    assert leaf["words"] == hashlib.sha256(words.encode()).hexdigest()
    bundle = tree.cut_bundle(service.get("/log/tile/entries/001.p/45").data, 45)
    assert bundle[44] == promise["leaf"].encode()


def test_a_retry_returns_the_same_promise_and_lists_have_none(grown):
    service, made = grown
    first = service.post({"eventId": "e9", "body": "word"}, made.publish_key.text)
    again = service.post({"eventId": "e9", "body": "word"}, made.publish_key.text)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json["logPromise"] == first.json["logPromise"]
    (shown,) = service.get("/api/v1/feed", made.publish_key.text).json["data"]
    assert shown["logIndex"] == 300 and "logPromise" not in shown


def test_the_key_is_created_once_and_private(service):
    path = service.config.data_dir / "log_key"
    assert path.stat().st_mode & 0o777 == 0o600 and len(path.read_text()) == 64


# ---- pages ---------------------------------------------------------------------------------------
def test_a_post_page_shows_its_proof(grown):
    service, made = grown
    answer = service.post({"eventId": "e9", "body": "a <b>word</b>"}, made.publish_key.text)
    uid, promise = answer.json["id"], answer.json["logPromise"]
    shown = {
        name: html.unescape(text)
        for name, text in re.findall(
            r'<code data-proof="(\w+)">(.*?)</code>', service.get(f"/posts/{uid}").text, re.S
        )
    }
    assert shown["leaf"] == promise["leaf"] and shown["index"] == "300"
    words = json.dumps([promise["salt"], "e9", "a <b>word</b>", None, None], separators=(",", ":"))
    assert shown["words"] == words
    note = notes.parse_note(shown["checkpoint"].encode())
    notes.check_note(note, notes.Verifier.parse(shown["key"]))
    checkpoint = notes.parse_checkpoint(note.text)
    path = [base64.b64decode(one) for one in shown["path"].split("\n")]
    leaf = tree.hash_leaf(shown["leaf"].encode())
    assert tree.follow_inclusion(leaf, 300, checkpoint.size, path) == checkpoint.root


def test_a_hidden_post_page_shows_its_leaf_without_text(grown):
    service, made = grown
    answer = service.post({"eventId": "e9", "body": "gone"}, made.publish_key.text)
    hide_post(answer.json["id"], NOW)
    page = service.get(f"/posts/{answer.json['id']}").text
    assert 'data-proof="leaf"' in page and 'data-proof="words"' not in page
    assert answer.json["logPromise"]["salt"] not in page


def test_the_log_page_and_status_show_the_key(grown):
    service, _ = grown
    key = html.escape(service.get("/log/key").text.strip())
    assert key in service.get("/log/").text and key in service.get("/status").text
    assert read_checkpoint(service).origin in service.get("/log/").text


def test_the_log_page_names_earlier_logs(grown):
    service, _ = grown
    old = log.find_log().uid
    log.renew_log("restore", NOW)
    page = service.get("/log/").text
    assert f'href="/log/{old}/checkpoint"' in page and "A backup was restored." in page
