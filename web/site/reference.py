"""What /docs and /docs/fields/... say of every request, field and refusal: read from the OpenAPI
document, so that neither can say what the other does not.

The examples are made from the same document; with a key in CANDOR_KEY each works as it stands.
"""

import functools
import json
from dataclasses import dataclass

from web.api import openapi, queries
from web.api.schemas import bots, health, market, paper, posts, problems, trades, wallets

SECTION = "#/components/schemas/"
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
# A page of fields for each module of shapes, under this name.
GROUPS = {
    "bots": bots,
    "wallets": wallets,
    "posts": posts,
    "trades": trades,
    "market": market,
    "health": health,
    "paper": paper,
    "problems": problems,
}
POSTED = {"eventId": "docs-1", "body": "Hello from the documentation."}


@dataclass(frozen=True)
class Field:
    """`kind` in words; `shape` is the name of the shape it is made of, or None."""

    name: str
    kind: str
    shape: str | None
    required: bool
    said: str


@dataclass(frozen=True)
class Route:
    """A request: `takes` and `gives` name shapes (`gives` None: a stream of events), `refusals` are
    {status: [code...]}.
    """

    name: str
    method: str
    path: str
    summary: str
    keyed: bool
    fields: list
    takes: str | None
    gives: str | None
    refusals: dict
    curl: str
    python: str


def list_routes(base_url):
    """[Route, ...] in the order of the document of this address, with ids this instance has."""
    return _list_routes(base_url, tuple(find_ids().items()))


@functools.lru_cache(2)
def _list_routes(base_url, ids):
    document = openapi.build_document(base_url, False)
    return [
        read_route(base_url, dict(ids), path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


@dataclass(frozen=True)
class ShapeText:
    """A shape of the document: its name, what it is, its members."""

    name: str
    said: str
    fields: list[Field]


@functools.lru_cache(2)
def list_shapes(base_url: str) -> dict[str, list[ShapeText]]:
    """Return {group: shapes by name} of the document of this address, all groups in order."""
    document = openapi.build_document(base_url, False)
    groups: dict[str, list[ShapeText]] = {group: [] for group in GROUPS}
    for name, shape in sorted(document["components"]["schemas"].items()):
        required = shape.get("required", ())
        fields = [
            read_field(field, schema, field in required)
            for field, schema in shape.get("properties", {}).items()
        ]
        groups[find_group(name)].append(ShapeText(name, shape.get("description", ""), fields))
    return groups


@functools.cache
def find_group(shape: str) -> str:
    """Return the page of fields a shape stands on. What is posted stands with the posts."""
    for group, module in GROUPS.items():
        found = vars(module).get(shape)
        if found is not None and found.__module__ == module.__name__:
            return group
    return "posts"


def find_ids():
    """{noun: id} of the newest there is, for the examples."""
    newest = queries.find_newest_ids()
    return {
        "influencer": newest.bot or "BOT_ID",
        "post": newest.post or "POST_ID",
        "trader": newest.trader or "TRADER_ID",
        "mint": newest.mint or WRAPPED_SOL,
    }


# ---- out of the document -------------------------------------------------------------------------
def read_route(url, ids, path, method, operation):
    fields = [
        read_field(
            one["name"],
            one["schema"],
            one.get("required", False),
            f"{one.get('description', '')} ({one['in']})",
        )
        for one in operation["parameters"]
    ]
    takes = operation.get("requestBody", {"content": {}})["content"].get(
        "application/json", {"schema": {}}
    )["schema"]
    gives = operation["responses"]["200"]["content"].get("application/json", {"schema": {}})[
        "schema"
    ]
    refusals = {
        status: answer["description"].split(", ")
        for status, answer in operation["responses"].items()
        if status.isdigit() and status >= "400"
    }
    asked = url + write_path(path, operation["parameters"], ids)
    keyed, streams = bool(operation["security"]), not gives
    return Route(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        keyed,
        fields,
        find_shape(takes),
        find_shape(gives),
        refusals,
        write_curl(method, asked, keyed, streams),
        write_python(method, asked, keyed, streams),
    )


def read_field(name, schema, required, said=None):
    shapes = [shape for shape in (schema, *schema.get("anyOf", ())) if shape.get("description")]
    return Field(
        name,
        say_kind(schema),
        find_shape(schema),
        required,
        said if said is not None else shapes[0]["description"] if shapes else "",
    )


def find_shape(schema):
    """The name of the shape a schema points to, itself, in a list or beside null."""
    if "$ref" in schema:
        return schema["$ref"].removeprefix(SECTION)
    inner = [
        schema[name]
        for name in ("items", "additionalProperties")
        if isinstance(schema.get(name), dict)
    ] + schema.get("anyOf", [])
    return next(filter(None, map(find_shape, inner)), None)


def say_kind(schema):
    """A JSON schema in words: `list of Post`, `text of 1 to 128 characters or null`."""
    if "anyOf" in schema:
        return " or ".join(map(say_kind, schema["anyOf"]))
    if "$ref" in schema:
        return schema["$ref"].removeprefix(SECTION)
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if schema.get("format") == "date-time":
        return "time"
    if schema.get("type") == "array":
        return f"list of {say_kind(schema['items'])}" if schema.get("items") else "list"
    return {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "null": "null",
        "object": "object",
    }.get(schema.get("type"), "anything") + _say_bounds(schema)


def _say_bounds(schema):
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']:,} characters"
    return f" from {schema['minimum']}" if "minimum" in schema else ""


# ---- examples ------------------------------------------------------------------------------------
def write_path(path, parameters, ids):
    """The path with an id in its place, and what its query must have."""
    noun = next(
        (
            one["description"].removeprefix("id of the ")
            for one in parameters
            if one["in"] == "path"
        ),
        None,
    )
    needed = "&".join(
        f"{one['name']}={ids[one['name']]}"
        for one in parameters
        if one["in"] == "query" and one.get("required")
    )
    return path.replace("{id}", ids.get(noun, "")) + (f"?{needed}" if needed else "")


def write_curl(method, url, keyed, streams):
    options = ['-H "Authorization: Bearer $CANDOR_KEY"'] if keyed else []
    if method == "post":
        options += ['-H "Content-Type: application/json"', f"-d '{json.dumps(POSTED)}'"]
    return " \\\n  ".join([f'curl {"-N " if streams else ""}"{url}"', *options])


def write_python(method, url, keyed, streams):
    """With nothing but the standard library."""
    headers = (['"Authorization": "Bearer " + os.environ["CANDOR_KEY"]'] if keyed else []) + (
        ['"Content-Type": "application/json"'] if method == "post" else []
    )
    arguments = [
        f'"{url}"',
        *([f"data=json.dumps({json.dumps(POSTED)}).encode()"] if method == "post" else []),
        *([f"headers={{{', '.join(headers)}}}"] if headers else []),
    ]
    modules = [*([] if streams else ["json"]), *(["os"] if keyed else []), "urllib.request"]
    break_line = ",\n    "
    shown = (
        "    for line in answer:\n        print(line.decode(), end='')"
        if streams
        else "    print(json.load(answer))"
    )
    return (
        f"import {', '.join(modules)}\nask ="
        f" urllib.request.Request({break_line.join(arguments)})\nwith urllib.request.urlopen(ask)"
        f" as answer:\n{shown}"
    )
