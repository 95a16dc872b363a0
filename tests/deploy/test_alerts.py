"""deploy/'s Prometheus and Grafana files: rules fire when they should, and panels use existing
metrics.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families
from service import NOW, address

import jobs
import models

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
NAMED = re.compile(r"candor_\w+")
promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed (Debian: prometheus)"
)


def run_promtool(*args):
    done = subprocess.run(
        ["promtool", *args], cwd=DEPLOY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_each_alert_is_valid_and_fires_when_it_should():
    run_promtool("check", "rules", "--lint-fatal", "alerts.yml")
    run_promtool("test", "rules", "alerts_test.yml")


def list_alerts():
    return re.findall(r"- alert: (\w+)", (DEPLOY / "alerts.yml").read_text())


def test_each_alert_is_documented_and_has_its_test():
    documented = set(re.findall(r"`(Candor\w+)`", (ROOT / "docs" / "operate.md").read_text()))
    tested = set(re.findall(r"alertname: (\w+)", (DEPLOY / "alerts_test.yml").read_text()))
    assert sorted(documented) == sorted(tested) == sorted(list_alerts())


@pytest.fixture
def metrics(serve):
    """{name: label names} of a running instance where everything occurred at least once."""
    service = serve(metrics="on")
    service.make_bot(wallet=address("wallet"))
    models.Wallet.update(polled_at=NOW).execute()
    for task in ("observer", "scout", "paper"):
        jobs.note_job(task, "ok", NOW)
    service.post({"eventId": "e", "body": "words"}, service.make_bot("Ben").publish_key.text)
    families = text_string_to_metric_families(service.get("/metrics").text)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def list_labels(expression, metrics):
    return set().union(*(metrics[name] for name in NAMED.findall(expression)))


def check_expression(expression, metrics):
    names = set(NAMED.findall(expression))
    assert names <= metrics.keys(), expression
    for name, matchers in re.findall(r"(candor_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*=", matchers)) <= metrics[name], expression
    for labels in re.findall(r"\b(?:by|without) \(([^)]*)\)", expression):
        assert set(re.findall(r"\w+", labels)) <= list_labels(expression, metrics), expression


def test_rules_use_existing_metrics_and_labels(metrics):
    expressions = re.findall(r"expr: (.+)", (DEPLOY / "alerts.yml").read_text())
    assert len(expressions) == len(list_alerts())
    for expression in expressions:
        check_expression(expression, metrics)
    # The scraping server sets `job` and `instance`, so ours would arrive as exported_job.
    assert not set().union(*metrics.values()) & {"job", "instance", "__name__"}


def are_distinct(values):
    values = list(values)
    return len(set(values)) == len(values)


def test_the_dashboard_is_valid_and_uses_existing_metrics(metrics):
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    assert {"title": "Candor", "uid": "candor"}.items() <= dashboard.items()
    assert dashboard["schemaVersion"] >= 36
    variables, panels = dashboard["templating"]["list"], dashboard["panels"]
    assert [one["name"] for one in variables if one["type"] == "datasource"] == ["datasource"]
    places, asked = [panel["gridPos"] for panel in panels], set()
    assert are_distinct(panel["id"] for panel in panels)
    assert are_distinct((place["x"], place["y"]) for place in places)
    assert all(set(place) == set("hwxy") and place["x"] + place["w"] <= 24 for place in places)
    for panel in panels:
        assert panel["targets"] and are_distinct(one["refId"] for one in panel["targets"])
        for target in panel["targets"]:
            expression, legend = target["expr"], target["legendFormat"]
            assert target["datasource"]["uid"] == "${datasource}"
            check_expression(expression, metrics)
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= list_labels(expression, metrics)
            asked |= set(NAMED.findall(expression))
    assert set(metrics) - asked <= {"candor_info", "candor_job_state"}


def test_the_dashboard_follows_grafanas_schema():
    """Classes generated from Grafana's schema read every member and drop none."""
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    assert list(find_lost(dashboard, read, "dashboard")) == []
    panel = {**dashboard["panels"][0], "colour": "red"}
    read = json.loads(JSONEncoder().encode(Dashboard.from_json({"panels": [panel]})))
    assert list(find_lost({"panels": [panel]}, read, "")) == [".panels.0.colour"]


def find_lost(given, read, path):
    """List places where a value was dropped or changed."""
    if isinstance(given, dict | list):
        for name, value in given.items() if isinstance(given, dict) else enumerate(given):
            if isinstance(given, dict) and name not in read:
                yield f"{path}.{name}"
            else:
                yield from find_lost(value, read[name], f"{path}.{name}")
    elif given != read:
        yield path
