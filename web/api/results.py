"""Show bots' results over all known history, or since they connected their wallets: totals, risk,
by token, and over time.

Currencies are never converted or added up.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from chain.amounts import exact, show_fixed, show_raw
from chain.ledger.inventory import SOL
from chain.ledger.totals import (
    HOUR_MS,
    HOUR_SECONDS,
    HOURS_A_DAY,
    NOTHING,
    Sums,
    add_up,
    find_drawdown,
)
from chain.reading.currencies import CURRENCIES, Currency
from chain.stored.attachments import (
    OF_RECORD,
    OF_RESULTS,
    Source,
    list_totals,
    read_totals,
    write_last,
)
from chain.stored.derived import load_risk, show_rates
from chain.stored.standings import WINDOWS
from storage import database, read_rows
from storage.rows import read, read_one, select, select_value, write_marks
from web.api import market
from web.api.serialize import Json, fill
from web.api.shapes import (
    Address,
    CurrencySymbol,
    Exact,
    Time,
    TypedDict,
    Untrusted,
    Whole,
    described,
)

Sign = Literal["one_token", "flat_round_trips"]


class CurrencyResults(TypedDict):
    """The results of purchases and sales in one currency, in its raw units. The members are as in
    Results.
    """

    currency: CurrencySymbol
    mint: Annotated[Address, described("mint of the currency; for SOL, the mint of wrapped SOL")]
    decimals: int
    realizedRaw: Whole
    realized: Exact
    returnPct: Exact | None
    winRate: Exact | None
    positions: int
    positionsWon: int
    positionsOpen: int
    matchedSells: int
    partialSells: int
    unmatchedSells: int
    winningSells: int
    volumeRaw: Whole
    volume: Exact
    costLeftRaw: Whole
    worstCaseRaw: Whole
    maxDrawdownRaw: Whole | None


class Results(TypedDict):
    """The realized results of sales with a known cost, after transaction costs. Sales and volume
    are in SOL. byCurrency has all currencies.
    """

    since: Annotated[
        Time | None, described("time of the first known transaction, or of the connection")
    ]
    provisional: Annotated[bool, described("history is still loading, or has gaps")]
    realizedLamports: Whole
    realizedSol: Exact
    returnPct: Annotated[
        Exact | None, described("PnL of sales as a percentage of their cost basis")
    ]
    winRate: Annotated[Exact | None, described("share of positions with a sale that won, 0 to 1")]
    positions: Annotated[
        int,
        described(
            "for positions with a sale: time from the purchase until less than 1%"
            " of the peak is left"
        ),
    ]
    positionsWon: Annotated[
        int, described("positions whose proceeds so far exceed their fully known cost")
    ]
    positionsOpen: Annotated[int, described("number of open positions, with or without a sale")]
    matchedSells: Annotated[int, described("sales with a fully known cost")]
    partialSells: Annotated[int, described("sales with a partly known cost")]
    unmatchedSells: Annotated[int, described("sales of unknown cost, which are left out")]
    winningSells: int
    worstCaseLamports: Annotated[
        Whole,
        described(
            "the worst case, in which all unsold tokens are worthless: PnL minus cost moved"
            " out and known cost still held"
        ),
    ]
    worstCaseSol: Exact
    volumeLamports: Annotated[Whole, described("amount moved by buys and sells")]
    volumeSol: Exact
    observedTrades: Annotated[int, described("number of trades in any currency, including swaps")]
    failedTransactions: int
    failedCostLamports: Whole
    overheadLamports: Annotated[Whole, described("fees and tips outside of trades")]
    costLeftLamports: Annotated[Whole, described("known cost of tokens moved out unsold")]
    costLeftReceipts: Annotated[int, described("number of transactions that moved them out")]
    openPositions: Annotated[int, described("number of open positions")]
    maxDrawdownLamports: Annotated[
        Whole | None,
        described("max drawdown of realized PnL from its peak, or from 0, by hour"),
    ]
    byCurrency: Annotated[list[CurrencyResults], described("every currency the bot traded in")]


class Told(NamedTuple):
    """A bot's totals and max drawdowns in a view, by currency."""

    sums: dict[str, Sums]
    drawdowns: dict[str, int | None]


