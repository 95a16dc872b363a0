"""Backups and restoring them: what is copied, what is refused, and what an interruption leaves."""

import contextlib
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import apsw
import ground
import pytest
from service import NOW, Service

import config
import models
import storage
from accounts import admin, posts
from cli import parser
from operate import backups, doctor, schema
from operate.instance import Refused
from storage import files

pytestmark = ground.sqlite_only
FUTURE = "INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2030-01-01')"


def settings_for(folder):
    return config.load({"DATA_DIR": str(folder)}, dotenv=None)


def leave():
    """Leave DATA_DIR like a process that ends."""
    storage.database.close_all()
    files.unlock_data_dir()


@contextlib.contextmanager
def opened(path):
    with contextlib.closing(apsw.Connection(str(path))) as db:
        yield db


def run(path, sql):
    """The rows of a query on a database file."""
    with opened(path) as db:
        return db.execute(sql).fetchall()


def list_events(path):
    """[(bot id, event id), ...] in order of arrival"""
    return run(path, "SELECT bot_id, event_id FROM post ORDER BY id")


def list_bodies(path):
    return [body for (body,) in run(path, "SELECT DISTINCT body FROM post")]


def restore(given, path, replace=True, now=NOW):
    return backups.restore_backup(given, path, replace, now)


