"""The spans of a wallet's attachments, and what is held in them, as it is stored."""

import storage
from chain.ledger.views import Holdings, Span
from chain.stored.totals import Rows

# Plain SQL: it runs before each step of a poll, and peewee would take longer to build it than
# SQLite to run it.
SPANS = "SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = {wallet}"
HOLDINGS = f"SELECT id, {', '.join(Holdings._fields)} FROM attachment WHERE wallet_id = {{wallet}}"
REPLACE_HOLDINGS = f"""
UPDATE attachment SET {", ".join(f"{name} = ?" for name in Holdings._fields)} WHERE id = ?"""


def read_spans(rows: Rows, wallet_id: int) -> tuple[Span, ...]:
    """The attachments of a wallet, in the order in which they began; of the same moment, as they
    were made.
    """
    spans = (Span(*row) for row in rows(SPANS.format(wallet=wallet_id)))
    return tuple(sorted(spans, key=lambda span: (span.begins_ms, span.number)))


def replace_holdings(wallet_id: int, right: dict[int, Holdings]) -> bool:
    """Write what spans hold, in the caller's transaction; return whether anything moved."""
    if not right:
        return False
    rows = storage.database.execute_sql(HOLDINGS.format(wallet=wallet_id)).fetchall()
    stored = {number: Holdings(*held) for number, *held in rows}
    moved = {number: held for number, held in right.items() if stored.get(number) != held}
    for number, holdings in moved.items():
        storage.database.execute_sql(REPLACE_HOLDINGS, (*holdings, number))
    return bool(moved)
