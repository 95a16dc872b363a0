"""Draw a receipt as a picture of 1200 x 630 pixels: the post's words, what the trade did, a stamp,
and a QR code. Pure.

Only this module imports Pillow, and only code that draws a picture imports this module.
"""

import io
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import segno
from PIL import Image, ImageDraw, ImageFont

FONTS = Path(__file__).resolve().parent.parent.parent / "static" / "vendor" / "dejavu"
WIDTH, HEIGHT = 1200, 630
GROUND, PAPER, INK, SOFT, LINE = "#e9e5da", "#fffefb", "#1d2226", "#5c6670", "#c9c3b4"
# The colors of the five labels, and of gains and losses.
COLORS = {
    "verified": "#06724a",
    "mismatch": "#b3261e",
    "pending": "#6b5500",
    "none": "#5c6670",
    "simulated": "#5b3fb0",
}
GAIN, LOSS = "#06724a", "#b3261e"
LEFT, RIGHT, TOP, BOTTOM, TOOTH = 100, 1100, 40, 590, 20
# The width of a character, relative to the font size.
ADVANCE = 0.6021
# Longer text is cut off, because a card has room for a few hundred letters.
MAX_TEXT = 400
UNDRAWABLE = "(text in a script that this picture can't show)"
QR_SIZE, STAMP_SIZE, STAMP_TURN = 190, (340, 96), 7


class Style(NamedTuple):
    """How a text is written. `size` is in pixels."""

    size: int
    bold: bool = False
    color: str = INK


class Content(NamedTuple):
    """The content of a card.

    `stamp`: the label, with a note below it; `trust`: the label's key, which decides the color;
    `words`: the bot's text; `told`: what happened; `result`: the large figure, with a small one
    next to it; `small`: the lines at the bottom; `link`: the QR code's target.
    """

    when: str
    name: str
    words: str
    trust: str
    stamp: str
    stamp_note: str
    told: str
    result: str
    beside: str
    small: Sequence[str]
    link: str


def draw(content: Content) -> bytes:
    image = Image.new("RGB", (WIDTH, HEIGHT), GROUND)
    pen = ImageDraw.Draw(image)
    _draw_paper(pen)
    _write(pen, (LEFT, 68), "CANDOR", Style(30, True))
    when = clean(content.when)
    _write(pen, (RIGHT - round(len(when) * 22 * ADVANCE), 74), when, Style(22, color=SOFT))
    _write(pen, (LEFT, 130), _fit(clean(content.name), 640, 40), Style(40, True))
    _write_block(pen, (LEFT, 196), f"“{clean(content.words)}”", Style(28), 640, 3)
    _write_block(pen, (LEFT, 340), clean(content.told), Style(28, True), 760, 2)
    _write_result(pen, content)
    for row, text in enumerate(content.small):
        _write(pen, (LEFT, 522 + row * 28), _fit(clean(text), 790, 20), Style(20, color=SOFT))
    for height in (112, 322, 506):
        _dash(pen, height, RIGHT if height < 500 else 860)
    _stamp(image, content)
    _paste_code(image, content.link)
    return _encode(image)


# ---- text ----------------------------------------------------------------------------------------
def clean(text: str) -> str:
    """Return untrusted text on one line, in characters that the font has.

    If the font doesn't have most of them, return a sentence that says so.
    """
    line = " ".join(unicodedata.normalize("NFC", text[:MAX_TEXT]).split())
    letters = [one for one in line if unicodedata.category(one)[0] in "LN"]
    if sum(map(_is_drawable, letters)) * 2 < len(letters):
        return UNDRAWABLE
    return " ".join("".join(one for one in line if _is_drawable(one)).split())


def _is_drawable(letter: str) -> bool:
    # Combining marks and invisible characters have no width, but the layout counts every character.
    code = ord(letter)
    known = code < 0x250 or 0x370 <= code < 0x500 or 0x1E00 <= code < 0x1F00
    marks = 0x2010 <= code < 0x2028 or 0x2030 <= code <= 0x203A or code in (0x2212, 0x20BF, 0x20AC)
    return (known or marks) and letter.isprintable() and unicodedata.category(letter)[0] != "M"


def _fit(text: str, width: int, size: int) -> str:
    most = int(width / (size * ADVANCE))
    return text if len(text) <= most else text[: most - 1] + "…"


