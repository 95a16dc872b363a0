"""Simulate a follower right behind a bot, to see whether copying would have worked.

A job computes the results from stored transactions after new sales; requests never do. All amounts
are integers.

The follower trades with the same pools. It spends the same amount after each of the bot's purchases
and sells its share after each sale, without delay and without trades in between. There are two
cases: in the best case, the follower's SOL stays in the pool until it sells; in the worst case,
others took it out first, so the pool is as observed.
"""

import heapq
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

import storage
from chain.addresses import WRAPPED_SOL
from chain.ledger.inventory import share
from chain.ledger.sales import UNEXPLAINED
from chain.ledger.totals import ALL_HISTORY
from chain.reading.currencies import MINTS
from chain.reading.entries import Entry
from chain.reading.pools import ONE, PoolReading, State, unpack_pool
from chain.stored.attachments import HELD, UNREADABLE, write_last
from paper.fills import add_raw, buy, sell, shift
from paper.store import MAX_INTEGER, STORED_TRADES, Row, read_entry
from paper.tables import CopyTotal
from storage.rows import make_row_type, write_marks
from storage.rows import read as read_rows

MODEL = "copy/1"
# In lamports per purchase.
SIZES = (10**8, 10**9, 10**10)
SHOWN_SIZE = 10**9
# Lamports assumed if another account paid the fee: the median of recorded swaps (paper.fills).
NETWORK_COST = 25_000
# Minimums below which no return is shown.
MIN_SALES, MIN_TOKENS, MIN_COVERED_PERCENT = 10, 3, 50


# ---- a bot's trades ------------------------------------------------------------------------------
class CopiedTrade(NamedTuple):
    """A bot's purchase or sale for SOL.

    `raw`: units bought; `proceeds`: lamports of a sale; `network`: fee and tip; `pool`: the pool's
    reading, or why there isn't one; `slices`: a sale's ((purchase ID or None, raw units, cost or
    None), ...), first in, first out.
    """

    id: str
    mint: str
    is_buy: bool
    raw: int
    proceeds: int
    network: int
    pool: PoolReading | str
    slices: tuple[tuple[str | None, int, int | None], ...] = ()


@dataclass(slots=True)
class _Lot:
    """The follower's holdings from one purchase. `bot`: the bot's remaining raw units of it."""

    bot: int
    raw: int
    spent: int
    pool: str

    def take(self, amount: int) -> tuple[int, int]:
        """Remove the share for this many of the bot's units. Return (raw units, lamports spent)."""
        raw, spent = self.raw, self.spent
        if amount < self.bot:
            raw = raw * amount // self.bot
            # If a sale is less than one unit, its cost stays with the remaining units.
            spent = spent * raw // self.raw
        self.bot, self.raw, self.spent = (
            max(0, self.bot - amount),
            self.raw - raw,
            self.spent - spent,
        )
        return raw, spent


@dataclass
class _Part:
    """The follower's part of one sale.

    `at_bot`: what `spent` would have returned at the bot's prices; `cost`: the bot's cost of these
    slices.
    """

    raw: int = 0
    spent: int = 0
    at_bot: int = 0
    cost: int = 0
    # (raw units, the pool where they were bought).
    gone: list[tuple[int, str]] = field(default_factory=list)


class Outcome(NamedTuple):
    lamports: int | None
    reason: str | None


