"""Power cuts: posting, hiding, attaching, observing, delivering, the first start, a migration,
backups, restoring and copying are each recorded write by write, then cut at random points with
random remains of unsynced data. Checks that everything acknowledged is there and that the instance
works.

    python -m bench cuts [--cuts 10000] [--seed N] [--only NAME,NAME] [--number N]

A seed gives the same cuts again; `--only NAME --number N` tries just one. Exit 1 if a cut lost
something.
"""

import argparse
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
# Report this many faulty cuts of a scenario; count the others.
MAX_TOLD = 5


def main(arguments):
    import cuts

    parser = argparse.ArgumentParser(prog="bench cuts")
    parser.add_argument("--cuts", type=int, default=10_000, help="of all scenarios together")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", default=",".join(cuts.SCENARIOS))
    parser.add_argument("--number", type=int, help="this cut alone")
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    print(f"seed {given.seed}", flush=True)
    if given.number is not None:
        return try_one(cuts.Trial(names[0], given.seed), given.number)
    wrong = sum(try_many(name, given.seed, given.cuts // len(names)) for name in names)
    print(f"{given.cuts // len(names) * len(names)} cuts, {wrong} lost something")
    return int(bool(wrong))


def try_one(trial, number):
    cut = trial.draw(number)
    told = trial.judge(cut)
    print(cut, *told or ["as it should be"], sep="\n  ")
    return int(bool(told))


def try_many(name, seed, count):
    """Try this many cuts of a scenario; return the number that were faulty."""
    import cuts

    begun, wrong, trial = time.monotonic(), 0, cuts.Trial(name, seed)
    for number in range(count):
        told = trial.judge(trial.draw(number))
        wrong += bool(told)
        if told and wrong <= MAX_TOLD:
            print(f"  {trial.draw(number)}", *told[:3], sep="\n    ")
            print(f"    again: python -m bench cuts --seed {seed} --only {name} --number {number}")
    print(
        f"{name}: {len(trial.tape.steps)} steps, {count} cuts left {trial.verdicts} different"
        f" disks, {wrong} lost something; {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    return wrong
