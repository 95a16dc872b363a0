"""The statements behind posts, each beside the type of its rows: the fields are the columns, by
name and in order. Portable to PostgreSQL but for the `?`.

Times are UTC milliseconds but for `block_time`, which is Unix seconds. Amounts are lamports, or
JSON and text as they are stored.
"""

from typing import Any, NamedTuple

from chain.stored.tables import Changes, Names

# Whether the wallet that a post `p` is judged against was proven while it was attached.
POST_OWNERSHIP = """CASE WHEN p.wallet_id IS NULL THEN NULL WHEN EXISTS (
    SELECT 1 FROM attachment a
    WHERE a.bot_id = p.bot_id AND a.wallet_id = p.wallet_id AND a.ownership = 'proven'
    AND a.attached_at <= p.created_at AND (a.detached_at IS NULL OR a.detached_at >= p.created_at)
) THEN 'proven' ELSE 'claimed' END AS ownership"""


class PostRow(NamedTuple):
    """A post with what it is judged by: from `trade_kind` on, the trade it names, as TradeRow has
    it, null without one.

    `currency`: the mint of the stablecoin that the trade was priced in, empty for SOL.
    """

    id: int
    uid: str
    bot: str
    bot_name: str
    event_id: str
    body: str
    mint: str | None
    symbol: str | None
    signature: str | None
    reason: str | None
    source: Any
    status: Any
    trade: str | None
    checked_at: int | None
    status_reason: str | None
    event_at: int
    created_at: int
    channel: Any
    key: str | None
    wallet: str | None
    sanitized: int
    hidden_at: int | None
    ownership: Any
    trade_kind: Any
    trade_wallet: str | None
    trade_mint: str | None
    trade_symbol: str | None
    token_changes: Changes | None
    beside_tokens: Changes | None
    sol_change: int | None
    beside_sol: int | None
    currency: str | None
    realized: Any
    result: int | None
    cost: int | None
    explained: int | None
    slot: int | None
    block_time: int | None
    trade_flags: Names | None
    # When the bot first connected the wallet of the trade.
    connected_at: int | None
    log: str | None
    # The index of its leaf there.
    log_place: int | None
    # Of the wallet that it is judged against.
    backfilled: int | None
    trouble: str | None


POST = f"""
SELECT p.id, p.uid, b.uid AS bot, b.name AS bot_name, p.event_id, p.body, p.mint,
       COALESCE(p.symbol, s.symbol) AS symbol, p.signature, p.reason, p.source, p.status,
       t.uid AS trade, p.checked_at, p.status_reason, p.event_at, p.created_at, p.channel,
       k.uid AS "key", w.address AS wallet, p.sanitized, p.hidden_at, {POST_OWNERSHIP},
       t.kind AS trade_kind, v.address AS trade_wallet, t.mint AS trade_mint,
       n.symbol AS trade_symbol, t.token_changes, t.beside_tokens, t.sol_change, t.beside_sol,
       t.currency, t.realized, t.result, t.cost, t.explained, t.slot, t.block_time,
       t.flags AS trade_flags,
       (SELECT MIN(a.attached_at) FROM attachment a
        WHERE a.bot_id = p.bot_id AND a.wallet_id = t.wallet_id) AS connected_at,
       g.uid AS log, p.leaf_id - g.first_leaf AS log_place, w.backfilled, w.trouble
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN "key" k ON k.id = p.key_id
LEFT JOIN log g ON g.id = (SELECT MAX(id) FROM log WHERE first_leaf <= p.leaf_id)
LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN wallet v ON v.id = t.wallet_id
LEFT JOIN token s ON s.mint = p.mint LEFT JOIN token n ON n.mint = t.mint
"""


class ContradictedRow(NamedTuple):
    """The bot of a post that does not match its transaction."""

    uid: str
    name: str


CONTRADICTED = """
SELECT b.uid, b.name FROM post p JOIN bot b ON b.id = p.bot_id WHERE p.status = 'mismatch'
ORDER BY p.id DESC LIMIT ?"""
