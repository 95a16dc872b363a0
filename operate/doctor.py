"""Find an instance's problems, and say how to fix them.

The checks only read, and use the network only on request. A check yields Findings: `fine`, `look`
(the operator should know) or `wrong` (something must be done).
"""

import contextlib
import itertools
import os
import pwd
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import apsw
from peewee import OperationalError

import storage
from accounts import quotas
from chain.ledger.coverage import NEAR_LIMIT_PERCENT
from chain.reading.added_currencies import use_added
from chain.reading.currencies import list_added
from chain.reading.programs import BadTable, table
from chain.rpc import Rpc, RpcError
from chain.stored.derived import list_damaged
from chain.stored.tables import CHANGES, OBJECT, WALLET_PARTS
from config import LOCAL_HOSTS, Config
from market.failures import FetchError
from market.fetch import fetch_json, open_session
from operate import backups, inspection, instance, schema
from operate.instance import SIDE_FILES, list_files
from storage import counters, files
from storage.rows import read_stored

# Maximum age of the newest final block, because nodes lag and finality takes time.
CLOCK_MS = 90_000
SET_CLOCK = "set it on the machine itself (as root: timedatectl set-ntp true)"


@dataclass(frozen=True)
class Finding:
    # fine | look (the operator should know) | wrong (something must be done)
    level: str
    text: str
    advice: str = ""


def fine(text: str) -> Finding:
    return Finding("fine", text)


def look(text: str, advice: str = "") -> Finding:
    return Finding("look", text, advice)


def wrong(text: str, advice: str) -> Finding:
    return Finding("wrong", text, advice)


