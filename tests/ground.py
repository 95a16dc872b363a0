"""Separate empty databases and counters for tests: SQLite in a folder or, with TEST_DATABASE_URL,
an empty database on that server for each folder; counters in a file in that folder or, with
TEST_REDIS_URL, in a Redis database.

`tests/with-engines COMMAND` runs a command with temporary servers.
"""

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
import sampling
from open_queries import OpenQuery, check_queries

import config
import storage
from operate import schema
from storage import files

SERVER = os.environ.get("TEST_DATABASE_URL", "")
REDIS = os.environ.get("TEST_REDIS_URL", "")
# The template for new databases.
EMPTY = f"candor_migrated_{storage.list_migrations()[-1]}"
sqlite_only = pytest.mark.skipif(bool(SERVER), reason="of SQLite alone: files, PRAGMA, WAL, pages")
postgresql_only = pytest.mark.skipif(
    not SERVER, reason="of PostgreSQL alone: run it under tests/with-engines"
)
file_only = pytest.mark.skipif(
    bool(REDIS),
    reason="the allowance's file; test_redis.py tests Redis",
)
# Shown nowhere
PASSWORD = "canary-of-the-database"
SECRETS = {
    **({"the database's password": PASSWORD} if SERVER else {}),
    **({"the password of Redis": urlsplit(REDIS).password} if REDIS else {}),
}
# This process's databases by folder, empty ones without a folder, and Redis numbers by folder.
_made, _free, _numbers = {}, [], {}
# Workers of pytest-xdist share one Redis: each numbers its databases from a different start.
FIRST_NUMBER = 2000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])


def examples(count):
    """Number of examples that hypothesis draws: a fifth on PostgreSQL, because the code above the
    engine is the same.
    """
    return max(2, count // 5) if SERVER else sampling.examples(count)


def check_idle(database, what):
    """Raise OpenQuery if this thread has a query or a transaction open."""
    if database.engine == "sqlite":
        check_queries(database, what)
        if database.in_transaction():
            raise OpenQuery(f"{what} inside a transaction")


def environ(folder, migrated=True):
    """The settings of an instance in this folder, always the same."""
    return {
        "DATA_DIR": str(folder),
        **({"DATABASE_URL": url_of(folder, migrated)} if SERVER else {}),
        **({"RATELIMIT_STORAGE_URL": redis_of(folder)} if REDIS else {}),
    }


def settings_of(folder, **more):
    """A Config. For a folder that doesn't exist yet, only the folder differs from other Configs."""
    given = {**environ(folder), **more}
    if Path(folder).exists():
        return config.load(given, dotenv=None)
    return change(_load(**{**given, "DATA_DIR": "/nowhere"}), data_dir=Path(folder))


@functools.cache
def _load(**given):
    return config.load(given, dotenv=None)


def change(settings, **changes):
    """The same Config with some settings changed."""
    read = {"demonstration", "added_programs", "added_currencies"}
    assert changes.keys() <= config.Config.model_fields.keys() | read
    return settings.model_copy(update=changes)


def enter(monkeypatch, folder, migrated=True):
    """Use this folder's instance in this process's environment."""
    for name, value in environ(folder, migrated).items():
        monkeypatch.setenv(name, value)


def url_of(folder, migrated=True):
    folder = str(folder)
    if folder not in _made:
        _made[folder] = (_free.pop() if _free else Copy()) if migrated else Other()
    return url_for(_made[folder].name)


def copy_empty(settings):
    """Create the instance's database if it has none: one with all migrations applied."""
    path = settings.database_path
    if not SERVER and not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(_make_empty(), path)


@contextlib.contextmanager
def opened(settings):
    """Inside, the models are bound to this instance, whose database exists and is open."""
    copy_empty(settings)
    database = storage.connect(settings)
    with database.connection_context():
        yield database
    database.close_all()


def copy_filled(settings, fill):
    """Make a new instance as `fill(settings)` fills it; on SQLite, that is done once a process."""
    if SERVER:
        with opened(settings):
            fill(settings)
        return
    shutil.copytree(_make_filled(fill), settings.data_dir)


@functools.cache
def _make_filled(fill):
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    settings = settings_of(folder / "data")
    with opened(settings):
        fill(settings)
    files.unlock_data_dir()
    return settings.data_dir


@functools.cache
def _make_empty():
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    settings = settings_of(folder)
    made = storage.make_database(settings)
    storage.migrate(made)
    made.close_all()
    return settings.database_path


def redis_of(folder):
    """One of 10,000 Redis databases, reserved for this folder."""
    return f"{REDIS}/{_numbers.setdefault(str(folder), FIRST_NUMBER + len(_numbers))}"


def url_for(name):
    """With a password, which this server doesn't require."""
    parts = urlsplit(SERVER)
    return urlunsplit(
        parts._replace(
            path=f"/{name}", netloc=f"{parts.username}:{PASSWORD}@{parts.hostname}:{parts.port}"
        )
    )


def _create(migrated):
    """Create an empty database, with the schema unless `migrated` is False; return its name."""
    name = f"candor_{uuid.uuid4().hex[:16]}"
    with _connect() as server:
        # One worker at a time creates the template, and copies it while nobody is connected to it.
        server.execute("SELECT pg_advisory_lock(20261121)")
        if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (EMPTY,)).fetchone():
            server.execute(f"CREATE DATABASE {EMPTY}")
            made = storage.open_postgresql(url_for(EMPTY))
            storage.migrate(made)
            made.close_all()
        template = EMPTY if migrated else "template1"
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return name


