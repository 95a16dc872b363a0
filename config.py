"""Settings, read once from the environment (or `.env`) and immutable (docs/settings.md)."""

import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

VERSION = "0.2.0.dev0"
PUBLIC_MAINNET = "https://api.mainnet-beta.solana.com"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
DEXSCREENER = "https://api.dexscreener.com"
GECKOTERMINAL = "https://api.geckoterminal.com"
BASE58_ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
HOST_NAME = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]")
DEMONSTRATION_ID = b"DEMO"
MAX_TABLE_BYTES = 256_000
WINDOW_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}


# Apprise supports these social networks, but we refuse them.
SOCIAL = frozenset(
    "bluesky bsky humhub humhubs mastodon mastodons misskey misskeys nostr reddit toot toots tweet"
    " twitter x".split()
)


class BadSetting(ValueError):
    """The message names the setting and the allowed values, and never repeats the given value."""


# ---- what a value may be -------------------------------------------------------------------------
# A setting's `description` completes the error message: "PORT must be ...".
def _written_as(pattern: str) -> BeforeValidator:
    """pydantic would accept more number formats than the pattern."""

    def check(value: object) -> object:
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            raise ValueError(pattern)
        return value

    return BeforeValidator(check)


def _fulfills(test: Callable[[str], object]) -> AfterValidator:
    def check(value: str) -> str:
        if not test(value):
            raise ValueError(value)
        return value

    return AfterValidator(check)


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _is_url(value: str, schemes: tuple[str, ...]) -> bool:
    try:
        # PostgreSQL URLs may list several hosts. Check only the last one.
        parts = urlsplit(re.sub("[^/@,]+,", "", value) if "postgresql" in schemes else value)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_http_url(value: str) -> bool:
    return _is_url(value, ("http", "https"))


def _is_ws_url(value: str) -> bool:
    return value == "off" or _is_url(value, ("ws", "wss"))


def _is_base_url(value: str) -> bool:
    """Whether it is only a scheme, a host, and optionally a port and a path of plain names.

    Links are built by appending to it, unchanged.
    """
    if not _is_http_url(value) or "?" in value or "#" in value:
        return False
    parts = urlsplit(value)
    plain = re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?", parts.path)
    return not parts.username and plain is not None


def _split_apprise(value: object) -> object:
    """Split before each URL, because Apprise URLs may contain commas."""
    if not isinstance(value, str):
        return value
    return tuple(re.split(r"[\s,]+(?=[a-z0-9]+://)", value.strip(" \t\r\n,"), flags=re.I))


def _is_apprise_url(value: str) -> bool:
    """Importing Apprise is slow, so Apprise validates the URL only when a notification is due."""
    scheme = re.match(r"([a-z0-9]+)://\S", value, re.I)
    if not scheme or scheme[1].lower() in SOCIAL:
        return False
    try:
        return bool(urlsplit(value).scheme)
    except ValueError:
        return False


def _is_redis_url(value: str) -> bool:
    """Any other mistake in a Redis URL would only show at the first request."""
    if not _is_url(value, ("redis", "rediss")):
        return False
    parts = urlsplit(value)
    return not (parts.query or parts.fragment) and bool(re.fullmatch(r"/?\d{0,4}", parts.path))


def _parse_allowance(value: object) -> object:
    """Parse `120/minute;2000/hour;10000/day` into (("minute", 120), ...), shortest window first."""
    if not isinstance(value, str):
        return value
    limits = {}
    for part in value.split(";"):
        found = re.fullmatch(r"\s*([1-9]\d{0,8})/(minute|hour|day)\s*", part)
        if not found:
            raise ValueError(part)
        count, window = found.groups()
        if window in limits:
            raise ValueError(part)
        limits[window] = int(count)
    return tuple((window, limits[window]) for window in WINDOW_SECONDS if window in limits)


