"""The source lines in `python -m bench mutants` exist."""

from pathlib import Path

import pytest

from bench._equivalents import EQUIVALENTS
from bench._rooms import ROOMS, list_tests

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("path", EQUIVALENTS)
def test_listed_equivalent_mutants_exist_in_the_source(path):
    source = " ".join(line.strip() for line in (ROOT / path).read_text().splitlines())
    for (before, after), reason in EQUIVALENTS[path].items():
        assert before in source and after != before and reason


def test_each_room_lists_its_test_files():
    assert list_tests(["chain"], ["programs", "ledger"]) == [
        *("tests/chain/test_ledger.py", "tests/chain/test_programs.py")
    ]
    for room in ROOMS:
        assert (ROOT / room).is_dir()
        assert all((ROOT / test).exists() for test in list_tests([room]))
