"""Attachments: which wallets bots hold now, the spans of a wallet, and what is held in them."""

import storage
from chain.ledger.views import Holdings, Span
from storage import Rows

# The numbers of the wallets that bots hold now, each once.
HELD = "(SELECT wallet_id FROM attachment WHERE detached_at IS NULL)"
# Their count, from the index of open rows alone.
COUNT_HELD = "(SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL)"
# Whether a bot holds wallet `w`, for a query of few wallets.
IS_HELD = """EXISTS (
SELECT 1 FROM attachment a WHERE a.wallet_id = w.id AND a.detached_at IS NULL)"""
# The attachment of bot `b` that leads: of those it holds, the first.
LEAD = """(
SELECT l.id FROM attachment l WHERE l.bot_id = b.id AND l.detached_at IS NULL
ORDER BY l.attached_at, l.id LIMIT 1)"""
# The same, where the attachments of a retired bot are those that ended with it.
LAST_LEAD = """(
SELECT l.id FROM attachment l
WHERE l.bot_id = b.id AND (l.detached_at IS NULL OR l.detached_at = b.retired_at)
ORDER BY l.attached_at, l.id LIMIT 1)"""
# Plain SQL: it runs before each step of a poll, and peewee would take longer to build it than
# SQLite to run it.
SPANS = "SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = {wallet}"
HOLDINGS = f"SELECT id, {', '.join(Holdings._fields)} FROM attachment WHERE wallet_id = {{wallet}}"
REPLACE_HOLDINGS = f"""
UPDATE attachment SET {", ".join(f"{name} = ?" for name in Holdings._fields)} WHERE id = ?"""


def read_spans(rows: Rows, wallet_id: int) -> tuple[Span, ...]:
    """The attachments of a wallet in the order in which they began, then were made."""
    spans = (Span(*row) for row in rows(SPANS.format(wallet=wallet_id)))
    return tuple(sorted(spans, key=lambda span: (span.begins_ms, span.number)))


def replace_holdings(wallet_id: int, right: dict[int, Holdings]) -> bool:
    """Write what spans hold, in the caller's transaction; return whether anything moved."""
    if not right:
        return False
    stored = {
        number: Holdings(*held)
        for number, *held in storage.read_rows(HOLDINGS.format(wallet=wallet_id))
    }
    moved = {number: held for number, held in right.items() if stored.get(number) != held}
    for number, holdings in moved.items():
        storage.database.execute_sql(REPLACE_HOLDINGS, (*holdings, number))
    return bool(moved)
