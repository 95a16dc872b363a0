"""One close of a paper trader with everything its page shows: decisions, fills with their quotes,
and the price path. All simulated.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from paper.account import public_id
from storage.rows import select, select_one, write_marks
from web.api.paper_brain import show_line
from web.api.paper_records import show_close, show_fill, show_models
from web.api.paper_statements import (
    DECISIONS,
    FILLS_OF_ONE,
    ONE_CLOSE,
    CloseRow,
    DiaryRow,
    FillRow,
)

Json = dict[str, Any]
# How much of the price path to show before the first decision and after the last fill.
MARGIN_MS = 600_000
MAX_PATH_ROWS = 5_000


class HolderRow(NamedTuple):
    """A trader's data for its closes. `next_position`: one above the highest number in use."""

    id: int
    uid: str
    handle: str
    name: str
    family: str
    next_position: int


HOLDER = """
SELECT t.id, t.uid, t.handle, t.name, t.family, p.next_position FROM trader t
JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL AND p.twin = 0 WHERE t.uid = ?"""


class QuoteRow(NamedTuple):
    """A snapshot that a decision or a fill refers to. Prices and sums are exact text."""

    id: int
    price_sol: str | None
    liquidity_usd: str | None
    market_cap_usd: str | None
    venue: str | None
    pair: str | None


QUOTES = """
SELECT id, price_sol, liquidity_usd, market_cap_usd, venue, pair FROM snapshot WHERE id IN ({})"""


class PathRow(NamedTuple):
    """A price at a time, in ms."""

    id: int
    at: int
    price_sol: str


PATH = """
SELECT id, taken_at AS at, price_sol FROM snapshot
WHERE token_id = (SELECT id FROM token WHERE mint = ?) AND taken_at BETWEEN ? AND ?
AND price_sol IS NOT NULL ORDER BY taken_at, id LIMIT ?"""


@dataclass(frozen=True)
class QuotedFill:
    """A fill with the quotes of its decision and execution. `row`: amounts in lamports; `paid`: SOL
    per token in the pool, excluding the pool's and network fees; None for a failed attempt.
    """

    shown: Json
    row: FillRow
    decided: QuoteRow | None
    filled: QuoteRow | None
    paid: Decimal | None


@dataclass(frozen=True)
class CloseStory:
    """A close with everything its page shows. `decisions`: DiaryLines; `path`: in order."""

    trader: HolderRow
    close: Json
    models: list[Json]
    decisions: list[Json]
    fills: list[QuotedFill]
    path: list[PathRow]


def find_story(trader_uid: str, close_id: str) -> CloseStory | None:
    """Return what a close's page shows; None if trader or close is unknown."""
    trader = select_one(HolderRow, HOLDER, (trader_uid,))
    number = trader and find_number(trader, close_id)
    if trader is None or number is None:
        return None
    row = select_one(CloseRow, ONE_CLOSE, (trader.id, number))
    if row is None:
        return None
    fills = select(FillRow, FILLS_OF_ONE, (trader.id, number))
    return CloseStory(
        trader,
        show_close(trader.handle, row, [show_fill(one) for one in fills]),
        show_models(),
        _list_decisions(trader, row.number, fills),
        quote_fills(fills, row.decimals),
        _list_path(row, fills),
    )


def find_number(trader: HolderRow, close_id: str) -> int | None:
    """Return the number of the position with this public ID, which is derived from the number."""
    numbers = range(1, trader.next_position)
    return next((n for n in numbers if public_id(trader.handle, "close", n) == close_id), None)


def _list_decisions(trader: HolderRow, number: int, fills: list[FillRow]) -> list[Json]:
    times = sorted({one.decided_at for one in fills})
    lines = select(DiaryRow, DECISIONS.format(write_marks(times)), (trader.id, *times))
    return [show_line(trader.handle, line) for line in lines if line.closed == number]


def quote_fills(fills: Iterable[FillRow], decimals: int) -> list[QuotedFill]:
    """Return fills with the quotes of their decision and execution."""
    fills = list(fills)
    ids = sorted({one for fill in fills for one in (fill.decided_on, fill.snapshot)})
    quotes = {one.id: one for one in select(QuoteRow, QUOTES.format(write_marks(ids)), ids)}
    return [
        QuotedFill(
            show_fill(fill),
            fill,
            quotes.get(fill.decided_on),
            quotes.get(fill.snapshot),
            find_price_paid(fill, decimals),
        )
        for fill in fills
    ]


def find_price_paid(fill: FillRow, decimals: int) -> Decimal | None:
    """Return the SOL per token that moved in the pool; None for a failed attempt."""
    raw = int(fill.raw)
    if fill.failed or not raw:
        return None
    moved = fill.mid + fill.slippage if fill.side == "buy" else fill.mid - fill.slippage
    return Decimal(moved).scaleb(decimals - 9) / raw


def _list_path(row: CloseRow, fills: list[FillRow]) -> list[PathRow]:
    begins = min([row.opened_at, *(one.decided_at for one in fills)])
    ends = max([row.closed_at, *(one.at for one in fills)])
    return select(PathRow, PATH, (row.mint, begins - MARGIN_MS, ends + MARGIN_MS, MAX_PATH_ROWS))
