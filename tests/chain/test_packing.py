"""Transactions and entries are packed with a checksum and unpacked unchanged."""

import zlib
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
import zstandard
from corpus import read_history

from chain.reading.entries import Entry
from chain.reading.flows import Balance
from chain.reading.receipts import (
    MAX_BYTES,
    pack,
    pack_text,
    parse_receipt,
    read_dictionary,
    read_stored,
    unpack,
    unpack_text,
)

RAW = read_history()["transactions"][0]["jsonParsed"]
(SIGNATURE,) = RAW["transaction"]["signatures"]


def test_damage_is_detected():
    body = pack(RAW)
    changed = [body[:n] + bytes([body[n] ^ 0x55]) + body[n + 1 :] for n in range(len(body))]
    for damaged in (*changed, *(body[:n] for n in (0, 1, len(body) // 2, len(body) - 1))):
        with pytest.raises(ValueError):
            unpack(damaged, SIGNATURE)
    with pytest.raises(ValueError, match="^a damaged entry$"):
        unpack_text(pack_text("[1,2]")[:-1])


def test_a_damaged_transaction_is_rejected():
    assert read_stored(pack(RAW), SIGNATURE) == parse_receipt(RAW)
    assert read_stored(pack(RAW), "5" * 88) is None
    assert read_stored(b"no frame", SIGNATURE) is None
    for odd in ({"meta": None}, [], naming(), naming(5), naming("")):
        assert read_stored(pack_text(orjson.dumps(odd).decode()), SIGNATURE) is None


def naming(*signatures):
    return {"transaction": {"signatures": list(signatures)}}


def test_a_transaction_is_packed_without_its_stored_signature():
    """Only its beginning stays, and the other signatures; the input isn't modified."""
    raw = naming(SIGNATURE, "another")
    frame = zstandard.ZstdDecompressor(read_dictionary()).decompress(pack(raw))
    assert orjson.loads(frame) == naming(SIGNATURE[:8], "another")
    assert raw == naming(SIGNATURE, "another") == unpack(pack(raw), SIGNATURE)


def test_a_claimed_huge_size_is_not_unpacked():
    """A Zstandard frame (RFC 8878, 3.1.1): magic number, a single-segment descriptor with an
    eight-byte size, the size, and one empty last block.
    """
    frame = bytes.fromhex("28b52ffde0") + (MAX_BYTES + 1).to_bytes(8, "little") + bytes([1, 0, 0])
    assert zstandard.get_frame_parameters(frame).content_size == MAX_BYTES + 1
    with pytest.raises(ValueError, match="^a damaged transaction$"):
        unpack(frame, SIGNATURE)


# Its mint is long, because short words are always kept once.
MINT = "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263"
ENTRY = (
    '[60,"order_fill","V","M",["f"],["R"],-5,5,1,2,[["M",-9,6]],[["A","M",6,9,0,2,3]],'
    '[["E","M",9,0]],["U"],3,-1,[["N",8,2]],96,["C","D"],[["M",-9]],[["E","M",7]],["route"],["N"]]'
).replace('"M"', f'"{MINT}"')


def test_an_entry_is_stored_without_what_its_row_contains():
    """Signature, slot, index and time seen are columns; lists are read as tuples, balances as
    such.
    """
    entry = Entry.load("one", 7, 4, pack_text(ENTRY), 1_234)
    assert entry.show() == ENTRY and unpack_text(entry.dump()) == ENTRY
    assert entry[:5] == ("one", 7, 4, 60, "order_fill") and entry.seen_at == 1_234
    assert entry.balances == (Balance("A", MINT, 6, 9, 0, 2, 3),)
    assert type(entry.balances[0]) is Balance and type(entry.tokens[0]) is tuple
    assert (entry.parked, entry.pool, entry.created) == ((("E", MINT, 7),), ("route",), ("N",))
    assert hash(entry)
    again = Entry.load("two", 8, None, entry.dump())
    assert again == entry._replace(signature="two", slot=8, tx_index=None, seen_at=None)
    # More than 64 bits: a departure of the largest possible supply.
    left = entry._replace(tokens=((MINT, 1 - 2**64, 6),), sol=2**70)
    assert Entry.load("one", 7, 4, left.dump(), 1_234) == left


def test_a_mint_is_kept_in_memory_once():
    loaded = [Entry.load("one", 7, 4, pack_text(ENTRY)) for _ in range(2)]
    places = [mint for one in loaded for mint in (one.mint, one.tokens[0][0], one.balances[0].mint)]
    assert places == [MINT] * 6 and len(set(map(id, places))) == 1


@pytest.mark.parametrize(
    "block_time, seen_at, happened_at",
    [(None, None, None), (None, 5, None), (60, None, 60_000), (60, 60_001, 60_000), (60, 7, 7)],
)
def test_nothing_can_happen_after_it_was_seen(block_time, seen_at, happened_at):
    entry = Entry.load("one", 7, 4, pack_text(ENTRY), seen_at)
    assert entry._replace(block_time=block_time).happened_at == happened_at


def test_threads_can_pack_concurrently():
    """Each thread has its own tools and a checksum; the result takes less than with zlib."""

    def work(_):
        body = pack(RAW)
        frame = zstandard.get_frame_parameters(body)
        assert frame.has_checksum and frame.dict_id == read_dictionary().dict_id() != 0
        assert len(body) < len(zlib.compress(orjson.dumps(RAW), 6)) * 3 / 4
        return unpack(body, SIGNATURE)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [RAW] * 4
