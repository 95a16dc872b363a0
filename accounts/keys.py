"""API keys: `cnd_read_`, `cnd_pub_` or `cnd_inbox_`, 43 characters for 32 random bytes, and a
CRC32.

Codes of claim links have the same format. The checksum (6 characters) catches typos without a
lookup. Only a key's SHA-256 is stored. A slow hash isn't needed for 256 random bits.
"""

import hashlib
import hmac
import secrets
import zlib

PREFIXES = {
    "read": "cnd_read_",
    "publish": "cnd_pub_",
    "inbox": "cnd_inbox_",
    "claim": "cnd_claim_",
}
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# 62**43 > 2**256, 62**6 > 2**32
SECRET_WIDTH, CHECK_WIDTH = 43, 6


def make_key(scope: str) -> str:
    """`scope` is `read`, `publish`, `inbox`, or `claim` for a claim link's code."""
    text = PREFIXES[scope] + _base62(int.from_bytes(secrets.token_bytes(32), "big"), SECRET_WIDTH)
    return text + _checksum(text)


def is_well_formed(text: str) -> bool:
    """Check prefix, length and checksum. Such a key may not exist."""
    prefix = next((prefix for prefix in PREFIXES.values() if text.startswith(prefix)), None)
    if (
        prefix is None
        or len(text) != len(prefix) + SECRET_WIDTH + CHECK_WIDTH
        or not text.isascii()
    ):
        return False
    return hmac.compare_digest(_checksum(text[:-CHECK_WIDTH]), text[-CHECK_WIDTH:])


def hash_secret(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), CHECK_WIDTH)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
