"""/metrics: off by default, and correct Prometheus text when on."""

import os
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service import NOW, address, signature

import config
import jobs
import models
import storage
from storage.trouble import TROUBLES


@pytest.fixture
def watched(serve):
    return serve(metrics="on")


def read(service):
    """{(name, label values, sorted by label name): number}, by Prometheus's own parser."""
    answer = service.get("/metrics")
    assert answer.status_code == 200 and answer.content_type.startswith("text/plain")
    families = list(text_string_to_metric_families(answer.get_data(as_text=True)))
    assert all(family.documentation and family.name.startswith("candor_") for family in families)
    return {
        (sample.name.removeprefix("candor_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_are_off_by_default(service):
    assert service.get("/metrics").status_code == 404


def test_the_metrics_count_what_is_stored_and_contain_no_secret(watched):
    made = watched.make_bot(wallet=address("wallet"))
    watched.make_bot("Ben", owner=made.owner)
    watched.observe_trade(address("wallet"), "one", 10)
    for event, more in (("a", {"signature": signature("one")}), ("b", {}), ("c", {})):
        said = {"eventId": event, "body": "words", **more}
        assert watched.post(said, made.publish_key.text).status_code == 201
    told, text = read(watched), watched.get("/metrics").text
    counts = {"bots": 2, "wallets": 1, "trades": 1, "traders": 0, "receipts": 0}
    assert {name: told[name,] for name in counts} == counts
    assert (told["posts", "verified"], told["posts", "none"]) == (1, 2)
    sizes = {key[1]: value for key, value in told.items() if key[0] == "database_bytes"}
    assert sizes == dict(storage.database.list_sizes())
    assert told["disk_free_bytes",] > 0
    assert told["info", storage.database.version(), config.VERSION] == 1
    secrets = made.publish_key.text, made.owner.uid, address("wallet"), watched.config.data_dir
    assert not [secret for secret in secrets if str(secret) in text]


def test_a_failing_job_is_visible(watched):
    jobs.note_job("observer", "ok", NOW - 60_000)
    jobs.note_job("observer", "failing", NOW, "every endpoint is paused")
    told = read(watched)
    assert (told["job_state", "failing", "observer"], told["job_state", "ok", "observer"]) == (1, 0)
    assert told["job_heartbeat_timestamp_seconds", "observer"] == NOW / 1000
    assert told["job_success_timestamp_seconds", "observer"] == (NOW - 60_000) / 1000
    # It never succeeded, so there is no number.
    assert ("job_success_timestamp_seconds", "paper") not in told


@pytest.mark.usefixtures("agreed_clock")
def test_a_failing_pass_degrades_an_instance(watched):
    for job, state, problem, status in (
        ("observer", "ok", "every endpoint is paused", "degraded"),
        ("observer", "failing", "every endpoint is paused", "degraded"),
        ("observer", "ok", None, "ok"),
        # From a job that has since been turned off.
        ("scout", "off", "a former problem", "ok"),
    ):
        jobs.note_job(job, state, NOW, problem)
        assert watched.get("/api/health").json["status"] == status


def test_a_disabled_job_has_no_heartbeat(serve):
    """It would never change, and an alert on it would fire forever. The same for a value from
    before the job was turned off.
    """
    service = serve(metrics="on", scout_interval_seconds=0)
    for job, state in (("observer", "off"), ("scout", "ok"), ("paper", "ok")):
        jobs.note_job(job, state, NOW)
    told = read(service)
    for name in ("job_heartbeat_timestamp_seconds", "job_success_timestamp_seconds"):
        assert {key[1:] for key in told if key[0] == name} == {("paper",)}
    assert told["job_state", "off", "observer"] == told["job_state", "off", "scout"] == 1
    assert told["job_state", "ok", "scout"] == 0


def test_busy_responses_are_counted(watched):
    watched.app.busy_answers["disk_full"] += 3
    counts = {key[1:]: n for key, n in read(watched).items() if key[0] == "busy_answers_total"}
    told = {**dict.fromkeys(TROUBLES, 0), "disk_full": 3}
    assert counts == {(str(os.getpid()), reason): count for reason, count in told.items()}


def test_writability_and_counting_are_reported(watched, monkeypatch):
    def read_both():
        told = read(watched)
        return told["database_writable",], told["allowance_ok",]

    assert read_both() == (1, 1)
    monkeypatch.setattr(type(watched.database), "find_trouble", lambda self: "disk_full")
    monkeypatch.setattr("storage.counters.find_problem", lambda store, now: "FullError")
    assert read_both() == (0, 0)


def test_operate_documents_each_metric(watched):
    jobs.note_job("observer", "ok", NOW)
    watched.make_bot(wallet=address("wallet"))
    models.Wallet.update(polled_at=NOW).execute()
    watched.post({"eventId": "e", "body": "words"}, watched.make_bot("Ben").publish_key.text)
    told = (Path(__file__).resolve().parents[2] / "docs" / "operate.md").read_text()
    documented = set(re.findall(r"`candor_(\w+)", told))
    assert documented == {name for name, *_ in read(watched)}
