"""Train the dictionary that stored rows are compressed with (chain.reading.packing), from the real
transactions of the tests and a sample of the recorded history.

    python -m bench dictionary

Addresses that occur in no real transaction are replaced by random ones: what is said about the
history's size is then true of other wallets, too.
"""

import random
import re
import sys
import tempfile
from pathlib import Path

import orjson
import zstandard

from chain.reading import packing
from tests import corpus

# The number seeds the random addresses, and zstandard writes it into each frame.
SIZE_BYTES, NUMBER = 32_768, 1_000_001
# One transaction of the history in so many: the real ones count more.
SAMPLE = 7
LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
NAME = re.compile(rb"[1-9A-HJ-NP-Za-km-z]{32,88}")


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        files = sorted((corpus.unpack_receipts(Path(folder)) / "json").glob("*.json"))
        real = [_read(file) for file in files]
    played = [one["jsonParsed"] for one in corpus.read_history()["transactions"]]
    _train(*(list(map(orjson.dumps, raw)) for raw in (real, played)))
    return 0


def _train(real, played):
    """Write the dictionary; print how small its own samples become."""
    known = {name for text in real for name in NAME.findall(text)}
    draw = random.Random(NUMBER)
    others = [_disguise(text, known, draw) for text in played[::SAMPLE]]
    words = zstandard.train_dictionary(SIZE_BYTES, real + others, dict_id=NUMBER)
    packing.DICTIONARY.write_bytes(words.as_bytes())
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
