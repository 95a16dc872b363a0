"""The forty mistakes that `python -m bench mutants` makes are still possible ones."""

from pathlib import Path

import pytest

from bench._mutants import MUTANTS

ROOT = Path(__file__).resolve().parent.parent


def test_there_are_forty_different_ones():
    assert len(MUTANTS) == 40 == len({(one.module, one.old) for one in MUTANTS})
    assert all(one.new != one.old for one in MUTANTS)


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_mistake_stands_where_the_source_does(number):
    mutant = MUTANTS[number]
    assert (ROOT / "paper" / f"{mutant.module}.py").read_text().count(mutant.old) == 1
    assert (ROOT / "tests" / mutant.test).exists()
