"""Results of trades for a stablecoin, and why other trades have none."""

from collections.abc import Sequence

from chain.ledger.sales import UNEXPLAINED
from chain.reading.beside import list_venue_changes
from chain.reading.kinds import TRADES
from chain.reading.quotes import QUOTES
from web.api.post_statements import PostRow
from web.api.quote_results import show_amount, show_quote
from web.api.serialize import Json
from web.api.statements import TradeRow

TABLE = {quote.mint: quote for quote in QUOTES}


def show_in_quote(row: TradeRow | PostRow, kind: str, flags: Sequence[str]) -> Json:
    """Make `quote` and `quoteReason` of a trade."""
    if row.currency:
        return {"quote": _show_quote_trade(row), "quoteReason": None}
    is_sale = row.realized != "not_applicable"
    return {"quote": None, "quoteReason": _find_reason(kind, flags, is_sale)}


def _find_reason(kind: str, flags: Sequence[str], is_sale: bool) -> str:
    if kind not in TRADES and not is_sale:
        return "not_a_trade"
    if kind != "swap":
        return "in_sol"
    return UNEXPLAINED if UNEXPLAINED in flags else "no_stablecoin"


def _show_quote_trade(row: TradeRow | PostRow) -> Json:
    """Make the QuoteTrade."""
    quote = TABLE[row.currency or ""]
    moved = list_venue_changes(row.token_changes or (), row.beside_tokens or ())
    change = sum(one.raw for one in moved if one.mint == quote.mint)
    return {
        **show_quote(quote),
        "side": "sell" if change > 0 else "buy",
        **show_amount("change", change, quote),
        "status": row.realized,
        **show_amount("realized", row.result, quote),
        **show_amount("cost", row.cost, quote),
        **show_amount("proceeds", row.proceeds, quote),
        "matchedRaw": row.matched_raw,
        "unmatchedRaw": row.unmatched_raw,
        "costInOtherCurrency": bool(row.paid_elsewhere),
    }
