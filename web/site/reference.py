"""The reference on /docs: every request and error, from the operations behind the OpenAPI document,
and every field, from the document.

Examples are also generated from the operations. Each works unchanged if CANDOR_KEY contains a key.
"""

import functools
import importlib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import escape

from accounts.problem import CODES
from chain.reading.instructions import WRAPPED_SOL
from web.api import queries
from web.api.serialize import Json

if TYPE_CHECKING:
    from web.api.operations import Operation

SCHEMA_PREFIX = "#/components/schemas/"
# The pages of fields. Each shows the shapes in these web.api modules.
GROUPS = {
    "bots": ("bots", "results", "copying", "registration"),
    "wallets": ("wallets",),
    "posts": ("posts",),
    "trades": ("trades", "leaderboard", "seasons"),
    "market": ("market",),
    "search": ("search",),
    "health": ("health", "v1"),
    "paper": ("paper", "paper_brain", "paper_closes"),
    "lists": ("shapes",),
    "problems": ("openapi",),
}
# The types in JSON schemas, as text.
TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
}
# The placeholders for the newest ID of each kind. fill_ids replaces them.
NAMES = {
    "bot": "BOT_ID",
    "post": "POST_ID",
    "trader": "TRADER_ID",
    "season": "SEASON_ID",
    "mint": "MINT_ADDRESS",
    "q": "profit",
}
WALLET = "WALLET_ADDRESS"
EXAMPLE_BODIES = {
    "publishPost": {"eventId": "docs-1", "body": "Hello from the documentation."},
    "getChallenge": {"wallet": WALLET},
    "registerBot": {
        "name": "BOT_NAME",
        "wallet": WALLET,
        "signature": "SIGNATURE_OF_THE_TEXT",
        "nonce": "NONCE",
    },
}


class Field(NamedTuple):
    """A parameter, or a member of an object.

    `kind` is its type as text. `shape` is its shape's name, or None for a plain value.
    """

    name: str
    kind: str
    shape: str | None
    required: bool
    text: str


class Shape(NamedTuple):
    """An object of the API, with its name, description and members."""

    name: str
    text: str
    fields: list[Field]


class Route(NamedTuple):
    """A request and its examples.

    `takes` and `gives` are the names of the body's and the response's shapes. For a stream of
    events, `gives` is None. `rows` is the shape of a Page's rows. `refusals` is {status: [code...]}
    for errors of this request only.
    """

    name: str
    method: str
    path: str
    summary: str
    keyed: bool
    fields: list[Field]
    takes: str | None
    gives: str | None
    rows: str | None
    refusals: dict[str, list[str]]
    curl: str
    python: str
    typescript: str


def list_routes(base_url: str) -> list[Route]:
    """Return all requests in the document's order. Their examples contain placeholders for IDs."""
    # Imported on first use, as in web.api.document.
    from web.api.operations import OPERATIONS

    return [read_route(Example(base_url, operation)) for operation in OPERATIONS]


# This is cached, because it is slower than a page should be.
@functools.lru_cache(1)
def list_shapes() -> dict[str, list[Shape]]:
    """Return {group: its shapes, sorted by name}, with all groups in order."""
    # Imported on first use, as in web.api.document.
    from web.api import openapi

    groups: dict[str, list[Shape]] = {group: [] for group in GROUPS}
    for name, schema in sorted(openapi.build_schemas(demonstration=False).items()):
        groups[find_group(name)].append(read_shape(name, schema))
    return groups


def find_group(shape: str) -> str:
    """Return the page of fields that shows a shape. Request bodies are on the page about posts."""
    for group, names in GROUPS.items():
        for name in names:
            module = importlib.import_module(f"web.api.{name}")
            found = vars(module).get(shape)
            if found is not None and found.__module__ == module.__name__:
                return group
    return "posts"


def fill_ids(page: str) -> str:
    """Replace a page's placeholders with the newest ID of each kind, if there is one.

    Thanks to this, a page is rendered only once, and not again after each post.
    """
    newest = queries.find_newest_ids()
    found = {**newest._asdict(), "mint": newest.mint or WRAPPED_SOL}
    for noun, name in NAMES.items():
        page = page.replace(name, str(escape(found.get(noun) or name)))
    return page


# ---- reading the document ------------------------------------------------------------------------
class Example(NamedTuple):
    """An operation in the form that examples use."""

    base_url: str
    operation: "Operation"

    @property
    def url(self) -> str:
        """Return the URL with a placeholder for the ID and the required parameters."""
        parameters = self.operation.parameters
        needed = [one for one in parameters if one["in"] == "query" and one.get("required")]
        query = "&".join(f"{one['name']}={NAMES[one['name']]}" for one in needed)
        path = self.operation.path.replace("{id}", NAMES.get(_find_noun(parameters), ""))
        return f"{self.base_url}{path}{f'?{query}' if query else ''}"

    @property
    def body(self) -> str:
        # A request without a body also accepts an empty object.
        return json.dumps(EXAMPLE_BODIES.get(self.operation.name, {}))


