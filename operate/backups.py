"""Keeping an instance for years: backups, bringing one back, and a copy before the schema changes.

A copy is made by SQLite's online backup in one step, that is in one read transaction: it is one
moment of the database however much is written meanwhile, and no writer waits for it. It takes its
name only after it was read to the end and found whole.
"""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass

import apsw
from peewee import OperationalError

import config as settings
import storage
from operate import foreign_schema, instance
from operate.instance import SIDE_FILES, Refused
from storage import trouble

BUSY_MS = 5000


@dataclass(frozen=True)
class Holding:
    """What a database file holds. `schema` is the name of its newest migration.

    `foreign` are sentences about what stands in its schema and no migration made.
    """

    schema: str
    posts: int
    trades: int
    receipts: int
    bytes: int
    foreign: tuple[str, ...] = ()


@contextlib.contextmanager
def _refusing():
    """What the disk or SQLite cannot do, as a sentence."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from None
    except apsw.Error as error:
        raise Refused(f"the database cannot be copied: {error}") from None


def _need_file(config, instead):
    if config.database_url:
        raise Refused(
            f"DATABASE_URL is set and a PostgreSQL server keeps the data: use its own {instead}"
            " (docs/scale.md)"
        )


# ---- backing up ----------------------------------------------------------------------------------
@_refusing()
def store_backup(config, target):
    """Write a checked copy of the instance's database to the file `target` (mode 0600): Holding. An
    older backup there is replaced.
    """
    _need_file(config, "pg_dump --format=custom")
    if not config.database_path.exists():
        raise Refused(f"there is no database in {config.data_dir}: nothing to back up")
    if not target.parent.is_dir():
        raise Refused(f"there is no folder {target.parent}")
    if target.exists() and (not _is_ours(target) or target.samefile(config.database_path)):
        raise Refused(f"{target} is no backup of Candor: choose a name that is free")
    if any(target.with_name(target.name + side).exists() for side in SIDE_FILES[1:]):
        raise Refused(f"{target} is open in some program: choose another name")
    return store_copy(config.database_path, target)


def store_copy(source, target):
    """Copy the database `source`, open or not, to `target`: Holding. The target appears, or
    changes, only once the copy was checked.
    """
    remove_partials(target.parent, target.name)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    # open and locked as long as it is being written, so that what a killed copy left can be told
    # from it
    held = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        _copy_pages(source, partial)
        holding = check_database(partial)
        _sync(partial)
        os.replace(partial, target)
        _sync(target.parent)
        return holding
    except (apsw.Error, OSError) as error:
        # asked before what was written is removed: SQLite says "not an error" of some of these
        if trouble.name_trouble(error, target.parent) == "disk_full":
            raise Refused(f"the disk of {target.parent} is full: nothing was kept there") from None
        raise
    finally:
        os.close(held)
        partial.unlink(missing_ok=True)


def list_partials(folder, name="*"):
    """Copies, of the file `name`, that nobody is writing any more: their process was killed."""
    return [path for path in sorted(folder.glob(f".{name}.*.partial")) if not _is_held(path)]


def remove_partials(folder, name="*"):
    """Remove them, with what SQLite left beside them."""
    for path in list_partials(folder, name):
        for side in (*SIDE_FILES, "-journal"):
            path.with_name(path.name + side).unlink(missing_ok=True)


def _is_held(path):
    try:
        with open(path, "rb") as file:
            return not instance.lock_alone(file)
    except FileNotFoundError:
        return True


def _copy_pages(source, target):
    with (
        contextlib.closing(open_reading(source)) as reader,
        contextlib.closing(apsw.Connection(str(target))) as writer,
    ):
        with writer.backup("main", reader, "main") as backup:
            backup.step(-1)
        # one file, without a WAL beside it
        writer.pragma("journal_mode", "delete")


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- looking into a database ---------------------------------------------------------------------
def open_reading(path):
    """A connection that cannot write. Raises apsw.Error."""
    return _open(path, apsw.SQLITE_OPEN_READONLY)


def _open(path, flags):
    """A connection that believes nothing the file's schema says: who wrote it is unknown."""
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(BUSY_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.pragma("cell_size_check", 1)
    return connection


def check_database(path, foreign_ok=True):
    """Read a database to its end: Holding. Refused where it is damaged, none of ours, or of a newer
    version.

    With `foreign_ok` false also where its schema is another than the migrations make, before a rule
    of that schema is evaluated.
    """
    try:
        with contextlib.closing(open_reading(path)) as db:
            foreign = foreign_schema.list_foreign(db)
            if foreign and not foreign_ok:
                _refuse_foreign(path, foreign)
            flaws = list_flaws(db)
            if flaws:
                raise Refused(f"{path} is damaged: {flaws[0]}")
            return _hold(db, path, foreign)
    except UnicodeDecodeError:
        raise Refused(
            f"{path} holds names or words that are no UTF-8: it is damaged, or none of Candor's"
        ) from None
    except (apsw.NotADBError, apsw.CorruptError, apsw.CantOpenError, apsw.IOError) as error:
        raise Refused(f"{path} is damaged, or no database: {error}") from None


def list_flaws(db, most=5):
    """Sentences about what is broken inside a database, at most `most` of a kind; none for one that
    is whole.
    """
    found = [text for (text,) in db.execute(f"PRAGMA integrity_check({most})") if text != "ok"]
    return (
        found
        + [
            f"a row of {table} names a missing row of {parent}"
            for table, _, parent, _ in db.execute("PRAGMA foreign_key_check")
        ][:most]
    )


def _refuse_foreign(path, foreign):
    more = f", and {len(foreign) - 3} more" if len(foreign) > 3 else ""
    raise Refused(
        f"{path} is not as Candor makes it: {'; '.join(foreign[:3])}{more}. Nothing was changed"
    )


def _hold(db, path, foreign=()):
    applied = foreign_schema.list_applied(db)
    if not applied:
        raise Refused(f"{path} is no database of Candor")
    newer = sorted(set(applied) - set(storage.list_migrations()))
    if newer:
        raise Refused(
            f"{path} was written by a newer version of Candor (it has {newer[0]}): install that"
            " version"
        )
    posts, trades, receipts = (
        db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
        for table in ("post", "trade", "receipt")
    )
    return Holding(applied[-1], posts, trades, receipts, path.stat().st_size, tuple(foreign))


def _is_ours(path):
    try:
        with contextlib.closing(open_reading(path)) as db:
            return bool(foreign_schema.list_applied(db))
    except apsw.Error:
        return False


# ---- restoring -----------------------------------------------------------------------------------
@_refusing()
def restore_backup(config, source, replace, now):
    """Make `source` the instance's database: (Holding, where the present one is kept now, or None).
    `now` in ms.

    The new file is whole and in place before anything else moves. Between the two renames there is
    no database: a start then would begin an empty one beside the kept one; no other moment of dying
    loses anything.
    """
    _need_file(config, "pg_restore")
    with instance.alone(config.data_dir):
        if not source.exists():
            raise Refused(f"there is no file {source}")
        if settings.is_demonstration(source) or config.demonstration:
            raise Refused(
                f"{source if not config.demonstration else config.data_dir} is of a demonstration:"
                " it is never mixed with real data"
            )
        check_database(source, foreign_ok=False)
        present = [
            config.database_path.with_name(config.database_path.name + side) for side in SIDE_FILES
        ]
        held = any(path.exists() for path in present)
        if held and not replace:
            raise Refused(
                f"{config.data_dir} holds data: with --replace it is kept aside there, and the"
                " backup takes its place"
            )
        restored = config.data_dir / "app.db.restored"
        holding = store_copy(source, restored)
        _skip_arrivals(restored, now)
        aside = _put_aside(config, now) if held else None
        os.rename(restored, config.database_path)
        _sync(config.data_dir)
        return holding, aside


def _skip_arrivals(path, now):
    """What arrives from now on is numbered above all the replaced database ever gave out, so that
    its followers miss none of it: there were fewer arrivals than ms.
    """
    with contextlib.closing(_open(path, apsw.SQLITE_OPEN_READWRITE)) as db:
        if "0006_arrival" in foreign_schema.list_applied(db):
            db.execute("INSERT INTO arrival (id, kind) VALUES (?, 'restore')", (now,))


def _put_aside(config, now):
    """Rename the present database, its WAL folded in; a damaged one goes aside as it is, with what
    lies beside it.
    """
    path = config.database_path
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1000))
    aside = path.with_name(f"app.db.replaced-{moment}.{now % 1000:03}Z")
    _fold_wal(path)
    for side in SIDE_FILES:
        if path.with_name(path.name + side).exists():
            os.rename(path.with_name(path.name + side), aside.with_name(aside.name + side))
    return aside


