"""/metrics: off by default, and correct Prometheus text when on."""

import os
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service import NOW, Service, address, signature

import config
import jobs
import models
import storage
from storage.trouble import TROUBLES
from web.api.health import check_health


@pytest.fixture
def watched(tmp_path):
    made = Service(tmp_path / "data", metrics="on")
    yield made
    made.close()


def read(service):
    """{(name, label values, by the names of the labels): number} by Prometheus' own parser."""
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


def test_the_metrics_count_what_is_stored(watched):
    wallet = address("wallet")
    made = watched.make_bot(wallet=wallet)
    watched.make_bot("Ben", owner=made.owner)
    watched.observe_trade(wallet, "one", 10)
    for event, more in (("a", {"signature": signature("one")}), ("b", {}), ("c", {})):
        assert (
            watched.post(
                {"eventId": event, "body": "words", **more}, made.publish_key.text
            ).status_code
            == 201
        )
    told = read(watched)
    assert (
        told["bots",],
        told["wallets",],
        told["trades",],
        told["traders",],
        told["receipts",],
    ) == (2, 1, 1, 0, 0)
    assert (told["posts", "verified"], told["posts", "none"]) == (1, 2)
    assert {key[1]: value for key, value in told.items() if key[0] == "database_bytes"} == dict(
        storage.database.list_sizes()
    )
    assert told["disk_free_bytes",] > 0
    assert told["info", storage.database.version(), config.VERSION] == 1


def test_a_failing_job_is_visible(watched):
    jobs.note_job("observer", "ok", NOW - 60_000)
    jobs.note_job("observer", "failing", NOW, "every endpoint is paused")
    jobs.note_job("scout", "off", NOW)
    told = read(watched)
    assert (told["job_state", "failing", "observer"], told["job_state", "ok", "observer"]) == (1, 0)
    assert told["job_heartbeat_timestamp_seconds", "observer"] == NOW / 1000
    assert told["job_success_timestamp_seconds", "observer"] == (NOW - 60_000) / 1000
    # Never: no number is made up.
    assert ("job_success_timestamp_seconds", "paper") not in told


def test_a_failing_pass_degrades_an_instance(watched):
    def look():
        with watched.app.app_context():
            return check_health(watched.config, NOW)["status"]

    for state, problem, status in (
        ("ok", "every endpoint is paused", "degraded"),
        ("failing", "every endpoint is paused", "degraded"),
        ("ok", None, "ok"),
    ):
        jobs.note_job("observer", state, NOW, problem)
        assert look() == status
    # Of a job that was switched off since.
    jobs.note_job("scout", "off", NOW, "a former problem")
    assert look() == "ok"


def test_a_disabled_job_has_no_heartbeat(tmp_path):
    """It stands still for ever, and an alert over it would fire as long. Also where its last word
    is of the time before.
    """
    service = Service(tmp_path / "data", metrics="on", scout_interval_seconds=0)
    jobs.note_job("observer", "off", NOW)
    jobs.note_job("scout", "ok", NOW)
    jobs.note_job("paper", "ok", NOW)
    told = read(service)
    assert {key[1:] for key in told if key[0] == "job_heartbeat_timestamp_seconds"} == {("paper",)}
    assert {key[1:] for key in told if key[0] == "job_success_timestamp_seconds"} == {("paper",)}
    assert (
        told["job_state", "off", "observer"],
        told["job_state", "off", "scout"],
        told["job_state", "ok", "scout"],
    ) == (1, 1, 0)
    service.close()


def test_busy_responses_are_counted(watched):
    watched.app.busy_answers["disk_full"] += 3
    told = {
        key[1:]: value for key, value in read(watched).items() if key[0] == "busy_answers_total"
    }
    assert {reason for _, reason in told} == set(TROUBLES) and {process for process, _ in told} == {
        str(os.getpid())
    }
    assert sum(told.values()) == told[str(os.getpid()), "disk_full"] == 3


def test_writability_and_counting_are_reported(watched, monkeypatch):
    assert (read(watched)["database_writable",], read(watched)["allowance_ok",]) == (1, 1)
    monkeypatch.setattr(type(watched.database), "find_trouble", lambda self: "disk_full")
    monkeypatch.setattr("storage.counters.find_problem", lambda store, now: "FullError")
    assert (read(watched)["database_writable",], read(watched)["allowance_ok",]) == (0, 0)


def test_metrics_contain_no_secret(watched):
    made = watched.make_bot(wallet=address("wallet"))
    text = watched.get("/metrics").get_data(as_text=True)
    assert not any(
        secret in text
        for secret in (
            made.publish_key.text,
            made.owner.uid,
            address("wallet"),
            str(watched.config.data_dir),
        )
    )


def test_operate_documents_each_metric(watched):
    jobs.note_job("observer", "ok", NOW)
    watched.make_bot(wallet=address("wallet"))
    models.Wallet.update(polled_at=NOW).execute()
    watched.post({"eventId": "e", "body": "words"}, watched.make_bot("Ben").publish_key.text)
    told = (Path(__file__).resolve().parents[2] / "docs" / "operate.md").read_text()
    documented = set(re.findall(r"`candor_(\w+)", told))
    assert documented == {name for name, *_ in read(watched)}
