"""Read query parameters, and split lists into pages: the number of rows, the opaque cursor to
continue from, and the SQL of the rows.

A bad value raises Problem 400, which names the parameter. A cursor is base64url of a short MAC, a
hash of its list and filters, and the sort key of the last row (`slot.place.id`). The MAC covers
the rest, so cursors can't be forged. The order never changes, so rows that arrive later don't shift
a cursor.
"""

import base64
import binascii
import hashlib
import heapq
import hmac
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from accounts.fields import parse_whole
from accounts.problem import Problem
from chain.addresses import is_base58
from chain.reading.currencies import map_currencies
from chain.stored.tables import CHANGES, LOTS, NAMES, WALLET_PARTS
from storage.rows import read, read_one, select_value, write_marks
from web.server.application import find_app

# ---- query parameters as values ------------------------------------------------------------------
Args = Mapping[str, str]
Word = TypeVar("Word", bound=str)
ADDRESS = {"type": "string", "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$"}


def read_address(args: Args, name: str) -> str | None:
    text = args.get(name)
    if text is not None and not is_base58(text, 32):
        raise refuse(name, "must be base58 of 32 bytes")
    return text


def read_bot(args: Args) -> str | None:
    """Return the bot ID from the query, or None if it's missing.

    An empty ID is an error: the caller could mistake everyone's trades for one bot's.
    """
    text = args.get("botId")
    if text == "":
        raise refuse("botId", "must be a bot ID; omit the parameter to include all bots")
    return text


def read_choice(args: Args, name: str, allowed: Collection[Word], default: Word) -> Word:
    """Return the query's choice from an allowed set. Raises Problem for any other value."""
    text: Any = args.get(name, default)
    if text not in allowed:
        raise refuse(name, f"must be one of: {', '.join(allowed)}")
    word: Word = text
    return word


def read_currency(args: Args) -> str | None:
    if "currency" not in args:
        return None
    return read_choice(args, "currency", tuple(map_currencies()), "")


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


DEFAULT_LIMIT, MAX_LIMIT = 20, 100
MAC_BYTES, MARK_BYTES = 9, 3
# The scope of `since`, which posts, trades and the stream share.
ARRIVALS = ("since",)
Row = TypeVar("Row")
Kind = TypeVar("Kind")
# A list's name and its filter values. A filter that isn't set is None.
Scope = tuple[str | None, ...]
# The numbers in a cursor. Each list has its own NamedTuple for them.
SortKey = tuple[int, ...]


class IdSortKey(NamedTuple):
    """For lists that are sorted by ID."""

    id: int


class ListPage(NamedTuple, Generic[Row]):
    """A page of a list. `cursor`: to the next page, None on the last one."""

    rows: Sequence[Row]
    cursor: str | None


def read_limit(args: Args) -> int:
    """Return the query's `limit`: 20 by default, capped at 100. Raises Problem below 1."""
    number = parse_whole(args.get("limit", str(DEFAULT_LIMIT)))
    if not number:
        raise refuse(
            "limit",
            f"must be a whole number of 1 or more; values over {MAX_LIMIT} are treated as"
            f" {MAX_LIMIT}",
        )
    return min(number, MAX_LIMIT)


def cut_page(
    rows: Sequence[Row], limit: int, scope: Scope, find_key: Callable[[Row], SortKey]
) -> ListPage[Row]:
    """Make a page from a query for one row more than it shows.

    `find_key` returns a row's sort key.
    """
    page = rows[:limit]
    return ListPage(page, write_cursor(scope, find_key(page[-1])) if len(rows) > limit else None)


def write_cursor(scope: Scope, key: SortKey, secret: str | None = None) -> str:
    """`secret`: the application's; None in a request."""
    rest = _mark(scope[:1]) + _mark(scope) + ".".join(map(str, key)).encode()
    mac = _mac(secret or find_app().secret, rest)
    return base64.urlsafe_b64encode(mac + rest).decode().rstrip("=")


def read_cursor(
    args: Args, scope: Scope, kind: Callable[..., Kind], name: str = "cursor"
) -> Kind | None:
    text = args.get(name)
    return None if text is None else read_sort_key(scope, text, kind)


def read_sort_key(scope: Scope, text: str, kind: Callable[..., Kind]) -> Kind:
    """Raises Problem if the cursor is damaged, or from another list or other filters."""
    key = _check_cursor(scope, text)
    try:
        return kind(*key)
    except TypeError:
        raise _damaged() from None


