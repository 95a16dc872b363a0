"""The spans of a wallet's attachments, and what is held in them, as it is stored."""

from collections.abc import Iterable

import storage
from chain.ledger.forward import Span, SpanHoldings

# Plain SQL: it runs before each step of a poll, and peewee would take longer to build it than
# SQLite to run it.
SPANS = "SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = ?"
HOLDINGS = f"SELECT id, {', '.join(SpanHoldings._fields)} FROM attachment WHERE id IN"
REPLACE_HOLDINGS = f"""
UPDATE attachment SET {", ".join(f"{name} = ?" for name in SpanHoldings._fields)} WHERE id = ?"""


def read_spans(wallet_id: int) -> tuple[Span, ...]:
    """The attachments of a wallet, in order."""
    rows = storage.database.execute_sql(SPANS, (wallet_id,)).fetchall()
    return sort_spans(Span(*row) for row in rows)


def sort_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """In the order in which they began; of the same moment, as they were made."""
    return tuple(sorted(spans, key=lambda span: (span.begins_ms, span.number)))


def replace_holdings(right: dict[int, SpanHoldings]) -> bool:
    """Write what spans hold, in the caller's transaction; return whether anything moved."""
    if not right:
        return False
    sql = f"{HOLDINGS} ({storage.mark(right)})"
    rows = storage.database.execute_sql(sql, list(right)).fetchall()
    stored = {number: SpanHoldings(*held) for number, *held in rows}
    moved = {number: held for number, held in right.items() if stored.get(number) != held}
    for number, holdings in moved.items():
        storage.database.execute_sql(REPLACE_HOLDINGS, (*holdings, number))
    return bool(moved)
