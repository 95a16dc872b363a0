"""Trades as the interface shows them, with results in SOL and in stablecoins."""

import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

from chain.stored import TRADE_COLUMNS, read_stored
from web.api import market, quote_trades
from web.api.serialize import Json, list_moved, parse_changes, show_activity, show_trade
from web.api.statements import ActivityRow, TradeRow

Row = TypeVar("Row", TradeRow, ActivityRow)
log = logging.getLogger("candor")


def show_trades(rows: Sequence[TradeRow]) -> list[Json]:
    """Make Trades, with the symbols the market knows (hostile text, like all names)."""
    rows = leave_damaged(rows)
    changes = [parse_changes(row.token_changes) for row in rows]
    beside = [parse_changes(row.beside_tokens) for row in rows]
    mints = {change.mint for moved in (*changes, *beside) for change in moved}
    symbols = market.find_symbols(sorted(mints))
    quotes = quote_trades.find_quotes(rows)
    return [
        {**show_trade(row, moved, symbols), **quotes[row.id]}
        for row, moved in zip(rows, changes, strict=True)
    ]


def show_activities(rows: Iterable[ActivityRow], mint: str) -> list[Json]:
    """Make the ActivityRows of a token."""
    return [show_activity(row, mint) for row in list_moving(rows, mint)]


def list_moving(rows: Iterable[ActivityRow], mint: str) -> list[ActivityRow]:
    """List those of the rows that can be read and say what they moved of the token."""
    return [
        row for row in leave_damaged(rows) if any(change.mint == mint for change in list_moved(row))
    ]


def leave_damaged(rows: Iterable[Row]) -> list[Row]:
    """Leave out the trades of which a stored column is damaged, as by a fault of the disk: what
    they did is not known. `doctor` names them, `rebuild` mends them.
    """
    return [row for row in rows if not _is_damaged(row)]


def _is_damaged(row: TradeRow | ActivityRow) -> bool:
    columns = row._asdict()
    damaged = [
        name
        for name, shape in TRADE_COLUMNS.items()
        if name in columns and read_stored(columns[name], shape) is None
    ]
    if damaged:
        # At each reading until it is mended: web.server.logs writes a line that repeats once.
        log.warning("trade %s cannot be read: %s", row.signature, ", ".join(damaged))
    return bool(damaged)
