"""What is claimed of each post of a bot: which trade verifies it. In order of arrival, paged."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from chain.summary import show_time
from evidence.receipts import PAGE_SIZE, Page
from storage import database

LINES = f"""
SELECT p.uid, p.created_at, p.event_at, p.checked_at, p.mint, p.signature, w.address, p.status,
       p.status_reason, t.uid, p.hidden_at
FROM post p LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
WHERE p.bot_id = ? ORDER BY p.id LIMIT {PAGE_SIZE} OFFSET ?"""


class PostRow(NamedTuple):
    """A post and its verification; times in ms."""

    uid: str
    created_at: int
    event_at: int
    checked_at: int | None
    mint: str | None
    signature: str | None
    wallet: str | None
    status: str
    reason: str | None
    trade: str | None
    hidden_at: int | None


def list_post_pages(bot_id: int) -> Iterator[Page]:
    """Yield the pages of a bot, one at a time in memory; the last is not full."""
    number = 1
    while (page := read_post_page(bot_id, number)).is_full:
        yield page
        number += 1
    yield page


def read_post_page(bot_id: int, number: int) -> Page:
    """Read page `number` (from 1) of a bot's posts; one beyond the last is empty."""
    rows = database.execute_sql(LINES, (bot_id, (number - 1) * PAGE_SIZE)).fetchall()
    lines = [show_post(PostRow(*row)) for row in rows]
    return Page(number, len(lines), orjson.dumps({"page": number, "posts": lines}))


def show_post(row: PostRow) -> dict[str, Any]:
    """Make the line of a post; times are whole seconds, rounded down."""
    return {
        "id": row.uid,
        "createdAt": show_time(row.created_at // 1000),
        "eventAt": show_time(row.event_at // 1000),
        "checkedAt": None if row.checked_at is None else show_time(row.checked_at // 1000),
        "wallet": row.wallet,
        "signature": row.signature,
        "mint": row.mint,
        "status": row.status,
        "reason": row.reason,
        "tradeId": row.trade,
        "hidden": row.hidden_at is not None,
    }
