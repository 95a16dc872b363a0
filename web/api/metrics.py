"""GET /metrics for Prometheus, if METRICS is on.

Every scrape reads the database and the disk, so the result doesn't depend on which worker responds.
Requests aren't counted here, because the access log and the proxy record them.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from chain.stored.attachments import COUNT_HELD, IS_HELD
from config import VERSION, Config
from models import IS_PROGRAM
from storage import counters, database
from storage.rows import read, select_value
from storage.trouble import TROUBLES, find_free
from web.api.health import IN_TROUBLE, JOBS
from web.server.application import find_app

blueprint = Blueprint("metrics", __name__)


# The name, the help text, and what is counted.
COUNTS = (
    ("bots", "Bots that are not retired", "FROM bot WHERE retired_at IS NULL"),
    ("traders", "Paper traders that are not retired", "FROM trader WHERE retired_at IS NULL"),
    ("wallets_in_trouble", "Observed wallets whose last pass had a problem", IN_TROUBLE),
    ("trades", "Receipts processed, of every kind", "FROM trade"),
    ("receipts", "Receipts stored", "FROM receipt"),
    (
        "receipts_pending",
        "Receipts listed but not stored yet",
        "FROM sighting WHERE state = 'pending'",
    ),
    (
        "receipts_refused",
        "Pending receipts that no endpoint returned in usable form",
        "FROM sighting WHERE state = 'pending' AND problem IS NOT NULL",
    ),
    ("tokens", "Tokens the scout tracks", "FROM token WHERE tracked_at IS NOT NULL"),
    (
        "reviews_open",
        "Paper mode records under review",
        "FROM review WHERE state = 'under_review'",
    ),
)
POSTS = "SELECT status, COUNT(*) AS posts FROM post GROUP BY status"
OLDEST_POLL = f"""
SELECT w.polled_at FROM wallet w WHERE w.polled_at IS NOT NULL AND {IS_HELD}
AND (w.trouble IS NULL OR w.trouble <> ?) ORDER BY w.polled_at LIMIT 1"""
JOB_STATES = ("ok", "failing", "off")


# The label values and number of each sample.
Samples = Iterable[tuple[tuple[str, ...], float]]


@blueprint.get("/metrics")
def show_metrics() -> Response:
    app, registry, now = find_app(), CollectorRegistry(), time.time()
    is_counting = counters.find_problem(app.allowance.store, now) is None
    registry.register(Instance(app.settings, now, is_counting, app.busy_answers, app.crowded_out))
    return Response(
        generate_latest(registry),
        content_type=CONTENT_TYPE_LATEST,
        headers={"Cache-Control": "no-store"},
    )


@dataclass(eq=False)
class Instance(Collector):
    """A collector for the whole instance.

    `now` is in seconds. `is_counting` is whether requests can be counted. `busy_answers` is {key of
    TROUBLES: refusals by this process}. `crowded_out` are the connections that this process closed.
    """

    config: Config
    now: float
    is_counting: bool
    busy_answers: Counter[str]
    crowded_out: int

    def collect(self) -> Iterator[Metric]:
        for name, text, counted in COUNTS:
            yield number(name, text, select_value(f"SELECT COUNT(*) {counted}"))
        observed = select_value(f"SELECT {COUNT_HELD}")
        yield number("wallets", "Currently observed wallets", observed)
        # PostgreSQL's version is known after the first query.
        info = ((VERSION, database.version()), 1)
        yield gauge("info", "Always 1; see the labels", [info], ("version", database.engine))
        yield gauge(
            "posts",
            "Posts by bots, by verification status",
            [((row.status,), row.posts) for row in read(POSTS)],
            ("verification",),
        )
        yield from self._collect_jobs(sorted(read(JOBS)))
        oldest = select_value(OLDEST_POLL, (IS_PROGRAM,))
        if oldest is not None:
            lag = max(0, self.now - oldest / 1000)
            yield number(
                "observer_lag_seconds", "Seconds since the most overdue wallet was last polled", lag
            )
        yield from self._collect_disk()
        yield from self._collect_refusals()

    def _collect_jobs(self, jobs: Collection[Any]) -> Iterator[Metric]:
        # The label is `task`, because Prometheus reserves `job`. A disabled job's heartbeat doesn't
        # change, so only its state is exported.
        intervals = {
            "observer": self.config.observer_interval_seconds,
            "scout": self.config.scout_interval_seconds,
            "paper": self.config.paper_interval_seconds,
        }
        states = {job.name: job.state if intervals.get(job.name, 1) else "off" for job in jobs}
        running = [job for job in jobs if states[job.name] != "off"]
        yield gauge(
            "job_state",
            "1 for the current state of a background job",
            [
                ((name, one), int(one == state))
                for name, state in states.items()
                for one in JOB_STATES
            ],
            ("task", "state"),
        )
        yield gauge(
            "job_heartbeat_timestamp_seconds",
            "When a job last finished a run, Unix time",
            [((job.name,), job.heartbeat_at / 1000) for job in running if job.heartbeat_at],
            ("task",),
        )
        yield gauge(
            "job_success_timestamp_seconds",
            "When a job last succeeded, Unix time",
            [((job.name,), job.last_success_at / 1000) for job in running if job.last_success_at],
            ("task",),
        )

    def _collect_disk(self) -> Iterator[Metric]:
        sizes = [((name,), size) for name, size in database.list_sizes()]
        yield gauge(
            "database_bytes", "Size of the database and its write-ahead log", sizes, ("file",)
        )
        free = find_free(self.config.data_dir)
        if free is not None:
            yield number("disk_free_bytes", "Free space on the disk of DATA_DIR", free)
        yield number(
            "database_writable",
            "0 if the last write failed or a write would fail",
            int(database.find_trouble() is None),
        )

    def _collect_refusals(self) -> Iterator[Metric]:
        yield number(
            "allowance_ok",
            "0 if requests can't be counted, in which case requests with a key are refused as busy",
            int(self.is_counting),
        )
        yield number(
            "connections_closed",
            "Connections closed since the process started because their address had too many",
            self.crowded_out,
        )
        refused = CounterMetricFamily(
            "candor_busy_answers",
            "`busy` responses of one process, by reason",
            labels=("reason", "process"),
        )
        for reason in TROUBLES:
            refused.add_metric((reason, str(os.getpid())), self.busy_answers[reason])
        yield refused


def gauge(name: str, text: str, samples: Samples, labels: tuple[str, ...]) -> GaugeMetricFamily:
    made = GaugeMetricFamily(f"candor_{name}", text, labels=labels)
    for values, value in samples:
        made.add_metric(values, value)
    return made


def number(name: str, text: str, value: float) -> GaugeMetricFamily:
    return gauge(name, text, [((), value)], ())
