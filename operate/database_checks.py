"""Check the database: readable, complete, writable, of this version, and its contents (clock, jobs,
transactions, quotas).
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from peewee import OperationalError

import storage
from accounts import quotas
from chain.ledger.coverage import NEAR_LIMIT_PERCENT
from chain.reading.currencies import list_added
from chain.stored.summary import list_damaged
from chain.stored.tables import CHANGES, OBJECT, WALLET_PARTS
from config import Config
from operate import backups, foreign_schema, inspection, instance
from operate.differences import Difference
from operate.findings import CLOCK_MS, SET_CLOCK, Finding, fine, look, show_span, show_time, wrong
from storage.rows import read_stored

LARGE_WAL = 256_000_000
MAX_DIFFERENCES = 200
RESTORE = (
    "stop the server; restore the newest backup with --replace (the damaged file is kept aside)"
)
# A file that can't be opened or locked may be intact, and a restore would lose newer data.
NOT_DAMAGED = (
    "there is no sign of damage: check its disk and the permissions of the file and its folder;"
    " then run `app.py doctor` again"
)
DERIVED = "run `app.py rebuild` to recompute it from the stored receipts; check the disk"
WRITTEN = (
    "someone changed the database, or its disk is failing: find out which. An older backup has"
    " the original"
)
ADVICE = {
    **dict.fromkeys(("log", "log_leaf", "log_node", "logged_wallet"), WRITTEN),
    "receipt": "run `app.py rebuild`; the observer then fetches missing and damaged receipts again",
    **dict.fromkeys(
        ("owner", "bot", "key", "session", "post", "attachment", "token", "trader"),
        "rebuild restores only rows derived from receipts; restore the rest from a backup, and"
        " check the disk",
    ),
}


def check_database(config: Config, now: int) -> Iterable[Finding]:
    return check_server(config, now) if config.database_url else check_file(config, now)


def check_file(config: Config, now: int) -> list[Finding]:
    path = config.database_path
    if not path.exists() and _was_used(config):
        return [
            wrong(
                f"{path} is missing, but {config.data_dir} was in use",
                "put it back, or restore a backup with `app.py restore FILE`",
            )
        ]
    if not path.exists():
        return [
            look(
                f"there is no database in {config.data_dir} yet",
                "run `make run` to create it, or `app.py restore FILE` to restore a backup",
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
        return [wrong(f"{path} can't be read right now: {error}", NOT_DAMAGED)]


def _was_used(config: Config) -> bool:
    return any(
        (config.data_dir / name).exists() for name in ("secret_key", "ratelimit.db")
    ) or instance.is_in_use(config.data_dir)


def check_deep(config: Config, now: int) -> Iterator[Finding]:
    if not config.database_url and not config.database_path.exists():
        return
    try:
        # A pending migration is already reported.
        if _lacks_migrations(config):
            yield look(
                "nothing was recomputed, because the schema is not this version's",
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
        # These were not compared, or not completely.
        but = "except for the problems above, " if found else ""
        yield fine(
            f"{but}every wallet matches a rebuild from its receipts; every post, verification"
            " and attachment matches the log; names and profiles have no second source to"
            " compare with"
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
                f"the database in DATABASE_URL can't be used: {str(error).strip()}",
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
            f"{wal} has {wal.stat().st_size / 1e6:.0f} MB because another program has been "
            f"reading for a long time",
            "end long-running readers (a copy, a sqlite3 shell); the next start shrinks it",
        )


def check_foreign(db: Any, path: Path) -> Iterator[Finding]:
    for sentence in foreign_schema.list_foreign(db):
        yield wrong(
            f"{path}: {sentence}",
            "find out who added it; `restore` refuses this file. Restore an older backup, or"
            " drop everything that isn't Candor's",
        )


def check_schema(applied: list[str]) -> Iterator[Finding]:
    known = storage.list_migrations()
    newer, pending = (
        sorted(set(applied) - set(known)),
        [name for name in known if name not in applied],
    )
    if newer:
        yield wrong(
            f"the schema is from a newer version (it has {newer[0]})",
            "install that version, or restore a backup from before the upgrade",
        )
    elif pending:
        yield look(
            f"the schema lacks {', '.join(pending)}",
            "the next start upgrades it, and first backs up app.db if there is one",
        )
    else:
        yield fine(f"the schema is {known[-1]}, the newest")


# ---- what is stored ------------------------------------------------------------------------------

# A job may fail for this long before the operator must act.
MAX_FAILING_MS = 3_600_000
# A job is late after this many intervals, and at least this many ms, as in health.
LATE_INTERVALS, LATE_MS = 4, 120_000
# A transaction is stuck after this many tries.
STUCK_TRIES = 5
DAY_MS = 86_400_000
# Candor didn't exist before, so an earlier clock is wrong.
FIRST_DAY_MS = 1_790_000_000_000


def check_contents(execute: Callable[..., Any], config: Config, now: int) -> Iterator[Finding]:
    running = instance.is_in_use(config.data_dir)
    yield (
        fine("the server is running")
        if running
        else look("the server isn't running", "run `make run` to start it")
    )
    yield from check_clock(execute, now)
    yield from check_jobs(execute, config, now, running)
    yield from check_budgets(execute, now)
    yield from check_receipts(execute)
    yield from check_limits(execute, config)
    yield from check_derived(execute)
    yield from check_currencies(execute)
    yield from check_sums(execute)
    yield from check_witnessed(execute)
    yield from check_use(execute, config, now)


DATED = (
    *("owner.created_at", "bot.created_at", "key.created_at", "session.seen_at"),
    *("wallet.created_at", "wallet.polled_at", "attachment.attached_at", "post.created_at"),
    "job.heartbeat_at",
)


class JobRow(NamedTuple):
    name: str
    state: str
    heartbeat_at: int | None
    last_success_at: int | None
    last_error: str | None


JOBS = "SELECT name, state, heartbeat_at, last_success_at, last_error FROM job"
SCOUT = "SELECT details FROM job WHERE name = 'scout'"


def check_clock(execute: Callable[..., Any], now: int) -> Iterator[Finding]:
    """Check that no time in the columns DATED is later than `now` (ms), as after setting a clock
    back.
    """
    newest, place = max(
        (execute(f"SELECT MAX({column}) FROM {name}").fetchone()[0] or 0, f"{name}.{column}")
        for name, column in (one.split(".") for one in DATED)
    )
    if now < FIRST_DAY_MS:
        yield wrong(
            f"the clock says {show_time(now)}, at least {show_span(FIRST_DAY_MS - now)} behind:"
            " this program is newer than that",
            f"{SET_CLOCK}, then restart the server",
        )
    elif now < newest - CLOCK_MS:
        yield wrong(
            f"the clock says {show_time(now)}, {show_span(newest - now)} behind the newest"
            f" stored time ({place}: {show_time(newest)})",
            f"compare it with another clock. If it is behind, {SET_CLOCK}. If it is right, it"
            " ran ahead when that time was stored: do nothing, and this message disappears"
            " after that time",
        )
    else:
        yield fine(f"the clock says {show_time(now)}")


def check_jobs(
    execute: Callable[..., Any], config: Config, now: int, running: bool
) -> Iterator[Finding]:
    # Before the first owner no job can have succeeded.
    began = execute("SELECT MIN(created_at) FROM owner").fetchone()[0] or now
    rows = {row.name: row for row in map(JobRow._make, execute(JOBS))}
    for name, seconds in (
        ("observer", config.observer_interval_seconds),
        ("scout", config.scout_interval_seconds),
        ("paper", config.paper_interval_seconds),
    ):
        if seconds:
            yield check_job(name, seconds, rows.get(name), began, now, running)
        else:
            yield look(
                f"the job {name} is turned off",
                f"unset {name.upper()}_INTERVAL_SECONDS to turn it on",
            )


def check_budgets(execute: Callable[..., Any], now: int) -> Iterator[Finding]:
    budgets = [
        (name, one)
        for (details,) in execute(SCOUT)
        for name, one in (read_stored(details, OBJECT) or {}).get("budgets", {}).items()
        if one["day"] == now // DAY_MS
    ]
    for name, one in budgets:
        used = f"{name} used {one['requests']:,} of {one['allowed']:,} daily requests"
        if one.get("heldBack"):
            yield look(
                f"{used}; its limits delayed other requests (today: {one['heldBack']:,}, the"
                f" last at {show_time(one['heldBackAt'])}), so prices are older than they should"
                " be",
                "raise SCOUT_INTERVAL_SECONDS; make sure nothing else on this IP address uses"
                " the same service",
            )
        else:
            yield fine(used)


def check_job(
    name: str, seconds: float, row: JobRow | None, began: int, now: int, running: bool
) -> Finding:
    if row is None:
        return look(f"the job {name} has not run yet")
    if running and now - (row.heartbeat_at or 0) > max(LATE_MS, LATE_INTERVALS * 1000 * seconds):
        return wrong(
            f"the job {name} has not run since {show_time(row.heartbeat_at)}",
            "check the server's log, then restart the server",
        )
    if row.state != "failing":
        if row.last_success_at is None:
            return fine(f"the job {name} has not run yet, or is turned off")
        return fine(f"the job {name} last succeeded at {show_time(row.last_success_at)}")
    last = show_time(row.last_success_at)
    text = f"the job {name} is failing ({row.last_error}); it last succeeded {last}"
    advice = (
        "run `doctor --online` to query each endpoint and provider"
        if not (row.last_error or "").startswith("internal")
        else "the server's log has the traceback: please report it"
    )
    return (
        wrong(text, advice)
        if now - (row.last_success_at or began) > MAX_FAILING_MS
        else look(text, advice)
    )


def check_receipts(execute: Callable[..., Any]) -> Iterator[Finding]:
    count, problem = execute(
        "SELECT COUNT(*), MAX(problem) FROM sighting WHERE state = 'pending' AND (tries >= ? OR"
        " problem IS NOT NULL)",
        (STUCK_TRIES,),
    ).fetchone()
    if count:
        yield look(
            f"{count} receipts are listed but no endpoint returns them in usable"
            f" form{f' ({problem})' if problem else ''}; their wallets stay `partial`",
            "add another endpoint to SOLANA_RPC_URLS; the observer keeps retrying",
        )
    else:
        yield fine("no receipt is stuck")


NEAR_LIMIT = f"""
SELECT address, filled, history_from FROM wallet
WHERE filled >= {NEAR_LIMIT_PERCENT} ORDER BY filled DESC, id"""


def check_limits(execute: Callable[..., Any], config: Config) -> Iterator[Finding]:
    for address, filled, history_from in execute(NEAR_LIMIT).fetchall():
        what = f"wallet {address} is at {filled}% of the limit on transactions or token accounts"
        if history_from is not None:
            what += f"; transactions before slot {history_from} aren't loaded"
        yield look(
            what,
            f"raise MAX_RECEIPTS_PER_WALLET ({config.max_receipts_per_wallet}) to load more; new"
            " transactions are always loaded",
        )


DERIVED = f"SELECT address, coverage, {', '.join(WALLET_PARTS)} FROM wallet ORDER BY id"


def check_derived(execute: Callable[..., Any]) -> Iterator[Finding]:
    for address, coverage, *texts in execute(DERIVED):
        if damaged := list_damaged(coverage, texts):
            yield wrong(
                f"{', '.join(damaged)} of wallet {address} can't be read, so pages leave them out",
                "the observer's next poll rebuilds them, or run `app.py rebuild`; check the disk",
            )


class ImbalanceRow(NamedTuple):
    """A wallet whose ledger doesn't balance, by how many lamports and raw units of stablecoins
    (JSON by mint).
    """

    address: str
    imbalance: int
    stablecoin_imbalance: str


IMBALANCES = """
SELECT address, imbalance, stablecoin_imbalance FROM wallet
WHERE imbalance <> 0 OR stablecoin_imbalance <> '{}' ORDER BY id"""


SEEN = """
SELECT t.token_changes FROM mint m JOIN trade_mint x ON x.mint_id = m.id
JOIN trade t ON t.id = x.trade_id WHERE m.address = '{mint}' LIMIT 1"""


def check_currencies(execute: Callable[..., Any]) -> Iterator[Finding]:
    """Compare the decimals of the operator's currencies with those in transactions."""
    for one in list_added():
        for (text,) in execute(SEEN.format(mint=one.mint)):
            changes = read_stored(text, CHANGES.shape) or []
            seen = next((places for mint, _, places in changes if mint == one.mint), one.decimals)
            if seen != one.decimals:
                yield wrong(
                    f"{one.symbol} has {seen} decimals on the chain and {one.decimals} in"
                    " DATA_DIR/currencies.csv, so its amounts are shown wrong",
                    "correct that row and restart the server",
                )


