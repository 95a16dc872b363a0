"""What observed wallets bought and sold, as paper mode learned of it.

Transactions arrive late, and ledgers are rebuilt. So everything a decision could see is stored
once, with the first snapshot from which it could be seen: a replay of stored snapshots sees the
same.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import orjson

import storage
from chain.amounts import exact, sol
from chain.reading.entries import Entry
from chain.reading.pools import unpack_pool
from chain.stored.siblings import UNREADABLE
from market import store as market_store
from market.store import SeenReserves
from models import BOT_OF_TRADE
from paper.fills import ONE
from paper.market import PRICE_DECIMALS, Flow, price_of
from paper.measured import VENUE_IDS
from paper.strategies import COPY
from paper.tables import SeenFlow
from storage.rows import select, write_marks

# Reserves of an older trade are no price; a younger price counts as cached.
LATE_MS = 300_000


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


class CopierRow(NamedTuple):
    """The JSON settings of a trader that copies a bot."""

    settings: str


COPIERS = f"SELECT settings FROM trader WHERE family = '{COPY}' AND retired_at IS NULL"


class PricedRow(NamedTuple):
    """A token that a provider priced."""

    mint: str


PRICED = """
SELECT t.mint FROM token t WHERE t.mint IN ({}) AND EXISTS (
    SELECT 1 FROM snapshot s WHERE s.token_id = t.id AND s.taken_at >= ?
    AND s.price_sol IS NOT NULL AND s.reserves IS NULL)"""


def see_flows(since: int, first_snapshot: int, now: int) -> None:
    """Store what observed wallets bought and sold since (ms) as first seen with the snapshot of
    this id. If a copied bot traded a token without a cached price, its transaction's reserves
    become a snapshot.
    """
    rows = select(TradedRow, UNSEEN, (since // 1000,))
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
        for row in rows
    ]
    if not fresh:
        return
    reserves = find_reserves(rows, now)
    if reserves:
        market_store.store_discoveries(dict.fromkeys(reserves, (None, None)), "wallets", now)
    with storage.writing():
        for part in storage.in_parts(fresh):
            SeenFlow.insert_many(part).on_conflict_ignore().execute()
        market_store.store_reserves(reserves.values(), now)


def list_copied() -> set[str]:
    """Return the uids of the bots that traders copy."""
    return {orjson.loads(row.settings)["bot"] for row in select(CopierRow, COPIERS)}


def find_reserves(rows: Iterable[TradedRow], now: int) -> dict[str, SeenReserves]:
    """Return the last pools of copied bots' trades in tokens without a cached price, by mint."""
    bots = list_copied()
    found = {
        row.mint: reserves
        for row in rows
        if row.bot in bots
        and row.block_time * 1000 >= now - LATE_MS
        and (reserves := _read_reserves(row))
    }
    if not found:
        return {}
    priced = select(PricedRow, PRICED.format(write_marks(list(found))), (*found, now - LATE_MS))
    return {mint: one for mint, one in found.items() if mint not in {row.mint for row in priced}}


def _read_reserves(row: TradedRow) -> SeenReserves | None:
    entry = _read_entry(row)
    pool = unpack_pool(entry.pool) if entry and entry.mint == row.mint else ""
    if entry is None or isinstance(pool, str) or not pool.after.raw or row.mint in entry.created:
        return None
    decimals = next((scale for mint, _, scale in entry.tokens if mint == row.mint), None)
    price = price_of(pool.after.sol, pool.after.raw, decimals) if decimals is not None else 0
    if decimals is None or not price:
        return None
    text, held = exact(price, PRICE_DECIMALS), sol(pool.after.payable)
    stored = orjson.dumps(pool.pack()).decode()
    return SeenReserves(row.mint, decimals, text, held, VENUE_IDS.get(pool.venue), stored)


def _read_entry(row: TradedRow) -> Entry | None:
    try:
        return Entry.load("", 0, None, row.entry) if row.entry is not None else None
    except UNREADABLE:
        # `doctor` reports the damaged row.
        return None


def find_sold_bps(row: TradedRow) -> int:
    """Return the share of its holdings that a wallet sold, in basis points, rounded up; all of it
    if that isn't known.
    """
    entry = _read_entry(row) if row.side == "sell" else None
    if entry is None:
        return ONE
    before = sum(one.before for one in entry.balances if one.mint == row.mint)
    after = sum(one.after for one in entry.balances if one.mint == row.mint)
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
