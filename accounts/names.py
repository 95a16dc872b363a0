"""Names of influencers and traders: what one may hold, and which two are too alike to tell apart.
Pure.
"""

import re
import unicodedata

from accounts.fields import check_line
from accounts.problem import invalid

MAX_NAME = 60
MAX_MARKS_IN_A_ROW, MAX_MARKS = 2, 8
# Drawn as nothing or as a blank, and no space: Braille's empty pattern, fillers of Hangul and
# Khmer,
# a note without a head. (fields.INVISIBLE is removed before; these stand where a letter may.)
BLANK = re.compile("[\u2800\u115f\u1160\u17b4\u17b5\u3164\uffa0\U0001d159]")
BRACKETS = re.compile(
    r"[\[\]\u3010\u3011\u3014\u3015\u3016-\u301b\u27e6\u27e7\u2772\u2773\u2045\u2046]"
)
CHECK_MARKS = re.compile("[\u2705\u2713\u2714\u2611\U0001f5f8\U0001f5f9\u2611]")
# What this instance says of posts and wallets (web.words): nobody's name says it.
LABELS = re.compile(
    r"\bverified\b|\bowner proven\b|\bwallet claimed\b|\bwaiting for the chain\b|\bdoes not"
    r" match\b|\bsimulated\b"
)
# Letters that look like Latin ones, each before its like; from Unicode's confusables.txt
# (unicode.org/Public/security/latest), as far as they are in common fonts.
UPPER_LIKE = dict(
    zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕЅІЈКМНОРСТУХӀԚԜՍՕ", "ABEZHIKMNOPTYXABESIJKMHOPCTYXIQWUO", strict=True)
)
LOWER_LIKE = dict(
    zip(
        "αγηικνορτυχϲϳаеѕіјкорсухԁһԛԝӏгցհոսօıȷɑɡᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ",
        "aynikvoptuxcjaesijkopcyxdhqwlrghnuoijagabcdefghijklmnoprstuvwyz",
        strict=True,
    )
)
DIGIT_LIKE = {"0": "o", "1": "l", "i": "l", "|": "l"}


def check_name(text: str) -> str:
    """The name as it is kept; Problem naming the field where it could deceive."""
    text = unicodedata.normalize("NFC", check_line("name", text, MAX_NAME))
    plain = unicodedata.normalize("NFKC", text)
    if BLANK.search(text) or not any(unicodedata.category(one)[0] in "LNSP" for one in text):
        raise invalid("name", "must not hold characters that are drawn as nothing")
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
    """What two names have in common that a reader may take for each other (as Unicode's skeleton,
    UTS 39).
    """
    return "".join(DIGIT_LIKE.get(one, one) for one in _fold(unicodedata.normalize("NFKC", name)))


def _fold(text: str) -> str:
    """Small Latin letters for all that look like them, single spaces."""
    like = "".join(UPPER_LIKE.get(one, one) for one in text).casefold()
    return " ".join("".join(LOWER_LIKE.get(one, one) for one in like).split())


def _has_piled_marks(text: str) -> bool:
    """Emoji's variation selectors are no marks."""
    marks = "".join(
        "m" if unicodedata.category(one) in ("Mn", "Me") and one != "\ufe0f" else " "
        for one in text
    )
    return "m" * (MAX_MARKS_IN_A_ROW + 1) in marks or marks.count("m") > MAX_MARKS
