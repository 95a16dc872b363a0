"""Plain American English in code, templates and docs."""

import functools
import io
import re
import tokenize
from pathlib import Path

import pytest
from test_layers import ROOT, modules


@functools.cache
def list_sources() -> list[Path]:
    return [ROOT / (name.replace(".", "/") + ".py") for name in modules()]


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
    r"(?-i:(that|which|this) is none)": "isn't one",
    r"are of": "belong to",
    r"meanwhile": "since, during that time",
    r"log(s|ged)? (in|out)": "sign in, sign out",
    r"(verif(y|ies)|proves?) nothing": "can't verify a post, isn't evidence",
    r"given up": "revoked, abandoned",
    r"transactions? (it|they) names?": "the transaction it cites",
    r"in percent of": "as a percentage of",
    r"(?-i:the header [A-Z][a-z]+(-[A-Z][a-z]+)*)": "the Authorization header",
    r"told of": "notified of, shown",
    r"none where": "none if",
    r"(?<!not )at that(?=[.;,])": "leave it out",
    r"knows? nothing of": "doesn't know",
}
# Parts of lines that may use such a word.
ALLOWED = (
    "| owner | the person who",
    "The CSV files are UTF-8 by RFC 4180",
    "append-only log in C2SP",
    "`beside`",
    '"beside"',
    "that it stands for",
)
# The rooms whose comments, docstrings and messages are checked.
REWRITTEN = (
    "accounts",
    "agents",
    "chain",
    "cli",
    "demo",
    "evidence",
    "market",
    "notify",
    "observing",
    "operate",
    "paper",
    "storage",
    "voice",
    "web",
)


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
