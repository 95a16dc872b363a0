"""Results of a bot's sales by token."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from chain.ledger.inventory import SOL
from storage.rows import select, select_one
from web.api import market
from web.api.serialize import Json, fill
from web.api.shapes import Address, TypedDict, Untrusted, Whole, described

# The best and the worst tokens, this many of each, on a page.
MAX_TOKENS = 5
# Tokens in the full list.
MAX_LISTED = 20


class TokenResult(TypedDict):
    """Results of a bot's sales of a token, in SOL."""

    mint: Address
    symbol: Untrusted | None
    realizedLamports: Whole
    sells: Annotated[int, described("with a result")]
    winningSells: int


class Span(NamedTuple):
    """A wallet and the number of one of its attachments, or 0 for its whole history."""

    wallet_id: int
    span: int


class TokenRow(NamedTuple):
    """Results of sales of a token: lamports and counts."""

    mint: str
    realized: int
    sales: int
    winning: int


class TokenCountRow(NamedTuple):
    """How many tokens were sold, and how many of them at a profit."""

    tokens: int
    winning: int


SPANS = """
SELECT a.wallet_id, 0 AS span FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? AND a.detached_at IS NULL AND w.forward_realized IS NOT NULL
"""
# A single span is read by its index, so the number of tokens doesn't matter.
OF_SPAN = f"wallet_id = ? AND money = '{SOL}' AND view = ?"
OF_ONE = f"SELECT mint, realized, sales, winning FROM token_total WHERE {OF_SPAN}"
OF_MANY = """
SELECT mint, CAST(SUM(realized) AS BIGINT) AS realized, SUM(sales) AS sales, SUM(winning) AS winning
FROM token_total WHERE {} GROUP BY mint"""
COUNT = "SELECT COUNT(*) AS tokens, COUNT(CASE WHEN realized > 0 THEN 1 END) AS winning FROM ({}) t"
# One page, best first: below a result, or with the same result and a later mint.
LISTED = """
SELECT mint, realized, sales, winning FROM ({}) t WHERE realized < ? OR realized = ? AND mint > ?
ORDER BY realized DESC, mint LIMIT ?"""
ABOVE_ALL = (2**62, "")


def show_ends(bot_id: int) -> Json | None:
    """Return a bot's token count, how many were profitable, and its best and worst tokens. None if
    nothing was derived.
    """
    spans = select(Span, SPANS, [bot_id])
    if not spans:
        return None
    sql, values = write_totals(spans)
    best, worst = (show_tokens(rows) for rows in find_ends(spans, MAX_TOKENS))
    counted = select_one(TokenCountRow, COUNT.format(sql), values) or TokenCountRow(0, 0)
    return {**counted._asdict(), "best": best, "worst": worst}


def write_totals(spans: Sequence[Span]) -> tuple[str, list[Any]]:
    """Return SQL for the combined TokenRows of these spans, and its values."""
    sql = OF_ONE if len(spans) == 1 else OF_MANY.format(" OR ".join([f"({OF_SPAN})"] * len(spans)))
    return sql, [number for span in spans for number in span]


def find_ends(spans: Sequence[Span], limit: int) -> list[list[TokenRow]]:
    sql, values = write_totals(spans)
    return [
        select(TokenRow, f"{sql} ORDER BY realized {way}, mint LIMIT {limit}", values)
        for way in ("DESC", "ASC")
    ]


def list_by_token(bot_id: int) -> list[TokenResult] | None:
    """List the MAX_LISTED tokens that changed a bot's results most, best first."""
    spans = select(Span, SPANS, [bot_id])
    if not spans:
        return None
    # Those tokens are among the first at one of the two ends, which an index finds.
    found = {row.mint: row for rows in find_ends(spans, MAX_LISTED) for row in rows}
    ranked = sorted(found.values(), key=lambda row: (-abs(row.realized), row.mint))[:MAX_LISTED]
    return show_tokens(sorted(ranked, key=lambda row: (-row.realized, row.mint)))


def list_tokens(bot_id: int, limit: int, after: tuple[int, str] | None) -> list[TokenRow]:
    spans = select(Span, SPANS, [bot_id])
    if not spans:
        return []
    sql, values = write_totals(spans)
    realized, mint = after or ABOVE_ALL
    return select(TokenRow, LISTED.format(sql), [*values, realized, realized, mint, limit])


def show_tokens(rows: Sequence[TokenRow]) -> list[TokenResult]:
    symbols = market.find_symbols(sorted(row.mint for row in rows))
    return [
        fill(
            TokenResult,
            row,
            symbol=symbols.get(row.mint),
            sells=row.sales,
            winningSells=row.winning,
        )
        for row in rows
    ]
