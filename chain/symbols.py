"""Show token symbols. Only the well-known mints listed here own theirs.

Imitations are recognized despite look-alike letters and invisible characters.
"""

import re
import unicodedata
from functools import lru_cache
from string import ascii_lowercase

from chain.reading.currencies import CURRENCIES, Currency, list_added
from chain.reading.programs import read_table

# ---- letters -------------------------------------------------------------------------------------
# Unicode's Default_Ignorable_Code_Point, bidi controls and interlinear marks. Readers can't see
# them, but programs can.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
ZERO_WIDTH_JOINER, EMOJI_STYLE, KEYCAPS = "\u200d", "\ufe0f", "0123456789#*"
# From Unicode's confusables.txt (unicode.org/Public/security/latest). Packages with such a table
# are unmaintained (confusable-homoglyphs: January 2024, 17 MB of memory) or need all of ICU (65
# MB).
LOOK_ALIKES = {
    "0": "🄍",
    "1": "➀",
    "2": "ꝚƧϨꙄᒿƻ➁ꛯ",
    "3": "𝈆ꞫȜƷꝪⳌЗӠҘ➂𑣊𖼻",
    "4": "Ꮞ➃𑢯",
    "5": "Ƽ➄𑢻",
    "6": "ⳒбᏮ➅𑣕",
    "7": "𝈒➆𐓒𑣆",
    "8": "ȣȢ৪੪➇𐌚",
    "9": "ꝮⳊ৭੧୨൭➈𑢬𑣌𑣖",
    "a": "ΑАαаɑᴀᎪᗅꓮ⍶⍺𐊠𖽀ⱥȺ",
    "b": "ΒВʙƄЬᏏᑲᖯꞴᏴᗷꓐƀƂƃɓѢѣҌҍᑳ𐊂𐊡𐌁",
    "c": "Ссᴄⲥꮯ𐐽ⲤᏟꓚ𐐕¢©ȼҪҫ₡𐊢𐌂𐔜𑣩𑣲🅮🝌",
    "d": "ԁᴅᏧᑯꓒᎠᗞᗪꓓÐĐđƉƌɖɗ₫",
    "e": "ΕЕеᴇꬲҽⴹᎬꓰɆɇҿ℮⋿𐊆𑢦𑢮",
    "f": "ꜰꬵꞙẝք𝈓ꞘϜᖴꓝƑƒᵮ𐊇𐊥𐔥𑢢𑣂",
    "g": "ցɡɢᶃƍԌᏀᏳꓖǤǥɠ",
    "h": "ΗНһհʜᏂⲎᎻᕼꓧĦħɦћҢӇӉᏲⱧꚕ𐋏",
    "i": "ΙІӀιіıɪɩꙇꭵᎥɨᵻᵼ⍳⍸𑣃",
    "j": "ЈϳјȷᴊꞲᎫᒍꓙɈɉ",
    "k": "ΚКκкᴋⲔᏦꓗƙҚҞᛕ₭ⱩꝀ𐔘",
    "l": "ӏʟƖǀⲒⵏꓲ𝈪ⳐᏞᒪꓡ𐐛ŁłƗƚɫɭ۱ᛁᣳ∣⏽𐊊𐌉𐌠𐔦𑢣𑢲𖼖𖼨",
    "m": "ΜМᴍϺⲘᎷᗰꓟӍᛖꭑ𐊰𐌑",
    "n": "ΝηոɴռⲚꓠƝƞɲɳᵰ𐆎𐔓",
    "o": "ΟОՕοоօᴏᴑꬽσⲟ𐐬Ⲟⵔꓳ𐐄ØøƟɵΘθѲѳӨө۵०০੦૦ଠ୦௦౦೦ഠ൦๐໐တဝ၀ჿዐᎾᏫ⊖⊝⍬ⴱⵁ〇Ꝋꝋꬾꭴꮎꮻ𐊒𐊫𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠𝈚🜔",
    "p": "ΡРρрᴘⲣⲢᏢᑭꓑƥᣖᵽ℗⍴𐊕",
    "q": "Ԛԛգզⵕʠ",
    "r": "гʀꭇꭈᴦⲅꮁ𝈖ᎡᏒᖇꓣ®ɍɼɽғᣴᵲ𐒴𖼵",
    "s": "Ѕѕꜱƽꮪ𐑈ՏᏕᏚꓢ𐐠ʂᣵᵴ𐊖𑣁𖼺",
    "t": "ΤТτᴛⲦᎢꓔŦŧƫƭƮȾҬᵵ₮⊤⍡⟙𐊗𐊱𐌕𑢼𖼊🝨",
    "u": "ՍυսᴜꞟꭎꭒʋᑌꓴɄሀᏌᵾ∪⋃ꮜ𐓎𐓶𑢸𑣘𖽂",
    "v": "νᴠѵꮩ𝈍ѴⴸᏙᐯꓦ۷∨⋁ꛟ𐆗𐔝𑜆𑢠𑣀𖼈🜈",
    "w": "ԜԝᴡɯѡաꮃᎳᏔꓪѽ₩ꝡ𑓅𑜊𑜎𑜏𑣦𑣯",
    "x": "ΧХχх᙮ᕁᕽ᙭ꞳⲬⵝꓫ×Ҳᚷ╳⤫⤬⨯⨰𐆖𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ΥУγуʏɣᶌỿꭚүⲨҮᎩᎽꓬ¥ƴɎɏҰұყ𐊲𑢤𑣜𖽃",
    "z": "Ζᴢꮓ𐋵ᏃꓜƵƶȤȥʐᙆᵶ𑢩𑣄𑣥",
}
# White letters in black circles and squares, and the letters that make up flags.
ENCLOSED = (0x1F150, 0x1F170, 0x1F1E6)
LIKE = {one: letter for letter, alike in LOOK_ALIKES.items() for one in alike} | {
    chr(first + place): letter for first in ENCLOSED for place, letter in enumerate(ascii_lowercase)
}
# The lowercase form of a look-alike capital counts as the same letter.
LIKE_SMALL = {one.casefold(): letter for one, letter in LIKE.items()} | LIKE
DIGIT_LIKE = str.maketrans("01i|", "olll")
# Digits and symbols used in place of letters.
LEET = str.maketrans("3457892@$€", "eastbgzase")


