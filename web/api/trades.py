"""Show trades, and which wallets bought or sold a token: their shapes, how rows become them, and
the search by kind or currency.

The search examines only the latest trades of each wallet, or the next arrivals.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, get_args

from chain.amounts import ONE, Scale, exact, load_scale, show_amount, show_raw
from chain.reading.currencies import CURRENCIES, Currency, map_currencies
from chain.reading.flows import Change, list_venue_changes
from chain.reading.kinds import TRADES
from chain.stored.derived import read_coverage
from storage.rows import is_damaged, read, write_marks
from web.api import market, paging, queries, v1
from web.api.copying import Excluded
from web.api.paging import (
    Args,
    read_address,
    read_bot,
    read_choice,
    read_currency,
    read_since,
    refuse,
    write_newest,
)
from web.api.queries import TradePosition, find_place
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
    TradeKind,
    TypedDict,
    Untrusted,
    Whole,
    described,
)
from web.api.wallets import Coverage, CoverageState, show_coverage

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
def show_activities(rows: Iterable[Any], mint: str) -> list[TokenTrade]:
    scales = read_scales()
    return [show_activity(row, mint, scales) for row in list_moving(rows, mint)]


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

    `position` is where older trades continue, or None. `ended_early` is whether the look-back ended
    before the page was full.
    """

    rows: Sequence[Any]
    position: TradePosition | None
    ended_early: bool = False


def find_trades(
    wanted: Wanted, limit: int, before: TradePosition | None = None, up_to: int | None = None
) -> Found:
    """Find a page of trades below a position. With `up_to`, higher IDs are left out."""
    floor = _find_floor(wanted, before) if wanted.kinds else None
    rows = {
        row.id: row
        for mint in _list_mints(wanted)
        for row in queries.list_trades(
            limit + 1, before, up_to, wanted.spans, mint, wanted.kinds, wanted.money, floor
        )
    }
    newest = sorted(rows.values(), key=queries.find_place, reverse=True)
    if len(newest) > limit:
        return Found(newest[:limit], queries.find_place(newest[limit - 1]))
    return Found(newest, floor, floor is not None)


class Arrived(NamedTuple):
    """A page of trades in order of arrival. `arrival` is the number of the last trade examined."""

    rows: Sequence[Any]
    arrival: int


def find_arrived(wanted: Wanted, limit: int, after: int) -> Arrived:
    """Find a page of trades after this arrival, among the next MAX_LOOK_BACK."""
    (mint,) = _list_mints(wanted)
    rows: list[Any] = []
    size, looked = BATCH if wanted.kinds else limit, 0
    while looked < MAX_LOOK_BACK:
        arrived = queries.list_trades_since(size, after, wanted.spans, mint)
        looked += size
        for one in arrived:
            after = one.arrival
            if is_wanted(wanted, one.row):
                rows.append(one.row)
            if len(rows) == limit:
                return Arrived(rows, after)
        if len(arrived) < size:
            break
    return Arrived(rows, after)


def is_wanted(wanted: Wanted, row: Any) -> bool:
    if wanted.kinds and row.kind not in wanted.kinds:
        return False
    if wanted.money is None:
        return True
    return wanted.money == row.currency and is_paid(row.kind, row.realized)


def expand_kinds(words: Sequence[str]) -> frozenset[str]:
    kinds = {kind for word in words for kind in (TRADES if word == EVERY_TRADE else (word,))}
    return frozenset(kinds)


def _find_floor(wanted: Wanted, before: TradePosition | None) -> TradePosition | None:
    """Return the oldest position to examine, or None if there is no limit."""
    ends = [
        queries.find_trade_position(MAX_LOOK_BACK, before, span, mint)
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
    spans = queries.find_wallets(wallet, bot) if wallet or bot else None
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
    after, head = read_since(args), queries.find_head()
    if after is not None:
        arrived = find_arrived(wanted, limit, after)
        return v1.show_list(
            show_trades(arrived.rows),
            limit,
            newestCursor=write_newest(arrived.arrival),
            coverage=coverage,
        )
    position = paging.read_cursor(args, scope, TradePosition)
    found = find_trades(wanted, limit, position, None if position else head.trade)
    return v1.show_list(
        show_trades(found.rows),
        limit,
        found.position and paging.write_cursor(scope, found.position),
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
    before = paging.read_cursor(args, scope, TradePosition)
    rows = queries.list_activity(mint, limit + 1, before)
    page, sides = paging.cut_page(rows, limit, scope, find_place), queries.count_sides(mint)
    return v1.show_list(
        show_activities(page.rows, mint),
        limit,
        page.cursor,
        mint=mint,
        symbol=market.find_symbols([mint]).get(mint),
        buyers=sides.get("buy", 0),
        sellers=sides.get("sell", 0),
        walletsTracked=queries.count_tracked(),
    )
