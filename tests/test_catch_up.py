"""What an earlier version stored is logged at the upgrade, and a restore begins a new log."""

import json

import ground
import pytest

from accounts import influencers, posts, wallets
from config import BadSetting
from evidence import catch_up, log, openings
from evidence.notes import Signer, encode
from models import Post
from operate import backups, inspection
from storage import database, locks, tree, writing

NOW = 1_800_000_000_000
WALLET = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"
SIGNER = Signer(bytes(32))


def leaves(one=None):
    one = one or log.find_log()
    return [json.loads(leaf) for leaf in log.read_leaves(one, 0, one.size)]


def publish(bot, name):
    return posts.publish(bot.id, posts.PostBody(eventId=name, body=f"word {name}"), NOW, "api").uid


def forget_log():
    """Leave the database as the first edition had it: no log, no leaves, no salts."""
    with writing():
        for table in ("log", "log_leaf", "log_node"):
            database.execute_sql(f"DELETE FROM {table}")
        Post.update(leaf_id=None, salt=None).execute()


@pytest.fixture
def first_edition(settings, db):
    """Two bots, one of them retired; 20 posts, the first of them hidden; nothing logged."""
    made = influencers.create_bot(settings, "Ada", NOW, WALLET)
    other = influencers.create_bot(settings, "Bo", NOW + 1, owner=made.owner).bot
    names = [publish(made.bot, f"e{n}") for n in range(20)]
    posts.hide(names[0], NOW + 2)
    wallets.detach_wallet(made.bot, NOW + 3)
    influencers.retire_bot(other, NOW + 4)
    forget_log()
    return made.bot, other, names


# ---- the upgrade ---------------------------------------------------------------------------------
def test_what_was_there_is_logged_as_of_the_upgrade(settings, first_edition):
    bot, other, names = first_edition
    assert catch_up.catch_up(settings, SIGNER, NOW + 9) == 20
    told = leaves()
    kinds = [(leaf["kind"], leaf["at"] - NOW, leaf.get("bot")) for leaf in told[:4]]
    assert kinds == [
        ("opening", 9, None),
        ("attachment", 0, bot.uid),
        ("detachment", 3, bot.uid),
        ("retirement", 4, other.uid),
    ]
    assert [leaf["post"] for leaf in told[4:]] == names
    assert {leaf["loggedAt"] for leaf in told[1:]} == {NOW + 9}
    hidden, shown = told[4], told[5]
    assert hidden["words"] is None and hidden["hiddenAt"] == NOW + 2
    logged = log.find_post(names[1])
    assert logged.salt and len(shown["words"]) == 64 and logged.place == 5


def inspect(settings):
    """What is worth a look, and what is wrong. (Entries of this wallet were never read.)"""
    found = list(inspection.inspect(settings, NOW + 9, running=False))
    return tuple(
        [str(one) for one in found if one.level == level and one.table != "sighting"]
        for level in ("look", "wrong")
    )


def test_before_the_start_after_an_upgrade_nothing_is_wrong(settings, first_edition, monkeypatch):
    waiting = "the next start logs what was stored before"
    assert inspect(settings) == ([f"log: it was not begun yet: {waiting}"], [])
    monkeypatch.setattr(catch_up, "POSTS_AT_ONCE", 7)
    with monkeypatch.context() as patch:
        patch.setattr(catch_up, "_log_posts", lambda now: 0)
        catch_up.catch_up(settings, SIGNER, NOW + 9)
    assert inspect(settings) == ([f"post: 20 have no leaf yet: {waiting}"], [])
    catch_up.catch_up(settings, SIGNER, NOW + 9)
    assert inspect(settings) == ([], [])


def test_logging_again_adds_nothing(settings, first_edition):
    catch_up.catch_up(settings, SIGNER, NOW + 9)
    before = log.find_log()
    assert catch_up.catch_up(settings, SIGNER, NOW + 10) == 0
    assert log.find_log() == before


