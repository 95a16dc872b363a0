"""Ordinary and odd histories, written from the accounting rules only. See ordinary.txt, and
histories.py for its format.
"""

from pathlib import Path

import pytest
from histories import TextHistory, list_variants

LISTED = list_variants(Path(__file__).with_name("ordinary.txt").read_text())
TOLD = dict(LISTED)


@pytest.mark.parametrize("title", TOLD)
def test_each_written_history_has_its_stated_results(title):
    TextHistory(TOLD[title], title).check()


def test_titles_are_unique():
    assert len(TOLD) == len(LISTED) >= 100


@pytest.mark.parametrize("title", [title for title, text in LISTED if "healed" in text])
def test_a_repaired_gap_leaves_no_trace(title):
    """Once the node returns everything, every sale has its full result."""
    history = TextHistory(TOLD[title], title)
    history.hidden.clear()
    history.check(healed=True)