def _fold_wal(path):
    """Leaving WAL mode writes all of it into the file, and SQLite lets nobody do so who is not
    alone with the database.
    """
    try:
        with contextlib.closing(_open(path, apsw.SQLITE_OPEN_READWRITE)) as db:
            mode = db.pragma("journal_mode", "delete")
    except (apsw.BusyError, apsw.LockedError):
        mode = "locked"
    except apsw.Error:
        # damaged or gone: perhaps the reason for restoring
        return
    if mode != "delete":
        raise Refused(f"another program has {path} open: close it first")


# ---- migrating -----------------------------------------------------------------------------------
@_refusing()
def migrate(config):
    """Bring the schema up to date: (names applied, the copy made before or None). Refused where the
    database is damaged or newer.
    """
    database, copy = storage.connect(config), None
    remove_partials(config.data_dir)
    if config.database_url:
        return _migrate_server(database), None
    if config.database_path.exists() and _is_ours(config.database_path):
        pending = _list_pending(config.database_path)
        if pending:
            copy = config.data_dir / f"app.db.before-{pending[0]}"
            store_copy(config.database_path, copy)
    return storage.migrate(database), copy


def _migrate_server(database):
    try:
        with database.connection_context():
            newer = sorted(set(storage.list_applied(database)) - set(storage.list_migrations()))
        if newer:
            raise Refused(
                f"the database was written by a newer version of Candor (it has {newer[0]}):"
                " install that version"
            )
        return storage.migrate(database)
    except OperationalError as error:
        raise Refused(
            f"the database of DATABASE_URL cannot be used: {str(error).strip()}"
        ) from None


def _list_pending(path):
    with contextlib.closing(open_reading(path)) as db:
        applied, known = foreign_schema.list_applied(db), storage.list_migrations()
        if set(applied) - set(known):
            # refuses
            _hold(db, path)
        return [name for name in known if name not in applied]
