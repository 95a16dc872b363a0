"""/metrics for Prometheus, where METRICS is on. Everything is read from the database and the disk
at the scrape, so it is true whichever worker answers.

Requests are not counted here: the access log and the proxy have each of them.
"""

import os
import shutil
import time

from flask import Blueprint, Response, current_app
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from config import VERSION
from models import IS_PROGRAM
from storage import counters, database
from storage.trouble import TROUBLES
from web.server import connections

blueprint = Blueprint("metrics", __name__)
COUNTS = (
    (
        "bots",
        "Influencers of wallet mode that are not retired",
        "SELECT COUNT(*) FROM bot WHERE retired_at IS NULL",
    ),
    (
        "traders",
        "Influencers of paper mode that are not retired",
        "SELECT COUNT(*) FROM trader WHERE retired_at IS NULL",
    ),
    (
        "wallets",
        "Wallets that are observed now",
        "SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL",
    ),
    (
        "wallets_in_trouble",
        "Observed wallets whose last pass met trouble of their own",
        (
            "SELECT COUNT(*) FROM attachment a JOIN wallet w ON w.id = a.wallet_id WHERE"
            " a.detached_at IS NULL AND w.trouble IS NOT NULL"
        ),
    ),
    ("trades", "Receipts booked, of every kind", "SELECT COUNT(*) FROM trade"),
    ("receipts", "Receipts stored", "SELECT COUNT(*) FROM receipt"),
    (
        "receipts_pending",
        "Receipts listed and not stored yet",
        "SELECT COUNT(*) FROM sighting WHERE state = 'pending'",
    ),
    (
        "receipts_refused",
        "Pending receipts of which no endpoint gave a usable one",
        "SELECT COUNT(*) FROM sighting WHERE state = 'pending' AND problem IS NOT NULL",
    ),
    (
        "tokens",
        "Tokens the scout tracks",
        "SELECT COUNT(*) FROM token WHERE tracked_at IS NOT NULL",
    ),
    (
        "reviews_open",
        "Records of paper mode under review",
        "SELECT COUNT(*) FROM review WHERE state = 'under_review'",
    ),
)
POSTS = "SELECT status, COUNT(*) FROM post GROUP BY status"
JOBS = "SELECT name, state, heartbeat_at, last_success_at FROM job ORDER BY name"
OLDEST_LOOK = (
    "SELECT MIN(w.looked_at) FROM wallet w JOIN attachment a ON a.wallet_id = w.id AND"
    " a.detached_at IS NULL WHERE w.trouble IS NULL OR w.trouble <> ?"
)
JOB_STATES = ("ok", "failing", "off")


@blueprint.get("/metrics")
def show_metrics():
    registry = CollectorRegistry()
    counting = counters.find_problem(current_app.allowance.store, time.time()) is None
    registry.register(
        Instance(current_app.config["CANDOR"], time.time(), counting, current_app.busy)
    )
    return Response(
        generate_latest(registry),
        content_type=CONTENT_TYPE_LATEST,
        headers={"Cache-Control": "no-store"},
    )


class Instance:
    """A collector over the whole instance; `now` in seconds, `busy` {word of TROUBLES: refusals of
    this process}.
    """

    def __init__(self, config, now, counting, busy):
        self.config, self.now, self.counting, self.busy = config, now, counting, busy
        self.intervals = {
            "observer": config.observer_interval_seconds,
            "scout": config.scout_interval_seconds,
            "paper": config.paper_interval_seconds,
        }

    def collect(self):
        yield gauge(
            "info",
            "Always 1; the labels tell",
            [((VERSION, database.version()), 1)],
            ("version", database.engine),
        )
        for name, help, sql in COUNTS:
            yield gauge(name, help, _one(sql))
        yield gauge(
            "posts",
            "Posts of wallet mode by what observation made of them",
            [((status,), count) for status, count in _all(POSTS)],
            ("verification",),
        )
        yield from self._jobs(_all(JOBS))
        oldest = _one(OLDEST_LOOK, (IS_PROGRAM,))
        if oldest is not None:
            yield gauge(
                "observer_lag_seconds",
                "Since the wallet looked at longest ago was looked at",
                max(0, self.now - oldest / 1000),
            )
        yield from self._disk()
        yield gauge(
            "database_writable",
            "0 where the last write failed or one would",
            int(database.find_trouble() is None),
        )
        yield gauge(
            "allowance_ok",
            "0 where no request can be counted, so that the keyed interface is busy",
            int(self.counting),
        )
        refused = CounterMetricFamily(
            "candor_busy_answers",
            "Answers `busy` of one process by what was in the way",
            labels=("reason", "process"),
        )
        for reason in TROUBLES:
            refused.add_metric((reason, str(os.getpid())), self.busy[reason])
        yield refused

    def _jobs(self, rows):
        """`task` and not `job`, which is Prometheus' own label. Of what is switched off only that
        is told: its heartbeat stands still.
        """
        states = {
            name: state if self.intervals.get(name, 1) else "off" for name, state, _, _ in rows
        }
        running = [row for row in rows if states[row[0]] != "off"]
        yield gauge(
            "job_state",
            "1 for the state a background job is in",
            [
                ((name, one), int(one == state))
                for name, state in states.items()
                for one in JOB_STATES
            ],
            ("task", "state"),
        )
        yield gauge(
            "job_heartbeat_timestamp_seconds",
            "When a job last ended a run, Unix time",
            [((name,), at / 1000) for name, _, at, _ in running if at],
            ("task",),
        )
        yield gauge(
            "job_success_timestamp_seconds",
            "When a job last went well, Unix time",
            [((name,), at / 1000) for name, _, _, at in running if at],
            ("task",),
        )

    def _disk(self):
        sizes = [((name,), size) for name, size in database.list_sizes()]
        yield gauge(
            "database_bytes", "Size of the database and of its write-ahead log", sizes, ("file",)
        )
        yield gauge(
            "connections_closed",
            "Connections closed since the start, for an address that had too many",
            connections.closed.total(),
        )
        yield gauge(
            "disk_free_bytes",
            "Free on the disk of DATA_DIR",
            shutil.disk_usage(self.config.data_dir).free,
        )


def gauge(name, help, samples, labels=()):
    """A gauge `candor_NAME`; `samples`: (values of its labels, number), or one number for a gauge
    without labels.
    """
    samples = samples if labels else [((), samples)]
    made = GaugeMetricFamily(f"candor_{name}", help, labels=labels)
    for values, number in samples:
        made.add_metric(values, number)
    return made


def _one(sql, values=()):
    return database.execute_sql(sql, values).fetchone()[0]


def _all(sql):
    return database.execute_sql(sql).fetchall()
