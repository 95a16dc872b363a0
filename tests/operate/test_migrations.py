"""Migrations after the first one, with an invented second step."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import ground
import pytest
from peewee import BigIntegerField, ForeignKeyField, IntegerField, TextField
from test_backups import leave, run

import storage
from models import Base, Owner, Wallet
from operate import backups, schema
from operate.instance import Refused

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND = "0001_schema", "0002_more"
# What `read` returns: the second one adds 1 to an owner's sum.
UNCHANGED, MIGRATED = ([FIRST], [0]), ([FIRST, SECOND], [1])
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

    def add(source=STEP):
        (folder / f"{SECOND}.py").write_text(source)
        monkeypatch.setattr(storage, "MIGRATIONS", folder)
        monkeypatch.setattr(schema, "TABLES", NEWER)
        storage.read_fresh_schema.cache_clear()
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
    for names in ([FIRST, SECOND], []):
        assert backups.migrate(given) == (names, None)
    with storage.database.connection_context():
        assert storage.database.table_exists("more")
    leave()
    assert read(given)[0] == [FIRST, SECOND]


def test_an_older_database_is_copied_and_migrated(older, plant):
    plant()
    applied, copy = backups.migrate(older)
    leave()
    assert applied == [SECOND] and read(older) == MIGRATED
    if ground.SERVER:
        assert copy is None
        return
    assert copy == older.data_dir / f"app.db.before-{SECOND}"
    assert run(copy, "SELECT posts_bytes FROM owner") == [(0,)]
    assert backups.check_database(copy).schema == FIRST


def test_two_processes_migrate_once(older, plant):
    folder = plant()
    starts = [start(older, folder) for _ in range(2)]
    said = sorted(one.communicate(timeout=60)[0].strip() for one in starts)
    assert [one.returncode for one in starts] == [0, 0]
    assert said == [json.dumps([SECOND]), "[]"] and read(older) == MIGRATED
    for copy in older.data_dir.glob("app.db.before-*"):
        assert backups.check_database(copy).schema == FIRST


def test_a_step_that_fails_or_is_killed_changes_nothing(older, plant):
    plant(FAILS)
    with pytest.raises(ZeroDivisionError):
        backups.migrate(older)
    leave()
    assert read(older) == UNCHANGED
    with start(older, plant(HANGS)) as process:
        assert process.stdout.readline() == "begun\n"
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    assert read(older) == UNCHANGED
    plant()
    assert backups.migrate(older).names == [SECOND]
    leave()
    assert read(older) == MIGRATED


# ---- restoring -----------------------------------------------------------------------------------
@ground.sqlite_only
def test_an_older_backup_is_restored_and_migrated_unless_its_schema_was_altered(
    older, plant, tmp_path
):
    backup, elsewhere = tmp_path / "backup.db", ground.settings_of(tmp_path / "elsewhere")
    for foreign, named in (
        ("CREATE TABLE mine (id INTEGER)", "'mine' isn't Candor's"),
        ("ALTER TABLE owner ADD COLUMN mine TEXT", "'owner' has a different definition"),
        # A list with a gap.
        (f"UPDATE schema_migration SET name = '{SECOND}'", "list of migrations"),
    ):
        backups.store_copy(older.database_path, backup)
        run(backup, foreign)
        plant()
        with pytest.raises(Refused, match=named):
            backups.restore_backup(elsewhere, backup, False, 2)
        assert not list(elsewhere.data_dir.glob("app.db*"))
    backups.store_copy(older.database_path, backup)
    restored = backups.restore_backup(elsewhere, backup, False, 2)
    assert restored.holding.schema == SECOND and read(elsewhere) == MIGRATED
    with contextlib.closing(backups.open_reading(elsewhere.database_path)) as db:
        assert schema.list_foreign(db) == []
