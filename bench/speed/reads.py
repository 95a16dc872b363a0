"""The feed, cached and just invalidated, compared to a bare Flask, FastAPI and Datasette."""

import itertools
from urllib.parse import quote_plus

from bench import _rivals as rival
from bench import _servers as servers
from bench._clients import write_request
from bench.speed.ground import SMALL, THREADS, Meddler, Seeded
from bench.speed.table import compare, race, show, tell


def measure_reads(given):
    seeded = Seeded(given.data, SMALL)
    with servers.bare("flask_ok", "/ok", THREADS) as bare, servers.candor(seeded.folder) as ours:
        meddler, request = Meddler(seeded.file), seeded.request(seeded.paths["feed"])
        basis, warm, invalidated = 'a bare Flask, "ok"', "feed, warm", "feed, just invalidated"
        measures = {
            basis: (bare.port, lambda: itertools.repeat(write_request("GET", "/ok"))),
            warm: (ours.port, lambda: itertools.repeat(request)),
            invalidated: (ours.port, lambda: meddler.before(request)),
        }
        heard = race(measures, given.seconds)
    missed = tell(basis, show(heard[basis]))
    for name, least in ((warm, 0.4), (invalidated, None)):
        ratio = compare(heard, name, basis)
        missed += tell(f"{name} / bare Flask", show(heard[name]), ratio, least)
    return missed + (measure_rivals(given, seeded) if given.rivals else [])


def measure_rivals(given, seeded):
    sql = quote_plus(" ".join(rival.FEED.split()))
    with (
        servers.candor(seeded.folder) as ours,
        servers.fastapi(given.rivals, seeded.file) as fastapi,
        servers.datasette(given.rivals, seeded.file) as datasette,
    ):
        heard = race(
            {
                "feed, warm": (
                    ours.port,
                    lambda: itertools.repeat(seeded.request(seeded.paths["feed"])),
                ),
                "FastAPI": (fastapi.port, lambda: itertools.repeat(write_request("GET", "/feed"))),
                "Datasette": (
                    datasette.port,
                    lambda: itertools.repeat(
                        write_request("GET", f"/app.json?sql={sql}&_shape=array")
                    ),
                ),
            },
            given.seconds,
        )
    tell("FastAPI + uvicorn, async, sqlite3, orjson, no checks", show(heard["FastAPI"]))
    tell("Datasette", show(heard["Datasette"]))
    return tell(
        "feed, warm / FastAPI",
        show(heard["feed, warm"]),
        compare(heard, "feed, warm", "FastAPI"),
        0.9,
    ) + tell("feed, warm / Datasette", "", compare(heard, "feed, warm", "Datasette"), 3)
