"""Backups, restoring, migrations with a copy, and the doctor's sentences."""
import contextlib
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import ground
import pytest
from service import NOW, Service

import config
import doctor
import keeping
import models
from keeping import Refused
from web import posts

ROOT = Path(__file__).resolve().parent.parent
pytestmark = ground.sqlite_only


def settings_for(folder):
    return config.load({"DATA_DIR": str(folder)}, dotenv=None)


def leave():
    """Step out of DATA_DIR, as a process that ends does."""
    models.database.close_all()
    models.leave()


def list_events(path):
    """[(bot id, event id), ...] in order of arrival"""
    with contextlib.closing(apsw.Connection(str(path))) as db:
        return list(db.execute("SELECT bot_id, event_id FROM post ORDER BY id"))


def damage(path):
    """Overwrite the middle of a database file."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 8192)


@pytest.fixture
def backup(service, tmp_path):
    """A backup of an instance with one influencer and two posts; nobody uses the instance any more."""
    bot = service.make_bot()
    for n in range(2):
        service.post({"eventId": f"e-{n}", "body": "words"}, bot.publish_key.text)
    path = tmp_path / "backup.db"
    keeping.store_backup(service.config, path)
    leave()
    return path


# ---- backing up ---------------------------------------------------------------------------------------------------------
def test_every_backup_under_load_restores_with_a_prefix_of_the_posts(service, tmp_path):
    bots = [service.make_bot(name).bot.id for name in ("One", "Two", "Three")]
    acknowledged, stopped = dict.fromkeys(bots, 0), threading.Event()

    def publish(bot):
        with models.database.connection_context():
            while not stopped.is_set():
                posts.publish(bot, posts.PostBody(eventId=f"e-{acknowledged[bot]}", body="x" * 500), NOW)
                acknowledged[bot] += 1
    threads = [threading.Thread(target=publish, args=[bot]) for bot in bots]
    for thread in threads:
        thread.start()
    try:
        for n in range(5):
            time.sleep(0.05)
            before = dict(acknowledged)
            keeping.store_backup(service.config, tmp_path / f"{n}.db")
            after = {bot: count + 1 for bot, count in acknowledged.items()}    # one more may be stored and not acknowledged yet
            keeping.restore_backup(settings_for(tmp_path / f"restored-{n}"), tmp_path / f"{n}.db", False, NOW)
            found = list_events(tmp_path / f"restored-{n}" / "app.db")
            for bot in bots:
                mine = [event for of, event in found if of == bot]
                assert mine == [f"e-{n}" for n in range(len(mine))]
                assert before[bot] <= len(mine) <= after[bot]
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert sum(acknowledged.values()) > 20


def test_a_backup_is_one_private_file_that_says_what_it_holds(service, tmp_path):
    bot = service.make_bot()
    service.post({"eventId": "e", "body": "words"}, bot.publish_key.text)
    old = os.umask(0)
    try:
        holding = keeping.store_backup(service.config, tmp_path / "backup.db")
    finally:
        os.umask(old)
    assert (holding.posts, holding.trades, holding.receipts, holding.schema) == (1, 0, 0, models.list_migrations()[-1])
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["backup.db"]
    with contextlib.closing(apsw.Connection(str(tmp_path / "backup.db"), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        assert db.pragma("journal_mode") == "delete"


def test_an_older_backup_is_replaced_and_nothing_else_is(service, tmp_path):
    target = tmp_path / "backup.db"
    assert keeping.store_backup(service.config, target).posts == 0
    service.post({"eventId": "e", "body": "words"}, service.make_bot().publish_key.text)
    assert keeping.store_backup(service.config, target).posts == 1
    (tmp_path / "letter.txt").write_text("dear friend")
    for path in (tmp_path / "letter.txt", tmp_path, service.config.database_path):
        with pytest.raises(Refused, match="choose a name that is free"):
            keeping.store_backup(service.config, path)
    assert (tmp_path / "letter.txt").read_text() == "dear friend"
    with pytest.raises(Refused, match="no folder"):
        keeping.store_backup(service.config, tmp_path / "nowhere" / "backup.db")


def test_a_damaged_database_gives_no_backup(service, tmp_path):
    for n in range(40):
        service.make_bot(f"Bot {n}")
    leave()
    damage(service.config.database_path)
    with pytest.raises(Refused, match="damaged|malformed"):
        keeping.store_backup(service.config, tmp_path / "backup.db")
    assert not [path for path in tmp_path.iterdir() if "backup" in path.name]


# ---- restoring ----------------------------------------------------------------------------------------------------------
def test_a_backup_serves_where_it_is_restored(backup, tmp_path):
    restored = settings_for(tmp_path / "elsewhere")
    holding, aside = keeping.restore_backup(restored, backup, False, NOW)
    assert (holding.posts, aside) == (2, None)
    other = Service(tmp_path / "elsewhere")
    with models.database.connection_context():
        key = other.make_read_key(models.Owner.get())
    assert [post["eventId"] for post in other.get("/api/v1/feed", key).json["data"]] == ["e-1", "e-0"]
    other.close()


def test_restore_keeps_the_present_database_aside(backup, service):
    with pytest.raises(Refused, match="--replace"):
        keeping.restore_backup(service.config, backup, False, NOW)
    models.connect(service.config)
    with models.database.connection_context():
        models.Arrival.delete().execute()
        models.Post.delete().execute()
    leave()
    _, aside = keeping.restore_backup(service.config, backup, True, NOW)
    assert len(list_events(service.config.database_path)) == 2
    assert list_events(aside) == []
    assert aside.parent == service.config.data_dir


def test_what_stands_only_in_the_wal_is_kept_aside_too(backup, service, tmp_path):
    """A killed server leaves its last writes in app.db-wal; a WAL left beside the restored file would be played into it."""
    database = service.config.database_path
    script = ("import apsw, os, sys; db = apsw.Connection(sys.argv[1]); db.pragma('journal_mode', 'wal'); db.pragma('wal_autocheckpoint', 0); "
              "db.execute(\"UPDATE post SET body = 'late'\"); os._exit(9)")
    subprocess.run([sys.executable, "-c", script, str(database)])
    assert database.with_name("app.db-wal").stat().st_size > 0
    _, aside = keeping.restore_backup(service.config, backup, True, NOW)
    assert not database.with_name("app.db-wal").exists()
    for path, body in ((aside, "late"), (database, "words")):
        with contextlib.closing(apsw.Connection(str(path))) as db:
            assert {text for text, in db.execute("SELECT body FROM post")} == {body}


def test_restore_refuses_what_is_no_whole_backup_of_this_version(backup, service, tmp_path):
    (tmp_path / "letter.txt").write_text("dear friend, " * 1000)
    (tmp_path / "empty.db").touch()
    torn, newer, foreign = (tmp_path / name for name in ("torn.db", "newer.db", "foreign.db"))
    torn.write_bytes(backup.read_bytes()[:-8192])
    newer.write_bytes(backup.read_bytes())
    with contextlib.closing(apsw.Connection(str(newer))) as db:
        db.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2030-01-01')")
    with contextlib.closing(apsw.Connection(str(foreign))) as db:
        db.execute("CREATE TABLE letter (id INTEGER)")
    before = service.config.database_path.read_bytes()
    for path, why in ((tmp_path / "letter.txt", "no database"), (torn, "damaged"), (newer, "newer version"), (foreign, "no database of Candor"),
                      (tmp_path / "empty.db", "no database of Candor"), (tmp_path / "missing.db", "no file")):
        with pytest.raises(Refused, match=why):
            keeping.restore_backup(service.config, path, True, NOW)
    assert service.config.database_path.read_bytes() == before
    assert sorted(path.name for path in service.config.data_dir.glob("app.db*")) == ["app.db"]


def test_a_damaged_database_can_be_replaced(backup, service):
    damage(service.config.database_path)
    _, aside = keeping.restore_backup(service.config, backup, True, NOW)
    assert aside.exists()
    assert len(list_events(service.config.database_path)) == 2


def test_restore_refuses_while_a_server_may_open_the_database(backup, service):
    models.connect(service.config)                          # as each worker does at its start; no connection is open yet
    with pytest.raises(Refused, match="stop it first"):
        keeping.restore_backup(service.config, backup, True, NOW)
    leave()
    keeping.restore_backup(service.config, backup, True, NOW)


def test_restore_refuses_while_another_program_has_the_file_open(backup, service):
    with contextlib.closing(apsw.Connection(str(service.config.database_path))) as shell:
        shell.pragma("journal_mode", "wal")
        shell.execute("SELECT COUNT(*) FROM post").fetchall()
        with pytest.raises(Refused, match="another program"):
            keeping.restore_backup(service.config, backup, True, NOW)
    assert len(list_events(service.config.database_path)) == 2


def test_a_demonstration_is_never_restored(backup, service):
    with contextlib.closing(apsw.Connection(str(backup))) as db:
        db.pragma("application_id", int.from_bytes(config.DEMONSTRATION_ID))
    with pytest.raises(Refused, match="demonstration"):
        keeping.restore_backup(service.config, backup, True, NOW)


# ---- migrating ----------------------------------------------------------------------------------------------------------
def test_a_copy_is_made_before_a_migration_and_only_then(tmp_path, monkeypatch):
    given, names = settings_for(tmp_path / "data"), models.list_migrations()
    migrations = tmp_path / "migrations"
    migrations.mkdir()
    (migrations / f"{names[0]}.py").write_text((ROOT / "migrations" / f"{names[0]}.py").read_text())
    monkeypatch.setattr(models, "MIGRATIONS", migrations)
    assert keeping.migrate(given) == (names[:1], None)      # nothing was there to copy
    assert keeping.migrate(given) == ([], None)
    (migrations / "0002_more.py").write_text("def up(migrator, db):\n    db.execute_sql('CREATE TABLE more (id INTEGER)')\n")
    applied, copy = keeping.migrate(given)
    assert (applied, copy) == (["0002_more"], given.data_dir / "app.db.before-0002_more")
    assert keeping.check_database(copy).schema == names[0]
    assert keeping.check_database(given.database_path).schema == "0002_more"
    leave()


def test_a_newer_or_damaged_database_is_not_migrated(backup, service, monkeypatch):
    path = service.config.database_path
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2030-01-01')")
    with pytest.raises(Refused, match="newer version"):
        keeping.migrate(service.config)
    leave()


# ---- the doctor ---------------------------------------------------------------------------------------------------------
def complain(given, now=NOW):
    """What the doctor calls wrong, as one text."""
    return "\n".join(f"{one.text} -> {one.advice}" for one in doctor.examine(given, now) if one.level == "wrong")


def test_a_healthy_instance_has_nothing_wrong(service):
    service.make_bot()
    models.note_job("observer", "ok", NOW)
    assert complain(service.config) == ""
    assert all(one.advice for one in doctor.examine(service.config, NOW) if one.level == "wrong")


def test_the_doctor_says_what_is_wrong_and_what_to_do(service):
    folder, database = service.config.data_dir, service.config.database_path
    (folder / "secret_key").write_text("")
    (folder / "app.db.before-0002_market").write_bytes(b"x")
    (folder / "notes.txt").write_text("mine")
    os.chmod(folder / "notes.txt", 0o644)
    os.chmod(folder, 0o755)
    service.make_bot()
    models.Owner.update(created_at=NOW - 7_200_000).execute()
    models.note_job("observer", "failing", NOW, "every endpoint rests")
    models.note_job("scout", "ok", NOW - 600_000)
    told = complain(service.config)
    for words in ("secret_key is cut short", "notes.txt", "observer fails (every endpoint rests)", "the job scout gave no sign", "chmod 600"):
        assert words in told
    looked = [one.text for one in doctor.examine(service.config, NOW) if one.level == "look"]
    assert any("before a migration" in text for text in looked) and any("notes.txt" in text and "does not know" in text for text in looked)
    assert "the clock says" in complain(service.config, NOW - 3_600_000)
    leave()
    with contextlib.closing(apsw.Connection(str(database))) as db:
        db.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2030-01-01')")
    assert "newer version" in complain(service.config)
    database.write_bytes(b"not a database" * 100)
    assert "cannot be read" in complain(service.config)


def test_a_job_may_fail_for_an_hour(service):
    service.make_bot()
    for success_at, level in ((NOW - 3_000_000, "look"), (NOW - 4_000_000, "wrong")):
        models.note_job("observer", "ok", success_at)
        models.note_job("observer", "failing", NOW, "every endpoint rests")
        assert [one.level for one in doctor.examine(service.config, NOW) if "observer fails" in one.text] == [level]


def test_the_doctor_finds_broken_pages_and_rows(service):
    for n in range(40):
        service.make_bot(f"Bot {n}")
    with models.database.connection_context():
        models.database.execute_sql("PRAGMA foreign_keys = OFF")
        models.database.execute_sql("DELETE FROM owner WHERE id = 1")
    assert "a row of bot names a missing row of owner" in complain(service.config)
    leave()
    damage(service.config.database_path)
    assert "restore the newest backup" in complain(service.config)


def test_the_doctor_needs_no_instance(tmp_path):
    assert complain(settings_for(tmp_path / "nothing")) == ""
    assert not (tmp_path / "nothing").exists()


# ---- with a real server -------------------------------------------------------------------------------------------------
def test_a_running_server_is_backed_up_and_not_restored_into(tmp_path):
    from bench.backups import free_port, wait_for
    port = free_port()
    env = {**os.environ, "DATA_DIR": str(tmp_path / "data"), "PORT": str(port), "OBSERVER_INTERVAL_SECONDS": "0", "SCOUT_INTERVAL_SECONDS": "0", "PAPER_INTERVAL_SECONDS": "0"}

    def command(*args):
        return subprocess.run([sys.executable, "app.py", *args], cwd=ROOT, env=env, capture_output=True, text=True)
    server = subprocess.Popen([sys.executable, "app.py", "run"], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        assert command("backup", str(tmp_path / "backup.db")).returncode == 0
        refused = command("restore", str(tmp_path / "backup.db"), "--replace")
        assert refused.returncode == 1 and "stop it first" in refused.stderr
        assert "a server is running here" in command("doctor").stdout
    finally:
        server.terminate()
        server.wait(20)
    done = command("restore", str(tmp_path / "backup.db"), "--replace", "--json")
    assert done.returncode == 0 and "keptAside" in done.stdout
    assert command("doctor").returncode == 0
