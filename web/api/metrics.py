"""GET /metrics for Prometheus, where METRICS is on. Everything is read from the database and the
disk at the scrape, so it is true whichever worker answers.

Requests are not counted: the access log and the proxy have each of them.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from chain.stored.attachments import COUNT_HELD, IS_HELD
from config import VERSION, Config
from models import IS_PROGRAM
from storage import counters, database
from storage.rows import select, select_value
from storage.trouble import TROUBLES, find_free
from web.api.health import IN_TROUBLE, JOBS, JobRow
from web.server.application import find_app

blueprint = Blueprint("metrics", __name__)


class StatusCount(NamedTuple):
    """How many posts observation has given a status."""

    status: str
    posts: int


# Name, help, what is counted.
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


# The values of a metric's labels, and its number.
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
    """A collector over the whole instance. `now` in seconds; `is_counting`: the allowance can be
    counted; `busy_answers`: {word of TROUBLES: refusals of this process}; `crowded_out`:
    connections this process closed.
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
        # PostgreSQL's is known once it was asked for something.
        info = ((VERSION, database.version()), 1)
        yield gauge("info", "Always 1; see the labels", [info], ("version", database.engine))
        yield gauge(
            "posts",
            "Posts by bots, by verification status",
            [((row.status,), row.posts) for row in select(StatusCount, POSTS)],
            ("verification",),
        )
        yield from self._collect_jobs(sorted(select(JobRow, JOBS)))
        oldest = select_value(OLDEST_POLL, (IS_PROGRAM,))
        if oldest is not None:
            lag = max(0, self.now - oldest / 1000)
            yield number("observer_lag_seconds", "Seconds since the oldest poll", lag)
        yield from self._collect_disk()
        yield from self._collect_refusals()

    def _collect_jobs(self, jobs: Collection[JobRow]) -> Iterator[Metric]:
        # Labeled `task`: `job` is Prometheus' own label. The heartbeat of a job that is switched
        # off stands still, so only its state is told.
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
            "0 if requests can't be counted, so keyed requests are refused as busy",
            int(self.is_counting),
        )
        yield number(
            "connections_closed",
            "Connections closed since the start because their address had too many",
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
