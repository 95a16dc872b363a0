"""Trains the dictionary that stored transactions are compressed with (chain.packing), from the real
transactions of the tests and a sample of the recorded history.

    python -m bench dictionary NUMBER

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

from chain import packing
from tests import corpus

SIZE_BYTES = 32_768
# One transaction of the history in so many: the real ones count more.
SAMPLE = 7
LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
NAME = re.compile(rb"[1-9A-HJ-NP-Za-km-z]{32,88}")


def main(arguments):
    (number,) = map(int, arguments)
    with tempfile.TemporaryDirectory() as folder:
        files = sorted((corpus.unpack_receipts(Path(folder)) / "json").glob("*.json"))
        real = [orjson.dumps(_read(file)) for file in files]
    known = {name for text in real for name in NAME.findall(text)}
    played = [orjson.dumps(one["jsonParsed"]) for one in corpus.read_history()["transactions"]]
    draw = random.Random(number)
    others = [_disguise(text, known, draw) for text in played[::SAMPLE]]
    words = zstandard.train_dictionary(SIZE_BYTES, real + others, dict_id=number)
    packing.find_file(number).write_bytes(words.as_bytes())
    for name, texts in (("real", real), ("history", played)):
        packed = [len(packing.pack(orjson.loads(text))) for text in texts]
        plain = sum(map(len, texts)) / len(texts)
        print(f"{name}: {plain:,.0f} bytes, {sum(packed) / len(packed):,.0f} packed")
    return 0


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
