"""The facts of a post, and the check that its text holds no number beyond them. Pure."""

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

# What a post is made of: a `kind`, and display texts by name.
Facts = Mapping[str, Any]

# Hostile text, which is repeated as it is and lends no numbers.
NAMES = ("symbol", "fromSymbol")
MAX_NAME = 24
NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w])")
SMALL_COUNTS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen twenty"
)
COUNTS = {
    **{word: Decimal(value) for value, word in enumerate(SMALL_COUNTS.split(), 2)},
    "zero": Decimal(0),
    "thirty": Decimal(30),
    "forty": Decimal(40),
    "fifty": Decimal(50),
    "sixty": Decimal(60),
    "seventy": Decimal(70),
    "eighty": Decimal(80),
    "ninety": Decimal(90),
    "hundred": Decimal(100),
    "thousand": Decimal(1000),
}
# Number words that name no exact figure.
VAGUE_WORDS = (
    "half double doubled doubling twice thrice triple tripled quarter dozen dozens hundreds"
    " thousands million millions billion billions trillion trillions tenfold hundredfold"
)
VAGUE_COUNTS = frozenset(VAGUE_WORDS.split())


def shorten_name(text: str) -> str:
    """Return a token's name on one line, cut to MAX_NAME characters."""
    return " ".join(text.split())[:MAX_NAME].strip(" .!?") or "a token without a name"


def find_foreign_numbers(text: str, facts: Facts) -> list[str]:
    """List the numbers of a text, in figures or words, that are in none of its facts. Names among
    the facts may be repeated but lend no number.

    Signs are not compared, and thousands may be grouped. Figures attached to letters (3x, 5k, 1e9)
    are always foreign.
    """
    text = _without_names(unicodedata.normalize("NFKC", text), facts)
    known = {
        number
        for name, value in facts.items()
        if name not in NAMES
        for number in _numbers_in(value)
    }
    rest = NUMBER.sub(" ", text)
    figures = [match[0] for match in NUMBER.finditer(text) if _decimal_of(match[0]) not in known]
    stuck = re.findall(r"\S*\d\S*", rest)
    signs = [one for one in rest if one.isnumeric() and not one.isdigit()]
    words = [word for word in re.findall(r"[a-z]+", rest.lower()) if _is_foreign(word, known)]
    return figures + stuck + signs + words


def _without_names(text: str, facts: Facts) -> str:
    """Return the text without the names among its facts."""
    for name in NAMES:
        if facts.get(name):
            shown = re.escape(unicodedata.normalize("NFKC", shorten_name(facts[name])))
            text = re.sub(rf"(?<!\w){shown}(?![\w%])", " ", text)
    return text


def _is_foreign(word: str, known: set[Decimal]) -> bool:
    return word in VAGUE_COUNTS or (word in COUNTS and COUNTS[word] not in known)


def _decimal_of(shown: str) -> Decimal:
    return Decimal(shown.replace(",", ""))


def _numbers_in(value: object) -> set[Decimal]:
    if isinstance(value, (list, tuple)):
        return {number for one in value for number in _numbers_in(one)}
    shown = unicodedata.normalize("NFKC", str(value))
    return {_decimal_of(match[0]) for match in NUMBER.finditer(shown)}
