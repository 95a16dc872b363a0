"""What is wrong with an instance, and what to do about it, in sentences. Reads only; asks the
network only when told to.

A check yields Findings: `fine`; `look`, which an operator should know of; `wrong`, which needs
doing something.
"""

import contextlib
import itertools
import os
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import apsw
from peewee import OperationalError

import config as settings
import storage
from accounts import quotas
from chain.rpc import Rpc, RpcError
from market.fetch import FetchError, fetch_json, open_session
from operate import backups, inspection
from storage import counters, locks

# bytes, beside room for a backup and a migration's copy
LEAST_FREE = 200_000_000
LARGE_WAL = 256_000_000
# ms a job may fail before somebody has to do something
PATIENCE = 3_600_000
# ms; as health counts
LATE_INTERVALS, LATE_AT_LEAST = 4, 120_000
# tries
STUCK_AFTER = 5
# a finalized block is some 15 s old
CLOCK_MS = 90_000
# ms; this program did not exist before
FIRST_DAY = 1_790_000_000_000
# its genesis hash
MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
MAX_DIFFERENCES = 200
DERIVED = "`app.py rebuild` derives it again from the stored receipts; see that the disk is sound"
ADVICE = {
    "receipt": "`app.py rebuild`: what is missing or damaged is then fetched again by the observer",
    **dict.fromkeys(
        ("owner", "bot", "key", "session", "post", "attachment", "token", "trader"),
        "rebuild mends what follows from receipts; what people wrote is only in a backup: see that"
        " the disk is sound",
    ),
}
OWN_FILES = {
    "app.db",
    "app.db-wal",
    "app.db-shm",
    "ratelimit.db",
    "ratelimit.db-wal",
    "ratelimit.db-shm",
    "ratelimit.db-journal",
    "secret_key",
    "jobs.lock",
    "work.lock",
    locks.DATA_DIR_LOCK,
}
LEFTOVERS = {
    "app.db.before-": "the database before a migration",
    "app.db.replaced-": "what a restore put aside",
    "app.db.restored": "an interrupted restore",
}


@dataclass(frozen=True)
class Finding:
    # fine | look | wrong
    level: str
    text: str
    advice: str = ""


def fine(text):
    return Finding("fine", text)


def look(text, advice=""):
    return Finding("look", text, advice)


def wrong(text, advice):
    return Finding("wrong", text, advice)


def examine(config, now, online=False, deep=False):
    """All findings, in a fixed order. `now` in ms. `deep`: derive everything again and compare."""
    return [finding for check in list_checks(config, now, online, deep) for finding in check]


def list_checks(config, now, online, deep):
    yield check_settings(config)
    if config.data_dir.is_dir():
        yield check_folder(config)
        yield check_disk(config)
        yield check_files(config)
        yield check_database(config, now)
        if deep:
            yield check_deep(config, now)
    else:
        yield [look(f"{config.data_dir} does not exist yet", "`make run` makes it")]
    if online:
        yield check_endpoints(config, now)
        yield check_providers(config)
        if config.ratelimit_storage_url:
            yield check_redis(config, now)


# ---- settings ------------------------------------------------------------------------------------
def check_settings(config):
    yield fine("the settings can be read")
    url = urlsplit(config.base_url)
    if url.scheme == "http" and url.hostname not in settings.Config.allowed_hosts:
        yield look(
            f"BASE_URL is http://{url.hostname}: cookies and keys travel readable for all",
            "put a proxy with TLS in front and set BASE_URL to https://...",
        )
    if url.scheme == "https" and not config.trusted_proxies:
        yield look(
            "BASE_URL is https and TRUSTED_PROXIES is 0: all readers share the proxy's address and"
            " its limits",
            "set TRUSTED_PROXIES=1 behind one proxy",
        )
    if config.secret_key and len(config.secret_key) < 32:
        yield wrong(
            "SECRET_KEY is shorter than 32 characters: sessions could be forged",
            "leave it out, or set 64 random hexadecimal digits",
        )
    if Path(".env").exists() and _is_open(Path(".env")):
        yield wrong("other users of this machine can read .env", "chmod 600 .env")


# ---- the folder ----------------------------------------------------------------------------------
def check_folder(config):
    folder = config.data_dir
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield wrong(
            f"{folder} belongs to user {folder.stat().st_uid}, this is user {os.getuid()}: nothing"
            " can be written",
            "run as its owner, or chown -R it",
        )
    elif _is_open(folder):
        yield look(f"other users of this machine can look into {folder}", f"chmod 700 {folder}")
    else:
        yield fine(f"{folder} is writable, and closed to others")


