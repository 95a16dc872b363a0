"""docs/samples.md has a response for every request, as /openapi.json describes it. tests/samples.py
regenerates the page.
"""

import json
import re

import pytest
from jsonschema import Draft202012Validator
from samples import PAGE
from test_shapes import Walk

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


def find_errors(sample, schema):
    """Wrong types, and missing or unknown members."""
    walk = Walk(DOCUMENT)
    walk.look(sample, schema, "")
    whole = {**schema, "components": DOCUMENT["components"]}
    types = Draft202012Validator(whole).iter_errors(sample)
    return walk.wrong + [f"{error.json_path}: {error.message}" for error in types]


def test_every_request_has_a_sample():
    streams = list_operations("text/event-stream")
    assert {(method.lower(), path) for method, path, _ in PARTS} == {*OPERATIONS, *streams}
    assert SAMPLES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_a_sample_matches_the_document(operation):
    assert find_errors(SAMPLES[operation], OPERATIONS[operation]) == []


def test_a_renamed_field_and_another_type_would_be_detected():
    me = "get", "/api/v1/me"
    sample = {**SAMPLES[me], "ownerId": 7}
    sample["keyName"] = sample.pop("keyId")
    assert len(find_errors(sample, OPERATIONS[me])) == 4
