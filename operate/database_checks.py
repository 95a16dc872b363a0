"""The database itself: readable, whole, writable, of this version, and nobody else's."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
from peewee import OperationalError

import storage
from config import Config
from operate import backups, foreign_schema, inspection, instance
from operate.content_checks import check_contents
from operate.differences import Difference
from operate.findings import Finding, fine, look, wrong

LARGE_WAL = 256_000_000
MAX_DIFFERENCES = 200
RESTORE = (
    "stop the server; restore the newest backup with --replace (the damaged file is kept aside)"
)
# A file that cannot be opened or locked may be whole: a restore would lose what is newer.
NOT_DAMAGED = (
    "nothing says that it is damaged: check its disk, and who may read and write it and its folder;"
    " then run `app.py doctor` again"
)
DERIVED = "`app.py rebuild` recomputes it from the stored receipts; check the disk"
WRITTEN = (
    "somebody changed the database, or its disk is failing: find out which; a backup from"
    " before has what was there"
)
ADVICE = {
    **dict.fromkeys(("log", "log_leaf", "log_node", "logged_wallet"), WRITTEN),
    "receipt": "`app.py rebuild`: what is missing or damaged is then fetched again by the observer",
    **dict.fromkeys(
        ("owner", "bot", "key", "session", "post", "attachment", "token", "trader"),
        "rebuild repairs what follows from receipts; what people wrote is only in a backup: check"
        " the disk",
    ),
}


def check_database(config: Config, now: int) -> Iterable[Finding]:
    return check_server(config, now) if config.database_url else check_file(config, now)


def check_file(config: Config, now: int) -> list[Finding]:
    path = config.database_path
    if not path.exists() and _was_used(config):
        return [
            wrong(
                f"{path} is gone: {config.data_dir} was an instance",
                "put it back, or restore a backup with `app.py restore FILE`",
            )
        ]
    if not path.exists():
        return [
            look(
                f"there is no database in {config.data_dir} yet",
                "`make run` creates it; `app.py restore FILE` restores a backup",
            )
        ]
    try:
        with contextlib.closing(backups.open_reading(path)) as db:
            applied = foreign_schema.list_applied(db)
            return [
                *check_foreign(db, path),
                *check_whole(db, path),
                *check_schema(applied),
                *check_current(db.execute, applied, config, now),
            ]
    except (apsw.NotADBError, apsw.CorruptError) as error:
        return [wrong(f"{path} cannot be read: {error}", RESTORE)]
    except apsw.Error as error:
        return [wrong(f"{path} cannot be read just now: {error}", NOT_DAMAGED)]


def _was_used(config: Config) -> bool:
    return any(
        (config.data_dir / name).exists() for name in ("secret_key", "ratelimit.db")
    ) or instance.is_in_use(config.data_dir)


def check_deep(config: Config, now: int) -> Iterator[Finding]:
    if not config.database_url and not config.database_path.exists():
        return
    try:
        # A schema that waits for its migration is told of before.
        if _lacks_migrations(config):
            yield look(
                "nothing was recomputed: the schema is not this version's",
                "start the server once, then try again",
            )
            return
        differences = inspection.inspect(config, now, instance.is_in_use(config.data_dir))
        found = list(itertools.islice(differences, MAX_DIFFERENCES + 1))
    except (apsw.Error, OperationalError) as error:
        is_damaged = isinstance(error, apsw.NotADBError | apsw.CorruptError)
        advice = RESTORE if is_damaged else NOT_DAMAGED
        yield wrong(f"not everything can be read: {error}", advice)
        return
    yield from _tell_differences(found)


def _tell_differences(found: Sequence[Difference]) -> Iterator[Finding]:
    for one in found[:MAX_DIFFERENCES]:
        yield (
            look(str(one))
            if one.level == "look"
            else wrong(str(one), ADVICE.get(one.table, DERIVED))
        )
    if len(found) > MAX_DIFFERENCES:
        yield wrong(f"more than {MAX_DIFFERENCES} differences; the others are not listed", DERIVED)
    if not any(one.level == "wrong" for one in found):
        # What is named was not compared, or not to its end.
        but = "but for what is named above, " if found else ""
        yield fine(
            f"{but}every wallet was rebuilt from its receipts and is the same; every post,"
            " verification and attachment is as the log has it; names and profiles have nothing to"
            " be compared with"
        )


def check_current(
    execute: Callable[..., Any], applied: list[str], config: Config, now: int
) -> Iterator[Finding]:
    if applied == storage.list_migrations():
        yield from check_contents(execute, config, now)


def _lacks_migrations(config: Config) -> bool:
    if config.database_url:
        database = storage.make_database(config)
        try:
            with database.connection_context():
                return storage.list_applied(database) != storage.list_migrations()
        finally:
            database.close_all()
    with contextlib.closing(backups.open_reading(config.database_path)) as db:
        return foreign_schema.list_applied(db) != storage.list_migrations()


def check_server(config: Config, now: int) -> list[Finding]:
    database = storage.make_database(config)
    try:
        database.check_sessions()
        with database.connection_context():
            applied = storage.list_applied(database)
            return [
                fine(f"PostgreSQL {database.version()} answers"),
                *check_schema(applied),
                *check_current(database.execute_sql, applied, config, now),
            ]
    except OperationalError as error:
        return [
            wrong(
                f"the database of DATABASE_URL cannot be used: {str(error).strip()}",
                "start it, or correct DATABASE_URL",
            )
        ]
    finally:
        database.close_all()


def check_whole(db: Any, path: Path) -> Iterator[Finding]:
    flaws = backups.list_flaws(db)
    for flaw in flaws:
        yield wrong(
            f"{path}: {flaw}",
            RESTORE,
        )
    if not flaws:
        yield fine(f"{path} is whole")
    wal = path.with_name("app.db-wal")
    if wal.exists() and wal.stat().st_size > LARGE_WAL:
        yield look(
            f"{wal} has {wal.stat().st_size / 1e6:.0f} MB: something reads for very long",
            "end long-running readers (a copy, a sqlite3 shell); it then shrinks at the next start",
        )


def check_foreign(db: Any, path: Path) -> Iterator[Finding]:
    for sentence in foreign_schema.list_foreign(db):
        yield wrong(
            f"{path}: {sentence}",
            "find out who put it there; `restore` refuses such a file. Restore a backup from"
            " before, or drop what is foreign",
        )


def check_schema(applied: list[str]) -> Iterator[Finding]:
    known = storage.list_migrations()
    newer, pending = (
        sorted(set(applied) - set(known)),
        [name for name in known if name not in applied],
    )
    if newer:
        yield wrong(
            f"the schema is of a newer version (it has {newer[0]})",
            "install that version, or restore a backup made before the upgrade",
        )
    elif pending:
        yield look(
            f"the schema lacks {', '.join(pending)}",
            "the next start brings it up to date, and keeps a copy of a present app.db",
        )
    else:
        yield fine(f"the schema is {known[-1]}, the newest")