def damage(path):
    """Overwrite the middle of a database file."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 8192)


@pytest.fixture
def elsewhere(tmp_path):
    """The settings of an instance without a database."""
    return settings_for(tmp_path / "elsewhere")


@pytest.fixture
def backup(service, tmp_path):
    """A backup of an unused instance with one bot, two posts and operators who signed in."""
    admin.use_login(admin.make_login(NOW), NOW + 1)
    admin.make_login(NOW + 2)
    bot = service.make_bot()
    for n in range(2):
        service.post({"eventId": f"e-{n}", "body": "words"}, bot.publish_key.text)
    path = tmp_path / "backup.db"
    backups.store_backup(service.config, path)
    leave()
    return path


# ---- backing up ----------------------------------------------------------------------------------
def test_every_backup_under_load_restores_a_prefix_of_the_posts(service, tmp_path):
    bots = [service.make_bot(name).bot.id for name in ("One", "Two", "Three")]
    acknowledged, stopped = dict.fromkeys(bots, 0), threading.Event()

    def publish(bot):
        with storage.database.connection_context():
            while not stopped.is_set():
                body = posts.PostBody(eventId=f"e-{acknowledged[bot]}", body="x" * 500)
                posts.publish(bot, body, NOW)
                acknowledged[bot] += 1

    threads = [threading.Thread(target=publish, args=[bot]) for bot in bots]
    for thread in threads:
        thread.start()
    try:
        for n in range(3):
            time.sleep(0.05)
            before, path = dict(acknowledged), tmp_path / f"{n}.db"
            backups.store_backup(service.config, path)
            after = dict(acknowledged)
            restored = settings_for(tmp_path / f"restored-{n}")
            restore(restored, path)
            found = list_events(restored.database_path)
            for bot in bots:
                mine = [event for of, event in found if of == bot]
                assert mine == [f"e-{n}" for n in range(len(mine))]
                # One more may be stored without an acknowledgment.
                assert before[bot] <= len(mine) <= after[bot] + 1
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert sum(acknowledged.values()) > 20


def test_a_backup_is_one_private_file_that_replaces_only_a_backup(service, tmp_path):
    target, letter = tmp_path / "backup.db", tmp_path / "letter.txt"
    old = os.umask(0)
    try:
        assert backups.store_backup(service.config, target).posts == 0
        service.post({"eventId": "e", "body": "words"}, service.make_bot().publish_key.text)
        holding = backups.store_backup(service.config, target)
    finally:
        os.umask(old)
    held = (holding.posts, holding.trades, holding.receipts, holding.schema)
    assert held == (1, 0, 0, storage.list_migrations()[-1])
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [target]
    assert run(target, "PRAGMA journal_mode") == [("delete",)]
    letter.write_text("dear friend")
    for path in (letter, tmp_path, service.config.database_path):
        with pytest.raises(Refused, match="choose another name"):
            backups.store_backup(service.config, path)
    assert letter.read_text() == "dear friend"
    with pytest.raises(Refused, match="no folder"):
        backups.store_backup(service.config, tmp_path / "nowhere" / "backup.db")


def test_leftovers_of_a_killed_copy_are_reported_and_removed(service, tmp_path):
    """By the next start in DATA_DIR, or by the next backup to the same file elsewhere; files that
    another process is writing stay.
    """
    folder = service.config.data_dir
    for end in ("", "-journal"):
        (folder / f".app.db.before-0002_more.77.partial{end}").write_bytes(b"half")
    (tmp_path / ".backup.db.77.partial").write_bytes(b"half")
    busy = tmp_path / ".backup.db.78.partial"
    with open(busy, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = doctor.examine(service.config, NOW)
        assert any("an interrupted copy left" in one.text for one in found)
        backups.store_backup(service.config, tmp_path / "backup.db")
        assert busy.exists() and not (tmp_path / ".backup.db.77.partial").exists()
    leave()
    backups.migrate(service.config)
    leave()
    assert not list(folder.glob(".*"))


# ---- restoring -----------------------------------------------------------------------------------
def test_a_backup_serves_where_it_is_restored_without_the_operators_sessions(backup, elsewhere):
    holding, aside = restore(elsewhere, backup, replace=False)
    assert (holding.posts, aside) == (2, None)
    # The recorded sign-ins stay.
    for name, count in (("admin_login", 0), ("admin_session", 0), ("admin_act", 3)):
        assert run(elsewhere.database_path, f"SELECT COUNT(*) FROM {name}") == [(count,)]
    other = Service(elsewhere.data_dir)
    with storage.database.connection_context():
        key = other.make_read_key(models.Owner.get())
    found = other.get("/api/v1/feed", key).json["data"]
    assert [post["eventId"] for post in found] == ["e-1", "e-0"]
    other.close()


def test_restore_keeps_the_current_database_aside(backup, service, monkeypatch):
    """Even if it is damaged, and where hard links are missing."""
    path = service.config.database_path
    with pytest.raises(Refused, match="--replace"):
        restore(service.config, backup, replace=False)
    run(path, "UPDATE post SET body = 'newer'")
    _, aside = restore(service.config, backup)
    assert list_bodies(path) == ["words"]
    assert (list_bodies(aside), aside.parent) == (["newer"], service.config.data_dir)
    monkeypatch.setattr(os, "link", mock.Mock(side_effect=PermissionError))
    _, aside = restore(service.config, backup, now=NOW + 1)
    assert backups.check_database(aside).posts == 2
    damage(path)
    _, aside = restore(service.config, backup, now=NOW + 2)
    assert aside.exists() and len(list_events(path)) == 2


def test_restore_keeps_writes_that_are_only_in_the_wal(backup, service):
    """A killed server leaves its last writes in app.db-wal; SQLite would apply a leftover WAL to
    the restored file.
    """
    database = service.config.database_path
    script = (
        "import apsw, os, sys; db = apsw.Connection(sys.argv[1]); db.pragma('journal_mode', 'wal');"
        " db.pragma('wal_autocheckpoint', 0); db.execute(\"UPDATE post SET body = 'late'\");"
        " os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(database)])
    assert database.with_name("app.db-wal").stat().st_size > 0
    _, aside = restore(service.config, backup)
    assert not database.with_name("app.db-wal").exists()
    assert (list_bodies(aside), list_bodies(database)) == (["late"], ["words"])


def test_leftovers_of_an_interrupted_restore_are_not_applied(backup, service):
    """Of the file that it was about to create, with a WAL and a journal."""
    folder = service.config.data_dir
    left, wal = folder / "app.db.restored", folder / "app.db.restored-wal"
    left.write_bytes(backup.read_bytes())
    with opened(left) as db:
        db.pragma("journal_mode", "wal")
        db.execute("UPDATE post SET body = 'of the interrupted one'")
        held = wal.read_bytes()
    wal.write_bytes(held)
    left.with_name("app.db.restored-journal").write_bytes(b"of the interrupted one")
    restore(service.config, backup)
    assert list_bodies(service.config.database_path) == ["words"]
    assert not list(folder.glob("app.db.restored*"))


def test_a_restore_interrupted_late_leaves_the_current_database(backup, service, monkeypatch):
    """It then has a second name, which the next start removes."""
    before, folder = list_events(service.config.database_path), service.config.data_dir
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", mock.Mock(side_effect=KeyboardInterrupt))
        for name in ("store_copy", "_prepare", "open_after_restore"):
            patch.setattr(backups, name, lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            restore(service.config, backup)
    for names in (1, 0):
        assert len(list(folder.glob("app.db.replaced-*"))) == names
        assert list_events(service.config.database_path) == before
        backups.migrate(service.config)
        leave()


def test_a_running_server_can_be_backed_up_but_not_restored_into(
    service, tmp_path, monkeypatch, capsys
):
    """A worker opens the database at startup, and this one serves."""
    path = str(tmp_path / "backup.db")
    monkeypatch.setenv("DATA_DIR", str(service.config.data_dir))
    found = doctor.examine(service.config, NOW)
    assert "the server is running" in [one.text for one in found if one.level == "fine"]
    assert parser.main(["backup", path]) == 0
    storage.connect(service.config)
    assert parser.main(["restore", path, "--replace"]) == 1
    assert "stop it first" in capsys.readouterr().err
    leave()
    assert parser.main(["restore", path, "--replace", "--json"]) == 0
    kept = json.loads(capsys.readouterr().out)["keptAside"]
    assert Path(kept).parent == service.config.data_dir


def test_restore_refuses_while_another_program_has_the_file_open(backup, service):
    with opened(service.config.database_path) as shell:
        shell.pragma("journal_mode", "wal")
        shell.execute("SELECT COUNT(*) FROM post").fetchall()
        with pytest.raises(Refused, match="another program"):
            restore(service.config, backup)
    assert len(list_events(service.config.database_path)) == 2


# ---- files that are not backups ------------------------------------------------------------------
ENDLESS = "WITH RECURSIVE n(name) AS (SELECT 'a' UNION ALL SELECT name FROM n) SELECT name FROM n"
DEMONSTRATION = f"PRAGMA application_id = {int.from_bytes(config.DEMONSTRATION_ID)}"
ENDLESS_MIGRATIONS = (
    f"ALTER TABLE schema_migration RENAME TO kept; CREATE VIEW schema_migration AS {ENDLESS}"
)


def make_foreign(path):
    path.unlink()
    run(path, "CREATE TABLE letter (id INTEGER)")


def write_unreadable_name(path):
    run(path, "CREATE TABLE xyzzyplugh (id INTEGER)")
    path.write_bytes(path.read_bytes().replace(b"xyzzyplugh", b"xyzzy\xff\xfeugh"))


# What is done to a backup, and the refusal.
NO_BACKUP = {
    "a letter": (lambda path: path.write_text("dear friend, " * 1000), "not a database"),
    "torn": (lambda path: path.write_bytes(path.read_bytes()[:-8192]), "damaged"),
    "newer": (lambda path: run(path, FUTURE), "newer version"),
    "foreign": (make_foreign, "not a Candor database"),
    "endless": (lambda path: run(path, ENDLESS_MIGRATIONS), "not a Candor database"),
    "empty": (lambda path: path.write_bytes(b""), "not a Candor database"),
    "missing": (lambda path: path.unlink(), "no file"),
    "demonstration": (lambda path: run(path, DEMONSTRATION), "belongs to a demo"),
    "unreadable name": (write_unreadable_name, "UTF-8|differs from what Candor creates"),
}


@pytest.mark.parametrize("what", NO_BACKUP)
def test_restore_refuses_an_incomplete_or_incompatible_backup(backup, service, what):
    before = service.config.database_path.read_bytes()
    change, why = NO_BACKUP[what]
    change(backup)
    with pytest.raises(Refused, match=why):
        restore(service.config, backup)
    assert service.config.database_path.read_bytes() == before
    assert [path.name for path in service.config.data_dir.glob("app.db*")] == ["app.db"]


def test_a_newer_database_is_not_migrated(service):
    run(service.config.database_path, FUTURE)
    with pytest.raises(Refused, match="newer version"):
        backups.migrate(service.config)
    leave()


# ---- what somebody else put into the file --------------------------------------------------------
FOREIGN = {
    "a trigger on insert": (
        "CREATE TRIGGER steal AFTER INSERT ON post BEGIN UPDATE post SET status = 'verified' WHERE"
        " id = NEW.id; END"
    ),
    "a view": "CREATE VIEW everything AS SELECT hash FROM key",
    "an endless view": f"CREATE VIEW endless AS {ENDLESS}",
    "a table": "CREATE TABLE luggage (words TEXT)",
    "a virtual table": "CREATE VIRTUAL TABLE words USING fts5(body)",
    "an index over an expression": "CREATE INDEX costly ON post (length(hex(body)))",
    "another kind of table": (
        "DROP TABLE job; CREATE TABLE job (name TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL,"
        " heartbeat_at INTEGER, last_success_at INTEGER, last_error TEXT, details TEXT NOT NULL)"
        " WITHOUT ROWID, STRICT"
    ),
    "a generated column": "ALTER TABLE post ADD COLUMN loud TEXT AS (upper(body))",
}
# Changes of a table's SQL that no statement could make.
REWRITTEN = {
    "a check": ("key", "STRICT", "STRICT", ", CHECK (length(randomblob(1)) = 1))"),
    "a type": ("bot", '"bio" TEXT NOT NULL', '"bio" TEXT', ")"),
}


def tamper(path, what):
    if what in FOREIGN:
        run(path, FOREIGN[what])
        return
    table, given, put, end = REWRITTEN[what]
    with opened(path) as db:
        sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
        head, _, tail = sql.replace(given, put, 1).rpartition(")")
        assert given in sql
        db.pragma("writable_schema", 1)
        changed = f"{head}{end}{tail}"
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (changed, table))


@pytest.mark.parametrize("what", [*FOREIGN, *REWRITTEN])
def test_restore_refuses_an_altered_schema_and_doctor_names_it(backup, elsewhere, what):
    tamper(backup, what)
    with pytest.raises(Refused, match="differs from what Candor creates"):
        restore(elsewhere, backup)
    assert not elsewhere.database_path.exists()
    with contextlib.closing(backups.open_reading(backup)) as db:
        found = list(doctor.check_foreign(db, backup))
    assert found and all(finding.level == "wrong" for finding in found)


def test_a_changed_schema_is_described_and_only_litestreams_own_tables_are_accepted(
    backup, elsewhere
):
    with opened(backup) as db:
        db.execute("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        db.execute("CREATE TABLE _litestream_lock (id INTEGER)")
        assert schema.list_foreign(db) == []
    restore(elsewhere, backup)
    with opened(backup) as db:
        db.execute("ALTER TABLE _litestream_lock ADD COLUMN more TEXT DEFAULT (random())")
        db.execute("DROP INDEX attachment_open_wallet")
        db.pragma("application_id", 0x47504B47)
        assert schema.list_foreign(db) == [
            "the table '_litestream_lock' isn't Candor's",
            "the index 'attachment_open_wallet' on 'attachment' is missing",
            "its header names another program (application_id)",
        ]


def test_a_backup_of_an_altered_schema_is_made_with_a_note(service, tmp_path, monkeypatch, capsys):
    """An instance running on it needs a backup anyway."""
    storage.database.execute_sql(FOREIGN["a view"])
    monkeypatch.setenv("DATA_DIR", str(service.config.data_dir))
    assert parser.main(["backup", str(tmp_path / "backup.db")]) == 0
    assert "the view 'everything' isn't Candor's" in capsys.readouterr().err


def test_connections_do_not_trust_the_schema(service, tmp_path):
    assert storage.database.execute_sql("PRAGMA trusted_schema").fetchone() == (0,)
    assert storage.database.data_version()[0].pragma("trusted_schema") == 0
    reading = backups.open_reading(service.config.database_path)
    for db in (apsw.Connection(str(tmp_path / "any.db")), reading):
        with contextlib.closing(db):
            assert db.pragma("trusted_schema") == 0
