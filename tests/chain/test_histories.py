"""Ordinary and odd histories, written from the accounting rules only. See ordinary.txt, and
histories.py for its format.
"""

from pathlib import Path

import pytest
from histories import TextHistory, list_variants

LISTED = list_variants(Path(__file__).with_name("ordinary.txt").read_text())
TOLD = dict(LISTED)


@pytest.mark.parametrize("title", TOLD)
def test_a_history(title):
    TextHistory(TOLD[title], title).check()


def test_no_two_have_the_same_title():
    assert len(TOLD) == len(LISTED) >= 100


@pytest.mark.parametrize("title", [title for title, text in LISTED if "healed" in text])
def test_a_gap_heals(title):
    """Once the node gives everything, every sale has the result it would have had."""
    history = TextHistory(TOLD[title], title)
    history.hidden.clear()
    history.check(healed=True)
