"""One word for one thing: words that docs/glossary.md or plain English replaced are gone from code,
templates and docs.
"""

import functools
import io
import re
import tokenize
from pathlib import Path

import pytest
from test_layers import ROOT, modules

# Retired word -> the word that replaced it.
RETIRED = {
    "Sighting": "WalletSignature",
    "Visit": "RequestContext",
    "Standing": "RateLimitState",
    "Kept": "ListCache or PendingLedger",
    "DOOR": "DATA_DIR_LOCK",
    "casting": "new trader form",
    "paperbooks": "paper store",
    "tally": "rate-limit counters",
    "express": "nothing: there is one front door",
    "_dismiss": "_close",
    "Desk": "PaperJob",
    "Seat": "Trader",
}
PREFIXES = ("MOST_", "LONGEST_", "FEWEST_")


@functools.cache
def list_sources() -> list[Path]:
    return [ROOT / (name.replace(".", "/") + ".py") for name in modules()]


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_gone(word):
    found = [p for p in list_sources() if re.search(rf"\b{word}\b", p.read_text())]
    assert not found, f"{word} is now {RETIRED[word]}"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_bounds_are_named_max_and_min(prefix):
    assert not [p for p in list_sources() if re.search(rf"\b{prefix}", p.read_text())]


BRITISH = re.compile(
    r"\b(un)?realised\b|\b(colour|behaviour|licence|recognise|labelled\b|centre\b)", re.I
)


def list_pages() -> list[Path]:
    return [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("*.md"))]


def list_templates() -> list[Path]:
    return [path for path in sorted((ROOT / "templates").rglob("*")) if path.is_file()]


def test_docs_use_american_spelling():
    assert not [(p.name, m.group()) for p in list_pages() if (m := BRITISH.search(p.read_text()))]


def test_code_and_templates_use_american_spelling():
    files = list_sources() + list_templates()
    assert not [(p.name, m.group()) for p in files if (m := BRITISH.search(p.read_text()))]


# Translated phrases, and what to write.
FOREIGN = {
    r"anew": "again, from scratch",
    r"beside": "next to, with, outside",
    r"whoever": "the owner, the caller, anyone",
    r"tells? of": "shows, reports",
    r"stands?(?!-in)": "is, is listed, is shown",
    r"as it should be": "correct",
    r"that which": "what",
    r"(?-i:is none)": "isn't one",
    r"are of": "belong to",
    r"meanwhile": "since, during that time",
    r"log(s|ged)? (in|out)": "sign in, sign out",
}
# Parts of lines that may use such a word.
ALLOWED = (
    "| owner | the person who",
    "The CSV files are UTF-8 by RFC 4180",
)
# Rooms whose comments, docstrings and messages were rewritten. Add a room when it is done.
REWRITTEN = ("agents", "cli", "demo", "evidence", "market", "notify", "operate", "voice")


def list_rewritten() -> list[Path]:
    rooms = [path for room in REWRITTEN for path in sorted((ROOT / room).rglob("*.py"))]
    return [*rooms, *sorted(ROOT.glob("*.py"))]


@functools.cache
def list_prose(path: Path) -> list[str]:
    """Return the lines that people read: comments and text in code, all but code in pages."""
    text = path.read_text()
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        kinds = (tokenize.COMMENT, tokenize.STRING)
        return [line for one in tokens if one.type in kinds for line in one.string.split("\n")]
    if path.suffix == ".md":
        text = re.sub(r"`[^`\n]*`", "", text)
    # Expressions of a template end within a line.
    return [re.sub(r"\{[{%].*?[}%]\}", "", line) for line in text.split("\n")]


def find_foreign(path: Path, pattern: str) -> list[str]:
    found = re.compile(rf"\b({pattern})\b", re.I)
    return [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for line in list_prose(path)
        if found.search(line) and not any(one in line for one in ALLOWED)
    ]


@pytest.mark.parametrize("pattern", FOREIGN)
def test_translated_phrases_are_gone(pattern):
    files = [*list_pages(), *list_templates(), *list_rewritten()]
    found = [line for path in files for line in find_foreign(path, pattern)]
    assert not found, f"write: {FOREIGN[pattern]}"