def _is_open(path):
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def check_disk(config):
    free, size = (
        shutil.disk_usage(config.data_dir).free,
        sum(path.stat().st_size for path in config.data_dir.glob("app.db*")),
    )
    if free < LEAST_FREE + size:
        yield wrong(
            f"{free / 1e9:.1f} GB are free on the disk of {config.data_dir}: too little for a"
            " backup there, soon for posts",
            "free some space, or move DATA_DIR",
        )
    else:
        yield fine(
            f"{free / 1e9:.0f} GB are free on the disk of {config.data_dir}; app.db takes"
            f" {size / 1e6:.1f} MB"
        )


def check_files(config):
    files = sorted(path for path in config.data_dir.iterdir() if path.is_file())
    opened = [path.name for path in files if _is_open(path)]
    if opened and _is_open(config.data_dir):
        yield wrong(
            f"other users of this machine can read {', '.join(opened)}",
            f"chmod 600 {config.data_dir}/*",
        )
    partials = backups.list_partials(config.data_dir)
    for path in files:
        if path in partials:
            yield look(
                f"{path} ({path.stat().st_size / 1e6:.1f} MB) is what a killed copy left",
                "the next start removes it",
            )
        elif path.name not in OWN_FILES and not path.name.endswith(".partial"):
            kind = next(
                (kind for start, kind in LEFTOVERS.items() if path.name.startswith(start)),
                "a file Candor does not know",
            )
            yield look(
                f"{path} ({path.stat().st_size / 1e6:.1f} MB) is {kind}",
                "delete it when you are sure that you do not need it",
            )
    if (config.data_dir / "app.db-wal").exists() and not config.database_path.exists():
        yield wrong(
            "app.db-wal lies there without its app.db",
            "put the app.db it belongs to back beside it, or restore a backup with --replace",
        )
    key = config.data_dir / "secret_key"
    if (
        key in files
        and not config.secret_key
        and os.access(key, os.R_OK)
        and len(key.read_text().strip()) < 32
    ):
        yield wrong(
            "secret_key is cut short: sessions and cursors could be forged",
            f"rm {key}: the next start makes a new one, and everybody logs in again",
        )


# ---- the database --------------------------------------------------------------------------------
def check_database(config, now):
    return check_server(config, now) if config.database_url else check_file(config, now)


def check_file(config, now):
    path = config.database_path
    if not path.exists() and _was_used(config):
        return [
            wrong(
                f"{path} is gone: {config.data_dir} was an instance",
                "put it back, or bring a backup back with `app.py restore FILE`",
            )
        ]
    if not path.exists():
        return [
            look(
                f"there is no database in {config.data_dir} yet",
                "`make run` makes it; `app.py restore FILE` brings a backup back",
            )
        ]
    try:
        with contextlib.closing(backups.open_reading(path)) as db:
            applied = backups.list_applied(db)
            return [
                *check_writable(path),
                *check_foreign(db, path),
                *check_whole(db, path),
                *check_schema(applied),
                *_check_contents(db.execute, applied, config, now),
            ]
    except apsw.Error as error:
        return [
            wrong(
                f"{path} cannot be read: {error}",
                "stop the server; restore the newest backup with --replace (the damaged file is"
                " kept aside)",
            )
        ]


def _was_used(config):
    """Has a server ever served from this folder?"""
    return any(
        (config.data_dir / name).exists() for name in ("secret_key", "ratelimit.db")
    ) or backups.is_in_use(config.data_dir)


def check_writable(path):
    """Each file of the database can be written by this user. (For root every file can: then its
    mode tells.)
    """
    for side in ("", "-wal", "-shm"):
        file = path.with_name(path.name + side)
        if file.exists() and not (
            os.access(file, os.W_OK) and stat.S_IMODE(file.stat().st_mode) & 0o200
        ):
            yield wrong(
                f"{file} is read-only: nothing can be stored",
                f"chmod 600 {file}; see that its disk is mounted for writing, and run as its owner",
            )


