"""Parse WebSocket messages from a node. Raises ValueError if malformed. Pure."""

from typing import Any, NamedTuple

from chain.reading.answers import is_number

NOTICES = "logsNotification", "accountNotification"


class Reply(NamedTuple):
    """The response to a request. `subscription`: None if the node refused it."""

    ident: int
    subscription: int | None


class Notice(NamedTuple):
    """An event for a subscription. Its content isn't read."""

    subscription: int


def read_message(message: Any) -> Reply | Notice | None:
    """Parse a message; None if it is irrelevant. Raises ValueError if it is malformed."""
    if not isinstance(message, dict):
        raise ValueError("a message that is not an object")
    if "method" not in message:
        return _read_reply(message)
    if message["method"] not in NOTICES:
        return None
    params = message.get("params")
    number = params.get("subscription") if isinstance(params, dict) else None
    if not is_number(number):
        raise ValueError("a notice of no subscription")
    return Notice(number)


def _read_reply(message: dict[str, Any]) -> Reply | None:
    ident, result = message.get("id"), message.get("result")
    if not is_number(ident) or (type(result) is bool and "error" not in message):
        return None
    return Reply(ident, result if is_number(result) else None)
