"""Check text from outside: JSON, wallet addresses, pasted secrets, names and handles."""

import base64
import functools
import hashlib
import json
import re
import secrets
import unicodedata
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import orjson
from mnemonic import Mnemonic
from nacl.signing import SigningKey
from pydantic import BaseModel, ValidationError

from accounts.keys import is_well_formed
from accounts.problem import Problem, invalid
from chain import addresses
from chain.addresses import is_address, is_on_curve
from chain.reading.programs import is_nobodys
from chain.symbols import DIGIT_LIKE, LEET, clean_text, find_bare, fold, join_pairs

# ---- strict JSON ---------------------------------------------------------------------------------
Body = TypeVar("Body", bound=BaseModel)
MAX_UNKNOWN_FIELDS = 20
REFUSALS = {
    "missing": "is required",
    "string_type": "must be text",
    "dict_type": "must be an object",
}


def parse_json(raw: bytes) -> dict[str, Any]:
    """Raise Problem `invalid_json`, also for input that parsers interpret differently.

    This includes duplicate keys, NaN, lone surrogates and deep nesting.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_no_key_twice, parse_constant=_no_constant
        )
        # Rejects lone surrogates, integers over 64 bits and deep nesting.
        orjson.dumps(value)
    except (ValueError, RecursionError, TypeError):
        raise Problem(
            "invalid_json",
            "the body must be one JSON object in UTF-8, without duplicate keys or NaN",
        ) from None
    if not isinstance(value, dict):
        raise Problem("invalid_json", "the body must be a JSON object")
    return value


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def parse_body(
    model: type[Body],
    value: dict[str, Any],
    tell: Callable[[str, str, str], str] = lambda kind, field, message: message,
    errors: Iterable[dict[str, str]] = (),
) -> Body:
    """Return a body as its model. Raises Problem (422), which names each invalid field.

    `tell` builds a field's message from pydantic's error type and message. `errors` were found
    earlier.
    """
    crowd = {*[name for name in value if name not in model.model_fields][MAX_UNKNOWN_FIELDS:]}
    refusals = {**REFUSALS, "extra_forbidden": f"must be one of {', '.join(model.model_fields)}"}
    found = list(errors)
    try:
        body = model.model_validate({k: one for k, one in value.items() if k not in crowd})
    except ValidationError as error:
        found += [
            {
                "field": (field := _name(one["loc"])),
                "message": refusals.get(one["type"]) or tell(one["type"], field, one["msg"]),
            }
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        ]
    if not found:
        return body
    raise Problem(
        "validation_failed",
        "; ".join(f"{one['field']}: {one['message']}" for one in found[:5]),
        errors=found[:20],
    )


def _name(path: tuple[int | str, ...]) -> str:
    """Return a field's name, or "(unknown)", because an arbitrary name could be a secret."""
    text = ".".join(map(str, path))
    return text if re.fullmatch(r"[A-Za-z_]\w{0,31}", text, re.ASCII) else "(unknown)"


# ---- fields --------------------------------------------------------------------------------------
SEED_LENGTHS = (12, 15, 18, 21, 24)
# Longer than any address, 24-word seed phrase, or secret key written as 64 numbers.
MAX_WALLET_TEXT = 500
SECRET_WARNING = (
    "this looks like a secret key or a seed phrase. It was not stored. Never paste one here or"
    " anywhere else: only the public address is needed. If it is real, move your funds to a new"
    " wallet"
)
HOLDS_SECRET = (
    "contains an API key, a recovery code, a secret key or a seed phrase, so it was not stored."
    " Never share one; if it is real, replace it"
)
NOBODYS = "is a program, a sysvar or a widely used mint, not a wallet"
API_KEY, RECOVERY_CODE = (
    re.compile(r"cnd_(?:read|pub|inbox|claim)_[0-9A-Za-z]{49}"),
    re.compile(r"\b(?:[A-Za-z2-7]{5}-){5}[A-Za-z2-7]\b"),
)
# Text formats of a 64-byte secret key, and their decoders.
SECRET_KEY_FORMS = (
    (
        re.compile(r"(?<![1-9A-HJ-NP-Za-km-z])[1-9A-HJ-NP-Za-km-z]{86,88}(?![1-9A-HJ-NP-Za-km-z])"),
        addresses.b58decode,
    ),
    (re.compile(r"[0-9a-fA-F]{128}"), bytes.fromhex),
    (re.compile(r"[A-Za-z0-9+/]{86}=="), base64.b64decode),
    (
        re.compile(r"\d{1,3}(?:[\s,]+\d{1,3}){63}"),
        lambda text: bytes(int(number) % 256 for number in re.findall(r"\d+", text)),
    ),
)
# An integer without leading zeros, and the value for integers that are too long.
WHOLE, BEYOND = re.compile(r"0|[1-9][0-9]*"), 10**18


