"""Write CSV for spreadsheets: UTF-8, RFC 4180, safe from formula injection."""

import csv
import io
from collections.abc import Iterable, Sequence

# Spreadsheets treat cells that start with these as formulas.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def disarm(text: str) -> str:
    """Escape a cell with an apostrophe if it looks like a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def write_lines(lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue()
