"""What is wrong with an instance, and what to do about it, in sentences. Reads only; asks the
network only when told to.

A check yields Findings: `fine`; `look`, which an operator should know of; `wrong`, which needs
doing something.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chain.reading.programs import BadPrograms, table
from config import LOCAL_HOSTS, Config
from operate import backups
from operate.access_checks import can_look, check_access, is_open
from operate.content_checks import check_jobs, check_witnessed
from operate.database_checks import check_database, check_deep, check_schema
from operate.filesystems import check_filesystem
from operate.findings import Finding, fine, look, wrong
from operate.network_checks import check_endpoints, check_providers, check_redis
from operate.stored_backups import LEAST_FREE
from storage import key_files, locks

OWN_FILES = {
    "app.db",
    "app.db-wal",
    "app.db-shm",
    "app.db-journal",
    "ratelimit.db",
    "ratelimit.db-wal",
    "ratelimit.db-shm",
    "ratelimit.db-journal",
    "secret_key",
    "log_key",
    "programs.csv",
    "about.txt",
    # A demonstration's: `app.py demo` writes it and says where it is.
    "server.log",
    "jobs.lock",
    "work.lock",
    "migrating.lock",
    locks.DATA_DIR_LOCK,
}
LEFTOVERS = {
    "app.db.before-": "the database before a migration",
    "app.db.replaced-": "what a restore put aside",
    "app.db.restored": "an interrupted restore",
}


def examine(config: Config, now: int, online: bool = False, deep: bool = False) -> list[Finding]:
    """All findings, in a fixed order. `now` in ms. `deep`: derive everything again and compare."""
    return [finding for check in list_checks(config, now, online, deep) for finding in check]


def list_checks(config: Config, now: int, online: bool, deep: bool) -> Iterator[Iterable[Finding]]:
    """Yield the findings of each check in turn; `online` asks the network, `deep` derives
    everything again.
    """
    yield check_settings(config)
    programs = list(check_programs(config))
    yield programs
    yield check_filesystem(config)
    if config.data_dir.is_dir():
        yield check_access(config)
        if can_look(config):
            yield check_disk(config)
            yield check_files(config)
            yield check_database(config, now)
            if deep and not any(one.level == "wrong" for one in programs):
                yield check_deep(config, now)
        else:
            yield [look("nothing else in DATA_DIR was checked: this user cannot read it")]
    else:
        yield [look(f"{config.data_dir} does not exist yet", "`make run` makes it")]
    if online:
        yield check_endpoints(config, now)
        yield check_providers(config)
        if config.ratelimit_storage_url:
            yield check_redis(config, now)


def examine_lightly(
    config: Config, now: int, execute: Callable[..., Any], applied: list[str]
) -> list[Finding]:
    """What can be said at once, in the server itself: nothing here reads a table that grows.

    `execute`: of the database that is open; `applied`: the names of its migrations. `now` in ms.
    """
    return [
        *check_settings(config),
        *check_programs(config),
        *check_filesystem(config),
        *check_access(config),
        *check_disk(config),
        *check_files(config),
        *check_schema(applied),
        *check_jobs(execute, config, now, running=True),
        *check_witnessed(execute),
    ]


def check_settings(config: Config) -> Iterator[Finding]:
    """Check what settings can be wrong together, or unsafe on a public address."""
    yield fine("the settings can be read")
    url = urlsplit(config.base_url)
    if url.scheme == "http" and url.hostname not in LOCAL_HOSTS:
        yield look(
            f"BASE_URL is http://{url.hostname}: cookies and keys are sent unencrypted",
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
    if bool(config.llm_base_url) != bool(config.llm_model):
        given, missing = (
            ("LLM_BASE_URL", "LLM_MODEL") if config.llm_base_url else ("LLM_MODEL", "LLM_BASE_URL")
        )
        yield look(
            f"{given} is set without {missing}: most endpoints write nothing then",
            f"set {missing} too, or leave out both",
        )
    if Path(".env").exists() and is_open(Path(".env")):
        yield wrong("other users of this machine can read .env", "chmod 600 .env")


def check_programs(config: Config) -> Iterator[Finding]:
    """What the operator adds to the table of programs, and what marks trades."""
    try:
        programs = table(config.extra_swap_programs, config.added_programs)
    except BadPrograms as refusal:
        yield wrong(str(refusal), "correct that row: nothing starts or observes until then")
        return
    if programs.added:
        yield fine(f"DATA_DIR/programs.csv adds {len(programs.added)} to the table of programs")
    if programs.markers:
        yield look(
            f"EXTRA_SWAP_PROGRAMS is set ({', '.join(sorted(programs.markers))}): every transaction"
            " that calls one of these counts as a trade in full, wherever its value came from",
            "that is for private chains and tests; a real venue belongs in DATA_DIR/programs.csv",
        )


def check_disk(config: Config) -> Iterator[Finding]:
    """Is there room for a backup beside the database?"""
    free, size = (
        shutil.disk_usage(config.data_dir).free,
        sum(path.stat().st_size for path in config.data_dir.glob("app.db*")),
    )
    if free < LEAST_FREE + size:
        yield wrong(
            f"{free / 1e9:.1f} GB free on the disk of {config.data_dir}: too little for a"
            " backup there, soon for posts",
            "free some space, or move DATA_DIR",
        )
    else:
        yield fine(
            f"{free / 1e9:.0f} GB free on the disk of {config.data_dir}; app.db takes"
            f" {size / 1e6:.1f} MB"
        )


def check_files(config: Config) -> Iterator[Finding]:
    """Check what lies in DATA_DIR: files that others can read, leftovers, missing counterparts."""
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
            "app.db-wal is there without its app.db",
            "put its app.db back beside it, or restore a backup with --replace",
        )
    yield from _check_key_files(config)
    rules = config.data_dir / "about.txt"
    if rules.exists() and not (rules.is_file() and os.access(rules, os.R_OK)):
        yield wrong(
            "about.txt cannot be read: /about shows no rules", f"put a text file at {rules}"
        )


def _name_leftovers(config: Config, files: list[Path]) -> Iterator[Finding]:
    partials = backups.list_partials(config.data_dir)
    for path in files:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        if path in partials:
            yield look(
                f"{path} ({size}) was left by an interrupted copy", "the next start removes it"
            )
        elif path.name not in OWN_FILES and not path.name.endswith(".partial"):
            kinds = [kind for start, kind in LEFTOVERS.items() if path.name.startswith(start)]
            yield look(
                f"{path} ({size}) is {kinds[0] if kinds else 'a file Candor does not know'}",
                "delete it once you are sure you do not need it",
            )


def _check_key_files(config: Config) -> Iterator[Finding]:
    secret, log = config.data_dir / "secret_key", config.data_dir / "log_key"
    is_read = not config.secret_key and _is_readable(secret)
    if is_read and len(key_files.read_secret(secret)) < key_files.MIN_SECRET:
        yield wrong(
            "secret_key is cut short: sessions and cursors could be forged",
            f"rm {secret}: the next start makes a new one, and everybody has to log in again",
        )
    if not config.log_key and _is_readable(log):
        kept = key_files.read_secret(log)
        if kept and not key_files.is_log_key(kept):
            yield wrong(
                "log_key does not hold 64 hexadecimal digits: no server starts with it",
                f"put the copy you kept back; where there is none, rm {log}: the next start makes a"
                " new one and begins a new log, which names the last checkpoint of this one",
            )


def _is_readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)
