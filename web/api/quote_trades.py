"""What single trades against a stablecoin made in it, and why others have no such result."""

from collections.abc import Sequence
from typing import NamedTuple

from chain.lots import UNEXPLAINED
from chain.quotes import QUOTES
from web.api.quote_results import show_amount, show_quote
from web.api.serialize import READING_AGAIN, Json
from web.api.statements import TradeRow
from web.server.rows import select, write_marks

# Kinds whose other side is SOL, and all that trade.
AGAINST_SOL = frozenset(("buy", "sell", "round_trip"))
PRICED = AGAINST_SOL | {"swap"}


class QuoteTradeRow(NamedTuple):
    """A trade against a stablecoin. `kind`: buy | sell; `change`, `result`, `proceeds` and
    `cost` in raw units of the stablecoin, the other two of the token; `is_cross`: 1 where it sold
    lots that were bought for SOL or another stablecoin.
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


QUOTED = f"SELECT {', '.join(QuoteTradeRow._fields)} FROM quote_trade WHERE trade_id IN "
UNDERIVED = "SELECT address FROM wallet WHERE by_quote IS NULL AND address IN "
TABLE = {quote.mint: quote for quote in QUOTES}


def find_quotes(rows: Sequence[TradeRow]) -> dict[int, Json]:
    """Return {id: `quote` and `quoteReason`} of trades."""
    ids = [row.id for row in rows]
    found: dict[int, QuoteTradeRow] = {}
    for one in select(QuoteTradeRow, f"{QUOTED}({write_marks(ids)})", ids):
        # One stablecoin for another is in two ledgers: it is a sale in the one it brought.
        if one.trade_id not in found or one.kind == "sell":
            found[one.trade_id] = one
    unread = _find_underived([row.wallet for row in rows if row.id not in found])
    return {
        row.id: {"quote": show_quote_trade(found[row.id]), "quoteReason": None}
        if row.id in found
        else {"quote": None, "quoteReason": _find_reason(row, row.wallet in unread)}
        for row in rows
    }


def _find_underived(addresses: Sequence[str]) -> set[str]:
    """Return those of these wallets whose ledgers in stablecoins were not derived yet."""
    asked = sorted(set(addresses))
    return set(select(str, f"{UNDERIVED}({write_marks(asked)})", asked)) if asked else set()


def _find_reason(row: TradeRow, is_unread: bool) -> str:
    if row.kind not in PRICED:
        return "not_a_trade"
    if row.kind in AGAINST_SOL:
        return "in_sol"
    if is_unread:
        return READING_AGAIN
    return UNEXPLAINED if f'"{UNEXPLAINED}"' in row.flags else "no_stablecoin"


def show_quote_trade(row: QuoteTradeRow) -> Json:
    """Make the QuoteTrade."""
    quote = TABLE[row.quote]
    amounts = {"realized": row.result, "cost": row.cost, "proceeds": row.proceeds}
    shown: Json = {}
    for name, raw in amounts.items():
        shown |= show_amount(name, raw, quote)
    return {
        **show_quote(quote),
        "side": row.kind,
        **show_amount("change", row.change, quote),
        "status": row.status,
        **shown,
        "matchedRaw": row.matched_raw,
        "unmatchedRaw": row.unmatched_raw,
        "costInOtherCurrency": bool(row.is_cross),
    }
