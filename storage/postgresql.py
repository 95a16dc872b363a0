"""PostgreSQL with the same interface as `storage.sqlite`. Needs the extra `postgres`.

As on SQLite, only one transaction writes at a time, because each first waits for the writers'
advisory lock. Everything that a transaction reads stays true until it ends, and `arrival` ids
become visible in order. Readers don't wait.
"""

import contextlib
import re
import select
import threading
import time
from collections.abc import Callable, Hashable, Iterator
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
from storage.trouble import BUSY_MS, Writes, find_left, name_trouble

# Advisory locks. They are scoped to the database.
LOCKS = {"writing": 1, "jobs": 2, "work": 3}
# The server ends a transaction after it was idle for this long (ms), because its client hangs and
# other writers wait.
HUNG_MS = 10_000
# Only a write reveals whether the server accepts writes, so report a failure for this long.
TROUBLE_SECONDS = 15
# Queries list joins in the intended order. Considering alternatives took three quarters of a short
# read.
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
# Makes a lock's connection notice a dead server within three seconds.
WAKEFUL = {
    "connect_timeout": "3",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "3000",
}
# Makes the server notice a dead client.
WATCHED = (
    "SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2;"
    " SET tcp_user_timeout = 3000"
)


class Cursor(psycopg.Cursor):
    """Accepts `?` and peewee's `%s`. Without parameters, `%` is an ordinary character."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        return super().execute(_mark(query), params or None, **more)


def _mark(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s") if "?" in sql else sql


class Text(StrDumperUnknown):
    """Drops NUL characters that clients may send: PostgreSQL can't store them."""

    def dump(self, text: str) -> Any:
        return super().dump(text.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def read_url(url: str) -> dict[str, Any]:
    """Parse a URL into arguments for psycopg.connect.

    Raises BadSetting, without quoting the URL, if it is malformed or doesn't name a database.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise BadSetting(
            "DATABASE_URL is malformed; write special characters in the password as %XX"
        ) from None
    if not given.get("dbname"):
        raise BadSetting(
            "DATABASE_URL must name a database: postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return given


class Driver(Psycopg3Adapter):
    def connect(self, db: Any, **_: Any) -> Any:
        connection = db.open()
        connection.execute(
            f"SET lock_timeout = {db.busy_ms}; SET idle_in_transaction_session_timeout = {HUNG_MS};"
            f" {PLANNING}"
        )
        return connection


class PostgreSQL(PooledDatabase, PostgresqlDatabase):
    """A pooled PostgreSQL database that behaves like our SQLite.

    Integers have 64 bits, text sorts by bytes, and sums of integers are integers. Raises BadSetting
    for an unusable URL.
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

    def __init__(self, url: str) -> None:
        self.busy_ms, self._mine = BUSY_MS, threading.local()
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
        """Open a connection that isn't in the pool and has no lock timeout."""
        connection = psycopg.connect(
            **{**self._given, **changes}, autocommit=True, cursor_factory=Cursor
        )
        connection.adapters.register_loader("numeric", IntLoader)
        connection.adapters.register_dumper(str, Text)
        return connection

    def check_sessions(self) -> None:
        """Raise OperationalError if a pooler shares sessions, as PgBouncer's `pool_mode =
        transaction`.

        This shows when two connections share a session, or one connection changes sessions.
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
                "PgBouncer or another pooler uses transaction pooling, but locks belong to"
                " sessions; set pool_mode = session there"
            )

    def _is_closed(self, conn: Any) -> bool:
        """A closed socket is readable, so this doesn't need a round trip."""
        if not conn.closed:
            poll = select.poll()
            poll.register(conn.fileno(), select.POLLIN)
            if poll.poll(0):
                # The pool discards closed connections.
                conn.close()
        return bool(conn.closed)

    def stream(self, sql: str, rows_at_once: int) -> Iterator[Any]:
        """Yield a query's rows in batches. Must run in a transaction."""
        with __exception_wrapper__, self.connection().cursor(name="stream") as cursor:
            cursor.itersize = rows_at_once
            yield from cursor.execute(sql)

    @contextlib.contextmanager
    def filling(self, sql: str) -> Iterator[Callable[..., None]]:
        """Yield `write(row)` for a COPY ... FROM STDIN, which completes when the block ends."""
        with __exception_wrapper__, self.cursor().copy(sql) as copy:
            yield copy.write_row

    # ---- writing ---------------------------------------------------------------------------------
    def begin(self, isolation_level: str | None = None) -> None:
        with __exception_wrapper__:
            cursor = self.cursor()
            try:
                # 0 would mean no timeout.
                ms = max(1, int(1000 * find_left(self.busy_ms / 1000)))
                cursor.execute(BEGIN.format(ms=ms), prepare=False)
                for check in self._checks:
                    check()
            except BaseException as error:
                # Don't leave a transaction open after an error.
                if isinstance(error, psycopg.OperationalError):
                    self.writes.fail(name_trouble(error, Path()))
                with contextlib.suppress(psycopg.Error):
                    cursor.execute("ROLLBACK")
                raise

    def commit(self) -> None:
        super().commit()
        self.writes.succeed()

    def find_trouble(self) -> str | None:
        """Return why the last write failed (a key of TROUBLES), for TROUBLE_SECONDS."""
        recent = time.monotonic() - self.writes.failed_at < TROUBLE_SECONDS
        return self.writes.trouble if recent else None

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """A write outside a transaction gets its own transaction."""
        # peewee adds STRICT for both engines, but PostgreSQL is always strict and rejects the word.
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
        """Make each of this thread's transactions call `check()` first, which can raise to stop it.

        `check()` runs while no one else writes. None doesn't add a check.
        """
        before = self._checks
        self._mine.checks = (*before, check) if check else before
        try:
            yield
        finally:
            self._mine.checks = before

    def erasing(self) -> contextlib.AbstractContextManager[None]:
        """PostgreSQL keeps overwritten rows in its files until vacuum."""
        return contextlib.nullcontext()

    def lock(self, name: str) -> "SessionLock":
        return SessionLock(self, LOCKS[name])

    @staticmethod
    def is_busy(error: object) -> bool:
        """Whether the database is temporarily unavailable.

        It may be unreachable, shutting down, full, locked for too long, or read-only because
        another server is now the primary. It may also have ended our idle transaction.
        """
        return isinstance(error, OperationalError) or isinstance(
            getattr(error, "orig", None), (IdleInTransactionSessionTimeout, ReadOnlySqlTransaction)
        )

    @staticmethod
    def is_forbidden(error: object) -> bool:
        return isinstance(getattr(error, "orig", None), InsufficientPrivilege)

    # ---- telling ---------------------------------------------------------------------------------
    def data_version(self) -> Hashable:
        """Return a value that changes with every commit by anyone. Call it before reading the data.

        The value includes the snapshot's text, which identifies the transactions that had ended,
        and the server's start time, because a promoted standby may reuse the ids of lost
        transactions.
        """
        row: Hashable = self.execute_sql(
            "SELECT pg_current_snapshot()::text, pg_postmaster_start_time()::text"
        ).fetchone()
        return row

    def version(self) -> str | None:
        """Return for example `15.18`, or None before the first connection."""
        number = self.server_version
        return number and f"{number // 10_000}.{number % 10_000}"

    def journal(self) -> str:
        return "wal"

    def list_sizes(self) -> list[tuple[str, int]]:
        ((size,),) = self.execute_sql("SELECT pg_database_size(current_database())").fetchall()
        return [("postgresql", size)]


class SessionLock:
    """An advisory lock, lost if the process dies or is unreachable for three seconds."""

    def __init__(self, database: Any, number: int) -> None:
        self._database, self._number = database, number
        self._session: psycopg.Connection[Any] | None = None

    def take(self, wait: bool = False) -> bool:
        """Acquire the lock, and return whether this process has it. Raises OperationalError.

        The previous holder's last transaction has ended by then.
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
                # The lock may be partly acquired.
                self.release()
                raise

    def check(self) -> None:
        session = self._session
        if session is None:
            raise OperationalError("the lock is not held")
        with __exception_wrapper__:
            session.execute("SELECT 1")

    def release(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
