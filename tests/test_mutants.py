"""The mistakes that `python -m bench mutants` makes are still possible ones."""

from pathlib import Path

import pytest

from bench._equivalents import EQUIVALENTS
from bench._mutants import MUTANTS
from bench._rooms import ROOMS, list_tests

ROOT = Path(__file__).resolve().parent.parent


def test_there_are_forty_different_ones():
    assert len(MUTANTS) == 40 == len({(one.module, one.old) for one in MUTANTS})
    assert all(one.new != one.old for one in MUTANTS)


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_mistake_stands_where_the_source_does(number):
    mutant = MUTANTS[number]
    assert (ROOT / "paper" / f"{mutant.module}.py").read_text().count(mutant.old) == 1
    assert (ROOT / "tests" / mutant.test).exists()


@pytest.mark.parametrize("path", EQUIVALENTS)
def test_what_is_said_to_be_the_same_stands_in_the_source(path):
    source = " ".join(line.strip() for line in (ROOT / path).read_text().splitlines())
    for (before, after), reason in EQUIVALENTS[path].items():
        assert before in source and after != before and reason


def test_each_room_names_files_of_tests():
    assert list_tests(["chain"], ["programs", "inventory"]) == [
        *("tests/chain/test_inventory.py", "tests/test_programs.py")
    ]
    for room in ROOMS:
        assert (ROOT / room).is_dir()
        assert all((ROOT / test).exists() for test in list_tests([room]))
