"""PostgreSQL, with the same verbs as `storage.sqlite`. Needs the extra `postgres`.

There is one writer at a time here too: each transaction first waits for the one advisory lock of
the database's writers. So what a transaction reads stays true until it ends, and the ids of
`arrival` become visible in the order in which they were given. Readers wait for nobody.
"""

import contextlib
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from peewee import (  # type: ignore[attr-defined]
    OperationalError,
    PostgresqlDatabase,
    Psycopg3Adapter,
    __exception_wrapper__,
)
from playhouse.pool import PooledDatabase
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import (
    IdleInTransactionSessionTimeout,
    InsufficientPrivilege,
    ReadOnlySqlTransaction,
)
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import IntLoader
from psycopg.types.string import StrDumperUnknown

from config import BadSetting
from storage import deadline, snapshots
from storage.trouble import Writes, name_trouble

# Numbers of advisory locks, which belong to the database.
LOCKS = {
    "writing": 1,
    "jobs": 2,
    "work": 3,
}
# A client that is silent this long inside a transaction is taken for dead: other writers wait.
HUNG_MS = 10_000
# Only the server knows whether a write would succeed now: a failure is reported for this long.
TROUBLE_SECONDS = 15
# Joins are written in the order that is meant; planning others took 3/4 of a short read.
PLANNING = "SET join_collapse_limit = 1; SET jit = off"
BEGIN = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {ms};"
    f" SELECT pg_advisory_xact_lock({LOCKS['writing']})"
)
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b")
ALIVE = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "candor",
}
# A lock's connection: a dead server is noticed within three seconds.
WAKEFUL = {
    "connect_timeout": "3",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "3000",
}
# The same for the server, which notices a dead client.
WATCHED = (
    "SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2;"
    " SET tcp_user_timeout = 3000"
)


