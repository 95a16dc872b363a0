"""Names of bots and traders: allowed characters, look-alikes, and handles."""

import re
import secrets
import unicodedata
from collections.abc import Callable

from accounts.fields import check_line
from accounts.problem import invalid
from chain.letters import DIGIT_LIKE, LEET, find_bare, fold, join_pairs

MAX_NAME = 60
MAX_MARKS_IN_A_ROW, MAX_MARKS = 2, 8
# Rendered blank but not whitespace: the empty Braille pattern, Hangul and Khmer fillers, a note
# without a head. (letters.INVISIBLE is removed earlier; these stand in for a letter.)
BLANK = re.compile("[\u2800\u115f\u1160\u17b4\u17b5\u3164\uffa0\U0001d159]")
BRACKETS = re.compile(
    r"[\[\]\u3010\u3011\u3014\u3015\u3016-\u301b\u27e6\u27e7\u2772\u2773\u2045\u2046]"
)
CHECK_MARKS = re.compile("[\u2705\u2713\u2714\u2611\U0001f5f8\U0001f5f9\u2611]")


def _by_letters(*words: str) -> dict[str, str]:
    return {find_bare(word): word for word in words}


# Words forbidden in a name, however spelled: the site uses them as labels or for its operator.
TRUSTED = _by_letters(
    *("proven", "official", "simulated", "admin", "administrator", "moderator", "candor")
)
# Also forbidden inside a word (web.site.words).
LABELS = _by_letters(
    *("verified", "wallet claimed", "waiting for the chain", "does not match", "doesn’t match")
)
# A name must not consist of these only.
ROLES = _by_letters("operator", "support", "system", "staff")
FILLERS = _by_letters("the", "a", "bot", "team", "desk", "account")
WORD, CAPITAL = re.compile(r"[a-z]+"), re.compile(r"(?<=[a-z])(?=[A-Z])")


def check_name(text: str) -> str:
    """Return the normalized name. Raises Problem if it could mislead readers."""
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
    """Return the trusted word that a name contains or resembles, or None."""
    bare = find_bare(name)
    found = [label for letters, label in LABELS.items() if letters in bare]
    for words in ([bare], *_list_readings(name)):
        found += [TRUSTED[word] for word in words if word in TRUSTED]
        if all(word in ROLES or word in FILLERS for word in words):
            found += [ROLES[word] for word in words if word in ROLES]
    return found[0] if found else None


def _list_readings(name: str) -> list[list[str]]:
    """List readings of a name as words: digits as letters or dropped, capitals as word starts."""
    folded, split = fold(name), fold(CAPITAL.sub(" ", name))
    return [
        [join_pairs(word) for word in WORD.findall(text.translate(LEET).translate(DIGIT_LIKE))]
        for text in (folded, split, re.sub(r"[0-9]+", " ", folded))
    ]


def find_free_handle(name: str, is_taken: Callable[[str], bool], fallback: str) -> str:
    """Derive a lowercase handle of at most 47 characters from a name.

    Uses `fallback`, such as "bot", if nothing of the name is ASCII, and adds six random hex digits
    if `is_taken`.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    handle = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or fallback
    return f"{handle}-{secrets.token_hex(3)}" if is_taken(handle) else handle


def _has_piled_marks(text: str) -> bool:
    """Whether the name has too many combining marks. Emoji variation selectors don't count."""
    marks = "".join(
        "m" if unicodedata.category(one) in ("Mn", "Me") and one != "\ufe0f" else " "
        for one in text
    )
    return "m" * (MAX_MARKS_IN_A_ROW + 1) in marks or marks.count("m") > MAX_MARKS
