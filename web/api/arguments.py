"""Query parameters as values. A bad value raises Problem 400 and names the parameter."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from accounts.fields import parse_whole
from accounts.problem import Problem
from chain.base58 import is_base58

Args = Mapping[str, str]
Word = TypeVar("Word", bound=str)


def read_address(args: Args, name: str) -> str | None:
    """Return the base58 address from the query, or None if it's missing."""
    text = args.get(name)
    if text is not None and not is_base58(text, 32):
        raise refuse(name, "must be base58 of 32 bytes")
    return text


def read_bot(args: Args) -> str | None:
    """Return the bot ID from the query, or None if it's missing. An empty ID is an error: otherwise
    the caller would mistake everyone's trades for those of one bot.
    """
    text = args.get("botId")
    if text == "":
        raise refuse("botId", "must be the id of a bot; leave it out for all")
    return text


def read_choice(args: Args, name: str, allowed: Collection[Word], default: Word) -> Word:
    """Return the query's choice from an allowed set. Raises Problem for any other value."""
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
    return Problem(
        "invalid_parameter", f"{name} {message}", errors=[{"field": name, "message": message}]
    )
