"""What a node sends over a WebSocket: from JSON to plain values, or ValueError. Pure."""

from typing import Any, NamedTuple

from chain.reading.answers import Holding, check_holdings, is_number
from chain.reading.receipts import SIGNATURE

# What of a token account is asked for: mint, owner and amount.
HOLDING_SLICE = {"offset": 0, "length": 72}


class Reply(NamedTuple):
    """The answer to a request. `subscription`: None if the node refused it."""

    ident: int
    subscription: int | None


class LogNotice(NamedTuple):
    """A transaction names an address."""

    subscription: int
    signature: str


class AccountNotice(NamedTuple):
    """An account changed. `result`: JSON, for `read_holding`."""

    subscription: int
    result: Any


Message = Reply | LogNotice | AccountNotice


def read_message(message: Any) -> Message | None:
    """None for an irrelevant message. ValueError if it is malformed."""
    if not isinstance(message, dict):
        raise ValueError("a message that is not an object")
    if "method" not in message:
        return _read_reply(message)
    try:
        number, result = (message["params"][name] for name in ("subscription", "result"))
        if not is_number(number):
            raise ValueError("a notice of no subscription")
        if message["method"] == "accountNotification":
            return AccountNotice(number, result)
        if message["method"] == "logsNotification":
            return LogNotice(number, _check_signature(result["value"]["signature"]))
    except (KeyError, TypeError) as error:
        raise ValueError("a malformed notice") from error
    return None


def read_holding(result: Any, wallet: str, address: str) -> Holding:
    """What an account of a wallet holds, by a notice. ValueError if it is malformed."""
    if not isinstance(result, dict):
        raise ValueError("a malformed notice")
    told = {"context": result.get("context"), "value": [result.get("value")]}
    return check_holdings(told, [(wallet, address)])[1][0]


def _read_reply(message: dict[str, Any]) -> Reply | None:
    ident, result = message.get("id"), message.get("result")
    if not is_number(ident) or (type(result) is bool and "error" not in message):
        return None
    return Reply(ident, result if is_number(result) else None)


def _check_signature(value: Any) -> str:
    if not isinstance(value, str) or not SIGNATURE.fullmatch(value):
        raise ValueError("a malformed signature")
    return value
