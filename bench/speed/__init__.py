"""How fast it is beside what the machine can do and what a user would pick instead: a table of
ratios, measured side by side in one run.

    python -m bench speed [--rivals FOLDER] [--large 1000000] [--data FOLDER] [--seconds 3]
        [--file dist/candor.pyz]
        [--only reads,engines,beside,posts,observing,growth,board,worst,start,memory,idle]

FOLDER of --rivals is a virtual environment with bench/requirements.txt; without it the rows about
FastAPI and Datasette are left out, as is that of the single file without --file. --data keeps the
seeded databases for the next run. What is compared is measured in turns, thrice, and the middle
ratio is shown; every check of ours (host, key, allowance, log) is on.
"""

import argparse
import tempfile
from pathlib import Path

from bench.speed.engines import measure_engines
from bench.speed.growth import measure_board, measure_growth
from bench.speed.observing import measure_observing
from bench.speed.posts import measure_posts
from bench.speed.process import measure_idle, measure_memory, measure_start
from bench.speed.reads import measure_beside, measure_reads
from bench.speed.worst import measure_worst


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench speed")
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--file", type=Path)
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
    "engines": measure_engines,
    "beside": measure_beside,
    "posts": measure_posts,
    "observing": measure_observing,
    "growth": measure_growth,
    "board": measure_board,
    "worst": measure_worst,
    "start": measure_start,
    "memory": measure_memory,
    "idle": measure_idle,
}