# Changes with every change to the schema, a grant or the migrations.
STATE = "SELECT " + ", ".join(
    f"(SELECT (count(*), sum(xmin::text::bigint))::text FROM {table})"
    for table in (
        *("pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_proc", "pg_trigger"),
        "schema_migration",
    )
)
EMPTY_ALL = "".join(f'DELETE FROM "{table._meta.table_name}";' for table in schema.TABLES)
RESTART_ALL = (
    "SELECT setval(oid::regclass, 1, false) FROM pg_class"
    " WHERE relkind = 'S' AND relname <> 'schema_migration_id_seq'"
)
END_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
# Nothing vacuums here, so a database that grew by this much is dropped.
MOST_GROWTH = 8 * 2**20


class Copy:
    """A copy of the template, and a session in it. Emptying it costs 2% of creating a new one."""

    def __init__(self):
        self.name = _create(migrated=True)
        self.session = _connect(self.name)
        self.state, self.size = self._read_state(), self._read_size()

    def empty(self):
        """Delete all rows. Return False if the database can't be reused."""
        try:
            self.session.execute(END_OTHERS)
        except self.session.OperationalError:
            # The test ended this session.
            return False
        if self._read_state() != self.state or self._read_size() > self.size + MOST_GROWTH:
            return False
        # No trigger fires.
        self.session.execute("SET session_replication_role = replica")
        self.session.execute(EMPTY_ALL)
        self.session.execute(RESTART_ALL)
        return True

    def drop(self):
        self.session.close()
        _drop(self.name)

    def _read_state(self):
        return self.session.execute(STATE).fetchone()

    def _read_size(self):
        return self.session.execute("SELECT pg_database_size(current_database())").fetchone()[0]


class Other:
    """A database without the schema."""

    def __init__(self):
        self.name = _create(migrated=False)

    def empty(self):
        return False

    def drop(self):
        _drop(self.name)


def _connect(name="postgres"):
    import psycopg

    return psycopg.connect(url_for(name), autocommit=True)


def _drop(name):
    with _connect() as server:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def speaking_to(settings):
    """Bind the models to the instance with these settings inside."""
    kept = storage.database.obj
    storage.database.obj = storage.make_database(settings)
    try:
        yield
    finally:
        storage.database.close_all()
        storage.database.obj = kept


def hurry():
    """These tests don't simulate power failures."""
    if not SERVER:
        storage.database.execute_sql("PRAGMA synchronous = OFF")


def read_all(folder):
    """Every row of this folder's instance as bytes."""
    made = storage.make_database(settings_of(folder))
    with made.connection_context():
        rows = [
            made.execute_sql(f'SELECT * FROM "{table._meta.table_name}"').fetchall()
            for table in schema.TABLES
        ]
    made.close_all()
    return repr(rows).encode()


def shrink():
    """Shrink the database's file as much as possible."""
    if not SERVER:
        storage.database.execute_sql("VACUUM")


def wait_no_longer(ms):
    """Refuse a locked database after this many ms from now on."""
    storage.database.obj.busy_ms = ms


def until(test, seconds=60):
    """Wait until `test()` is true."""
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def check():
    """Check that the database is intact. (PostgreSQL checks itself.)"""
    assert SERVER or storage.database.execute_sql("PRAGMA integrity_check").fetchall() == [("ok",)]


def count():
    return len(_made)


def give_back_since(count):
    """Empty, or drop, the databases made since there were this many."""
    while len(_made) > count:
        _, used = _made.popitem()
        if used.empty():
            _free.append(used)
        else:
            used.drop()


@atexit.register
def _drop_all():
    for left in [*_made.values(), *_free]:
        left.drop()
