"""Performance compared to the machine's limits and to alternatives: a table of ratios, measured
side by side in one run.

    python -m bench speed [--rivals FOLDER] [--large 1000000] [--data FOLDER] [--seconds 3]
        [--only reads,posts,observing,growth,start,memory,idle]

--rivals is a virtual environment with bench/requirements.txt; without it the rows about FastAPI and
Datasette are skipped. --data keeps the seeded databases for the next run. Compared servers take
turns, three each, and the median ratio is shown. All our checks (host, key, allowance, log) are on.
"""

import argparse
import tempfile
from pathlib import Path

from bench.speed.growth import measure_growth
from bench.speed.observing import measure_observing
from bench.speed.posts import measure_posts
from bench.speed.process import measure_idle, measure_memory, measure_start
from bench.speed.reads import measure_reads


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench speed")
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        given.data = given.data or Path(folder)
        print("| what | measured | ratio | target |\n|---|---|---|---|", flush=True)
        missed = [missed for name in given.only.split(",") for missed in PARTS[name](given)]
    print(f"\nmissed: {', '.join(missed) or 'nothing'}")
    return 0


PARTS = {
    "reads": measure_reads,
    "posts": measure_posts,
    "observing": measure_observing,
    "growth": measure_growth,
    "start": measure_start,
    "memory": measure_memory,
    "idle": measure_idle,
}
