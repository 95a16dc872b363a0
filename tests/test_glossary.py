"""One word for one thing: words that docs/glossary.md replaced are gone from code and documents."""

import re
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
    "Seat": "LoadedTrader",
    "Judged": "CheckedSnapshot",
}
PREFIXES = ("MOST_", "LONGEST_", "FEWEST_")


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


def test_every_page_of_the_documentation_uses_american_spelling():
    # What was decided and released earlier keeps its words; a file of somebody else's, too.
    pages = [p for p in ROOT.glob("docs/*.md") if p.name != "decisions.md"]
    pages += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    assert not [(p.name, m.group()) for p in pages if (m := BRITISH.search(p.read_text()))]


def test_code_and_templates_use_american_spelling():
    files = list_sources() + [p for p in (ROOT / "templates").iterdir() if p.is_file()]
    assert not [(p.name, m.group()) for p in files if (m := BRITISH.search(p.read_text()))]
