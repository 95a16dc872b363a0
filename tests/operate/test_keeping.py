"""Backups, restoring, migrations with a copy, and the doctor's findings."""

import contextlib
import fcntl
import json
import os
import re
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
import jobs
import models
import storage
from accounts import admin, posts
from cli import parser
from operate import backups, doctor, schema
from operate.instance import Refused
from storage import files

pytestmark = ground.sqlite_only


def settings_for(folder):
    return config.load({"DATA_DIR": str(folder)}, dotenv=None)


def leave():
    """Leave DATA_DIR like a process that ends."""
    storage.database.close_all()
    files.unlock_data_dir()


def read(path, sql):
    """The rows of a query on a database file."""
    with opened(path) as db:
        return db.execute(sql).fetchall()


def list_events(path):
    """[(bot id, event id), ...] in order of arrival"""
    return read(path, "SELECT bot_id, event_id FROM post ORDER BY id")


@contextlib.contextmanager
def opened(path):
    with contextlib.closing(apsw.Connection(str(path))) as db:
        yield db


FUTURE = "INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2030-01-01')"


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
    """A backup of an unused instance with one bot and two posts."""
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
                posts.publish(
                    bot, posts.PostBody(eventId=f"e-{acknowledged[bot]}", body="x" * 500), NOW
                )
                acknowledged[bot] += 1

    threads = [threading.Thread(target=publish, args=[bot]) for bot in bots]
    for thread in threads:
        thread.start()
    try:
        for n in range(3):
            time.sleep(0.05)
            before = dict(acknowledged)
            backups.store_backup(service.config, tmp_path / f"{n}.db")
            # One more may be stored without an acknowledgment.
            after = {bot: count + 1 for bot, count in acknowledged.items()}
            backups.restore_backup(
                settings_for(tmp_path / f"restored-{n}"), tmp_path / f"{n}.db", False, NOW
            )
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


def test_a_backup_is_one_private_file_describing_itself(service, tmp_path):
    bot = service.make_bot()
    service.post({"eventId": "e", "body": "words"}, bot.publish_key.text)
    old = os.umask(0)
    try:
        holding = backups.store_backup(service.config, tmp_path / "backup.db")
    finally:
        os.umask(old)
    held = (holding.posts, holding.trades, holding.receipts, holding.schema)
    assert held == (1, 0, 0, storage.list_migrations()[-1])
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["backup.db"]
    assert read(tmp_path / "backup.db", "PRAGMA journal_mode") == [("delete",)]


def test_only_an_older_backup_is_replaced(service, tmp_path):
    target = tmp_path / "backup.db"
    assert backups.store_backup(service.config, target).posts == 0
    service.post({"eventId": "e", "body": "words"}, service.make_bot().publish_key.text)
    assert backups.store_backup(service.config, target).posts == 1
    (tmp_path / "letter.txt").write_text("dear friend")
    for path in (tmp_path / "letter.txt", tmp_path, service.config.database_path):
        with pytest.raises(Refused, match="choose another name"):
            backups.store_backup(service.config, path)
    assert (tmp_path / "letter.txt").read_text() == "dear friend"
    with pytest.raises(Refused, match="no folder"):
        backups.store_backup(service.config, tmp_path / "nowhere" / "backup.db")


# ---- restoring -----------------------------------------------------------------------------------
def test_a_backup_serves_where_it_is_restored(backup, elsewhere):
    holding, aside = backups.restore_backup(elsewhere, backup, False, NOW)
    assert (holding.posts, aside) == (2, None)
    other = Service(elsewhere.data_dir)
    with storage.database.connection_context():
        key = other.make_read_key(models.Owner.get())
    found = other.get("/api/v1/feed", key).json["data"]
    assert [post["eventId"] for post in found] == ["e-1", "e-0"]
    other.close()


