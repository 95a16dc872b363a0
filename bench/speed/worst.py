"""The dearest answer of every route for the dearest caller there is, in time of the processor: all
filters and windows together, the deepest cursors, the commonest words (tests/dearest.py).

Measured inside this process, in turns with a fixed piece of work by which a busy machine shows:
a commit of somebody else's before each answer, nothing kept but what is drawn of unchanged figures.
A table for a spreadsheet and a long page are sent in parts; then the dearest part counts.
"""

import statistics
import sys
import time

import config
import storage
from app import create_app
from bench import _servers as servers
from bench.speed.ground import Meddler, Seeded
from bench.speed.table import tell
from bench.streams import SETTINGS
from chain.stored.standings import refresh_standings

MAX_MS, SHOWN = 20, 12
# What a quiet machine takes for it is what it takes at its best.
WORK = 60_000


def measure_worst(given):
    """The dearest answer of each route with the largest database, the dearest SHOWN of them."""
    sys.path.append(str(servers.ROOT / "tests"))
    from dearest import Reader

    seeded = Seeded(given.data, given.large)
    # A document of evidence counts as the pages that are read: refused, it would look quick.
    given_settings = {**SETTINGS, "EVIDENCE_PER_MINUTE": "100000000"}
    settings = config.load({**given_settings, "DATA_DIR": str(seeded.folder)}, dotenv=None)
    database = storage.connect(settings)
    app = create_app(settings)
    with database.connection_context():
        reader = Reader(app, is_whole=True)
        requests = reader.list_requests()
    meddler, adapter = Meddler(seeded.file), app.url_map.bind("")
    dearest = {}
    for asked in requests:
        with database.connection_context():
            refresh_standings(time.time_ns() // 1_000_000)  # as the observer does with each pass
        endpoint, _ = adapter.match(asked.path.partition("?")[0])
        name = f"{endpoint} as CSV" if asked.headers else endpoint
        took = min(measure_answer(reader, meddler, asked) for _ in range(3))
        dearest[name] = max(dearest.get(name, (0.0, "")), (took, asked.path))
    database.close_all()
    return show_dearest(dearest, len(requests), given.large)


def measure_answer(reader, meddler, asked):
    """Milliseconds of the processor until the answer's beginning, or of its dearest part."""
    next(meddler.before(None))
    began = time.thread_time()
    response, parts = reader.ask(asked), []
    for _ in zip(range(3), response.response, strict=False):
        parts.append(time.thread_time() - began)
        began = time.thread_time()
    response.close()
    return 1000 * max(parts, default=time.thread_time() - began) / find_load()


def find_load():
    """How many times as long as at its best a fixed piece of work takes just now."""
    began = time.thread_time()
    sum(number * number % 7 for number in range(WORK))
    took = time.thread_time() - began
    find_load.best = min(getattr(find_load, "best", took), took)
    return took / find_load.best


def show_dearest(dearest, count, rows):
    missed = []
    ordered = sorted(dearest.items(), key=lambda one: -one[1][0])
    for name, (took, path) in ordered[:SHOWN]:
        what = f"CPU of `{name}`, {rows:,} trades and posts, ms"
        missed += tell(what, f"`{path[:70]}`", took, most=MAX_MS)
    middle = statistics.median(took for took, _ in dearest.values())
    tell(
        f"CPU of the dearest answer of {len(dearest)} routes, {count:,} requests, median, ms",
        "",
        middle,
    )
    return missed
