"""SQLite: one file, one writer at a time, and nothing acknowledged lost to a power cut."""

import contextlib
import datetime
import logging
import math
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import apsw
import orjson
from peewee import OperationalError, __exception_wrapper__  # type: ignore[attr-defined]
from playhouse.apsw_ext import APSWDatabase
from playhouse.pool import PooledDatabase

from storage import deadline, snapshots
from storage.files import Identity, identify, sync
from storage.locks import FileLock
from storage.trouble import (
    DISK_FLOOR,
    DISK_ROOM,
    LOCKED_SECONDS,
    Unusable,
    Writes,
    find_free,
    name_trouble,
)

log = logging.getLogger("candor")
# To undo one statement SQLite keeps the pages it changes as they were: in memory up to this size
# (its default is 64 KB), then in a file in /var/tmp. Storing a post changes some twenty pages.
# Below storage.heaps.LARGE_BYTES, or the memory would be mapped anew each time.
STATEMENT_JOURNAL_BYTES = 120_000
# Statements that a connection keeps prepared, of some 8 KB each; a route asks fifty at most.
MAX_PREPARED = 64
# A WAL that is in use when words were erased is tried again so often: each try syncs the database.
EMPTY_AGAIN_SECONDS = 5
UNEMPTIED = (
    "words that were erased may stand in the file app.db-wal for a while: another program reads an"
    " older state of the database; a later write of this process empties it"
)
# app.db and its WAL, as `identify` tells them.
Files = tuple[Identity | None, Identity | None]
IN_MEMORY: Files = (None, None)
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)


def _configure_library() -> None:
    """Set what SQLite accepts only before its first connection. In a process that has one already
    nothing changes: slower, not wrong.
    """
    with contextlib.suppress(apsw.MisuseError):
        apsw.shutdown()
        apsw.config(apsw.SQLITE_CONFIG_STMTJRNL_SPILL, STATEMENT_JOURNAL_BYTES)
        apsw.initialize()


_configure_library()


def _distrust_schema(connection: apsw.Connection) -> None:
    """Refuse functions with side effects that a file's views, triggers and checks call.

    Whoever wrote the file may have put them there.
    """
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)


def _keep_plans(connection: apsw.Connection) -> None:
    """Plan a statement once, whatever is bound.

    By itself SQLite plans each run anew where a bound value might show that a partial index serves:
    85 of the 95 us of reading one post. A statement that needs such an index has its values written
    into its text.
    """
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


# Every connection of this process, whoever opens it.
apsw.connection_hooks += [_distrust_schema, _keep_plans]


