"""docs/samples.md has a response for every request, as /openapi.json describes it. tests/samples.py
regenerates the page.
"""

import json
import re

import pytest
from jsonschema import Draft202012Validator
from samples import PAGE

from web.api import openapi

DOCUMENT = openapi.build_document("http://127.0.0.1:8000", demonstration=True)
PARTS = re.findall(r"^## `(\w+) (\S+)`\n(.*?)(?=\n## |\Z)", PAGE.read_text(), re.M | re.S)
SAMPLES = {
    (method.lower(), path): json.loads(sample[1])
    for method, path, text in PARTS
    if (sample := re.search(r"```json\n(.*?)```", text, re.S))
}


def list_operations(kind):
    """The requests that answer with this media type, each with the schema of its answer."""
    return {
        (method, path): content[kind]["schema"]
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if kind in (content := operation["responses"]["200"]["content"])
    }


def join(schema):
    """The object that a schema describes, with the members of those that it extends."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "allOf" not in schema:
        return schema
    parts = [join(one) for one in schema["allOf"]]
    return {
        "type": "object",
        "properties": {name: one for part in parts for name, one in part["properties"].items()},
        "required": [name for part in parts for name in part.get("required", ())],
    }


def close(schema):
    """The same schema, which refuses fields that it doesn't name."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema:
        schema = join(schema)
    closed = {name: close(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


OPERATIONS = list_operations("application/json")
COMPONENTS = close(DOCUMENT["components"])


def test_every_request_has_a_sample():
    streams = list_operations("text/event-stream")
    assert {(method.lower(), path) for method, path, _ in PARTS} == {*OPERATIONS, *streams}
    assert SAMPLES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_a_sample_matches_the_document(operation):
    schema = {**close(OPERATIONS[operation]), "components": COMPONENTS}
    found = Draft202012Validator(schema).iter_errors(SAMPLES[operation])
    assert [f"{error.json_path}: {error.message}" for error in found] == []


def test_a_renamed_field_would_be_detected():
    sample = dict(SAMPLES["get", "/api/v1/me"])
    sample["keyName"] = sample.pop("keyId")
    schema = {**OPERATIONS["get", "/api/v1/me"], "components": COMPONENTS}
    assert len([*Draft202012Validator(schema).iter_errors(sample)]) == 2
