"""Pages of a list: how many rows, from where, and the opaque cursor that says so.

A cursor is base64url of a short MAC and the key of the last row (`slot.place.id`). The MAC covers
the list and its filters, so a cursor works only where it came from and cannot be made up. It names
a position in an immutable order: rows that arrive meanwhile shift nothing.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from accounts.fields import parse_whole
from accounts.problem import Problem
from web.api.arguments import refuse

DEFAULT_LIMIT, MAX_LIMIT = 20, 100
MAC_BYTES = 9
Row = TypeVar("Row")
Kind = TypeVar("Kind")
# The name of a list and its filters, None for one that is not given.
Scope = tuple[str | None, ...]
# The numbers in a cursor; each list has a NamedTuple of its own for them.
Position = tuple[int, ...]


class IdPosition(NamedTuple):
    """The place of a row in a list that is sorted by id."""

    id: int


def read_limit(args: Mapping[str, str]) -> int:
    """Return `limit` of a query: 20 by default, at most 100 (clamped); Problem if it isn't a
    whole number from 1.
    """
    number = parse_whole(args.get("limit", str(DEFAULT_LIMIT)))
    if not number:
        raise refuse(
            "limit",
            f"must be a whole number from 1; more than {MAX_LIMIT} is taken as {MAX_LIMIT}",
        )
    return min(number, MAX_LIMIT)


def write_cursor(secret: str, scope: Scope, position: Position) -> str:
    """Return the cursor of a position in the list `scope`."""
    payload = ".".join(map(str, position)).encode()
    return base64.urlsafe_b64encode(_mac(secret, scope, payload) + payload).decode().rstrip("=")


def read_cursor(secret: str, scope: Scope, text: str) -> Position:
    """Return the position a cursor was written for; Problem where it is forged, cut short or of
    another list.
    """
    try:
        raw = base64.urlsafe_b64decode((text + "=" * (-len(text) % 4)).encode("ascii"))
        position = tuple(map(int, raw[MAC_BYTES:].decode("ascii").split(".")))
    except (ValueError, binascii.Error):
        raise _invalid() from None
    if not hmac.compare_digest(write_cursor(secret, scope, position).encode(), text.encode()):
        raise _invalid()
    return position


def read_position(
    secret: str, scope: Scope, text: str, kind: Callable[..., Kind], refusal: str
) -> Kind:
    """Return the position of a cursor as a NamedTuple `kind`; Problem with the sentence `refusal`
    where it has another number of fields.
    """
    position = read_cursor(secret, scope, text)
    try:
        return kind(*position)
    except TypeError:
        raise Problem("invalid_cursor", refusal) from None


def cut_page(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], bool]:
    """Return (rows of this page, whether there is another), of a query for one row more than the
    page shows.
    """
    return rows[:limit], len(rows) > limit


def _mac(secret: str, scope: Scope, payload: bytes) -> bytes:
    bound = "\0".join(part or "" for part in scope).encode() + b"\0" + payload
    return hashlib.blake2b(
        bound, key=hashlib.sha256(secret.encode()).digest(), digest_size=MAC_BYTES, person=b"cursor"
    ).digest()


def _invalid() -> Problem:
    return Problem("invalid_cursor", "this cursor does not belong to this list with these filters")
