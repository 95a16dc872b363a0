"""Transactions are packed with a checksum by the dictionary they name; old ones stay readable."""

import threading
import zlib

import orjson
import pytest
import zstandard
from corpus import read_history

from chain.packing import DICTIONARY, MAX_BYTES, pack, unpack

RAW = read_history()["transactions"][0]["jsonParsed"]


def test_what_was_packed_comes_back_and_names_its_dictionary():
    body = pack(RAW)
    assert unpack(body) == RAW
    assert zstandard.get_frame_parameters(body).dict_id == DICTIONARY
    assert len(body) < len(zlib.compress(orjson.dumps(RAW), 6)) * 3 / 4


def test_transactions_of_the_first_versions_are_read():
    assert unpack(zlib.compress(orjson.dumps(RAW), 6)) == RAW


def test_whatever_is_damaged_is_told():
    body = pack(RAW)
    for place in range(len(body)):
        damaged = bytearray(body)
        damaged[place] ^= 0x55
        with pytest.raises(ValueError):
            unpack(bytes(damaged))
    for length in (0, 1, len(body) // 2, len(body) - 1):
        with pytest.raises(ValueError):
            unpack(body[:length])


def test_what_claims_to_be_huge_is_not_unpacked(monkeypatch):
    """A frame of Zstandard (RFC 8878, 3.1.1): its number, a descriptor of one segment whose size
    has eight bytes, the size, and one empty block, the last.
    """
    asked = []
    monkeypatch.setattr("chain.packing.read_dictionary", asked.append)
    for size, read in ((MAX_BYTES + 1, 0), (MAX_BYTES, 1)):
        frame = bytes.fromhex("28b52ffde0") + size.to_bytes(8, "little") + bytes([1, 0, 0])
        assert zstandard.get_frame_parameters(frame).content_size == size
        with pytest.raises(ValueError, match="^a damaged transaction$"):
            unpack(frame)
        assert len(asked) == read


def test_a_dictionary_of_a_newer_version_is_named():
    words = zstandard.train_dictionary(1024, [f"{n} one word".encode() for n in range(999)])
    body = zstandard.ZstdCompressor(dict_data=words).compress(b"{}")
    with pytest.raises(ValueError, match="a newer version stored this"):
        unpack(body)


def test_threads_pack_beside_each_other():
    packed = []
    threads = [threading.Thread(target=lambda: packed.append(pack(RAW))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [unpack(body) for body in packed] == [RAW] * 4