def find_results(source: Source, bots: Sequence[int]) -> dict[int, Told]:
    found: defaultdict[int, Told] = defaultdict(lambda: Told({}, {}))
    several = Counter[tuple[int, str]]()
    for bot, money, sums, drawdown in list_totals(read_rows, source, bots, CURRENCIES):
        one = found[bot]
        several[bot, money] += drawdown is not None
        one.sums[money] = add_up((one.sums.get(money, NOTHING), sums))
        one.drawdowns[money] = max(one.drawdowns.get(money) or 0, drawdown or 0)
    joined = sorted({bot for (bot, _), count in several.items() if count > 1})
    for money in sorted({money for (_, money), count in several.items() if count > 1}):
        for bot, fall in find_drawdowns(source, joined, money=money).items():
            found[bot].drawdowns[money] = fall
    return found


# ---- drawdown ------------------------------------------------------------------------------------
# {last} is the condition from write_last.
LAST = """
SELECT a.bot_id, a.id, t.realized, t.drawdown FROM attachment a JOIN running_total t ON {last}
WHERE {which} AND a.bot_id IN ({bots})"""
HOURS = """
SELECT a.bot_id, a.id, t.hour, t.realized
FROM attachment a JOIN running_total t ON t.wallet_id = a.wallet_id AND t.money = '{money}'
    AND t.view = {view} AND t.hour >= {since}
WHERE {which} AND a.bot_id IN ({bots}) ORDER BY a.bot_id, a.id, t.hour"""


def find_drawdowns(
    source: Source, bot_ids: Sequence[int], since: int | None = None, money: str = SOL
) -> dict[int, int]:
    """Return {bot ID: max drawdown in raw units}, over all time or since an hour (from 1970).

    The results of a bot's wallets in the same hour are added first. Bots without results are
    omitted.
    """
    last = _read_last(source, bot_ids, since, money)
    if since is not None:
        before = {attachment: realized for _, attachment, realized, _ in last}
        return _add_up_hours(source, bot_ids, since, before, money)
    bots = Counter(bot for bot, *_ in last)
    falls: dict[int, int] = {bot: fall for bot, _, _, fall in last if bots[bot] == 1}
    several = sorted(bots.keys() - falls.keys())
    return falls | (_add_up_hours(source, several, 0, {}, money) if several else {})


def _read_last(
    source: Source, bot_ids: Sequence[int], until: int | None, money: str
) -> list[tuple[int, int, int, int]]:
    """Read (bot, attachment, realized, drawdown) over all time, or before an hour."""
    last = write_last("t", source.view, f"'{money}'", until)
    asked = LAST.format(last=last, which=source.which, bots=write_marks(bot_ids))
    found: list[tuple[int, int, int, int]] = database.execute_sql(asked, bot_ids).fetchall()
    return found


def _add_up_hours(
    source: Source, bot_ids: Sequence[int], since: int, before: dict[int, int], money: str
) -> dict[int, int]:
    changes: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    asked = HOURS.format(**source._asdict(), since=since, money=money, bots=write_marks(bot_ids))
    for bot, attachment, hour, realized in database.execute_sql(asked, bot_ids).fetchall():
        changes[bot][hour] += realized - before.get(attachment, 0)
        before[attachment] = realized
    return {
        bot: find_drawdown(change for _, change in sorted(hours.items()))
        for bot, hours in changes.items()
    }


# ---- JSON ----------------------------------------------------------------------------------------
def show_results(
    told: Told, since: str | None, *, provisional: bool, open_positions: int
) -> Results:
    t = told.sums.get(SOL, NOTHING)
    return fill(
        Results,
        t,
        since=since,
        provisional=provisional,
        returnPct=show_fixed(t.return_points, 2),
        winRate=show_fixed(t.win_points, 4),
        positionsOpen=t.held,
        observedTrades=t.trades,
        failedTransactions=t.failed,
        openPositions=open_positions,
        maxDrawdownLamports=show_raw(told.drawdowns.get(SOL)),
        byCurrency=list_currencies(told.sums, told.drawdowns),
    )


def list_currencies(
    sums: Mapping[str, Sums], drawdowns: Mapping[str, int | None]
) -> list[CurrencyResults]:
    """List the CurrencyResults of traded currencies, with SOL first."""
    return [
        show_currency(money, sums[name], drawdowns.get(name))
        for name, money in CURRENCIES.items()
        if name in sums and is_traded(sums[name])
    ]


def is_traded(sums: Sums) -> bool:
    """Return whether there were purchases or sales in this currency. SOL includes swaps."""
    return bool(sums.volume or sums.matched or sums.partial or sums.unmatched)


