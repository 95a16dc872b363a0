"""Transactions and entries as they are stored: JSON, compressed with words that all of them share.

A dictionary is a file beside this module, trained by `python -m bench dictionary`, and whatever is
stored tells which one it was compressed with. So a new one is a new file with a new number:
those that were ever used stay.
"""

import functools
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import zstandard

from chain.receipts import Receipt, parse_receipt

# The numbers of the dictionaries that are used now, for transactions and for entries. A file is
# named by its number, and holds it.
DICTIONARY, ENTRIES = 1_000_001, 1_000_002
FOLDER = Path(__file__).resolve().parent
# A tenth smaller than at 3, for 30 us a transaction; higher ones take many times that for a
# fiftieth.
LEVEL = 9
# Only this many letters of a transaction's signature, which its row has, are compressed with it:
# enough to tell that it is the row's, and 60 bytes less. Bodies of earlier versions have all of it.
KEPT = 8
# How transactions of the first versions begin, which are compressed by zlib.
ZLIB = b"\x78"
# No transaction is larger; what claims to be is damaged.
MAX_BYTES = 64 * 2**20


class Tools(threading.local):
    """The compressors and decompressors of a thread, by dictionary; no two may use one at once."""

    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.decompressors: dict[int, zstandard.ZstdDecompressor] = {}


_tools = Tools()


def pack(raw: Mapping[str, Any]) -> bytes:
    """Compress the JSON of a transaction, of its signature the beginning. A checksum is added."""
    transaction = raw["transaction"]
    signature, *others = transaction["signatures"]
    named = {**transaction, "signatures": [signature[:KEPT], *others]}
    return _compress(orjson.dumps({**raw, "transaction": named}), DICTIONARY)


def pack_text(text: str) -> bytes:
    """Compress the JSON of an entry, likewise."""
    return _compress(text.encode(), ENTRIES)


def unpack_text(body: bytes) -> str:
    """Return the text that was packed. ValueError where `body` is damaged."""
    try:
        return _decompress(body).decode()
    except zstandard.ZstdError as error:
        raise ValueError("a damaged entry") from error


def unpack(body: bytes, signature: str) -> Any:
    """Return the JSON of the transaction with this signature. ValueError where `body` is damaged,
    or another's.
    """
    try:
        text = zlib.decompress(body) if body[:1] == ZLIB else _decompress(body)
        raw = orjson.loads(text)
        signatures = raw["transaction"]["signatures"]
        is_its_own = signature.startswith(signatures[0] or " ")
    except (zlib.error, zstandard.ZstdError, TypeError, KeyError, IndexError) as error:
        raise ValueError("a damaged transaction") from error
    if not is_its_own:
        raise ValueError("another transaction")
    signatures[0] = signature
    return raw


def parse_stored(body: bytes, signature: str) -> Receipt:
    """Return the transaction that was packed. ValueError as unpack raises it."""
    return parse_receipt(unpack(body, signature), signature)


def read_stored(body: bytes, signature: str) -> Receipt | None:
    """Return the transaction that was packed; None where `body` is damaged."""
    try:
        return parse_stored(body, signature)
    except ValueError:
        return None


def _compress(text: bytes, number: int) -> bytes:
    compressor = _tools.compressors.get(number)
    if compressor is None:
        words = read_dictionary(number)
        compressor = zstandard.ZstdCompressor(LEVEL, words, write_checksum=True)
        _tools.compressors[number] = compressor
    return compressor.compress(text)


def _decompress(body: bytes) -> bytes:
    told = zstandard.get_frame_parameters(body)
    if told.content_size > MAX_BYTES:
        raise ValueError("a damaged transaction")
    decompressor = _tools.decompressors.get(told.dict_id)
    if decompressor is None:
        decompressor = zstandard.ZstdDecompressor(read_dictionary(told.dict_id))
        _tools.decompressors[told.dict_id] = decompressor
    return decompressor.decompress(body)


def find_file(number: int) -> Path:
    """Where a dictionary is."""
    return FOLDER / f"{number}.dictionary"


@functools.cache
def read_dictionary(number: int) -> zstandard.ZstdCompressionDict:
    """Read a dictionary by its number. ValueError where there is none."""
    try:
        words = zstandard.ZstdCompressionDict(find_file(number).read_bytes())
    except OSError as error:
        raise ValueError(f"no dictionary {number}: a newer version stored this") from error
    words.precompute_compress(level=LEVEL)
    return words
