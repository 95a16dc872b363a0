"""What is claimed of each post of a bot: which trade verifies it, its leaf of the log, and its
words where they are shown. In order of arrival, paged.
"""

from typing import Any, NamedTuple

from evidence.pages import Line, Paged

LINES = """
SELECT p.id, p.uid, p.created_at, p.event_at, p.checked_at, p.mint, p.signature, w.address,
       p.status, p.status_reason, t.uid, p.hidden_at, p.source, p.channel, p.salt, p.event_id,
       p.body, p.symbol, p.reason, p.claim, p.delay, l.uid, p.leaf_id - l.first_leaf
FROM post p LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN log_leaf f ON f.id = p.leaf_id
LEFT JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)
WHERE p.bot_id = {owner} AND p.id > {after} ORDER BY p.id LIMIT {most}"""


class PostRow(NamedTuple):
    """A post, its verification and its leaf; times in ms, `delay` in seconds."""

    uid: str
    created_at: int
    event_at: int
    checked_at: int | None
    mint: str | None
    signature: str | None
    wallet: str | None
    status: str
    status_reason: str | None
    trade: str | None
    hidden_at: int | None
    source: str
    channel: str
    salt: str | None
    event_id: str
    body: str
    symbol: str | None
    reason: str | None
    claim: bool
    delay: int | None
    log: str | None
    place: int | None


def show_post(row: PostRow) -> Line:
    """Make the line of a post."""
    return {
        "id": row.uid,
        "createdAtMs": row.created_at,
        "eventAtMs": row.event_at,
        "checkedAtMs": row.checked_at,
        "wallet": row.wallet,
        "signature": row.signature,
        "mint": row.mint,
        "status": row.status,
        "reason": row.status_reason,
        "tradeId": row.trade,
        "isClaim": bool(row.claim),
        "delaySeconds": row.delay,
        "hiddenAtMs": row.hidden_at,
        "source": row.source,
        "channel": row.channel,
        "log": row.log,
        "logIndex": row.place,
        "words": show_words(row) if row.hidden_at is None else None,
    }


def show_words(row: PostRow) -> dict[str, Any]:
    """Make what the hash in the leaf is over: the salt, and all free text of a post."""
    texts = {"body": row.body, "symbol": row.symbol, "reason": row.reason}
    return {"salt": row.salt, "eventId": row.event_id, **texts}


POSTS = Paged("posts", "post", "bot_id", LINES, lambda values: show_post(PostRow._make(values)))