def read_since(args: Args, last_event_id: str | None = None) -> int | None:
    """Return the arrival in `since` or, without it, in the `Last-Event-ID` header."""
    text = last_event_id or args.get("since")
    if text is None:
        return None
    if "cursor" in args:
        raise Problem("invalid_parameter", "send either cursor (older) or since (newer)")
    return read_sort_key(ARRIVALS, text, IdSortKey).id


def write_newest(arrival: int) -> str:
    return write_cursor(ARRIVALS, (arrival,))


def _check_cursor(scope: Scope, text: str) -> SortKey:
    try:
        raw = base64.urlsafe_b64decode((text + "=" * (-len(text) % 4)).encode("ascii"))
        mac, rest = raw[:MAC_BYTES], raw[MAC_BYTES:]
        key = tuple(map(int, rest[2 * MARK_BYTES :].decode("ascii").split(".")))
    except (ValueError, binascii.Error):
        raise _damaged() from None
    # Base64 and numbers can be written in several ways. Only our own form is accepted.
    told = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    written = ".".join(map(str, key)).encode() == rest[2 * MARK_BYTES :]
    if not hmac.compare_digest(mac, _mac(find_app().secret, rest)) or told != text or not written:
        raise _damaged()
    if rest[:MARK_BYTES] != _mark(scope[:1]):
        raise Problem("invalid_cursor", "this cursor is from another list")
    if rest[MARK_BYTES : 2 * MARK_BYTES] != _mark(scope):
        raise Problem("invalid_cursor", "this cursor was created with other filters")
    return key


def _mark(scope: Scope) -> bytes:
    named = "\0".join(part or "" for part in scope).encode()
    return hashlib.blake2b(named, digest_size=MARK_BYTES, person=b"cursor mark").digest()


def _mac(secret: str, rest: bytes) -> bytes:
    return hashlib.blake2b(
        rest, key=hashlib.sha256(secret.encode()).digest(), digest_size=MAC_BYTES, person=b"cursor"
    ).digest()


def _damaged() -> Problem:
    return Problem("invalid_cursor", "this cursor is damaged; start again without it")


# ---- the SQL of lists ----------------------------------------------------------------------------
# Rows are named tuples of a statement's columns, which have the same names as the members of the
# shape. The SQL is portable to PostgreSQL except for the `?`. Times are UTC milliseconds, but
# `block_time` is Unix seconds. Amounts are in lamports, or JSON and text as stored. Lists are
# sorted by keys that never change: posts by ID, and trades by (slot, place, ID).
STORED = {
    **WALLET_PARTS,
    "token_changes": CHANGES,
    "beside_tokens": CHANGES,
    "lots": LOTS,
    "counterparties": NAMES,
    "flags": NAMES,
    "trade_flags": NAMES,
}
# SQL and its values, or None if there is no condition.
Condition = tuple[Any, ...] | None


def write_select(head: str, conditions: Iterable[Condition], tail: str) -> tuple[str, list[Any]]:
    given = [condition for condition in conditions if condition]
    where = " WHERE " + " AND ".join(sql for sql, *_ in given) if given else ""
    return f"{head}{where} {tail}", [value for _, *values in given for value in values]


def find_rows(sql: str, ids: Sequence[int]) -> dict[int, Any]:
    """Return {number: row}. `sql` is the statement up to the number's column."""
    rows = read(f"{sql} IN ({write_marks(ids)})", ids, **STORED) if ids else []
    return {row.id: row for row in rows}


# ---- the order of arrival ------------------------------------------------------------------------
# The highest numbers at one point in time. Everything that has arrived is at or below them.
HEAD = """
SELECT (SELECT COALESCE(MAX(id), 0) FROM arrival) AS arrival,
       (SELECT COALESCE(MAX(id), 0) FROM post) AS post,
       (SELECT COALESCE(MAX(id), 0) FROM trade) AS trade
"""


class Arrived(NamedTuple):
    """A post or a trade, and its arrival number."""

    arrival: int
    row: Any


def find_head() -> Any:
    return read_one(HEAD)


def find_last_id(table: str) -> int:
    """Return the highest ID of `post`, `paper_post` or `arrival`, or 0 if the table is empty."""
    return int(select_value(f"SELECT COALESCE(MAX(id), 0) FROM {table}"))


def merge_arrivals(
    lists: Iterable[Sequence[Any]], limit: int, find: Callable[[Sequence[int]], dict[int, Any]]
) -> list[Arrived]:
    """Join lists of (arrival, row_id), each in order. `find` reads the rows; missing ones are left
    out.
    """
    arrived = list(heapq.merge(*lists))[:limit]
    rows = find([one.row_id for one in arrived])
    return [Arrived(one.arrival, rows[one.row_id]) for one in arrived if one.row_id in rows]
