"""Names of bots and traders: what they may hold, which look alike, what handle they give."""

import re
import secrets
import unicodedata
from collections.abc import Callable
from string import ascii_lowercase

from accounts.fields import check_line
from accounts.problem import invalid
from chain.quotes import QUOTES

MAX_NAME = 60
MAX_MARKS_IN_A_ROW, MAX_MARKS = 2, 8
# Drawn as a blank and yet no space: Braille's empty pattern, fillers of Hangul and Khmer, a note
# without a head. (fields.INVISIBLE is removed before; these stand where a letter may.)
BLANK = re.compile("[\u2800\u115f\u1160\u17b4\u17b5\u3164\uffa0\U0001d159]")
BRACKETS = re.compile(
    r"[\[\]\u3010\u3011\u3014\u3015\u3016-\u301b\u27e6\u27e7\u2772\u2773\u2045\u2046]"
)
CHECK_MARKS = re.compile("[\u2705\u2713\u2714\u2611\U0001f5f8\U0001f5f9\u2611]")
# The labels of posts and wallets (web.site.words): no name may imitate one.
LABELS = re.compile(
    r"\bverified\b|\bowner proven\b|\bwallet claimed\b|\bwaiting for the chain\b|\bdoes not"
    r" match\b|\bsimulated\b"
)
# What looks like a letter or a digit, from Unicode's confusables.txt
# (unicode.org/Public/security/latest), as far as it is in common fonts.
LOOK_ALIKES = {
    "2": "ꝚƧϨꙄᒿ",
    "3": "𝈆ꞫȜƷꝪⳌЗӠ",
    "4": "Ꮞ",
    "5": "Ƽ",
    "6": "ⳒбᏮ",
    "7": "𝈒",
    "8": "ȣȢ",
    "9": "ꝮⳊ",
    "a": "ΑАαаɑᴀᎪᗅꓮ",
    "b": "ΒВʙƄЬᏏᑲᖯꞴᏴᗷꓐ",
    "c": "Сϲсᴄⲥꮯ𐐽ⲤᏟꓚ𐐕",
    "d": "ԁᴅᏧᑯꓒᎠᗞᗪꓓ",
    "e": "ΕЕеᴇꬲҽⴹᎬꓰ",
    "f": "ꜰꬵꞙẝք𝈓ꞘϜᖴꓝ",
    "g": "ցɡɢᶃƍԌᏀᏳꓖ",
    "h": "ΗНһհʜᏂⲎᎻᕼꓧ",
    "i": "ΙІӀιіıɪɩꙇꭵᎥ",
    "j": "ЈϳјȷᴊꞲᎫᒍꓙ",
    "k": "ΚКκкᴋⲔᏦꓗ",
    "l": "ӏʟƖǀⲒⵏꓲ𝈪ⳐᏞᒪꓡ𐐛",
    "m": "ΜМᴍϺⲘᎷᗰꓟ",
    "n": "ΝηոɴռⲚꓠ",
    "o": "ΟОՕοоօᴏᴑꬽσⲟ𐐬Ⲟⵔꓳ𐐄",
    "p": "ΡРρрᴘⲣⲢᏢᑭꓑ",
    "q": "Ԛԛգզⵕ",
    "r": "гʀꭇꭈᴦⲅꮁ𝈖ᎡᏒᖇꓣ",
    "s": "Ѕѕꜱƽꮪ𐑈ՏᏕᏚꓢ𐐠",
    "t": "ΤТτᴛⲦᎢꓔ",
    "u": "Սυսᴜꞟꭎꭒʋᑌꓴ",
    "v": "νᴠѵꮩ𝈍ѴⴸᏙᐯꓦ",
    "w": "ԜԝᴡɯѡաꮃᎳᏔꓪ",
    "x": "ΧХχх᙮ᕁᕽ᙭ꞳⲬⵝꓫ",
    "y": "ΥУγуʏɣᶌỿꭚүⲨҮᎩᎽꓬ",
    "z": "Ζᴢꮓ𐋵Ꮓꓜ",
}
# White letters in black circles and squares, and those that flags are made of.
ENCLOSED = (0x1F150, 0x1F170, 0x1F1E6)
LIKE = {one: letter for letter, alike in LOOK_ALIKES.items() for one in alike} | {
    chr(first + place): letter for first in ENCLOSED for place, letter in enumerate(ascii_lowercase)
}
# The small form of a capital that looks like a Latin one is a spelling of it.
LIKE_SMALL = {one.casefold(): letter for one, letter in LIKE.items()} | LIKE
DIGIT_LIKE = {"0": "o", "1": "l", "i": "l", "|": "l"}
STABLECOINS = {quote.mint: quote.symbol for quote in QUOTES}


def check_name(text: str) -> str:
    """Return the name as it is stored; Problem where it could deceive readers."""
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
    if BRACKETS.search(plain) or CHECK_MARKS.search(plain) or LABELS.search(_fold(plain)):
        raise invalid(
            "name",
            "must not look like a label of this site: no square brackets, no check marks, no "
            "“verified”",
        )
    return text


def find_likeness(name: str) -> str:
    """Reduce a name to what look-alike names share (as the skeleton of Unicode's UTS 39)."""
    return "".join(DIGIT_LIKE.get(one, one) for one in _fold(unicodedata.normalize("NFKC", name)))


def find_free_handle(name: str, is_taken: Callable[[str], bool], fallback: str) -> str:
    """Derive a handle from a name, lower case and of at most 47 signs.

    `fallback`, such as "bot", where nothing of the name can be written in ASCII; six random hex
    digits are added where `is_taken` says so.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    handle = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or fallback
    return f"{handle}-{secrets.token_hex(3)}" if is_taken(handle) else handle


def _fold(text: str) -> str:
    """Replace letters that look like Latin ones by these, in lower case, with single spaces."""
    small = "".join(LIKE.get(one, one) for one in text).casefold()
    return " ".join("".join(LIKE_SMALL.get(one, one) for one in small).split())


def _has_piled_marks(text: str) -> bool:
    """Are there more combining marks than a name may have? Emoji's variation selectors are none."""
    marks = "".join(
        "m" if unicodedata.category(one) in ("Mn", "Me") and one != "\ufe0f" else " "
        for one in text
    )
    return "m" * (MAX_MARKS_IN_A_ROW + 1) in marks or marks.count("m") > MAX_MARKS


# ---- tokens --------------------------------------------------------------------------------------
# No other token is called so, or like it.
TAKEN_SYMBOLS = frozenset(map(find_likeness, STABLECOINS.values()))


def find_symbol(mint: str | None, told: str) -> str:
    """Return what a token is called: a stablecoin by its own symbol, any other as it is `told`;
    empty where it would be taken for a stablecoin.
    """
    if mint in STABLECOINS:
        return STABLECOINS[mint]
    return "" if find_likeness(told.strip("$ ")) in TAKEN_SYMBOLS else told
