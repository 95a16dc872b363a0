"""Wallet ownership: only a signature by its key counts, in the formats that wallets produce."""

import base64
import struct

import pytest
from nacl.signing import SigningKey

from accounts import wallets
from chain import addresses

KEY = SigningKey(bytes(range(32)))
WALLET = addresses.b58encode(bytes(KEY.verify_key))
TEXT = wallets.write_challenge(
    "https://candor.example", "bot_1", WALLET, "0f" * 12, 1_793_880_300_999
)


def sign(message, key=KEY):
    return key.sign(message).signature


def test_the_challenge_names_its_purpose_on_one_printable_line():
    assert all(
        part in TEXT
        for part in ("https://candor.example", "bot_1", WALLET, "0f" * 12, "2026-11-05T12:05:00Z")
    )
    assert TEXT.isascii() and TEXT.isprintable() and len(TEXT) < 1000


def test_a_signature_of_the_plain_text_proves_the_wallet():
    assert wallets.is_signed(WALLET, sign(TEXT.encode()), TEXT)


@pytest.mark.parametrize("form", [0, 1])
def test_the_solana_cli_off_chain_format_is_accepted(form):
    """In the format of `solana sign-offchain-message`: domain, version, format, length, text
    (solana-offchain-message 2.2).
    """
    message = (
        b"\xffsolana offchain" + bytes([0, form]) + struct.pack("<H", len(TEXT)) + TEXT.encode()
    )
    assert wallets.is_signed(WALLET, sign(message), TEXT)


def test_the_documented_off_chain_format_is_accepted():
    """Preamble offsets from docs.anza.xyz: 0x11 application domain, 0x31 format, 0x32 signers, then
    the length.
    """
    message = bytearray(0x33) + bytes(KEY.verify_key) + struct.pack("<H", len(TEXT)) + TEXT.encode()
    message[0:16], message[0x10], message[0x31], message[0x32] = b"\xffsolana offchain", 0, 0, 1
    assert wallets.is_signed(WALLET, sign(bytes(message)), TEXT)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: sign(TEXT.encode(), SigningKey(bytes(32))),
        lambda: sign(TEXT.encode() + b" "),
        lambda: sign(b"\xffsolana offchain" + TEXT.encode()),
        lambda: bytes(64),
        lambda: sign(TEXT.replace("bot_1", "bot_2").encode()),
    ],
)
def test_a_wrong_signature_proves_nothing(wrong):
    assert not wallets.is_signed(WALLET, wrong(), TEXT)


def test_an_off_curve_address_is_never_proven():
    off_curve = addresses.b58encode(b"\x02" + bytes(31))
    assert not wallets.is_signed(off_curve, bytes(64), TEXT)


def test_every_common_signature_encoding_is_accepted():
    raw = sign(TEXT.encode())
    for text in (
        addresses.b58encode(raw),
        base64.b64encode(raw).decode(),
        raw.hex(),
        f"  {raw.hex()}\n",
    ):
        assert wallets.parse_signature(text) == raw


@pytest.mark.parametrize(
    "text",
    ["", "abc", "0" * 126, base64.b64encode(bytes(63)).decode(), "ü" * 88, "[1,2,3]", "\0" * 128],
)
def test_an_invalid_signature_is_refused(text):
    assert wallets.parse_signature(text) is None


def test_a_signature_is_limited_to_200_characters_including_spaces():
    """128 hex digits with 72 spaces between them, or 73."""
    text = sign(TEXT.encode()).hex()
    assert wallets.parse_signature(" " * 99 + text[:2] + " " * 72 + text[2:])
    assert wallets.parse_signature(text[:2] + " " * 73 + text[2:]) is None


def test_a_base64_signature_allows_no_other_characters():
    text = base64.b64encode(sign(TEXT.encode())).decode()
    assert wallets.parse_signature(text)
    assert wallets.parse_signature(text[:40] + "!*" + text[40:]) is None
