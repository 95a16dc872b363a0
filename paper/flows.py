"""What observed wallets bought and sold, as paper mode learned of it.

Transactions arrive late, and ledgers are rebuilt. So everything a decision could see is stored
once, with the first snapshot from which it could be seen: a replay of stored snapshots sees the
same.
"""

from collections import defaultdict
from typing import NamedTuple

import storage
from chain.reading.entries import Entry
from chain.stored.attachments import UNREADABLE
from models import BOT_OF_TRADE
from paper.fills import ONE
from paper.market import Flow
from paper.tables import SeenFlow
from storage.rows import select


class TradedRow(NamedTuple):
    """What an observed wallet bought or sold, with the stored entry if there is one; `trade` and
    `bot` are uids, `block_time` in seconds.
    """

    trade: str
    mint: str
    owner: int
    wallet: str
    bot: str
    side: str
    block_time: int
    entry: bytes | None


# Also spares the entries of flows that are already stored.
UNSEEN = f"""
SELECT t.uid AS trade, n.address AS mint, b.owner_id AS owner, w.address AS wallet, b.uid AS bot,
       m.side, t.block_time, s.entry
FROM trade t JOIN trade_mint m ON m.trade_id = t.id JOIN mint n ON n.id = m.mint_id
JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}
LEFT JOIN sighting s ON s.signature = t.signature AND s.wallet_id = t.wallet_id
WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND m.side IS NOT NULL
AND t.flags NOT LIKE '%"value_unexplained"%'
AND NOT EXISTS (SELECT 1 FROM seen_flow f
                WHERE f.trade = t.uid AND f.mint = n.address AND f.side = m.side)
ORDER BY t.block_time, t.id"""


class SeenRow(NamedTuple):
    """A stored flow; `at` in ms, `first_snapshot` an id."""

    trade: str
    mint: str
    owner: int
    wallet: str
    bot: str
    side: str
    share_bps: int
    at: int
    first_snapshot: int


SEEN = """
SELECT trade, mint, owner, wallet, bot, side, share_bps, at, first_snapshot FROM seen_flow
WHERE at >= ? AND at < ? ORDER BY at, id"""
# Later than any.
END_OF_TIME = 2**62


def see_flows(since: int, first_snapshot: int) -> dict[str, tuple[Flow, ...]]:
    """Return what observed wallets bought and sold since (ms), by mint. New flows are stored as
    first seen with the snapshot of this id.
    """
    fresh = [
        {
            "trade": row.trade,
            "mint": row.mint,
            "owner": row.owner,
            "wallet": row.wallet,
            "bot": row.bot,
            "side": row.side,
            "share_bps": find_sold_bps(row),
            "at": row.block_time * 1000,
            "first_snapshot": first_snapshot,
        }
        for row in select(TradedRow, UNSEEN, (since // 1000,))
    ]
    if fresh:
        with storage.writing():
            for part in storage.in_parts(fresh):
                SeenFlow.insert_many(part).on_conflict_ignore().execute()
    return list_flows(since)


def find_sold_bps(row: TradedRow) -> int:
    """Return the share of its holdings that a wallet sold, in basis points, rounded up; all of it
    if that isn't known.
    """
    if row.side != "sell" or row.entry is None:
        return ONE
    try:
        balances = Entry.load("", 0, None, row.entry).balances
    except UNREADABLE:
        # `doctor` reports the damaged row.
        return ONE
    before = sum(one.before for one in balances if one.mint == row.mint)
    after = sum(one.after for one in balances if one.mint == row.mint)
    return -(-(before - after) * ONE // before) if before > after else ONE


def list_flows(since: int, until: int = END_OF_TIME) -> dict[str, tuple[Flow, ...]]:
    """Read the flows seen in this time (ms), by mint, oldest first."""
    flows = defaultdict(list)
    for row in _select_seen(since, until):
        seen = row.owner, row.wallet, row.side, row.at, row.first_snapshot
        flows[row.mint].append(Flow(*seen, row.bot, row.share_bps))
    return {mint: tuple(found) for mint, found in flows.items()}


def _select_seen(since: int, until: int = END_OF_TIME) -> list[SeenRow]:
    return select(SeenRow, SEEN, (since, until))
