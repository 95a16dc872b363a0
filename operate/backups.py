"""Back up and restore an instance, copy it before migrations, and move it to PostgreSQL.

SQLite's online backup copies everything in one read transaction, so the copy is a snapshot, and
writers don't wait for it. The copy gets its name only after a complete check.
"""

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from filelock import lock_descriptor
from peewee import BooleanField, OperationalError, PeeweeException, ProgrammingError

import config as settings
import storage
from config import Config
from evidence import log
from evidence.notes import Signer
from operate import instance, schema
from operate.instance import Refused, list_files
from storage import files, trouble
from storage.files import is_locked, make_folder, sync
from storage.sqlite import SQLite

BUSY_MS = 5000
PG_DUMP = "pg_dump --format=custom"
# Flaws of each kind that are listed.
MAX_FLAWS = 5


@dataclass(frozen=True)
class Holding:
    """The contents of a database file.

    `schema` is the newest migration's name. `foreign`: sentences about schema objects that
    Candor didn't create.
    """

    schema: str
    posts: int
    trades: int
    receipts: int
    bytes: int
    foreign: tuple[str, ...] = ()


class Restored(NamedTuple):
    """The restored contents, and the path of the replaced database (None if there was none)."""

    holding: Holding
    kept_aside: Path | None


class Migrated(NamedTuple):
    """The applied migrations, and the copy made before them (None if it wasn't needed)."""

    names: list[str]
    copy: Path | None


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from None
    except apsw.Error as error:
        raise Refused(f"the database can't be copied: {error}") from None


def need_file(config: Config, instead: str) -> None:
    if config.database_url:
        raise Refused(
            f"DATABASE_URL is set, so the data is in PostgreSQL: use its own {instead}"
            " (docs/scale.md)"
        )


# ---- backing up ----------------------------------------------------------------------------------
@_refusing()
def store_backup(config: Config, target: Path) -> Holding:
    """Write a checked copy (mode 0600) of the database to `target`, replacing an existing file."""
    need_file(config, PG_DUMP)
    if not config.database_path.exists():
        raise Refused(f"there is no database in {config.data_dir}, so there is nothing to back up")
    if not target.parent.is_dir():
        raise Refused(f"there is no folder {target.parent}")
    if target.exists() and (not _is_ours(target) or target.samefile(config.database_path)):
        raise Refused(f"{target} exists and is not a Candor backup: choose another name")
    if any(path.exists() for path in list_files(target)[1:]):
        raise Refused(f"{target} is open in another program: choose another name")
    return store_copy(config.database_path, target)


def store_copy(source: Path, target: Path) -> Holding:
    """Copy `source`, which may be open. `target` changes only after the check."""
    remove_partials(target.parent, target.name)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    # The file is locked while it is written, to distinguish it from a killed process's leftovers.
    held = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        lock_descriptor(held)
        _copy_pages(source, partial)
        holding = check_database(partial)
        sync(partial)
        os.replace(partial, target)
        sync(target.parent)
        return holding
    except (apsw.Error, OSError) as error:
        # Check the disk before removing the partial copy, because SQLite calls some of these errors
        # "not an error".
        if trouble.name_trouble(error, target.parent) == "disk_full":
            text = f"the disk with {target.parent} is full, so no backup was stored there"
            raise Refused(text) from None
        raise
    finally:
        os.close(held)
        partial.unlink(missing_ok=True)


def list_partials(folder: Path, name: str = "*") -> list[Path]:
    return [path for path in sorted(folder.glob(f".{name}.*.partial")) if not is_locked(path)]


def remove_partials(folder: Path, name: str = "*") -> None:
    for path in list_partials(folder, name):
        _remove(path)


def _remove(path: Path) -> None:
    for one in list_files(path):
        one.unlink(missing_ok=True)


def _copy_pages(source: Path, target: Path) -> None:
    with (
        contextlib.closing(open_reading(source)) as reader,
        contextlib.closing(apsw.Connection(str(target))) as writer,
    ):
        with writer.backup("main", reader, "main") as backup:
            backup.step(-1)
        # Make it a single file without a WAL.
        writer.pragma("journal_mode", "delete")