def looks_secret(text: str) -> bool:
    """Whether this may be a private key or seed phrase, in any exported format."""
    text = text.strip()
    words = re.split(r"[\s,;]+", text)
    return (
        (len(words) in SEED_LENGTHS and all(word.isalpha() for word in words))
        or text.startswith("[")
        or re.fullmatch(r"(\d{1,3}[\s,]+){31,}\d{1,3}", text) is not None
        or re.fullmatch(r"(0x)?([0-9a-fA-F]{64}|[0-9a-fA-F]{128})", text) is not None
        or addresses.is_base58(text, 64)
    )


def holds_secret(text: str) -> bool:
    """Whether the text contains an API key, recovery code, secret key or seed phrase.

    API keys and seed phrases are recognized by their checksums, secret keys by their public half.
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
    """A Solana secret key is a 32-byte seed followed by its public key."""
    return len(raw) == 64 and SigningKey(raw[:32]).verify_key.encode() == raw[32:]


def _holds_phrase(text: str) -> bool:
    """The checksum distinguishes a seed phrase from prose. One repeated word doesn't count."""
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
    """`run`: indexes in the BIP39 list.

    It hashes once per position and length, but only in runs of at least twelve words.
    """
    if len(run) < SEED_LENGTHS[0]:
        return False
    # The last 24 words as one integer, with 11 bits each (BIP39's concatenated bits).
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
    check_bits = size // 3
    entropy = (bits >> check_bits).to_bytes(4 * check_bits, "big")
    first = hashlib.sha256(entropy).digest()[0]
    return first >> (8 - check_bits) == bits & ((1 << check_bits) - 1)


@functools.cache
def _phrase_numbers() -> dict[str, int]:
    return {word: number for number, word in enumerate(Mnemonic("english").wordlist)}


def check_wallet(text: str, field: str = "wallet") -> str:
    """Raise Problem unless this is an address, with a warning if it looks like a secret."""
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
    """Whether a key could sign for this address. Vaults and multisigs don't have a key."""
    return is_on_curve(addresses.b58decode(address))


def has_control(text: str) -> bool:
    """Newline and tab are allowed."""
    return any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text)


def parse_whole(text: str) -> int | None:
    """Parse ASCII digits without leading zeros. Return None for other text.

    A number that is too long to parse becomes BEYOND, which exceeds every upper bound.
    """
    if not WHOLE.fullmatch(text):
        return None
    return int(text) if len(text) < len(str(BEYOND)) else BEYOND