def show_time(ms: int | None) -> str:
    """Write UTC milliseconds for people, or "never" for None."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000)) if ms else "never"


def show_span(ms: int) -> str:
    """Write a span for people, in its two largest units: `2 h 5 min`."""
    parts: list[str] = []
    rest = ms // 1000
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count or (parts and len(parts) < 2):
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"


OWN_FILES = {
    *(name + side for name in ("app.db", "ratelimit.db") for side in SIDE_FILES),
    *("secret_key", "log_key", "programs.csv", "currencies.csv", "about.txt"),
    # Written by `app.py demo`, which prints its path.
    "server.log",
    *("jobs.lock", "work.lock", "migrating.lock", files.DATA_DIR_LOCK),
}
LEFTOVERS = {
    "app.db.before-": "the database before a migration",
    "app.db.replaced-": "data put aside by a restore",
    "app.db.restored": "an interrupted restore",
}


def examine(config: Config, now: int, online: bool = False, deep: bool = False) -> list[Finding]:
    return [finding for check in list_checks(config, now, online, deep) for finding in check]


def list_checks(config: Config, now: int, online: bool, deep: bool) -> Iterator[Iterable[Finding]]:
    """`online` allows the network. `deep` rebuilds derived data and compares it."""
    yield check_settings(config)
    tables = list(check_tables(config))
    yield tables
    yield check_filesystem(config)
    if config.data_dir.is_dir():
        yield check_access(config)
        if can_look(config):
            yield check_disk(config)
            yield check_files(config)
            yield check_server(config, now) if config.database_url else check_file(config, now)
            if deep and not any(one.level == "wrong" for one in tables):
                yield check_deep(config, now)
        else:
            yield [look("nothing else in DATA_DIR was checked, because this user can't read it")]
    else:
        yield [look(f"{config.data_dir} does not exist yet", "run `make run` to create it")]
    if online:
        yield check_endpoints(config, now)
        yield check_providers(config)
        if config.ratelimit_storage_url:
            yield check_redis(config, now)


def examine_lightly(
    config: Config, now: int, execute: Callable[..., Any], applied: list[str]
) -> list[Finding]:
    """Return the findings that are quick enough for the server: they don't read growing tables.

    `execute` is a method of the open database. `applied` are the names of its migrations. `now`:
    ms.
    """
    return [
        *check_settings(config),
        *check_tables(config),
        *check_filesystem(config),
        *check_access(config),
        *check_disk(config),
        *check_files(config),
        *check_schema(applied),
        *check_jobs(execute, config, now, running=True),
        *check_witnessed(execute),
    ]


def check_settings(config: Config) -> Iterator[Finding]:
    yield fine("the settings are valid")
    url = urlsplit(config.base_url)
    if url.scheme == "http" and url.hostname not in LOCAL_HOSTS:
        yield look(
            f"BASE_URL is http://{url.hostname}: cookies and keys are sent unencrypted",
            "put a TLS proxy in front and set BASE_URL to https://...",
        )
    if url.scheme == "https" and not config.trusted_proxies:
        yield look(
            "BASE_URL is https but TRUSTED_PROXIES is 0, so all readers share the proxy's"
            " address and its rate limits",
            "set TRUSTED_PROXIES=1 behind one proxy",
        )
    if config.secret_key and len(config.secret_key) < 32:
        yield wrong(
            "SECRET_KEY is shorter than 32 characters: sessions could be forged",
            "leave it out, or set 64 random hexadecimal digits",
        )
    if bool(config.llm_base_url) != bool(config.llm_model):
        names = ("LLM_BASE_URL", "LLM_MODEL")
        given, missing = names if config.llm_base_url else names[::-1]
        yield look(
            f"{given} is set without {missing}; most endpoints then return nothing",
            f"set {missing} too, or leave both out",
        )
    if Path(".env").exists() and is_open(Path(".env")):
        yield wrong("other users of this machine can read .env", "chmod 600 .env")


def check_tables(config: Config) -> Iterator[Finding]:
    try:
        programs = table(config.extra_swap_programs, config.added_programs)
        use_added(config.added_currencies)
    except BadTable as refusal:
        yield wrong(str(refusal), "correct that row; the server won't start until you do")
        return
    if programs.added:
        yield fine(f"DATA_DIR/programs.csv adds {len(programs.added)} to the table of programs")
    if added := list_added():
        names = ", ".join(one.symbol for one in added)
        yield fine(f"DATA_DIR/currencies.csv adds {names} to the currencies")
    if programs.markers:
        yield look(
            f"EXTRA_SWAP_PROGRAMS is set ({', '.join(sorted(programs.markers))}): every"
            " transaction that calls one of these counts fully as a trade, even if others paid"
            " for it",
            "this is for private chains and tests; add a real venue to DATA_DIR/programs.csv",
        )


def check_disk(config: Config) -> Iterator[Finding]:
    free, size, is_enough = backups.measure_room(config)
    text = f"free on the disk with {config.data_dir}"
    if is_enough:
        yield fine(f"{free / 1e9:.0f} GB {text}; app.db uses {size / 1e6:.1f} MB")
    else:
        yield wrong(
            f"{free / 1e9:.1f} GB {text}: too little for a backup there, and soon for posts",
            "free some space, or move DATA_DIR",
        )


def check_files(config: Config) -> Iterator[Finding]:
    files = sorted(path for path in config.data_dir.iterdir() if path.is_file())
    opened = [path.name for path in files if is_open(path)]
    if opened and is_open(config.data_dir):
        text = f"other users of this machine can read {', '.join(opened)}"
        yield wrong(text, f"chmod 600 {config.data_dir}/*")
    yield from _name_leftovers(config, files)
    if (config.data_dir / "app.db-wal").exists() and not config.database_path.exists():
        yield wrong(
            "there is an app.db-wal without its app.db",
            "put its app.db back, or restore a backup with --replace",
        )
    yield from _check_key_files(config)
    rules = config.data_dir / "about.txt"
    if rules.exists() and not _may_read(rules):
        text = "about.txt can't be read, so /about shows no rules"
        yield wrong(text, f"put a text file at {rules}")


def _name_leftovers(config: Config, files: list[Path]) -> Iterator[Finding]:
    partials = backups.list_partials(config.data_dir)
    for path in files:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        if path in partials:
            text = f"an interrupted copy left {path} ({size}) behind"
            yield look(text, "the next start removes it")
        elif path.name not in OWN_FILES and not path.name.endswith(".partial"):
            kinds = [kind for start, kind in LEFTOVERS.items() if path.name.startswith(start)]
            yield look(
                f"{path} ({size}) is {kinds[0] if kinds else 'an unknown file'}",
                "delete it once you're sure you don't need it",
            )


def _check_key_files(config: Config) -> Iterator[Finding]:
    secret, log = config.data_dir / "secret_key", config.data_dir / "log_key"
    is_read = not config.secret_key and _may_read(secret)
    if is_read and len(files.read_secret(secret)) < files.MIN_SECRET:
        yield wrong(
            "secret_key is too short: sessions and cursors could be forged",
            f"rm {secret}: the next start creates a new one, and everyone must sign in again",
        )
    if not config.log_key and _may_read(log):
        kept = files.read_secret(log)
        if kept and not files.is_log_key(kept):
            yield wrong(
                "log_key doesn't contain 64 hexadecimal digits, so the server won't start",
                f"restore your saved copy; without one, rm {log}: the next start creates a new"
                " key and opens a new log, which references the last checkpoint of this one",
            )


def _may_read(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)


# Hash of the genesis block.
MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"


def check_endpoints(config: Config, now: int) -> Iterator[Finding]:
    for number, url in enumerate(config.solana_rpc_urls, 1):
        rpc = Rpc((url,), config.rpc_requests_per_second)
        try:
            slot, _ = rpc.call("getSlot", [{"commitment": "finalized"}])
            seconds, _ = rpc.call("getBlockTime", [slot])
            genesis, _ = rpc.call("getGenesisHash", [])
        except RpcError as error:
            yield wrong(
                f"Solana endpoint {number} can't be used: {str(error).replace('endpoint 1: ', '')}",
                "check its URL and key in SOLANA_RPC_URLS; add a second endpoint",
            )
            continue
        if genesis == MAINNET:
            yield fine(f"Solana endpoint {number} responds, at slot {slot}")
        else:
            yield look(f"Solana endpoint {number} responds but isn't mainnet")
        yield check_finality(rpc, number)
        if isinstance(seconds, int) and abs(now - seconds * 1000) > CLOCK_MS:
            yield compare_clock(number, seconds * 1000, now)


def compare_clock(number: int, block_ms: int, now: int) -> Finding:
    text = (
        f"the newest final block of endpoint {number} is from {show_time(block_ms)}, but the"
        f" clock here says {show_time(now)}, {show_span(abs(now - block_ms))}"
    )
    # Blocks are never from the future, but any node may lag.
    if block_ms > now:
        return wrong(f"{text} behind", f"the clock is wrong: {SET_CLOCK}")
    return wrong(
        f"{text} later",
        f"if other endpoints agree, the clock is ahead: {SET_CLOCK}; if not, the endpoint lags:"
        " replace it",
    )


def check_finality(rpc: Rpc, number: int) -> Finding:
    """Report whether a node's chain uses Alpenglow, so that finality takes less time.

    It does if the node returns an Alpenglow genesis certificate.
    """
    try:
        certificate, _ = rpc.call("getAgGenesisCert", [])
    except RpcError:
        # Nodes without this method return -32601.
        return fine(f"Solana endpoint {number} doesn't say whether its chain runs Alpenglow")
    text = "does not run Alpenglow yet"
    if certificate is not None:
        text = "runs Alpenglow, with finality within a second"
    return fine(f"Solana endpoint {number}: its chain {text}")


def check_redis(config: Config, now: int) -> Iterator[Finding]:
    store = counters.open_store(config)
    problem = counters.find_problem(store, now / 1000)
    store.close()
    if problem:
        yield wrong(
            f"Redis can't be used ({problem}), so requests with a key get 503 and addresses"
            " aren't counted",
            "check the host and password in RATELIMIT_STORAGE_URL, and that Redis is running",
        )
    else:
        yield fine("Redis responds")


def check_providers(config: Config) -> Iterator[Finding]:
    gecko = config.geckoterminal_url.removesuffix("/api/v2") + "/api/v2/networks/solana/new_pools"
    for name, url in (
        ("DexScreener", config.dexscreener_url + "/token-profiles/latest/v1"),
        ("GeckoTerminal", gecko),
    ):
        try:
            fetch_json(open_session(), url)
            yield fine(f"{name} responds")
        except FetchError as error:
            advice = "the market shows its last prices as stale, and the scout retries"
            yield look(f"{name} {error}", advice)


ROOT = 0
# The server only reads these files. It writes its other files.
READ_ALONE = {"secret_key", "log_key", "programs.csv", "currencies.csv", "about.txt"}
WRITTEN = "app.db", "ratelimit.db", "jobs.lock", "work.lock", files.DATA_DIR_LOCK


def check_access(config: Config) -> Iterator[Finding]:
    """Check that this user can use DATA_DIR and its files, and that no other user can read them.

    Root can use everything, so for root, the check is about the folder's owner.
    """
    folder, user = config.data_dir, os.geteuid()
    owner = folder.stat().st_uid
    is_usable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    if not is_usable and owner == user:
        advice = f"chmod 700 {folder}; check that its disk is mounted for writing"
        yield wrong(f"{folder} cannot be written", advice)
    elif not is_usable:
        yield wrong(
            f"{folder} belongs to {name_user(owner)}, but this command runs as {name_user(user)},"
            " so nothing can be written",
            advise_owner(folder, owner),
        )
    elif is_open(folder):
        yield look(f"other users of this machine can list {folder}", f"chmod 700 {folder}")
    else:
        yield fine(f"{folder} is writable, and private to this user")
    if user == ROOT != owner:
        text = f"this is root, but {folder} belongs to {name_user(owner)}"
        yield look(text, f"run commands as {name_user(owner)}; docs/operate.md shows how")
    if os.access(folder, os.X_OK):
        yield from _check_files(folder, owner if user == ROOT else user)


def _check_files(folder: Path, user: int) -> Iterator[Finding]:
    written = {name + side for name in WRITTEN for side in SIDE_FILES}
    paths = [folder / name for name in sorted(written | READ_ALONE) if (folder / name).is_file()]
    closed = [path for path in paths if not _can_use(path, path.name in written, user)]
    for path in (path for path in closed if path.stat().st_uid == user):
        is_readable = path.stat().st_mode & stat.S_IRUSR
        what = "is read-only, so nothing can be stored" if is_readable else "cannot be read"
        yield wrong(
            f"{path} {what}",
            f"chmod 600 {path}; check that its disk is mounted for writing. Nothing is damaged",
        )
    foreign = [path for path in closed if path.stat().st_uid != user]
    if foreign:
        names = ", ".join(path.name for path in foreign)
        owners = " and ".join({name_user(path.stat().st_uid): None for path in foreign})
        yield wrong(
            f"{folder} contains files that belong to other users: {names} belong to {owners}, so "
            f"{name_user(user)} can't use them",
            advise_owner(folder, folder.stat().st_uid),
        )


def _can_use(path: Path, is_written: bool, user: int) -> bool:
    needed, known = os.R_OK | (os.W_OK if is_written else 0), path.stat()
    # Root ignores file modes, but nobody can write to a read-only disk.
    if known.st_uid == user:
        is_allowed = known.st_mode >> 6 & needed == needed
    else:
        is_allowed = user == os.geteuid() or known.st_mode & needed == needed
    return is_allowed and os.access(path, needed)


def can_look(config: Config) -> bool:
    folder = config.data_dir
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    paths = [*list_files(config.database_path), folder / files.DATA_DIR_LOCK]
    return all(os.access(path, os.R_OK) for path in paths if path.exists())


def advise_owner(folder: Path, owner: int) -> str:
    server, named = str(owner), f"if the server is {name_user(owner)}"
    if owner == ROOT:
        server, named = "USER", "where USER is the server's user"
    return (
        f"as root: chown -R {server}: {folder} ({named}). Nothing is damaged: don't restore a"
        " backup"
    )


def name_user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


MOUNTINFO = Path("/proc/self/mountinfo")
# Another machine has these files. Its locks and syncs can't be relied on
# (https://sqlite.org/faq.html#q5), and shared memory for the WAL doesn't work across machines.
NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda davfs gpfs lustre ncp ncpfs nfs nfs4 panfs pvfs2 smb3"
    " smbfs".split()
)
# Folders that a host shares with a virtual machine, WSL or Docker Desktop.
SHARED = frozenset("drvfs fakeowner prl_fs vboxsf virtiofs vmhgfs".split())
# Programs that show another machine's files. In contrast, fuse.mergerfs, fuse.gocryptfs and most
# others store files on a local disk.
FUSE = frozenset(
    "beegfs-fuse blobfuse blobfuse2 ceph ceph-fuse curlftpfs davfs davfs2 gcsfuse glusterfs goofys"
    " grpcfuse gvfsd-fuse juicefs mfs mount-s3 osxfs rclone s3fs seaweedfs smbnetfs sshfs"
    " vmhgfs-fuse".split()
)


def check_filesystem(config: Config) -> Iterator[Finding]:
    """Warn if SQLite's database is on a network filesystem. PostgreSQL's files aren't checked."""
    try:
        mountinfo = MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        # This isn't Linux, or /proc isn't mounted.
        return
    kind = find_type(config.data_dir.resolve(), mountinfo)
    if not config.database_url and is_network(kind):
        yield look(
            f"DATA_DIR ({config.data_dir}) is on a network or shared filesystem ({kind}), where"
            " SQLite can lose data",
            "stop the server, move DATA_DIR to a local disk and start it again; or use"
            " PostgreSQL (docs/scale.md)",
        )


