"""Requests made up from the document itself: no answer is a fault of ours, and none is outside of
what the document says.
"""

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import SchemathesisConfig
from service import address, signature

from bench.interface import LEFT_OUT
from web.api import openapi

load_all_checks()
CHECKED = CHECKS.get_all()


@pytest.fixture
def api(service):
    made = service.make_bot("Ada", address("w"))
    service.key = made.publish_key.text
    for n in range(3):
        service.observe_trade(address("w"), f"t{n}", slot=n, mint=address("m"))
        service.post(
            {"eventId": f"e{n}", "body": "b", "signature": signature(f"t{n}")}, service.key
        )
    return schemathesis.openapi.from_wsgi(
        "/openapi.json", service.app, config=SchemathesisConfig.from_str(LEFT_OUT)
    )


# a stream has no end to wait for: tests/test_stream.py reads it
ANSWERED = [operation for operation in openapi.OPERATIONS if operation.path != "/api/v1/stream"]


@pytest.mark.parametrize(
    "operation", ANSWERED, ids=lambda operation: f"{operation.method} {operation.path}"
)
def test_answers_stay_inside_the_document(api, service, operation):
    @hypothesis.given(case=api[operation.path][operation.method.upper()].as_strategy())
    @hypothesis.settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def check(case):
        case.call_and_validate(headers={"Authorization": f"Bearer {service.key}"}, checks=CHECKED)

    check()


def test_success_has_one_media_type_so_that_clients_know_what_they_get(service):
    paths = service.get("/openapi.json").get_json()["paths"]
    methods = [method for methods in paths.values() for method in methods.values()]
    successes = [method["responses"].get("200") or method["responses"]["201"] for method in methods]
    assert successes and all(len(answer["content"]) == 1 for answer in successes)
