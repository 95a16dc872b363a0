"""The reference on /docs: every request, field and refusal, read from the OpenAPI document, so that
the two cannot differ.

The examples are made from the same document; with a key in CANDOR_KEY each works as it stands.
"""

import functools
import importlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import escape

from accounts.problem import OF_ALL, OF_KEYS
from chain.reading.instructions import WRAPPED_SOL
from web.api import queries
from web.api.operations import PAGED
from web.api.serialize import Json

SCHEMA_PREFIX = "#/components/schemas/"
# The pages of fields, each with the shapes of these modules of web.api.
GROUPS = {
    "bots": ("bots", "results", "risk", "token_results", "copying"),
    "wallets": ("wallets",),
    "posts": ("posts",),
    "trades": ("trades", "leaderboard"),
    "market": ("market",),
    "search": ("search",),
    "health": ("health", "me"),
    "paper": ("paper_shapes",),
    "paper-evidence": ("paper_evidence_shapes",),
    "problems": ("problems",),
}
# JSON schema types in words.
TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
}
# What stands in an example for the newest of each kind, which fill_ids puts there.
NAMES = {
    "bot": "BOT_ID",
    "post": "POST_ID",
    "trader": "TRADER_ID",
    "mint": "MINT_ADDRESS",
    "q": "profit",
}
EXAMPLE_POST = {"eventId": "docs-1", "body": "Hello from the documentation."}


class Field(NamedTuple):
    """A parameter, or a member of an object.

    `kind`: its type in words; `shape`: the name of the shape it is made of, None for a plain value.
    """

    name: str
    kind: str
    shape: str | None
    required: bool
    text: str


class Shape(NamedTuple):
    """An object of the API: its name, what it is, its members."""

    name: str
    text: str
    fields: list[Field]


class Route(NamedTuple):
    """A request and its examples.

    `takes`, `gives`: the names of the shapes of body and answer (`gives` None: a stream of events);
    `refusals`: {status: [code...]}, of this request only.
    """

    name: str
    method: str
    path: str
    summary: str
    keyed: bool
    fields: list[Field]
    takes: str | None
    gives: str | None
    refusals: dict[str, list[str]]
    curl: str
    python: str
    typescript: str


def build_document(base_url: str) -> Mapping[str, Any]:
    # Loaded when it is first asked for, as in web.api.document.
    from web.api import openapi

    return openapi.build_document(base_url, False)


