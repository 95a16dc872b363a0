"""Settings: read once from the environment (or `.env`), checked, frozen. docs/settings.md lists
them.
"""

import fcntl
import logging
import os
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values

VERSION = "0.1.0"
PUBLIC_MAINNET = "https://api.mainnet-beta.solana.com"
DEXSCREENER = "https://api.dexscreener.com"
GECKOTERMINAL = "https://api.geckoterminal.com"
BASE58_ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
DEMONSTRATION_ID = b"DEMO"
# Characters of the file secret_key. We write 64.
MIN_SECRET = 32
log = logging.getLogger("candor")
WINDOW_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}


class BadSetting(ValueError):
    """A setting that cannot be used; the message names it, shows what is allowed and never repeats
    its value.
    """


@dataclass(frozen=True)
class Config:
    """All settings with their defaults. Times are seconds, limits are counts per window."""

    host: str = "127.0.0.1"
    port: int = 8000
    base_url: str = "http://127.0.0.1:8000"
    data_dir: Path = Path("data")
    # empty: app.db in data_dir
    database_url: str = field(default="", repr=False)
    # may carry a token
    solana_rpc_urls: tuple = field(default=(PUBLIC_MAINNET,), repr=False)
    # per endpoint and method
    rpc_requests_per_second: float = 2.0
    # 0 switches a job off
    observer_interval_seconds: float = 15.0
    scout_interval_seconds: float = 60.0
    paper_interval_seconds: float = 30.0
    dexscreener_url: str = DEXSCREENER
    geckoterminal_url: str = GECKOTERMINAL
    extra_swap_programs: tuple = ()
    ip_limit_per_minute: int = 300
    failed_auth_per_minute: int = 20
    creations_per_minute: int = 3
    posts_per_minute: int = 20
    allowance: tuple = (("minute", 120), ("hour", 2000), ("day", 10000))
    # empty: the file in data_dir
    secret_key: str = field(default="", repr=False)
    registration: str = "open"
    max_wallets_per_owner: int = 5
    max_receipts_per_wallet: int = 50_000
    # the wallet itself and its token accounts
    max_addresses_per_wallet: int = 2_000
    # 1 MB is 1,000,000 bytes
    max_posts_kept_mb: int = 200
    max_wallet_changes_per_day: int = 5
    max_traders_per_owner: int = 10
    max_streams_per_owner: int = 4
    max_connections_per_address: int = 256
    allowed_hosts: tuple = ("localhost", "127.0.0.1", "[::1]")
    trusted_proxies: int = 0
    web_concurrency: int = 1
    threads: int = 8
    ratelimit_storage_url: str = field(default="", repr=False)
    # off: no page of another site may read what is public
    cors: str = "on"
    # on: /metrics, for Prometheus
    metrics: str = "off"
    llm_base_url: str = field(default="", repr=False)
    llm_model: str = ""
    llm_api_key: str = field(default="", repr=False)
    # no setting: DATA_DIR is one that `app.py demo` made
    demonstration: bool = False

    @property
    def base_path(self) -> str:
        """The path of BASE_URL, below which everything is served and linked: "" or "/candor"."""
        return urlsplit(self.base_url).path

    @property
    def database_path(self):
        return self.data_dir / "app.db"

    @property
    def ratelimit_path(self):
        return self.data_dir / "ratelimit.db"


def load(environ=None, dotenv=".env"):
    """The Config of this process. `environ` wins over the file `dotenv`; empty values count as
    absent.

    Raises BadSetting, naming the setting, for a value that cannot be used.
    """
    environ = os.environ if environ is None else environ
    values = {**(dotenv_values(dotenv) if dotenv else {}), **environ}
    given = {
        name: parse(name.upper(), values[name.upper()].strip())
        for name, parse in PARSERS.items()
        if (values.get(name.upper()) or "").strip()
    }
    if (values.get("OBSERVERS") or "one").strip() not in ("", "one"):
        raise BadSetting("OBSERVERS is gone: one process observes all wallets. Remove the setting")
    config = Config(**given)
    base_url = given.get("base_url") or f"http://{_in_url(config.host)}:{config.port}"
    hosts = (*given.get("allowed_hosts", Config.allowed_hosts), _host_of(base_url))
    config = Config(
        **{**given, "base_url": base_url.rstrip("/"), "allowed_hosts": tuple(dict.fromkeys(hosts))}
    )
    return replace(config, demonstration=is_demonstration(config.database_path))


