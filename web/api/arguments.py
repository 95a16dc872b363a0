"""What a query may say, as values; Problem 400 names the argument that cannot be accepted."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from accounts.fields import parse_whole
from accounts.problem import Problem
from chain.base58 import is_base58

Args = Mapping[str, str]
Word = TypeVar("Word", bound=str)


def read_address(args: Args, name: str) -> str | None:
    """Return a base58 address of the query, or None where it is not given."""
    text = args.get(name)
    if text is not None and not is_base58(text, 32):
        raise refuse(name, "must be base58 of 32 bytes")
    return text


def read_bot(args: Args) -> str | None:
    """Return the bot's id of the query, or None where it is not given. An empty one is a mistake of
    the caller's, who would otherwise take the trades of all for those of one.
    """
    text = args.get("botId")
    if text == "":
        raise refuse("botId", "must be the id of a bot; leave it out for all")
    return text


def read_choice(args: Args, name: str, allowed: Collection[Word], default: Word) -> Word:
    """Return one of the allowed words; Problem where the query has another one."""
    text: Any = args.get(name, default)
    if text not in allowed:
        raise refuse(name, f"must be one of: {', '.join(allowed)}")
    word: Word = text
    return word


def read_whole(args: Args, name: str, least: int, most: int, default: int | None = None) -> int:
    text = args.get(name, "" if default is None else str(default))
    number = parse_whole(text)
    if number is None or not least <= number <= most:
        raise refuse(name, f"must be a whole number from {least} to {most}")
    return number


def refuse(name: str, message: str) -> Problem:
    """Return the Problem of one parameter of the query: 400."""
    return Problem(
        "invalid_parameter", f"{name} {message}", errors=[{"field": name, "message": message}]
    )
