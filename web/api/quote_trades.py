"""What single trades against a stablecoin made in it, and why others have no such result."""

from collections.abc import Sequence
from typing import NamedTuple

from chain.ledger.lots import UNEXPLAINED
from chain.ledger.quote_book import QuoteSale
from chain.reading.quotes import QUOTES, Quote
from storage.rows import select, write_marks
from web.api.quote_results import show_amount, show_quote
from web.api.serialize import Json
from web.api.statements import TradeRow

# Kinds whose other side is SOL, and all that trade.
AGAINST_SOL = frozenset(("buy", "sell", "round_trip"))
PRICED = AGAINST_SOL | {"swap"}


class QuoteTradeRow(NamedTuple):
    """A trade against a stablecoin, as QuoteSale has it. `kind`: buy | sell; `change`, `result`,
    `proceeds` and `cost` in raw units of the stablecoin, the other two of the token; `is_cross`: 1
    where it sold lots that were bought for SOL or another stablecoin.
    """

    trade_id: int
    quote: str
    kind: str
    change: int
    status: str
    result: int | None
    proceeds: int | None
    cost: int | None
    matched_raw: str
    unmatched_raw: str
    is_cross: int

    @property
    def sale(self) -> QuoteSale:
        """What the trade made in `quote`."""
        return QuoteSale(*(getattr(self, name) for name in QuoteSale._fields))


# One stablecoin for another is in two ledgers: it is told as the sale in the one that it brought.
QUOTED = f"""
SELECT {", ".join(QuoteTradeRow._fields)} FROM quote_trade WHERE trade_id IN ({{trades}})
ORDER BY kind DESC, quote"""
TABLE = {quote.mint: quote for quote in QUOTES}


def find_quotes(rows: Sequence[TradeRow]) -> dict[int, Json]:
    """Return {id: `quote` and `quoteReason`} of trades."""
    ids = [row.id for row in rows]
    found: dict[int, QuoteTradeRow] = {}
    for one in select(QuoteTradeRow, QUOTED.format(trades=write_marks(ids)), ids):
        found.setdefault(one.trade_id, one)
    return {
        row.id: show_quoted(found[row.id].quote, found[row.id].sale)
        if row.id in found
        else show_unquoted(row.kind, row.flags)
        for row in rows
    }


def show_quoted(mint: str, sale: QuoteSale) -> Json:
    """Make `quote` and `quoteReason` of a trade against the stablecoin of this mint."""
    return {"quote": show_quote_trade(TABLE[mint], sale), "quoteReason": None}


def show_unquoted(kind: str, flags: Sequence[str]) -> Json:
    """Make `quote` and `quoteReason` of a trade against none."""
    return {"quote": None, "quoteReason": _find_reason(kind, flags)}


def _find_reason(kind: str, flags: Sequence[str]) -> str:
    if kind not in PRICED:
        return "not_a_trade"
    if kind in AGAINST_SOL:
        return "in_sol"
    return UNEXPLAINED if UNEXPLAINED in flags else "no_stablecoin"


def show_quote_trade(quote: Quote, sale: QuoteSale) -> Json:
    """Make the QuoteTrade."""
    amounts = {"realized": sale.result, "cost": sale.cost, "proceeds": sale.proceeds}
    shown: Json = {}
    for name, raw in amounts.items():
        shown |= show_amount(name, raw, quote)
    return {
        **show_quote(quote),
        "side": sale.kind,
        **show_amount("change", sale.change, quote),
        "status": sale.status,
        **shown,
        "matchedRaw": sale.matched_raw,
        "unmatchedRaw": sale.unmatched_raw,
        "costInOtherCurrency": bool(sale.is_cross),
    }
