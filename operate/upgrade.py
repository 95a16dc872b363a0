"""Bring an instance's database to this version the careful way.

The database itself is not touched until its copy was migrated, derived again and verified: going
back is throwing that copy away. An ordinary start migrates in place (operate.backups.migrate).
"""

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
from peewee import OperationalError

import storage
from config import VERSION, Config
from operate import backups, database_checks, foreign_schema, instance
from operate.findings import Finding
from operate.instance import SIDE_FILES, Refused
from operate.stored_backups import LEAST_FREE
from storage import key_files, locks

# The name of the newest migration of each release, oldest release first.
RELEASES = (("0.1.0", "0010_watcher"),)
MAX_NAMED = 5
# What people wrote and nodes told: no migration may change a row of it. Columns that the older
# schema has not are left out.
KEPT = {
    "owner": ("uid", "recovery_hash", "created_at"),
    "bot": ("uid", "owner_id", "handle", "name", "bio", "voice", "created_at", "retired_at"),
    "key": ("uid", "owner_id", "bot_id", "scope", "hash", "expires_at", "revoked_at"),
    "attachment": ("bot_id", "wallet_id", "ownership", "attached_at", "detached_at"),
    "companion": ("bot_id", "wallet_id", "attached_at", "detached_at"),
    "post": (
        *("uid", "bot_id", "source", "channel", "event_id", "body", "mint", "symbol"),
        *("signature", "reason", "created_at", "hidden_at"),
    ),
    "receipt": ("signature", "slot", "block_time", "body"),
    "trader": ("uid", "owner_id", "name", "bio", "retired_at"),
    "paper_fill": ("id",),
    "hook": ("uid", "owner_id", "kind", "url", "secret"),
}
Tell = Callable[[str], None]
# Derives every wallet's records again in the database of these settings.
Derive = Callable[[Config, Tell], None]


class RolledBack(Refused):
    """An upgrade was in doubt: `doubts` say why, in sentences; `ending` how the database is now."""

    def __init__(self, doubts: list[str], ending: str) -> None:
        self.doubts = doubts
        shown = doubts[:MAX_NAMED]
        if len(doubts) > MAX_NAMED:
            shown.append(f"and {len(doubts) - MAX_NAMED} more")
        super().__init__("\n".join(["not upgraded, because of:", *shown, ending]))


class Edition(NamedTuple):
    """A version of Candor, and the newest migration of its schema ("": none)."""

    version: str
    schema: str

    def __str__(self) -> str:
        return f"{self.version} (schema {self.schema})"


class Upgraded(NamedTuple):
    """What an upgrade did; no `names`: nothing was to be done. `copy` is of before."""

    before: Edition
    after: Edition
    names: list[str]
    copy: Path | None


def name_edition(schema: str) -> Edition:
    """Return the version of Candor whose newest migration this is, or was on the way to."""
    for version, newest in RELEASES:
        if schema <= newest:
            return Edition(version, schema)
    return Edition(VERSION, schema)


def upgrade(config: Config, now: int, derive: Derive, tell: Tell) -> Upgraded:
    """Upgrade the instance of a SQLite file; `now` in ms.

    Refused before anything was done; RolledBack where anything is doubtful afterwards, and then
    app.db and the files beside it are as they were, byte for byte.
    """
    if not config.database_path.exists():
        raise Refused(f"there is no database in {config.data_dir}: `app.py run` makes one")
    try:
        with instance.alone(config.data_dir):
            holding = backups.check_database(config.database_path, foreign_ok=False)
            planned = plan(holding.schema, _list_applied(config.database_path))
            if planned.names:
                tell(f"{planned.before} to {planned.after}: {len(planned.names)} migrations")
                return _upgrade_copy(config, now, planned, derive, tell)
            return planned
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from None


def plan(schema: str, applied: list[str]) -> Upgraded:
    """Say what an upgrade of a database of this schema would do."""
    known = storage.list_migrations()
    pending = [name for name in known if name not in applied]
    return Upgraded(name_edition(schema), Edition(VERSION, known[-1]), pending, None)


def _list_applied(path: Path) -> list[str]:
    with contextlib.closing(backups.open_reading(path)) as db:
        return foreign_schema.list_applied(db)


def _upgrade_copy(
    config: Config, now: int, planned: Upgraded, derive: Derive, tell: Tell
) -> Upgraded:
    path, names = config.database_path, planned.names
    _check_room(path)
    before = _hash_files(path)
    copy = config.data_dir / f"app.db.before-{names[0]}"
    try:
        with _side_folder(config) as side:
            holding = backups.store_copy(path, copy)
            tell(f"copied: {copy} ({holding.posts} posts, {holding.receipts} receipts)")
            shutil.copyfile(copy, side.database_path)
            _migrate(side, now, derive, tell)
            doubts = [*_compare(copy, side.database_path), *_verify(side, now)]
            if doubts:
                raise RolledBack(doubts, "")
            tell("verified: nothing is wrong, and nothing that people wrote has changed")
            backups.replace_database(side.database_path, path)
    # Whatever it is, an error of an upgrade is a doubt, and the operator is told how it ended.
    except (Exception, KeyboardInterrupt) as error:
        copy.unlink(missing_ok=True)
        raise RolledBack(_name_doubts(error), _say_ending(path, before)) from error
    return planned._replace(copy=copy)


def _name_doubts(error: BaseException) -> list[str]:
    if isinstance(error, RolledBack):
        return error.doubts
    text = str(error).strip() or "it was interrupted"
    return [text if isinstance(error, Refused) else f"{type(error).__name__}: {text}"]