# ---- looking into a database ---------------------------------------------------------------------
def open_reading(path: Path) -> apsw.Connection:
    """Open a read-only connection. Raises apsw.Error.

    If a transaction was interrupted (its journal exists), it is rolled back first, because a reader
    can't do that.
    """
    if path.with_name(f"{path.name}-journal").exists():
        with (
            contextlib.suppress(apsw.Error),
            contextlib.closing(_open_file(path, apsw.SQLITE_OPEN_READWRITE)) as db,
        ):
            schema.list_applied(db)
    return _open_file(path, apsw.SQLITE_OPEN_READONLY)


def _open_file(path: Path, flags: int) -> apsw.Connection:
    """Open a database from an untrusted source. Its schema isn't trusted."""
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(BUSY_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.pragma("cell_size_check", 1)
    return connection


def check_database(path: Path, foreign_ok: bool = True) -> Holding:
    """Read a whole database. Raises Refused if it is damaged, not Candor's, or newer.

    Without `foreign_ok`, also raises Refused for a current-version database whose schema differs,
    before evaluating any of its triggers or checks.
    """
    try:
        with contextlib.closing(open_reading(path)) as db:
            foreign = schema.list_foreign(db)
            if foreign and not foreign_ok:
                _refuse_foreign(path, foreign)
            flaws = list_flaws(db)
            if flaws:
                raise Refused(f"{path} is damaged: {flaws[0]}")
            return _hold(db, path, foreign)
    except UnicodeDecodeError:
        text = f"{path} contains text that is not UTF-8: the file is damaged or not from Candor"
        raise Refused(text) from None
    except (apsw.NotADBError, apsw.CorruptError, apsw.CantOpenError, apsw.IOError) as error:
        raise Refused(f"{path} is damaged or not a database: {error}") from None


def list_flaws(db: apsw.Connection) -> list[str]:
    found = [text for (text,) in db.execute(f"PRAGMA integrity_check({MAX_FLAWS})") if text != "ok"]
    orphans = [
        f"a row of {table} refers to a missing row of {parent}"
        for table, _, parent, _ in db.execute("PRAGMA foreign_key_check")
    ]
    return found + orphans[:MAX_FLAWS]


def _refuse_foreign(path: Path, foreign: Sequence[str]) -> None:
    more = f", and {len(foreign) - 3} more" if len(foreign) > 3 else ""
    raise Refused(
        f"{path} differs from what Candor creates: {'; '.join(foreign[:3])}{more}. Nothing was"
        " changed"
    )


def _hold(db: apsw.Connection, path: Path, foreign: Sequence[str] = ()) -> Holding:
    applied = schema.list_applied(db)
    if not applied:
        raise Refused(f"{path} is not a Candor database")
    _refuse_newer(path, applied)
    posts, trades, receipts = (
        db.execute(f"SELECT COUNT(*) FROM {table}").get for table in ("post", "trade", "receipt")
    )
    return Holding(applied[-1], posts, trades, receipts, path.stat().st_size, tuple(foreign))


def _refuse_newer(what: Path | str, applied: list[str]) -> None:
    newer, _ = storage.compare_migrations(applied)
    if newer:
        raise Refused(
            f"{what} was written by a newer version of Candor (it has {newer[0]}): install that"
            " version"
        )


def _is_ours(path: Path) -> bool:
    try:
        with contextlib.closing(open_reading(path)) as db:
            return bool(schema.list_applied(db))
    except apsw.Error:
        return False


# ---- restoring -----------------------------------------------------------------------------------
@_refusing()
def restore_backup(config: Config, source: Path, replace: bool, now: int) -> Restored:
    """Make `source` the instance's database. With `replace`, the current database is set aside.

    The new file is complete and synced before it gets its name, and the current one gets its second
    name before that, so after a crash at any moment, one of them is the database. `now`: ms.
    """
    need_file(config, "pg_restore")
    with instance.alone(config.data_dir):
        _check_source(config, source)
        held = any(path.exists() for path in list_files(config.database_path))
        if held and not replace:
            raise Refused(
                f"{config.data_dir} already has data; --replace restores the backup and keeps"
                " the current data aside in that folder"
            )
        restored = config.data_dir / "app.db.restored"
        # SQLite would apply the journal or WAL of an interrupted restore to the new file.
        _remove(restored)
        _remove_links(config)
        store_copy(source, restored)
        holding = _update(restored)
        _prepare(restored, now)
        open_after_restore(restored, config.database_path, now)
        aside = _put_aside(config, now) if held else None
        os.replace(restored, config.database_path)
        sync(config.data_dir)
        return Restored(holding, aside)


def _check_source(config: Config, source: Path) -> None:
    if not source.exists():
        raise Refused(f"there is no file {source}")
    if settings.is_demonstration(source) or config.demonstration:
        raise Refused(
            f"{source if not config.demonstration else config.data_dir} belongs to a demo, which"
            " can't be mixed with real data"
        )
    check_database(source, foreign_ok=False)


def _update(restored: Path) -> Holding:
    """Migrate a copy to this version's schema. Raises Refused if the result has a different schema.

    An older version's schema can't be checked before that.
    """
    database = SQLite(restored)
    try:
        storage.migrate(database)
        database.close_all()
        return check_database(restored, foreign_ok=False)
    except Refused:
        _remove(restored)
        raise
    finally:
        database.close_all()


def _prepare(path: Path, now: int) -> None:
    """Prepare a restored database for use.

    New arrivals get numbers above all numbers that the replaced database issued, so that followers
    don't miss any. `now` (ms) is high enough, because there were fewer arrivals than milliseconds.
    The operator's sign-in links and sessions are deleted, because some may have ended since.
    """
    with contextlib.closing(_open_file(path, apsw.SQLITE_OPEN_READWRITE)) as db:
        db.execute("INSERT INTO arrival (id, kind) VALUES (?, 'restore')", (now,))
        db.execute("DELETE FROM admin_login; DELETE FROM admin_session")


def _put_aside(config: Config, now: int) -> Path:
    """Give the current database a second name after writing its WAL into it.

    If it is damaged, its other files are also renamed, because they would destroy another database.
    """
    path = config.database_path
    aside = path.with_name(f"app.db.replaced-{_stamp(now)}")
    _empty_wal(path)
    for one, other in zip(list_files(path)[1:], list_files(aside)[1:], strict=True):
        if one.exists():
            os.rename(one, other)
    if path.exists():
        _link(path, aside)
    # The new database must not be on disk before this.
    sync(config.data_dir)
    return aside


def _stamp(now: int) -> str:
    """Format a time (ms) for a file name."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now // 1000))}.{now % 1000:03}Z"


def _link(path: Path, aside: Path) -> None:
    try:
        os.link(path, aside)
    except OSError:
        # This file system doesn't support hard links. After a crash at this point, only `aside`
        # exists.
        os.rename(path, aside)


def _remove_links(config: Config) -> None:
    path = config.database_path
    for aside in config.data_dir.glob("app.db.replaced-*") if path.exists() else ():
        if aside.samefile(path):
            aside.unlink()


def _empty_wal(path: Path) -> None:
    """Leave WAL mode to write the WAL. Raises Refused if there are other connections."""
    try:
        with contextlib.closing(_open_file(path, apsw.SQLITE_OPEN_READWRITE)) as db:
            mode = db.pragma("journal_mode", "delete")
    except (apsw.BusyError, apsw.LockedError):
        mode = "locked"
    except apsw.Error:
        # The database is damaged or missing, which may be the reason for restoring.
        return
    if mode != "delete":
        raise Refused(f"{path} is open in another program: close it first")


# ---- migrating -----------------------------------------------------------------------------------
@_refusing()
def migrate(config: Config) -> Migrated:
    """Update the schema, and open the log. Raises Refused if the database is damaged or newer."""
    database = storage.connect(config)
    remove_partials(config.data_dir)
    _remove_links(config)
    with instance.refusing_trouble(config.data_dir, "the database was not upgraded"):
        if config.database_url:
            migrated = Migrated(_migrate_server(database), None)
        else:
            migrated = _migrate_file(config, database)
        with database.connection_context():
            signer = Signer(files.log_key(config))
            log.ensure_log(config, signer, time.time_ns() // 1_000_000)
        return migrated


def _migrate_file(config: Config, database: Any) -> Migrated:
    """Copy, then migrate, with a lock: a second process could replace the copy."""
    path, copy = config.database_path, None
    lock = database.lock("migrating")
    lock.take(wait=True)
    try:
        pending = _list_pending(path) if path.exists() and _is_ours(path) else []
        if pending:
            copy = config.data_dir / f"app.db.before-{pending[0]}"
            store_copy(path, copy)
        return Migrated(storage.migrate(database), copy)
    finally:
        lock.release()


def _migrate_server(database: Any) -> list[str]:
    try:
        database.check_sessions()
        with database.connection_context():
            _refuse_newer("the database", storage.list_applied(database))
        return storage.migrate(database)
    except (OperationalError, ProgrammingError) as error:
        # A mistake in a migration is a bug, so show its stack trace.
        if not (isinstance(error, OperationalError) or database.is_forbidden(error)):
            raise
        raise Refused(f"the database in DATABASE_URL can't be used: {error}".strip()) from None


def _list_pending(path: Path) -> list[str]:
    with contextlib.closing(open_reading(path)) as db:
        applied = schema.list_applied(db)
    _refuse_newer(path, applied)
    return storage.compare_migrations(applied)[1]


def open_after_restore(restored: Path, replaced: Path, now: int) -> str:
    """Open a new log for the database `restored`, and return the log's uid.

    It references the last checkpoint of the database that is replaced or, if there isn't one, its
    own. `now`: ms.
    """
    last = _read_last(replaced) if replaced.exists() else None
    with _open_database(restored) as database:
        return log.renew_log("restore", now, last, database)


def _read_last(replaced: Path) -> dict[str, Any] | None:
    """Return a database's last checkpoint, or None if it is damaged."""
    try:
        with _open_database(replaced) as database:
            return log.describe_last(database)
    except (apsw.Error, PeeweeException, log.Damaged, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def _open_database(path: Path) -> Iterator[SQLite]:
    """Open a database file other than the process's own. Afterward it is a single file again."""
    database = SQLite(path)
    try:
        with database.connection_context():
            yield database
    finally:
        database.close_all()


# ---- requested on the page /admin ----------------------------------------------------------------
# Backups are created in DATA_DIR/backups by the running server, one at a time. This many bytes must
# stay free after the copies.
LEAST_FREE = 200_000_000
FOLDER, LOCK = "backups", ".lock"
MAX_LISTED = 20


class StoredBackup(NamedTuple):
    name: str
    bytes: int
    made_at: int


def list_backups(config: Config) -> list[StoredBackup]:
    paths = sorted(find_folder(config).glob("candor-*.db"), reverse=True)[:MAX_LISTED]
    found = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            known = path.stat()
            found.append(StoredBackup(path.name, known.st_size, known.st_mtime_ns // 1_000_000))
    return found


def find_folder(config: Config) -> Path:
    return config.data_dir / FOLDER


def is_at_work(config: Config) -> bool:
    return is_locked(find_folder(config) / LOCK)


def begin_backup(config: Config, now: int, tell: Callable[[str, str | None], None]) -> str:
    """Start a backup and return its future name.

    Another thread calls `tell(name, problem)` at the end. `problem` is None if it succeeded. Raises
    Refused if a backup is running, there is no room, or the data is on PostgreSQL.
    """
    need_file(config, PG_DUMP)
    free, size, is_enough = measure_room(config)
    if not is_enough:
        raise Refused(f"{free / 1e9:.1f} GB free, too little for a backup of {size / 1e9:.1f} GB")
    folder = find_folder(config)
    make_folder(folder)
    held = os.open(folder / LOCK, os.O_CREAT | os.O_WRONLY, 0o600)
    if not lock_descriptor(held, blocking=False):
        os.close(held)
        raise Refused("a backup is already running")
    name = f"candor-{_stamp(now)}.db"
    # An exiting process doesn't wait for the thread: the next process removes the leftovers.
    arguments = (config, name, held, tell)
    threading.Thread(target=_make, args=arguments, name="backup", daemon=True).start()
    return name


def measure_room(config: Config) -> tuple[int, int, bool]:
    """Return the free bytes of DATA_DIR's disk, the database's, and whether a backup fits."""
    size = sum(path.stat().st_size for path in config.data_dir.glob("app.db*"))
    free = shutil.disk_usage(config.data_dir).free
    return free, size, free >= LEAST_FREE + size


def _make(config: Config, name: str, held: int, tell: Callable[[str, str | None], None]) -> None:
    problem: str | None = "it was interrupted"
    try:
        remove_partials(find_folder(config))
        store_backup(config, find_folder(config) / name)
        problem = None
    except Refused as refusal:
        problem = str(refusal)
    finally:
        os.close(held)
        tell(name, problem)


# ---- moving to PostgreSQL ------------------------------------------------------------------------
ROWS_AT_ONCE = 2_000


class CopiedTable(NamedTuple):
    """A table with the same rows on both sides. `digest` is their SHA-256 in order of keys."""

    table: str
    rows: int
    digest: str


def move(config: Config, url: str) -> list[CopiedTable]:
    """Copy the instance, including IDs, into the empty PostgreSQL database at `url`.

    This is one transaction, which is committed only after everything was read back. The instance
    must not be in use, because later writes to the file would be lost. If Refused is raised,
    nothing was stored.
    """
    if config.database_url:
        raise Refused("DATABASE_URL is set: this instance already uses PostgreSQL")
    if config.demonstration:
        raise Refused(f"{config.data_dir} belongs to a demo, which can't be mixed with real data")
    if not config.database_path.exists():
        raise Refused(f"there is no database in {config.data_dir}, so there is nothing to copy")
    target = storage.open_postgresql(url)
    with instance.alone(config.data_dir):
        holding = check_database(config.database_path, foreign_ok=False)
        if holding.schema != storage.list_migrations()[-1]:
            text = "the database is of an older version: upgrade it with `app.py migrate` first"
            raise Refused(text)
        try:
            with (
                contextlib.closing(open_reading(config.database_path)) as source,
                target.connection_context(),
                target.atomic(),
            ):
                return _move(source, target)
        except PeeweeException as error:
            text = "the database could not be copied, so nothing was stored"
            raise Refused(f"{text}: {str(error).strip()}") from None
        finally:
            target.close_all()


def _move(source: apsw.Connection, target: Any) -> list[CopiedTable]:
    if target.get_tables():
        raise Refused("the target already has tables: name an empty database")
    # The transaction is idle while the file is read.
    target.execute_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    storage.migrate(target)
    for table in schema.TABLES:
        _copy_table(source, target, table)
    target.execute_sql("ANALYZE")
    return [_compare_table(source, target, table) for table in schema.TABLES]


def _columns(table: Any) -> str:
    return ", ".join(f'"{field.column_name}"' for field in table._meta.sorted_fields)


def _select(table: Any) -> str:
    key = ", ".join(field.column_name for field in table._meta.get_primary_keys())
    return f'SELECT {_columns(table)} FROM "{table._meta.table_name}" ORDER BY {key}'


def _list_rows(source: apsw.Connection, table: Any) -> Iterator[tuple[Any, ...]]:
    """Yield rows in key order. Booleans are converted, because SQLite has integers."""
    kinds = [isinstance(field, BooleanField) for field in table._meta.sorted_fields]
    for row in source.execute(_select(table)):
        cells = zip(row, kinds, strict=True)
        yield tuple(bool(value) if is_boolean else value for value, is_boolean in cells)


def _copy_table(source: apsw.Connection, target: Any, table: Any) -> None:
    name = table._meta.table_name
    with target.filling(f'COPY "{name}" ({_columns(table)}) FROM STDIN') as write:
        for row in _list_rows(source, table):
            write(row)
    if table._meta.auto_increment:
        target.execute_sql(
            f"""SELECT setval(pg_get_serial_sequence('"{name}"', 'id'), COALESCE(MAX(id), 1),
            MAX(id) IS NOT NULL) FROM "{name}" """
        )


def _compare_table(source: apsw.Connection, target: Any, table: Any) -> CopiedTable:
    name, count, digest = table._meta.table_name, 0, hashlib.sha256()
    copied = target.stream(_select(table), ROWS_AT_ONCE)
    for given, found in zip_longest(_list_rows(source, table), copied):
        if given != found:
            key, *_ = given or found
            raise Refused(f"row {key} of {name} differs in the copy, so nothing was stored")
        count += 1
        digest.update(repr(found).encode())
    return CopiedTable(name, count, digest.hexdigest())