def parse_moment(text: Any) -> int | None:
    """Parse a time or a day (midnight) as ms, in UTC unless it says otherwise, or return None."""
    try:
        read = datetime.fromisoformat(text.strip())
        return round(read.replace(tzinfo=read.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError, AttributeError):
        return None


def check_choice(field: str, value: str, allowed: Collection[str]) -> str:
    if value not in allowed:
        raise invalid(field, f"must be one of: {', '.join(allowed)}")
    return value


def check_size(field: str, text: str, longest: int, shortest: int = 0) -> None:
    """Raise Problem if the text is over twice the limit, before other code reads it.

    The factor is two because invisible characters are removed before the exact check.
    """
    if len(text.strip()) > 2 * longest:
        raise invalid(field, f"must have {shortest} to {longest} characters")


def check_line(field: str, text: str, longest: int, shortest: int = 1) -> str:
    check_size(field, text, longest, shortest)
    if has_control(text) or "\n" in text or "\t" in text:
        raise invalid(field, "must not contain control characters or line breaks")
    text = clean_text(text).strip()
    if not shortest <= len(text) <= longest:
        raise invalid(field, f"must have {shortest} to {longest} characters")
    if holds_secret(text):
        raise invalid(field, HOLDS_SECRET)
    return text


# ---- names ---------------------------------------------------------------------------------------
MAX_NAME = 60
MAX_MARKS_IN_A_ROW, MAX_MARKS = 2, 8
# Rendered blank but not whitespace: the empty Braille pattern, Hangul and Khmer fillers, a note
# without a head. Unlike INVISIBLE ones, these take the place of a letter.
BLANK = re.compile("[\u2800\u115f\u1160\u17b4\u17b5\u3164\uffa0\U0001d159]")
BRACKETS = re.compile(
    r"[\[\]\u3010\u3011\u3014\u3015\u3016-\u301b\u27e6\u27e7\u2772\u2773\u2045\u2046]"
)
CHECK_MARKS = re.compile("[\u2705\u2713\u2714\u2611\U0001f5f8\U0001f5f9\u2611]")


def _by_letters(*words: str) -> dict[str, str]:
    return {find_bare(word): word for word in words}


# Must not be in a name, however spelled: the site uses them as labels or for its operator.
TRUSTED = _by_letters(
    *("proven", "official", "simulated", "admin", "administrator", "moderator", "candor")
)
# Must not be inside another word, either (web.site.words).
LABELS = _by_letters(
    *("verified", "wallet claimed", "waiting for the chain", "does not match", "doesn’t match")
)
# A name must not consist only of these words.
ROLES = _by_letters("operator", "support", "system", "staff")
FILLERS = _by_letters("the", "a", "bot", "team", "desk", "account")
WORD, CAPITAL = re.compile(r"[a-z]+"), re.compile(r"(?<=[a-z])(?=[A-Z])")


def check_name(text: str) -> str:
    text = unicodedata.normalize("NFC", check_line("name", text, MAX_NAME))
    plain = unicodedata.normalize("NFKC", text)
    if BLANK.search(text) or not any(unicodedata.category(one)[0] in "LNSP" for one in text):
        raise invalid("name", "must not contain invisible characters")
    if _has_piled_marks(text):
        raise invalid(
            "name",
            f"must have at most {MAX_MARKS_IN_A_ROW} combining marks in a row and {MAX_MARKS}"
            " in all",
        )
    if BRACKETS.search(plain) or CHECK_MARKS.search(plain):
        raise invalid(
            "name",
            "must not look like a label of this site: don't use square brackets or check marks",
        )
    word = find_trusted(text)
    if word is not None:
        raise invalid(
            "name",
            f"must not contain “{word}” or what looks like it: readers would take it for a label"
            " of this site or for its operator",
        )
    return text


def find_trusted(name: str) -> str | None:
    bare = find_bare(name)
    found = [label for letters, label in LABELS.items() if letters in bare]
    for words in ([bare], *_list_readings(name)):
        found += [TRUSTED[word] for word in words if word in TRUSTED]
        if all(word in ROLES or word in FILLERS for word in words):
            found += [ROLES[word] for word in words if word in ROLES]
    return found[0] if found else None


def _list_readings(name: str) -> list[list[str]]:
    """Read a name as words: digits as letters or dropped, capitals as word starts."""
    folded, split = fold(name), fold(CAPITAL.sub(" ", name))
    return [
        [join_pairs(word) for word in WORD.findall(text.translate(LEET).translate(DIGIT_LIKE))]
        for text in (folded, split, re.sub(r"[0-9]+", " ", folded))
    ]


def find_free_handle(name: str, table: Any, fallback: str) -> str:
    """Derive a lowercase handle of at most 47 characters from a name.

    If the name has no ASCII letters or digits, `fallback`, such as "bot", is used. If a row of
    `table` has the handle, six random hex digits are added.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    handle = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or fallback
    is_taken = table.select().where(table.handle == handle).exists()
    return f"{handle}-{secrets.token_hex(3)}" if is_taken else handle


def _has_piled_marks(text: str) -> bool:
    """Emoji variation selectors don't count."""
    marks = "".join(
        "m" if unicodedata.category(one) in ("Mn", "Me") and one != "\ufe0f" else " "
        for one in text
    )
    return "m" * (MAX_MARKS_IN_A_ROW + 1) in marks or marks.count("m") > MAX_MARKS