def list_routes(base_url: str) -> list[Route]:
    """Return all requests in the document's order; their examples hold NAMES instead of ids."""
    document = build_document(base_url)
    return [
        read_route(Example(base_url, method, path, operation))
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


# Takes longer than a page should.
@functools.lru_cache(2)
def list_shapes(base_url: str) -> dict[str, list[Shape]]:
    """Return {group: its shapes, sorted by name} of the document, with all groups in order."""
    document = build_document(base_url)
    groups: dict[str, list[Shape]] = {group: [] for group in GROUPS}
    for name, shape in sorted(document["components"]["schemas"].items()):
        required = shape.get("required", ())
        fields = [
            read_field(field, schema, field in required)
            for field, schema in shape.get("properties", {}).items()
        ]
        groups[find_group(name)].append(Shape(name, shape.get("description", ""), fields))
    return groups


def find_group(shape: str) -> str:
    """Return the page of fields that lists a shape. Bodies of requests are on that of the posts."""
    for group, names in GROUPS.items():
        for name in names:
            module = importlib.import_module(f"web.api.{name}")
            found = vars(module).get(shape)
            if found is not None and found.__module__ == module.__name__:
                return group
    return "posts"


def fill_ids(page: str) -> str:
    """Return a page with the newest id of each kind for its name, where there is one.

    So a page is rendered once, and not after each post.
    """
    newest = queries.find_newest_ids()
    found = {**newest._asdict(), "mint": newest.mint or WRAPPED_SOL}
    for noun, name in NAMES.items():
        page = page.replace(name, str(escape(found.get(noun) or name)))
    return page


# ---- reading the document ------------------------------------------------------------------------
class Example(NamedTuple):
    """An operation of the document as the examples call it."""

    base_url: str
    method: str
    path: str
    operation: Json

    @property
    def keyed(self) -> bool:
        """Does it need a key?"""
        return bool(self.operation["security"])

    @property
    def answer(self) -> Json:
        """The schema of its JSON answer, empty for a stream of events."""
        return _find_schema(self.operation["responses"]["200"])

    @property
    def url(self) -> str:
        """The address with an id in its place, and with the parameters that it must have."""
        parameters = self.operation["parameters"]
        needed = [one for one in parameters if one["in"] == "query" and one.get("required")]
        query = "&".join(f"{one['name']}={NAMES[one['name']]}" for one in needed)
        path = self.path.replace("{id}", NAMES.get(_find_noun(parameters), ""))
        return f"{self.base_url}{path}{f'?{query}' if query else ''}"


def _find_schema(part: Json) -> Json:
    schema: Json = part["content"].get("application/json", {"schema": {}})["schema"]
    return schema


def _find_noun(parameters: Sequence[Json]) -> str:
    described = (one["description"] for one in parameters if one["in"] == "path")
    return next(described, "").removeprefix("id of the ")


def read_route(example: Example) -> Route:
    """Return an operation of the OpenAPI document as the page shows it."""
    operation = example.operation
    body = operation.get("requestBody", {"content": {}})
    return Route(
        operation["operationId"],
        example.method.upper(),
        example.path,
        operation["summary"],
        example.keyed,
        [read_parameter(one) for one in operation["parameters"]],
        find_shape(_find_schema(body)),
        find_shape(example.answer),
        list_refusals(operation),
        write_curl(example),
        write_python(example),
        write_typescript(example),
    )


def list_refusals(operation: Json) -> dict[str, list[str]]:
    """Return {status: [code...]}, without those of all requests, which the page lists once."""
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for status, answer in operation["responses"].items():
        if status.isdigit() and status >= "400":
            for code in answer["description"].split(", "):
                if code not in (*OF_ALL, *OF_KEYS, *PAGED):
                    refused[status].append(code)
    return dict(refused)


def read_parameter(parameter: Json) -> Field:
    """Return a parameter as a field; its text ends with where it goes."""
    text = f"{parameter.get('description', '')} ({parameter['in']})"
    field = read_field(parameter["name"], parameter["schema"], parameter.get("required", False))
    return field._replace(text=text)


def read_field(name: str, schema: Json, required: bool) -> Field:
    """Return a member of a shape as a field."""
    described = (one.get("description") for one in (schema, *schema.get("anyOf", ())))
    text = next(filter(None, described), "")
    return Field(name, describe_type(schema), find_shape(schema), required, text)


def find_shape(schema: Json) -> str | None:
    """Return the name of the shape that a schema points to: itself, in a list, or beside null."""
    if "$ref" in schema:
        return _name_of(schema)
    inner = [
        schema[name]
        for name in ("items", "additionalProperties")
        if isinstance(schema.get(name), dict)
    ] + schema.get("anyOf", [])
    return next(filter(None, map(find_shape, inner)), None)


def _name_of(schema: Json) -> str:
    reference: str = schema["$ref"]
    return reference.removeprefix(SCHEMA_PREFIX)


def describe_type(schema: Json) -> str:
    """Write a JSON schema in words: `list of Post`, `text of 1 to 128 characters or null`."""
    if "anyOf" in schema:
        return " or ".join(map(describe_type, schema["anyOf"]))
    if "$ref" in schema:
        return _name_of(schema)
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if schema.get("format") == "date-time":
        return "time"
    if schema.get("type") == "array":
        return f"list of {describe_type(schema['items'])}" if schema.get("items") else "list"
    return TYPES.get(schema.get("type", ""), "anything") + _describe_bounds(schema)


def _describe_bounds(schema: Json) -> str:
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']:,} characters"
    return f" from {schema['minimum']}" if "minimum" in schema else ""


# ---- examples ------------------------------------------------------------------------------------
def write_curl(example: Example) -> str:
    """Write the request as a curl command for a shell."""
    options = ['-H "Authorization: Bearer $CANDOR_KEY"'] if example.keyed else []
    if example.method == "post":
        options += ['-H "Content-Type: application/json"', f"-d '{json.dumps(EXAMPLE_POST)}'"]
    # -N: show events as they arrive.
    flags = "" if example.answer else "-N "
    return " \\\n  ".join([f'curl {flags}"{example.url}"', *options])


def write_python(example: Example) -> str:
    """Write the request in Python with nothing but the standard library."""
    arguments, headers, modules = [f'"{example.url}"'], [], ["urllib.request"]
    if example.keyed:
        headers.append('"Authorization": "Bearer " + os.environ["CANDOR_KEY"]')
        modules.append("os")
    if example.method == "post":
        headers.append('"Content-Type": "application/json"')
        arguments.append(f"data=json.dumps({json.dumps(EXAMPLE_POST)}).encode()")
    if headers:
        arguments.append(f"headers={{{', '.join(headers)}}}")
    if example.answer:
        modules.append("json")
        shown = "    print(json.load(answer))"
    else:
        shown = "    for line in answer:\n        print(line.decode(), end='')"
    return "\n".join(
        (
            f"import {', '.join(sorted(modules))}",
            "request = urllib.request.Request(" + ",\n    ".join(arguments) + ")",
            "with urllib.request.urlopen(request) as answer:",
            shown,
        )
    )


def write_typescript(example: Example) -> str:
    """Write the request in TypeScript, for Node 18 or newer, Deno, Bun or a browser."""
    headers = ["Authorization: `Bearer ${process.env.CANDOR_KEY}`"] if example.keyed else []
    options = []
    if example.method == "post":
        headers.append('"Content-Type": "application/json"')
        options += ['method: "POST"', f"body: JSON.stringify({json.dumps(EXAMPLE_POST)})"]
    if headers:
        options.append(f"headers: {{ {', '.join(headers)} }}")
    more = f", {{\n  {f',{chr(10)}  '.join(options)},\n}}" if options else ""
    shown = (
        "console.log(await answer.json());"
        if example.answer
        else "for await (const part of answer.body!.pipeThrough(new TextDecoderStream()))\n"
        "  console.log(part);"
    )
    return f'const answer = await fetch("{example.url}"{more});\n{shown}'
