"""Find problems of an instance and say how to fix them, in sentences. Read-only; uses the network
only on request.

A check yields Findings: `fine`, `look` (the operator should know) or `wrong` (needs action).
"""

import os
import pwd
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chain.reading.added import BadTable
from chain.reading.added_currencies import use_added
from chain.reading.currencies import list_added
from chain.reading.programs import table
from chain.rpc import Rpc, RpcError
from config import LOCAL_HOSTS, Config
from market.failures import FetchError
from market.fetch import fetch_json, open_session
from operate import backups
from operate.database_checks import (
    check_database,
    check_deep,
    check_jobs,
    check_schema,
    check_witnessed,
)
from operate.filesystems import check_filesystem
from operate.findings import CLOCK_MS, SET_CLOCK, Finding, fine, look, show_span, show_time, wrong
from operate.instance import SIDE_FILES
from operate.stored_backups import LEAST_FREE
from storage import counters, files, key_files

OWN_FILES = {
    *(name + side for name in ("app.db", "ratelimit.db") for side in SIDE_FILES),
    *("secret_key", "log_key", "programs.csv", "currencies.csv", "about.txt"),
    # Written by `app.py demo`, which also prints its path.
    "server.log",
    *("jobs.lock", "work.lock", "migrating.lock", files.DATA_DIR_LOCK),
}
LEFTOVERS = {
    "app.db.before-": "the database before a migration",
    "app.db.replaced-": "data put aside by a restore",
    "app.db.restored": "an interrupted restore",
}


def examine(config: Config, now: int, online: bool = False, deep: bool = False) -> list[Finding]:
    """Return all findings in a fixed order. `now` in ms. `deep`: also compare derived data."""
    return [finding for check in list_checks(config, now, online, deep) for finding in check]


def list_checks(config: Config, now: int, online: bool, deep: bool) -> Iterator[Iterable[Finding]]:
    """Yield each check's findings in turn. `online`: use the network; `deep`: rebuild derived data
    and compare.
    """
    yield check_settings(config)
    tables = list(check_tables(config))
    yield tables
    yield check_filesystem(config)
    if config.data_dir.is_dir():
        yield check_access(config)
        if can_look(config):
            yield check_disk(config)
            yield check_files(config)
            yield check_database(config, now)
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
    """Return the findings that are quick enough for the server itself: nothing here reads a growing
    table. `execute`: method of the open database; `applied`: names of its migrations. `now` in ms.
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
        given, missing = (
            ("LLM_BASE_URL", "LLM_MODEL") if config.llm_base_url else ("LLM_MODEL", "LLM_BASE_URL")
        )
        yield look(
            f"{given} is set without {missing}; most endpoints then return nothing",
            f"set {missing} too, or leave both out",
        )
    if Path(".env").exists() and is_open(Path(".env")):
        yield wrong("other users of this machine can read .env", "chmod 600 .env")


def check_tables(config: Config) -> Iterator[Finding]:
    """Check the operator's files, and use their currencies in this process."""
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
    free, size = (
        shutil.disk_usage(config.data_dir).free,
        sum(path.stat().st_size for path in config.data_dir.glob("app.db*")),
    )
    if free < LEAST_FREE + size:
        yield wrong(
            f"{free / 1e9:.1f} GB free on the disk with {config.data_dir}: too little for a"
            " backup there, and soon for posts",
            "free some space, or move DATA_DIR",
        )
    else:
        yield fine(
            f"{free / 1e9:.0f} GB free on the disk with {config.data_dir}; app.db uses"
            f" {size / 1e6:.1f} MB"
        )


def check_files(config: Config) -> Iterator[Finding]:
    files = sorted(path for path in config.data_dir.iterdir() if path.is_file())
    opened = [path.name for path in files if is_open(path)]
    if opened and is_open(config.data_dir):
        yield wrong(
            f"other users of this machine can read {', '.join(opened)}",
            f"chmod 600 {config.data_dir}/*",
        )
    yield from _name_leftovers(config, files)
    if (config.data_dir / "app.db-wal").exists() and not config.database_path.exists():
        yield wrong(
            "there is an app.db-wal without its app.db",
            "put its app.db back, or restore a backup with --replace",
        )
    yield from _check_key_files(config)
    rules = config.data_dir / "about.txt"
    if rules.exists() and not (rules.is_file() and os.access(rules, os.R_OK)):
        yield wrong(
            "about.txt can't be read, so /about shows no rules", f"put a text file at {rules}"
        )


def _name_leftovers(config: Config, files: list[Path]) -> Iterator[Finding]:
    partials = backups.list_partials(config.data_dir)
    for path in files:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        if path in partials:
            yield look(
                f"an interrupted copy left {path} ({size}) behind", "the next start removes it"
            )
        elif path.name not in OWN_FILES and not path.name.endswith(".partial"):
            kinds = [kind for start, kind in LEFTOVERS.items() if path.name.startswith(start)]
            yield look(
                f"{path} ({size}) is {kinds[0] if kinds else 'an unknown file'}",
                "delete it once you're sure you don't need it",
            )


