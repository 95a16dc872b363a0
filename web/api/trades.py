"""Show trades, and which wallets bought or sold a token: their shapes, how rows become them, and
the search by kind or currency.

The search examines only the latest trades of each wallet, or the next arrivals.
"""

import heapq
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, get_args

from agents.choices import TradeKind
from chain.amounts import ONE, Scale, exact, load_scale, show_amount, show_raw
from chain.reading.currencies import CURRENCIES, Currency, map_currencies
from chain.reading.flows import Change, list_venue_changes
from chain.reading.kinds import TRADES
from chain.stored.derived import read_coverage
from chain.stored.tables import NUMBER_OF_MINT
from models import BOT_OF_TRADE
from storage.rows import is_damaged, read, select_one, select_value, write_marks
from web.api import market, paging, v1
from web.api.copying import Excluded
from web.api.paging import (
    STORED,
    Args,
    Condition,
    find_rows,
    merge_arrivals,
    read_address,
    read_bot,
    read_choice,
    read_currency,
    read_since,
    refuse,
    write_newest,
    write_select,
)
from web.api.serialize import Json, fill, show_percentage, show_seconds, show_sol
from web.api.shapes import (
    Address,
    CurrencySymbol,
    Exact,
    FollowedPage,
    Page,
    Share,
    Signature,
    Time,
    TypedDict,
    Untrusted,
    Whole,
    described,
)
from web.api.wallets import Coverage, CoverageState, count_tracked, show_coverage

# ---- displayed amounts: for some tokens a multiple of the raw units ------------------------------
# Scales by mint, for tokens whose displayed amounts aren't raw units.
Scales = Mapping[str, Scale]


# With a comparison of the mint, the query uses the index of scaled tokens.
SCALES = "SELECT mint, scale FROM token WHERE scale IS NOT NULL AND mint > ''"


def read_scales() -> Scales:
    return {row.mint: load_scale(row.scale) for row in read(SCALES)}


def find_multiplier(scales: Scales, mint: str, at: int | None) -> Fraction | None:
    """Return the multiplier from raw units to displayed amounts, or None if it can't be read.

    `at`: Unix seconds, or None for the latest multiplier.
    """
    scale = scales.get(mint)
    return ONE if scale is None else scale.find(sys.maxsize if at is None else at)


def write_multiplier(multiplier: Fraction | None) -> str | None:
    if multiplier is None:
        return None
    return "1" if multiplier == 1 else f"{Decimal(multiplier.numerator) / multiplier.denominator:f}"