def test_an_interrupted_upgrade_goes_on_where_it_stopped(settings, first_edition, monkeypatch):
    monkeypatch.setattr(catch_up, "POSTS_AT_ONCE", 7)
    real, done = catch_up._log_posts, []

    def stop_after_one(now):
        if done:
            raise KeyboardInterrupt
        done.append(real(now))
        return done[0]

    monkeypatch.setattr(catch_up, "_log_posts", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        catch_up.catch_up(settings, SIGNER, NOW + 9)
    monkeypatch.setattr(catch_up, "_log_posts", real)
    assert catch_up.catch_up(settings, SIGNER, NOW + 10) == 13
    assert [leaf["post"] for leaf in leaves()[4:]] == first_edition[2]


# ---- the key -------------------------------------------------------------------------------------
def test_a_lost_key_file_begins_a_new_log_that_names_the_old(settings, first_edition):
    settings = ground.change(settings, database_url="")
    catch_up.catch_up(settings, SIGNER, NOW)
    old = log.find_log()
    root = encode(log.make_checkpoint(old).root)
    catch_up.catch_up(settings, Signer(bytes(31) + b"1"), NOW + 1)
    new = log.find_log()
    assert new.uid != old.uid and openings.read_opening(new) == {
        "log": old.uid,
        "size": old.size,
        "root": root,
        "kept": old.size,
        "why": "key",
    }


def test_another_log_key_that_was_set_is_refused(settings, first_edition):
    catch_up.catch_up(settings, SIGNER, NOW)
    with pytest.raises(BadSetting, match="LOG_KEY"):
        catch_up.catch_up(ground.change(settings, log_key="00" * 32), Signer(bytes(31) + b"1"), NOW)


def test_where_other_machines_may_have_the_right_key_another_is_refused(settings, first_edition):
    """With a database that several machines share a file that is new here says nothing."""
    catch_up.catch_up(settings, SIGNER, NOW)
    before, shared = log.find_log().uid, ground.change(settings, database_url="postgresql://x/y")
    with pytest.raises(BadSetting, match="the file log_key in DATA_DIR"):
        catch_up.catch_up(shared, Signer(bytes(31) + b"1"), NOW)
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
    locks.unlock_data_dir()
    return last


@ground.sqlite_only
def test_a_restore_opens_a_log_that_names_what_was_lost(settings, tmp_path):
    last = fill(settings, tmp_path)
    # opening, attachment, three posts
    assert last.size == 5
    backups.restore_backup(settings, tmp_path / "backup", True, NOW + 5)
    backups.migrate(settings)
    with database.connection_context():
        old, new = log.list_logs()
        assert (old.size, new.size) == (4, 1) and old.uid == last.origin.removeprefix("candor/")
        assert openings.read_opening(new) == {
            "log": old.uid,
            "size": 5,
            "root": encode(last.root),
            "kept": 4,
            "why": "restore",
        }
        assert Post.select().where(Post.leaf_id.is_null()).count() == 0


@ground.sqlite_only
def test_a_restore_elsewhere_names_the_backups_own_checkpoint(settings, tmp_path):
    fill(settings, tmp_path)
    elsewhere = ground.settings_of(tmp_path / "elsewhere")
    backups.restore_backup(elsewhere, tmp_path / "backup", False, NOW + 5)
    backups.migrate(elsewhere)
    with database.connection_context():
        old, new = log.list_logs()
        told = openings.read_opening(new)
        assert (told["log"], told["size"], told["kept"]) == (old.uid, 4, 4)
        assert new.key == str(
            Signer(bytes.fromhex((elsewhere.data_dir / "log_key").read_text())).verifier(new.origin)
        )


@ground.sqlite_only
def test_a_damaged_database_does_not_stop_its_restore(settings, tmp_path):
    fill(settings, tmp_path)
    settings.database_path.write_bytes(b"SQLite format 3\0" + bytes(8000))
    backups.restore_backup(settings, tmp_path / "backup", True, NOW + 5)
    backups.migrate(settings)
    with database.connection_context():
        assert openings.read_opening(log.find_log())["size"] == 4


def test_the_old_log_stays_as_it_was(settings, first_edition):
    catch_up.catch_up(settings, SIGNER, NOW)
    before = log.make_checkpoint(log.find_log())
    catch_up.renew_log("operator", NOW)
    publish(first_edition[0], "later")
    old, new = log.list_logs()
    assert log.make_checkpoint(old) == before and new.size == 2
    assert tree.find_root(log.make_reader(new, 2), 2) == log.make_checkpoint(new).root
