"""Trades as the interface shows them, with results in SOL and in stablecoins."""

from collections.abc import Sequence

from web.api import market, quote_trades
from web.api.serialize import Json, parse_changes, show_trade
from web.api.statements import TradeRow


def show_trades(rows: Sequence[TradeRow]) -> list[Json]:
    """Make Trades, with the symbols the market knows (hostile text, like all names)."""
    changes = [parse_changes(row.token_changes) for row in rows]
    beside = [parse_changes(row.beside_tokens) for row in rows]
    mints = {change.mint for moved in (*changes, *beside) for change in moved}
    symbols = market.find_symbols(sorted(mints))
    quotes = quote_trades.find_quotes(rows)
    return [
        {**show_trade(row, moved, symbols), **quotes[row.id]}
        for row, moved in zip(rows, changes, strict=True)
    ]
