"""Compute what followers of observed bots would have received, and store the results.

A job does this after new sales, using stored transactions. Requests never do.
"""

import heapq
import logging
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

import storage
from chain.ledger.sales import UNEXPLAINED
from chain.ledger.views import ALL_HISTORY
from chain.reading.currencies import MINTS
from chain.reading.entries import Entry
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.pools import unpack_pool
from chain.stored.attachments import HELD, UNREADABLE, write_last
from paper import copying
from paper.copying import Follower, Followers, Outcome
from paper.store import STORED_TRADES, StoredTrade
from paper.tables import CopyTotal
from storage.rows import select, write_marks

log = logging.getLogger("candor.copying")
# The minimum time between two computations for a bot.
REST_MS = 600_000
ROWS_AT_ONCE = 500
# Results must fit a 64-bit column.
LARGEST = 2**63 - 1
MATCHED = ("matched", "partial")


class WalletRow(NamedTuple):
    """A bot's attached wallet whose whole history is the bot's, and the sums of its sales."""

    bot: int
    wallet: int
    matched: int
    partial: int
    unmatched: int
    cost: int
    proceeds: int
    # The rules of its entries (models.Wallet). If a program is added, pools are read again.
    rules: str


WALLETS = f"""
SELECT a.bot_id AS bot, a.wallet_id AS wallet, t.matched, t.partial, t.unmatched, t.cost,
       t.proceeds, w.rules
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
JOIN running_total t ON {write_last("t", str(ALL_HISTORY))}
WHERE a.detached_at IS NULL AND w.bot_since IS NULL AND t.matched + t.partial > 0
ORDER BY a.bot_id, a.wallet_id"""


class DoneRow(NamedTuple):
    """When a bot's results were computed (ms), and from which data."""

    bot: int
    mark: str
    at: int


DONE = "SELECT DISTINCT bot_id, mark, at FROM copy_total"
FORGET = "DELETE FROM copy_total WHERE bot_id = ?"


def run_tick(now: int) -> tuple[str | None, str]:
    """Compute the results of each bot that is due. Return no problem, and details for health.

    `now`: ms.
    """
    done = {row.bot: row for row in select(DoneRow, DONE)}
    due = list_due(done, now)
    for bot, wallets in due.items():
        try:
            _work_out(bot, wallets, now)
        except UNREADABLE:
            # `doctor` reports the damaged row. The old results stay until it is repaired.
            log.warning(
                "can't read the trades of bot %s, so its copying results aren't updated", bot
            )
    return None, orjson.dumps({"bots": len(due)}).decode()


def list_due(done: dict[int, DoneRow], now: int) -> dict[int, list[WalletRow]]:
    held: dict[int, list[WalletRow]] = {}
    for row in select(WalletRow, WALLETS):
        held.setdefault(row.bot, []).append(row)
    for bot in done.keys() - held.keys():
        with storage.writing():
            _forget(bot)
    return {bot: rows for bot, rows in held.items() if _is_due(rows, done.get(bot), now)}


def _forget(bot: int) -> None:
    storage.database.execute_sql(FORGET, (bot,))
    storage.database.execute_sql(DROP_FORMER, (bot,))


def _is_due(rows: list[WalletRow], last: DoneRow | None, now: int) -> bool:
    if last is None:
        return True
    return last.mark != _make_mark(rows) and not 0 <= now - last.at < REST_MS


def _make_mark(rows: list[WalletRow]) -> str:
    sums = "; ".join(",".join(map(str, row[1:])) for row in rows)
    return f"{copying.MODEL}: {sums}"


def _work_out(bot: int, wallets: list[WalletRow], now: int) -> None:
    numbers = [row.wallet for row in wallets]
    followers, outcomes = Followers(), dict[int, Outcome]()
    with storage.snapshot():
        for number, trade in list_trades(numbers):
            outcome = followers.follow(trade)
            if outcome != NOTHING:
                outcomes[number] = outcome
        stored = _read_outcomes(numbers)
    _store_outcomes(outcomes, stored)
    rows = [
        _make_row(bot, _make_mark(wallets), now, best, followers.worst[size])
        for size, best in followers.best.items()
    ]
    with storage.writing():
        _forget(bot)
        CopyTotal.insert_many(rows).execute()


def _make_row(bot: int, mark: str, now: int, best: Follower, worst: Follower) -> dict[str, Any]:
    reason = best.missing
    shown = {
        "return_bps": _cut(best.return_bps),
        "worst_bps": _cut(worst.return_bps),
        "bot_bps": _cut(best.bot_bps),
        "kept": _cut(best.kept_percent),
    }
    return {
        "bot": bot,
        "size": best.size,
        "mark": mark,
        "at": now,
        **(dict.fromkeys(shown) if reason else shown),
        "spent": _cut(best.spent),
        "received": _cut(best.received),
        "sales": best.sales,
        "used": best.used,
        "covered": best.covered_percent,
        "tokens": len(best.gains),
        "top_token": best.top_token_percent,
        "reason": reason,
        "excluded": orjson.dumps(best.excluded.most_common()).decode(),
    }


