"""The instance's secrets: settings, or files in DATA_DIR that are made on first use."""

import logging
import os
import re
from pathlib import Path

from filelock import lock_descriptor

from config import BadSetting, Config

# Characters of the file secret_key. We write 64.
MIN_SECRET = 32
log = logging.getLogger("candor")


def secret_key(config: Config) -> str:
    """Return the instance's signing secret: the setting, or the file in DATA_DIR.

    The file is made on first use (mode 0600), and again where it is empty, as a power cut may have
    left it. BadSetting where it holds too little.
    """
    return config.secret_key or _keep_secret(
        config.data_dir / "secret_key", MIN_SECRET, "signs everybody out"
    )


def log_key(config: Config) -> bytes:
    """Return the 32 secret bytes of the log's keys: the setting, or the file in DATA_DIR, which is
    made as `secret_key`'s is.
    """
    path = config.data_dir / "log_key"
    kept = config.log_key or _keep_secret(path, 64, "begins a new log")
    if not is_log_key(kept):
        raise BadSetting(f"{path} must hold 64 hexadecimal digits: put the kept one back")
    return bytes.fromhex(kept)


def is_log_key(text: str) -> bool:
    """Whether this is 32 bytes in hexadecimal digits."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _keep_secret(path: Path, least: int, effect: str) -> str:
    secret = read_secret(path) or _make_secret(path)
    if len(secret) < least:
        raise BadSetting(
            f"{path} must hold at least {least} characters: delete it and the next start makes a"
            f" new one, which {effect}"
        )
    return secret


def read_secret(path: Path) -> str:
    """Return what the file holds; "" where there is none, or only blanks and NUL bytes."""
    try:
        return path.read_text(errors="replace").strip("\0 \r\n\t")
    except FileNotFoundError:
        return ""


def _make_secret(path: Path) -> str:
    """Write a secret unless another process just did; return the one that is there."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        lock_descriptor(folder)
        if not read_secret(path):
            if path.exists():
                log.warning("%s was empty, so it is made anew", path.name)
            _write_whole(path, os.urandom(32).hex())
            os.fsync(folder)
        return read_secret(path)
    finally:
        # Frees the lock, too.
        os.close(folder)


def _write_whole(path: Path, secret: str) -> None:
    """Write the file whole or not at all, readable by its owner alone."""
    draft = path.with_name(f"{path.name}.partial")
    with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
