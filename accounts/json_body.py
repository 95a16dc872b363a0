"""Strict JSON: accept only what every parser reads the same way, and name each invalid field."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from accounts.problem import Problem

Body = TypeVar("Body", bound=BaseModel)
# Unknown fields named in an error.
MAX_UNKNOWN_FIELDS = 20
# Our messages by pydantic error type.
REFUSALS = {
    "missing": "is required",
    "string_type": "must be text",
    "dict_type": "must be an object",
}


def parse_json(raw: bytes) -> dict[str, Any]:
    """Parse the JSON object of a request body.

    Raises Problem `invalid_json` also for input that RFC 8259 parsers read differently: duplicate
    keys, NaN, lone surrogates, deep nesting.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_no_key_twice, parse_constant=_no_constant
        )
        # Rejects lone surrogates, integers over 64 bits and deep nesting.
        orjson.dumps(value)
    except (ValueError, RecursionError, TypeError):
        raise Problem(
            "invalid_json",
            "the body must be one JSON object in UTF-8, without duplicate keys or NaN",
        ) from None
    if not isinstance(value, dict):
        raise Problem("invalid_json", "the body must be a JSON object")
    return value


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def parse_body(
    model: type[Body],
    value: dict[str, Any],
    tell: Callable[[str, str, str], str] = lambda kind, field, message: message,
    errors: Iterable[dict[str, str]] = (),
) -> Body:
    """Return a body as its model. Raises Problem (422) naming each invalid field.

    `tell`: makes the message of a field from pydantic's error type and message; `errors`: those
    found before.
    """
    crowd = {*[name for name in value if name not in model.model_fields][MAX_UNKNOWN_FIELDS:]}
    try:
        return model.model_validate({k: one for k, one in value.items() if k not in crowd})
    except ValidationError as error:
        refusals = {
            **REFUSALS,
            "extra_forbidden": f"must be one of {', '.join(model.model_fields)}",
        }
        told = [
            {
                "field": (field := _name(one["loc"])),
                "message": refusals.get(one["type"]) or tell(one["type"], field, one["msg"]),
            }
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        ]
    found = [*errors, *told]
    raise Problem(
        "validation_failed",
        "; ".join(f"{one['field']}: {one['message']}" for one in found[:5]),
        errors=found[:20],
    )


def _name(path: tuple[int | str, ...]) -> str:
    """Return a field's name for a message, or "(unknown)": an arbitrary name could be a secret."""
    text = ".".join(map(str, path))
    return text if re.fullmatch(r"[A-Za-z_]\w{0,31}", text, re.ASCII) else "(unknown)"