def test_restore_signs_the_operator_out_and_keeps_recorded_actions(service, elsewhere, tmp_path):
    admin.use_login(admin.make_login(NOW), NOW + 1)
    admin.make_login(NOW + 2)
    backups.store_backup(service.config, tmp_path / "backup.db")
    leave()
    backups.restore_backup(elsewhere, tmp_path / "backup.db", False, NOW)
    for name, count in (("admin_login", 0), ("admin_session", 0), ("admin_act", 3)):
        assert read(elsewhere.database_path, f"SELECT COUNT(*) FROM {name}") == [(count,)]


def test_restore_keeps_the_current_database_aside(backup, service):
    with pytest.raises(Refused, match="--replace"):
        backups.restore_backup(service.config, backup, False, NOW)
    storage.connect(service.config)
    with storage.database.connection_context():
        models.Arrival.delete().execute()
        models.Post.delete().execute()
    leave()
    _, aside = backups.restore_backup(service.config, backup, True, NOW)
    assert len(list_events(service.config.database_path)) == 2
    assert list_events(aside) == []
    assert aside.parent == service.config.data_dir


def test_restore_keeps_writes_that_are_only_in_the_wal(backup, service, tmp_path):
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
    _, aside = backups.restore_backup(service.config, backup, True, NOW)
    assert not database.with_name("app.db-wal").exists()
    for path, body in ((aside, "late"), (database, "words")):
        assert read(path, "SELECT DISTINCT body FROM post") == [(body,)]


def test_leftovers_of_an_interrupted_restore_are_not_applied(backup, service):
    """A WAL and a journal next to the file that it was about to create."""
    folder = service.config.data_dir
    left = folder / "app.db.restored"
    left.write_bytes(backup.read_bytes())
    with opened(left) as db:
        db.pragma("journal_mode", "wal")
        db.execute("UPDATE post SET body = 'of the interrupted one'")
        held = left.with_name("app.db.restored-wal").read_bytes()
    left.with_name("app.db.restored-wal").write_bytes(held)
    left.with_name("app.db.restored-journal").write_bytes(b"of the interrupted one")
    backups.restore_backup(service.config, backup, True, NOW)
    found = read(service.config.database_path, "SELECT DISTINCT body FROM post")
    assert found == [("words",)]
    assert not list(folder.glob("app.db.restored*"))