def check_deep(config, now):
    """Everything derived is derived again and compared."""
    if not config.database_url and not config.database_path.exists():
        return
    try:
        # a schema that waits for its migration is said above
        if _lacks_migrations(config):
            yield look(
                "nothing was derived again: the schema is not this version's",
                "start it once, then ask again",
            )
            return
        found = list(
            itertools.islice(
                inspection.inspect(config, now, backups.is_in_use(config.data_dir)),
                MAX_DIFFERENCES + 1,
            )
        )
    except (apsw.Error, OperationalError) as error:
        yield wrong(
            f"not everything can be read: {error}",
            "stop the server; restore the newest backup with --replace (the damaged file is kept"
            " aside)",
        )
        return
    for one in found[:MAX_DIFFERENCES]:
        yield (
            look(str(one))
            if one.level == "look"
            else wrong(str(one), ADVICE.get(one.table, DERIVED))
        )
    if len(found) > MAX_DIFFERENCES:
        yield wrong(f"more than {MAX_DIFFERENCES} differences; the others are not listed", DERIVED)
    if not any(one.level == "wrong" for one in found):
        yield fine(
            "every wallet was folded again from its receipts and is the same; words of posts, names"
            " and profiles have nothing to be compared with"
        )


def _lacks_migrations(config):
    if config.database_url:
        database = storage.make_database(config)
        try:
            with database.connection_context():
                return storage.list_applied(database) != storage.list_migrations()
        finally:
            database.close_all()
    with contextlib.closing(backups.open_reading(config.database_path)) as db:
        return backups.list_applied(db) != storage.list_migrations()


def check_server(config, now):
    database = storage.make_database(config)
    try:
        with database.connection_context():
            applied = storage.list_applied(database)
            return [
                fine(f"PostgreSQL {database.version()} answers"),
                *check_schema(applied),
                *_check_contents(database.execute_sql, applied, config, now),
            ]
    except OperationalError as error:
        return [
            wrong(
                f"the database of DATABASE_URL cannot be reached: {str(error).strip()}",
                "start it, or correct DATABASE_URL",
            )
        ]
    finally:
        database.close_all()


def check_whole(db, path):
    flaws = backups.list_flaws(db)
    for flaw in flaws:
        yield wrong(
            f"{path}: {flaw}",
            "stop the server; restore the newest backup with --replace (the damaged file is kept"
            " aside)",
        )
    if not flaws:
        yield fine(f"{path} is whole")
    wal = path.with_name("app.db-wal")
    if wal.exists() and wal.stat().st_size > LARGE_WAL:
        yield look(
            f"{wal} has {wal.stat().st_size / 1e6:.0f} MB: something reads for very long",
            "end long-running readers (a copy, a sqlite3 shell); it then shrinks at the next start",
        )


def check_foreign(db, path):
    """Tables, indexes, triggers and views that no migration made."""
    for sentence in backups.list_foreign(db):
        yield wrong(
            f"{path}: {sentence}",
            "find out who put it there; `restore` refuses such a file. Restore a backup from"
            " before, or drop what is foreign",
        )


def check_schema(applied):
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


def _check_contents(execute, applied, config, now):
    if "0001_begin" not in applied:
        return
    running = backups.is_in_use(config.data_dir)
    yield (
        fine("a server is running here")
        if running
        else look("no server is running here", "`make run` starts one")
    )
    yield from check_clock(execute, now)
    yield from check_jobs(execute, config, now, running)
    yield from check_receipts(execute)
    if "0014_quota" in applied:
        yield from check_use(execute, config, now)


def check_clock(execute, now):
    dated = (
        "owner.created_at",
        "bot.created_at",
        "key.created_at",
        "session.seen_at",
        "wallet.created_at",
        "wallet.looked_at",
        "attachment.attached_at",
        "post.created_at",
        "job.heartbeat_at",
    )
    newest = max(
        execute(f"SELECT MAX({column}) FROM {name}").fetchone()[0] or 0
        for name, column in (one.split(".") for one in dated)
    )
    if now < max(FIRST_DAY, newest - CLOCK_MS):
        yield wrong(
            f"the clock says {_when(now)}, and what is stored here says"
            f" {_when(max(newest, FIRST_DAY))}",
            "set the clock: timedatectl set-ntp true",
        )
    else:
        yield fine(f"the clock says {_when(now)}")


def check_jobs(execute, config, now, running):
    # nothing can have gone well before
    began = execute("SELECT MIN(created_at) FROM owner").fetchone()[0] or now
    rows = {
        row[0]: row[1:]
        for row in execute("SELECT name, state, heartbeat_at, last_success_at, last_error FROM job")
    }
    for name, seconds in (
        ("observer", config.observer_interval_seconds),
        ("scout", config.scout_interval_seconds),
        ("paper", config.paper_interval_seconds),
    ):
        if seconds:
            yield check_job(name, seconds, rows.get(name), began, now, running)
        else:
            yield look(
                f"the job {name} is switched off",
                f"unset {name.upper()}_INTERVAL_SECONDS to have it run",
            )