class Follower:
    """A follower with `size` lamports per purchase. `stays`: its SOL stays in the pool."""

    def __init__(self, size: int, stays: bool) -> None:
        self.size, self.stays = size, stays
        self.spent = self.received = self.at_bot = self.cost = self.all_cost = 0
        self.sales = self.used = 0
        self.gains: Counter[str] = Counter()
        self.excluded: Counter[str] = Counter()
        self._lots: dict[str, _Lot] = {}
        self._unread: dict[str, str] = {}
        # Per pool: lamports in addition to the observed reserves, and the follower's units.
        self._more: defaultdict[str, int] = defaultdict(int)
        self._held: defaultdict[str, int] = defaultdict(int)

    def follow(self, trade: CopiedTrade) -> Outcome:
        return self._buy(trade) if trade.is_buy else self._sell(trade)

    def _buy(self, trade: CopiedTrade) -> Outcome:
        pool = trade.pool
        if isinstance(pool, str):
            return self._miss(trade, pool)
        state = shift(pool.after, self._more[pool.pool], "buy") if self.stays else pool.after
        got = buy(pool, state, self.size)
        if got is None:
            return self._miss(trade, "nothing_left_to_buy")
        self._lots[trade.id] = _Lot(trade.raw, got.raw, self.size + trade.network, pool.pool)
        self._more[pool.pool] += got.net
        self._held[pool.pool] += got.raw
        return Outcome(None, None)

    def _miss(self, trade: CopiedTrade, reason: str) -> Outcome:
        self._unread[trade.id] = reason
        return Outcome(None, reason)

    def _sell(self, trade: CopiedTrade) -> Outcome:
        self.sales += 1
        pool, reasons = trade.pool, Counter[str]()
        part = self._cut(trade, reasons)
        self.excluded += reasons
        state = None if isinstance(pool, str) else self._see_sale(pool)
        for raw, bought_in in part.gone:
            self._let_go(raw, bought_in)
        if isinstance(pool, str) or state is None or not part.raw:
            return Outcome(None, next(iter(reasons), "not_a_purchase"))
        sold = sell(pool, state, part.raw)
        if self._held[pool.pool]:
            self._more[pool.pool] = state.sol - sold.left - pool.after.sol
        received = sold.received - trade.network
        self.used += 1
        self.spent += part.spent
        self.received += received
        self.at_bot += part.at_bot
        self.cost += part.cost
        self.gains[trade.mint] += received - part.spent
        return Outcome(received, None)

    def _cut(self, trade: CopiedTrade, reasons: Counter[str]) -> _Part:
        part = _Part()
        proceeds = share(trade.proceeds, [amount for _, amount, _ in trade.slices])
        for (origin, amount, cost), got in zip(trade.slices, proceeds, strict=True):
            if cost is None:
                reasons["unknown_cost"] += 1
                continue
            self.all_cost += cost
            lot = self._lots.get(origin or "")
            if lot is None:
                reasons[self._unread.get(origin or "", "not_a_purchase")] += 1
                continue
            raw, spent = lot.take(amount)
            part.gone.append((raw, lot.pool))
            if not lot.bot:
                del self._lots[origin or ""]
            if isinstance(trade.pool, str):
                reasons[trade.pool] += 1
                continue
            if not raw:
                reasons["too_small"] += 1
                continue
            part.raw, part.spent, part.cost = part.raw + raw, part.spent + spent, part.cost + cost
            part.at_bot += spent * got // cost if cost else spent
        return part

    def _see_sale(self, pool: PoolReading) -> State:
        """Return the pool after the bot's sale, which comes first and gets the follower's SOL."""
        more = self._more[pool.pool]
        if not self.stays or not more:
            return pool.after
        return add_raw(shift(pool.before, more, "sell"), pool.after.raw - pool.before.raw)

    def _let_go(self, raw: int, pool: str) -> None:
        self._held[pool] -= raw
        if not self._held[pool]:
            self._more[pool] = 0

    # ---- results ---------------------------------------------------------------------------------
    @property
    def return_bps(self) -> int | None:
        return (self.received - self.spent) * ONE // self.spent if self.spent else None

    @property
    def bot_bps(self) -> int | None:
        """The bot's return, with every purchase counted as the same size."""
        return (self.at_bot - self.spent) * ONE // self.spent if self.spent else None

    @property
    def kept_percent(self) -> int | None:
        """The follower's share of the bot's gain, or None if the bot gained nothing."""
        gain = self.at_bot - self.spent
        return (self.received - self.spent) * 100 // gain if gain > 0 else None

    @property
    def covered_percent(self) -> int:
        return self.cost * 100 // self.all_cost if self.all_cost else 0

    @property
    def top_token_percent(self) -> int | None:
        gains = [gain for gain in self.gains.values() if gain > 0]
        return max(gains) * 100 // sum(gains) if gains else None

    @property
    def missing(self) -> str | None:
        if self.used < MIN_SALES:
            return "too_few_sales"
        if len(self.gains) < MIN_TOKENS:
            return "too_few_tokens"
        return "not_representative" if self.covered_percent < MIN_COVERED_PERCENT else None


