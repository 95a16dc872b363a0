"""What stands in each file of an archive of an account: columns, and where they come from."""

from typing import NamedTuple

from chain.holdings import HOLDINGS


class Sheet(NamedTuple):
    """A table for one owner. `columns`: words `name=expression`, or a column's own name where that
    is its name here, too; `source`: from FROM on, with the owner's number for its mark. `x` is the
    table whose number orders the rows.
    """

    columns: str
    source: str

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [word.partition("=")[0] for word in self.columns.split()]

    @property
    def sql(self) -> str:
        """The statement of its rows: the number of each, then its columns."""
        words = [word.partition("=") for word in self.columns.split()]
        values = [expression or f"x.{name}" for name, _, expression in words]
        return f"SELECT x.id, {', '.join(values)} {self.source}"


BOT_ROWS = Sheet(
    "id=x.uid handle name bio voice autoPost=x.auto_post createdAt=x.created_at "
    "retiredAt=x.retired_at",
    "FROM bot x WHERE x.owner_id = ?",
)
POST_ROWS = Sheet(
    "id=x.uid botId=b.uid source channel eventId=x.event_id body mint symbol "
    "signature reason sanitized wallet=w.address status "
    "statusReason=x.status_reason eventAt=x.event_at createdAt=x.created_at "
    "hiddenAt=x.hidden_at originalId=i.original_uid originallyAt=i.original_at "
    "originalInstance=i.instance",
    "FROM post x JOIN bot b ON b.id = x.bot_id LEFT JOIN wallet w ON w.id = "
    "x.wallet_id LEFT JOIN imported_post i ON i.post_id = x.id WHERE b.owner_id = "
    "?",
)
OWN_BOTS = "(SELECT id FROM bot WHERE owner_id = ?)"
# Wallets that led, then those beside them: the first of those that a bot holds is the one that
# leads.
STAYS = """(
SELECT id, bot_id, wallet_id, ownership, attached_at, detached_at FROM attachment UNION ALL
SELECT id + 1000000000000, bot_id, wallet_id, 'proven', attached_at, detached_at FROM companion)"""
WALLET_ROWS = Sheet(
    "botId=b.uid wallet=w.address ownership attachedAt=x.attached_at detachedAt=x.detached_at",
    f"FROM {STAYS} x JOIN bot b ON b.id = x.bot_id JOIN wallet w ON w.id = "
    f"x.wallet_id WHERE x.bot_id IN {OWN_BOTS}",
)
TRADER_ROWS = Sheet(
    "id=x.uid handle name bio voice family settings startMode=x.start_mode "
    "adaptive createdAt=x.created_at retiredAt=x.retired_at originalId=i.original_uid "
    "originallyAt=i.original_at originalInstance=i.instance",
    "FROM trader x LEFT JOIN imported_trader i ON i.trader_id = x.id WHERE x.owner_id = ?",
)
SHEETS = {
    "posts.csv": POST_ROWS,
    "wallets.csv": WALLET_ROWS,
    "trades.csv": Sheet(
        "wallet=w.address signature slot blockTime=x.block_time kind venue mint "
        "tokenChanges=x.token_changes solChangeLamports=x.sol_change "
        "feeLamports=x.fee tipLamports=x.tip rentLamports=x.rent status=x.realized "
        "resultLamports=x.result proceedsLamports=x.proceeds costLamports=x.cost "
        "quoteMint=q.quote quoteChangeRaw=q.change quoteStatus=q.status "
        "quoteRealizedRaw=q.result quoteProceedsRaw=q.proceeds quoteCostRaw=q.cost "
        "besideLamports=x.beside_sol besideTokenChanges=x.beside_tokens",
        # Of two stablecoins the one it brought, as the API has it.
        "FROM trade x JOIN wallet w ON w.id = x.wallet_id LEFT JOIN quote_trade q ON "
        "q.trade_id = x.id AND q.quote = (SELECT p.quote FROM quote_trade p WHERE "
        "p.trade_id = x.id ORDER BY CASE p.kind WHEN 'sell' THEN 0 ELSE 1 END, p.quote "
        "LIMIT 1) WHERE x.wallet_id IN "
        f"(SELECT a.wallet_id FROM {HOLDINGS} a WHERE a.bot_id IN {OWN_BOTS})",
    ),
    "keys.csv": Sheet(
        "id=x.uid botId=b.uid scope name createdAt=x.created_at "
        "expiresAt=x.expires_at revokedAt=x.revoked_at",
        'FROM "key" x LEFT JOIN bot b ON b.id = x.bot_id WHERE x.owner_id = ?',
    ),
    "hooks.csv": Sheet(
        "id=x.uid kind host=x.url events bots state createdAt=x.created_at",
        "FROM hook x WHERE x.owner_id = ?",
    ),
    "sessions.csv": Sheet(
        "createdAt=x.created_at seenAt=x.seen_at",
        "FROM session x WHERE x.owner_id = ?",
    ),
    "traders.csv": TRADER_ROWS,
    "paper_accounts.csv": Sheet(
        "traderId=t.uid account=x.number startingLamports=x.starting_cash "
        "cashLamports=x.cash openedAt=x.opened_at closedAt=x.closed_at "
        "closingReason=x.closing_reason",
        "FROM period x JOIN trader t ON t.id = x.trader_id WHERE t.owner_id = ?",
    ),
    "paper_orders.csv": Sheet(
        "traderId=t.uid account=p.number number mint symbol side amount reason "
        "decidedAt=x.decided_at state",
        "FROM paper_order x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id "
        "= p.trader_id WHERE t.owner_id = ?",
    ),
    "paper_fills.csv": Sheet(
        "traderId=t.uid account=p.number orderNumber=o.number filledAt=x.at raw "
        "midLamports=x.mid slippageLamports=x.slippage poolFeeLamports=x.pool_fee "
        "networkFeeLamports=x.network_fee rentLamports=x.rent failed model",
        "FROM paper_fill x JOIN paper_order o ON o.id = x.order_id JOIN period p ON "
        "p.id = o.period_id JOIN trader t ON t.id = p.trader_id WHERE t.owner_id = ?",
    ),
    "paper_positions.csv": Sheet(
        "traderId=t.uid account=p.number number mint symbol openedAt=x.opened_at "
        "closedAt=x.closed_at raw spentLamports=x.spent feesLamports=x.fees "
        "netLamports=x.cash reason",
        'FROM "position" x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id '
        "= p.trader_id WHERE t.owner_id = ?",
    ),
    "paper_diary.csv": Sheet(
        "traderId=t.uid account=p.number notedAt=x.at kind mint facts",
        "FROM diary_entry x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id "
        "= p.trader_id WHERE t.owner_id = ?",
    ),
    "paper_posts.csv": Sheet(
        "id=x.uid traderId=t.uid body mint symbol writer eventAt=x.event_at "
        "createdAt=x.created_at hiddenAt=x.hidden_at",
        "FROM paper_post x JOIN trader t ON t.id = x.trader_id WHERE t.owner_id = ?",
    ),
    "paper_reviews.csv": Sheet(
        "traderId=t.uid account=p.number state reasons openedAt=x.opened_at "
        "decidedAt=x.decided_at decision",
        "FROM review x JOIN period p ON p.id = x.period_id JOIN trader t ON t.id = "
        "p.trader_id WHERE t.owner_id = ?",
    ),
    "backtests.csv": Sheet(
        "id=x.uid asked state result createdAt=x.created_at",
        "FROM backtest x WHERE x.owner_id = ?",
    ),
}
