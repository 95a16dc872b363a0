"""What a bot's sales earned by token: the best and the worst ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from chain.ledger.inventory import SOL
from storage.rows import select, select_one
from web.api import market
from web.api.serialize import Json

# Tokens that are listed at each end.
MAX_TOKENS = 5
# Tokens that are listed in all.
MAX_LISTED = 20


class Span(NamedTuple):
    """A wallet and the number of an attachment of it, or 0 for all that it ever did."""

    wallet_id: int
    span: int


class TokenRow(NamedTuple):
    """What sales of a token earned: lamports and counts."""

    mint: str
    realized: int
    sales: int
    winning: int


class TokenCountRow(NamedTuple):
    """How many tokens were sold, and with how many the sales together gained."""

    tokens: int
    winning: int


SPANS_OF_RECORD = """
SELECT wallet_id, id AS span FROM attachment WHERE bot_id = ? AND forward_realized IS NOT NULL
"""
SPANS_OF_RESULTS = """
SELECT a.wallet_id, 0 AS span FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? AND a.detached_at IS NULL AND w.forward_realized IS NOT NULL
"""
# {}: which spans. One span alone is read by its index, whatever the number of its tokens.
OF_SPAN = f"wallet_id = ? AND money = '{SOL}' AND view = ?"
OF_ONE = f"SELECT mint, realized, sales, winning FROM token_total WHERE {OF_SPAN}"
OF_MANY = """
SELECT mint, CAST(SUM(realized) AS BIGINT) AS realized, SUM(sales) AS sales, SUM(winning) AS winning
FROM token_total WHERE {} GROUP BY mint"""
COUNT = "SELECT COUNT(*) AS tokens, COUNT(CASE WHEN realized > 0 THEN 1 END) AS winning FROM ({}) t"


def show_token_results(bot: Json, bot_id: int) -> Json:
    """Make the TokenResults of a Bot: of all its wallet did, and of its record; null where its
    risk is.
    """
    results, record = (select(Span, sql, [bot_id]) for sql in (SPANS_OF_RESULTS, SPANS_OF_RECORD))
    return {
        "results": None if bot["riskReason"] else show_spans(results),
        "record": show_spans(record),
    }


def show_spans(spans: Sequence[Span]) -> Json | None:
    """Make the TokenList of these spans together; None without any."""
    if not spans:
        return None
    sql, values = write_totals(spans)
    ends = find_ends(spans, MAX_TOKENS)
    symbols = market.find_symbols(sorted({row.mint for rows in ends for row in rows}))
    best, worst = ([show_token(row, symbols) for row in rows] for rows in ends)
    counted = select_one(TokenCountRow, COUNT.format(sql), values) or TokenCountRow(0, 0)
    return {**counted._asdict(), "best": best, "worst": worst}


def write_totals(spans: Sequence[Span]) -> tuple[str, list[Any]]:
    """SQL of the TokenRows of these spans together, and its values."""
    sql = OF_ONE if len(spans) == 1 else OF_MANY.format(" OR ".join([f"({OF_SPAN})"] * len(spans)))
    return sql, [number for span in spans for number in span]


def find_ends(spans: Sequence[Span], limit: int) -> list[list[TokenRow]]:
    """The tokens that earned most, and those that earned least."""
    sql, values = write_totals(spans)
    return [
        select(TokenRow, f"{sql} ORDER BY realized {way}, mint LIMIT {limit}", values)
        for way in ("DESC", "ASC")
    ]


def list_by_token(bot: Json, bot_id: int) -> list[Json] | None:
    """List the TokenSums of all that a bot's wallet did, the best first: of the MAX_LISTED tokens
    that moved its results most. None where its risk is.
    """
    spans = select(Span, SPANS_OF_RESULTS, [bot_id])
    if bot["riskReason"] or not spans:
        return None
    # Whatever moved results most is among the first at one of the ends, which an index finds.
    found = {row.mint: row for rows in find_ends(spans, MAX_LISTED) for row in rows}
    ranked = sorted(found.values(), key=lambda row: (-abs(row.realized), row.mint))[:MAX_LISTED]
    symbols = market.find_symbols(sorted(row.mint for row in ranked))
    return [
        {
            "mint": row.mint,
            "symbol": symbols.get(row.mint),
            "realizedLamports": str(row.realized),
            "sells": row.sales,
            "wins": row.winning,
        }
        for row in sorted(ranked, key=lambda row: (-row.realized, row.mint))
    ]


def show_token(row: TokenRow, symbols: dict[str, str]) -> Json:
    """Make the TokenResult."""
    return {
        "mint": row.mint,
        "symbol": symbols.get(row.mint),
        "realizedLamports": str(row.realized),
        "sells": row.sales,
        "winningSells": row.winning,
    }
