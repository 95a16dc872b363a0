"""Wallets: which addresses are accepted, and which signatures prove that somebody owns one."""

import base64
import hashlib
import json
import struct

import ground
import pytest
from nacl.signing import SigningKey
from service import NOW, address, refused, signature

from accounts import influencers, wallets
from accounts.fields import NOBODYS, check_wallet
from chain import addresses
from chain.addresses import NATIVE, SYSVARS, is_on_curve
from chain.reading.programs import table

KEY = SigningKey(bytes(range(32)))
WALLET = addresses.b58encode(bytes(KEY.verify_key))
OFF_CURVE = addresses.b58encode(b"\x02" + bytes(31))
# Raydium's "amm authority", a mainnet address that a program derives.
VAULT = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SECRETS = {
    "a key of 64 bytes": signature("secret"),
    "a byte array": json.dumps(list(range(64))),
    "a byte array without brackets": ", ".join(map(str, range(64))),
    "12 words": "abandon ability able about above absent absorb abstract absurd abuse access acid",
    "24 words over lines": "\n".join(["abandon"] * 24),
    "15 words": " ".join(["zoo"] * 15),
    "hex of 32 bytes": "ab" * 32,
    "hex of 64 bytes": "0x" + "0F" * 64,
}
NO_ADDRESSES = (
    *("", "hello", "name.sol", "0OIl" * 9, "é" * 32, "1" * 31, address("a") + "1" * 20),
    *(addresses.b58encode(bytes(range(1, 32))), "11111111111111111111111111111111"),
    "So11111111111111111111111111111111111111112",
)


# ---- addresses -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_refused_with_a_warning_and_never_repeated(name):
    problem = refused(check_wallet, SECRETS[name])
    shown = str(problem) + json.dumps(problem.errors)
    assert "seed phrase" in shown
    assert not [part for part in SECRETS[name].split() if len(part) > 8 and part in shown]


def test_an_invalid_wallet_address_is_refused():
    for text in NO_ADDRESSES:
        problem = refused(check_wallet, text)
        assert problem.errors[0]["field"] == "wallet" and "seed" not in str(problem), text
    assert check_wallet(f"  {address('a')}\n") == address("a")


def test_programs_and_sysvars_are_refused_as_wallets(service):
    """A claim of one would show strangers' trades, and nobody could displace it by a proof."""
    for one in (*NATIVE, *SYSVARS, *table().names):
        assert len(addresses.b58decode(one)) == 32, one
        problem = refused(check_wallet, one)
        assert problem.errors == [{"field": "wallet", "message": NOBODYS}]
    rows = f"id,name,family,source\n{address('added')},Tomorrow,swap,https://tomorrow.example\n"
    programs = {"extra_swap_programs": (address("venue"),), "added_programs": rows}
    mine = ground.change(service.config, **programs)
    for name in ("venue", "added"):
        problem = refused(influencers.create_bot, mine, "A", NOW, address(name))
        assert problem.code == "validation_failed"


def test_addresses_off_the_curve_are_recognized_as_derived():
    """Keys made by libsodium are on the curve; addresses derived by programs aren't."""
    for n in range(50):
        key = SigningKey(hashlib.sha256(str(n).encode()).digest()).verify_key.encode()
        assert is_on_curve(key)
    assert not is_on_curve(addresses.b58decode(VAULT))
    # The generator, RFC 8032: y = 4/5.
    assert is_on_curve((4 * pow(5, -1, 2**255 - 19) % (2**255 - 19)).to_bytes(32, "little"))


def test_a_vault_can_be_observed_but_not_proven(service):
    vault, key = service.make_bot("Vault", VAULT).bot, service.make_bot("Z").publish_key.text
    shown = service.get(f"/api/v1/bots/{vault.uid}", key).json
    assert (shown["provable"], shown["wallet"]["ownership"]) == (False, "claimed")
    problem = refused(wallets.attach_wallet, service.config, vault, VAULT, NOW, "proven")
    assert problem.code == "validation_failed"
    assert wallets.find_attachment(vault).ownership == "claimed"
    assert "a program derives it" in service.get(f"/bots/{vault.uid}").text
    for name, wallet, provable in (("Person", WALLET, True), ("Mute", None, None)):
        made = service.make_bot(name, wallet)
        assert service.get(f"/api/v1/bots/{made.bot.uid}", key).json["provable"] is provable


# ---- signatures ----------------------------------------------------------------------------------
NAMED = ("https://candor.example", "bot_1", WALLET, "0f" * 12)
TEXT = wallets.write_challenge(*NAMED, 1_793_880_300_999)
DOMAIN = b"\xffsolana offchain"
LENGTH = struct.pack("<H", len(TEXT))


def sign(message, key=KEY):
    return key.sign(message).signature


def test_the_challenge_names_its_purpose_on_one_printable_line():
    assert all(part in TEXT for part in (*NAMED, "2026-11-05T12:05:00Z"))
    assert TEXT.isascii() and TEXT.isprintable() and len(TEXT) < 1000


FORMATS = {
    "plain text": TEXT.encode(),
    # `solana sign-offchain-message` (solana-offchain-message 2.2): domain, version, format,
    # length, text.
    "CLI, ASCII": DOMAIN + b"\0\0" + LENGTH + TEXT.encode(),
    "CLI, UTF-8": DOMAIN + b"\0\1" + LENGTH + TEXT.encode(),
    # docs.anza.xyz: version, application domain, format, signers, length, text.
    "as documented": b"".join(
        (DOMAIN, b"\0", bytes(32), b"\0\1", bytes(KEY.verify_key), LENGTH, TEXT.encode())
    ),
}
WRONG = {
    "another key": sign(TEXT.encode(), SigningKey(bytes(32))),
    "another text": sign(TEXT.encode() + b" "),
    "another format": sign(DOMAIN + TEXT.encode()),
    "zeros": bytes(64),
    "another bot": sign(TEXT.replace("bot_1", "bot_2").encode()),
}


def test_a_signature_in_each_format_proves_the_wallet_and_no_other_does():
    for name, message in FORMATS.items():
        assert wallets.is_signed(WALLET, sign(message), TEXT), name
    for name, wrong in WRONG.items():
        assert not wallets.is_signed(WALLET, wrong, TEXT), name
        assert not wallets.is_signed(OFF_CURVE, wrong, TEXT), name


def test_a_signature_is_64_bytes_in_any_common_encoding():
    """In 200 characters at most, without surrounding space: 128 hex digits and 72 spaces."""
    raw = sign(TEXT.encode())
    in_base64, spaced = base64.b64encode(raw).decode(), raw.hex()[:2] + " " * 72 + raw.hex()[2:]
    for text in (addresses.b58encode(raw), in_base64, f"  {raw.hex()}\n", " " * 99 + spaced):
        assert wallets.parse_signature(text) == raw
    # Valid base64 if other characters were ignored.
    almost = base64.b64encode(bytes(64)).decode().replace("A", "!*A", 1)
    short, long = base64.b64encode(bytes(63)).decode(), "00" + " " * 73 + "0" * 126
    for text in ("", "abc", "0" * 126, short, "ü" * 88, "[1,2,3]", "\0" * 128, long, almost):
        assert wallets.parse_signature(text) is None, text