def check_job(name, seconds, row, began, now, running):
    if row is None:
        return look(f"the job {name} has not run yet")
    state, heartbeat_at, success_at, problem = row
    if running and now - (heartbeat_at or 0) > max(LATE_AT_LEAST, LATE_INTERVALS * 1000 * seconds):
        return wrong(
            f"the job {name} gave no sign since {_when(heartbeat_at)}",
            "look into the server's log for it, and restart the server",
        )
    if state != "failing":
        return fine(f"the job {name} went well at {_when(success_at)}")
    text = f"the job {name} fails ({problem}); it went well last {_when(success_at)}"
    advice = (
        "`doctor --online` asks each endpoint and provider"
        if not (problem or "").startswith("internal")
        else "the server's log has the stack: please report it"
    )
    return wrong(text, advice) if now - (success_at or began) > PATIENCE else look(text, advice)


def check_receipts(execute):
    stuck = execute(
        "SELECT COUNT(*), MAX(problem) FROM sighting WHERE state = 'pending' AND (tries >= ? OR"
        " problem IS NOT NULL)",
        (STUCK_AFTER,),
    ).fetchone()
    if stuck[0]:
        yield look(
            f"{stuck[0]} receipts are listed and no endpoint gives a usable"
            f" one{f' ({stuck[1]})' if stuck[1] else ''}: their wallets stay `partial`",
            "name another endpoint in SOLANA_RPC_URLS; they are asked for again by themselves",
        )
    else:
        yield fine("no receipt is stuck")


def check_use(execute, config, now):
    """How near the owners are to their quotas."""
    uses = quotas.list_use(execute, config, now)
    for use in uses:
        if use.owners_at_limit:
            yield look(
                f"{use.owners_at_limit} of the accounts are at their quota {use.setting}"
                f" ({use.limit})",
                f"they are told so; raise {use.setting}, or do what they want on the command line,"
                " which has no quota",
            )
    yield fine(
        "most used by one account: "
        + ", ".join(f"{use.used} of {use.limit} ({use.setting})" for use in uses)
    )


def _when(ms):
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000)) if ms else "never"


# ---- the network ---------------------------------------------------------------------------------
def check_endpoints(config, now):
    for number, url in enumerate(config.solana_rpc_urls, 1):
        rpc = Rpc((url,), config.rpc_requests_per_second)
        try:
            slot, _ = rpc.call("getSlot", [{"commitment": "finalized"}])
            seconds, _ = rpc.call("getBlockTime", [slot])
            genesis, _ = rpc.call("getGenesisHash", [])
        except RpcError as error:
            yield wrong(
                f"Solana endpoint {number} cannot be used:"
                f" {str(error).replace('endpoint 1: ', '')}",
                "check its URL and key in SOLANA_RPC_URLS; name a second one",
            )
            continue
        yield (
            fine(f"Solana endpoint {number} answers, at slot {slot}")
            if genesis == MAINNET
            else look(f"Solana endpoint {number} answers, and is not mainnet")
        )
        if isinstance(seconds, int) and abs(now - seconds * 1000) > CLOCK_MS:
            yield wrong(
                f"its newest final block is of {_when(seconds * 1000)}, the clock here says"
                f" {_when(now)}",
                "set the clock, or replace the endpoint if it lags",
            )


def check_redis(config, now):
    store = counters.open_store(config)
    problem = counters.find_problem(store, now / 1000)
    store.close()
    if problem:
        yield wrong(
            f"Redis cannot be used ({problem}): the keyed interface answers 503, addresses go"
            " uncounted",
            "check host and password in RATELIMIT_STORAGE_URL, and that it runs",
        )
    else:
        yield fine("Redis answers")


def check_providers(config):
    gecko = config.geckoterminal_url.removesuffix("/api/v2") + "/api/v2/networks/solana/new_pools"
    for name, url in (
        ("DexScreener", config.dexscreener_url + "/token-profiles/latest/v1"),
        ("GeckoTerminal", gecko),
    ):
        try:
            fetch_json(open_session(), url)
            yield fine(f"{name} answers")
        except FetchError as error:
            yield look(
                f"{name} {error}",
                "the market keeps what it had, marked stale; it is asked again by itself",
            )
