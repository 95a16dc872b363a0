"""Check text from outside: wallet addresses, secrets by mistake, invisible characters."""

import base64
import functools
import hashlib
import re
import unicodedata

from mnemonic import Mnemonic
from nacl.signing import SigningKey

from accounts.keys import is_well_formed
from accounts.problem import invalid
from chain import base58
from chain.addresses import is_address, is_nobodys, is_on_curve
from chain.letters import clean_text

SEED_LENGTHS = (12, 15, 18, 21, 24)
# Longer than any address, a seed phrase of 24 words or a secret key written as 64 numbers.
MAX_WALLET_TEXT = 500
SECRET_WARNING = (
    "this looks like a secret key or a seed phrase. It was not stored. Never paste one here or"
    " anywhere else: only the public address is needed. If it is real, move your funds to a new"
    " wallet"
)
HOLDS_SECRET = (
    "holds an API key, a recovery code, a secret key or a seed phrase, so it was not stored. Never"
    " paste one where it does not belong; if it is real, put a new one in its place"
)
NOBODYS = "is a program, a sysvar or a mint everybody uses, not a wallet"
API_KEY, RECOVERY_CODE = (
    re.compile(r"cnd_(?:read|pub|inbox)_[0-9A-Za-z]{49}"),
    re.compile(r"\b(?:[A-Za-z2-7]{5}-){5}[A-Za-z2-7]\b"),
)
# How wallets and tools write the 64 bytes of a secret key, and how each is read.
SECRET_KEY_FORMS = (
    (
        re.compile(r"(?<![1-9A-HJ-NP-Za-km-z])[1-9A-HJ-NP-Za-km-z]{86,88}(?![1-9A-HJ-NP-Za-km-z])"),
        base58.b58decode,
    ),
    (re.compile(r"[0-9a-fA-F]{128}"), bytes.fromhex),
    (re.compile(r"[A-Za-z0-9+/]{86}=="), base64.b64decode),
    (
        re.compile(r"\d{1,3}(?:[\s,]+\d{1,3}){63}"),
        lambda text: bytes(int(number) % 256 for number in re.findall(r"\d+", text)),
    ),
)
# A whole number without leading zeros, and what longer ones are read as.
WHOLE, BEYOND = re.compile(r"0|[1-9][0-9]*"), 10**18


def looks_secret(text: str) -> bool:
    """Could this be a private key or a seed phrase, in any form that wallets export?

    Errs on the side of a warning.
    """
    text = text.strip()
    words = re.split(r"[\s,;]+", text)
    return (
        (len(words) in SEED_LENGTHS and all(word.isalpha() for word in words))
        or text.startswith("[")
        or re.fullmatch(r"(\d{1,3}[\s,]+){31,}\d{1,3}", text) is not None
        or re.fullmatch(r"(0x)?([0-9a-fA-F]{64}|[0-9a-fA-F]{128})", text) is not None
        or base58.is_base58(text, 64)
    )


def holds_secret(text: str) -> bool:
    """Does a text contain an API key, a recovery code, a secret key or a seed phrase?

    API keys and seed phrases are known by their checksums, a secret key by its public half.
    """
    return (
        any(map(is_well_formed, API_KEY.findall(text)))
        or RECOVERY_CODE.search(text) is not None
        or _holds_phrase(text)
        or any(
            _is_key_pair(decode(found))
            for form, decode in SECRET_KEY_FORMS
            for found in form.findall(text)
        )
    )


def _is_key_pair(raw: bytes) -> bool:
    """Is this a Solana secret key: 32 bytes of a seed, then the public key they make?"""
    return len(raw) == 64 and SigningKey(raw[:32]).verify_key.encode() == raw[32:]


def _holds_phrase(text: str) -> bool:
    """Does a text contain a seed phrase?

    Its checksum tells it from prose. One word said over and over is not a phrase.
    """
    numbers, run = _phrase_numbers(), []
    for word in re.findall(r"[a-z]+", text.lower()):
        number = numbers.get(word)
        if number is not None:
            run.append(number)
            continue
        if _run_holds_phrase(run):
            return True
        run = []
    return _run_holds_phrase(run)


def _run_holds_phrase(run: list[int]) -> bool:
    """Is a seed phrase among these words, given by their numbers in the BIP39 list?

    A run of fewer than twelve costs nothing, a longer one a hash for each place and length.
    """
    if len(run) < SEED_LENGTHS[0]:
        return False
    # The last 24 words as one integer, 11 bits a word: what BIP39 calls the concatenated bits.
    bits, most = 0, (1 << 11 * SEED_LENGTHS[-1]) - 1
    for end, number in enumerate(run, start=1):
        bits = (bits << 11 | number) & most
        for size in SEED_LENGTHS:
            if size > end:
                break
            checked = _is_checked(bits & ((1 << 11 * size) - 1), size)
            if checked and len(set(run[end - size : end])) > 1:
                return True
    return False


def _is_checked(bits: int, size: int) -> bool:
    """Is BIP39's checksum right? Of every 33 bits one belongs to the hash of all the others."""
    check_bits = size // 3
    entropy = (bits >> check_bits).to_bytes(4 * check_bits, "big")
    first = hashlib.sha256(entropy).digest()[0]
    return first >> (8 - check_bits) == bits & ((1 << check_bits) - 1)


@functools.cache
def _phrase_numbers() -> dict[str, int]:
    return {word: number for number, word in enumerate(Mnemonic("english").wordlist)}


def check_wallet(text: str, field: str = "wallet") -> str:
    """Return the wallet address in `text`; Problem where it is anything else.

    Something that looks like a secret is refused with a warning.
    """
    text = text.strip()
    if len(text) <= MAX_WALLET_TEXT and looks_secret(text):
        raise invalid(field, SECRET_WARNING)
    if not is_address(text):
        raise invalid(
            field,
            "must be a Solana wallet address: base58 of 32 bytes, 32 to 44 letters and digits",
        )
    if is_nobodys(text):
        raise invalid(field, NOBODYS)
    return text


@functools.lru_cache(4096)
def is_provable(address: str) -> bool:
    """Could a key sign for this address? Those of vaults and multisigs have none."""
    return is_on_curve(base58.b58decode(address))


def has_control(text: str) -> bool:
    """Does a text contain control characters other than newline and tab?"""
    return any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text)


def parse_whole(text: str) -> int | None:
    """Return a whole number written in ASCII digits without leading zeros; None for anything else.

    A number too long to be read is returned as BEYOND, which every upper bound refuses.
    """
    if not WHOLE.fullmatch(text):
        return None
    return int(text) if len(text) < len(str(BEYOND)) else BEYOND


def check_size(field: str, text: str, longest: int, shortest: int = 0) -> None:
    """Refuse a text of more than twice the length before anything else reads it.

    Twice, because invisible characters are removed before it is measured exactly.
    """
    if len(text.strip()) > 2 * longest:
        raise invalid(field, f"must have {shortest} to {longest} characters")


def check_line(field: str, text: str, longest: int, shortest: int = 1) -> str:
    """Return a short text of one line, cleaned and trimmed; Problem naming `field` otherwise."""
    check_size(field, text, longest, shortest)
    if has_control(text) or "\n" in text or "\t" in text:
        raise invalid(field, "must not contain control characters or line breaks")
    text = clean_text(text).strip()
    if not shortest <= len(text) <= longest:
        raise invalid(field, f"must have {shortest} to {longest} characters")
    if holds_secret(text):
        raise invalid(field, HOLDS_SECRET)
    return text
