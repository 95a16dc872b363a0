"""Migrations after the first one, with an invented second step."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import ground
import pytest
from peewee import BigIntegerField, ForeignKeyField, IntegerField, TextField

import storage
from models import Base, Owner, Wallet
from operate import backups, schema
from operate.instance import Refused
from storage import files

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND = "0001_schema", "0002_more"
STEP = """
def up(migrator, db):
    db.execute_sql('CREATE TABLE "more" ("id" {integer} NOT NULL PRIMARY KEY){strict}')
    db.execute_sql('ALTER TABLE "logged_wallet" ADD COLUMN "note" {text}')
    db.execute_sql("UPDATE owner SET posts_bytes = posts_bytes + 1")
"""
POSTGRESQL = {"integer": "BIGINT", "strict": "", "text": 'TEXT COLLATE "C"'}
SQLITE = {"integer": "INTEGER", "strict": " STRICT", "text": "TEXT"}
STEP = STEP.format(**(POSTGRESQL if ground.SERVER else SQLITE))
FAILS = """
def up(migrator, db):
    db.execute_sql("DELETE FROM owner")
    1 / 0
"""
# It prints that it has begun, and waits to be killed.
HANGS = """
def up(migrator, db):
    db.execute_sql("DELETE FROM owner")
    print("begun", flush=True)
    input()
"""


class More(Base):
    id = IntegerField(primary_key=True)


class LoggedWallet(Base):
    """As in evidence.tables, with one more column in the middle."""

    wallet = ForeignKeyField(Wallet, primary_key=True, backref="+")
    note = TextField(null=True)
    leaf_id = BigIntegerField()

    class Meta:
        table_name = "logged_wallet"


NEWER = (*(one for one in schema.TABLES if one.__name__ != "LoggedWallet"), LoggedWallet, More)


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """plant(source): give this version a second migration with this source."""
    folder = tmp_path / "migrations"
    shutil.copytree(storage.MIGRATIONS, folder)
    storage.read_fresh_schema.cache_clear()

    def add(source=STEP):
        (folder / f"{SECOND}.py").write_text(source)
        monkeypatch.setattr(storage, "MIGRATIONS", folder)
        monkeypatch.setattr(schema, "TABLES", NEWER)
        return folder

    yield add
    storage.read_fresh_schema.cache_clear()


@pytest.fixture
def given(tmp_path):
    """Settings of an instance without a database."""
    (tmp_path / "data").mkdir(mode=0o700)
    more = {"DATABASE_URL": ground.url_of(tmp_path, False)} if ground.SERVER else {}
    return ground.settings_of(tmp_path / "data", **more)


@pytest.fixture
def older(given):
    """Settings of an instance of the previous version, with one owner."""
    backups.migrate(given)
    with storage.database.connection_context():
        Owner.create(uid="owner_1", created_at=1)
    leave()
    return given


def leave():
    storage.database.close_all()
    files.unlock_data_dir()


def read(given):
    """The applied migrations, and the sums changed by the second one."""
    database = storage.make_database(given)
    with database.connection_context():
        owners = database.execute_sql("SELECT posts_bytes FROM owner").fetchall()
        found = storage.list_applied(database), [size for (size,) in owners]
    database.close_all()
    return found


def start(given, folder):
    """Start a process that migrates with these migrations and prints what it applied."""
    code = (
        "import json, pathlib, storage, config; from operate import backups;"
        f"storage.MIGRATIONS = pathlib.Path({str(folder)!r});"
        "print(json.dumps(backups.migrate(config.load(dotenv=None)).names))"
    )
    environ = {"DATA_DIR": str(given.data_dir), "DATABASE_URL": given.database_url or ""}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-c", code]
    return subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **environ}, **pipes)


def test_a_new_database_has_the_newest_schema(given, plant):
    plant(FAILS)
    assert backups.migrate(given) == ([FIRST, SECOND], None)
    assert backups.migrate(given) == ([], None)
    with storage.database.connection_context():
        assert storage.database.table_exists("more")
    leave()
    assert read(given)[0] == [FIRST, SECOND]


def test_an_older_database_is_copied_and_migrated(older, plant):
    plant()
    applied, copy = backups.migrate(older)
    leave()
    assert applied == [SECOND] and read(older) == ([FIRST, SECOND], [1])
    if ground.SERVER:
        assert copy is None
    else:
        assert copy == older.data_dir / f"app.db.before-{SECOND}"
        with contextlib.closing(apsw.Connection(str(copy))) as db:
            assert db.execute("SELECT posts_bytes FROM owner").get == 0
        assert backups.check_database(copy).schema == FIRST


def test_a_failing_step_changes_nothing(older, plant):
    plant(FAILS)
    with pytest.raises(ZeroDivisionError):
        backups.migrate(older)
    leave()
    assert read(older) == ([FIRST], [0])


def test_two_processes_migrate_once(older, plant):
    folder = plant()
    starts = [start(older, folder) for _ in range(2)]
    said = sorted(one.communicate(timeout=60)[0].strip() for one in starts)
    assert [one.returncode for one in starts] == [0, 0]
    assert said == [json.dumps([SECOND]), "[]"]
    assert read(older) == ([FIRST, SECOND], [1])
    for copy in older.data_dir.glob("app.db.before-*"):
        assert backups.check_database(copy).schema == FIRST


def test_a_kill_during_a_step_changes_nothing(older, plant):
    with start(older, plant(HANGS)) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    assert read(older) == ([FIRST], [0])
    plant()
    assert backups.migrate(older).names == [SECOND]
    leave()
    assert read(older) == ([FIRST, SECOND], [1])


# ---- restoring -----------------------------------------------------------------------------------
@pytest.fixture
def backup(older, tmp_path):
    """A backup of the previous version."""
    backups.store_backup(older, tmp_path / "backup.db")
    return tmp_path / "backup.db"


@ground.sqlite_only
def test_an_older_backup_is_restored_and_migrated(backup, plant, tmp_path):
    plant()
    elsewhere = ground.settings_of(tmp_path / "elsewhere")
    assert backups.restore_backup(elsewhere, backup, False, 2).holding.schema == SECOND
    assert read(elsewhere) == ([FIRST, SECOND], [1])
    with contextlib.closing(backups.open_reading(elsewhere.database_path)) as db:
        assert schema.list_foreign(db) == []


@ground.sqlite_only
@pytest.mark.parametrize(
    "foreign, named",
    [
        ("CREATE TABLE mine (id INTEGER)", "'mine' isn't Candor's"),
        ("ALTER TABLE owner ADD COLUMN mine TEXT", "'owner' has a different definition"),
    ],
)
def test_an_older_backup_with_an_altered_schema_is_refused(backup, plant, tmp_path, foreign, named):
    plant()
    with contextlib.closing(apsw.Connection(str(backup))) as db:
        db.execute(foreign)
    elsewhere = ground.settings_of(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=named):
        backups.restore_backup(elsewhere, backup, False, 2)
    assert not list(elsewhere.data_dir.glob("app.db*"))


@ground.sqlite_only
def test_a_list_of_migrations_with_a_gap_is_refused(backup, plant, tmp_path):
    plant()
    with contextlib.closing(apsw.Connection(str(backup))) as db:
        db.execute("UPDATE schema_migration SET name = ?", (SECOND,))
    with pytest.raises(Refused, match="list of migrations"):
        backups.restore_backup(ground.settings_of(tmp_path / "elsewhere"), backup, False, 2)