def check_sums(execute: Callable[..., Any]) -> Iterator[Finding]:
    rows = list(map(ImbalanceRow._make, execute(IMBALANCES)))
    for row in rows:
        # check_derived names damaged JSON.
        left_over = (
            read_stored(row.stablecoin_imbalance, WALLET_PARTS["stablecoin_imbalance"].shape) or {}
        )
        missing = [f"{row.imbalance} lamports"] if row.imbalance else []
        missing += [f"{raw} raw units of {mint}" for mint, raw in left_over.items()]
        if missing:
            yield wrong(
                f"the books of {row.address} don't balance: {' and '.join(missing)} are missing",
                "this is a bug in Candor: run `app.py rebuild`, and report it if it persists",
            )
    if not rows:
        yield fine("the books of every wallet balance to the lamport and to the raw unit")


def check_witnessed(execute: Callable[..., Any]) -> Iterator[Finding]:
    for url, trouble in execute("SELECT url, trouble FROM witnessed ORDER BY url"):
        if trouble:
            yield look(
                f"the log of {url} has changed: {trouble}",
                "ask its operator; `app.py witness URL --forget` starts over",
            )


def check_use(execute: Callable[..., Any], config: Config, now: int) -> Iterator[Finding]:
    uses = quotas.list_use(execute, config, now)
    for use in uses:
        if use.owners_at_limit:
            yield look(
                f"owners at their quota {use.setting} ({use.limit}): {use.owners_at_limit}",
                f"they get an error; raise {use.setting}, or use the command line for them,"
                " which has no quotas",
            )
    yield fine(
        "highest usage by one owner: "
        + ", ".join(f"{use.used} of {use.limit} ({use.setting})" for use in uses)
    )
