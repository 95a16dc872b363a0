"""Base58: vectors of the Internet draft and of Bitcoin, round trips, and invalid input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.addresses import ALPHABET, b58decode, b58encode, is_address

FOX, FOX_BASE58 = (
    b"The quick brown fox jumps over the lazy dog.",
    "USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z",
)
BITCOIN = "00eb15231dfceb60925886b67d065299925915aeb172c06647"
TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
VECTORS = [
    (b"", ""),
    (b"\0", "1"),
    (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
    (FOX, FOX_BASE58),
    (bytes.fromhex("0000287fb4cd"), "11233QC4"),
    (bytes.fromhex("516b6fcd0f"), "ABnLTmg"),
    (bytes.fromhex(BITCOIN), "1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L"),
    (bytes(32), "1" * 32),
    (
        bytes.fromhex("06ddf6e1d765a193d9cbe146ceeb79ac1cb485ed5f5b37913a8cf5857eff00a9"),
        TOKEN_PROGRAM,
    ),
]


@pytest.mark.parametrize(("raw", "text"), VECTORS)
def test_known_vectors_encode_and_decode(raw, text):
    assert b58encode(raw) == text and b58decode(text) == raw


@given(st.binary(max_size=100))
def test_bytes_survive_encoding(raw):
    assert b58decode(b58encode(raw)) == raw


@given(st.text(ALPHABET, max_size=140))
def test_text_survives_decoding(text):
    assert b58encode(b58decode(text)) == text


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "1\n", " 1", "1 ", "é", "1\0", "+", "１"])
def test_characters_outside_the_alphabet_are_refused(text):
    with pytest.raises(ValueError, match="^not a base58 character$"):
        b58decode(text)


SHORT, SPACED = TOKEN_PROGRAM[:-3], (" " + TOKEN_PROGRAM, TOKEN_PROGRAM + "\n")


@pytest.mark.parametrize(
    "wrong", [None, 5, "", *SPACED, SHORT, "1" * 33, "0" * 43, "z" * 44, "ａ" * 40]
)
def test_addresses_are_thirty_two_bytes_of_base58(wrong):
    assert is_address(TOKEN_PROGRAM) and is_address("1" * 32)
    assert not is_address(wrong)