def show_currency(money: Currency, sums: Sums, drawdown: int | None) -> CurrencyResults:
    return fill(
        CurrencyResults,
        sums,
        currency=money.symbol,
        mint=money.mint,
        decimals=money.decimals,
        realized=exact(sums.realized, money.decimals),
        returnPct=show_fixed(sums.return_points, 2),
        winRate=show_fixed(sums.win_points, 4),
        positionsOpen=sums.held,
        volume=exact(sums.volume, money.decimals),
        maxDrawdownRaw=show_raw(drawdown),
    )


# ---- risk ----------------------------------------------------------------------------------------
class Risk(TypedDict):
    """The risk behind realized results in SOL."""

    maxDrawdownLamports: Whole
    medianHoldingSeconds: Annotated[
        int | None,
        described("from a position's first purchase until it ended, to two significant digits"),
    ]
    bestLamports: Annotated[Whole | None, described("the best position with a sale")]
    worstLamports: Whole | None
    daysActive: Annotated[int, described("UTC days with a trade")]


# The RiskTotal rows of a bot's wallets with derived data. Columns are null without sales.
DERIVED = {OF_RECORD: "a.forward_realized", OF_RESULTS: "w.forward_realized"}
RISKS = f"""
SELECT r.best, r.worst, r.median_holding, r.holdings
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
LEFT JOIN risk_total r ON r.wallet_id = a.wallet_id AND r.money = '{SOL}'
    AND r.view = {{view}}
WHERE {{which}} AND a.bot_id = ? AND {{derived}} IS NOT NULL
"""
# Several wallets may trade on the same day, so each day is counted once.
DAYS = f"""
SELECT COUNT(DISTINCT day) FROM (
    SELECT t.hour / {HOURS_A_DAY} AS day,
           t.days - LAG(t.days, 1, 0) OVER (PARTITION BY a.id ORDER BY t.hour) AS more
    FROM attachment a JOIN running_total t ON t.wallet_id = a.wallet_id AND t.money = '{SOL}'
        AND t.view = {{view}}
    WHERE {{which}} AND a.bot_id = ?) by_hour
WHERE more > 0"""


def find_risk(source: Source, bot_id: int) -> Risk | None:
    """Return None if there is no derived data, or if it is damaged."""
    parts = read(RISKS.format(**source._asdict(), derived=DERIVED[source]), [bot_id])
    stored = load_risk([one._asdict() for one in parts if one.holdings is not None])
    if not parts or stored is None:
        return None
    fall = find_drawdowns(source, [bot_id]).get(bot_id, 0)
    sums = read_totals(read_rows, source, [bot_id], [SOL]).get((bot_id, SOL), NOTHING)
    days = sums.days
    if len(parts) > 1:
        days = select_value(DAYS.format(**source._asdict()), [bot_id])
    return {
        "maxDrawdownLamports": str(fall),
        "medianHoldingSeconds": stored.median_holding,
        "bestLamports": show_raw(stored.best),
        "worstLamports": show_raw(stored.worst),
        "daysActive": days,
    }


def find_risk_reason(bot: Mapping[str, Any]) -> str | None:
    if bot["wallet"] is None:
        return "no_wallet"
    if bot["results"] is None:
        return bot["resultsReason"] or "not_observed"
    return None