class Cursor(psycopg.Cursor):
    """A cursor that takes `?` for a value, as Candor's SQL has it, and `%s`, as peewee's has it.

    In SQL without values `%` is an ordinary character.
    """

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Execute a statement whose parameters are marked with `?`."""
        return super().execute(_mark(query), params or None, **more)

    def executemany(self, query: Any, rows: Any, **more: Any) -> Any:  # type: ignore[override]
        """Execute a statement for each row; parameters are marked with `?`."""
        return super().executemany(_mark(query), rows, **more)


def _mark(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s") if "?" in sql else sql


class Text(StrDumperUnknown):
    """Write U+FFFD for NUL, which PostgreSQL cannot store and strangers may send."""

    def dump(self, text: str) -> Any:
        """Replace NUL, which PostgreSQL cannot store."""
        return super().dump(text.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def read_url(url: str) -> dict[str, Any]:
    """Parse a URL to the arguments of psycopg.connect.

    BadSetting, which repeats nothing of it, where it is no URL or names no database.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise BadSetting(
            "DATABASE_URL cannot be read: special characters of a password are written as %XX"
        ) from None
    if not given.get("dbname"):
        raise BadSetting(
            "DATABASE_URL must name a database: postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return given


class Driver(Psycopg3Adapter):
    """Connects for peewee's pool, with the timeouts that a transaction needs."""

    def connect(self, db: Any, **_: Any) -> Any:
        """Open a connection with the time limits and settings of ours."""
        connection = db.open()
        connection.execute(
            f"SET lock_timeout = {db.busy_ms}; SET idle_in_transaction_session_timeout = {HUNG_MS};"
            f" {PLANNING}"
        )
        return connection


class PostgreSQL(PooledDatabase, PostgresqlDatabase):
    """A pooled PostgreSQL database that behaves as SQLite does for the rooms above.

    Integers have 64 bits, texts compare by their bytes, sums of integers are integers. BadSetting
    for a URL that cannot be used.
    """

    engine = "postgresql"
    field_types = {  # noqa: RUF012
        **PostgresqlDatabase.field_types,
        "AUTO": "BIGSERIAL",
        "INT": "BIGINT",
        "SMALLINT": "BIGINT",
        "TEXT": 'TEXT COLLATE "C"',
    }
    psycopg3_adapter = Driver
    watchful = sys.flags.dev_mode

    def __init__(self, url: str, busy_seconds: float = 5) -> None:
        self.busy_ms, self._mine = int(busy_seconds * 1000), threading.local()
        self.writes = Writes()
        self._given = {**ALIVE, **read_url(url)}
        super().__init__(
            self._given["dbname"], max_connections=None, timeout=None, prefer_psycopg3=True
        )

    if TYPE_CHECKING:

        def connection(self) -> Any: ...

        def cursor(self, named_cursor: Any = None) -> Any: ...

    # ---- connections -----------------------------------------------------------------------------
    def open(self, **changes: Any) -> psycopg.Connection[Any]:
        """Open a connection outside the pool, without a timeout for locks."""
        connection = psycopg.connect(
            **{**self._given, **changes}, autocommit=True, cursor_factory=Cursor
        )
        connection.adapters.register_loader("numeric", IntLoader)
        connection.adapters.register_dumper(str, Text)
        return connection

    def check_sessions(self) -> None:
        """Raise OperationalError where something in between lends a session to several
        connections, as PgBouncer does with `pool_mode = transaction`.

        Then another connection is in the same session, or a connection is in another one than
        before.
        """
        with (
            __exception_wrapper__,
            contextlib.closing(self.open()) as one,
            contextlib.closing(self.open()) as other,
        ):
            begun, beside, after = (
                each.execute("SELECT pg_backend_pid()").fetchone() for each in (one, other, one)
            )
        if beside == begun or after != begun:
            raise OperationalError(
                "PgBouncer, or what else stands before it, pools transactions; locks belong to"
                " sessions, so set pool_mode = session there"
            )

    def _is_closed(self, conn: Any) -> bool:
        """Was the connection ended? Asks nobody: then there is something to read."""
        if not conn.closed:
            poll = select.poll()
            poll.register(conn.fileno(), select.POLLIN)
            if poll.poll(0):
                # The pool drops it.
                conn.close()
        return bool(conn.closed)

    def stream(self, sql: str, rows_at_once: int) -> Iterator[Any]:
        """Yield the rows of a query, a few at a time; needs a transaction."""
        with __exception_wrapper__, self.connection().cursor(name="stream") as cursor:
            cursor.itersize = rows_at_once
            yield from cursor.execute(sql)

    @contextlib.contextmanager
    def filling(self, sql: str) -> Iterator[Callable[..., None]]:
        """Yield `write(row)` of a COPY ... FROM STDIN that is done when the block ends."""
        with __exception_wrapper__, self.cursor().copy(sql) as copy:
            yield copy.write_row

    # ---- writing ---------------------------------------------------------------------------------
    def begin(self, isolation_level: str | None = None) -> None:
        """Begin a transaction that is the only writer."""
        with __exception_wrapper__:
            cursor = self.cursor()
            try:
                # 0 would be no limit.
                ms = max(1, int(1000 * deadline.left(self.busy_ms / 1000)))
                cursor.execute(BEGIN.format(ms=ms), prepare=False)
                for check in self._checks:
                    check()
            except BaseException as error:
                # Leave no transaction open.
                if isinstance(error, psycopg.OperationalError):
                    self._note(name_trouble(error, Path()))
                with contextlib.suppress(psycopg.Error):
                    cursor.execute("ROLLBACK")
                raise

    def _note(self, trouble: str) -> None:
        # For a caller that does not wait, a lock is no trouble.
        if trouble != "locked" or deadline.is_patient():
            self.writes.fail(trouble)

    def commit(self) -> None:
        """Commit, and note that writing works."""
        super().commit()
        self.writes.succeed()

    def find_trouble(self) -> str | None:
        """Why the last write failed, a key of trouble.TROUBLES; None after TROUBLE_SECONDS."""
        recent = time.monotonic() - self.writes.failed_at < TROUBLE_SECONDS
        return self.writes.trouble if recent else None

    def fetch_at_once(
        self, sql: str, columns: Sequence[str], values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query: they come at once anyway."""
        rows: list[tuple[Any, ...]] = self.execute_sql(sql, values).fetchall()
        return rows

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement; one that writes outside of a transaction gets one of its own."""
        # peewee writes STRICT for both engines; PostgreSQL's tables are so anyway.
        sql = sql.removesuffix(" STRICT")
        if (
            WRITES.match(sql)
            and self.connection().pgconn.transaction_status == TransactionStatus.IDLE
        ):
            with self.atomic():
                return super().execute_sql(sql, params)  # type: ignore[no-untyped-call]
        return super().execute_sql(sql, params)  # type: ignore[no-untyped-call]

    @property
    def _checks(self) -> tuple[Callable[[], object], ...]:
        return getattr(self._mine, "checks", ())

    @contextlib.contextmanager
    def guarding(self, check: Any) -> Iterator[None]:
        """Inside, each transaction of this thread first calls `check()`, which raises to stop it.

        It is called while nobody else writes. None adds no check.
        """
        before = self._checks
        self._mine.checks = (*before, check) if check else before
        try:
            yield
        finally:
            self._mine.checks = before

    def check_idle(self, what: str) -> None:
        """As SQLite.check_idle, for transactions alone: psycopg reads queries to their end."""
        if self.watchful and self.in_transaction():
            raise RuntimeError(f"{what} inside a transaction")

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Show one state of the database to this thread's queries inside."""
        return snapshots.hold(self.execute_sql, snapshots.BEGIN_POSTGRESQL)

    def erasing(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to add: overwritten rows stay in PostgreSQL's files until its vacuum."""
        return contextlib.nullcontext()

    def lock(self, name: str) -> "SessionLock":
        """Return the lock of this name, shared by all processes on this database."""
        return SessionLock(self, LOCKS[name])

    @staticmethod
    def is_busy(error: object) -> bool:
        """Could the database not serve us just now?

        Not reachable, shutting down, full, locked too long, ended because we hung, or read-only
        because another server leads now.
        """
        return isinstance(error, OperationalError) or isinstance(
            getattr(error, "orig", None), (IdleInTransactionSessionTimeout, ReadOnlySqlTransaction)
        )

    @staticmethod
    def is_forbidden(error: object) -> bool:
        """Was it refused because the user of DATABASE_URL lacks a privilege?"""
        return isinstance(getattr(error, "orig", None), InsufficientPrivilege)

    # ---- telling ---------------------------------------------------------------------------------
    def data_version(self) -> Hashable:
        """Return a value that changes with every commit of anybody; ask before reading the data.

        A snapshot's text says which transactions had ended. The server's start belongs to it: a
        promoted standby may give the numbers of lost transactions to others.
        """
        row: Hashable = self.execute_sql(
            "SELECT pg_current_snapshot()::text, pg_postmaster_start_time()::text"
        ).fetchone()
        return row

    def clock(self) -> int:
        """Now, in ms, by the server's clock, which all machines share."""
        sql = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint"
        return int(self.execute_sql(sql).fetchone()[0])

    def version(self) -> str | None:
        """The server's version, as `15.18`; None before the first connection."""
        number = self.server_version
        return number and f"{number // 10_000}.{number % 10_000}"

    def journal(self) -> str:
        """The journal's kind: always a write-ahead log."""
        return "wal"

    def list_sizes(self) -> list[tuple[str, int]]:
        """[(what, bytes), ...] of what the database takes on its disk."""
        ((size,),) = self.execute_sql("SELECT pg_database_size(current_database())").fetchall()
        return [("postgresql", size)]


class SessionLock:
    """An advisory lock of the whole database, held by a connection of its own.

    It is lost when the process dies or is not heard of for three seconds.
    """

    def __init__(self, database: Any, number: int) -> None:
        self._database, self._number = database, number
        self._session: psycopg.Connection[Any] | None = None

    def take(self, wait: bool = False) -> bool:
        """Take the lock; return whether it is held now.

        What its last holder had begun has ended by then. Raises OperationalError.
        """
        ask = f"pg_{'' if wait else 'try_'}advisory_lock"
        with __exception_wrapper__:
            try:
                if self._session is None:
                    self._session = self._database.open(**WAKEFUL)
                    self._session.execute(WATCHED)
                held = self._session.execute(f"SELECT {ask}({self._number})").fetchone()
                if held == (False,):
                    return False
                self._session.execute(f"SELECT pg_advisory_xact_lock({LOCKS['writing']})")
                return True
            except BaseException:
                # Release a lock that was only half taken.
                self.release()
                raise

    def check(self) -> None:
        """Raise OperationalError where the lock was lost."""
        session = self._session
        if session is None:
            raise OperationalError("the lock is not held")
        with __exception_wrapper__:
            session.execute("SELECT 1")

    def release(self) -> None:
        """Let another process take the lock, by ending the session that holds it."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
