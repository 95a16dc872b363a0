"""Durable posts over HTTP, compared to raw inserts of the same rows over HTTP."""

import itertools
import json
import tempfile
import time
from pathlib import Path

from bench import _servers as servers
from bench._clients import ask, write_request
from bench.speed.ground import SMALL, THREADS, Seeded, copy_folder
from bench.speed.table import ROUNDS, compare, show, tell

WRITERS = 8


def measure_posts(given):
    """Measure durable posts over HTTP, compared to raw inserts of the same rows over HTTP: sqlite3,
    FULL, one transaction each.
    """
    seeded, numbers = Seeded(given.data, SMALL), itertools.count()
    run = f"{time.time_ns()}"

    def post(headers):
        while True:
            body = json.dumps(
                {
                    "eventId": f"{run} {next(numbers)}",
                    "body": "Sold into strength; the receipt is on its way.",
                }
            ).encode()
            yield write_request(
                "POST",
                "/api/v1/posts" if headers else "/posts",
                [("Content-Type", "application/json"), *headers],
                body,
            )

    with tempfile.TemporaryDirectory() as folder:
        copy_folder(seeded.folder, Path(folder) / "raw")
        copy_folder(seeded.folder, Path(folder) / "ours")
        with (
            servers.bare("insert_posts", "/ready", THREADS, DATABASE=f"{folder}/raw/app.db") as raw,
            servers.candor(f"{folder}/ours") as ours,
        ):
            heard = {"raw": [], "ours": []}
            for _ in range(ROUNDS):
                heard["raw"].append(ask(raw.port, lambda: post([]), WRITERS, given.seconds, 201))
                heard["ours"].append(
                    ask(
                        ours.port,
                        lambda: post([("Authorization", f"Bearer {seeded.publish}")]),
                        WRITERS,
                        given.seconds,
                        201,
                    )
                )
    wrong = {name: sum(one.wrong for one in rounds) for name, rounds in heard.items()}
    assert not any(wrong.values()), wrong
    tell("raw inserts over HTTP, 8 clients", show(heard["raw"]))
    return tell(
        "durable posts / raw inserts", show(heard["ours"]), compare(heard, "ours", "raw"), 0.4
    )
