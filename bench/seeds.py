"""Run thousands of seeds of the simulation (tests/simulation). Each is a separate world with
faults, restarts, kills and clock changes, whose final state must match the truth.

    python -m bench seeds [--from 0] [--count 10000] [--workers 2] [--steps 12] [--without MEND]

`--without` removes one of the fixes in tests/simulation/unmended.py; then seeds must fail.

Prints progress and, for each failed seed, the shortest failing sequence of steps found, with the
command that repeats it. Exits with 1 if one failed.
"""

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "tests/chain")]
TOLD_SECONDS = 30.0


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench seeds")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--without", default=None)
    given = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Makes set order deterministic.
        again = [sys.executable, "-m", "bench", "seeds", *arguments]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    seeds = range(given.first, given.first + given.count)
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        how = given.steps, given.without, folder
        with multiprocessing.Pool(given.workers, _begin, how) as pool:
            return _tell(pool.imap_unordered(_play, seeds), given.count)


def _begin(steps, mend, folder):
    """Create the data that this process's worlds share."""
    global _grounds, _steps
    import pytest
    from simulation import unmended
    from simulation.play import STEPS
    from simulation.world import Grounds

    # Faults that a world injects on purpose aren't logged.
    logging.disable(logging.CRITICAL)
    _grounds, _steps = Grounds(tempfile.mkdtemp(dir=folder)), steps or STEPS
    if mend:
        getattr(unmended, mend)(pytest.MonkeyPatch())


def _play(seed):
    from simulation.play import find_failure

    return find_failure(seed, _grounds, _steps)


def _tell(failures, count):
    """Print results as they arrive; return the exit code."""
    begun, told_at, failed = time.monotonic(), 0.0, 0
    for done, failure in enumerate(failures, 1):
        if failure is not None:
            failed += 1
            print(failure, flush=True)
        seconds = time.monotonic() - begun
        if seconds - told_at >= TOLD_SECONDS or done == count:
            told_at = seconds
            print(f"{done} of {count} seeds in {seconds:.0f} s, {failed} failed", flush=True)
    return int(failed > 0)