def _find_noun(parameters: Sequence[Json]) -> str:
    described = (one["description"] for one in parameters if one["in"] == "path")
    return next(described, "").removeprefix("ID of the ")


def read_route(example: Example) -> Route:
    """Convert an operation for the page."""
    operation = example.operation
    return Route(
        operation.name,
        operation.method.upper(),
        operation.path,
        operation.summary,
        operation.keyed,
        [read_parameter(one) for one in operation.parameters],
        operation.body.__name__ if isinstance(operation.body, type) else None,
        operation.answer.__name__ if operation.answer else None,
        operation.rows.__name__ if operation.rows else None,
        list_refusals(operation),
        write_curl(example),
        write_python(example),
        write_typescript(example),
    )


def list_refusals(operation: "Operation") -> dict[str, list[str]]:
    """Return {status: [code...]} without the errors of all requests, which the page lists once."""
    refused: defaultdict[str, list[str]] = defaultdict(list)
    of_objects = ("not_found",) if "{id}" in operation.path else ()
    for code in (*of_objects, *operation.refusals):
        refused[str(CODES[code][0])].append(code)
    return dict(sorted(refused.items()))


def read_shape(name: str, schema: Json) -> Shape:
    """Convert a schema to a shape. If it extends others, include only its own members."""
    *extended, own = schema.get("allOf", (schema,))
    names = " and ".join(map(_name_of, extended))
    text = schema.get("description", "")
    required = own.get("required", ())
    fields = [
        read_field(field, part, field in required) for field, part in own["properties"].items()
    ]
    return Shape(name, f"{text} It has all fields of {names}, and:" if names else text, fields)


def read_parameter(parameter: Json) -> Field:
    """Convert a parameter to a field. Its text ends with the parameter's location."""
    text = f"{parameter.get('description', '')} ({parameter['in']})"
    field = read_field(parameter["name"], parameter["schema"], parameter.get("required", False))
    return field._replace(text=text)


def read_field(name: str, schema: Json, required: bool) -> Field:
    """Convert a member of a shape to a field."""
    described = (one.get("description") for one in (schema, *schema.get("anyOf", ())))
    text = next(filter(None, described), "")
    return Field(name, describe_type(schema), find_shape(schema), required, text)


def find_shape(schema: Json) -> str | None:
    """Return the name of the shape to which a schema refers: directly, in a list, or as an
    alternative to null.
    """
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
    """Write a JSON schema as text, such as `list of Post` or `text of 1 to 128 characters or
    null`.
    """
    if "anyOf" in schema:
        return " or ".join(map(describe_type, schema["anyOf"]))
    if "$ref" in schema:
        return _name_of(schema)
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if isinstance(schema.get("type"), list):
        return " or ".join(describe_type({**schema, "type": one}) for one in schema["type"])
    if schema.get("type") == "null":
        return "null"
    if schema.get("type") == "array":
        return f"list of {describe_type(schema['items'])}" if schema.get("items") else "list"
    if schema.get("format") == "date-time":
        return "time"
    return TYPES.get(schema.get("type", ""), "anything") + _describe_bounds(schema)


def _describe_bounds(schema: Json) -> str:
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']:,} characters"
    return f" from {schema['minimum']}" if "minimum" in schema else ""


# ---- examples ------------------------------------------------------------------------------------
def write_curl(example: Example) -> str:
    options = ['-H "Authorization: Bearer $CANDOR_KEY"'] if example.operation.keyed else []
    if example.operation.method == "post":
        options += ['-H "Content-Type: application/json"', f"-d '{example.body}'"]
    # -N shows events as they arrive.
    flags = "" if example.operation.answer else "-N "
    return " \\\n  ".join([f'curl {flags}"{example.url}"', *options])


def write_python(example: Example) -> str:
    """Write the request in Python, using only the standard library."""
    arguments, headers, modules = [f'"{example.url}"'], [], ["urllib.request"]
    if example.operation.keyed:
        headers.append('"Authorization": "Bearer " + os.environ["CANDOR_KEY"]')
        modules.append("os")
    if example.operation.method == "post":
        headers.append('"Content-Type": "application/json"')
        arguments.append(f"data=json.dumps({example.body}).encode()")
    if headers:
        arguments.append(f"headers={{{', '.join(headers)}}}")
    if example.operation.answer:
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
    """Write the request in TypeScript for Node 18 or newer, Deno, Bun or a browser."""
    keyed, options = example.operation.keyed, []
    headers = ["Authorization: `Bearer ${process.env.CANDOR_KEY}`"] if keyed else []
    if example.operation.method == "post":
        headers.append('"Content-Type": "application/json"')
        options += ['method: "POST"', f"body: JSON.stringify({example.body})"]
    if headers:
        options.append(f"headers: {{ {', '.join(headers)} }}")
    more = f", {{\n  {f',{chr(10)}  '.join(options)},\n}}" if options else ""
    shown = (
        "console.log(await answer.json());"
        if example.operation.answer
        else "for await (const part of answer.body!.pipeThrough(new TextDecoderStream()))\n"
        "  console.log(part);"
    )
    return f'const answer = await fetch("{example.url}"{more});\n{shown}'
