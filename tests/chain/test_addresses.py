"""Base58: vectors of the Internet draft and of Bitcoin, round trips, and invalid input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.addresses import ALPHABET, b58decode, b58encode, is_address

TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
VECTORS = {
    "": "",
    "00": "1",
    "0000287fb4cd": "11233QC4",
    "516b6fcd0f": "ABnLTmg",
    b"Hello World!".hex(): "2NEpo7TZRRrLZSi2U",
    b"The quick brown fox jumps over the lazy dog.".hex(): (
        "USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z"
    ),
    "00eb15231dfceb60925886b67d065299925915aeb172c06647": "1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L",
    "00" * 32: "1" * 32,
    "06ddf6e1d765a193d9cbe146ceeb79ac1cb485ed5f5b37913a8cf5857eff00a9": TOKEN_PROGRAM,
}


@pytest.mark.parametrize(("raw", "text"), VECTORS.items())
def test_known_vectors_encode_and_decode(raw, text):
    assert b58encode(bytes.fromhex(raw)) == text and b58decode(text).hex() == raw


@given(st.binary(max_size=100), st.text(ALPHABET, max_size=140))
def test_bytes_survive_encoding_and_text_decoding(raw, text):
    assert b58decode(b58encode(raw)) == raw
    assert b58encode(b58decode(text)) == text


def test_characters_outside_the_alphabet_are_refused():
    for text in ("0", "O", "I", "l", "1\n", " 1", "1 ", "é", "1\0", "+", "１"):
        with pytest.raises(ValueError, match="^not a base58 character$"):
            b58decode(text)


def test_addresses_are_thirty_two_bytes_of_base58():
    assert is_address(TOKEN_PROGRAM) and is_address("1" * 32)
    wrong = [f" {TOKEN_PROGRAM}", f"{TOKEN_PROGRAM}\n", TOKEN_PROGRAM[:-3]]
    wrong += [None, 5, "", "1" * 33, "0" * 43, "z" * 44, "ａ" * 40]
    assert [one for one in wrong if is_address(one)] == []