def wrap(text: str, width: int, size: int, rows: int) -> list[str]:
    """Break text into at most `rows` lines of `width` pixels, splitting long words if needed."""
    most, lines = int(width / (size * ADVANCE)), [""]
    for word in text.split():
        while word:
            room = most - len(lines[-1]) - bool(lines[-1])
            if len(word) <= room:
                lines[-1] += (" " if lines[-1] else "") + word
                break
            if lines[-1]:
                lines.append("")
            else:
                lines[-1], word = word[:most], word[most:]
    shown = lines[:rows]
    if len(lines) > rows:
        shown[-1] = shown[-1][: most - 1] + "…"
    return shown


@lru_cache(16)
def _font(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    name = "DejaVuSansMono-Bold.ttf" if bold else "DejaVuSansMono.ttf"
    return ImageFont.truetype(FONTS / name, size, layout_engine=ImageFont.Layout.BASIC)


def _write(pen: ImageDraw.ImageDraw, at: tuple[int, int], text: str, style: Style) -> None:
    pen.text(at, text, fill=style.color, font=_font(style.size, style.bold))


def _write_block(
    pen: ImageDraw.ImageDraw, at: tuple[int, int], text: str, style: Style, width: int, rows: int
) -> None:
    for row, line in enumerate(wrap(text, width, style.size, rows)):
        _write(pen, (at[0], at[1] + row * round(style.size * 1.35)), line, style)


def _write_result(pen: ImageDraw.ImageDraw, content: Content) -> None:
    color = {"\u2212": LOSS, "+": GAIN}.get(content.result[:1], INK)
    size = 64 if len(content.result) < 16 else 44
    _write(pen, (LEFT, 424), content.result, Style(size, True, color))
    after = LEFT + round((len(content.result) + 0.6) * size * ADVANCE)
    _write(pen, (after, 424 + size - 42), content.beside, Style(32, True, color))


# ---- paper, stamp, code --------------------------------------------------------------------------
def _draw_paper(pen: ImageDraw.ImageDraw) -> None:
    steps = range(50, 1151, TOOTH)
    above = [(x, TOP + TOOTH // 2 * (n % 2)) for n, x in enumerate(steps)]
    below = [(x, BOTTOM - TOOTH // 2 * (n % 2)) for n, x in enumerate(steps)]
    pen.polygon(above + below[::-1], fill=PAPER)


def _dash(pen: ImageDraw.ImageDraw, height: int, end: int) -> None:
    for x in range(LEFT, end, 14):
        pen.line((x, height, x + 7, height), fill=LINE, width=2)


def _stamp(image: Image.Image, content: Content) -> None:
    color, (width, height) = COLORS[content.trust], STAMP_SIZE
    stamp = Image.new("RGBA", STAMP_SIZE, (0, 0, 0, 0))
    pen = ImageDraw.Draw(stamp)
    pen.rounded_rectangle((2, 2, width - 3, height - 3), 14, outline=color, width=5)
    label = content.stamp.upper()
    size = 28 if len(label) < 17 else 24
    left = (width - round(len(label) * size * ADVANCE)) // 2
    _write(pen, (left, 20 if content.stamp_note else 32), label, Style(size, True, color))
    left = (width - round(len(content.stamp_note) * 17 * ADVANCE)) // 2
    _write(pen, (left, 60), content.stamp_note, Style(17, color=color))
    turned = stamp.rotate(STAMP_TURN, Image.Resampling.BICUBIC, expand=True)
    image.paste(turned, (RIGHT - turned.width + 10, 140), turned)


def _paste_code(image: Image.Image, link: str) -> None:
    """Draw the QR code without scaling, so that its squares stay sharp."""
    squares = segno.make(link, error="m", micro=False)
    rows = [bytes(row) for row in squares.matrix]
    scale = max(1, QR_SIZE // len(rows))
    pen, left, top = ImageDraw.Draw(image), RIGHT - scale * len(rows), 350
    for y, row in enumerate(rows):
        for x, dark in enumerate(row):
            if dark:
                at = (left + x * scale, top + y * scale)
                pen.rectangle((*at, at[0] + scale - 1, at[1] + scale - 1), fill=INK)


def _encode(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=6)
    return file.getvalue()
