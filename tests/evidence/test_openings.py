"""When logs are opened: the first one, and others after a lost key or a restore."""

import json

import ground
import pytest

from accounts import influencers, posts
from config import BadSetting
from evidence import log
from evidence.notes import Signer, encode
from models import Post
from operate import backups
from storage import database, files, tree

NOW = 1_800_000_000_000
WALLET = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"
SIGNER = Signer(bytes(32))


def leaves(one=None):
    one = one or log.find_log()
    return [json.loads(leaf) for leaf in log.read_leaves(one, 0, one.size)]


def publish(bot, name):
    return posts.publish(bot.id, posts.PostBody(eventId=name, body=f"word {name}"), NOW, "api").uid


@pytest.fixture
def bot(settings, db):
    """A bot whose posts are logged."""
    bot = influencers.create_bot(settings, "Ada", NOW, WALLET).bot
    publish(bot, "e1")
    return bot


def test_a_log_is_opened_once(settings, db):
    assert log.find_log() is None
    log.ensure_log(settings, SIGNER, NOW + 9)
    before = log.find_log()
    assert [(leaf["kind"], leaf["at"], leaf["previous"]) for leaf in leaves()] == [
        ("opening", NOW + 9, None)
    ]
    log.ensure_log(settings, SIGNER, NOW + 10)
    assert log.find_log() == before and before.key == str(SIGNER.verifier(before.origin))


# ---- the key -------------------------------------------------------------------------------------
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
    """With a database that several machines share a file that is new here says nothing."""
    log.ensure_log(settings, SIGNER, NOW)
    before, shared = log.find_log().uid, ground.change(settings, database_url="postgresql://x/y")
    with pytest.raises(BadSetting, match="the file log_key in DATA_DIR"):
        log.ensure_log(shared, Signer(bytes(31) + b"1"), NOW)
    assert log.find_log().uid == before


# ---- a restore -----------------------------------------------------------------------------------
def fill(settings, folder):
    """An instance with two posts, a backup of it, and one post more; the log as it was last."""
    backups.migrate(settings)
    with database.connection_context():
        bot = influencers.create_bot(settings, "Ada", NOW, WALLET).bot
        publish(bot, "e1")
        publish(bot, "e2")
        backups.store_backup(settings, folder / "backup")
        publish(bot, "e3")
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


def test_the_old_log_is_unchanged(settings, bot):
    log.ensure_log(settings, SIGNER, NOW)
    before = log.make_checkpoint(log.find_log())
    log.renew_log("operator", NOW)
    publish(bot, "later")
    old, new = log.list_logs()
    assert log.make_checkpoint(old) == before and new.size == 2
    assert tree.find_root(log.make_reader(new, 2), 2) == log.make_checkpoint(new).root