def lift_quotas(config: Config) -> Config:
    """The same settings without quotas an owner: the operator's command line has none."""
    unbounded = 2**62
    return replace(
        config,
        max_wallets_per_owner=unbounded,
        max_posts_kept_mb=unbounded,
        max_wallet_changes_per_day=unbounded,
        max_traders_per_owner=unbounded,
    )


def is_demonstration(path):
    """Does a database say that it is a demonstration's? Its header does: the application id,
    sqlite.org/fileformat.html.
    """
    try:
        with open(path, "rb") as file:
            return file.read(72)[68:] == DEMONSTRATION_ID
    except OSError:
        # none there, or none that can be read: whoever opens it will say so
        return False


def secret_key(config):
    """The instance's signing secret: the setting, or the file in DATA_DIR, made on first use (mode
    0600).

    BadSetting where the file holds too little. An empty one, as a power cut may have left of an
    older version's, holds no secret that could be kept: it is made anew.
    """
    if config.secret_key:
        return config.secret_key
    path = config.data_dir / "secret_key"
    secret = _read_secret(path) or _make_secret(path)
    if len(secret) < MIN_SECRET:
        raise BadSetting(
            f"{path} must hold at least {MIN_SECRET} characters: delete it and the next "
            "start makes a new one, which signs everybody out"
        )
    return secret


def _read_secret(path):
    """What the file holds; "" where there is none, or only blanks and NUL bytes."""
    try:
        return path.read_text(errors="replace").strip("\0 \r\n\t")
    except FileNotFoundError:
        return ""


def _make_secret(path):
    """Write a new secret, whole or not at all; of several processes one does, and all read the
    same.
    """
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not _read_secret(path):
            if path.exists():
                log.warning("secret_key was empty, so it is made anew: creators sign in again")
            draft = path.with_name("secret_key.partial")
            with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
                file.write(os.urandom(32).hex())
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            os.fsync(folder)
        return _read_secret(path)
    finally:
        # Lets go of the lock, too.
        os.close(folder)


def _in_url(host):
    return f"[{host}]" if ":" in host else host


def _host_of(url):
    return _in_url(urlsplit(url).hostname or "")


def _text(name, value):
    return value


def _path(name, value):
    return Path(value).expanduser()


def _integer(low, high):
    def parse(name, value):
        if re.fullmatch(r"\d{1,9}", value) and low <= int(value) <= high:
            return int(value)
        raise BadSetting(f"{name} must be a whole number from {low} to {high}")

    return parse


def _number(low, high):
    def parse(name, value):
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}", value) and low <= float(value) <= high:
            return float(value)
        raise BadSetting(f"{name} must be a number from {low:g} to {high:g}")

    return parse


def _one_of(*allowed):
    def parse(name, value):
        if value in allowed:
            return value
        raise BadSetting(f"{name} must be one of: {', '.join(allowed)}")

    return parse


