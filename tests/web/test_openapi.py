"""Requests generated from the OpenAPI document: no response is a server error, and all match the
document.
"""

from contextlib import closing

import ground
import hypothesis
import pytest
from service import Service, address, signature

from web.api import openapi

# Each with its reason. Everything else is included: all checks, all phases, all other requests.
LEFT_OUT = """
[generation]
database = "none"

# Its answer has no end; tests/web/test_stream.py reads it.
[[operations]]
include-path = "/api/v1/stream"
enabled = false

# No schema can say which cursors were given out, that cursor and since exclude each other, that
# quote goes with one sort, or that base58 text is of 32 bytes: 400 is right for some that it
# allows.
[[operations]]
include-path-regex = "/(bots|feed|trades|activity|market|search|leaderboard|seasons)$"
exclude-method = "POST"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

# Registration is off here; tests/accounts/test_registration.py turns it on.
[[operations]]
include-operation-id = ["getChallenge", "registerBot"]
checks.positive_data_acceptance.expected-statuses = ["403"]

# Nor that eventId may stand in a header instead, that text has no control characters, or that
# base58 text is of 32 and 64 bytes; another influencer's botId is refused, an eventId used before
# too.
[[operations]]
include-path = "/api/v1/posts"
checks.positive_data_acceptance.expected-statuses = ["2xx", "403", "409", "422"]
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The application with a bot, whose key is `service.key`, its posts and trades."""
    with closing(Service(tmp_path_factory.mktemp("openapi"))) as service:
        service.key = service.make_bot("Ada", address("w")).publish_key.text
        for n in range(3):
            service.observe_trade(address("w"), f"t{n}", slot=n, mint=address("m"))
            said = {"eventId": f"e{n}", "body": "b", "signature": signature(f"t{n}")}
            service.post(said, service.key)
        yield service


@pytest.fixture(scope="module")
def api(service):
    # Imported here because it takes a second, and every worker collects every file.
    import schemathesis
    from schemathesis.config import SchemathesisConfig

    settings = SchemathesisConfig.from_str(LEFT_OUT)
    return schemathesis.openapi.from_wsgi("/openapi.json", service.app, config=settings)


ANSWERED = [operation for operation in openapi.OPERATIONS if operation.path != "/api/v1/stream"]


@pytest.mark.parametrize("operation", ANSWERED, ids=lambda one: f"{one.method} {one.path}")
def test_responses_match_the_openapi_document(api, service, operation):
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()

    @hypothesis.given(case=api[operation.path][operation.method.upper()].as_strategy())
    @hypothesis.settings(
        max_examples=ground.examples(25),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def check(case):
        headers = {"Authorization": f"Bearer {service.key}", "Accept-Encoding": "identity"}
        case.call_and_validate(headers=headers, checks=CHECKS.get_all())

    check()


def test_the_document_is_small_and_success_responses_are_json(service):
    """Generated clients and their readers get all of it. Generators use the first media type;
    others are returned only on request.
    """
    served = service.get("/openapi.json")
    assert served.json == openapi.build_document("http://127.0.0.1:8000")
    # It doesn't depend on cookies.
    assert "Vary" not in served.headers
    assert len(served.data) <= 110_000 and len(served.json["components"]["schemas"]) <= 80
    kinds = {
        (method, path): list((one["responses"].get("200") or one["responses"]["201"])["content"])
        for path, methods in served.json["paths"].items()
        for method, one in methods.items()
    }
    assert kinds.pop(("get", "/api/v1/stream")) == ["text/event-stream"]
    assert {found for (found,) in kinds.values()} == {"application/json"}
