"""Run a seed. If it fails, find the shortest failing prefix of its steps, then the fewest steps."""

import random
from typing import NamedTuple

from simulation.machinery import Violation
from simulation.steps import Step, draw_steps
from simulation.world import World

STEPS = 12
# Limit on repetitions while shrinking.
MAX_TRIES = 120


class Failure(NamedTuple):
    """A failing seed: what went wrong, and the fewest known steps that lead there."""

    seed: int
    steps: tuple[Step, ...]
    prefix: int
    why: str
    # The total number of steps.
    drawn: int = STEPS

    def __str__(self):
        lines = [
            f"seed {self.seed} fails after {self.prefix} steps; these alone do:",
            *(f"    {step}" for step in self.steps),
            f"  {self.why}",
            f"again: python -m bench seeds --from {self.seed} --count 1 --steps {self.drawn}",
        ]
        return "\n".join(lines)


def draw(seed, count=STEPS):
    """The first steps of a seed."""
    return draw_steps(random.Random(f"steps {seed}"), max(STEPS, count))[:count]


def play(seed, grounds, steps):
    """Play these steps of a seed's world. Return (number of steps, why it failed) or None."""
    with World(seed, grounds) as world:
        for number, step in enumerate(steps, 1):
            try:
                world.play(step)
            except Violation as violation:
                return number, str(violation)
        try:
            world.settle()
        except Violation as violation:
            return len(steps), f"at the end: {violation}"
    return None


def find_failure(seed, grounds, count=STEPS):
    """Play a seed; a Failure, or None."""
    steps = draw(seed, count)
    failed = play(seed, grounds, steps)
    if failed is None:
        return None
    prefix, why = _find_prefix(seed, grounds, steps, *failed)
    fewest, why = _drop_steps(seed, grounds, steps[:prefix], why)
    return Failure(seed, tuple(fewest), prefix, why, count)


def _find_prefix(seed, grounds, steps, reached, why):
    """The fewest initial steps that fail when followed by settling: (number, why)."""
    for length in range(reached):
        failed = play(seed, grounds, steps[:length])
        if failed:
            return length, failed[1]
    return reached, why


def _drop_steps(seed, grounds, steps, why):
    """Leave out one step after another while the rest still fails."""
    tries, place = 0, 0
    while place < len(steps) and tries < MAX_TRIES:
        fewer = steps[:place] + steps[place + 1 :]
        failed, tries = play(seed, grounds, fewer), tries + 1
        if failed:
            steps, why = fewer, failed[1]
        else:
            place += 1
    return steps, why