def _cut(value: int | None) -> int | None:
    """Limit a sum to its column, because a lying node can claim that each sale receives all SOL in
    existence.
    """
    return None if value is None else max(-LARGEST, min(LARGEST, value))


# ---- a bot's trades ------------------------------------------------------------------------------
FUNDED = "SELECT token_changes FROM trade WHERE kind = 'liquidity' AND wallet_id IN "
NOTHING = Outcome(None, None)


def list_trades(wallets: list[int]) -> Iterator[tuple[int, copying.CopiedTrade]]:
    """Yield (number, trade) for purchases and sales for SOL, oldest first.

    If a wallet created a token or funded its pool, this is given as the reason in place of the
    pool.
    """
    own = {mint: "own_pool" for mint in _list_funded(wallets)}
    for row in heapq.merge(*map(_read_rows, wallets)):
        entry = row.read_entry()
        own |= dict.fromkeys(entry.created, "own_token")
        trade = _read_trade(row, entry, own.get(entry.mint or ""))
        if trade:
            yield row.id, trade


def _read_rows(wallet: int) -> Iterator[StoredTrade]:
    rows = storage.database.execute_sql(STORED_TRADES, (wallet,))
    try:
        yield from map(StoredTrade._make, rows)
    finally:
        rows.close()


def _list_funded(wallets: list[int]) -> set[str]:
    found = storage.read_rows(f"{FUNDED}({write_marks(wallets)})", wallets)
    mints = {mint for (changes,) in found for mint, _, _ in orjson.loads(changes)}
    return mints - MINTS - {WRAPPED_SOL}


def _read_trade(row: StoredTrade, entry: Entry, own: str | None) -> copying.CopiedTrade | None:
    is_buy = row.kind == "buy"
    if UNEXPLAINED in orjson.loads(row.flags) or entry.mint is None:
        return None
    if not is_buy and (row.kind != "sell" or row.realized not in MATCHED):
        return None
    changes = (raw for mint, raw, _ in entry.venue_tokens if mint == entry.mint)
    lots = orjson.loads(row.lots)
    return copying.CopiedTrade(
        row.uid,
        entry.mint,
        is_buy,
        next(changes, 0) if is_buy else 0,
        entry.venue_sol,
        entry.fee + entry.tip if entry.fee else copying.NETWORK_COST,
        own or unpack_pool(entry.pool),
        tuple(
            (origin, int(raw), None if cost is None else int(cost)) for origin, raw, cost in lots
        ),
    )


# ---- outcomes of single trades -------------------------------------------------------------------
OUTCOMES = """
SELECT c.trade_id, c.lamports, c.reason FROM copied_trade c JOIN trade t ON t.id = c.trade_id
WHERE t.wallet_id IN """
# Since then, the trade may have been deleted, and the wallet disconnected.
STORE = f"""
INSERT INTO copied_trade (trade_id, lamports, reason)
SELECT id, CAST(? AS BIGINT), CAST(? AS TEXT) FROM trade WHERE id = ? AND wallet_id IN {HELD}
ON CONFLICT (trade_id) DO UPDATE SET lamports = excluded.lamports, reason = excluded.reason"""
DROP = "DELETE FROM copied_trade WHERE trade_id = ?"
# The outcomes of wallets that this bot had and that no bot has now. The job deletes them, so that
# disconnecting is equally fast for any number of trades.
DROP_FORMER = f"""
DELETE FROM copied_trade WHERE trade_id IN (
    SELECT t.id FROM attachment a JOIN trade t ON t.wallet_id = a.wallet_id
    WHERE a.bot_id = ? AND a.detached_at IS NOT NULL AND t.wallet_id NOT IN {HELD})"""


def _read_outcomes(wallets: list[int]) -> dict[int, Outcome]:
    rows = storage.read_rows(f"{OUTCOMES}({write_marks(wallets)})", wallets)
    return {trade: Outcome(lamports, reason) for trade, lamports, reason in rows}


def _store_outcomes(right: dict[int, Outcome], stored: dict[int, Outcome]) -> None:
    """Write only the differences, in short transactions."""
    changed = [(*one, trade) for trade, one in right.items() if stored.get(trade) != one]
    _write(STORE, changed)
    _write(DROP, [(trade,) for trade in stored.keys() - right.keys()])


def _write(sql: str, values: Iterable[tuple[Any, ...]]) -> None:
    for part in storage.in_parts(values, ROWS_AT_ONCE):
        with storage.writing():
            for one in part:
                storage.database.execute_sql(sql, one)
