"""docs/samples.md has a response for every request, as /openapi.json describes it. tests/samples.py
regenerates the page.
"""

import json
import re

import pytest
from samples import PAGE
from test_shapes import Shapes, close

from web.api import openapi

DOCUMENT = openapi.build_document("http://127.0.0.1:8000", demonstration=True)
PARTS = re.findall(r"^## `(\w+) (\S+)`\n(.*?)(?=\n## |\Z)", PAGE.read_text(), re.M | re.S)
SAMPLES = {
    (method.lower(), path): json.loads(sample[1])
    for method, path, text in PARTS
    if (sample := re.search(r"```json\n(.*?)```", text, re.S))
}


def list_operations(kind):
    """Requests with a response of this media type, each with the schema of the response."""
    return {
        (method, path): content[kind]["schema"]
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if kind in (content := operation["responses"]["200"]["content"])
    }


OPERATIONS = list_operations("application/json")


SHAPES = Shapes(DOCUMENT)


def list_errors(sample, schema):
    """Wrong types, and missing or unknown members."""
    whole = {**close(schema), "components": {"schemas": SHAPES.schemas}}
    return [
        f"{one.json_path}: {one.message}" for one in SHAPES.validator(whole).iter_errors(sample)
    ]


def test_every_request_has_a_sample():
    streams = list_operations("text/event-stream")
    assert {(method.lower(), path) for method, path, _ in PARTS} == {*OPERATIONS, *streams}
    assert SAMPLES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_a_sample_matches_the_document(operation):
    assert list_errors(SAMPLES[operation], OPERATIONS[operation]) == []


def test_a_renamed_field_and_another_type_would_be_detected():
    me = "get", "/api/v1/me"
    sample = {**SAMPLES[me], "ownerId": 7}
    sample["keyName"] = sample.pop("keyId")
    assert len(list_errors(sample, OPERATIONS[me])) == 3
