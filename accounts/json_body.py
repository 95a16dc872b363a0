"""Strict JSON parsing: accept only what every parser reads the same way."""

import json
from typing import Any, NoReturn

import orjson

from accounts.problem import Problem


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