class SQLite(PooledDatabase, APSWDatabase):
    """A pooled SQLite database with one writer at a time, whose commits survive a power cut.

    The journal is a WAL with synchronous=FULL; BEGIN IMMEDIATE takes the write lock. apsw brings
    its own SQLite: versions before 3.51.3 can lose committed writes when two connections
    checkpoint a WAL. STRICT tables know few types, so those of other databases are mapped.
    """

    engine = "sqlite"
    # The debug mode, for tests: a write beside a query that was not read to its end is refused.
    # In WAL mode such a query holds an old snapshot, and the next commit by anybody else makes the
    # write fail at once, however long busy_timeout is.
    watchful = sys.flags.dev_mode
    field_types: ClassVar[dict[str, str]] = {
        **APSWDatabase.field_types,
        "BIGINT": "INTEGER",
        "BOOL": "INTEGER",
        "VARCHAR": "TEXT",
        "SMALLINT": "INTEGER",
    }

    def __init__(self, path: Path | str, busy_seconds: float = 5) -> None:
        self.busy_ms = int(busy_seconds * 1000)
        self._watch_lock = threading.Lock()
        self._watch: apsw.Connection | None = None
        self._turn, self._mine = threading.Lock(), threading.local()
        self.writes = Writes()
        # The files that the connections have open; None before the first connection.
        self._opened: Files | None = None
        self._locked_since: float | None = None
        # When to try again to empty the WAL, by time.monotonic(); None: it holds nothing erased.
        self._empty_at: float | None = None
        pragmas = {
            "journal_mode": "wal",
            "synchronous": "full",
            "foreign_keys": 1,
            # 400 KB: a dozen threads have each a connection of their own.
            "cache_size": -400,
            # Pages that a merge of the search index frees may hold words that are hidden later.
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
        # The migration history has the only datetimes.
        conn.convert_binding = _bind
        self._note_files(conn)

    def _make_busy_handler(self) -> deadline.BusyHandler:
        return deadline.BusyHandler(lambda: self.busy_ms / 1000)

    # ---- the files -------------------------------------------------------------------------------
    def _note_files(self, conn: apsw.Connection) -> None:
        """Remember the files of the first connection; Unusable for a later connection to others."""
        if self._opened is None:
            # The first read creates the WAL.
            conn.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
            self._opened = self._identify_files()
            # Where DATA_DIR was replaced, no connection creates an empty database there.
            self.connect_params["flags"] = apsw.SQLITE_OPEN_READWRITE
        elif self._identify_files() != self._opened:
            raise Unusable("gone")

    def _identify_files(self) -> Files:
        return identify(self.database), identify(f"{self.database}-wal")

    def _find_file_trouble(self) -> str | None:
        """Return why a commit would not be kept in DATA_DIR: `gone`, `read_only`, or None. SQLite
        itself goes on writing to files that were removed.
        """
        if self._opened in (None, IN_MEMORY):
            return None
        if self._identify_files() != self._opened:
            return "gone"
        is_writable = all(
            os.access(p, os.W_OK) for p in (self.database, Path(self.database).parent)
        )
        return None if is_writable else "read_only"

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
        """Begin a transaction as the one writer.

        Writers of this process wait for each other here: SQLite itself would sleep and try again,
        with the disk idle meanwhile.
        """
        self.check_queries("a transaction")
        self._check_files()
        # Waiting for this process's writers and for other processes share one limit.
        with deadline.within(self.busy_ms / 1000):
            if not self._turn.acquire(timeout=deadline.left(math.inf)):
                self._note("locked")
                raise Unusable("locked")
            self._mine.turn = True
            try:
                with self._noting():
                    super().begin(lock_type)
            except BaseException:
                # Give up the turn, or the next writer would wait forever.
                self._pass_on()
                raise

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            if self.is_busy(error):
                self._note(name_trouble(error, Path(self.database).parent))
            raise

    def _note(self, trouble: str) -> None:
        # For a caller that does not wait, a lock is no trouble.
        if trouble != "locked" or deadline.is_patient():
            self.writes.fail(trouble)

    def commit(self) -> None:
        """Commit. Unusable if the database file has been removed, since the data would be lost."""
        with self._noting():
            super().commit()
        self._check_files()
        self.writes.succeed()
        self._pass_on()
        self._empty_again()

    def rollback(self) -> None:
        """Undo the transaction."""
        try:
            super().rollback()
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        if getattr(self._mine, "turn", False):
            self._mine.turn = False
            self._turn.release()

    def cursor(self, named_cursor: Any = None) -> Any:
        """Return a cursor, which is watched for rows left unread where `watchful` is set."""
        cursor = super().cursor(named_cursor)
        if self.watchful:
            self._list_cursors().add(cursor)
        return cursor

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Execute a statement; a failure is noted for health."""
        if WRITES.match(sql):
            self.check_queries(sql)
            if not self.connection().in_transaction:
                self._check_files()
        with self._noting():
            return super().execute_sql(sql, params)

    def fetch_at_once(
        self, sql: str, columns: Sequence[str], values: Sequence[Any]
    ) -> list[list[Any]]:
        """Return the rows of a query in one step, as lists. Their columns, whose names are given,
        hold integers, text or nothing.

        Python hands its lock over at each step to whoever waits: beside a job that computes, a
        thousand rows are a thousand waits.
        """
        row = f"json_array({', '.join(columns)})"
        found = self.execute_sql(f"SELECT json_group_array({row}) FROM ({sql})", values)
        ((text,),) = found.fetchall()
        rows: list[list[Any]] = orjson.loads(text)
        return rows

    def find_trouble(self) -> str | None:
        """Return why nothing can be written just now, a key of TROUBLES, or None.

        Writes nothing: the write lock is tried and freed.
        """
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
            return (
                "locked"
                if last == "locked" or now - (self._locked_since or now) >= LOCKED_SECONDS
                else None
            )
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

    def check_queries(self, what: str) -> None:
        """In debug mode, raise OpenQuery where this thread has a query open before `what`."""
        for cursor in self._list_cursors() if self.watchful else ():
            with contextlib.suppress(
                apsw.ExecutionCompleteError, apsw.CursorClosedError, apsw.ConnectionClosedError
            ):
                cursor.get_description()
                raise OpenQuery(f"{what[:80]} while a query is open: {cursor.sql}")

    def check_idle(self, what: str) -> None:
        """In debug mode, raise OpenQuery where this thread has a query or transaction open."""
        self.check_queries(what)
        if self.watchful and self.in_transaction():
            raise OpenQuery(f"{what} inside a transaction")

    def _list_cursors(self) -> weakref.WeakSet[Any]:
        if not hasattr(self._mine, "cursors"):
            self._mine.cursors = weakref.WeakSet()
        cursors: weakref.WeakSet[Any] = self._mine.cursors
        return cursors

    def data_version(self) -> Hashable:
        """Return a value that changes with every commit of anybody.

        `PRAGMA data_version` leaves out a connection's own commits, so one that never writes asks.
        """
        with self._watch_lock, __exception_wrapper__:
            if self._watch is None:
                self._watch = apsw.Connection(self.database, apsw.SQLITE_OPEN_READWRITE)
                self._watch.set_busy_handler(self._make_busy_handler())
            # With the connection, because another one counts anew.
            return self._watch, self._watch.execute("PRAGMA data_version").get

    def close_idle(self) -> None:
        """Close the connections that nobody uses."""
        super().close_idle()
        if not self._in_use:
            self._opened = None
            self.connect_params.pop("flags", None)

    def close_all(self) -> None:
        """Close the connections of all threads."""
        super().close_all()
        # No connection is in use any more.
        self.close_idle()
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Show one state of the database to this thread's queries inside."""
        return snapshots.hold(self.execute_sql, snapshots.BEGIN_SQLITE)

    @contextlib.contextmanager
    def erasing(self) -> Iterator[None]:
        """Empty the WAL afterwards; deleted content is overwritten with zeros always.

        Emptying waits for readers of an older state, as a backup is; where they take longer than
        the busy timeout, the log says so, and a later commit of this process empties it. SQLite
        does not sync an emptied WAL: a power cut would bring back what it held.
        """
        yield
        if not self._empty_wal():
            log.warning(UNEMPTIED)

    def _empty_wal(self) -> bool:
        """Empty the WAL; return False, and try again after later commits, where it is in use."""
        ((is_busy, _, _),) = self.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._empty_at = time.monotonic() + EMPTY_AGAIN_SECONDS if is_busy else None
        if not is_busy:
            with contextlib.suppress(FileNotFoundError):
                sync(Path(f"{self.database}-wal"))
        return not is_busy

    def _empty_again(self) -> None:
        """Empty a WAL that was in use when it was to be emptied. Waits for nobody."""
        if self._empty_at is not None and time.monotonic() >= self._empty_at:
            # The commit before it stands, whatever happens here.
            with contextlib.suppress(OperationalError), deadline.impatient():
                self._empty_wal()

    @contextlib.contextmanager
    def guarding(self, check: Any) -> Iterator[None]:
        """Nothing to check: a FileLock cannot be lost while its process lives."""
        yield

    def lock(self, name: str) -> FileLock:
        """The lock of this name, `jobs` or `work`, of all processes on this database."""
        return FileLock(Path(self.database).with_name(f"{name}.lock"))

    @staticmethod
    def is_busy(error: object) -> bool:
        """Did the database stay locked, or is the disk full?"""
        return isinstance(error, OperationalError) and not isinstance(
            error.__context__, apsw.SQLError
        )

    @staticmethod
    def version() -> str:
        """Return the version of SQLite, as in `3.54.0`."""
        return apsw.sqlite_lib_version()

    def journal(self) -> str:
        """Return the journal mode: `wal`, unless the file system refuses it."""
        return str(self.execute_sql("PRAGMA journal_mode").fetchone()[0])

    def list_sizes(self) -> list[tuple[str, int]]:
        """[(what, bytes), ...] of what the database takes on its disk."""
        paths = [Path(self.database).with_name(name) for name in ("app.db", "app.db-wal")]
        return [(path.name, path.stat().st_size) for path in paths if path.exists()]


class OpenQuery(RuntimeError):
    """A programming error: a query was left open before something slow or a write."""


def _bind(cursor: Any, number: int, value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"cannot bind {type(value).__name__}")
