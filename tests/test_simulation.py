"""Some seeds of the simulation (tests/simulation): twelve, or forty with --full; `python -m bench
seeds` runs thousands. Also fixed bugs: the simulation finds each one again without its fix.
"""

import ground
import pytest
from simulation import unmended
from simulation.play import draw, find_failure, play
from simulation.world import Grounds

# The first steps of these; more of them, and of more, are for bench.
SEEDS, MANY_SEEDS, PARTS, FIRST = 12, 40, 4, 6
# By a mend, a seed that finds it missing, and what it says. Where steps.py changes,
# `python -m bench seeds --without MEND` tells others.
FOUND = {
    unmended.read_addresses_lazily: (22, "database is locked"),
    unmended.write_and_drop: (9, "trades missing"),
    unmended.leave_as_it_was: (4, "is verified without its trade"),
}

pytestmark = [ground.sqlite_only, ground.file_only]


@pytest.fixture(scope="module")
def grounds(tmp_path_factory):
    return Grounds(tmp_path_factory.mktemp("grounds"))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_simulated_instance_ends_with_the_true_state(grounds, full, part):
    for seed in range(part, MANY_SEEDS if full else SEEDS, PARTS):
        failure = find_failure(seed, grounds, FIRST)
        assert failure is None, failure


@pytest.mark.parametrize("take_out", FOUND, ids=lambda function: function.__name__)
def test_a_reintroduced_bug_is_found(grounds, monkeypatch, take_out):
    seed, said = FOUND[take_out]
    assert play(seed, grounds, draw(seed)) is None
    take_out(monkeypatch)
    _, why = play(seed, grounds, draw(seed))
    assert said in why
