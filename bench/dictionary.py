"""Trains the dictionaries that stored transactions and entries are compressed with (chain.packing),
from the real transactions of the tests and a sample of the recorded history.

    python -m bench dictionary NUMBER [--entries]

Addresses that occur in no real transaction are replaced by random ones: what is said about the
history's size is then true of other wallets, too.
"""

import argparse
import random
import re
import sys
import tempfile
from pathlib import Path

import orjson
import zstandard

from bench.speed.ground import VENUE
from chain import packing
from chain.entries import read_entry
from chain.programs import table
from chain.receipts import parse_receipt
from tests import corpus

# Twice as much makes an entry two bytes shorter.
SIZE_BYTES, ENTRIES_BYTES = 32_768, 8_192
# One transaction of the history in so many: the real ones count more.
SAMPLE = 7
LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
NAME = re.compile(rb"[1-9A-HJ-NP-Za-km-z]{32,88}")


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench dictionary")
    parser.add_argument("number", type=int)
    parser.add_argument("--entries", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        files = sorted((corpus.unpack_receipts(Path(folder)) / "json").glob("*.json"))
        real = [_read(file) for file in files]
    history = corpus.read_history()
    played = [one["jsonParsed"] for one in history["transactions"]]
    if given.entries:
        first = [(raw, [parse_receipt(raw).keys[0]]) for raw in real]
        others = [(raw, history["wallets"]) for raw in played]
        _train(given.number, ENTRIES_BYTES, _show_entries(first), _show_entries(others))
    else:
        _train(given.number, SIZE_BYTES, *(list(map(orjson.dumps, raw)) for raw in (real, played)))
    return 0


def _show_entries(found):
    """The JSON of the entries of [(transaction, wallets), ...]."""
    programs = table((VENUE,), "")
    receipts = [(parse_receipt(raw), wallets) for raw, wallets in found]
    return [
        read_entry(receipt, wallet, programs).show().encode()
        for receipt, wallets in receipts
        for wallet in wallets
        if wallet in receipt.keys
    ]


def _train(number, size, real, played):
    """Write the dictionary; tell how small what it was trained from becomes."""
    known = {name for text in real for name in NAME.findall(text)}
    draw = random.Random(number)
    others = [_disguise(text, known, draw) for text in played[::SAMPLE]]
    words = zstandard.train_dictionary(size, real + others, dict_id=number)
    packing.find_file(number).write_bytes(words.as_bytes())
    compressor = zstandard.ZstdCompressor(packing.LEVEL, words, write_checksum=True)
    for name, texts in (("real", real), ("history", played)):
        packed = sum(len(compressor.compress(text)) for text in texts) / len(texts)
        plain = sum(map(len, texts)) / len(texts)
        print(f"{name}: {plain:,.0f} bytes, {packed:,.0f} packed")


def _read(file):
    told = orjson.loads(file.read_bytes())
    return told.get("result", told)


def _disguise(text, known, draw):
    """The text with other names for all that is not `known`, the same one for the same."""
    names = {}

    def rename(found):
        name = found.group()
        if name not in known:
            name = names.setdefault(name, "".join(draw.choices(LETTERS, k=len(name))).encode())
        return name

    return NAME.sub(rename, text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