# ---- for pages -----------------------------------------------------------------------------------
def list_windows(bot_id: int, now: int) -> list[Json]:
    hour, last = now // HOUR_MS, _read_record(bot_id)
    return [
        _show_window(bot_id, name, hour - seconds // HOUR_SECONDS, last)
        for name, seconds in WINDOWS.items()
        if seconds
    ]


def _read_record(bot_id: int, until: int | None = None) -> dict[str, Sums]:
    totals = read_totals(read_rows, OF_RECORD, [bot_id], CURRENCIES, until)
    return {money: sums for (_, money), sums in totals.items()}


def _show_window(bot_id: int, name: str, since: int, last: Mapping[str, Sums]) -> Json:
    before = _read_record(bot_id, since)
    found = {money: sums.minus(before.get(money, NOTHING)) for money, sums in last.items()}
    fall = find_drawdowns(OF_RECORD, [bot_id], since).get(bot_id, 0)
    sums = found.get(SOL)
    return {
        "window": name,
        "record": sums
        and {
            "realizedLamports": str(sums.realized),
            "worstCaseLamports": str(sums.worst_case),
            **show_rates(sums),
            "maxDrawdownLamports": str(fall),
        },
        "byCurrency": list_currencies(found, {}),
    }


# ---- by token ------------------------------------------------------------------------------------
# A page shows this many of the best and of the worst tokens.
MAX_TOKENS = 5
MAX_LISTED = 20


class TokenResult(TypedDict):
    """The results of a bot's sales of a token, in SOL."""

    mint: Address
    symbol: Untrusted | None
    realizedLamports: Whole
    sells: Annotated[int, described("number of sales with a result")]
    winningSells: int


# A bot's wallets. 0 means a wallet's whole history.
SPANS = """
SELECT a.wallet_id, 0 AS span FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? AND a.detached_at IS NULL AND w.forward_realized IS NOT NULL
"""
# A single span is read by its index, so the number of tokens doesn't matter.
OF_SPAN = f"wallet_id = ? AND money = '{SOL}' AND view = ?"
OF_ONE = f"SELECT mint, realized, sales, winning FROM token_total WHERE {OF_SPAN}"
OF_MANY = """
SELECT mint, CAST(SUM(realized) AS BIGINT) AS realized, SUM(sales) AS sales, SUM(winning) AS winning
FROM token_total WHERE {} GROUP BY mint"""
COUNT = "SELECT COUNT(*) AS tokens, COUNT(CASE WHEN realized > 0 THEN 1 END) AS winning FROM ({}) t"
# One page, best first: tokens below a result, or with the same result and a later mint.
LISTED = """
SELECT mint, realized, sales, winning FROM ({}) t WHERE realized < ? OR realized = ? AND mint > ?
ORDER BY realized DESC, mint LIMIT ?"""
ABOVE_ALL = (2**62, "")


def show_ends(bot_id: int) -> Json | None:
    """Count a bot's tokens and the profitable ones, and return the best and worst, or None."""
    spans = read(SPANS, [bot_id])
    if not spans:
        return None
    sql, values = write_totals(spans)
    best, worst = (show_tokens(rows) for rows in find_ends(spans, MAX_TOKENS))
    counted = read_one(COUNT.format(sql), values)
    return {**counted._asdict(), "best": best, "worst": worst}


def write_totals(spans: Sequence[Any]) -> tuple[str, list[Any]]:
    sql = OF_ONE if len(spans) == 1 else OF_MANY.format(" OR ".join([f"({OF_SPAN})"] * len(spans)))
    return sql, [number for span in spans for number in span]


def find_ends(spans: Sequence[Any], limit: int) -> list[list[Any]]:
    sql, values = write_totals(spans)
    return [
        read(f"{sql} ORDER BY realized {way}, mint LIMIT {limit}", values)
        for way in ("DESC", "ASC")
    ]


def list_by_token(bot_id: int) -> list[TokenResult] | None:
    """List the MAX_LISTED tokens that changed a bot's results the most, best first."""
    spans = read(SPANS, [bot_id])
    if not spans:
        return None
    # The list contains only the tokens with the largest gains or losses.
    found = {row.mint: row for rows in find_ends(spans, MAX_LISTED) for row in rows}
    ranked = sorted(found.values(), key=lambda row: (-abs(row.realized), row.mint))[:MAX_LISTED]
    return show_tokens(sorted(ranked, key=lambda row: (-row.realized, row.mint)))


def list_tokens(bot_id: int, limit: int, after: tuple[int, str] | None) -> list[Any]:
    spans = read(SPANS, [bot_id])
    if not spans:
        return []
    sql, values = write_totals(spans)
    realized, mint = after or ABOVE_ALL
    return read(LISTED.format(sql), [*values, realized, realized, mint, limit])


def show_tokens(rows: Sequence[Any]) -> list[TokenResult]:
    symbols = market.find_symbols(sorted(row.mint for row in rows))
    return [
        fill(
            TokenResult,
            row,
            symbol=symbols.get(row.mint),
            sells=row.sales,
            winningSells=row.winning,
        )
        for row in rows
    ]


# ---- over time -----------------------------------------------------------------------------------
DAY_SECONDS = 86_400
SAMPLED = f"""
WITH sampled (at) AS (VALUES {{times}})
SELECT b.uid AS bot, s.at, CAST(COALESCE(SUM((
    SELECT t.realized FROM running_total t WHERE t.wallet_id = a.wallet_id
    AND t.money = ? AND t.view = {{view}} AND t.hour < s.at / {HOUR_SECONDS}
    ORDER BY t.hour DESC LIMIT 1)), 0) AS BIGINT) AS realized
FROM bot b JOIN attachment a ON a.bot_id = b.id AND {{which}} CROSS JOIN sampled s
WHERE b.uid IN ({{bots}}) GROUP BY b.uid, s.at ORDER BY b.uid, s.at
"""


def sample_realized(
    source: Source, money: str, bots: Sequence[str], times: Sequence[int]
) -> dict[str, list[int]]:
    """Return {bot ID: realized PnL (raw units) at the full hour before each Unix second}."""
    found: dict[str, list[int]] = {}
    if not bots or not times:
        return found
    asked = SAMPLED.format(
        **source._asdict(), times=", ".join(["(?)"] * len(times)), bots=write_marks(bots)
    )
    for bot, _, realized in database.execute_sql(asked, [*times, money, *bots]).fetchall():
        found.setdefault(bot, []).append(realized)
    return found


TIME_BEFORE = """
SELECT t.block_time FROM trade t WHERE t.wallet_id = (SELECT id FROM wallet WHERE address = ?)
AND t.slot <= ? ORDER BY t.slot DESC, t.place DESC, t.id DESC LIMIT 1
"""
TIME_AFTER = """
SELECT t.block_time FROM trade t WHERE t.wallet_id = (SELECT id FROM wallet WHERE address = ?)
AND t.slot >= ? ORDER BY t.slot, t.place, t.id LIMIT 1
"""


def find_times(address: str, first_slot: int, last_slot: int) -> tuple[int | None, int | None]:
    before = select_value(TIME_BEFORE, (address, first_slot))
    return before, select_value(TIME_AFTER, (address, last_slot))


# `at` is in Unix seconds. `status`: matched | partial | unmatched | not_applicable. `result` and
# `cost` are in lamports. Only the newest transactions are read: a wallet may have a million.
SALES = """
SELECT n.block_time AS at, n.kind, n.realized AS status, n.result, n.cost FROM (
    SELECT t.block_time, t.kind, t.realized, t.result, t.cost FROM trade t
    WHERE t.wallet_id = ? AND t.currency = ''
    ORDER BY t.slot DESC, t.place DESC, t.id DESC LIMIT ?) n
WHERE n.result IS NOT NULL OR n.kind IN ('buy', 'sell')
"""
HELD = """
SELECT a.wallet_id FROM attachment a JOIN bot b ON b.id = a.bot_id
WHERE b.uid = ? AND a.detached_at IS NULL"""
MAX_READ = 1_000


def list_sales(bot: str) -> list[Any]:
    """List buys and sells in each current wallet's last MAX_READ transactions, newest first."""
    wallets = select(int, HELD, (bot,))
    found = [read(SALES, (number, MAX_READ)) for number in wallets]
    # Each list is already in order within a second.
    return list(heapq.merge(*found, key=lambda row: row.at or 0, reverse=True))


# ---- days ----------------------------------------------------------------------------------------
class DayTotals(NamedTuple):
    """A bot's totals for one day over all its wallets.

    Amounts are raw units of one currency. `day` is the number of days since 1970. `total` is the
    PnL realized by the end of the day. `sells` are sales with a result.
    """

    day: int
    realized: int
    total: int
    volume: int
    trades: int
    sells: int

    @property
    def at(self) -> int:
        return self.day * DAY_SECONDS


class HourRow(NamedTuple):
    """An attachment's running totals at the end of an hour. Hours are counted from 1970."""

    attachment: int
    hour: int
    realized: int
    volume: int
    trades: int
    sells: int


HOURS_OF_BOT = f"""
SELECT a.id AS attachment, t.hour, t.realized, t.volume, t.trades, t.matched + t.partial AS sells
FROM attachment a JOIN bot b ON b.id = a.bot_id JOIN running_total t ON t.wallet_id = a.wallet_id
    AND t.money = ? AND t.view = {OF_RESULTS.view}
WHERE b.uid = ? AND {OF_RESULTS.which} ORDER BY a.id, t.hour
"""


def list_daily_totals(bot: str, money: str) -> list[DayTotals]:
    # The last hour of each day.
    ends = {
        (row.attachment, row.hour // 24): row for row in select(HourRow, HOURS_OF_BOT, (money, bot))
    }
    changes: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 4)
    before = HourRow(0, 0, 0, 0, 0, 0)
    for (attachment, day), end in ends.items():
        start = before if before.attachment == attachment else HourRow(attachment, 0, 0, 0, 0, 0)
        for place, (now, then) in enumerate(zip(end[2:], start[2:], strict=True)):
            changes[day][place] += now - then
        before = end
    total, days = 0, []
    for day, (realized, *counts) in sorted(changes.items()):
        total += realized
        days.append(DayTotals(day, realized, total, *counts))
    return [day for day in days if day.trades]