def test_a_restore_interrupted_late_leaves_the_current_database(backup, service, monkeypatch):
    """It then has a second name, which the next start removes."""
    before, folder = list_events(service.config.database_path), service.config.data_dir

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop)
        patch.setattr(backups, "store_copy", lambda *_: None)
        for name in ("_prepare", "open_after_restore"):
            patch.setattr(backups, name, lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            backups.restore_backup(service.config, backup, True, NOW)
    assert len(list(folder.glob("app.db.replaced-*"))) == 1
    assert list_events(service.config.database_path) == before
    backups.migrate(service.config)
    leave()
    assert not list(folder.glob("app.db.replaced-*"))
    assert list_events(service.config.database_path) == before


def test_the_database_is_renamed_where_hard_links_are_missing(backup, service, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    restored = backups.restore_backup(service.config, backup, True, NOW)
    assert backups.check_database(restored.kept_aside).posts == 2


def test_restore_refuses_an_incomplete_or_incompatible_backup(backup, service, tmp_path):
    (tmp_path / "letter.txt").write_text("dear friend, " * 1000)
    (tmp_path / "empty.db").touch()
    torn, newer, foreign = (tmp_path / name for name in ("torn.db", "newer.db", "foreign.db"))
    torn.write_bytes(backup.read_bytes()[:-8192])
    newer.write_bytes(backup.read_bytes())
    read(newer, FUTURE)
    read(foreign, "CREATE TABLE letter (id INTEGER)")
    before = service.config.database_path.read_bytes()
    for path, why in (
        (tmp_path / "letter.txt", "not a database"),
        (torn, "damaged"),
        (newer, "newer version"),
        (foreign, "not a Candor database"),
        (tmp_path / "empty.db", "not a Candor database"),
        (tmp_path / "missing.db", "no file"),
    ):
        with pytest.raises(Refused, match=why):
            backups.restore_backup(service.config, path, True, NOW)
    assert service.config.database_path.read_bytes() == before
    assert sorted(path.name for path in service.config.data_dir.glob("app.db*")) == ["app.db"]


def test_a_damaged_database_can_be_replaced(backup, service):
    damage(service.config.database_path)
    _, aside = backups.restore_backup(service.config, backup, True, NOW)
    assert aside.exists()
    assert len(list_events(service.config.database_path)) == 2


def test_a_running_server_can_be_backed_up_but_not_restored_into(
    service, tmp_path, monkeypatch, capsys
):
    """A worker opens the database at startup, and this one serves."""
    path = str(tmp_path / "backup.db")
    monkeypatch.setenv("DATA_DIR", str(service.config.data_dir))
    assert "the server is running" in [
        one.text for one in doctor.examine(service.config, NOW) if one.level == "fine"
    ]
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
            backups.restore_backup(service.config, backup, True, NOW)
    assert len(list_events(service.config.database_path)) == 2


def test_a_demonstration_is_never_restored(backup, service):
    read(backup, f"PRAGMA application_id = {int.from_bytes(config.DEMONSTRATION_ID)}")
    with pytest.raises(Refused, match="demonstration"):
        backups.restore_backup(service.config, backup, True, NOW)


# ---- what somebody else put into the file --------------------------------------------------------
FOREIGN = {
    "a trigger on insert": (
        "CREATE TRIGGER steal AFTER INSERT ON post BEGIN UPDATE post SET status = 'verified' WHERE"
        " id = NEW.id; END"
    ),
    "a view": "CREATE VIEW everything AS SELECT hash FROM key",
    "an endless view": (
        "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT i FROM n"
    ),
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
        read(path, FOREIGN[what])
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
        backups.restore_backup(elsewhere, backup, False, NOW)
    assert not elsewhere.database_path.exists()
    with contextlib.closing(backups.open_reading(backup)) as db:
        found = list(doctor.check_foreign(db, backup))
    assert found and all(finding.level == "wrong" for finding in found)


def test_a_missing_index_and_another_header_are_reported(backup):
    with opened(backup) as db:
        db.execute("DROP INDEX attachment_open_wallet")
        db.pragma("application_id", 0x47504B47)
        told = schema.list_foreign(db)
    assert told == [
        "the index 'attachment_open_wallet' on 'attachment' is missing",
        "its header names another program (application_id)",
    ]


LITESTREAM = (
    "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
    "CREATE TABLE _litestream_lock (id INTEGER)",
)


def test_only_litestreams_own_tables_are_accepted(backup, elsewhere):
    with opened(backup) as db:
        for statement in LITESTREAM:
            db.execute(statement)
        assert schema.list_foreign(db) == []
    backups.restore_backup(elsewhere, backup, False, NOW)
    with opened(backup) as db:
        db.execute("ALTER TABLE _litestream_lock ADD COLUMN more TEXT DEFAULT (random())")
        told = schema.list_foreign(db)
    assert told == ["the table '_litestream_lock' isn't Candor's"]


ENDLESS_MIGRATIONS = (
    "ALTER TABLE schema_migration RENAME TO kept; CREATE VIEW schema_migration AS"
    " WITH RECURSIVE n(name) AS (SELECT 'a' UNION ALL SELECT name FROM n) SELECT name FROM n"
)


def test_restore_refuses_names_it_cannot_read(backup, elsewhere):
    before = backup.read_bytes()
    read(backup, ENDLESS_MIGRATIONS)
    with pytest.raises(Refused, match="not a Candor database"):
        backups.restore_backup(elsewhere, backup, False, NOW)
    backup.write_bytes(before)
    read(backup, "CREATE TABLE xyzzyplugh (id INTEGER)")
    backup.write_bytes(backup.read_bytes().replace(b"xyzzyplugh", b"xyzzy\xff\xfeugh"))
    with pytest.raises(Refused, match="UTF-8|differs from what Candor creates"):
        backups.restore_backup(elsewhere, backup, False, NOW)


def test_a_backup_of_an_altered_schema_is_made_with_a_note(service, tmp_path, monkeypatch, capsys):
    """An instance running on it needs a backup anyway."""
    storage.database.execute_sql(FOREIGN["a view"])
    holding = backups.store_backup(service.config, tmp_path / "backup.db")
    assert holding.foreign == ("the view 'everything' isn't Candor's",)
    monkeypatch.setenv("DATA_DIR", str(service.config.data_dir))
    assert parser.main(["backup", str(tmp_path / "backup.db")]) == 0
    assert "everything" in capsys.readouterr().err


def test_connections_do_not_trust_the_schema(service, tmp_path):
    assert storage.database.execute_sql("PRAGMA trusted_schema").fetchone() == (0,)
    assert storage.database.data_version()[0].pragma("trusted_schema") == 0
    for db in (
        apsw.Connection(str(tmp_path / "any.db")),
        backups.open_reading(service.config.database_path),
    ):
        with contextlib.closing(db):
            assert db.pragma("trusted_schema") == 0


# ---- migrating -----------------------------------------------------------------------------------
def test_a_newer_database_is_not_migrated(backup, service):
    read(service.config.database_path, FUTURE)
    with pytest.raises(Refused, match="newer version"):
        backups.migrate(service.config)
    leave()


# ---- the doctor ----------------------------------------------------------------------------------
def complain(given, now=NOW):
    """The doctor's `wrong` findings as one text."""
    return "\n".join(
        f"{one.text} -> {one.advice}" for one in doctor.examine(given, now) if one.level == "wrong"
    )


def look(given):
    """The doctor's hints."""
    return [one.text for one in doctor.examine(given, NOW) if one.level == "look"]


def test_a_healthy_instance_has_no_findings(service):
    service.make_bot()
    jobs.note_job("observer", "ok", NOW)
    assert complain(service.config) == ""


def test_an_interrupted_transaction_is_rolled_back_before_reading(tmp_path, service):
    """A journal shows it; a reader couldn't roll it back."""
    given, path = settings_for(tmp_path / "cut"), service.config.database_path
    given.data_dir.mkdir(mode=0o700)
    leave()
    with opened(path) as db:
        db.pragma("journal_mode", "delete")
        # So that pages are written before the transaction ends.
        db.pragma("cache_size", 1)
        db.execute("BEGIN")
        db.execute("CREATE TABLE more (id INTEGER)")
        for _ in range(50):
            db.execute("INSERT INTO more VALUES (randomblob(4000))")
        for side in ("", "-journal"):
            copy = given.data_dir / f"app.db{side}"
            copy.write_bytes(path.with_name(f"app.db{side}").read_bytes())
            copy.chmod(0o600)
        db.execute("ROLLBACK")
    assert complain(given) == ""
    assert backups.store_backup(given, tmp_path / "safe.db").foreign == ()


def test_doctor_says_what_is_wrong_and_what_to_do(service):
    folder, database = service.config.data_dir, service.config.database_path
    (folder / "secret_key").write_text("")
    (folder / "app.db.before-0002_more").write_bytes(b"x")
    (folder / "notes.txt").write_text("mine")
    (folder / "server.log").touch(0o600)
    os.chmod(folder / "notes.txt", 0o644)
    os.chmod(folder, 0o755)
    service.make_bot()
    models.Owner.update(created_at=NOW - 7_200_000).execute()
    jobs.note_job("observer", "failing", NOW, "every endpoint is paused")
    jobs.note_job("scout", "ok", NOW - 600_000)
    told = complain(service.config)
    for words in ("secret_key is too short", "notes.txt", "chmod 600"):
        assert words in told
    assert "observer is failing (every endpoint is paused)" in told
    assert "the job scout has not run since" in told
    looked = "\n".join(look(service.config))
    assert "before a migration" in looked and re.search("notes.txt.*an unknown file", looked)
    # `app.py demo` writes this file and prints its path.
    assert "server.log" not in looked
    assert "the clock says" in complain(service.config, NOW - 3_600_000)
    leave()
    read(database, FUTURE)
    assert "newer version" in complain(service.config)
    database.write_bytes(b"not a database" * 100)
    assert "cannot be read" in complain(service.config)


def test_a_job_may_fail_for_an_hour_before_a_finding(service):
    service.make_bot()
    for success_at, level in ((NOW - 3_000_000, "look"), (NOW - 4_000_000, "wrong")):
        jobs.note_job("observer", "ok", success_at)
        jobs.note_job("observer", "failing", NOW, "every endpoint is paused")
        found = doctor.examine(service.config, NOW)
        assert [one.level for one in found if "observer is failing" in one.text] == [level]


def test_doctor_finds_damaged_pages_and_rows(service):
    for n in range(40):
        service.make_bot(f"Bot {n}")
    with storage.database.connection_context():
        storage.database.execute_sql("PRAGMA foreign_keys = OFF")
        storage.database.execute_sql("DELETE FROM owner WHERE id = 1")
    assert "a row of bot refers to a missing row of owner" in complain(service.config)
    leave()
    damage(service.config.database_path)
    assert "restore the newest backup" in complain(service.config)


def test_doctor_reports_a_read_only_or_missing_database(service):
    service.make_bot()
    leave()
    path = service.config.database_path
    path.chmod(0o400)
    assert "app.db is read-only" in complain(service.config)
    for file in service.config.data_dir.glob("app.db*"):
        # a reader made app.db-shm, with the mode of app.db
        file.chmod(0o600)
    assert complain(service.config) == ""
    (service.config.data_dir / "secret_key").write_text("0" * 64)
    path.unlink()
    assert "app.db is missing" in complain(service.config)


@pytest.mark.parametrize(
    "change", ["session SET seen_at", "wallet SET polled_at", "key SET created_at"]
)
def test_doctor_reports_rows_from_the_future(service, change):
    """A clock ran fast and was corrected, or is now slow."""
    bot = service.make_bot()
    models.Session.create(owner=bot.owner, hash="0" * 64, created_at=NOW, seen_at=NOW)
    models.Wallet.create(address="a", bot=bot.bot, created_at=NOW)
    assert complain(service.config) == ""
    storage.database.execute_sql(f"UPDATE {change} = ?", (NOW + 86_400_000,))
    told = complain(service.config)
    assert "1 d behind the newest stored time" in told and "timedatectl set-ntp true" in told
    assert "If it is right, it was ahead" in told
    assert "this program is newer" in complain(service.config, 1_000)


@pytest.mark.parametrize(
    "off_seconds, words, advice",
    [
        (-7_500, "2 h 5 min behind", "the clock is wrong"),
        (90_061, "1 d 1 h later", "the endpoint lags"),
        (100, "1 min 40 s later", "the endpoint lags"),
    ],
)
def test_doctor_reports_clock_differences_from_a_node(off_seconds, words, advice):
    told = doctor.compare_clock(2, NOW, NOW + 1000 * off_seconds)
    assert told.level == "wrong" and "endpoint 2" in told.text
    assert told.text.endswith(words) and advice in told.advice and "timedatectl" in told.advice


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
        assert any("an interrupted copy left" in text for text in look(service.config))
        backups.store_backup(service.config, tmp_path / "backup.db")
        assert busy.exists() and not (tmp_path / ".backup.db.77.partial").exists()
    leave()
    backups.migrate(service.config)
    assert not list(folder.glob(".*"))
    leave()


def test_doctor_works_without_an_instance(elsewhere):
    assert complain(elsewhere) == "" and not elsewhere.data_dir.exists()