def _is_url(value, schemes):
    try:
        parts = urlsplit(value)
        return (
            parts.scheme in schemes
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        return False


def _url(*schemes):
    def parse(name, value):
        if _is_url(value, schemes):
            return value.rstrip("/")
        raise BadSetting(
            f"{name} must be a URL beginning with {' or '.join(s + '://' for s in schemes)}"
        )

    return parse


def _base_url(name, value):
    """Scheme, host, port and perhaps a path of plain names: it is put in front of every link as it
    stands.
    """
    parts = urlsplit(value) if _is_url(value, ("http", "https")) else None
    if (
        parts
        and not (parts.query or parts.fragment or parts.username or "?" in value or "#" in value)
        and re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?", parts.path)
    ):
        return value.rstrip("/")
    raise BadSetting(
        f"{name} must be http(s)://HOST[:PORT][/PATH], the path of letters, digits and . _ ~ -"
        " alone"
    )


def _urls(name, value):
    urls = tuple(part.strip() for part in value.split(",") if part.strip())
    if urls and all(_is_url(url, ("http", "https")) for url in urls):
        return urls
    raise BadSetting(f"{name} must be one or more http(s) URLs separated by commas")


def _redis_url(name, value):
    """Nothing but a server, a password, a number of a database: what else a URL can say would only
    be noticed at the first request.
    """
    parts = urlsplit(value) if _is_url(value, ("redis", "rediss")) else None
    if parts and re.fullmatch(r"/?\d{0,4}", parts.path) and not parts.query and not parts.fragment:
        return value
    raise BadSetting(
        f"{name} must be redis[s]://[[user]:password@]host[:port][/database], signs in the password"
        " as %XX"
    )


def _programs(name, value):
    ids = tuple(part.strip() for part in value.split(",") if part.strip())
    if all(BASE58_ADDRESS.fullmatch(one) for one in ids):
        return ids
    raise BadSetting(f"{name} must be base58 program ids separated by commas")


def _hosts(name, value):
    hosts = tuple(part.strip().lower() for part in value.split(",") if part.strip())
    if all(re.fullmatch(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]", host) for host in hosts):
        return hosts
    raise BadSetting(f"{name} must be host names without port, separated by commas")


def _allowance(name, value):
    """`120/minute;2000/hour;10000/day` -> (("minute", 120), ...), shortest window first."""
    limits = {}
    for part in value.split(";"):
        found = re.fullmatch(r"\s*([1-9]\d{0,8})/(minute|hour|day)\s*", part)
        if not found or found[2] in limits:
            raise BadSetting(
                f"{name} must look like 120/minute;2000/hour;10000/day, each window once"
            )
        limits[found[2]] = int(found[1])
    return tuple((window, limits[window]) for window in WINDOW_SECONDS if window in limits)


PARSERS = {
    "host": _text,
    "port": _integer(1, 65535),
    "base_url": _base_url,
    "data_dir": _path,
    "database_url": _url("postgresql"),
    "solana_rpc_urls": _urls,
    "rpc_requests_per_second": _number(0.1, 10_000),
    "observer_interval_seconds": _number(0, 86_400),
    "scout_interval_seconds": _number(0, 86_400),
    "paper_interval_seconds": _number(0, 86_400),
    "dexscreener_url": _url("http", "https"),
    "geckoterminal_url": _url("http", "https"),
    "extra_swap_programs": _programs,
    "ip_limit_per_minute": _integer(1, 10**8),
    "failed_auth_per_minute": _integer(1, 10**8),
    "creations_per_minute": _integer(1, 10**8),
    "posts_per_minute": _integer(1, 10**8),
    "allowance": _allowance,
    "secret_key": _text,
    "registration": _one_of("open", "closed"),
    "max_wallets_per_owner": _integer(1, 10**6),
    "max_receipts_per_wallet": _integer(1, 10**8),
    "max_addresses_per_wallet": _integer(1, 10**6),
    "max_posts_kept_mb": _integer(1, 10**8),
    "max_wallet_changes_per_day": _integer(1, 10**6),
    "max_traders_per_owner": _integer(1, 10**6),
    "max_streams_per_owner": _integer(1, 10**6),
    "max_connections_per_address": _integer(1, 10**6),
    "allowed_hosts": _hosts,
    "trusted_proxies": _integer(0, 10),
    "web_concurrency": _integer(1, 64),
    "threads": _integer(1, 256),
    "ratelimit_storage_url": _redis_url,
    "metrics": _one_of("off", "on"),
    "cors": _one_of("on", "off"),
    "llm_base_url": _url("http", "https"),
    "llm_model": _text,
    "llm_api_key": _text,
}
assert {*PARSERS, "demonstration"} == {f.name for f in fields(Config)}
