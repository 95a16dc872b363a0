"""/docs and the pages below it: every request, error and field of the API,
from the operations behind the document.

Each example works unchanged if CANDOR_KEY has a key.
"""

import functools
import importlib
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Blueprint, render_template
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from markupsafe import Markup, escape

from accounts.problem import CODES, OF_ALL, OF_KEYS, OF_LISTS, Problem
from chain.addresses import WRAPPED_SOL
from storage.rows import read_one
from web.api.serialize import Json
from web.server.gate import settings
from web.site import words
from web.site.lists import add_etag

if TYPE_CHECKING:
    from web.api.v1 import Operation

blueprint = Blueprint("documentation", __name__)
blueprint.after_request(add_etag)
SCHEMA_PREFIX = "#/components/schemas/"
# The pages of fields. Each shows the shapes in these web.api modules.
GROUPS = {
    "bots": ("bots", "results", "copying"),
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
# The ID that an example shows for each kind if the instance has none yet.
PLACEHOLDERS = {
    "bot": "BOT_ID",
    "post": "POST_ID",
    "trader": "TRADER_ID",
    "season": "SEASON_ID",
    "mint": WRAPPED_SOL,
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

# The public IDs of the newest rows, or null if there aren't any.
NEWEST = """
SELECT (SELECT uid FROM bot WHERE id = (SELECT MAX(id) FROM bot)) AS bot,
       (SELECT uid FROM post WHERE id = (SELECT MAX(id) FROM post)) AS post,
       (SELECT uid FROM trader WHERE id = (SELECT MAX(id) FROM trader)) AS trader,
       (SELECT uid FROM season WHERE id = (SELECT MAX(id) FROM season)) AS season,
       (SELECT n.address FROM trade_mint m JOIN mint n ON n.id = m.mint_id
        WHERE m.id = (SELECT MAX(id) FROM trade_mint)) AS mint
"""


class Shape(NamedTuple):
    """An API object: its description, its members' schemas, and the names of required members."""

    text: str
    members: dict[str, Json]
    required: list[str]


@blueprint.record
def init_templates(state: BlueprintSetupState) -> None:
    state.app.jinja_env.globals["find_group"] = find_group
    state.app.jinja_env.filters |= {
        one.__name__: one for one in (mark_code, describe_type, describe_field, find_shape)
    }


@blueprint.get("/docs")
def show_docs() -> ResponseReturnValue:
    return render_template(
        "docs.html",
        settings=settings(),
        operations=list_operations(),
        refusals={
            "all": name_codes(OF_ALL),
            "keyed": name_codes(OF_KEYS),
            "paged": name_codes(OF_LISTS),
        },
        trust=words.TRUST,
    )


@blueprint.get("/docs/requests/<name>")
def show_request(name: str) -> ResponseReturnValue:
    operation = next((one for one in list_operations() if one.name == name), None)
    if operation is None:
        raise Problem("not_found", "there is no such request")
    return render_template(
        "request.html",
        operation=operation,
        refusals=list_refusals(operation),
        parameters=list_parameters(operation),
        url=write_url(operation),
        # A request without a body also accepts an empty object.
        body=json.dumps(EXAMPLE_BODIES.get(name, {})),
        takes=operation.body.__name__ if isinstance(operation.body, type) else None,
    )


@blueprint.get("/docs/fields")
def show_fields() -> ResponseReturnValue:
    return render_template("shapes.html", groups=list_shapes())


@blueprint.get("/docs/fields/<group>")
def show_fields_of(group: str) -> ResponseReturnValue:
    if group not in GROUPS:
        raise Problem("not_found", "there is no such group of fields")
    return render_template("shape_group.html", group=group, shapes=list_shapes()[group])


@blueprint.get("/docs/errors")
def show_errors() -> ResponseReturnValue:
    return render_template("errors.html", codes=CODES)


# ---- requests ------------------------------------------------------------------------------------
def list_operations() -> "list[Operation]":
    # Imported on first use, because it needs the operator's currencies.
    from web.api.openapi import OPERATIONS

    return OPERATIONS


def list_parameters(operation: "Operation") -> list[dict[str, Any]]:
    from web.api import openapi

    return openapi.list_parameters(operation)


def write_url(operation: "Operation") -> str:
    """Return a request's address with the newest IDs and the required parameters."""
    parameters = list_parameters(operation)
    newest = read_one(NEWEST)._asdict()
    known = {noun: newest.get(noun) or instead for noun, instead in PLACEHOLDERS.items()}
    query = "&".join(
        f"{one['name']}={known[one['name']]}"
        for one in parameters
        if one["in"] == "query" and one.get("required")
    )
    nouns = (one["description"] for one in parameters if one["in"] == "path")
    uid = known.get(next(nouns, "").removeprefix("ID of the "), "")
    path = operation.path.replace("{id}", uid)
    return f"{settings().base_url}{path}{f'?{query}' if query else ''}"


def list_refusals(operation: "Operation") -> dict[str, list[str]]:
    """Return {status: [code...]} without the errors of all requests, which the page lists once."""
    refused: defaultdict[str, list[str]] = defaultdict(list)
    of_objects = ("not_found",) if "{id}" in operation.path else ()
    for code in (*of_objects, *operation.refusals):
        refused[str(CODES[code][0])].append(code)
    return dict(sorted(refused.items()))


def name_codes(codes: Iterable[str]) -> str:
    return ", ".join(f"{CODES[code][0]} {code}" for code in codes)


# ---- fields --------------------------------------------------------------------------------------
# Cached, because it is slower than a page should be.
@functools.lru_cache(1)
def list_shapes() -> dict[str, dict[str, Shape]]:
    """Return {group: {name: shape}}, sorted by name, with all groups in order."""
    # Imported on first use, because it needs the operator's currencies.
    from web.api import openapi

    groups: dict[str, dict[str, Shape]] = {group: {} for group in GROUPS}
    for name, schema in sorted(openapi.build_schemas(demonstration=False).items()):
        groups[find_group(name)][name] = read_shape(schema)
    return groups


def find_group(shape: str) -> str:
    """Return the page of fields that shows a shape. Request bodies are on the page about posts."""
    return map_groups().get(shape, "posts")


@functools.lru_cache(1)
def map_groups() -> dict[str, str]:
    return {
        name: group
        for group, modules in GROUPS.items()
        for module in (f"web.api.{one}" for one in modules)
        for name, found in vars(importlib.import_module(module)).items()
        if getattr(found, "__module__", None) == module
    }


def read_shape(schema: Json) -> Shape:
    *extended, own = schema.get("allOf", (schema,))
    names = " and ".join(map(_name_of, extended))
    text = schema.get("description", "")
    if names:
        text = f"{text} It has all fields of {names}, and:"
    return Shape(text, own["properties"], own.get("required", []))


def describe_field(schema: Json) -> str:
    described = (one.get("description") for one in (schema, *schema.get("anyOf", ())))
    return next(filter(None, described), "")


def find_shape(schema: Json) -> str | None:
    """Return the shape that a schema refers to: directly, in a list, or in a union with null."""
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
    """Write a JSON schema as text: `list of Post`, `text of 1 to 128 characters or null`."""
    if "anyOf" in schema:
        return " or ".join(map(describe_type, schema["anyOf"]))
    if "$ref" in schema:
        return _name_of(schema)
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if isinstance(schema.get("type"), list):
        return " or ".join(describe_type({**schema, "type": one}) for one in schema["type"])
    if schema.get("type") == "array":
        return f"list of {describe_type(schema['items'])}" if schema.get("items") else "list"
    if schema.get("format") == "date-time" and schema["type"] != "null":
        return "time"
    return TYPES.get(schema.get("type", ""), "anything") + _describe_bounds(schema)


def _describe_bounds(schema: Json) -> str:
    if schema.get("type") == "null":
        return ""
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']:,} characters"
    return f" from {schema['minimum']}" if "minimum" in schema else ""


def mark_code(text: str) -> Markup:
    """Mark up `text in backticks` as code."""
    parts = text.split("`")
    marked = (
        Markup("<code>{}</code>").format(part) if n % 2 and n < len(parts) - 1 else escape(part)
        for n, part in enumerate(parts)
    )
    return Markup("").join(marked)