def is_network(kind: str) -> bool:
    return kind in NETWORK | SHARED or (kind.startswith("fuse.") and kind[5:] in FUSE)


def find_type(folder: Path, mountinfo: str) -> str:
    """Return the filesystem type of a resolved path, or "" if `mountinfo` doesn't have it.

    `mountinfo` is the text of /proc/self/mountinfo (proc_pid_mountinfo(5)).
    """
    found, depth = "", 0
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        names, kinds = left.split(" "), right.split(" ")
        if len(names) < 6 or len(kinds) < 2:
            continue
        point = Path(_unescape(names[4]))
        # If two mounts have the same path, the later one hides the earlier one.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = kinds[0], len(point.parts)
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


LARGE_WAL = 256_000_000
MAX_DIFFERENCES = 200
RESTORE = (
    "stop the server; restore the newest backup with --replace (the damaged file is kept aside)"
)
# A file that can't be opened or locked may be intact, and a restore would lose newer data.
NOT_DAMAGED = (
    "nothing looks damaged; check the disk and the permissions of the file and its folder, then"
    " run `app.py doctor` again"
)
REBUILD = "run `app.py rebuild` to recompute it from the stored receipts; check the disk"
TAMPERED = (
    "someone changed the database, or its disk is failing. Find out which. An older backup"
    " has the original"
)
ADVICE = {
    **dict.fromkeys(("log", "log_leaf", "log_node", "logged_wallet"), TAMPERED),
    "receipt": "run `app.py rebuild`; the observer then fetches missing and damaged receipts again",
    **dict.fromkeys(
        ("owner", "bot", "key", "session", "post", "attachment", "token", "trader"),
        "rebuild restores only rows derived from receipts; restore the rest from a backup, and"
        " check the disk",
    ),
}