# ---- the job -------------------------------------------------------------------------------------
log = logging.getLogger("candor.copying")
# Minimum time between two computations for a bot.
REST_MS = 600_000
ROWS_AT_ONCE = 500
MATCHED = ("matched", "partial")


# Wallets that belonged to one bot throughout, with their sales. `rules`: see models.Wallet. If a
# program is added, pools are read again.
WALLETS = f"""
SELECT a.bot_id AS bot, a.wallet_id AS wallet, t.matched, t.partial, t.unmatched, t.cost,
       t.proceeds, w.rules
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
JOIN running_total t ON {write_last("t", str(ALL_HISTORY))}
WHERE a.detached_at IS NULL AND w.bot_since IS NULL AND t.matched + t.partial > 0
ORDER BY a.bot_id, a.wallet_id"""


DONE = "SELECT DISTINCT bot_id AS bot, mark, at FROM copy_total"
FORGET = "DELETE FROM copy_total WHERE bot_id = ?"


def run_tick(now: int) -> tuple[str | None, str]:
    """Compute the results of due bots. Returns no problem, and details for health."""
    done = {row.bot: row for row in read_rows(DONE)}
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


def list_due(done: dict[int, Row], now: int) -> dict[int, list[Row]]:
    held: dict[int, list[Row]] = {}
    for row in read_rows(WALLETS):
        held.setdefault(row.bot, []).append(row)
    for bot in done.keys() - held.keys():
        with storage.writing():
            _forget(bot)
    return {bot: rows for bot, rows in held.items() if _is_due(rows, done.get(bot), now)}


def _forget(bot: int) -> None:
    storage.database.execute_sql(FORGET, (bot,))
    storage.database.execute_sql(DROP_FORMER, (bot,))


def _is_due(rows: list[Row], last: Row | None, now: int) -> bool:
    if last is None:
        return True
    return last.mark != _make_mark(rows) and not 0 <= now - last.at < REST_MS


def _make_mark(rows: list[Row]) -> str:
    sums = "; ".join(",".join(map(str, row[1:])) for row in rows)
    return f"{MODEL}: {sums}"


def _work_out(bot: int, wallets: list[Row], now: int) -> None:
    numbers = [row.wallet for row in wallets]
    pairs = [(Follower(size, stays=True), Follower(size, stays=False)) for size in SIZES]
    outcomes = dict[int, Outcome]()
    with storage.snapshot():
        for number, trade in list_trades(numbers):
            for best, worst in pairs:
                outcome = best.follow(trade)
                worst.follow(trade)
                if best.size == SHOWN_SIZE and outcome != NOTHING:
                    outcomes[number] = outcome
        stored = _read_outcomes(numbers)
    _store_outcomes(outcomes, stored)
    rows = [_make_row(bot, _make_mark(wallets), now, *pair) for pair in pairs]
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
    """Limit a sum to its column: a lying node can claim all SOL in existence for each sale."""
    return None if value is None else max(-MAX_INTEGER, min(MAX_INTEGER, value))


# ---- a bot's trades ------------------------------------------------------------------------------
FUNDED = "SELECT token_changes FROM trade WHERE kind = 'liquidity' AND wallet_id IN "
NOTHING = Outcome(None, None)