def read_multiplier(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


# Kinds that have a currency, and kinds that may have one because a market can fill an order.
PAID_KINDS = ("buy", "sell", "round_trip")
PAYABLE_KINDS = (*PAID_KINDS, "order_fill")
PAID_ELSEWHERE = "paid_elsewhere"


class TokenChange(TypedDict):
    """A transaction's change of one token in the wallet's own accounts."""

    mint: Address
    symbol: Untrusted | None
    changeRaw: Whole
    change: Annotated[Exact | None, described("as displayed; null if multiplier is null")]
    decimals: int
    multiplier: Annotated[
        Exact | None,
        described(
            "the display multiplier of raw units at that time, usually 1; null if it was unreadable"
        ),
    ]


class Lot(TypedDict):
    """A part of what was sold, and the trade in which it was bought."""

    tradeId: Annotated[
        str | None, described("the purchase; null for opening or unobserved inventory")
    ]
    amountRaw: Whole
    costRaw: Annotated[Whole | None, described("in the sale's currency")]
    costLamports: Annotated[Whole | None, described("null unless the currency is SOL")]


class Realized(TypedDict):
    """A sale's result in its currency, first in, first out, after the wallet's costs."""

    status: Annotated[
        Literal["matched", "partial", "unmatched", "not_applicable"],
        described(
            "matched: the cost of everything sold is known; partial: only part of it is;"
            " unmatched: none of it is; not_applicable: not a sale with a result"
        ),
    ]
    method: Literal["fifo"]
    currency: CurrencySymbol | None
    resultRaw: Whole | None
    result: Exact | None
    proceedsRaw: Whole | None
    costRaw: Whole | None
    returnPct: Annotated[Exact | None, described("result as a percentage of cost")]
    matchedRaw: Annotated[Whole, described("units sold with a known cost")]
    unmatchedRaw: Whole
    lots: list[Lot]
    resultLamports: Annotated[Whole | None, described("null unless the currency is SOL")]
    resultSol: Exact | None
    proceedsLamports: Whole | None
    costLamports: Whole | None


class OutsideVenue(TypedDict):
    """Changes in a trade's transaction that didn't go through the venue."""

    solLamports: Whole
    tokenChanges: list[TokenChange]


class Trade(TypedDict):
    """A finalized transaction of an observed wallet."""

    id: str
    botId: str
    wallet: Address
    signature: Signature
    slot: int
    transactionIndex: int | None
    blockTime: Annotated[int | None, described("Unix seconds, as reported by the chain")]
    eventAt: Time | None
    kind: TradeKind
    currency: Annotated[
        CurrencySymbol | None, described("currency of a buy, sell or round trip; never converted")
    ]
    venue: Annotated[str | None, described("the program it ran on; `A > B`: A called B")]
    mint: Annotated[Address | None, described("the traded token; tokenChanges lists all")]
    symbol: Untrusted | None
    tokenChanges: list[TokenChange]
    solChangeLamports: Annotated[
        Whole, described("includes wrapped SOL, excludes deposits in the wallet's own accounts")
    ]
    solChange: Exact
    feeLamports: Whole
    tipLamports: Whole
    rentLamports: Annotated[Whole, described("change of the deposits in its own token accounts")]
    realized: Realized
    explainedShare: Annotated[
        Share | None,
        described(
            "share of the value that passed through the venue; below 0.95 there is no result;"
            " null if nothing is priced"
        ),
    ]
    counterparties: Annotated[list[Address], described("the accounts the value came from")]
    outsideVenue: Annotated[OutsideVenue | None, described("changes that aren't part of the trade")]
    flags: Annotated[
        list[str],
        described(
            "caveats about its numbers: ambiguous, basis_carried, counterparty_signed,"
            " fed_market, fee_income, fee_only, incomplete_history, no_swap, not_signer,"
            " opening_inventory_unknown, order_unresolved, own_transfer, own_wallets,"
            " owner_inferred, paid_elsewhere, residue, sponsored_rent, tip_only,"
            " unrecognised_program, value_unexplained"
        ),
    ]
    coverage: Annotated[CoverageState, described("coverage of the wallet's history")]
    copied: Annotated[
        Whole | None,
        described(
            "for a sale: the maximum that a follower with 1 SOL per purchase "
            "would have received after network costs, in lamports"
        ),
    ]
    copiedReason: Annotated[
        Excluded | None,
        described("reason if a buy or sell can't be followed; null if not calculated"),
    ]
    explorerUrl: Annotated[str | None, described("null in a demonstration")]


class TradePage(FollowedPage):
    """Trades, newest first. With `since`, trades that arrived later, in order of arrival."""

    data: list[Trade]
    coverage: Annotated[
        Coverage | None, described("coverage of the wallet, if the filters select a single wallet")
    ]


class TokenTrade(TypedDict):
    """A purchase or sale of one token."""

    side: Literal["buy", "sell"]
    botId: str
    botName: Untrusted
    wallet: Address
    amountRaw: Annotated[Whole, described("bought or sold through the venue")]
    amount: Annotated[Exact | None, described("as displayed, like a Trade's change")]
    decimals: int
    currency: CurrencySymbol | None
    solChangeLamports: Annotated[Whole, described("value of the whole transaction, as in Trade")]
    solChange: Exact
    eventAt: Time | None
    slot: int
    signature: Signature
    tradeId: str
    kind: Annotated[str, described("as in Trade")]
    explainedShare: Share | None
    outsideVenue: OutsideVenue | None
    flags: Annotated[list[str], described("flags, as in Trade")]
    explorerUrl: Annotated[str | None, described("null in a demonstration")]


class Activity(Page):
    """The observed wallets that bought or sold one token."""

    mint: Address
    symbol: Untrusted | None
    data: list[TokenTrade]
    buyers: Annotated[int, described("wallets that bought it")]
    sellers: Annotated[int, described("wallets that sold it")]
    walletsTracked: Annotated[int, described("wallets this instance observes")]


# ---- trade rows ----------------------------------------------------------------------------------
class TradeSortKey(NamedTuple):
    """For every list of trades. `place` is the trade's place in the slot."""

    slot: int
    place: int
    id: int


# As in models.Trade. `explained` is 0 to 100.
TRADE_COLUMNS = """
SELECT t.slot, t.place, t.id, t.uid, b.uid AS bot, w.address AS wallet, t.signature,
       t.tx_index AS transaction_index,
       t.block_time, t.kind, t.venue, t.mint, t.token_changes, t.sol_change, t.fee, t.tip, t.rent,
       t.currency, t.realized, t.result, t.proceeds, t.cost, t.matched_raw, t.unmatched_raw, t.lots,
       t.paid_elsewhere, t.flags, t.beside_sol, t.beside_tokens, t.explained, t.counterparties,
       c.lamports AS copied, c.reason AS copied_reason
"""
ITS_BOT = f"JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}"
COPIED = "LEFT JOIN copied_trade c ON c.trade_id = t.id"
TRADE = f"{TRADE_COLUMNS}FROM trade t {ITS_BOT} {COPIED}"
# Matches the rows of a table of token changes that moved a mint.
OF_MINT = f"{{}}.mint_id = {NUMBER_OF_MINT.format('?')}"
TRADE_OF_MINT = (
    f"{TRADE_COLUMNS}FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT} {COPIED}"
)


# The part of a wallet's trades that a list includes: all, or those that belong to a bot. `begins`
# and `ends` are in ms, or null. The first block time is included, the last isn't.
SPAN_OF_WALLET = """
SELECT w.id AS wallet_id, w.address, w.coverage, NULL AS begins, NULL AS ends FROM wallet w
"""
SPAN_OF_BOT = """
SELECT w.id AS wallet_id, w.address, w.coverage,
       CASE WHEN w.bot_id = b.id THEN w.bot_since END AS begins,
       CASE WHEN w.earlier_bot_id = b.id THEN w.bot_since END AS ends
FROM bot b JOIN wallet w ON w.bot_id = b.id OR w.earlier_bot_id = b.id
"""


# Purchases and sales of a token, including sides of swaps.
ACTIVITY = f"""
SELECT m.slot, m.place, m.trade_id AS id, m.side, b.uid AS bot, b.name AS bot_name,
       w.address AS wallet, t.token_changes, t.sol_change, t.block_time, t.signature,
       t.uid AS trade, t.kind, t.flags, t.currency, t.beside_sol, t.beside_tokens, t.explained
FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT}
"""
# Steps through the index from wallet to wallet, however many trades each has.
TRADERS_OF_MINT = f"""
WITH RECURSIVE trader (id) AS (
    SELECT MIN(m.wallet_id) FROM trade_mint m WHERE {OF_MINT.format("m")} AND m.side = ?
    UNION ALL
    SELECT (SELECT MIN(m.wallet_id) FROM trade_mint m
            WHERE {OF_MINT.format("m")} AND m.side = ? AND m.wallet_id > trader.id)
    FROM trader WHERE trader.id IS NOT NULL)
SELECT COUNT(id) FROM trader"""


# Above every trade. With it, the first page uses the same search as the others.
ABOVE_ALL = TradeSortKey(2**62, 2**62, 2**62)


def find_sort_key(row: Any) -> TradeSortKey:
    return TradeSortKey(row.slot, row.place, row.id)


# An order's fill has a currency if a market filled it.
PAID_IN = "t.currency = ? AND (t.kind <> 'order_fill' OR t.realized <> 'not_applicable')"


def read_trades(
    limit: int,
    before: TradeSortKey | None = None,
    up_to: int | None = None,
    spans: Sequence[Any] | None = None,
    mint: str | None = None,
    kinds: Collection[str] = (),
    money: str | None = None,
    floor: TradeSortKey | None = None,
) -> list[Any]:
    """Return trades, newest first: sort keys below `before`, IDs up to `up_to`.

    `spans`: spans of wallets, or None for all. With `kinds` or `money`, trades are examined one by
    one, down to the sort key `floor`.
    """
    of_kind = (
        # Don't use the index of kinds, because it has another order.
        (f"t.kind || '' IN ({write_marks([*kinds])})", *sorted(kinds)) if kinds else None,
        (PAID_IN, money) if money is not None else None,
        _compare_sort_key(">=", mint, floor) if floor else None,
    )
    if spans is None:
        return _read_trades(limit, before, up_to, None, mint, of_kind)
    # Each list uses its index. A bot has only a few wallets.
    lists = [_read_trades(limit, before, up_to, span, mint, of_kind) for span in spans]
    return list(heapq.merge(*lists, key=find_sort_key, reverse=True))[:limit]


def _read_trades(
    limit: int,
    before: TradeSortKey | None,
    up_to: int | None,
    span: Any,
    mint: str | None,
    more: Sequence[Condition] = (),
) -> list[Any]:
    sql, values = write_select(
        TRADE_OF_MINT if mint else TRADE,
        [
            *_below(before, span, mint, "t.id"),
            # The plus keeps SQLite from scanning by ID and sorting.
            ("+t.id <= ?", up_to) if up_to is not None else None,
            *more,
        ],
        _order_newest(mint) + " LIMIT ?",
    )
    return read(sql, [*values, limit], **STORED)


def find_oldest_key(
    count: int, before: TradeSortKey | None, span: Any, mint: str | None
) -> TradeSortKey | None:
    table = "trade_mint m" if mint else "trade t"
    sql, values = write_select(
        f"SELECT {', '.join(_sort_columns(mint))} FROM {table}",
        _below(before, span, mint, "m.trade_id" if mint else "t.id"),
        _order_newest(mint) + " LIMIT 1 OFFSET ?",
    )
    return select_one(TradeSortKey, sql, [*values, count - 1])


def _sort_columns(mint: str | None) -> tuple[str, str, str]:
    return ("m.slot", "m.place", "m.trade_id") if mint else ("t.slot", "t.place", "t.id")


def _compare_sort_key(sign: str, mint: str | None, key: TradeSortKey) -> Condition:
    return f"({', '.join(_sort_columns(mint))}) {sign} (?, ?, ?)", *key


def _order_newest(mint: str | None) -> str:
    return "ORDER BY " + ", ".join(f"{column} DESC" for column in _sort_columns(mint))


def _below(
    before: TradeSortKey | None, span: Any, mint: str | None, trade: str
) -> Sequence[Condition]:
    """Return conditions for a wallet and token below a sort key. `trade`: SQL of a trade's ID."""
    return (
        (OF_MINT.format("m"), mint) if mint else None,
        (f"{'m' if mint else 't'}.wallet_id = ?", span.wallet_id) if span else None,
        *_of_span(span, trade),
        _compare_sort_key("<", mint, before or ABOVE_ALL),
    )


def read_trades_by_id(ids: Sequence[int]) -> dict[int, Any]:
    return find_rows(f"{TRADE} WHERE t.id", ids)


def find_wallets(address: str | None = None, bot: str | None = None) -> list[Any]:
    """Return the spans of the wallet with this address, or of this bot's wallets (uid)."""
    sql, values = write_select(
        SPAN_OF_BOT if bot else SPAN_OF_WALLET,
        [("b.uid = ?", bot) if bot else None, ("w.address = ?", address) if address else None],
        "ORDER BY w.id",
    )
    return read(sql, values)


def _of_span(span: Any, trade: str) -> Sequence[Condition]:
    """Return the conditions for write_select (BOT_OF_TRADE). `trade` is the SQL of a trade's ID."""
    time = f"(SELECT s.block_time * 1000 FROM trade s WHERE s.id = {trade})"
    return (
        (f"{time} >= ?", span.begins) if span and span.begins is not None else None,
        (f"COALESCE({time}, 0) < ?", span.ends) if span and span.ends is not None else None,
    )


def read_activity(mint: str, limit: int, before: TradeSortKey | None = None) -> list[Any]:
    sql, values = write_select(
        ACTIVITY,
        [
            (f"{OF_MINT.format('m')} AND m.side IS NOT NULL", mint),
            _compare_sort_key("<", mint, before) if before else None,
        ],
        _order_newest(mint) + " LIMIT ?",
    )
    return read(sql, [*values, limit], **STORED)


def count_sides(mint: str) -> dict[str, int]:
    return {side: select_value(TRADERS_OF_MINT, (mint, side) * 2) for side in ("buy", "sell")}


# The newest trade up to an arrival, skipping trades that a rebuild removed.
LAST_TRADE = """
SELECT trade_id FROM arrival WHERE trade_id IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1
"""


def read_trades_since(
    limit: int, after: int, spans: Sequence[Any] | None = None, mint: str | None = None
) -> list[paging.Arrived]:
    """Return the trades after this arrival, in order, equally fast for any filter or distance.

    Trades are numbered in order of arrival, so one look-up turns the arrival into a trade's ID, and
    each filter has an index that starts there. Clients see only the arrival's number.
    """
    last = select_value(LAST_TRADE, (after,)) or 0
    lists = [
        _list_arrived(limit, last, span, mint) for span in (spans if spans is not None else (None,))
    ]
    return merge_arrivals(lists, limit, read_trades_by_id)


def _list_arrived(limit: int, last: int, span: Any, mint: str | None) -> list[Any]:
    table, column = ("trade_mint", "trade_id") if mint else ("trade", "id")
    sql, values = write_select(
        f"SELECT r.id AS arrival, t.{column} AS row_id FROM {table} t CROSS JOIN arrival r",
        [
            (f"r.trade_id = t.{column} AND t.{column} > ?", last),
            (OF_MINT.format("t"), mint) if mint else None,
            ("t.wallet_id = ?", span.wallet_id) if span else None,
            *_of_span(span, f"t.{column}"),
        ],
        f"ORDER BY t.{column} LIMIT ?",
    )
    return read(sql, [*values, limit])


# ---- trades --------------------------------------------------------------------------------------
def show_trades(rows: Sequence[Any]) -> list[Trade]:
    """Return Trades, with symbols from the market, which are untrusted text like all names.

    A damaged trade is left out. `doctor` reports it, and `rebuild` repairs it.
    """
    rows = [row for row in rows if not is_damaged(row)]
    changes = (change for row in rows for change in (*row.token_changes, *row.beside_tokens))
    symbols = market.find_symbols(sorted({mint for mint, _, _ in changes}))
    states = find_states({row.wallet for row in rows})
    scales = read_scales() if rows else {}
    return [show_trade(row, symbols, states[row.wallet], scales) for row in rows]


STATES = "SELECT address, coverage FROM wallet WHERE address IN "


def find_states(wallets: Iterable[str]) -> dict[str, CoverageState]:
    asked = sorted(wallets)
    rows = read(f"{STATES}({write_marks(asked)})", asked) if asked else []
    return {row.address: read_coverage(row.coverage)["state"] for row in rows}


def show_trade(row: Any, symbols: Mapping[str, str], state: CoverageState, scales: Scales) -> Trade:
    money = find_money(row.kind, row.currency, row.realized)
    return fill(
        Trade,
        row,
        eventAt=show_seconds(row.block_time),
        currency=money and money.symbol,
        symbol=symbols.get(row.mint or ""),
        tokenChanges=show_changes(row, row.token_changes, symbols, scales),
        solChange=show_sol(row.sol_change),
        realized=_show_realized(row, money),
        outsideVenue=_show_outside(row, symbols, scales),
        flags=[*row.flags, PAID_ELSEWHERE] if row.paid_elsewhere else row.flags,
        coverage=state,
        explorerUrl=explorer_url(row.signature),
    )


def find_money(kind: str, currency: str | None, status: str | None = None) -> Currency | None:
    """Return a trade's currency, or None if nothing was paid. `currency`: as stored."""
    return CURRENCIES.get(currency or "") if is_paid(kind, status) else None


def is_paid(kind: str, status: str | None) -> bool:
    """Return whether a trade has a currency. An order has a result only if a market filled it."""
    return kind in PAID_KINDS or (kind in PAYABLE_KINDS and status not in (None, "not_applicable"))


def _show_realized(row: Any, money: Currency | None) -> Realized:
    decimals, in_sol = money.decimals if money else 0, row.currency == ""
    return fill(
        Realized,
        row,
        status=row.realized,
        currency=money and money.symbol,
        result=None if row.result is None else exact(row.result, decimals),
        returnPct=show_percentage(row.result, row.cost),
        lots=[
            {
                "tradeId": trade,
                "amountRaw": str(amount),
                "costRaw": show_raw(cost),
                "costLamports": show_raw(cost) if in_sol else None,
            }
            for trade, amount, cost in row.lots
        ],
        resultLamports=show_raw(row.result) if in_sol else None,
        resultSol=show_sol(row.result) if in_sol else None,
        proceedsLamports=show_raw(row.proceeds) if in_sol else None,
        costLamports=show_raw(row.cost) if in_sol else None,
    )


def _show_outside(row: Any, symbols: Mapping[str, str], scales: Scales) -> OutsideVenue | None:
    if not row.beside_tokens and not row.beside_sol:
        return None
    return {
        "solLamports": str(row.beside_sol),
        "tokenChanges": show_changes(row, row.beside_tokens, symbols, scales),
    }


def read_outside(shown: Json) -> Json:
    return shown["outsideVenue"] or {"solLamports": "0", "tokenChanges": []}


def show_changes(
    row: Any,
    changes: Iterable[Sequence[Any]],
    symbols: Mapping[str, str],
    scales: Scales,
) -> list[TokenChange]:
    return [
        show_change(change, symbols, find_multiplier(scales, change[0], row.block_time))
        for change in changes
    ]


def show_change(
    change: Sequence[Any], symbols: Mapping[str, str], multiplier: Fraction | None
) -> TokenChange:
    mint, raw, decimals = change
    return {
        "mint": mint,
        "symbol": symbols.get(mint),
        "changeRaw": str(raw),
        "change": show_amount(int(raw), decimals, multiplier),
        "decimals": decimals,
        "multiplier": write_multiplier(multiplier),
    }


def explorer_url(signature: str) -> str:
    return f"https://solscan.io/tx/{signature}"


# ---- who traded a token --------------------------------------------------------------------------
def list_moving(rows: Iterable[Any], mint: str) -> list[Any]:
    """List the readable rows, with the amounts of the token that they moved."""
    return [
        row
        for row in rows
        if not is_damaged(row) and any(change.mint == mint for change in list_moved(row))
    ]


def list_moved(row: Any) -> list[Change]:
    """List the tokens that a trade bought and sold: its changes minus those outside its venue."""
    return list_venue_changes(row.token_changes, row.beside_tokens)


def show_activity(row: Any, mint: str, scales: Scales) -> TokenTrade:
    change = next(one for one in list_moved(row) if one.mint == mint)
    amount, money = abs(change.raw), find_money(row.kind, row.currency)
    multiplier = find_multiplier(scales, mint, row.block_time)
    return fill(
        TokenTrade,
        row,
        amountRaw=str(amount),
        amount=show_amount(amount, change.decimals, multiplier),
        decimals=change.decimals,
        currency=money and money.symbol,
        solChange=show_sol(row.sol_change),
        eventAt=show_seconds(row.block_time),
        outsideVenue=_show_outside(row, {}, scales),
        explorerUrl=explorer_url(row.signature),
    )


# ---- searching -----------------------------------------------------------------------------------
# Maximum number of a wallet's, a token's or the instance's trades to examine for one page.
MAX_LOOK_BACK = 2_000
# Arrivals to search at a time.
BATCH = 100
TRADE_KINDS: tuple[str, ...] = get_args(TradeKind)
EVERY_TRADE = "trade"


class Wanted(NamedTuple):
    """Which trades to find.

    They are in the wallets' `spans` (None for all), with any of `mints` (None for all), of `kinds`
    (empty for all), and paid in a ledger currency (None for any or none). With kinds, trades are
    examined one by one.
    """

    spans: Sequence[Any] | None
    mints: Sequence[str] | None = None
    kinds: frozenset[str] = frozenset()
    money: str | None = None


class Found(NamedTuple):
    """A page of trades, newest first.

    `sort_key` is where older trades continue, or None. `ended_early` is whether the look-back ended
    before the page was full.
    """

    rows: Sequence[Any]
    sort_key: TradeSortKey | None
    ended_early: bool = False


def find_trades(
    wanted: Wanted, limit: int, before: TradeSortKey | None = None, up_to: int | None = None
) -> Found:
    """Find a page of trades below a sort key. With `up_to`, higher IDs are left out."""
    floor = _find_floor(wanted, before) if wanted.kinds else None
    rows = {
        row.id: row
        for mint in _list_mints(wanted)
        for row in read_trades(
            limit + 1, before, up_to, wanted.spans, mint, wanted.kinds, wanted.money, floor
        )
    }
    newest = sorted(rows.values(), key=find_sort_key, reverse=True)
    if len(newest) > limit:
        return Found(newest[:limit], find_sort_key(newest[limit - 1]))
    return Found(newest, floor, floor is not None)


def find_arrived(wanted: Wanted, limit: int, after: int) -> tuple[list[Any], int]:
    """Find a page of trades after this arrival, among the next MAX_LOOK_BACK.

    Also returns the arrival of the last trade examined.
    """
    (mint,) = _list_mints(wanted)
    rows: list[Any] = []
    size, looked = BATCH if wanted.kinds else limit, 0
    while looked < MAX_LOOK_BACK:
        arrived = read_trades_since(size, after, wanted.spans, mint)
        looked += size
        for one in arrived:
            after = one.arrival
            if is_wanted(wanted, one.row):
                rows.append(one.row)
            if len(rows) == limit:
                return rows, after
        if len(arrived) < size:
            break
    return rows, after


def is_wanted(wanted: Wanted, row: Any) -> bool:
    if wanted.kinds and row.kind not in wanted.kinds:
        return False
    if wanted.money is None:
        return True
    return wanted.money == row.currency and is_paid(row.kind, row.realized)


def expand_kinds(words: Sequence[str]) -> frozenset[str]:
    kinds = {kind for word in words for kind in (TRADES if word == EVERY_TRADE else (word,))}
    return frozenset(kinds)


def _find_floor(wanted: Wanted, before: TradeSortKey | None) -> TradeSortKey | None:
    """Return the oldest sort key to examine, or None if there is no limit."""
    ends = [
        find_oldest_key(MAX_LOOK_BACK, before, span, mint)
        for span in (wanted.spans if wanted.spans is not None else (None,))
        for mint in _list_mints(wanted)
    ]
    return max((end for end in ends if end is not None), default=None)


def _list_mints(wanted: Wanted) -> Sequence[str | None]:
    return (None,) if wanted.mints is None else wanted.mints


# ---- routes --------------------------------------------------------------------------------------
def read_wanted(args: Args) -> tuple[Wanted, paging.Scope]:
    bot, wallet, mint = read_bot(args), read_address(args, "wallet"), read_address(args, "mint")
    kinds, currency = read_kinds(args), read_currency(args)
    spans = find_wallets(wallet, bot) if wallet or bot else None
    scope = ("trades", wallet, mint, bot, args.get("kind"), currency)
    money = None if currency is None else map_currencies()[currency]
    if money is not None:
        payable = frozenset(PAYABLE_KINDS)
        # If no requested kind has a currency, the empty kind makes the query return no rows.
        kinds = (kinds or payable) & payable or frozenset(("",))
    return Wanted(spans, [mint] if mint else None, kinds, money), scope


def read_kinds(args: Args) -> frozenset[str]:
    """Return the comma-separated kinds in the query. If it is empty, all kinds are wanted."""
    if "kind" not in args:
        return frozenset()
    allowed = (*TRADE_KINDS, EVERY_TRADE)
    words = args["kind"].split(",")
    for word in words:
        read_choice({"kind": word}, "kind", allowed, "")
    return expand_kinds(words)


@v1.cached_list(
    "/trades",
    Trade,
    "cursor",
    "since",
    "wallet",
    "mint",
    "botId",
    "kind",
    "currency",
    page=TradePage,
)
def list_trades(args: Args) -> Json:
    """Finalized wallet activity, newest first. Raw token amounts, SOL changes, and matched realized
    PnL.
    """
    limit, (wanted, scope) = paging.read_limit(args), read_wanted(args)
    spans = wanted.spans
    one = spans[0] if spans and len(spans) == 1 else None
    coverage = one and show_coverage(one.address, one.coverage)
    after, head = read_since(args), paging.find_head()
    if after is not None:
        rows, last = find_arrived(wanted, limit, after)
        newest = write_newest(last)
        return v1.show_list(show_trades(rows), limit, newestCursor=newest, coverage=coverage)
    before = paging.read_cursor(args, scope, TradeSortKey)
    found = find_trades(wanted, limit, before, None if before else head.trade)
    return v1.show_list(
        show_trades(found.rows),
        limit,
        found.sort_key and paging.write_cursor(scope, found.sort_key),
        newestCursor=write_newest(head.arrival),
        coverage=coverage,
    )


@v1.cached_list("/activity", TokenTrade, "cursor", "mint", page=Activity, required="mint")
def list_activity(args: Args) -> Json:
    """Who bought or sold a token"""
    limit, mint = paging.read_limit(args), read_address(args, "mint")
    if mint is None:
        raise refuse("mint", "is required: a base58 address of 32 bytes")
    scope = ("activity", mint)
    before = paging.read_cursor(args, scope, TradeSortKey)
    rows = read_activity(mint, limit + 1, before)
    page, sides = paging.cut_page(rows, limit, scope, find_sort_key), count_sides(mint)
    scales = read_scales()
    return v1.show_list(
        [show_activity(row, mint, scales) for row in list_moving(page.rows, mint)],
        limit,
        page.cursor,
        mint=mint,
        symbol=market.find_symbols([mint]).get(mint),
        buyers=sides["buy"],
        sellers=sides["sell"],
        walletsTracked=count_tracked(),
    )
