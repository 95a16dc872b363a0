"""The facts of a post, and the check that its text contains no other number. Pure."""

import re
import unicodedata
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

# The facts of a post: a `kind`, and display texts by name.
Facts = Mapping[str, Any]

# Untrusted text. It is repeated unchanged, but its numbers don't count as facts.
NAMES = ("symbol", "fromSymbol")
MAX_NAME = 24
# Names that can be repeated in a sentence without quotes.
TICKER = re.compile(r"[$#]?[^\W\d_][\w$-]*")
FOUR_DIGITS = Context(prec=4, rounding=ROUND_HALF_UP)
MIN_GROUPED = 1000
NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w])")
SMALL_COUNTS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen twenty"
)
TENS = "thirty forty fifty sixty seventy eighty ninety"
COUNTS = {
    **{word: Decimal(value) for value, word in enumerate(SMALL_COUNTS.split(), 2)},
    **{word: Decimal(10 * value) for value, word in enumerate(TENS.split(), 3)},
    **{"zero": Decimal(0), "hundred": Decimal(100), "thousand": Decimal(1000)},
}
# Number words that don't state an exact figure.
VAGUE_WORDS = (
    "half double doubled doubling twice thrice triple tripled quarter dozen dozens hundreds"
    " thousands million millions billion billions trillion trillions tenfold hundredfold"
)
VAGUE_COUNTS = frozenset(VAGUE_WORDS.split())
# Next to an amount, these words would be read as part of the amount.
MISREAD_WORDS = {*COUNTS, *VAGUE_COUNTS, "sol", "lamports"}


def shorten_name(text: str) -> str:
    """Return a name on one line, cut to MAX_NAME, without invisible characters and quotes."""
    seen = "".join(one for one in text if one.isspace() or unicodedata.category(one)[0] != "C")
    name = " ".join(re.sub("[“”]", "", seen).split())[:MAX_NAME].strip(" .!?")
    return name or "a token without a name"


def quote_name(text: str) -> str:
    """Return a token's name for a sentence, quoted if it could be read as a fact."""
    name = shorten_name(text)
    is_plain = TICKER.fullmatch(name) and name.lower() not in MISREAD_WORDS
    return name if is_plain else f"“{name}”"


def round_number(digits: str) -> str:
    """Round an unsigned number to four significant digits: `1234567.8` becomes `1,235,000`."""
    short = FOUR_DIGITS.plus(Decimal(digits.replace(",", "")))
    shown = f"{short:,f}" if short >= MIN_GROUPED else f"{short:f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def round_numbers(text: str) -> str:
    """Round numbers in a text to four significant digits, and use true minus signs."""
    rounded = NUMBER.sub(lambda match: round_number(match[0]), text)
    return re.sub(r"(?<![\w.])-(?=\d)", "−", rounded)


def find_foreign_numbers(text: str, facts: Facts) -> list[str]:
    """List a text's numbers, as figures or words, that aren't in its facts.

    Signs aren't compared, thousands may be grouped, and a fact may be rounded to four significant
    digits. Names may be repeated, but their numbers don't count. Figures attached to letters (3x,
    5k, 1e9) are always foreign.
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
    shown = unicodedata.normalize("NFKC", str(value))
    exact = {_decimal_of(match[0]) for match in NUMBER.finditer(shown)}
    return exact | {FOUR_DIGITS.plus(number) for number in exact}


# ---- sign and direction --------------------------------------------------------------------------
BUYING = r"\b(b(?:uy(?:s|ing)?|ought)|picked up|opened|entered|entry|added|long)\b"
SELLING = r"\b(s(?:ell(?:s|ing)?|old)|closed|exit(?:ed)?|trimmed|out of|wrote off|let go)\b"
GAINS = r"\b((?<!picked )up|gain\w*|profit\w*|w[io]ns?|winner|green|earned|made)\b"
LOSSES = r"\b(down|loss(?:es)?|lost|los(?:es|ing|er)|red|minus)\b"
# Promises and advice about trades, which posts must not contain.
PROMISES = re.compile(
    r"\b(guarantee\w*|risk.?free|safe(?:ly|st)?|can'?t lose|cannot lose|sure thing|certain(?:ly)?"
    r"|easy money|free money|to the moon|moon(?:ing|s)?|don'?t miss|buy (?:now|it|this|in)"
    r"|sell (?:now|it|this)|(?:you|everyone) should|must (?:buy|sell|own)|will (?:rise|fall|pump"
    r"|moon|double|win|go (?:up|down))|going to (?:rise|fall|pump|moon|double|win))\b"
)
# Boundaries between statements.
CLAUSE = re.compile(r"[;:!?\n—–]|[.,](?!\d)|\b(?:and|but|after|then|while)\b")
SIGNED = re.compile(r"([+−-])\s?(\d[\d,]*(?:\.\d+)?)")
PURCHASES, SALES = ("buy", "fill bought"), ("sell", "fill reduced", "close")


def find_promise(text: str) -> str | None:
    """Return why a lowercase text is advice or a promise, or None."""
    found = PROMISES.search(text)
    return f"advice or a promise: {found[0]}" if found else None


def find_false_direction(text: str, facts: Facts) -> str | None:
    """Return what a lowercase text gets backwards, or None.

    Examples: a purchase called a sale, a loss called a gain, or an unrelated number next to the
    word for either.
    """
    kind = facts["kind"]
    event = kind if kind in (*PURCHASES, *SALES) else f"{kind} {facts.get('what')}"
    text = _without_names(text, {name: str(facts.get(name) or "").lower() for name in NAMES})
    told = _told_words(facts)
    for events, right, wrong in ((PURCHASES, BUYING, SELLING), (SALES, SELLING, BUYING)):
        if event in events and (re.search(wrong, text) or not re.search(right, text)):
            return "a wrong direction"
    result = str(facts.get("resultSol") or "0")
    sign = 0 if not Decimal(result) else -1 if result.startswith("-") else 1
    results = {one for name in RESULT_FACTS for one in _numbers_in(facts.get(name) or "") if one}
    for clause in CLAUSE.split(text):
        words = {
            match[0]: means
            for pattern, means in ((GAINS, 1), (LOSSES, -1))
            for match in re.finditer(pattern, clause)
            if match[0] not in told
        }
        marked = [
            -1 if match[1] in "-−" else 1
            for match in SIGNED.finditer(clause)
            if _decimal_of(match[2]) in results
        ]
        numbers = {_decimal_of(match[0]) for match in NUMBER.finditer(clause)}
        if any(means != sign for means in (*words.values(), *marked)):
            return "a wrong sign"
        if words and numbers - results:
            return "a number that isn't the result next to a gain or a loss"
        if numbers & results and not words and not marked:
            return "a result without its sign"
    return None


RESULT_FACTS = ("resultSol", "returnPct")


def _told_words(facts: Facts) -> set[str]:
    """Return the words in the facts' own sentences, which may be repeated."""
    sentences = " ".join(str(facts.get(name) or "") for name in ("detail", "text", "numbers"))
    return set(re.findall(r"[a-z]+", sentences.lower()))