def list_trades(wallets: list[int]) -> Iterator[tuple[int, CopiedTrade]]:
    """Yield (number, trade) for purchases and sales for SOL, oldest first."""
    own = {mint: "own_pool" for mint in _list_funded(wallets)}
    for row in heapq.merge(*map(_read_rows, wallets)):
        entry = read_entry(row)
        own |= dict.fromkeys(entry.created, "own_token")
        trade = _read_trade(row, entry, own.get(entry.mint or ""))
        if trade:
            yield row.id, trade


def _read_rows(wallet: int) -> Iterator[Row]:
    rows = storage.database.execute_sql(STORED_TRADES, (wallet,))
    try:
        yield from map(make_row_type(STORED_TRADES)._make, rows)
    finally:
        rows.close()


def _list_funded(wallets: list[int]) -> set[str]:
    found = storage.read_rows(f"{FUNDED}({write_marks(wallets)})", wallets)
    mints = {mint for (changes,) in found for mint, _, _ in orjson.loads(changes)}
    return mints - MINTS - {WRAPPED_SOL}


def _read_trade(row: Row, entry: Entry, own: str | None) -> CopiedTrade | None:
    is_buy = row.kind == "buy"
    if UNEXPLAINED in orjson.loads(row.flags) or entry.mint is None:
        return None
    if not is_buy and (row.kind != "sell" or row.realized not in MATCHED):
        return None
    changes = (raw for mint, raw, _ in entry.venue_tokens if mint == entry.mint)
    lots = orjson.loads(row.lots)
    return CopiedTrade(
        row.uid,
        entry.mint,
        is_buy,
        next(changes, 0) if is_buy else 0,
        entry.venue_sol,
        entry.fee + entry.tip if entry.fee else NETWORK_COST,
        own or unpack_pool(entry.pool),
        tuple(
            (origin, int(raw), None if cost is None else int(cost)) for origin, raw, cost in lots
        ),
    )


# ---- outcomes of single trades -------------------------------------------------------------------
OUTCOMES = """
SELECT c.trade_id, c.lamports, c.reason FROM copied_trade c JOIN trade t ON t.id = c.trade_id
WHERE t.wallet_id IN """
# The trade may have been deleted since then, and the wallet disconnected.
STORE = f"""
INSERT INTO copied_trade (trade_id, lamports, reason)
SELECT id, CAST(? AS BIGINT), CAST(? AS TEXT) FROM trade WHERE id = ? AND wallet_id IN {HELD}
ON CONFLICT (trade_id) DO UPDATE SET lamports = excluded.lamports, reason = excluded.reason"""
DROP = "DELETE FROM copied_trade WHERE trade_id = ?"
# Outcomes of wallets that no bot has now. The job deletes them, so that disconnecting is fast for
# any number of trades.
DROP_FORMER = f"""
DELETE FROM copied_trade WHERE trade_id IN (
    SELECT t.id FROM attachment a JOIN trade t ON t.wallet_id = a.wallet_id
    WHERE a.bot_id = ? AND a.detached_at IS NOT NULL AND t.wallet_id NOT IN {HELD})"""


def _read_outcomes(wallets: list[int]) -> dict[int, Outcome]:
    rows = storage.read_rows(f"{OUTCOMES}({write_marks(wallets)})", wallets)
    return {trade: Outcome(lamports, reason) for trade, lamports, reason in rows}


def _store_outcomes(right: dict[int, Outcome], stored: dict[int, Outcome]) -> None:
    changed = [(*one, trade) for trade, one in right.items() if stored.get(trade) != one]
    _write(STORE, changed)
    _write(DROP, [(trade,) for trade in stored.keys() - right.keys()])


def _write(sql: str, values: Iterable[tuple[Any, ...]]) -> None:
    for part in storage.in_parts(values, ROWS_AT_ONCE):
        with storage.writing():
            for one in part:
                storage.database.execute_sql(sql, one)
