"""SQLite: one file, and one writer at a time. A power failure doesn't lose acknowledged writes."""

import contextlib
import datetime
import logging
import math
import os
import re
import threading
import time
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import apsw
from peewee import OperationalError, __exception_wrapper__  # type: ignore[attr-defined]
from playhouse.apsw_ext import APSWDatabase
from playhouse.pool import PooledDatabase

from storage.files import FileLock, sync
from storage.trouble import (
    BUSY_MS,
    DISK_FLOOR,
    DISK_ROOM,
    LOCKED_SECONDS,
    BusyHandler,
    Identity,
    Unusable,
    Writes,
    find_free,
    find_left,
    identify,
    impatient,
    name_trouble,
    within,
)

log = logging.getLogger("candor")
# SQLite keeps old pages to undo a single statement. Up to this size (default: 64 KB) they are in
# memory, above it in a file in /var/tmp. Storing a post changes about twenty pages. Above glibc's
# mmap threshold (128 KB), each use would map the memory again.
STATEMENT_JOURNAL_BYTES = 120_000
# Prepared statements per connection. Each uses about 8 KB, and a route needs at most fifty.
MAX_PREPARED = 64
# If the WAL was in use when content was erased, retry this often. Each try syncs the database.
EMPTY_AGAIN_SECONDS = 5
# app.db and its WAL, each as returned by `identify`.
Files = tuple[Identity | None, Identity | None]
IN_MEMORY: Files = (None, None)
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)


# Has an effect only before the first connection.
with contextlib.suppress(apsw.MisuseError):
    apsw.shutdown()
    apsw.config(apsw.SQLITE_CONFIG_STMTJRNL_SPILL, STATEMENT_JOURNAL_BYTES)
    apsw.initialize()


def _distrust_schema(connection: apsw.Connection) -> None:
    """Ignore functions with side effects in a file's views, triggers and checks."""
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)


def _keep_plans(connection: apsw.Connection) -> None:
    """Plan a statement once, regardless of its parameters.

    By default, SQLite plans a statement again for each run if a parameter might make a partial
    index usable. This took 85 of the 95 µs of reading one post. Statements that need such an index
    have inlined values.
    """
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


# For every connection of this process, including those opened by libraries.
apsw.connection_hooks += [_distrust_schema, _keep_plans]