Whole = Annotated[int, _written_as(r"\d{1,9}")]
Number = Annotated[float, _written_as(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}")]
BareUrl = AfterValidator(lambda url: url.rstrip("/"))
HttpUrl = Annotated[
    str,
    _fulfills(_is_http_url),
    BareUrl,
    Field(description="must be a URL beginning with http:// or https://"),
]
Hosts = Annotated[
    tuple[Annotated[str, AfterValidator(str.lower), _fulfills(HOST_NAME.fullmatch)], ...],
    BeforeValidator(_split),
]
Windows = Annotated[tuple[tuple[str, int], ...], BeforeValidator(_parse_allowance)]


def _whole(default: int, low: int, high: int) -> Any:
    sentence = f"must be a whole number from {low} to {high}"
    return Field(default, ge=low, le=high, description=sentence)


def _number(default: float, low: float, high: float) -> Any:
    sentence = f"must be a number from {low:g} to {high:g}"
    return Field(default, ge=low, le=high, description=sentence)


class Config(BaseSettings):
    """All settings and their defaults.

    Times are in seconds. Limits are counts per window. Settings that may contain a password or
    token are excluded from the `repr`.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        case_sensitive=True,
        alias_generator=str.upper,
        dotenv_filtering="only_existing",
        enable_decoding=False,
        validate_default=False,
    )

    host: Annotated[str, _written_as(r"[^\s/?#@\[\]]+")] = Field(
        "127.0.0.1", description="must be a host name or an address, without brackets"
    )
    port: Whole = _whole(8000, 1, 65535)
    base_url: Annotated[str, _fulfills(_is_base_url), BareUrl] = Field(
        "http://127.0.0.1:8000",
        description="must be http(s)://HOST[:PORT][/PATH]; the path may only contain letters,"
        " digits and . _ ~ -",
    )
    data_dir: Annotated[Path, AfterValidator(Path.expanduser)] = Path("data")
    # If empty, the database is app.db in data_dir.
    database_url: Annotated[str, _fulfills(lambda url: _is_url(url, ("postgresql",))), BareUrl] = (
        Field("", repr=False, description="must be a URL beginning with postgresql://")
    )
    solana_rpc_urls: Annotated[
        tuple[Annotated[str, _fulfills(_is_http_url)], ...], BeforeValidator(_split)
    ] = Field(
        (PUBLIC_MAINNET,),
        min_length=1,
        repr=False,
        description="must be one or more http(s) URLs separated by commas",
    )
    # If empty, URLs are derived from the RPC endpoints (observing.subscriptions). ("off",) turns
    # subscriptions off.
    solana_ws_urls: Annotated[
        tuple[Annotated[str, _fulfills(_is_ws_url)], ...], BeforeValidator(_split)
    ] = Field(
        (),
        repr=False,
        description='must be one or more ws(s) URLs separated by commas, or "off"',
    )
    # Per endpoint and method.
    rpc_requests_per_second: Number = _number(2.0, 0.1, 10_000)
    # Setting 0 turns a job off.
    observer_interval_seconds: Number = _number(15.0, 0, 86_400)
    scout_interval_seconds: Number = _number(60.0, 0, 86_400)
    paper_interval_seconds: Number = _number(30.0, 0, 86_400)
    dexscreener_url: HttpUrl = DEXSCREENER
    geckoterminal_url: HttpUrl = GECKOTERMINAL
    extra_swap_programs: Annotated[
        tuple[Annotated[str, _fulfills(BASE58_ADDRESS.fullmatch)], ...], BeforeValidator(_split)
    ] = Field((), description="must be base58 program IDs separated by commas")
    ip_limit_per_minute: Whole = _whole(300, 1, 10**8)
    failed_auth_per_minute: Whole = _whole(20, 1, 10**8)
    evidence_per_minute: Whole = _whole(60, 1, 10**8)
    creations_per_minute: Whole = _whole(3, 1, 10**8)
    posts_per_minute: Whole = _whole(20, 1, 10**8)
    allowance: Windows = Field(
        (("minute", 120), ("hour", 2000), ("day", 10000)),
        description="must look like 120/minute;2000/hour;10000/day, with each window at most once",
    )
    # If empty, the key is read from a file in data_dir.
    secret_key: str = Field("", repr=False)
    # If empty, it is read from a file in data_dir. The log's signing keys are derived from it.
    log_key: Annotated[str, _written_as(r"[0-9a-f]{64}")] = Field(
        "", repr=False, description="must be 64 hexadecimal digits (0-9, a-f)"
    )
    registration: Literal["open", "closed"] = Field(
        "open", description="must be one of: open, closed"
    )
    # "on" lets agents register themselves with their wallet's signature.
    self_registration: Literal["off", "on"] = Field("off", description="must be one of: off, on")
    max_wallets_per_owner: Whole = _whole(5, 1, 10**6)
    max_receipts_per_wallet: Whole = _whole(50_000, 1, 10**8)
    max_posts_kept_mb: Whole = _whole(200, 1, 10**8)
    max_wallet_changes_per_day: Whole = _whole(5, 1, 10**6)
    max_traders_per_owner: Whole = _whole(10, 1, 10**6)
    max_hooks_per_owner: Whole = _whole(5, 1, 10**6)
    allowed_hosts: Hosts = Field(
        LOCAL_HOSTS,
        description="must be host names without ports, separated by commas",
    )
    # Other instances whose logs this instance watches.
    witnesses: Annotated[tuple[HttpUrl, ...], BeforeValidator(_split)] = Field(
        (), description="must be http(s) URLs of other instances, separated by commas"
    )
    trusted_proxies: Whole = _whole(0, 0, 10)
    web_concurrency: Whole = _whole(1, 1, 64)
    threads: Whole = _whole(8, 2, 256)
    ratelimit_storage_url: Annotated[str, _fulfills(_is_redis_url)] = Field(
        "",
        repr=False,
        description="must be redis[s]://[[user]:password@]host[:port][/database], with special"
        " characters in the password as %XX",
    )
    # "on" lets webhooks use loopback, private and link-local addresses, and plain HTTP.
    hooks_private: Literal["off", "on"] = Field("off", description="must be one of: off, on")
    # "on" lets paper traders use the operator's files in DATA_DIR/strategies.
    own_strategies: Literal["off", "on"] = Field("off", description="must be one of: off, on")
    # All bots' events are sent to these URLs through Apprise (notify.outbox).
    apprise_urls: Annotated[
        tuple[Annotated[str, _fulfills(_is_apprise_url)], ...], BeforeValidator(_split_apprise)
    ] = Field(
        (),
        repr=False,
        description="must be Apprise URLs (kind://...), separated by commas or spaces; social"
        " networks aren't allowed",
    )
    apprise_events: Annotated[
        tuple[Literal["post", "trade", "verification", "coverage"], ...], BeforeValidator(_split)
    ] = Field(
        ("post",),
        min_length=1,
        description="must be one or more of: post, trade, verification, coverage",
    )
    # "on" serves /metrics for Prometheus.
    metrics: Literal["off", "on"] = Field("off", description="must be one of: off, on")
    # If empty, logs are plain on a terminal and JSON otherwise.
    log_format: Literal["", "json", "plain"] = Field("", description="must be one of: json, plain")
    llm_base_url: HttpUrl = Field("", repr=False)
    llm_model: str = ""
    llm_api_key: str = Field("", repr=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Ignore the environment when a Config is created in code; only `load` reads it."""
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _drop_blanks(cls, given: dict[str, Any]) -> dict[str, Any]:
        bare = {k: v.strip() if isinstance(v, str) else v for k, v in given.items()}
        return {name: value for name, value in bare.items() if value != ""}

    @cached_property
    def demonstration(self) -> bool:
        """Whether `app.py demo` created DATA_DIR."""
        return is_demonstration(self.database_path)

    @cached_property
    def added_programs(self) -> str:
        """The text of DATA_DIR/programs.csv, or "". Its rows aren't validated.

        Raises BadSetting if the file is unreadable, too large or not UTF-8.
        """
        return _read_table(self.data_dir / "programs.csv")

    @cached_property
    def added_currencies(self) -> str:
        """The text of DATA_DIR/currencies.csv, or "". Its rows aren't validated."""
        return _read_table(self.data_dir / "currencies.csv")

    @property
    def base_path(self) -> str:
        """Empty, or for example "/candor". All URLs of this instance begin with it."""
        return urlsplit(self.base_url).path

    @property
    def database_path(self) -> Path:
        """The SQLite file, unless DATABASE_URL is set."""
        return self.data_dir / "app.db"

    @property
    def ratelimit_path(self) -> Path:
        """The rate-limit counters, unless they are in Redis."""
        return self.data_dir / "ratelimit.db"


# Environment variables that are settings.
NAMES = frozenset(name.upper() for name in Config.model_fields)


def load(environ: Mapping[str, str] | None = None, dotenv: str | None = ".env") -> Config:
    """Read the settings. Variables in `environ` (default: os.environ) override the file `dotenv`.

    Empty values count as unset. Raises BadSetting if a value is invalid.
    """
    file, process = DotEnvSettingsSource(Config, env_file=dotenv), EnvSettingsSource(Config)
    if environ is not None:
        process.env_vars = environ
    try:
        config = Config(**{**file(), **process()})
    except ValidationError as refused:
        raise BadSetting(_tell(refused)) from None
    return _complete(config)


def _tell(refused: ValidationError) -> str:
    name = str(refused.errors(include_input=False)[0]["loc"][0]).lower()
    return f"{name.upper()} {Config.model_fields[name].description}"


def _complete(config: Config) -> Config:
    """Add derived values, and read the files in DATA_DIR."""
    given = "base_url" in config.model_fields_set
    base_url = config.base_url if given else f"http://{_in_url(config.host)}:{config.port}"
    host = _in_url(urlsplit(base_url).hostname or "")
    hosts = tuple(dict.fromkeys((*config.allowed_hosts, host)))
    complete = config.model_copy(update={"base_url": base_url, "allowed_hosts": hosts})
    # Now, so that a bad file stops startup and later changes need a restart.
    _ = complete.demonstration, complete.added_programs, complete.added_currencies
    return complete


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def lift_quotas(config: Config) -> Config:
    """Remove owner quotas, for the operator's command line."""
    quotas = (
        "max_wallets_per_owner",
        "max_posts_kept_mb",
        "max_wallet_changes_per_day",
        "max_traders_per_owner",
        "max_hooks_per_owner",
    )
    return config.model_copy(update=dict.fromkeys(quotas, 2**62))


def is_demonstration(path: Path | str) -> bool:
    """The application id is in bytes 68 to 71 of the header (sqlite.org/fileformat.html)."""
    try:
        with open(path, "rb") as file:
            return file.read(72)[68:] == DEMONSTRATION_ID
    except OSError:
        # Opening the database will report the error.
        return False


def _read_table(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_TABLE_BYTES + 1)
    except OSError as error:
        # Code that needs the folder will report the error.
        if not os.path.lexists(path):
            return ""
        raise BadSetting(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_TABLE_BYTES:
        raise BadSetting(f"{path} must have at most {MAX_TABLE_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadSetting(f"{path}, line {line}: must be UTF-8") from None
