"""The instance's secrets, from settings or from files in DATA_DIR that are created on first use."""

import logging
import os
import re
from pathlib import Path

from filelock import lock_descriptor

from config import BadSetting, Config

# The minimum length of the file secret_key. The files we create have 64 characters.
MIN_SECRET = 32
log = logging.getLogger("candor")


def secret_key(config: Config) -> str:
    """Return the signing secret, from the setting or from the file in DATA_DIR.

    The file (mode 0600) is created on first use, and again if it is empty, for example after a
    power cut. Raises BadSetting if the secret is too short.
    """
    return config.secret_key or _keep_secret(
        config.data_dir / "secret_key", MIN_SECRET, "signs everyone out"
    )


def log_key(config: Config) -> bytes:
    """Return the 32 secret bytes for the log's keys, from the setting or from the file in DATA_DIR.

    The file is created as in `secret_key`.
    """
    path = config.data_dir / "log_key"
    kept = config.log_key or _keep_secret(path, 64, "starts a new log")
    if not is_log_key(kept):
        raise BadSetting(f"{path} must contain 64 hexadecimal digits; restore the saved file")
    return bytes.fromhex(kept)


def is_log_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _keep_secret(path: Path, least: int, effect: str) -> str:
    secret = read_secret(path) or _make_secret(path)
    if len(secret) < least:
        raise BadSetting(
            f"{path} must contain at least {least} characters; delete it and the next start"
            f" creates a new one, which {effect}"
        )
    return secret


def read_secret(path: Path) -> str:
    """Return the file's content, or "" if the file is missing or has only blanks or NUL bytes."""
    try:
        return path.read_text(errors="replace").strip("\0 \r\n\t")
    except FileNotFoundError:
        return ""


def _make_secret(path: Path) -> str:
    """Create the secret unless another process just created it. Return the stored secret."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        lock_descriptor(folder)
        if not read_secret(path):
            if path.exists():
                log.warning("%s was empty; creating a new one", path.name)
            _write_whole(path, os.urandom(32).hex())
            os.fsync(folder)
        return read_secret(path)
    finally:
        # This releases the lock, too.
        os.close(folder)


def _write_whole(path: Path, secret: str) -> None:
    """Write the file atomically. Only its owner can read it."""
    draft = path.with_name(f"{path.name}.partial")
    with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
