"""Transactions and entries are packed with a checksum by the dictionary they name; old ones stay
readable.
"""

import threading
import zlib

import ground
import orjson
import pytest
import zstandard
from corpus import read_history

import config
import storage
from chain.effects import Balance
from chain.entries import Entry
from chain.packing import (
    DICTIONARY,
    ENTRIES,
    MAX_BYTES,
    pack,
    pack_text,
    read_dictionary,
    read_stored,
    unpack,
    unpack_text,
)
from chain.receipts import parse_receipt

RAW = read_history()["transactions"][0]["jsonParsed"]
(SIGNATURE,) = RAW["transaction"]["signatures"]


def test_what_was_packed_comes_back_and_names_its_dictionary():
    body = pack(RAW)
    assert unpack(body, SIGNATURE) == RAW
    told = zstandard.get_frame_parameters(body)
    assert (told.dict_id, told.has_checksum) == (DICTIONARY, True)
    assert len(body) < len(zlib.compress(orjson.dumps(RAW), 6)) * 3 / 4


def test_transactions_of_the_first_versions_are_read():
    assert unpack(zlib.compress(orjson.dumps(RAW), 6), SIGNATURE) == RAW


def test_whatever_is_damaged_is_told():
    body = pack(RAW)
    for place in range(len(body)):
        damaged = bytearray(body)
        damaged[place] ^= 0x55
        with pytest.raises(ValueError):
            unpack(bytes(damaged), SIGNATURE)
    for length in (0, 1, len(body) // 2, len(body) - 1):
        with pytest.raises(ValueError):
            unpack(body[:length], SIGNATURE)


def test_a_stored_transaction_is_itself_or_nothing():
    whole = zlib.compress(orjson.dumps(RAW), 6)
    for body in (pack(RAW), whole):
        assert read_stored(body, SIGNATURE) == parse_receipt(RAW)
        assert read_stored(body, "5" * 88) is None
    assert read_stored(b"no zlib", SIGNATURE) is None
    # What is whole is held to the letter.
    assert read_stored(whole, SIGNATURE[:-1]) is None
    for odd in ({"meta": None}, [], {"transaction": {"signatures": []}}, naming(5), naming("")):
        assert read_stored(zlib.compress(orjson.dumps(odd), 6), SIGNATURE) is None


def naming(signature):
    return {"transaction": {"signatures": [signature]}}


def test_a_transaction_is_packed_without_the_signature_that_its_row_has():
    """But for its beginning, and those of others who signed; what was handed in stays as it was."""
    raw = naming(SIGNATURE) | {"slot": 7}
    raw["transaction"]["signatures"].append("another")
    frame = zstandard.ZstdDecompressor(read_dictionary(DICTIONARY)).decompress(pack(raw))
    assert orjson.loads(frame)["transaction"]["signatures"] == [SIGNATURE[:8], "another"]
    assert raw["transaction"]["signatures"] == [SIGNATURE, "another"]
    assert unpack(pack(raw), SIGNATURE) == raw


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
            unpack(frame, SIGNATURE)
        assert len(asked) == read


def test_a_damaged_entry_is_told():
    body = pack_text("[1,2]")
    assert unpack_text(body) == "[1,2]"
    assert zstandard.get_frame_parameters(body).dict_id == ENTRIES
    with pytest.raises(ValueError, match="^a damaged entry$"):
        unpack_text(body[:-1])


def test_an_entry_is_stored_as_all_that_its_row_does_not_say():
    """Its signature, slot and place, and when it was seen, are columns; lists are read as tuples,
    balances as such.
    """
    balance = Balance("A", "M", 6, 9, 0, 2, 3)
    entry = Entry(
        *("one", 7, 4, 60, "order_fill", "V", "M", ("f",), ("R",), -5, 5, 1, 2),
        *((("M", -9, 6),), (balance,), (("E", "M", 9, 0),), ("U",), 3, -1, (("N", 8, 2),), 96),
        *(("C", "D"), 1_234),
    )
    text = (
        '[60,"order_fill","V","M",["f"],["R"],-5,5,1,2,[["M",-9,6]],[["A","M",6,9,0,2,3]],'
        '[["E","M",9,0]],["U"],3,-1,[["N",8,2]],96,["C","D"]]'
    )
    assert entry.show() == text and unpack_text(entry.dump()) == text
    assert Entry.load("one", 7, 4, entry.dump(), 1_234) == entry
    # More than a machine's integer holds: what left of a mint of the largest supply there is.
    left = entry._replace(tokens=(("M", 1 - 2**64, 6),), sol=2**70)
    assert Entry.load("one", 7, 4, left.dump(), 1_234) == left
    again = Entry.load("two", 8, None, entry.dump())
    assert again == entry._replace(signature="two", slot=8, tx_index=None, seen_at=None)
    assert type(again.balances[0]) is Balance and type(again.tokens[0]) is tuple


def test_a_mint_is_held_once_however_many_entries_name_it():
    mint = "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263"
    balance = Balance("account", mint, 5, 0, 7, 0, 2_039_280)
    entry = Entry(
        *("one", 7, 4, 60, "buy", "V", mint, (), ()), *(-9, 5, 0, 0), ((mint, 7, 5),), (balance,)
    )
    loaded = [Entry.load(signature, 7, 4, entry.dump()) for signature in ("one", "two")]
    places = [(one.mint, one.tokens[0][0], one.balances[0].mint) for one in loaded]
    assert places == [(mint,) * 3] * 2
    assert len({id(place) for one in places for place in one}) == 1


@pytest.mark.parametrize(
    "block_time, seen_at, happened_at",
    [(None, None, None), (None, 5, None), (60, None, 60_000), (60, 60_001, 60_000), (60, 7, 7)],
)
def test_nothing_happened_after_it_was_seen(block_time, seen_at, happened_at):
    nothing = ("transfer_in", None, None, (), (), 0, 0, 0, 0, (), ())
    entry = Entry("one", 7, 4, block_time, *nothing, seen_at=seen_at)
    assert entry.happened_at == happened_at


def test_entries_of_earlier_versions_are_packed(tmp_path, monkeypatch):
    """As 0.1.0 stored one, one that is not fetched yet, and one that nobody can read."""
    names = storage.list_migrations()
    earlier = [name for name in names if name < "0062"]
    monkeypatch.setattr(storage, "list_migrations", lambda: earlier)
    database = storage.connect(config.load(ground.environ(tmp_path, migrated=False), dotenv=None))
    storage.migrate(database)
    old = '["one",7,3,60,"sell",null,"M",[],[],-5,5,0,0,[["M",-9,6]],[["W",null,9,0,0,8,3]]]'
    with database.connection_context():
        for statement in PLANTED:
            database.execute_sql(statement)
        for signature, entry in (("one", old), ("two", None), ("three", "?")):
            values = 1, signature, 7, 4, False, "stored", entry, 0, 0, 1
            database.execute_sql(SIGHTING, values)
    monkeypatch.setattr(storage, "list_migrations", lambda: names)
    assert "0062_packed_entries" in storage.migrate(database)
    with database.connection_context():
        sql = "SELECT signature, slot, tx_index, entry, seen_at FROM sighting ORDER BY id"
        one, two, three = database.execute_sql(sql).fetchall()
    database.close_all()
    entry = Entry.load(*one)
    assert (entry.signature, entry.slot, entry.tx_index, entry.block_time) == ("one", 7, 4, 60)
    assert (entry.tokens, entry.balances) == ((("M", -9, 6),), (("W", None, 9, 0, 0, 8, 3),))
    assert (entry.sol, entry.fee, entry.seen_at, entry.others) == (-5, 5, 1, ())
    assert two == ("two", 7, 4, None, 1) and three == ("three", 7, 4, None, 1)


PLANTED = (
    "INSERT INTO owner (id, uid, created_at, posts_bytes) VALUES (1, 'o', 1, 0)",
    "INSERT INTO bot (id, uid, owner_id, handle, name, likeness, bio, voice, auto_post, created_at)"
    " VALUES (1, 'b', 1, 'h', 'n', 'l', '', '{}', FALSE, 1)",
    "INSERT INTO wallet (id, address, bot_id, created_at, due_at, whole, heal_at, rules, imbalance,"
    " trouble_tries, accounts_left_out) VALUES (1, 'W', 1, 1, 0, FALSE, 0, '', 0, 0, 0)",
)
SIGHTING = """
INSERT INTO sighting (wallet_id, signature, slot, tx_index, head, state, entry, tries, due_at,
                      seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


def test_a_dictionary_of_a_newer_version_is_named():
    words = zstandard.train_dictionary(1024, [f"{n} one word".encode() for n in range(999)])
    body = zstandard.ZstdCompressor(dict_data=words).compress(b"{}")
    why = f"^no dictionary {words.dict_id()}: a newer version stored this$"
    with pytest.raises(ValueError, match=why):
        unpack(body, SIGNATURE)


def test_threads_pack_beside_each_other():
    """Each with tools of its own, and with a checksum too."""
    read = []

    def work():
        body = pack(RAW)
        assert zstandard.get_frame_parameters(body).has_checksum
        read.append(unpack(body, SIGNATURE))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [RAW] * 4