def check_file(config: Config, now: int) -> list[Finding]:
    path = config.database_path
    if not path.exists():
        return [_report_missing(config)]
    try:
        with contextlib.closing(backups.open_reading(path)) as db:
            applied = schema.list_applied(db)
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


def _report_missing(config: Config) -> Finding:
    folder = config.data_dir
    left = any((folder / name).exists() for name in ("secret_key", "ratelimit.db"))
    if left or instance.is_in_use(folder):
        return wrong(
            f"{config.database_path} is missing, but {folder} was in use",
            "put it back, or restore a backup with `app.py restore FILE`",
        )
    return look(
        f"there is no database in {folder} yet",
        "run `make run` to create it, or `app.py restore FILE` to restore a backup",
    )


def check_deep(config: Config, now: int) -> Iterator[Finding]:
    if not config.database_url and not config.database_path.exists():
        return
    try:
        # A pending migration was already reported.
        if _lacks_migrations(config):
            text = "nothing was recomputed, because the schema is not this version's"
            yield look(text, "start the server once, then try again")
            return
        differences = inspection.inspect(config, now, instance.is_in_use(config.data_dir))
        found = list(itertools.islice(differences, MAX_DIFFERENCES + 1))
    # Rebuilt rows are in a temporary database, which uses Python's own sqlite3.
    except (apsw.Error, OperationalError, sqlite3.Error) as error:
        is_damaged = isinstance(error, apsw.NotADBError | apsw.CorruptError)
        advice = RESTORE if is_damaged else NOT_DAMAGED
        yield wrong(f"not everything can be read: {error}", advice)
        return
    yield from _tell_differences(found)


