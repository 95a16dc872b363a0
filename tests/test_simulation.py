"""Some seeds of the simulation (tests/simulation). `python -m bench seeds` plays thousands."""

import ground
import pytest
from simulation.play import find_failure
from simulation.world import Grounds

SEEDS, PARTS = 20, 4

pytestmark = [ground.sqlite_only, ground.file_only]


@pytest.fixture(scope="module")
def grounds(tmp_path_factory):
    return Grounds(tmp_path_factory.mktemp("grounds"))


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_it_ends_as_it_really_was(grounds, part):
    for seed in range(part, SEEDS, PARTS):
        failure = find_failure(seed, grounds)
        assert failure is None, failure
