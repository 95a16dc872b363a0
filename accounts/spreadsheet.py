"""CSV for spreadsheets: UTF-8 by RFC 4180, in which no text is taken for a formula."""

import csv
import io
from collections.abc import Iterable, Sequence

# A spreadsheet takes a cell that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def disarm(text: str) -> str:
    """Return text as a cell holds it: behind an apostrophe where it looks like a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def write_lines(lines: Iterable[Sequence[object]]) -> str:
    """Write lines of cells; None is an empty one."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue()