def _tell_differences(found: Sequence[inspection.Difference]) -> Iterator[Finding]:
    for one in found[:MAX_DIFFERENCES]:
        advice = "" if one.level == "look" else ADVICE.get(one.table, REBUILD)
        yield Finding(one.level, str(one), advice)
    if len(found) > MAX_DIFFERENCES:
        yield wrong(f"more than {MAX_DIFFERENCES} differences; the others are not listed", REBUILD)
    if not any(one.level == "wrong" for one in found):
        # Wallets with these problems weren't fully compared.
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
        return schema.list_applied(db) != storage.list_migrations()


def check_server(config: Config, now: int) -> list[Finding]:
    database = storage.make_database(config)
    try:
        database.check_sessions()
        with database.connection_context():
            applied = storage.list_applied(database)
            return [
                fine(f"PostgreSQL {database.version()} responds"),
                *check_schema(applied),
                *check_current(database.execute_sql, applied, config, now),
            ]
    except OperationalError as error:
        text = f"the database in DATABASE_URL can't be used: {str(error).strip()}"
        return [wrong(text, "start it, or correct DATABASE_URL")]
    finally:
        database.close_all()


def check_whole(db: Any, path: Path) -> Iterator[Finding]:
    flaws = backups.list_flaws(db)
    for flaw in flaws:
        yield wrong(f"{path}: {flaw}", RESTORE)
    if not flaws:
        yield fine(f"{path} is whole")
    wal = path.with_name("app.db-wal")
    if wal.exists() and wal.stat().st_size > LARGE_WAL:
        yield look(
            f"{wal} has {wal.stat().st_size / 1e6:.0f} MB because another program has been "
            "reading for a long time",
            "stop programs that have been reading for a long time (a copy, a sqlite3 shell); the"
            " next start shrinks it",
        )