def _say_ending(path: Path, before: dict[str, str]) -> str:
    if _hash_files(path) == before:
        return f"Rolled back: {path} is as it was, byte for byte."
    return f"{path} is not as it was: look at it before anything is started (`app.py doctor`)."


def _check_room(path: Path) -> None:
    size = sum(one.stat().st_size for one in path.parent.glob("app.db*"))
    free = shutil.disk_usage(path.parent).free
    wanted = 2 * size + LEAST_FREE
    if free < wanted:
        raise Refused(
            f"{free / 1e6:,.0f} MB free on the disk of {path.parent}: an upgrade needs"
            f" {wanted / 1e6:,.0f} MB, for two copies and some room. Nothing was changed"
        )


def _hash_files(path: Path) -> dict[str, str]:
    """{ending: SHA-256} of the database and its WAL, as far as they hold anything."""
    found = {}
    for ending in SIDE_FILES[:2]:
        file = path.with_name(path.name + ending)
        if file.exists() and file.stat().st_size:
            with open(file, "rb") as opened:
                found[ending] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


@contextlib.contextmanager
def _side_folder(config: Config) -> Iterator[Config]:
    """Settings of an instance in a folder inside DATA_DIR, which is gone afterwards.

    It has the keys of the real one: a log that is opened there is signed with them.
    """
    folder = config.data_dir / backups.UPGRADE_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    key = key_files.log_key(config).hex()
    try:
        yield config.model_copy(update={"data_dir": folder, "log_key": key})
    finally:
        if storage.database.obj is not None:
            storage.database.close_all()
        locks.unlock_data_dir()
        shutil.rmtree(folder, ignore_errors=True)


# ---- migrating and verifying ---------------------------------------------------------------------
def _migrate(config: Config, now: int, derive: Derive, tell: Tell) -> None:
    database = storage.connect(config)
    storage.migrate(database, count_steps("migration", tell))
    backups.catch_up_log(config, database, now)
    derive(config, tell)
    database.close_all()


def count_steps(what: str, tell: Tell) -> Callable[[int, int, str], None]:
    """Return a function that tells `migration 3 of 29: NAME, 0.4 s so far`."""
    began = time.monotonic()
    return lambda number, all_of_them, name: tell(
        f"{what} {number} of {all_of_them}: {name} ({time.monotonic() - began:.1f} s)"
    )


def _verify(config: Config, now: int) -> list[str]:
    """What `doctor --deep` finds wrong in the database of these settings, in sentences.

    Not whether the jobs of the server that was stopped were well: that is no matter of the upgrade.
    """
    backups.check_database(config.database_path, foreign_ok=False)
    return list_wrong(database_checks.check_deep(config, now))


def list_wrong(findings: Iterable[Finding]) -> list[str]:
    """Return the sentences of what is wrong."""
    return [one.text for one in findings if one.level == "wrong"]


def _compare(old: Path, new: Path) -> list[str]:
    """List what of KEPT is not the same in both databases."""
    with (
        contextlib.closing(backups.open_reading(old)) as before,
        contextlib.closing(backups.open_reading(new)) as after,
    ):
        return [
            f"the rows of {table} are not what they were"
            for table, wanted in KEPT.items()
            if (columns := _list_columns(before, table, wanted))
            and _digest(before, table, columns) != _digest(after, table, columns)
        ]


def _list_columns(db: apsw.Connection, table: str, wanted: tuple[str, ...]) -> list[str]:
    present = {name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    return [name for name in wanted if name in present]


def _digest(db: apsw.Connection, table: str, columns: list[str]) -> str:
    digest = hashlib.sha256()
    for row in db.execute(f'SELECT {", ".join(columns)} FROM "{table}" ORDER BY id'):
        digest.update(repr(row).encode())
    return digest.hexdigest()


# ---- PostgreSQL ----------------------------------------------------------------------------------
def upgrade_server(config: Config, now: int, dumped: bool, derive: Derive, tell: Tell) -> Upgraded:
    """Upgrade the instance of a PostgreSQL server, of which the operator keeps a dump.

    The migrations are one transaction: all of them, or none. What is found wrong afterwards cannot
    be taken back here: RolledBack says how.
    """
    database = storage.connect(config)
    try:
        with database.connection_context():
            applied = storage.list_applied(database)
    except OperationalError as error:
        raise Refused(
            f"the database of DATABASE_URL cannot be used: {str(error).strip()}"
        ) from None
    planned = plan(applied[-1] if applied else "", applied)
    newer = sorted(set(applied) - set(storage.list_migrations()))
    if newer:
        raise Refused(f"the database was written by a newer version of Candor (it has {newer[0]})")
    if not planned.names:
        return planned
    tell(f"{planned.before} to {planned.after}: {len(planned.names)} migrations")
    if not dumped:
        raise Refused(
            "a PostgreSQL server keeps the data, and this program makes no copy of it: stop every"
            " machine, `pg_dump --format=custom --file=FILE`, then repeat with --dumped. Nothing"
            " was changed"
        )
    storage.migrate(database, count_steps("migration", tell))
    backups.catch_up_log(config, database, now)
    derive(config, tell)
    doubts = list_wrong(database_checks.check_deep(config, now))
    if doubts:
        raise RolledBack(
            doubts,
            "The database has the new schema, and only your dump has the old one: go back with"
            " `pg_restore --clean --if-exists --dbname=URL FILE` and the previous version.",
        )
    return planned
