"""Proof of wallet ownership: verify a text signed with the wallet's key (Ed25519).

No secret leaves the wallet.
"""

import base64
import binascii
import struct

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from chain import base58

MINUTES = 5
SIGNATURE_BYTES = 64
# Hex takes 128 characters.
MAX_SIGNATURE_TEXT = 200
# Prefix of Solana's off-chain messages. No transaction starts with it.
SIGNING_DOMAIN = b"\xffsolana offchain"
# Printable ASCII, UTF-8.
FORMATS = (0, 1)


def write_challenge(base_url: str, bot: str, wallet: str, nonce: str, ends_at: str) -> str:
    """Return the text to sign: one line of printable ASCII, which hardware wallets can display.

    `ends_at` as RFC 3339.
    """
    return (
        f"I own this Solana wallet and connect it to {bot} at {base_url}. Wallet {wallet}. Nonce"
        f" {nonce}. Valid until {ends_at}."
    )


def parse_signature(text: str) -> bytes | None:
    """Parse a 64-byte signature in base58, base64 or hex; None for anything else."""
    text = text.strip()
    if len(text) > MAX_SIGNATURE_TEXT:
        return None
    if base58.is_base58(text, SIGNATURE_BYTES):
        return base58.b58decode(text)
    for decode in (bytes.fromhex, _from_base64):
        try:
            raw = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(raw) == SIGNATURE_BYTES:
            return raw
    return None


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def is_signed(address: str, signature: bytes, text: str) -> bool:
    """Whether the key of `address` signed `text`, as is or as an off-chain message."""
    key = VerifyKey(base58.b58decode(address))
    return any(
        _verifies(key, signature, message)
        for message in list_forms(base58.b58decode(address), text.encode())
    )


def list_forms(signer: bytes, text: bytes) -> list[bytes]:
    """List the messages that wallets may sign for a text.

    The plain text; Solana's off-chain message as `solana sign-offchain-message` writes it; and the
    same as specified, with an empty application domain and this one signer (docs.anza.xyz,
    proposals/off-chain-message-signing).
    """
    length = struct.pack("<H", len(text))
    short = [SIGNING_DOMAIN + bytes((0, form)) + length + text for form in FORMATS]
    full = [
        SIGNING_DOMAIN + b"\0" + bytes(32) + bytes((form, 1)) + signer + length + text
        for form in FORMATS
    ]
    return [text, *short, *full]


def _verifies(key: VerifyKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(message, signature)
    except BadSignatureError:
        return False
    return True