def check_foreign(db: Any, path: Path) -> Iterator[Finding]:
    for sentence in schema.list_foreign(db):
        yield wrong(
            f"{path}: {sentence}",
            "find out who added it. `restore` refuses this file. Restore an older backup, or"
            " drop everything that isn't Candor's",
        )


def check_schema(applied: list[str]) -> Iterator[Finding]:
    newer, pending = storage.compare_migrations(applied)
    if newer:
        advice = "install that version, or restore a backup from before the upgrade"
        yield wrong(f"the schema is from a newer version (it has {newer[0]})", advice)
    elif pending:
        advice = "the next start upgrades it, and first backs up app.db if there is one"
        yield look(f"the schema lacks {', '.join(pending)}", advice)
    else:
        yield fine(f"the schema is {storage.list_migrations()[-1]}, the newest")


# ---- what is stored ------------------------------------------------------------------------------

# If a job fails for longer than this, the operator must act.
MAX_FAILING_MS = 3_600_000
# A job is late after this many intervals and at least this many ms, as in health.
LATE_INTERVALS, LATE_MS = 4, 120_000
# A transaction is stuck after this many tries.
STUCK_TRIES = 5
DAY_MS = 86_400_000
# Candor didn't exist before this time, so an earlier clock is wrong.
FIRST_DAY_MS = 1_790_000_000_000


