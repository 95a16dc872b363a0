"""Which lines and branches of a room its own tests never reach: `python -m bench coverage
[--rooms chain ...]`. Anything but 100 % fails. bench/_rooms.py says what it needs and runs.
"""

import argparse
import os

import coverage
import pytest

from bench._rooms import QUIET, ROOMS, ROOT, list_modules, list_tests

# What only a type checker reads.
LEFT_OUT = ["if TYPE_CHECKING:"]


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m bench coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    rooms = parser.parse_args(arguments).rooms
    os.chdir(ROOT)
    measured = coverage.Coverage(
        data_file=None, config_file=False, branch=True, source=rooms, messages=False
    )
    measured.set_option("report:exclude_also", LEFT_OUT)
    measured.start()
    failed = pytest.main([*QUIET, *list_tests(rooms)])
    measured.stop()
    share = measured.report(
        include=list_modules(rooms), show_missing=True, skip_covered=True, precision=1
    )
    return 1 if failed or share < 100 else 0
