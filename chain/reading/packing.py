"""Compress stored transactions and entries: JSON with a dictionary trained on transactions (`python
-m bench dictionary`). Retraining it makes stored rows unreadable.
"""

import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import zstandard

from chain.reading.receipts import Receipt, parse_receipt

DICTIONARY = Path(__file__).resolve().parent / "zstd.dictionary"
# A tenth smaller than at 3, for 30 us a transaction; higher ones take many times that for a
# fiftieth.
LEVEL = 9
# Characters kept of a signature, enough to match it with its row: saves 60 bytes.
KEPT = 8
# No transaction is larger; anything beyond is damaged.
MAX_BYTES = 64 * 2**20


class Tools(threading.local):
    """A thread's compressor and decompressor; two threads must not share one."""

    def __init__(self) -> None:
        words = read_dictionary()
        self.compressor = zstandard.ZstdCompressor(LEVEL, words, write_checksum=True)
        self.decompressor = zstandard.ZstdDecompressor(words)


@functools.cache
def read_dictionary() -> zstandard.ZstdCompressionDict:
    words = zstandard.ZstdCompressionDict(DICTIONARY.read_bytes())
    words.precompute_compress(level=LEVEL)
    return words


_tools = Tools()


def pack(raw: Mapping[str, Any]) -> bytes:
    """Compress a transaction's JSON, truncating its signature."""
    transaction = raw["transaction"]
    signature, *others = transaction["signatures"]
    named = {**transaction, "signatures": [signature[:KEPT], *others]}
    return _tools.compressor.compress(orjson.dumps({**raw, "transaction": named}))


def pack_text(text: str) -> bytes:
    return _tools.compressor.compress(text.encode())


def unpack_text(body: bytes) -> str:
    """Decompress a row. Raises ValueError if `body` is damaged."""
    try:
        return _decompress(body).decode()
    except zstandard.ZstdError as error:
        raise ValueError("a damaged entry") from error


def unpack(body: bytes, signature: str) -> Any:
    """Parse a row. Raises ValueError if `body` is damaged or has another signature."""
    try:
        raw = orjson.loads(_decompress(body))
        signatures = raw["transaction"]["signatures"]
        is_its_own = signature.startswith(signatures[0] or " ")
    except (zstandard.ZstdError, TypeError, KeyError, IndexError) as error:
        raise ValueError("a damaged transaction") from error
    if not is_its_own:
        raise ValueError("another transaction")
    signatures[0] = signature
    return raw


def parse_stored(body: bytes, signature: str) -> Receipt:
    """Parse a stored receipt. Raises ValueError as in unpack."""
    return parse_receipt(unpack(body, signature), signature)


def read_stored(body: bytes, signature: str) -> Receipt | None:
    """Parse a stored receipt; None if `body` is damaged."""
    try:
        return parse_stored(body, signature)
    except ValueError:
        return None


def _decompress(body: bytes) -> bytes:
    if zstandard.frame_content_size(body) > MAX_BYTES:
        raise ValueError("a damaged transaction")
    return _tools.decompressor.decompress(body)