def check_contents(execute: Callable[..., Any], config: Config, now: int) -> Iterator[Finding]:
    running = instance.is_in_use(config.data_dir)
    if running:
        yield fine("the server is running")
    else:
        yield look("the server isn't running", "run `make run` to start it")
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
    """Check that no time in the columns DATED is later than `now` (ms): the clock was set back."""
    newest, place = max(
        (execute(f"SELECT MAX({column}) FROM {name}").fetchone()[0] or 0, f"{name}.{column}")
        for name, column in (one.split(".") for one in DATED)
    )
    if now < FIRST_DAY_MS:
        yield wrong(
            f"the clock says {show_time(now)}, at least {show_span(FIRST_DAY_MS - now)} behind:"
            " this program is newer than that date",
            f"{SET_CLOCK}, then restart the server",
        )
    elif now < newest - CLOCK_MS:
        yield wrong(
            f"the clock says {show_time(now)}, {show_span(newest - now)} behind the newest"
            f" stored time ({place}: {show_time(newest)})",
            f"compare it with another clock. If it is behind, {SET_CLOCK}. If it is right, it"
            " was ahead when that time was stored, so do nothing. This message will disappear"
            " after that time",
        )
    else:
        yield fine(f"the clock says {show_time(now)}")


def check_jobs(
    execute: Callable[..., Any], config: Config, now: int, running: bool
) -> Iterator[Finding]:
    # Before there was an owner, no job can have succeeded.
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
            advice = f"unset {name.upper()}_INTERVAL_SECONDS to turn it on"
            yield look(f"the job {name} is turned off", advice)


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
                f" last at {show_time(one['heldBackAt'])}), so prices are out of date",
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
    last = show_time(row.last_success_at)
    if row.state != "failing":
        if row.last_success_at is None:
            return fine(f"the job {name} has not run yet, or is turned off")
        return fine(f"the job {name} last succeeded at {last}")
    advice = "run `doctor --online` to query each endpoint and provider"
    if (row.last_error or "").startswith("internal"):
        advice = "the server's log has the traceback: please report it"
    is_long = now - (row.last_success_at or began) > MAX_FAILING_MS
    report = wrong if is_long else look
    return report(f"the job {name} is failing ({row.last_error}); it last succeeded {last}", advice)


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


# Money that is left over. For stablecoins, it is JSON by mint.
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
                    f"{one.symbol} has {seen} decimals on the chain but {one.decimals} in"
                    " DATA_DIR/currencies.csv, so its amounts are displayed incorrectly",
                    "correct that row and restart the server",
                )


def check_sums(execute: Callable[..., Any]) -> Iterator[Finding]:
    rows = execute(IMBALANCES).fetchall()
    for address, imbalance, of_stablecoins in rows:
        # check_derived reports damaged JSON.
        left_over = read_stored(of_stablecoins, WALLET_PARTS["stablecoin_imbalance"].shape) or {}
        missing = [f"{imbalance} lamports"] if imbalance else []
        missing += [f"{raw} raw units of {mint}" for mint, raw in left_over.items()]
        if missing:
            yield wrong(
                f"the books of {address} don't balance: {' and '.join(missing)} are missing",
                "this is a bug in Candor: run `app.py rebuild`, and report it if it persists",
            )
    if not rows:
        yield fine("the books of every wallet balance to the lamport and to the raw unit")


def check_witnessed(execute: Callable[..., Any]) -> Iterator[Finding]:
    for url, trouble in execute("SELECT url, trouble FROM witnessed ORDER BY url"):
        if trouble:
            advice = "ask its operator; `app.py witness URL --forget` starts over"
            yield look(f"the log of {url} has changed: {trouble}", advice)


def check_use(execute: Callable[..., Any], config: Config, now: int) -> Iterator[Finding]:
    uses = quotas.list_use(execute, config, now)
    for use in uses:
        if use.owners_at_limit:
            yield look(
                f"owners at their quota {use.setting} ({use.limit}): {use.owners_at_limit}",
                f"they get an error; raise {use.setting}, or use the command line for them,"
                " which has no quotas",
            )
    used = ", ".join(f"{use.used} of {use.limit} ({use.setting})" for use in uses)
    yield fine(f"highest usage by one owner: {used}")
