"""Results of bots, over all known history or since they connected their wallets. Currencies are
never converted or added up.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from chain.amounts import exact, show_fixed, show_raw
from chain.ledger.inventory import SOL
from chain.ledger.sums import NOTHING, Sums, add_up, find_drawdown
from chain.reading.currencies import CURRENCIES, Currency
from chain.stored.attachments import Source, list_totals, write_last
from storage import database, read_rows
from storage.rows import write_marks
from web.api.serialize import show_sol
from web.api.shapes import Address, CurrencySymbol, Exact, Time, TypedDict, Whole, described

Sign = Literal["one_token", "flat_round_trips"]


class CurrencyResults(TypedDict):
    """Results of purchases and sales in one currency, in its raw units; as in Results."""

    currency: CurrencySymbol
    mint: Annotated[Address, described("of SOL: the mint of wrapped SOL")]
    decimals: int
    realizedRaw: Whole
    realized: Exact
    returnPct: Exact | None
    matchedSells: int
    partialSells: int
    unmatchedSells: int
    winningSells: int
    winRate: Exact | None
    positions: int
    positionsWon: int
    positionsOpen: int
    volumeRaw: Whole
    volume: Exact
    costLeftRaw: Whole
    worstCaseRaw: Whole
    maxDrawdownRaw: Whole | None


class Results(TypedDict):
    """Realized results of sales with a known cost, after transaction costs. Sales and volume are in
    SOL; byCurrency has all currencies.
    """

    since: Annotated[Time | None, described("the first known transaction, or connection")]
    provisional: Annotated[bool, described("history is still loading, or has gaps")]
    realizedLamports: Whole
    realizedSol: Exact
    returnPct: Annotated[Exact | None, described("share of the cost basis of sales, in percent")]
    matchedSells: Annotated[int, described("sales with a fully known cost")]
    partialSells: Annotated[int, described("sales with a partly known cost")]
    unmatchedSells: Annotated[int, described("sales of unknown cost, which are left out")]
    winningSells: int
    winRate: Annotated[Exact | None, described("share of positions with a sale that won, 0 to 1")]
    positions: Annotated[
        int,
        described(
            "for positions with a sale: from the purchase until less than 1% of the peak is left"
        ),
    ]
    positionsWon: Annotated[
        int, described("positions whose proceeds so far exceed their fully known cost")
    ]
    positionsOpen: Annotated[int, described("with or without a sale")]
    worstCaseLamports: Annotated[
        Whole,
        described(
            "the worst case, if all unsold tokens are worthless: PnL minus cost moved out "
            "and known cost still held"
        ),
    ]
    worstCaseSol: Exact
    volumeLamports: Annotated[Whole, described("moved by buys and sells")]
    volumeSol: Exact
    observedTrades: Annotated[int, described("in any currency, swaps included")]
    failedTransactions: int
    failedCostLamports: Whole
    overheadLamports: Annotated[Whole, described("fees and tips outside of trades")]
    costLeftLamports: Annotated[Whole, described("known cost of tokens moved out unsold")]
    costLeftReceipts: Annotated[int, described("transactions that moved them out")]
    openPositions: Annotated[int, described("tokens held now")]
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
    """Return {bot ID: its totals} for bots with wallets in this view."""
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
# {last}: of write_last.
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
    """Return {bot ID: max drawdown in raw units}, over all time or from an hour on (counted from
    1970). The results of a bot's wallets in the same hour are added first. Bots without results are
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
    return {
        "since": since,
        "provisional": provisional,
        "realizedLamports": str(t.realized),
        "realizedSol": show_sol(t.realized),
        "returnPct": show_fixed(t.return_points, 2),
        "winRate": show_fixed(t.win_points, 4),
        "positions": t.positions,
        "positionsWon": t.positions_won,
        "positionsOpen": t.held,
        "matchedSells": t.matched,
        "partialSells": t.partial,
        "unmatchedSells": t.unmatched,
        "winningSells": t.winning,
        "worstCaseLamports": str(t.worst_case),
        "worstCaseSol": show_sol(t.worst_case),
        "volumeLamports": str(t.volume),
        "volumeSol": show_sol(t.volume),
        "observedTrades": t.trades,
        "failedTransactions": t.failed,
        "failedCostLamports": str(t.failed_cost),
        "overheadLamports": str(t.overhead),
        "costLeftLamports": str(t.cost_left),
        "costLeftReceipts": t.cost_left_receipts,
        "openPositions": open_positions,
        "maxDrawdownLamports": show_raw(told.drawdowns.get(SOL)),
        "byCurrency": list_currencies(told.sums, told.drawdowns),
    }


def list_currencies(
    sums: Mapping[str, Sums], drawdowns: Mapping[str, int | None]
) -> list[CurrencyResults]:
    """List the CurrencyResults of traded currencies, SOL first."""
    return [
        show_currency(money, sums[name], drawdowns.get(name))
        for name, money in CURRENCIES.items()
        if name in sums and is_traded(sums[name])
    ]


def is_traded(sums: Sums) -> bool:
    """Return whether there were purchases or sales in this currency. (SOL includes swaps.)"""
    return bool(sums.volume or sums.matched or sums.partial or sums.unmatched)


def show_currency(money: Currency, sums: Sums, drawdown: int | None) -> CurrencyResults:
    return {
        "currency": money.symbol,
        "mint": money.mint,
        "decimals": money.decimals,
        "realizedRaw": str(sums.realized),
        "realized": exact(sums.realized, money.decimals),
        "returnPct": show_fixed(sums.return_points, 2),
        "winRate": show_fixed(sums.win_points, 4),
        "positions": sums.positions,
        "positionsWon": sums.positions_won,
        "positionsOpen": sums.held,
        "matchedSells": sums.matched,
        "partialSells": sums.partial,
        "unmatchedSells": sums.unmatched,
        "winningSells": sums.winning,
        "volumeRaw": str(sums.volume),
        "volume": exact(sums.volume, money.decimals),
        "costLeftRaw": str(sums.cost_left),
        "worstCaseRaw": str(sums.worst_case),
        "maxDrawdownRaw": show_raw(drawdown),
    }