def _check_key_files(config: Config) -> Iterator[Finding]:
    secret, log = config.data_dir / "secret_key", config.data_dir / "log_key"
    is_read = not config.secret_key and _may_read(secret)
    if is_read and len(key_files.read_secret(secret)) < key_files.MIN_SECRET:
        yield wrong(
            "secret_key is too short: sessions and cursors could be forged",
            f"rm {secret}: the next start creates a new one, and everyone must sign in again",
        )
    if not config.log_key and _may_read(log):
        kept = key_files.read_secret(log)
        if kept and not key_files.is_log_key(kept):
            yield wrong(
                "log_key doesn't contain 64 hexadecimal digits, so the server won't start",
                f"restore your saved copy; without one, rm {log}: the next start creates a new"
                " key and opens a new log, which names the last checkpoint of this one",
            )


def _may_read(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)


# its genesis hash
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
        yield (
            fine(f"Solana endpoint {number} answers, at slot {slot}")
            if genesis == MAINNET
            else look(f"Solana endpoint {number} answers but isn't mainnet")
        )
        yield check_finality(rpc, number)
        if isinstance(seconds, int) and abs(now - seconds * 1000) > CLOCK_MS:
            yield compare_clock(number, seconds * 1000, now)


def compare_clock(number: int, block_ms: int, now: int) -> Finding:
    told = (
        f"the newest final block of endpoint {number} is from {show_time(block_ms)}, but the"
        f" clock here says {show_time(now)}, {show_span(abs(now - block_ms))}"
    )
    # Blocks are never from the future, but any node may lag.
    if block_ms > now:
        return wrong(f"{told} behind", f"the clock is wrong: {SET_CLOCK}")
    return wrong(
        f"{told} later",
        f"if other endpoints agree, the clock is ahead: {SET_CLOCK}; if not, the endpoint lags:"
        " replace it",
    )


def check_finality(rpc: Rpc, number: int) -> Finding:
    """Ask a node whether its chain finalizes with Alpenglow, which shows in a certificate of its
    genesis. It only affects how long a transaction takes to become final.
    """
    try:
        certificate, _ = rpc.call("getAgGenesisCert", [])
    except RpcError:
        # -32601, from nodes without this method.
        return fine(f"Solana endpoint {number} doesn't say whether its chain runs Alpenglow")
    if certificate is None:
        return fine(f"Solana endpoint {number}: its chain does not run Alpenglow yet")
    return fine(
        f"Solana endpoint {number}: its chain runs Alpenglow, with finality within a second"
    )


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
        yield fine("Redis answers")


def check_providers(config: Config) -> Iterator[Finding]:
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
                "the market shows its last prices as stale, and the scout retries",
            )


ROOT = 0
# Files that the server only reads; it writes its other files.
READ_ALONE = {"secret_key", "log_key", "programs.csv", "currencies.csv", "about.txt"}
WRITTEN = "app.db", "ratelimit.db", "jobs.lock", "work.lock", files.DATA_DIR_LOCK


def check_access(config: Config) -> Iterator[Finding]:
    """Check that this user can use DATA_DIR and its files, and that no other user can read them.
    Root can use everything, so for root check the folder's owner.
    """
    folder, user = config.data_dir, os.geteuid()
    owner = folder.stat().st_uid
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK) and owner == user:
        yield wrong(
            f"{folder} cannot be written",
            f"chmod 700 {folder}; check that its disk is mounted for writing",
        )
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield wrong(
            f"{folder} belongs to {name_user(owner)}, but this is {name_user(user)}, so nothing"
            " can be written",
            advise_owner(folder, owner),
        )
    elif is_open(folder):
        yield look(f"other users of this machine can list {folder}", f"chmod 700 {folder}")
    else:
        yield fine(f"{folder} is writable, and private to this user")
    if user == ROOT != owner:
        yield look(
            f"this is root, but {folder} belongs to {name_user(owner)}",
            f"run commands as {name_user(owner)}; docs/operate.md shows how",
        )
    if os.access(folder, os.X_OK):
        yield from _check_files(folder, owner if user == ROOT else user)


def _check_files(folder: Path, user: int) -> Iterator[Finding]:
    written = {name + side for name in WRITTEN for side in SIDE_FILES}
    paths = [folder / name for name in sorted(written | READ_ALONE) if (folder / name).is_file()]
    closed = [path for path in paths if not _can_use(path, path.name in written, user)]
    for path in (path for path in closed if path.stat().st_uid == user):
        what = "is read-only, so nothing can be stored" if _is_readable(path) else "cannot be read"
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


def _is_readable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IRUSR)


def _can_use(path: Path, is_written: bool, user: int) -> bool:
    needed, known = os.R_OK | (os.W_OK if is_written else 0), path.stat()
    # Root can do what no mode allows, and a read-only disk can't be written to.
    if known.st_uid == user:
        is_allowed = known.st_mode >> 6 & needed == needed
    else:
        is_allowed = user == os.geteuid() or known.st_mode & needed == needed
    return is_allowed and os.access(path, needed)


def can_look(config: Config) -> bool:
    """Whether this user can read everything that an examination reads."""
    folder = config.data_dir
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    names = [name + side for name in ("app.db", files.DATA_DIR_LOCK) for side in SIDE_FILES]
    paths = [folder / name for name in names]
    return all(os.access(path, os.R_OK) for path in paths if path.exists())


def advise_owner(folder: Path, owner: int) -> str:
    """Say how to access another user's files."""
    server = "USER" if owner == ROOT else str(owner)
    named = (
        "where USER is the server's user"
        if owner == ROOT
        else f"if the server is {name_user(owner)}"
    )
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
