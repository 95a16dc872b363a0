"""The same reads from SQLite and from PostgreSQL."""

import itertools
import os
import statistics
from urllib.parse import urlsplit, urlunsplit

import storage
from bench import _servers as servers
from bench.speed.ground import MEDDLING, SMALL, Meddler, Seeded
from bench.speed.table import race, show, tell
from storage import locks


def measure_engines(given):
    """Needs `tests/with-engines`. The instance is copied as `app.py copy` does it."""
    server = os.environ.get("TEST_DATABASE_URL")
    if not server:
        print("skipped: PostgreSQL; run this under tests/with-engines")
        return []
    import psycopg

    from operate import copy

    seeded = Seeded(given.data, SMALL)
    with psycopg.connect(server, autocommit=True) as asked:
        asked.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
        asked.execute("CREATE DATABASE bench")
    url = urlunsplit(urlsplit(server)._replace(path="/bench"))
    # Seeding came in by the door, too.
    locks.unlock_data_dir()
    copy.move(seeded.settings, url)
    storage.database.close_all()
    with (
        servers.candor(seeded.folder) as file,
        servers.candor(seeded.folder, DATABASE_URL=url) as postgresql,
        psycopg.connect(url, autocommit=True) as other,
    ):
        measures = {}
        for name, path in seeded.paths.items():
            for engine, at in (("file", file), ("postgresql", postgresql)):
                measures[f"{name}, warm", engine] = (
                    at.port,
                    lambda path=path: itertools.repeat(seeded.request(path)),
                )
        meddler, meddle = (
            Meddler(seeded.file),
            lambda request: (other.execute(MEDDLING) and request for _ in itertools.count()),
        )
        name, request = "feed, each read just invalidated", seeded.request(seeded.paths["feed"])
        measures[name, "file"] = file.port, lambda: meddler.before(request)
        measures[name, "postgresql"] = postgresql.port, lambda: meddle(request)
        heard = race(measures, given.seconds)
    missed = []
    for name in dict.fromkeys(name for name, _ in heard):
        one, two = heard[name, "file"], heard[name, "postgresql"]
        missed += tell(
            f"{name}, SQLite / PostgreSQL",
            f"{show(two)} on PostgreSQL",
            statistics.median(a.rate / b.rate for a, b in zip(one, two, strict=False)),
            most=2,
        )
    return missed
