"""Make forty mistakes in paper/, one at a time, in a copy; each must fail its tests:
`python -m bench mutants [--only NUMBER ...]`. Takes some minutes.

With `--rooms chain` mutmut's mutants of whole rooms instead: bench/_mutating.py.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench._mutants import BACKTESTS, MUTANTS
from bench._rooms import ROOMS

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "data", "dist")


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m bench mutants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", nargs="*", type=int, default=range(1, len(MUTANTS) + 1))
    add_room_options(parser)
    args = parser.parse_args(arguments)
    if args.rooms:
        # Needs packages that the forty do without.
        from bench._mutating import run

        return run(args)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        for test in sorted({MUTANTS[number - 1].test for number in args.only}):
            if not passes(copy, test):
                sys.exit(f"{test} fails without any mistake")
        survivors = [number for number in args.only if not is_caught(copy, number)]
    print(f"{len(args.only) - len(survivors)} of {len(args.only)} were caught")
    return 1 if survivors else 0


def add_room_options(parser):
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, help="whole rooms instead")
    parser.add_argument("--modules", nargs="+", help="only these modules of the rooms")
    parser.add_argument("--tests", nargs="+", help="only these of the files of tests")
    parser.add_argument("--sample", type=int, help="at most so many mutants of a module")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample")
    parser.add_argument("--jobs", type=int, default=1)


def is_caught(copy, number):
    """Make a mistake, tell whether its tests fail, and take it back."""
    mutant = MUTANTS[number - 1]
    path = copy / "paper" / f"{mutant.module}.py"
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"mutant {number}: its text is not in {path.name} once")
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        caught = not passes(copy, mutant.test)
    finally:
        path.write_text(text)
    told = "caught" if caught else "SURVIVED"
    print(f"{number:2} {told:8} {mutant.module}: {mutant.old.strip()!r}", flush=True)
    return caught


def passes(copy, test):
    """Run a file of tests as quickly as it goes: without plugins, and without what tests over a
    database share where it needs none.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
    ]
    if test != BACKTESTS:
        command.append("--noconftest")
    done = subprocess.run(
        [*command, f"tests/{test}"],
        cwd=copy,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return done.returncode == 0
