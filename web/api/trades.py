"""Trades as the interface shows them, with results in SOL and in stablecoins."""

from collections.abc import Iterable, Sequence

from storage.rows import is_damaged
from web.api import market
from web.api.quote_trades import show_in_quote
from web.api.serialize import Json, list_moved, show_activity, show_trade
from web.api.statements import ActivityRow, TradeRow


def show_trades(rows: Sequence[TradeRow]) -> list[Json]:
    """Make Trades, with the symbols the market knows (hostile text, like all names). One that is
    damaged is left out: `doctor` names it, `rebuild` repairs it.
    """
    rows = [row for row in rows if not is_damaged(row)]
    changes = (change for row in rows for change in (*row.token_changes, *row.beside_tokens))
    symbols = market.find_symbols(sorted({mint for mint, _, _ in changes}))
    scales = market.read_scales() if rows else {}
    return [
        {**show_trade(row, symbols, scales), **show_in_quote(row, row.kind, row.flags)}
        for row in rows
    ]


def show_activities(rows: Iterable[ActivityRow], mint: str) -> list[Json]:
    """Make the ActivityRows of a token."""
    scales = market.read_scales()
    return [show_activity(row, mint, scales) for row in list_moving(rows, mint)]


def list_moving(rows: Iterable[ActivityRow], mint: str) -> list[ActivityRow]:
    """List those of the rows that can be read and say what they moved of the token."""
    return [
        row
        for row in rows
        if not is_damaged(row) and any(change.mint == mint for change in list_moved(row))
    ]
