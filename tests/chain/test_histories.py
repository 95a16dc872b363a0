"""Ordinary and odd histories, written from the accounting rules alone: see ordinary.txt, and
histories.py for how to read it.
"""

from pathlib import Path

import pytest
from histories import History, list_variants

LISTED = list_variants(Path(__file__).with_name("ordinary.txt").read_text())
TOLD = dict(LISTED)


WAITING = pytest.mark.xfail(strict=True, reason="2a.6")


@pytest.mark.parametrize(
    "title",
    [
        pytest.param(one, marks=WAITING if one == "filled out of somebody's own pocket" else ())
        for one in TOLD
    ],
)
def test_a_history(title):
    History(TOLD[title], title).check()


def test_no_two_have_the_same_title():
    assert len(TOLD) == len(LISTED) >= 100


@pytest.mark.parametrize("title", [title for title, text in LISTED if "healed" in text])
def test_a_gap_heals(title):
    """Once the node gives everything, every sale has the result it would have had."""
    history = History(TOLD[title], title)
    history.hidden.clear()
    history.check(healed=True)
