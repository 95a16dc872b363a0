"""What observed wallets bought and sold, as paper mode came to know it.

Transactions arrive late, and ledgers are worked out again. So what a decision could see is stored
once and for all, with the first snapshot it could be seen with: a replay of stored snapshots sees
the same.
"""

from collections import defaultdict
from typing import NamedTuple

import storage
from models import BOT_OF_TRADE
from paper.market import Flow
from paper.tables import SeenFlow
from storage.rows import select


class TradedRow(NamedTuple):
    """What an observed wallet bought or sold; `trade` is a uid, `block_time` in seconds."""

    trade: str
    mint: str
    owner: int
    wallet: str
    side: str
    block_time: int


TRADED = f"""
SELECT t.uid AS trade, n.address AS mint, b.owner_id AS owner, w.address AS wallet, m.side,
       t.block_time
FROM trade t JOIN trade_mint m ON m.trade_id = t.id JOIN mint n ON n.id = m.mint_id
JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}
WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND m.side IS NOT NULL
AND t.flags NOT LIKE '%"value_unexplained"%'
ORDER BY t.block_time, t.id"""


class SeenRow(NamedTuple):
    """A stored flow; `at` in ms, `first_snapshot` an id."""

    trade: str
    mint: str
    owner: int
    wallet: str
    side: str
    at: int
    first_snapshot: int


SEEN = """
SELECT trade, mint, owner, wallet, side, at, first_snapshot FROM seen_flow
WHERE at >= ? AND at < ? ORDER BY at, id"""
# Later than any.
END_OF_TIME = 2**62


def see_flows(since: int, first_snapshot: int) -> dict[str, tuple[Flow, ...]]:
    """Return what observed wallets bought and sold since (ms), by mint. What was not known before
    is stored as seen with the snapshot of this id first.
    """
    known = {(row.trade, row.mint, row.side) for row in _select_seen(since)}
    fresh = [
        {**row._asdict(), "at": row.block_time * 1000, "first_snapshot": first_snapshot}
        for row in select(TradedRow, TRADED, (since // 1000,))
        if (row.trade, row.mint, row.side) not in known
    ]
    for row in fresh:
        del row["block_time"]
    if fresh:
        with storage.writing():
            for part in storage.in_parts(fresh):
                SeenFlow.insert_many(part).on_conflict_ignore().execute()
    return list_flows(since)


def list_flows(since: int, until: int = END_OF_TIME) -> dict[str, tuple[Flow, ...]]:
    """Read what was seen of that time (ms), by mint, oldest first."""
    flows = defaultdict(list)
    for row in _select_seen(since, until):
        flows[row.mint].append(Flow(row.owner, row.wallet, row.side, row.at, row.first_snapshot))
    return {mint: tuple(found) for mint, found in flows.items()}


def _select_seen(since: int, until: int = END_OF_TIME) -> list[SeenRow]:
    return select(SeenRow, SEEN, (since, until))
