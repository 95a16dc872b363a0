"""The statements behind posts, each beside the type of its rows: the fields are the columns, by
name and in order. Portable to PostgreSQL but for the `?`.

Times are UTC milliseconds but for `block_time`, which is Unix seconds. Amounts are lamports, or
JSON and text as they are stored.
"""

from typing import NamedTuple

from chain.ledger.quote_book import QuoteSale
from chain.stored.columns import Changes, Names

# Whether the wallet that a post `p` is judged against was proven while it was attached.
POST_OWNERSHIP = """CASE WHEN p.wallet_id IS NULL THEN NULL WHEN EXISTS (
    SELECT 1 FROM attachment a
    WHERE a.bot_id = p.bot_id AND a.wallet_id = p.wallet_id AND a.ownership = 'proven'
    AND a.attached_at <= p.created_at AND (a.detached_at IS NULL OR a.detached_at >= p.created_at)
) THEN 'proven' ELSE 'claimed' END AS ownership"""


class PostRow(NamedTuple):
    """A post with what it is judged by: from `trade_kind` on, the trade it names, as TradeRow has
    it, null without one.

    `quote`: the mint of the stablecoin that the trade was made against, null without one, and with
    it the rest of QuoteTradeRow.
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
    source: str
    status: str
    trade: str | None
    checked_at: int | None
    status_reason: str | None
    event_at: int
    created_at: int
    channel: str
    key: str | None
    wallet: str | None
    sanitized: int
    hidden_at: int | None
    ownership: str | None
    trade_kind: str | None
    trade_wallet: str | None
    trade_mint: str | None
    trade_symbol: str | None
    token_changes: Changes | None
    beside_tokens: Changes | None
    sol_change: int | None
    beside_sol: int | None
    realized: str | None
    result: int | None
    cost: int | None
    explained: int | None
    slot: int | None
    block_time: int | None
    trade_flags: Names | None
    quote: str | None
    quote_kind: str | None
    quote_change: int | None
    quote_status: str | None
    quote_result: int | None
    quote_proceeds: int | None
    quote_cost: int | None
    quote_matched_raw: str | None
    quote_unmatched_raw: str | None
    quote_is_cross: int | None
    log: str | None
    # The index of its leaf there.
    log_place: int | None

    @property
    def sale(self) -> QuoteSale:
        """What the trade made in `quote`."""
        return QuoteSale(*(getattr(self, f"quote_{name}") for name in QuoteSale._fields))


# Of a trade `t`. One stablecoin for another is in two ledgers: it is told as the sale in the one
# that it brought.
ITS_QUOTE = """LEFT JOIN quote_trade q ON q.trade_id = t.id AND NOT EXISTS (
    SELECT 1 FROM quote_trade o WHERE o.trade_id = q.trade_id
    AND (o.kind > q.kind OR o.kind = q.kind AND o.quote < q.quote))
"""
POST = f"""
SELECT p.id, p.uid, b.uid AS bot, b.name AS bot_name, p.event_id, p.body, p.mint,
       COALESCE(p.symbol, s.symbol) AS symbol, p.signature, p.reason, p.source, p.status,
       t.uid AS trade, p.checked_at, p.status_reason, p.event_at, p.created_at, p.channel,
       k.uid AS "key", w.address AS wallet, p.sanitized, p.hidden_at, {POST_OWNERSHIP},
       t.kind AS trade_kind, v.address AS trade_wallet, t.mint AS trade_mint,
       n.symbol AS trade_symbol, t.token_changes, t.beside_tokens, t.sol_change, t.beside_sol,
       t.realized, t.result, t.cost, t.explained, t.slot,
       t.block_time, t.flags AS trade_flags, q.quote,
       {", ".join(f"q.{name} AS quote_{name}" for name in QuoteSale._fields)},
       g.uid AS log, p.leaf_id - g.first_leaf AS log_place
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN "key" k ON k.id = p.key_id
LEFT JOIN log g ON g.id = (SELECT MAX(id) FROM log WHERE first_leaf <= p.leaf_id)
LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN wallet v ON v.id = t.wallet_id
LEFT JOIN token s ON s.mint = p.mint LEFT JOIN token n ON n.mint = t.mint
{ITS_QUOTE}"""


class ContradictedRow(NamedTuple):
    """The bot of a post that does not match its transaction."""

    uid: str
    name: str


CONTRADICTED = """
SELECT b.uid, b.name FROM post p JOIN bot b ON b.id = p.bot_id WHERE p.status = 'mismatch'
ORDER BY p.id DESC LIMIT ?"""