class SQLite(PooledDatabase, APSWDatabase):
    """A pooled SQLite database with one writer at a time, whose commits survive a power failure.

    It uses a WAL with synchronous=FULL. BEGIN IMMEDIATE acquires the write lock. apsw bundles its
    own SQLite, because versions before 3.51.3 can lose committed writes when two connections
    checkpoint a WAL. STRICT tables allow only a few types, so other databases' types are mapped to
    them.
    """

    engine = "sqlite"
    field_types: ClassVar[dict[str, str]] = {
        **APSWDatabase.field_types,
        "BIGINT": "INTEGER",
        "BOOL": "INTEGER",
        "VARCHAR": "TEXT",
        "SMALLINT": "INTEGER",
    }

    def __init__(self, path: Path | str) -> None:
        self.busy_ms = BUSY_MS
        self._watch_lock = threading.Lock()
        self._watch: apsw.Connection | None = None
        self._turn, self._mine = threading.Lock(), threading.local()
        self.writes = Writes()
        # None before the first connection.
        self._opened: Files | None = None
        self._locked_since: float | None = None
        # When to try clearing the WAL again (time.monotonic()), or None if it has no erased
        # content.
        self._empty_at: float | None = None
        pragmas = {
            "journal_mode": "wal",
            "synchronous": "full",
            "foreign_keys": 1,
            # 400 KB per connection, because a dozen threads have one each.
            "cache_size": -400,
            # Pages freed by a merge of the search index may contain text that is hidden later.
            "secure_delete": 1,
        }
        super().__init__(
            str(path),
            max_connections=None,
            pragmas=pragmas,
            timeout=None,
            lock_type="IMMEDIATE",
            statementcachesize=MAX_PREPARED,
        )

    def _add_conn_hooks(self, conn: Any) -> None:
        conn.set_busy_handler(self._make_busy_handler())
        super()._add_conn_hooks(conn)
        # Only the migration history contains datetimes.
        conn.convert_binding = _bind
        self._note_files(conn)

    def _make_busy_handler(self) -> BusyHandler:
        return BusyHandler(lambda: self.busy_ms / 1000)

    # ---- the files -------------------------------------------------------------------------------
    def _note_files(self, conn: apsw.Connection) -> None:
        """Remember the first connection's files. Raises Unusable if a later one differs."""
        if self._opened is None:
            # The first read creates the WAL.
            conn.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
            self._opened = self._identify_files()
            # If DATA_DIR is replaced, later connections must not create an empty database in it.
            self.connect_params["flags"] = apsw.SQLITE_OPEN_READWRITE
        elif self._identify_files() != self._opened:
            raise Unusable("gone")

    def _identify_files(self) -> Files:
        return identify(self.database), identify(f"{self.database}-wal")

    def _find_file_trouble(self) -> str | None:
        """Return why a commit would be lost. SQLite itself would write to deleted files."""
        if self._opened in (None, IN_MEMORY):
            return None
        if self._identify_files() != self._opened:
            return "gone"
        paths = self.database, Path(self.database).parent
        return None if all(os.access(path, os.W_OK) for path in paths) else "read_only"

    def _check_files(self) -> None:
        trouble = self._find_file_trouble()
        if trouble:
            raise Unusable(trouble)

    # ---- writing ---------------------------------------------------------------------------------
    def _is_closed(self, conn: Any) -> bool:
        try:
            conn.total_changes()
            return False
        except apsw.ConnectionClosedError:
            return True

    def begin(self, lock_type: str | None = None) -> None:
        """Queue this process's writers here. In SQLite, they would sleep and poll."""
        self._check_files()
        # One timeout covers waiting for both this process's writers and other processes.
        with within(self.busy_ms / 1000):
            if not self._turn.acquire(timeout=find_left(math.inf)):
                self.writes.fail("locked")
                raise Unusable("locked")
            self._mine.turn = True
            try:
                with self._noting():
                    super().begin(lock_type)
            except BaseException:
                # Otherwise the next writer would wait forever.
                self._pass_on()
                raise

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            if self.is_busy(error):
                self.writes.fail(name_trouble(error, Path(self.database).parent))
            raise

    def commit(self) -> None:
        """Raise Unusable if the database file was deleted, because the data would be lost."""
        with self._noting():
            super().commit()
        self._check_files()
        self.writes.succeed()
        self._pass_on()
        self._empty_again()

    def rollback(self) -> None:
        try:
            super().rollback()
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        if getattr(self._mine, "turn", False):
            self._mine.turn = False
            self._turn.release()

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        if WRITES.match(sql) and not self.connection().in_transaction:
            self._check_files()
        with self._noting():
            return super().execute_sql(sql, params)

    def find_trouble(self) -> str | None:
        """Return why the database isn't writable now (a key of TROUBLES), without writing."""
        if trouble := self._find_file_trouble():
            return trouble
        folder, now = Path(self.database).parent, time.monotonic()
        free, tried, last = find_free(folder), self._try_lock(), self.writes.trouble
        if free is None:
            return "gone"
        if tried != "locked":
            self._locked_since = None
        elif self._locked_since is None or self._locked_since < self.writes.done_at:
            self._locked_since = now
        if free < DISK_FLOOR:
            return "disk_full"
        if tried == "locked":
            is_lasting = now - (self._locked_since or now) >= LOCKED_SECONDS
            return "locked" if last == "locked" or is_lasting else None
        if last == "locked" or (last == "disk_full" and free >= DISK_ROOM):
            last = None
        return tried or last

    def _try_lock(self) -> str | None:
        try:
            with contextlib.closing(
                apsw.Connection(self.database, flags=apsw.SQLITE_OPEN_READWRITE)
            ) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except apsw.Error as error:
            return name_trouble(error, Path(self.database).parent)
        return None

    def data_version(self) -> Hashable:
        """Return a value that changes with every commit by anyone.

        `PRAGMA data_version` ignores a connection's own commits, so this uses a connection that
        never writes.
        """
        with self._watch_lock, __exception_wrapper__:
            if self._watch is None:
                self._watch = apsw.Connection(self.database, apsw.SQLITE_OPEN_READWRITE)
                self._watch.set_busy_handler(self._make_busy_handler())
            # A new connection starts its own count.
            return self._watch, self._watch.execute("PRAGMA data_version").get

    def close_idle(self) -> None:
        super().close_idle()
        if not self._in_use:
            self._opened = None
            self.connect_params.pop("flags", None)

    def close_all(self) -> None:
        super().close_all()
        # No connection is in use at this point.
        self.close_idle()
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None

    @contextlib.contextmanager
    def erasing(self) -> Iterator[None]:
        """Clear the WAL after the block. The database itself overwrites deleted content with zeros.

        Clearing waits for readers of an older state, such as a backup. If they outlast the busy
        timeout, a warning is logged, and a later commit clears the WAL. SQLite doesn't sync a
        cleared WAL, so this syncs it. Otherwise a power failure would restore the old content.
        """
        yield
        if not self._empty_wal():
            log.warning(
                "erased text may remain in app.db-wal for a while because another program is"
                " reading an older state of the database; a later write by this process will"
                " clear it"
            )

    def _empty_wal(self) -> bool:
        """Clear the WAL. If it is in use, return False and retry after later commits."""
        ((is_busy, _, _),) = self.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._empty_at = time.monotonic() + EMPTY_AGAIN_SECONDS if is_busy else None
        if not is_busy:
            with contextlib.suppress(FileNotFoundError):
                sync(Path(f"{self.database}-wal"))
        return not is_busy

    def _empty_again(self) -> None:
        if self._empty_at is not None and time.monotonic() >= self._empty_at:
            # The previous commit is durable even if this fails.
            with contextlib.suppress(OperationalError), impatient():
                self._empty_wal()

    @contextlib.contextmanager
    def guarding(self, check: Any) -> Iterator[None]:
        """A FileLock can't be lost while its process lives."""
        yield

    def lock(self, name: str) -> FileLock:
        """`name`: jobs | work. All processes on this database share it."""
        return FileLock(Path(self.database).with_name(f"{name}.lock"))

    @staticmethod
    def is_busy(error: object) -> bool:
        return isinstance(error, OperationalError) and not isinstance(
            error.__context__, apsw.SQLError
        )

    @staticmethod
    def version() -> str:
        return apsw.sqlite_lib_version()

    def journal(self) -> str:
        """It is `wal` unless the file system doesn't support that."""
        return str(self.execute_sql("PRAGMA journal_mode").fetchone()[0])

    def list_sizes(self) -> list[tuple[str, int]]:
        paths = [Path(self.database).with_name(name) for name in ("app.db", "app.db-wal")]
        return [(path.name, path.stat().st_size) for path in paths if path.exists()]


def _bind(cursor: Any, number: int, value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"cannot bind {type(value).__name__}")