def clean_text(text: str) -> str:
    """Remove invisible format characters, except joiners and variation selectors in emoji."""
    return INVISIBLE.sub(_keep_in_emoji, text)


def _keep_in_emoji(found: re.Match[str]) -> str:
    text, at = found.string, found.start()
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if found[0] == EMOJI_STYLE and (_is_symbol(before) or (before and before in KEYCAPS)):
        return EMOJI_STYLE
    if (
        found[0] == ZERO_WIDTH_JOINER
        and (_is_symbol(before) or before == EMOJI_STYLE)
        and _is_symbol(after)
    ):
        return ZERO_WIDTH_JOINER
    return ""


def _is_symbol(character: str) -> bool:
    return character != "" and unicodedata.category(character) in ("So", "Sk")


def write_line(text: str) -> str:
    """Return untrusted text on one line, without invisible characters."""
    shown = "".join(one if one.isprintable() else " " for one in clean_text(text))
    return " ".join(shown.split())


def fold(text: str) -> str:
    """Replace look-alikes with Latin letters, in lowercase without accents."""
    # Lists fold one symbol per row, and nearly all symbols are ASCII.
    if text.isascii():
        return text.casefold()
    plain = unicodedata.normalize("NFKD", INVISIBLE.sub("", text))
    small = "".join(LIKE.get(one, one) for one in plain).casefold()
    return _drop_marks("".join(LIKE_SMALL.get(one, one) for one in small))


def _drop_marks(text: str) -> str:
    """Remove marks from Latin letters. In other scripts, they are vowels or change the letter."""
    kept, is_latin = [], False
    for one in text:
        is_mark = unicodedata.category(one)[0] == "M"
        is_latin = is_latin if is_mark else one.isascii()
        if not (is_mark and is_latin):
            kept.append(one)
    return "".join(kept)


def find_skeleton(text: str) -> str:
    """Return a name without punctuation and with all look-alikes unified (Unicode's UTS 39)."""
    folded = fold(text).translate(DIGIT_LIKE)
    return join_pairs("".join(filter(_is_told_apart, folded)) or folded)


def _is_told_apart(one: str) -> bool:
    category = unicodedata.category(one)
    return category[0] in "LMN" or category == "So"


def find_bare(text: str) -> str:
    letters = fold(text).translate(LEET).translate(DIGIT_LIKE)
    return join_pairs("".join(filter(str.isalnum, letters)))


def join_pairs(letters: str) -> str:
    return letters.replace("rn", "m").replace("vv", "w")


# ---- symbols -------------------------------------------------------------------------------------
# {mint: symbol} of well-known tokens and built-in currencies, and who owns a bare name.
KNOWN = read_table("symbols.csv")
SYMBOLS = {row["mint"]: row["symbol"] for row in KNOWN}
OWNED = {
    find_bare(name): row["symbol"]
    for row in KNOWN
    for name in (row["symbol"], *filter(None, row["other_names"].split("; ")))
}


def show_symbol(mint: str | None, told: str | None) -> str | None:
    """Return a well-known token's symbol, or the issuer's text, marked if it imitates one."""
    return find_own(mint) or mark_name(mint, told)


def find_own(mint: str | None) -> str | None:
    known = SYMBOLS.get(mint or "")
    return known or (CURRENCIES[mint].symbol if mint and mint in CURRENCIES else None)


def mark_name(mint: str | None, told: str | None) -> str | None:
    """Return the issuer's text on one line, marked with the mint if it imitates a known symbol."""
    text = write_line(told or "").removesuffix(_suffix(mint))
    if find_imitated(mint, text) is None:
        return text or None
    return f"{text}{_suffix(mint)}" if mint else None


def find_imitated(mint: str | None, shown: str | None) -> str | None:
    """Return the well-known symbol that another token imitates, or None."""
    if find_own(mint):
        return None
    told = (shown or "").removesuffix(_suffix(mint))
    bare = find_bare(told.strip("$ "))
    return OWNED.get(bare) or _list_owned(list_added()).get(bare)


@lru_cache(maxsize=1)
def _list_owned(added: tuple[Currency, ...]) -> dict[str, str]:
    return {find_bare(one.symbol): one.symbol for one in added}


def _suffix(mint: str | None) -> str:
    return f" ({mint[:4]}…{mint[-4:]})" if mint else ""
